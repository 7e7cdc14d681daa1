"""The sentences of a scored corpus that lean most to either side (Tables 3, 14 and 15 of Dolci et al. 2023)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from evenli.corpus.scored import CorpusScores

if TYPE_CHECKING:
    import polars as pl

SIDES = {"female": "F", "male": "M"}


def top_sentences(scored: CorpusScores | str | Path, count: int = 10) -> dict[str, list[tuple[float, str]]]:
    """The ``count`` distinct sentences with the largest F and the lowest M, strongest first.

    Ties are broken by the text, so that the list does not depend on the order of the corpus. As everywhere else, rows
    without a gold label are left out.
    """
    scored = CorpusScores.read(scored)
    best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    scores = [f"{column}_{name}" for column in scored.columns for name in SIDES.values()]
    for frame in scored.gold_frames(["original", *scores]):
        for side, name in SIDES.items():
            sign = -1 if side == "female" else 1
            for column in scored.columns:
                for text, value in _first(frame["original"], frame[f"{column}_{name}"], column, side, count):
                    best[side].setdefault(text, value)
            ranked = sorted((sign * value, text) for text, value in best[side].items())
            best[side] = {text: sign * value for value, text in ranked[:count]}
    return {side: [(value, text) for text, value in best[side].items()] for side in SIDES}


def _first(originals: pl.Series, values: pl.Series, column: str, side: str, count: int) -> Iterator[tuple[str, float]]:
    """The strongest texts of a column, until ``count`` distinct ones and all that tie with the last were seen."""
    seen: set[str] = set()
    last = 0.0
    for row in values.arg_sort(descending=side == "female"):
        value = float(values[row])
        if len(seen) >= count and value != last:
            return
        text = str(json.loads(originals[row])[column])
        if text not in seen:
            seen.add(text)
            last = value
            yield text, value
