"""The questions of an audit for other evaluation libraries: they ask and count tokens, evenli builds and scores.

A question is one pair in one view, as a plain dictionary. ``score`` takes what a model said to all of them and gives
the results of an audit: competence, measures with intervals, verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, TypedDict

import numpy as np
import polars as pl

from evenli.audit.assess import assess
from evenli.audit.predictions import COLUMNS, Predictions
from evenli.audit.results import AuditResult
from evenli.audit.suites.base import Request as PairRequest
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.core.errors import InputError
from evenli.core.labels import LABELS
from evenli.core.registry import DEFAULT_SUITE
from evenli.llm import prompts

Answer = tuple[str, tuple[float, ...], float]
"""Key of a question, log-probability of each label in the order of LABELS, and their mass."""


class Question(TypedDict):
    """One pair in one view."""

    key: str
    text: str
    answers: list[str]  # what stands for the labels, in the order of LABELS
    gold: str
    view: str


def questions(lang: str = "en", count: int = 1, orders: int = 3) -> list[Question]:
    """Every pair of the suite, and the pairs that show competence, in every view."""
    views = prompts.make_views(lang, count, orders)
    return [
        {
            "key": f"{row}/{at}",
            "text": view.text(pair["premise"], pair["hypothesis"]),
            "answers": [view.answers[label] for label in LABELS],
            "gold": pair["gold"] or "",
            "view": view.name,
        }
        for row, pair in enumerate(_pairs(lang)[0].iter_rows(named=True))
        for at, view in enumerate(views)
    ]


def parse(lang: str, view: str, text: str) -> str | None:
    """The label that a generated answer gives, or None."""
    # All views that there are: the name of one does not say how many were asked.
    known = {candidate.name: candidate for candidate in prompts.make_views(lang, len(prompts.prompts(lang)), 6)}
    return known[view].parse(text)


def score(answers: Iterable[Answer], lang: str = "en", count: int = 1, orders: int = 3) -> AuditResult:
    """The audit that the answers make; pairs that were not asked in every view are left out."""
    views = prompts.make_views(lang, count, orders)
    frame, cards = _pairs(lang)
    scores = np.full((frame.height, len(views), len(LABELS)), np.nan)
    mass = np.full((frame.height, len(views)), np.nan)
    for key, values, share in answers:
        row, _, at = key.partition("/")
        scores[int(row), int(at)], mass[int(row), int(at)] = values, share
    # A limit of the other library may cut a pair in two; only whole ones count.
    asked = ~np.isnan(mass).any(axis=1)
    if not (frame["suite"].to_numpy()[asked] == DEFAULT_SUITE).any():
        raise InputError(f"no pair of suite {DEFAULT_SUITE} was asked in all {len(views)} views")
    numbers = prompts.combine(scores[asked], mass[asked], views)
    names = (*LABELS, *prompts.details(views))
    table = frame.filter(pl.Series(asked)).with_columns(
        **{name: numbers[:, column] for column, name in enumerate(names)}
    )
    header = {"data": cards, "prompting": prompts.card(views)}
    return assess(Predictions(table.select(*COLUMNS, *names[len(LABELS) :]), header))


@lru_cache(maxsize=4)
def _pairs(lang: str) -> tuple[pl.DataFrame, Sequence[dict[str, Any]]]:
    sets = [gold_pairs(lang), control_pairs(lang), load_suite(DEFAULT_SUITE, PairRequest(lang))]
    columns = COLUMNS[1 : -len(LABELS)]
    frame = pl.concat([pairs.frame.select(pl.lit(pairs.suite).alias("suite"), *columns) for pairs in sets])
    return frame, [pairs.card().to_dict() for pairs in sets]
