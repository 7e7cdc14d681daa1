"""Association tests: the published averages, and the sizes of the tests."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evenli.encoders.seat import average_effect, read_test, seat_tests
from evenli.encoders.seat.association import association_test
from evenli.encoders.settings import SeatSettings
from evenli.words import read_table
from studies.ledger.ledger import Published, Row, chapter, public_file

_PAPER = "Dolci et al. 2023"
_TABLES = Published(f"{_PAPER}, Tables 6, 7 and 11", 0.001, "from the printed effects", "arithmetic")
_RELEASED = Published("May et al. 2019, released files")
_SIZES = {
    "C1": "350 350 215 250",
    "C2": "330 330 215 250",
    "C6": "64 64 101 112",
    "C6b": "80 80 101 112",
    "C7": "72 72 80 80",
    "C7b": "72 72 64 64",
    "C8": "56 56 80 80",
    "C8b": "56 56 64 64",
}


@chapter
def seat_averages(data: Path | None) -> Iterator[Row]:
    """Mean effect over C6 to C8b of twelve models, from their printed effects."""
    averages = {}
    for row in read_table("published_seat.csv"):
        model, printed = row["model"], float(row["avg_pub"])
        effects = {name: float(value) for name, value in row.items() if name.startswith("C")}
        averages[model] = average_effect(effects).signed
        wrong = "printed is the mean over all eight tests" if model in ("w2v", "w2v-HD") else ""
        yield _TABLES.row(f"{model} mean SEAT effect over C6 to C8b", printed, averages[model], differs=wrong)
        if wrong:
            every = average_effect(effects, tuple(effects)).signed
            reason = "the mean that was printed"
            yield _TABLES.row(f"{model} mean SEAT effect over all eight tests", printed, every, reason=reason)
    gains = {name: value / averages["Original"] - 1 for name, value in averages.items() if name[:3] in ("Sub", "Aug")}
    best = min(gains, key=lambda name: gains[name])
    prose = Published(f"{_PAPER}, prose", kind="arithmetic")
    yield prose.row("model with the largest relative gain by data", "Sub95", best)
    relative = "its relative change of the mean effect, percent"
    yield prose.row(relative, -19.0, 100 * gains[best], tolerance=0.5, reason='"up to 19 %"')


@chapter
def seat_sizes(data: Path | None) -> Iterator[Row]:
    """Sentences in X, Y, A and B of our own test files, and how many of them the released ones have too."""
    shared = total = 0
    for test in seat_tests():
        sizes = " ".join(str(len(part)) for part in test.sets)
        yield _RELEASED.row(f"{test.name} sentences in X, Y, A, B", _SIZES[test.name], sizes)
        released = public_file(data, "seat", f"sent-weat{test.name[1:]}.json")
        if released:
            for ours, theirs in zip(test.sets, read_test(released).sets, strict=True):
                total += len(theirs)
                shared += len(set(ours.texts) & set(theirs.texts))
    yield _RELEASED.row(
        "share of their sentences that ours have",
        1.0,
        shared / total if total else None,
        tolerance=0.005,
        differs="larger target sets were cut at random there and evenly here; they write knifes, we knives",
    )


@chapter
def seat_partitions(data: Path | None) -> Iterator[Row]:
    """Eight words a side are few enough to count every partition."""
    generator = np.random.default_rng(0)
    sets = [generator.normal(size=(8, 4)) for _ in range(4)]
    result = association_test(sets, SeatSettings(resamples=0))
    counted = result.permutations if result.exact else None
    closed_form = Published("closed form", reason="all halves of 16; the released code enumerates them too")
    yield closed_form.row("partitions counted for eight targets a side", math.comb(16, 8), counted)
