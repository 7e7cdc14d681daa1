"""Fairer corpora: who is dropped, who is mirrored, and that no mirror image leaks into another split."""

from __future__ import annotations

import csv
import hashlib
import json
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evenli.core.binary import read_parquet
from evenli.core.errors import InputError, RunError
from evenli.corpus import run
from evenli.corpus import scored as scored_module
from evenli.corpus.mitigation import corpora, review, sorter
from evenli.corpus.mitigation.corpora import _QUANTILES, _summary, fairer_corpus
from evenli.corpus.mitigation.selection import CorpusSettings, Split
from evenli.corpus.run import score_corpus

subtract, augment, combined = (partial(fairer_corpus, method) for method in ("subtract", "augment", "combined"))


class Letters:
    """F = M = 0.01 per letter a to z, Abs twice that."""

    identity = "letters"

    def score_many(self, sentences: list[str]) -> np.ndarray:
        count = np.array([sum(letter.isalpha() for letter in text) / 100 for text in sentences])
        return np.stack([count, count, 2 * count], axis=1)


def pair(number: int, premise: str, gold: str = "neutral", hypothesis: str = "x") -> dict[str, Any]:
    return {"id": f"p{number}", "premise": premise, "hypothesis": hypothesis, "gold": gold, "extra": {"n": [number]}}


# Letters of the premise: 3, 5, 7, 9, 11; the last pair has no gold label.
FIVE = [
    pair(0, "man"),
    pair(1, "woman"),
    pair(2, "A woman", "entailment"),
    pair(3, "The old man", hypothesis="No one"),
    pair(4, "Nothing here", "contradiction", "His dog"),
    pair(5, "A man without a gold label", "-"),
]


@pytest.fixture
def five(tmp_path: Path, pair_file) -> Path:
    score_corpus(pair_file(FIVE), tmp_path / "scored", Letters())
    return tmp_path / "scored"


@pytest.fixture
def many(tmp_path: Path, pair_file) -> Path:
    rows = [pair(n, f"{'A man' if n % 3 else 'A dog'} walks {'far ' * (n % 50)}") for n in range(400)]
    score_corpus(pair_file(rows, "many.jsonl"), tmp_path / "many", Letters())
    return tmp_path / "many"


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def everything(folder: Path) -> list[dict[str, Any]]:
    return [row for name in ("train", "dev", "test") for row in read(folder / f"{name}.jsonl")]


