"""Whose stereotypes: the same answers, scored by the ratings of other people."""

from __future__ import annotations

import polars as pl

from evenli.predictions import Predictions
from evenli.resources import Axis, load_axis
from evenli.resources.axes import NO_STEREOTYPE, shipped_names
from evenli.stats.intervals import Scoring, estimate_measures
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from evenli.suites.base import PUBLISHED
from evenli.suites.coal.build import AS, NS, PS
from evenli.suites.groups.build import STEREOTYPED
from evenli.types import DataCard, Estimate, Record

_SCORES = {"stereotype": "stereotype_n", "coal": "coal_n"}


class PoolRow(Record, frozen=True):
    """Scores by the ratings of one pool of people.

    Attributes:
        pool: Name of the list: ``published`` is the axis' own.
        words: Words that have a stereotype by these ratings.
        stereotype: The measure ``stereotype_n``.
        coal: The measure ``coal_n``.
    """

    pool: str
    words: int
    stereotype: Estimate
    coal: Estimate


def pools(sample: Sample, scoring: Scoring, card: DataCard | None) -> list[PoolRow]:
    """A row for each list of a shipped axis that rates every word of the run, its own first; none if it is alone.

    Which answers a model gives does not depend on who rated a word, so that one run can be scored by all of them.
    """
    name = str(sample.header.get("settings", {}).get("axis", "gender"))
    if card is None or name not in shipped_names() or card.lang not in load_axis(name).languages:
        return []
    axis, words = load_axis(name), set(sample.frame["occupation"])
    own = card.occupation_list or PUBLISHED
    rated = {pool: groups for pool, groups in _ratings(axis, card.lang).items() if words <= groups.keys()}
    if own not in rated or len(rated) < 2:
        return []
    return [_row(pool, rated[pool], sample, scoring) for pool in sorted(rated, key=lambda pool: pool != own)]


def _ratings(axis: Axis, lang: str) -> dict[str, dict[str, tuple[str, ...]]]:
    ratings = {PUBLISHED: {one.word: one.groups for one in axis.occupations(lang)}}
    for name in axis.language(lang).lists:
        if axis.suite == "groups":
            ratings[name] = {one.word: one.groups for one in axis.read_list(lang, name)}
    return ratings


def _row(pool: str, groups: dict[str, tuple[str, ...]], sample: Sample, scoring: Scoring) -> PoolRow:
    subsets = [
        NS if not groups[word] else PS if group in groups[word] else AS
        for word, group in sample.frame.select("occupation", "group").iter_rows()
    ]
    kinds = [NO_STEREOTYPE if subset == NS else STEREOTYPED for subset in subsets]
    frame = sample.frame.with_columns(subset=pl.Series(subsets), stereotype=pl.Series(kinds))
    other = Sample(Predictions(frame, sample.header), published=sample.published)
    entries = {key: get_measure(measure) for key, measure in _SCORES.items()}
    estimates = estimate_measures(other, list(entries.values()), [None], scoring)
    typed = len({word for word in sample.frame["occupation"] if groups[word]})
    return PoolRow(pool, typed, **{key: estimates[entry.name, None] for key, entry in entries.items()})
