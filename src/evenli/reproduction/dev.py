"""Counts of Dev et al. 2020."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from evenli.reproduction.ledger import Row, chapter
from evenli.suites.dev2020.build import load_dev_lists

_SOURCE = "Dev et al. 2020, released generator"


@chapter
def counts(data: Path | None) -> Iterator[Row]:
    """Templates and pairs of the generator, from lists of the published sizes."""
    lists = load_dev_lists()
    reason = "own nouns in lists of the published sizes; the original lists carry no licence"
    yield Row("templates", _SOURCE, 1968, len(lists.templates), reason=reason)
    yield Row("occupations", _SOURCE, 164, len(lists.occupations), reason=reason)
    yield Row("pairs, six gendered words", _SOURCE, 1_936_512, lists.pairs, reason=reason)
    two = load_dev_lists(group_words=("man", "woman"))
    yield Row("pairs, man and woman", _SOURCE, 645_504, two.pairs, reason=reason)
