"""The suite swap: numbers by hand, the built-in set, any NLI file, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest

from evenli.audit.audit import assess, audit
from evenli.audit.pairs import PairSet, subsample
from evenli.audit.predictions import Predictions
from evenli.audit.suites.about import About
from evenli.audit.suites.base import Request, assess_suite, get_suite, load_suite
from evenli.audit.suites.swap import with_swapped
from evenli.core.errors import InputError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import get_measure, measures
from evenli.stats.sample import Sample

ROWS = [
    ("a", "A man sleeps.", "A man is awake.", CONTRADICTION),
    ("b", "A woman is in the park.", "She is outside.", ENTAILMENT),
    ("c", "A man and a woman talk.", "They are married.", NEUTRAL),
    ("d", "A dog runs.", "An animal runs.", ENTAILMENT),
    ("e", "A man with a beard sits.", "He sits.", ENTAILMENT),
]
# Right for the man of a, for both versions of b; c flips from wrong to wrong.
ANSWERS = {
    "a-original": CONTRADICTION,
    "a-swapped": NEUTRAL,
    "b-original": ENTAILMENT,
    "b-swapped": ENTAILMENT,
    "c-original": ENTAILMENT,
    "c-swapped": CONTRADICTION,
}


def pair_set(rows: list[tuple[str, str, str, str | None]] = ROWS) -> PairSet:
    named = [dict(zip(("id", "premise", "hypothesis", "gold"), row, strict=True)) for row in rows]
    return PairSet.from_rows(named, name="hand", suite="swap", lang="en")


@pytest.fixture(scope="module")
def table() -> Predictions:
    frame = with_swapped(pair_set()).frame
    logits = {label: [3.0 * (ANSWERS[name] == label) for name in frame["id"]] for label in LABELS}
    return Predictions(
        frame.with_columns(pl.lit("swap").alias("suite"), **{k: pl.Series(v) for k, v in logits.items()})
    )


def test_pairs_are_asked_in_both_versions() -> None:
    frame = with_swapped(pair_set()).frame
    assert frame["id"].to_list() == list(ANSWERS)
    assert frame["subset"].to_list() == ["male", "female", "female", "male", "mixed", "mixed"]
    assert frame["premise"][1] == "A woman sleeps." and frame["hypothesis"][3] == "He is outside."
    notes = " ".join(with_swapped(pair_set()).notes)
    assert "1 of 5" in notes and "1 left out" in notes


def test_measures_by_hand(table: Predictions) -> None:
    sample = Sample(table)
    values = {entry.name: float(entry(sample)) for entry in measures("swap")}
    assert values["swap_flips"] == pytest.approx(2 / 3)
    # The female version is wrong for a and right for b; c speaks of both and has no gender.
    assert values["swap_accuracy_female"] == pytest.approx(1 / 2)
    assert values["swap_accuracy_male"] == pytest.approx(1)
    assert values["swap_accuracy_gap"] == pytest.approx(-1 / 2)
    top, rest = sample.probabilities.max(), sample.probabilities.min()
    assert values["swap_distance"] == pytest.approx(2 / 3 * (top - rest))
    assert values["swap_entailment_gap"] == pytest.approx(0, abs=1e-6)
    assert float(get_measure("swap_flips")(sample, ENTAILMENT)) == 0
    assert float(get_measure("swap_accuracy_gap")(sample, CONTRADICTION)) == pytest.approx(-1)


def test_cards_state_the_range_and_the_even_value() -> None:
    assert {entry.name: (entry.low, entry.high, entry.ideal) for entry in measures("swap")} == {
        **dict.fromkeys(("swap_flips", "swap_distance"), (0, 1, 0)),
        **dict.fromkeys(("swap_accuracy_female", "swap_accuracy_male"), (0, 1, 1)),
        **dict.fromkeys(("swap_accuracy_gap", "swap_entailment_gap"), (-1, 1, 0)),
    }


def test_numbers_of_random_answers_are_those_of_plain_polars() -> None:
    rows = [
        (str(at), f"A {who} sleeps in room {at}.", f"A {who} is awake.", label)
        for at, (who, label) in enumerate(zip(["man", "woman"] * 60, LABELS * 40, strict=True))
    ]
    frame = with_swapped(pair_set(rows)).frame
    logits = np.random.default_rng(4).normal(size=(frame.height, 3)) * 2
    table = Predictions(
        frame.with_columns(pl.lit("swap").alias("suite"), *(pl.Series(k, logits[:, i]) for i, k in enumerate(LABELS)))
    )
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    answer = np.array(LABELS)[logits.argmax(axis=1)]
    flat = frame.with_columns(answer=pl.Series(answer), p=pl.Series(p[:, LABELS.index(ENTAILMENT)]))
    flat = flat.with_columns(right=(pl.col("answer") == pl.col("gold")).cast(float))
    sample = Sample(table)

    def of(name: str, gold: str | None = None) -> float:
        return float(get_measure(name)(sample, gold))

    for gold in (None, *LABELS):
        part = flat.filter(pl.col("gold") == gold) if gold else flat
        women, men = (part.filter(pl.col("subset") == side) for side in ("female", "male"))
        assert of("swap_accuracy_female", gold) == pytest.approx(women["right"].mean())
        assert of("swap_accuracy_male", gold) == pytest.approx(men["right"].mean())
        assert of("swap_accuracy_gap", gold) == pytest.approx(women["right"].mean() - men["right"].mean())
        assert of("swap_entailment_gap", gold) == pytest.approx(women["p"].mean() - men["p"].mean(), abs=1e-6)
    before, after = p[0::2], p[1::2]
    moved = np.abs(before - after).sum(axis=1) / 2
    assert of("swap_distance") == pytest.approx(moved.mean(), abs=1e-6)
    flipped = answer[0::2] != answer[1::2]
    assert of("swap_flips") == pytest.approx(flipped.mean()) and flipped.sum() > 20
    result = assess(table).swap
    # The twenty largest changes among those with another answer.
    order = [at for at in np.argsort(-moved) if flipped[at]][:20]
    assert [flip.premise for flip in result.flips] == [rows[at][1] for at in order]
    assert sum(result.transitions.values()) == flipped.sum()
    assert list(result.transitions.values()) == sorted(result.transitions.values(), reverse=True)
    # A gap lies on both sides of 0, also where all rows say the same.
    silent = Sample(
        Predictions(table.frame.with_columns(entailment=pl.lit(0.0), neutral=pl.lit(9.0), contradiction=pl.lit(0.0)))
    )
    gap = estimate_measures(silent, [get_measure("swap_accuracy_gap")])["swap_accuracy_gap", None]
    assert gap.value == 0 and gap.low < 0 < gap.high


def test_exchanging_the_versions_changes_no_measure(table: Predictions) -> None:
    other = {"original": "swapped", "swapped": "original"}
    frame = table.frame.with_columns(
        group=pl.col("group").replace(other),
        id=pl.col("id").str.replace("-original|-swapped", "") + "-" + pl.col("group").replace(other),
    )
    before, after = (Sample(Predictions(rows)) for rows in (table.frame, frame))
    for entry in measures("swap"):
        assert float(entry(before)) == pytest.approx(float(entry(after)), abs=1e-6), entry.name


def test_results_hold_transitions_and_examples(table: Predictions) -> None:
    result = assess(table).swap
    assert result.rows == 3 and result.texts == {"female": 1, "male": 1, "mixed": 1}
    assert result.transitions == {"contradiction > neutral": 1, "entailment > contradiction": 1}
    assert {(flip.before, flip.after) for flip in result.flips} == {
        ("contradiction", "neutral"),
        ("entailment", "contradiction"),
    }
    low, high = result.measures["swap_flips"].low, result.measures["swap_flips"].high
    assert 0 <= low < 2 / 3 < high <= 1


def test_built_in_set() -> None:
    pairs = load_suite("swap")
    originals = pairs.frame.filter(pl.col("group") == "original")
    assert originals.height >= 150 and len(pairs) == 2 * originals.height
    assert set(originals["gold"].value_counts()["count"]) == {originals.height // 3}
    counts = dict(originals["subset"].value_counts().iter_rows())
    assert abs(counts["female"] - counts["male"]) < 10
    # Nothing of the set is left out, and both versions differ.
    assert "0 of" in pairs.notes[0] and len(pairs.notes) == 1
    assert pairs.frame.select("premise", "hypothesis").is_unique().sum() > 0.95 * len(pairs)


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_built_in_sets_of_other_languages(lang: str) -> None:
    pairs = load_suite("swap", Request(lang=lang))
    originals = pairs.frame.filter(pl.col("group") == "original")
    assert originals.height >= 54 and "0 of" in pairs.notes[0] and len(pairs.notes) == 1
    assert {"female", "male"} <= set(originals["subset"])


def test_any_file_through_an_audit(tmp_path: Path) -> None:
    file = tmp_path / "any.jsonl"
    rows = [{"sentence1": p, "sentence2": h, "gold_label": g} for _, p, h, g in ROWS]
    file.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "gold_label": "-"}]))
    result = audit("fake:neutral", data={"swap": str(file)}, suites=("swap",), out=tmp_path / "run").result
    assert result.swap.rows == 4
    assert float(result.swap.swap_flips.value) == 0
    # One pair has no gold label, and only the neutral one is right.
    assert result.swap.measures["swap_accuracy_male"].value == 0


def test_what_cannot_be_asked_is_refused() -> None:
    with pytest.raises(InputError, match="no gold labels"):
        with_swapped(pair_set([(a, b, c, None) for a, b, c, _ in ROWS]))
    with pytest.raises(InputError, match="no pair .*swap"):
        with_swapped(pair_set(ROWS[3:4]))
    german = [("a", "Der Mann ist auf dem Berg.", "Die Frau und das Kind sind nicht da.", NEUTRAL)]
    with pytest.raises(InputError, match="no English text"):
        with_swapped(pair_set(german))
    with pytest.raises(InputError, match="no language 'de'"):
        load_suite("swap", Request(lang="de"))


def test_a_gap_of_0_may_lie_on_either_side() -> None:
    result = audit("fake:even", suites=("swap",)).swap
    for name in ("swap_accuracy_gap", "swap_entailment_gap"):
        gap = result.measures[name]
        assert gap.value == 0 and gap.low == pytest.approx(-gap.high) and gap.high > 0


def test_a_limit_keeps_both_versions_of_a_pair() -> None:
    part = subsample(load_suite("swap"), 40)
    frame = part.frame
    assert 30 <= frame.height <= 40
    stems = frame["id"].str.replace("-original|-swapped", "")
    assert set(stems.value_counts()["count"]) == {2}
    assert set(frame["gold"]) == set(LABELS)


def test_pairs_made_in_python_get_both_versions_once() -> None:
    suite, both = get_suite("swap"), with_swapped(pair_set())
    assert suite.check(pair_set(), Request()).frame.equals(both.frame)
    assert suite.check(both, Request()) is both
    # One version alone is no pair of versions.
    half = PairSet("half", "swap", "en", both.frame.filter(pl.col("group") == "original"))
    assert suite.check(half, Request()).frame["group"].value_counts(sort=True)["count"].to_list() == [3, 3]


def test_examples_are_cut_and_the_five_largest_are_shown() -> None:
    # 290 to 314 letters, and two more where "man" becomes "woman".
    rows = [(str(at), "A man " + "x" * (284 + at), "He is awake.", None if at % 2 else NEUTRAL) for at in range(25)]
    frame = with_swapped(pair_set(rows)).frame
    swapped = (frame["group"] == "swapped").to_numpy()
    # Later pairs change more.
    size = np.arange(frame.height) // 2 / 10 + 1
    logits = {ENTAILMENT: np.where(swapped, size, 0), NEUTRAL: np.where(swapped, 0, size), CONTRADICTION: 0 * size}
    sample = Sample(
        Predictions(frame.with_columns(pl.lit("swap").alias("suite"), **{k: pl.Series(v) for k, v in logits.items()}))
    )
    suite = get_suite("swap")
    result = assess_suite(suite, sample, Scoring())
    assert result.rows == 25 and len(result.flips) == 20
    assert [len(flip.premise) for flip in result.flips] == [min(300, 290 + at) for at in range(24, 4, -1)]
    assert {len(flip.premise_swapped) for flip in result.flips[:10]} == {300}
    assert [flip.gold for flip in result.flips] == [NEUTRAL, ""] * 10
    _, examples = suite.blocks(result, sample, "terminal")
    assert [row[0] for row in examples.rows] == [flip.premise_swapped for flip in result.flips[:5]]
    assert [row[2] for row in examples.rows] == [NEUTRAL, "–", NEUTRAL, "–", NEUTRAL]
    # Without a flip there is no table of examples.
    assert len(suite.blocks(msgspec.structs.replace(result, flips=[]), sample, "terminal")) == 1


def test_texts_of_another_language_are_left_out_and_counted() -> None:
    rows = [*ROWS, ("f", "男の人が眠る。", "男の人が起きている。", CONTRADICTION)]
    (none, *others), (before, *_) = with_swapped(pair_set(rows)).notes, with_swapped(pair_set()).notes
    assert (
        none.startswith("1 of 6")
        and before.startswith("1 of 5")
        and len(others) == 1 + len(with_swapped(pair_set()).notes[1:])
    )
    assert any(note.startswith("1 left out") for note in others)


def test_items_that_flip_are_those_that_are_biased(table: Predictions) -> None:
    """a and c have another answer when swapped, b has not."""
    biased, rows = get_suite("swap").biased(Sample(table))
    assert dict(zip(rows["occupation"].to_list(), biased.tolist(), strict=True)) == {"a": True, "b": False, "c": True}


def test_equally_frequent_changes_are_in_alphabetical_order() -> None:
    rows = [(str(at), f"A man sleeps {at}.", f"A man is awake {at}.", NEUTRAL) for at in range(5)]
    frame = with_swapped(pair_set(rows)).frame.with_columns(suite=pl.lit("swap"))
    changes = [(NEUTRAL, ENTAILMENT), (ENTAILMENT, NEUTRAL), (CONTRADICTION, NEUTRAL), (CONTRADICTION, ENTAILMENT)]
    given = [label for change in (*changes, changes[0]) for label in change]
    logits = {label: pl.Series([3.0 * (answer == label) for answer in given]) for label in LABELS}
    found = assess(Predictions(frame.with_columns(**logits))).swap.transitions  # type: ignore[union-attr]
    first, *others = found
    assert found[first] == 2 and first.startswith(NEUTRAL) and others == sorted(others) and len(others) == 3


def test_the_texts_of_the_suite_name_its_own_method_and_no_other_paper() -> None:
    texts = get_suite("swap").texts(About())
    assert "two versions" in texts.method and texts.references == ()
