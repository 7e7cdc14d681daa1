"""Counts of Dev et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evenli.reproduction.ledger import Published, Row, chapter
from evenli.suites.dev2020.build import load_dev_lists


@chapter
def counts(data: Path | None) -> Iterator[Row]:
    """Templates and pairs of the generator, from lists of the published sizes."""
    lists, two = load_dev_lists(), load_dev_lists(group_words=("man", "woman"))
    own = "own nouns in lists of the published sizes; the original lists carry no licence"
    generator = Published("Dev et al. 2020, released generator", reason=own)
    yield generator.row("templates", 1968, len(lists.templates))
    yield generator.row("occupations", 164, len(lists.occupations))
    yield generator.row("pairs, six gendered words", 1_936_512, lists.pairs)
    yield generator.row("pairs, man and woman", 645_504, two.pairs)
