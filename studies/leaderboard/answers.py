"""The answers of many models to the same questions, two bytes a question, and the measures of each.

A model's three logits count only up to a constant, so the differences of entailment and contradiction to neutral say
all. They are kept in sixteenths of a nat between -8 and 8; that changes neither the most probable label nor which of
entailment and contradiction is more probable.
"""

from __future__ import annotations

import io
import json
import lzma
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.assess import competence
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.audit.results import Competence
from evenli.core.errors import InputError
from evenli.core.io import write_atomic
from evenli.core.labels import LABELS
from evenli.core.record import Estimate
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import measures
from evenli.stats.sample import Sample
from studies.leaderboard.board import SHOWN

STEP = 1 / 16
_MOST = 127
TEST = "test_"
"""Sets of labelled pairs begin so; of them the accuracy counts, and only the label is kept."""
SUITES = {"coal": "coal", "official": "coal", "dev2020": "dev2020", "probe": "probe"}
"""Sets of pairs and the suite whose measures read them; sets that begin with ``released_`` are probes, too."""
SHOWN = {
    "coal": SHOWN,
    "probe": ("probe_s", "probe_dp", "probe_b", "probe_lean"),
    "dev2020": ("fn_dev", "nn", "t50", "t70"),
}
"""Measures of a leaderboard, by suite."""
_LIMIT = 400_000_000


def quantise(logits: NDArray[Any], *, labels_only: NDArray[np.bool_] | None = None) -> NDArray[np.int8]:
    """Two small integers for each row of three logits; the most probable label and the order of the outer two stay.

    Args:
        logits: [n, 3] in LABELS order.
        labels_only: Rows of which the label alone is kept.

    >>> quantise(np.array([[1.0, 0.0, -2.0], [0.0, 0.01, 0.0]])).tolist()
    [[16, -32], [-1, -1]]
    """
    values = logits.astype(np.float64)
    best = values.argmax(axis=1)
    steps = np.rint((values[:, [0, 2]] - values[:, [1]]) / STEP)
    # Where both are far above neutral, what counts is how far they are from each other.
    steps = np.clip(steps - np.maximum(steps.max(axis=1, keepdims=True) - _MOST, 0), -_MOST, _MOST)
    if labels_only is not None:
        steps[labels_only] = 0
    first, last = steps.T
    # Ties go to the first label, so the strict inequalities are those against labels that come before.
    first = np.where(best == 0, np.maximum(first, np.maximum(last, 0)), first)
    last = np.where(best == 1, np.minimum(last, 0), last)
    first = np.where(best == 1, np.minimum(first, -1), first)
    last = np.where((best == 1) & (values[:, 0] >= values[:, 2]), np.minimum(last, first), last)
    first = np.where(best == 2, np.minimum(first, _MOST - 1), first)
    last = np.where(best == 2, np.maximum(last, np.maximum(first + 1, 1)), last)
    # Which of the two is larger counts where neutral is left out (suite probe): a tie that was none goes to the lesser.
    kept = np.ones(len(first), dtype=bool) if labels_only is None else ~labels_only
    above, below = ((first == last) & kept & one for one in (values[:, 0] > values[:, 2], values[:, 0] < values[:, 2]))
    first, last = first - (below & (first > -_MOST)), last - (above & (last > -_MOST))
    first, last = first + (above & (first == last)), last + (below & (first == last))
    return np.stack([first, last], axis=1).astype(np.int8)


def expand(codes: NDArray[np.int8]) -> NDArray[np.float32]:
    """Logits whose probabilities are those that were stored.

    >>> expand(np.array([[16, -32]], dtype=np.int8)).tolist()
    [[1.0, 0.0, -2.0]]
    """
    steps = codes.astype(np.float32) * np.float32(STEP)
    return np.stack([steps[:, 0], np.zeros(len(steps), np.float32), steps[:, 1]], axis=1)


@dataclass(frozen=True)
class Answers:
    """One language: what was asked, the models, and their codes [model, question, 2]."""

    lang: str
    asked: pl.DataFrame
    models: list[dict[str, Any]]
    codes: NDArray[np.int8]

    def table(self, number: int) -> pl.DataFrame:
        """The questions with the logits of one model."""
        logits = expand(self.codes[number])
        return self.asked.with_columns(*(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS)))


