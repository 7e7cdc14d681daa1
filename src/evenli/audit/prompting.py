"""What language models add: abstentions, and how far answers hang on wording, option order and place.

These are means over all rows of a suite, so their intervals come from occupations and templates like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.predictions import ABSTAINED, MASS, MINIMUM_MASS, Predictions
from evenli.core.labels import LABELS
from evenli.core.record import MeasureResult, Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import Measure
from evenli.stats.sample import Sample, Values

NO_ANSWER = -1
"""Stands for an abstention among label numbers."""


def prompting_measures(predictions: Predictions, scoring: Scoring | None = None) -> dict[str, MeasureResult]:
    """Every measure of this page, with intervals; by gender also the abstentions of each group."""
    sample = Sample(predictions)
    entries = _entries(sample, predictions.abstained.astype(np.float32))
    estimates = estimate_measures(sample, entries, [None], scoring)
    return {entry.name: entry.result(estimates[entry.name, None]) for entry in entries}


def view_answers(frame: pl.DataFrame) -> dict[tuple[str, str], NDArray[np.int64]]:
    """Label numbers by prompt and option order, ``NO_ANSWER`` where the mass is too small."""
    answers = {}
    for column in frame.columns:
        view, colon, part = column.rpartition(":")
        if not colon or part != MASS:
            continue
        prompt, _, order = view.rpartition("-")
        names = [f"{view}:{label}" for label in LABELS]
        if not set(names) <= set(frame.columns):  # a stored table may have been edited
            return {}
        chosen = frame.select(names).to_numpy().argmax(axis=1)
        answers[prompt, order] = np.where(frame[column].to_numpy() >= MINIMUM_MASS, chosen, NO_ANSWER)
    return answers


def _prompt_answers(frame: pl.DataFrame, prompt: str, orders: list[str]) -> NDArray[np.int64]:
    """Label numbers of one prompt: log-probabilities averaged over its orders, each renormalised."""
    total = np.zeros((frame.height, len(LABELS)))
    answered = np.zeros(frame.height)
    for order in orders:
        scores = frame.select([f"{prompt}-{order}:{label}" for label in LABELS]).to_numpy().astype(np.float64)
        total += scores - np.logaddexp.reduce(scores, axis=1, keepdims=True)
        answered += frame[f"{prompt}-{order}:{MASS}"].to_numpy() >= MINIMUM_MASS
    # What most of its orders leave without an answer has none.
    return np.where(2 * answered > len(orders), total.argmax(axis=1), NO_ANSWER)


def _alike(answers: list[NDArray[np.int64]]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether all answers of a pair are the same, and whether there is any; silence is no answer, also not the same."""
    same = np.all([answer == answers[0] for answer in answers], axis=0) & (answers[0] != NO_ANSWER)
    return np.asarray(same), np.any([answer != NO_ANSWER for answer in answers], axis=0)


def _entries(sample: Sample, abstained: NDArray[np.float32]) -> list[Measure]:
    views = view_answers(sample.frame)
    prompts = list(dict.fromkeys(prompt for prompt, _ in views))
    orders = list(dict.fromkeys(order for _, order in views))
    if len(views) < len(prompts) * len(orders):  # not every wording in every order: nothing to compare
        views, prompts, orders = {}, [], []
    entries = [_share(ABSTAINED, "Abstentions", "share of pairs without an answer", abstained, 0, "more abstentions")]
    entries += _by_group(sample, abstained)
    if len(orders) > 1:
        pairs = [_alike([views[prompt, order] for order in orders]) for prompt in prompts]
        # Wordings without an answer in any order count neither for nor against.
        same, some = (np.sum(part, axis=0) for part in zip(*pairs, strict=True))
        text = "of the wordings answered in any option order, the share answered alike in all, mean over pairs"
        agree = same / np.maximum(some, 1)
        entries.append(_share("order_agreement", "Order agreement", text, agree, 1, "steadier", some > 0))
        # Orders are initials, as in NCE.
        numbers = {label[0].upper(): number for number, label in enumerate(LABELS)}
        first = np.array([numbers.get(order[:1], NO_ANSWER) for _, order in views])
        answers = np.stack(list(views.values()))
        given = answers != NO_ANSWER
        share = (given & (answers == first[:, None])).sum(axis=0) / np.maximum(given.sum(axis=0), 1)
        text = "of a pair's answers, the share that is the option listed first, mean over pairs; 1/3 without preference"
        some = given.any(axis=0)
        entries.append(_share("first_option", "First option chosen", text, share, 1 / 3, "prefers the first", some))
    if len(prompts) > 1:
        alike, answered = _alike([_prompt_answers(sample.frame, prompt, orders) for prompt in prompts])
        text = "of the pairs answered in any wording, the share answered alike in all, each averaged over option orders"
        entries.append(_share("prompt_agreement", "Wording agreement", text, alike, 1, "steadier", answered))
    mass = sample.frame[MASS].to_numpy()
    text = "mean probability that the three labels have together"
    return [*entries, _share("label_mass", "Label mass", text, mass, 1, "more of the probability")]


def _share(
    name: str,
    title: str,
    formula: str,
    values: NDArray[Any],
    ideal: float,
    direction: str,
    rows: NDArray[np.bool_] | None = None,
) -> Measure:
    def function(sample: Sample, stereotype: str | None = None) -> Values:
        return sample.mean(np.asarray(values, dtype=np.float32), None, stereotype, rows)

    return Measure(name, title, formula, function, 0, 1, ideal, direction, "evenli")


def _by_group(sample: Sample, abstained: NDArray[np.float32]) -> list[Measure]:
    """Abstentions by the group that the hypothesis names, and their difference where there are two."""
    groups = sorted(sample.frame["group"].drop_nulls().unique())
    masks = {group: sample.where("group", group) for group in groups}
    entries = [
        _share(f"abstained_{group}", f"  hypothesis names {group}", f"the same for {group}", abstained, 0, "", mask)
        for group, mask in masks.items()
    ]
    if len(groups) == 2:
        first, second = masks.values()

        def gap(sample: Sample, stereotype: str | None = None) -> Values:
            return sample.mean(abstained, rows=first) - sample.mean(abstained, rows=second)

        formula = f"abstentions for {groups[0]} minus abstentions for {groups[1]}"
        direction = f"abstains more for {groups[0]}"
        entries.append(Measure("abstention_gap", "  difference", formula, gap, -1, 1, 0, direction, "evenli"))
    return entries
