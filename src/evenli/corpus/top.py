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
    if not isinstance(scored, CorpusScores):
        scored = CorpusScores.read(scored)
    best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    scores = [f"{column}_{name}" for column in scored.columns for name in SIDES.values()]
    for frame in scored.frames(["original", "no_gold", *scores]):
        frame = frame.filter(~frame["no_gold"])
        for side, name in SIDES.items():
            for column in scored.columns:
                for text, value in _first(frame["original"], frame[f"{column}_{name}"], column, side, count):
                    best[side].setdefault(text, value)
            best[side] = dict(_strongest(best[side], side, count))
    return {side: [(value, text) for text, value in _strongest(best[side], side, count)] for side in SIDES}


def _first(originals: pl.Series, values: pl.Series, column: str, side: str, count: int) -> Iterator[tuple[str, float]]:
    """The strongest texts of a column, until ``count`` distinct ones and all that tie with the last were seen."""
    seen: set[str] = set()
    last = 0.0
    for row in values.arg_sort(descending=side == "female"):
        value = float(values[row])
        if len(seen) >= count and value != last:
            return
        text = _text(originals[row], column)
        if text not in seen:
            seen.add(text)
            last = value
            yield text, value


def _strongest(found: dict[str, float], side: str, count: int) -> list[tuple[str, float]]:
    sign = -1 if side == "female" else 1
    return sorted(found.items(), key=lambda item: (sign * item[1], item[0]))[:count]


def _text(original: str, column: str) -> str:
    """The text of a column in the row as the source had it; plain lines have no columns."""
    try:
        row = json.loads(original)
    except ValueError:
        return original
    return str(row[column]) if isinstance(row, dict) and column in row else original
