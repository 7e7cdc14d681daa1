"""Mitigation: corpora and vectors in, fairer ones out."""

from evenli.mitigation.augment import Augmented, swap_augment
from evenli.mitigation.swap import Change, Swapper

__all__ = ["Augmented", "Change", "Swapper", "swap_augment"]