def write_answers(path: str | Path, answers: Sequence[Answers]) -> None:
    """One packed archive with the questions as JSON Lines and the codes as arrays."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=6) as archive:
        for one in answers:
            codes = io.BytesIO()
            # Question by question: neighbours in the file are answers of all models to the same pair.
            np.save(codes, np.ascontiguousarray(one.codes.transpose(1, 2, 0)))
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in one.asked.rows(named=True))
            members = {"asked.jsonl": lines.encode(), "codes.npy": codes.getvalue()}
            members["models.json"] = json.dumps(one.models, indent=1).encode()
            for name, content in sorted(members.items()):
                entry = tarfile.TarInfo(f"{one.lang}/{name}")
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    write_atomic(path, buffer.getvalue())


def read_answers(path: str | Path) -> list[Answers]:
    """Read what ``write_answers`` wrote; anything else is refused."""
    members: dict[str, bytes] = {}
    try:
        with tarfile.open(path, mode="r:xz") as archive:
            for entry in archive:
                if not entry.isfile() or entry.size > _LIMIT:
                    raise InputError(f"{path}: {entry.name} is no file of a leaderboard")
                members[entry.name] = archive.extractfile(entry).read()  # type: ignore[union-attr]  # it is a file
        langs = list(dict.fromkeys(name.partition("/")[0] for name in members))
        return [_language(lang, {name: members[f"{lang}/{name}"] for name in _MEMBERS}) for lang in langs]
    except (tarfile.TarError, lzma.LZMAError, OSError, KeyError, ValueError, EOFError) as error:
        raise InputError(f"{path} holds no answers of a leaderboard: {error}") from error


_MEMBERS = ("asked.jsonl", "codes.npy", "models.json")


def _language(lang: str, members: Mapping[str, bytes]) -> Answers:
    rows = [json.loads(line) for line in members["asked.jsonl"].decode().splitlines()]
    asked = pl.DataFrame(rows, schema={"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)})
    codes = np.load(io.BytesIO(members["codes.npy"]), allow_pickle=False)
    models = json.loads(members["models.json"])
    if codes.dtype != np.int8 or codes.shape != (len(rows), 2, len(models)):
        raise InputError(f"{lang}: {len(models)} models and {len(rows)} questions do not fit codes of {codes.shape}")
    return Answers(lang, asked, models, np.ascontiguousarray(codes.transpose(2, 0, 1)))


def suite_of(name: str) -> str | None:
    """The suite whose measures read a set of pairs."""
    return "probe" if name.startswith("released_") else SUITES.get(name)


def sample_of(table: pl.DataFrame, name: str) -> Sample:
    """One set of pairs as its suite reads it."""
    part = table.filter(pl.col("suite") == name).with_columns(suite=pl.lit(suite_of(name)))
    return Sample(Predictions(part))


def score_answers(table: pl.DataFrame) -> tuple[dict[str, Estimate], dict[str, float], Competence]:
    """Measures by set and name, accuracy by test set, and competence, from one model's table."""
    names = table["suite"].unique(maintain_order=True).to_list()
    scores: dict[str, Estimate] = {}
    for name in names:
        suite = suite_of(name)
        if suite is None:
            continue
        chosen = [entry for entry in measures(suite) if entry.name in SHOWN[suite]]
        estimates = estimate_measures(sample_of(table, name), chosen)
        scores |= {f"{name}.{measure}": estimate for (measure, _), estimate in estimates.items()}
    accuracy = {}
    for name in (name for name in names if name.startswith(TEST)):
        part = Predictions(table.filter(pl.col("suite") == name))
        right = [answer == gold for answer, gold in zip(part.answers, part.frame["gold"], strict=True)]
        accuracy[name.removeprefix(TEST)] = float(np.mean(right))
    # The stored control pairs have a kind that competence never counted: those that name a person of no group.
    checks = table.filter((pl.col("suite") == "check") & ~pl.col("id").str.contains("person"))
    return scores, accuracy, competence(Predictions(checks))
