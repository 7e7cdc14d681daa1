"""The sentences of a scored corpus that lean most to either side (Tables 3, 14 and 15 of Dolci et al. 2023)."""

from __future__ import annotations

import json
from pathlib import Path

from evenli.sentences.scored import CorpusScores

SIDES = {"female": "F", "male": "M"}


def top_sentences(scored: CorpusScores | str | Path, count: int = 10) -> dict[str, list[tuple[float, str]]]:
    """The ``count`` distinct sentences with the largest F and the lowest M, strongest first.

    Ties are broken by the text, so that the list does not depend on the order of the corpus.
    """
    if not isinstance(scored, CorpusScores):
        scored = CorpusScores.read(scored)
    best: dict[str, dict[str, float]] = {side: {} for side in SIDES}
    for frame in scored.frames():
        originals = frame["original"]
        for column in scored.columns:
            for side, name in SIDES.items():
                # Twice as many as asked, and more: neighbours in a corpus repeat a premise several times.
                part = frame[f"{column}_{name}"]
                strongest = part.arg_sort(descending=side == "female")[: 20 * count]
                for row in strongest:
                    text = _text(originals[row], column)
                    best[side].setdefault(text, float(part[row]))
        for side in SIDES:
            best[side] = dict(_strongest(best[side], side, 20 * count))
    return {side: [(value, text) for text, value in _strongest(best[side], side, count)] for side in SIDES}


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
