"""Fairer corpora: subtraction, augmentation, swapped training files."""
