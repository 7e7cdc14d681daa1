"""Word lists, templates and axes that ship with the package, each with a provenance card.

A resource is two files in ``data/``: the table itself and a TOML card of the same stem that states
title, source, licence, date and SHA-256; ``Card.verify`` checks the hash.
"""

from evenli.words.axes import Axis, Occupation, axis_names, load_axis
from evenli.words.tables import cards, read_lines, read_table, word_classes

__all__ = ["Axis", "Occupation", "axis_names", "cards", "load_axis", "read_lines", "read_table", "word_classes"]
