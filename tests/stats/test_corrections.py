"""Corrections of p-values, by hand."""

from __future__ import annotations

import math

import pytest

from evenli.stats.intervals import holm


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([0.02]) == [0.02]
    found = holm([0.01, float("nan"), 0.04])
    assert found[0] == pytest.approx(0.02) and math.isnan(found[1]) and found[2] == pytest.approx(0.04)
