"""Sentence encoders: loading, the gender direction, association tests, transfer tasks, erasers, and their report."""