def table(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_subtract_by_hand(tmp_path: Path, five: Path) -> None:
    # Scores 0.06, 0.10, 0.12, 0.18, 0.22; the 75th percentile has rank 3 and is 0.18: only 0.22 is strictly above.
    made = subtract(five, tmp_path / "out", CorpusSettings(75, split=None))
    assert made.card.threshold.to_dict() == {
        "percentile": 75.0,
        "value": pytest.approx(0.18),
        "method": "exact",
        "error_bound": 0.0,
    }
    assert read(tmp_path / "out/corpus.jsonl") == FIVE[:4]  # all columns, the old order
    assert made.card.counts.to_dict() == {
        "rows": 6,
        "no_gold": 1,
        "above_threshold": 1,
        "removed": 1,
        "added": 0,
        "skipped": 0,
        "result": 4,
        "splits": {"corpus": 4},
    }
    # The 50th is 0.12; the 60th has rank 2.4 and is 0.12 + 0.4 * 0.06.
    assert subtract(five, tmp_path / "b", CorpusSettings(60, split=None)).card.threshold.value == pytest.approx(0.144)
    removed = table(tmp_path / "b/removed.csv")
    assert [row["row"] for row in removed] == ["4", "3"]  # highest first
    assert [float(row["pair_max"]) for row in removed] == pytest.approx([0.22, 0.18])
    assert [float(row["hypothesis_Abs"]) for row in removed] == pytest.approx([0.12, 0.1])
    assert [row["gold"] for row in removed] == ["contradiction", "neutral"]
    assert removed[0]["premise"] == "Nothing here"
    before, after = made.card.pair_max.before, made.card.pair_max.after
    assert (before["p100"], after["p100"]) == (pytest.approx(0.22), pytest.approx(0.18))
    assert before["p50"] == pytest.approx(0.12)
    assert before["mean"] == pytest.approx(0.136)


def test_nothing_lies_above_the_highest(tmp_path: Path, five: Path) -> None:
    subtract(five, tmp_path / "out", CorpusSettings(100, split=None))
    assert read(tmp_path / "out/corpus.jsonl") == FIVE[:5]
    assert not (tmp_path / "out/removed.csv").exists()


def test_augment_by_hand(tmp_path: Path, five: Path) -> None:
    # Above 0.10: A woman, The old man, and a pair in which only the hypothesis can be swapped.
    made = augment(five, tmp_path / "out", CorpusSettings(25, split=None))
    rows = read(tmp_path / "out/corpus.jsonl")
    assert rows[:5] == FIVE[:5]
    assert rows[5:] == [
        {**FIVE[2], "id": "p2-swapped", "premise": "A man"},
        {**FIVE[3], "id": "p3-swapped", "premise": "The old woman"},
        {**FIVE[4], "id": "p4-swapped", "hypothesis": "Her dog"},
    ]
    assert made.card.pair_max.after_covers == "rows of the source; copies not scored"
    added = table(tmp_path / "out/added.csv")
    assert [row["row"] for row in added] == ["4", "3", "2"]
    assert added[0]["hypothesis_swapped"] == "Her dog"
    assert not (tmp_path / "out/removed.csv").exists()
    scored = augment(five, tmp_path / "scored-copies", CorpusSettings(25, split=None), scorer=Letters())
    # Five originals sum to 0.68; A man 0.08, The old woman 0.22, Nothing here 0.22.
    assert scored.card.pair_max.after["mean"] == pytest.approx(1.20 / 8)
    assert scored.card.pair_max.after_covers == "all rows"


def test_rows_without_a_swappable_word_get_no_copy(tmp_path: Path, pair_file) -> None:
    rows = [pair(0, "x"), pair(1, "A green table"), pair(2, "The man")]
    score_corpus(pair_file(rows), tmp_path / "scored", Letters())
    made = augment(tmp_path / "scored", tmp_path / "out", CorpusSettings(0, split=None))
    assert made.card.counts.above_threshold == 2
    assert made.card.counts.added == 1
    # The released rules lower-case every text, which alone makes no copy.
    made = augment(tmp_path / "scored", tmp_path / "b", CorpusSettings(0, split=None, mode="released"))
    assert made.card.counts.added == 1
    assert read(tmp_path / "b/corpus.jsonl")[-1]["premise"] == "the woman"


def test_pairs_without_a_copy_are_listed_with_the_reason(tmp_path: Path, pair_file) -> None:
    rows = [pair(0, "x"), pair(1, "A man with a beard"), pair(2, "The man"), pair(3, "Jane", hypothesis="A woman")]
    score_corpus(pair_file(rows), tmp_path / "scored", Letters())
    made = augment(tmp_path / "scored", tmp_path / "out", CorpusSettings(0, split=None))
    assert (made.card.counts.added, made.card.counts.skipped) == (1, 2)
    skipped = table(tmp_path / "out/skipped.csv")
    assert [row["row"] for row in skipped] == ["1", "3"]
    assert "beard" in skipped[0]["reason"] and "name" in skipped[1]["reason"]
    assert skipped[0]["premise"] == "A man with a beard"


def test_combined_by_hand(tmp_path: Path, pair_file) -> None:
    rows = [pair(0, "x"), pair(1, "A green table"), pair(2, "The man")]
    score_corpus(pair_file(rows), tmp_path / "scored", Letters())
    combined(tmp_path / "scored", tmp_path / "out", CorpusSettings(0, split=None))
    assert [row["id"] for row in read(tmp_path / "out/corpus.jsonl")] == ["p0", "p2-swapped"]
    assert [row["row"] for row in table(tmp_path / "out/removed.csv")] == ["1", "2"]
    assert [row["row"] for row in table(tmp_path / "out/added.csv")] == ["2"]


def test_split_is_a_seeded_partition(tmp_path: Path, many: Path) -> None:
    split = Split(dev=40, test=30)
    subtract(many, tmp_path / "a", CorpusSettings(90, split=split, seed=5))
    subtract(many, tmp_path / "b", CorpusSettings(90, split=split, seed=5))
    subtract(many, tmp_path / "c", CorpusSettings(90, split=split, seed=6))
    for name in ("train", "dev", "test"):
        a, b, c = ((tmp_path / folder / f"{name}.jsonl").read_bytes() for folder in "abc")
        assert a == b
        assert a != c
    rows = everything(tmp_path / "a")
    assert len(rows) == 360
    assert len(read(tmp_path / "a/dev.jsonl")) == 40
    assert len(read(tmp_path / "a/test.jsonl")) == 30
    ids = [row["id"] for row in rows]
    assert len(set(ids)) == 360
    assert sorted(ids) == sorted(row["id"] for row in everything(tmp_path / "c"))
    train = [int(row["id"][1:]) for row in read(tmp_path / "a/train.jsonl")]
    assert train != sorted(train)


@pytest.mark.parametrize("make", [augment, combined])
def test_no_copy_sits_apart_from_its_source(tmp_path: Path, many: Path, make) -> None:
    split = Split(dev=101, test=50)
    made = make(many, tmp_path / "out", CorpusSettings(20, split=split, seed=1))
    where = {row["id"]: name for name in ("train", "dev", "test") for row in read(tmp_path / f"out/{name}.jsonl")}
    copies = [name for name in where if name.endswith("-swapped")]
    assert len(copies) == made.card.counts.added > 150
    assert {where[name] for name in copies} == {"train", "dev", "test"}
    apart = [name for name in copies if where.get(name.removesuffix("-swapped"), where[name]) != where[name]]
    assert apart == []
    assert made.card.counts.splits == {"train": made.card.counts.result - 151, "dev": 101, "test": 50}


def test_without_the_guard_copies_do_leak(tmp_path: Path, many: Path) -> None:
    split = Split(dev=101, test=50, leak_guard=False)
    augment(many, tmp_path / "out", CorpusSettings(20, split=split, seed=1))
    where = {row["id"]: name for name in ("train", "dev", "test") for row in read(tmp_path / f"out/{name}.jsonl")}
    copies = [name for name in where if name.endswith("-swapped")]
    assert len([name for name in copies if where[name.removesuffix("-swapped")] != where[name]]) > 30


@pytest.mark.parametrize(("like", "make"), [("subtract", subtract), ("augment", augment), ("combined", combined)])
def test_the_control_has_the_same_size_and_other_rows(tmp_path: Path, many: Path, like: Any, make) -> None:
    split = Split(dev=40, test=30)
    real = make(many, tmp_path / "real", CorpusSettings(80, split=split))
    control = fairer_corpus(like, many, tmp_path / "control", CorpusSettings(80, split=split, random=True))
    for key in ("removed", "added", "result", "splits"):
        assert getattr(control.card.counts, key) == getattr(real.card.counts, key)
    assert control.card.settings["like"] == like

    def chosen(name: str) -> set[str]:
        file = tmp_path / name / ("added.csv" if like == "augment" else "removed.csv")
        return {row["row"] for row in table(file)}

    assert len(chosen("real")) == len(chosen("control")) > 20
    assert len(chosen("real") & chosen("control")) < 0.6 * len(chosen("real"))
    # Chance leaves the distribution where it was, the threshold does not.
    if like == "subtract":
        before, after = (getattr(control.card.pair_max, key)["mean"] for key in ("before", "after"))
        assert abs(after / before - 1) < 0.05
        assert real.card.pair_max.after["mean"] < 0.85 * before


def test_plain_sentences_are_not_split(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("A man\n\nThe tall woman sleeps\n- \n", encoding="utf-8")
    score_corpus(tmp_path / "lines.txt", tmp_path / "scored", Letters())
    augment(tmp_path / "scored", tmp_path / "out", CorpusSettings(50))
    texts = [row["text"] for row in read(tmp_path / "out/corpus.jsonl")]
    assert texts == ["A man", "", "The tall woman sleeps", "- ", "A woman", "The tall man sleeps"]
    subtract(tmp_path / "scored", tmp_path / "split", CorpusSettings(100, split=Split(1, 1)))
    assert len(read(tmp_path / "split/dev.jsonl")) == 1


@pytest.mark.parametrize("guard", [True, False])
def test_splits_and_controls_do_not_depend_on_where_shards_end(
    tmp_path: Path, pair_file, monkeypatch: pytest.MonkeyPatch, guard: bool
) -> None:
    """Keys are drawn by the number of a row, so that what is held is no more than dev and test."""
    rows = [pair(n, f"The {'man' if n % 3 else 'table'} {'x' * (n * 7 % 23)}") for n in range(300)]
    source = pair_file(rows)
    settings = CorpusSettings(70, split=Split(31, 20, guard), seed=4, random=True)
    for name, size in (("one", 1000), ("many", 17)):
        monkeypatch.setattr(run, "SHARD_ROWS", size)
        score_corpus(source, tmp_path / f"scored-{name}", Letters())
        augment(tmp_path / f"scored-{name}", tmp_path / name, settings)
    assert len(list((tmp_path / "scored-many/shards").glob("*.parquet"))) > 10
    for file in ("train.jsonl", "dev.jsonl", "test.jsonl", "added.csv"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "many" / file).read_bytes()
    assert [len(read(tmp_path / f"many/{name}.jsonl")) for name in ("dev", "test")] == [31, 20]


@pytest.mark.parametrize("random", [False, True])
@pytest.mark.parametrize(("method", "passes"), [("subtract", 2), ("augment", 3), ("combined", 3)])
def test_a_corpus_is_read_twice_and_once_more_for_copies(
    tmp_path: Path, pair_file, monkeypatch: pytest.MonkeyPatch, method: Any, passes: int, random: bool
) -> None:
    """However often its scores are gone through: percentiles of more than ``HELD_ROWS`` rows take several rounds."""
    monkeypatch.setattr(run, "SHARD_ROWS", 60)
    for module in (scored_module, corpora):
        monkeypatch.setattr(module, "HELD_ROWS", 10)
    rows = [pair(n, f"The {'man' if n % 3 else 'table'} {'x' * (n * 7 % 23)}") for n in range(300)]
    corpus = score_corpus(pair_file(rows), tmp_path / "scored", Letters())
    times: Counter[str] = Counter()

    def counted(file: Path, *arguments: Any) -> Any:
        times[file.name] += 1
        return read_parquet(file, *arguments)

    monkeypatch.setattr(scored_module, "read_parquet", counted)
    made = fairer_corpus(method, corpus, tmp_path / "out", CorpusSettings(70, split=Split(31, 20), random=random))
    assert made.card.counts.removed or made.card.counts.added
    assert times == {file.name: passes for file in corpus.shards} and len(times) == 5


def test_every_row_is_as_likely_in_dev_and_at_every_place(tmp_path: Path, many: Path) -> None:
    """Of 400 rows 40 are in dev: over 40 seeds each is there 4 times on average, and its mean place is the middle."""
    times, places = np.zeros(400), np.zeros(400)
    for seed in range(40):
        subtract(many, tmp_path / "out", CorpusSettings(100, split=Split(40, 0), seed=seed), overwrite=True)
        times[[int(row["id"][1:]) for row in read(tmp_path / "out/dev.jsonl")]] += 1
        train = [int(row["id"][1:]) for row in read(tmp_path / "out/train.jsonl")]
        places[train] += np.arange(len(train)) / len(train) - 0.5
    # Sums of 40 draws with a chance of 0.1, and of 36 uniform places: within five standard deviations.
    assert times.sum() == 1600 and np.abs(times - 4).max() < 5 * np.sqrt(40 * 0.09)
    assert np.abs(places).max() < 5 * np.sqrt(36 / 12)


def test_texts_that_are_sorted_wait_on_the_disk() -> None:
    """However many there are, few are held; texts of one key keep their order."""
    keys = np.random.default_rng(0).integers(0, 50, 2000) / 7
    work = sorter.Sorter()
    tracemalloc.start()
    for at in range(0, 2000, 3):
        work.add(keys[at : at + 3].tolist(), [f"{row} {'long ' * 1000}" for row in range(at, min(at + 3, 2000))])
    rows = [int(text.split()[0]) for text in work.sorted()]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows == np.argsort(keys, kind="stable").tolist()
    assert peak < 1_000_000 < 2000 * 5000


def test_a_full_disk_is_an_error_of_one_line() -> None:
    work = sorter.Sorter()
    work._database.execute("PRAGMA max_page_count = 4")
    with pytest.raises(RunError, match="cannot sort the rows: database or disk is full; TMPDIR may name"):
        work.add([1.0] * 100, ["long " * 1000] * 100)


def test_many_order_statistics_are_found_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scored_module, "HELD_ROWS", 10)
    values = np.random.default_rng(1).random(5000)
    values[::7] = 0.25
    ranks = list(range(0, 5000, 60))
    found = scored_module.order_statistics(lambda: iter(np.array_split(values, 9)), 5000, ranks)
    assert [found[rank] for rank in ranks] == np.sort(values)[ranks].tolist()


def test_pages_are_escaped_and_hashes_are_right(tmp_path: Path, pair_file) -> None:
    rows = [pair(0, "x"), pair(1, "<script>alert('man')</script>", gold="<b>")]
    score_corpus(pair_file(rows), tmp_path / "scored", Letters())
    made = combined(tmp_path / "scored", tmp_path / "out", CorpusSettings(50, split=None))
    for name in ("removed.html", "added.html"):
        page = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert page.count("<script") == 2 and "<script>alert" not in page, "the page has its data and its own script"
        assert "&lt;script&gt;" in page
    assert json.loads((tmp_path / "out/card.json").read_text(encoding="utf-8")) == made.card.to_dict()
    assert set(made.card.files) == {"corpus.jsonl", "removed.csv", "removed.html", "added.csv", "added.html"}
    content = (tmp_path / "out/corpus.jsonl").read_bytes()
    assert made.card.files["corpus.jsonl"] == hashlib.sha256(b"corpus.jsonl\x00" + content).hexdigest()


def test_the_page_shows_the_top_only(tmp_path: Path, many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review, "_SHOWN", 5)
    subtract(many, tmp_path / "out", CorpusSettings(90, split=None))
    page = (tmp_path / "out/removed.html").read_text(encoding="utf-8")
    assert page.count("<tr>") == 6
    assert "40 rows" in page
    assert len(table(tmp_path / "out/removed.csv")) == 40


def test_bad_input(tmp_path: Path, five: Path, pair_file) -> None:
    with pytest.raises(InputError, match="10000"):
        subtract(five, tmp_path / "out", CorpusSettings(100))
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="195"):
        subtract(five, tmp_path / "out", CorpusSettings(195))
    with pytest.raises(InputError, match="-1"):
        Split(-1, 3)
    with pytest.raises(InputError, match="seed.*-1"):
        subtract(five, tmp_path / "out", CorpusSettings(50, split=None, seed=-1))
    with pytest.raises(InputError, match="method .x."):
        fairer_corpus("x", five, tmp_path / "out", CorpusSettings(50))  # type: ignore[arg-type]
    other = Letters()
    other.identity = "other"
    with pytest.raises(InputError, match="other"):
        augment(five, tmp_path / "out", CorpusSettings(50, split=None), scorer=other)
    with pytest.raises(InputError, match="none"):
        subtract(tmp_path / "none", tmp_path / "out", CorpusSettings(50))
    score_corpus(pair_file([pair(0, "a", "-")], "none.jsonl"), tmp_path / "unlabelled", Letters())
    with pytest.raises(InputError, match="label"):
        subtract(tmp_path / "unlabelled", tmp_path / "out", CorpusSettings(50))


