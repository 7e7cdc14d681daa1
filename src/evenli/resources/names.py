"""First names that are also something else."""

from __future__ import annotations

from functools import lru_cache

from evenli.resources.store import read_table


@lru_cache(maxsize=1)
def name_kinds() -> dict[str, frozenset[str]]:
    """What else a first name can be (``word``, ``time``, ``place``, ``never``), by name; a name not listed is no other.

    >>> sorted(name_kinds()["May"])
    ['time', 'word']
    """
    kinds: dict[str, frozenset[str]] = {}
    for row in read_table("swap_name_words.csv", ("name", "kind")):
        kinds[row["name"]] = kinds.get(row["name"], frozenset()) | {row["kind"]}
    return kinds
