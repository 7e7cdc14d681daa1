"""Tuning a sentence transformer on pairs, and the table of differences between corpora."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from studies.retraining import sbert
from studies.retraining.sbert_encoder import SentenceEncoder

PAIRS = [
    {"sentence1": "the man is happy", "sentence2": "the man is happy today", "similarity": 0.9, "label": "entailment"},
    {"sentence1": "the woman is here", "sentence2": "a nurse", "similarity": 0.1, "label": "neutral"},
    {"sentence1": "a man", "sentence2": "no one is here", "similarity": 0.0, "label": "contradiction"},
]


@pytest.mark.parametrize("task", sbert.TASKS)
def test_tuning_learns_the_pairs(checkpoint: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("studies.retraining.sbert_encoder.RATE", 5e-3)
    losses, rows = [], []
    for epochs in (1, 30):
        encoder = SentenceEncoder(str(checkpoint), "mean", "cpu", seed=1)
        losses.append(encoder.tune(PAIRS, task, epochs))
        rows.append(encoder.encode([pair["sentence1"] for pair in PAIRS]))
    assert losses[1] < 0.5 * losses[0]
    assert np.abs(rows[1] - rows[0]).max() > 1e-2
    again = SentenceEncoder(str(checkpoint), "mean", "cpu", seed=1)
    again.tune(PAIRS, task, 1)
    np.testing.assert_allclose(again.encode([pair["sentence1"] for pair in PAIRS]), rows[0], atol=1e-6)


def test_a_text_alone_is_encoded_as_among_longer_ones(checkpoint: Path) -> None:
    encoder = SentenceEncoder(str(checkpoint), "max", "cpu", seed=1)
    texts = ["a man", "the woman is here and the man is happy today"]
    np.testing.assert_allclose(encoder.encode(texts)[:1], encoder.encode(texts[:1]), atol=1e-5)


def test_a_difference_has_the_interval_of_a_t_test() -> None:
    from scipy import stats

    first, second = [0.9, 1.0, 1.1], [0.5, 0.7, 0.6]
    kinds = {
        name: [{"SEAT": f"{value}"} for value in values] for name, values in (("Original", second), ("Sub95", first))
    }
    test = stats.ttest_ind(first, second).confidence_interval(0.95)
    gap, width = (float(part) for part in sbert.difference(kinds, "SEAT", *reversed(kinds.values())).split("±"))
    assert math.isclose(gap, 0.4, abs_tol=0.005)
    assert math.isclose(width, (test.high - test.low) / 2, abs_tol=0.005)