def test_folders_that_are_refused(tmp_path: Path, five: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="corpus"):
        subtract(five, foreign, CorpusSettings(50, split=None), overwrite=True)
    assert (foreign / "thesis.tex").read_text(encoding="utf-8") == "mine"
    subtract(five, tmp_path / "out", CorpusSettings(50, split=None))
    with pytest.raises(RunError, match="corpus"):
        augment(five, tmp_path / "out", CorpusSettings(50, split=None))
    augment(five, tmp_path / "out", CorpusSettings(50, split=None), overwrite=True)
    assert not (tmp_path / "out/removed.csv").exists()
    assert not [entry for entry in tmp_path.iterdir() if entry.name.endswith(".tmp")]


def test_folders_with_the_card_of_something_else_are_kept(tmp_path: Path, five: Path) -> None:
    for name, card in (("controlled", '{"name": "bias-controlled", "files": {}}'), ("broken", "{"), ("list", "[]")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "card.json").write_text(card, encoding="utf-8")
        with pytest.raises(RunError, match="corpus"):
            subtract(five, folder, CorpusSettings(50, split=None), overwrite=True)
        assert (folder / "card.json").read_text(encoding="utf-8") == card


def test_the_old_corpus_stays_until_the_new_one_is_there(
    tmp_path: Path, five: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subtract(five, tmp_path / "out", CorpusSettings(50, split=None))
    before = {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()}
    there = sorted(tmp_path.iterdir())
    rename = Path.rename

    def fail(path: Path, target: Path) -> Path:
        if path.name.endswith(".tmp"):
            raise OSError(13, "Permission denied")
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(RunError, match="Permission"):
            augment(five, tmp_path / "out", CorpusSettings(50, split=None), overwrite=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "out").iterdir()} == before
    assert sorted(tmp_path.iterdir()) == there
    augment(five, tmp_path / "out", CorpusSettings(50, split=None), overwrite=True)
    assert (tmp_path / "out/added.csv").is_file() and sorted(tmp_path.iterdir()) == there


