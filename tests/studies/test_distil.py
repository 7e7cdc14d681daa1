"""What a student learns from: pairs made of training pairs, and the mean of the teachers' probabilities."""

from __future__ import annotations

import json
import random
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from studies.distillation import distil, pairs
from studies.leaderboard.grid import write

ROWS = [
    {"premise": "A man, who is old, waits at a bus stop.", "hypothesis": "A man is waiting.", "gold": "entailment"},
    {
        "premise": "A man, who is old, waits at a bus stop.",
        "hypothesis": "A man is not there.",
        "gold": "contradiction",
    },
    {"premise": "Two dogs play in the snow.", "hypothesis": "The dogs are brothers.", "gold": "neutral"},
]
NEAR = {"man": ["boy"], "dogs": ["cats"], "waiting": ["sitting"], "snow": ["rain"], "old": ["young"]}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("The dog is old.", "The dog is not old."),
        ("The dog is not old.", "The dog is old."),
        ("A dog runs.", "A dog runs."),
    ],
)
def test_a_not_is_put_in_or_taken_out(before: str, after: str) -> None:
    assert pairs.negated(before) == after


def test_changed_words_keep_the_rest() -> None:
    draw = random.Random(1)
    assert pairs.replace_words("Man waits.", NEAR, draw) == "Boy waits."
    assert pairs.replace_words("Nothing known.", NEAR, draw) == "Nothing known."
    words = ["one", "two", "three", "four", "five", "six", "seven"]
    left = pairs.drop_words(" ".join(words), draw).split()
    assert len(left) == 6 and [word for word in words if word in left] == left
    assert pairs.a_part("He came in the morning, and he left after lunch.", draw).split()[0] in {"He", "and"}
    assert pairs.a_part("one two three four", draw) in {"one two three", "three four"}


def test_made_pairs_come_from_training_sentences() -> None:
    shares = {"words_h": 2, "swap": 1, "not": 1, "other": 1, "sibling": 1}
    made = list(pairs.make_pairs(ROWS, shares, NEAR))
    assert made == list(pairs.make_pairs(ROWS, shares, NEAR))
    counts = Counter(kind for kind, *_ in made)
    assert counts["swap"] == 3 and counts["words_h"] <= 6
    own = {(row["hypothesis"], row["premise"]) for row in ROWS}
    assert {(p, h) for kind, p, h in made if kind == "swap"} == own
    hypotheses = {row["hypothesis"] for row in ROWS}
    assert all({p, h} <= hypotheses for kind, p, h in made if kind == "sibling")


def test_targets_are_the_mean_of_the_teachers_and_the_label(tmp_path: Path) -> None:
    shares = np.array([[[0.7, 0.2, 0.1], [0.2, 0.5, 0.3]], [[0.5, 0.4, 0.1], [0.4, 0.1, 0.5]]])
    for seed, one in enumerate(shares):
        np.savez(tmp_path / f"teacher_{seed}.npz", logits=np.log(one).astype(np.float16))
    # The first pair has a label, the second was made.
    found = distil.targets(tmp_path, 2, ROWS[1:2], 2, time.monotonic() + 1)
    wanted = shares.mean(0)
    wanted[0] = 0.7 * wanted[0] + [0, 0, 0.3]
    np.testing.assert_allclose(found, wanted, atol=1e-3)
    with pytest.raises(SystemExit, match="2 of 3 teachers"):
        distil.targets(tmp_path, 3, ROWS[1:2], 2, time.monotonic() - 1)


def test_stored_answers_give_the_table(tmp_path: Path, capsys, monkeypatch) -> None:
    suites = ("test_snli", "test_mnli", "test_sick")
    write(tmp_path / "asked.jsonl.xz", ({"suite": suite, **row} for suite in suites for row in ROWS))
    students = tmp_path / "students"
    students.mkdir()
    (students / "t+soft+0.json").write_text(json.dumps({"name": "t", "kind": "soft", "seed": 0}))
    # Right everywhere but on the last pair of SNLI.
    answers = np.eye(3)[[0, 2, 2, 0, 2, 1, 0, 2, 1]]
    np.savez(students / "t+soft+0.npz", logits=answers.astype(np.float16))
    file = tmp_path / "stored.npz"
    monkeypatch.setattr(sys, "argv", ["distil.py", "store", str(tmp_path), str(file)])
    distil.main()
    monkeypatch.setattr(sys, "argv", ["distil.py", "table", str(file)])
    distil.main()
    last = capsys.readouterr().out.splitlines()[-1]
    cells = [cell.split()[0] for cell in last.strip("| ").split(" | ")]
    assert cells == ["t", "teacher", "0", "66.7", "100.0", "100.0"]