def test_snli(tmp_path: Path, shared_data: Path) -> None:
    score_corpus(shared_data / "snli/snli_1.0_test.jsonl.xz", tmp_path / "scored", Letters())
    made = augment(tmp_path / "scored", tmp_path / "out", CorpusSettings(95, split=Split(500, 500), mode="paper"))
    counts = made.card.counts.to_dict()
    assert (counts["rows"], counts["no_gold"]) == (10_000, 176)
    assert 400 < counts["above_threshold"] <= 0.05 * 9_824
    assert 0.3 < counts["added"] / counts["above_threshold"] < 0.9
    assert counts["result"] == 9_824 + counts["added"]
    assert len(everything(tmp_path / "out")) == counts["result"]


def test_summary_of_many_scores_does_not_hold_them_all() -> None:
    size, parts = 100_000, 40

    def scores() -> Iterator[np.ndarray]:
        return (np.random.default_rng(seed).random(size) for seed in range(parts))

    tracemalloc.start()
    summary = _summary(scores, size * parts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert summary is not None and summary["mean"] == pytest.approx(0.5, abs=1e-3)
    assert [summary[f"p{q}"] for q in _QUANTILES[1:-1]] == pytest.approx([q / 100 for q in _QUANTILES[1:-1]], abs=2e-3)
    assert peak < 0.8 * 8 * size * parts  # all scores at once would be 8 bytes each


def test_mean_is_the_same_over_one_part_and_over_several(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random(1_000)
    whole = _summary(lambda: iter([values]), len(values))
    monkeypatch.setattr("evenli.corpus.mitigation.corpora.HELD_ROWS", 10)
    assert _summary(lambda: iter(np.array_split(values, 7)), len(values)) == pytest.approx(whole)
