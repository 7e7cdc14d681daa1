"""Scoring corpora of any size: flags, resuming, equality whatever the batch, thresholds."""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import lzma
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from filelock import FileLock

from conftest import PEAK_MEMORY
from evenli.core import io, store
from evenli.core.errors import InputError, MissingExtraError, PairError, RunError, RunLockedError
from evenli.corpus import run as module
from evenli.corpus.pages import distribution_chart, write_distribution_chart
from evenli.corpus.ray_engine import score_corpus_ray
from evenli.corpus.run import ReadSettings, score_corpus
from evenli.corpus.scored import CorpusScores, distribution, percentiles_of, thresholds


class Lengths:
    """F = letters / 100, M = -words / 10, Abs = |F| + |M|; counts what it is asked."""

    identity = "lengths"

    def __init__(self, fail_after: int | None = None) -> None:
        self.seen: list[str] = []
        self.sizes: list[int] = []
        self.fail_after = fail_after

    def score_many(self, sentences: list[str]) -> np.ndarray:
        self.seen += sentences
        self.sizes.append(len(sentences))
        if self.fail_after is not None and len(self.seen) > self.fail_after:
            raise KeyboardInterrupt
        f = np.array([len(text) / 100 for text in sentences])
        m = np.array([-len(text.split()) / 10 for text in sentences])
        return np.stack([f, m, abs(f) + abs(m)], axis=1)


def table(path: Path) -> pl.DataFrame:
    return pl.concat(CorpusScores.read(path).frames())


def digest(path: Path) -> dict[str, str]:
    return {
        str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(path.rglob("*"))
        if file.is_file() and file.name != ".lock"
    }


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARD_ROWS", 10)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("".join(f"{'word ' * (n % 7)}number {n % 40}\n" for n in range(95)), encoding="utf-8")
    return path


PAIRS = [
    {"sentence1": "A man", "sentence2": "One two three", "gold_label": "neutral", "pairID": "a", "extra": [1, 2.50]},
    {"sentence1": "abc", "sentence2": "A man", "gold_label": "-", "pairID": "b", "extra": None},
]


def test_pairs_by_hand(tmp_path: Path, pair_file) -> None:
    source = pair_file(PAIRS)
    scorer = Lengths()
    scores = score_corpus(source, tmp_path / "out", scorer)
    assert scores.columns == ("sentence1", "sentence2")
    assert scorer.seen == ["A man", "abc", "One two three"]  # each sentence once
    rows = table(tmp_path / "out")
    assert rows["row"].to_list() == [0, 1]
    # A man: 5 letters, 2 words; One two three: 13 letters, 3 words; abc: 3 letters, 1 word.
    assert rows["sentence1_F"].to_list() == [0.05, 0.03]
    assert rows["sentence1_M"].to_list() == [-0.2, -0.1]
    assert rows["sentence2_Abs"].to_list() == pytest.approx([0.43, 0.25])
    assert rows["pair_max"].to_list() == pytest.approx([0.43, 0.25])
    assert rows["no_gold"].to_list() == [False, True]
    assert [json.loads(text) for text in rows["original"]] == PAIRS
    assert "".join(f"{text}\n" for text in rows["original"]) == source.read_text(encoding="utf-8")
    assert scores.header["counts"] == {"empty": 0, "too_long": 0, "invalid_utf8": 0, "no_gold": 1, "blank_lines": 0}
    assert scores.header["highest_pair_max"] == pytest.approx(0.43)


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".jsonl.xz", ".csv", ".csv.gz", ".tsv.xz", ".parquet"])
def test_all_kinds_of_files_agree(tmp_path: Path, suffix: str) -> None:
    rows = [{"premise": f'a, "b" c{n}', "hypothesis": "d\u2028e é" * n, "label": "neutral"} for n in range(1, 30)]
    path = tmp_path / f"data{suffix}"
    if suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(path, row_group_size=7)
    else:
        if "jsonl" in suffix:
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        elif "csv" in suffix:
            with (tmp_path / "plain").open("w", encoding="utf-8", newline="") as stream:
                writer = csv.DictWriter(stream, rows[0])
                writer.writeheader()
                writer.writerows(rows)
            text = (tmp_path / "plain").read_text(encoding="utf-8")
        else:
            text = "\n".join(["\t".join(rows[0]), *("\t".join(row.values()) for row in rows)])
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, lambda data: data)
        path.write_bytes(pack(text.encode()))
    score_corpus(path, tmp_path / "out", Lengths())
    found = table(tmp_path / "out")
    assert [json.loads(text) for text in found["original"]] == rows
    assert found["hypothesis_F"].to_list() == pytest.approx([len(row["hypothesis"]) / 100 for row in rows])


def test_folder_and_glob_read_in_the_order_of_names(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for name, word in (("b.jsonl", "second"), ("a.jsonl", "first"), (".hidden.jsonl", "never"), ("notes.md", "no")):
        (folder / name).write_text(json.dumps({"text": word}) + "\n", encoding="utf-8")
    pl.DataFrame({"text": ["third"]}).write_parquet(folder / "c.parquet")
    score_corpus(folder, tmp_path / "one", Lengths())
    assert [json.loads(text)["text"] for text in table(tmp_path / "one")["original"]] == ["first", "second", "third"]
    score_corpus(f"{folder}/?.jsonl", tmp_path / "two", Lengths())
    assert table(tmp_path / "two").height == 2


def test_flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONG_TEXT", 20)
    path = tmp_path / "odd.txt"
    path.write_bytes(b"\xef\xbb\xbffine\r\n\n   \nb\xe9d\n" + b"x" * 50 + b"\nlast")
    scores = score_corpus(path, tmp_path / "out", Lengths())
    rows = table(tmp_path / "out")
    texts = [json.loads(text)["text"] for text in rows["original"]]
    assert texts == ["fine", "", "   ", "b\ufffdd", "x" * 50, "last"]  # all kept, the long one whole
    assert rows["empty"].to_list() == [False, True, True, False, False, False]
    assert rows["invalid_utf8"].to_list() == [False, False, False, True, False, False]
    assert rows["too_long"].to_list() == [False, False, False, False, True, False]
    assert rows["text_F"].to_list() == [0.04, 0, 0, 0.03, 0.2, 0.04]
    assert rows["text_Abs"].to_list()[1:3] == [0, 0]
    assert scores.header["counts"] == {"empty": 2, "too_long": 1, "invalid_utf8": 1, "no_gold": 0, "blank_lines": 0}


def test_flags_of_tables(tmp_path: Path) -> None:
    path = tmp_path / "odd.csv"
    path.write_bytes(b"text,n\nb\xe9d,1\n\n,2\nshort\n")
    score_corpus(path, tmp_path / "csv", Lengths())
    rows = table(tmp_path / "csv")
    assert [json.loads(text) for text in rows["original"]] == [
        {"text": "b\ufffdd", "n": "1"},
        {"text": "", "n": "2"},
        {"text": "short", "n": None},
    ]
    assert rows["invalid_utf8"].to_list() == [True, False, False]
    assert rows["empty"].to_list() == [False, True, False]
    assert CorpusScores.read(tmp_path / "csv").header["counts"]["blank_lines"] == 1
    path = tmp_path / "odd.jsonl"
    path.write_text('{"text": "half \\ud800"}\n\n{"text": null}\n{"text": 12}\n', encoding="utf-8")
    score_corpus(path, tmp_path / "json", Lengths())
    rows = table(tmp_path / "json")
    assert rows["invalid_utf8"].to_list() == [True, False, False]
    assert rows["empty"].to_list() == [False, True, False]
    assert rows["text_F"].to_list() == [0.06, 0, 0.02]


def test_a_very_long_field_of_a_csv_file(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_text(f"text\n{'ab ' * 500_000}\n", encoding="utf-8")
    score_corpus(path, tmp_path / "out", Lengths())
    rows = table(tmp_path / "out")
    assert rows["too_long"].to_list() == [True]
    assert rows["text_F"].to_list() == [10_000.0]
    assert len(json.loads(rows["original"][0])["text"]) == 1_500_000


def test_tab_separated_txt_is_a_table(tmp_path: Path) -> None:
    path = tmp_path / "snli.txt"
    path.write_text('gold_label\tsentence1\tsentence2\n-\tA "man\tB\n', encoding="utf-8")
    assert score_corpus(path, tmp_path / "out", Lengths()).columns == ("sentence1", "sentence2")
    assert table(tmp_path / "out")["no_gold"].to_list() == [True]


@pytest.mark.usefixtures("small_shards")
def test_batch_size_changes_no_byte(tmp_path: Path, lines: Path) -> None:
    results = []
    for batch in (1, 3, 1000):
        scorer = Lengths()
        score_corpus(lines, tmp_path / str(batch), scorer, ReadSettings(batch=batch))
        assert max(scorer.sizes) <= batch
        assert len(scorer.seen) == len(set(scorer.seen))  # the cache spans shards
        results.append(digest(tmp_path / str(batch)))
    assert results[0] == results[1] == results[2]
    assert len(results[0]) == 11  # ten shards and the header


@pytest.mark.usefixtures("small_shards")
def test_cache_is_bounded(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    score_corpus(lines, tmp_path / "large", Lengths())
    monkeypatch.setattr(module, "_CACHED", 2)
    score_corpus(lines, tmp_path / "small", Lengths())
    assert digest(tmp_path / "small") == digest(tmp_path / "large")
    worker = module.Worker(Lengths(), ["text"], 10)
    worker._score([f"sentence {n}" for n in range(50)])
    assert list(worker._recent) == ["sentence 48", "sentence 49"]


@pytest.mark.usefixtures("small_shards")
def test_an_interrupted_run_goes_on(tmp_path: Path, lines: Path) -> None:
    score_corpus(lines, tmp_path / "whole", Lengths())
    with pytest.raises(KeyboardInterrupt):
        score_corpus(lines, tmp_path / "out", Lengths(fail_after=35))
    with pytest.raises(RunError, match="finished"):
        CorpusScores.read(tmp_path / "out")
    kept = sorted(file.name for file in (tmp_path / "out/shards").glob("*.parquet"))
    assert 1 <= len(kept) < 10
    (tmp_path / "out/shards" / kept[0]).write_bytes(b"PAR1 torn")  # damaged shards are made again
    progress: list[int] = []
    scorer = Lengths()
    score_corpus(lines, tmp_path / "out", scorer, on_progress=progress.append)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")
    assert len(scorer.seen) < 95
    assert progress == [10, 20, 30, 40, 50, 60, 70, 80, 90, 95]
    again = Lengths()
    score_corpus(lines, tmp_path / "out", again)  # finished: nothing is scored
    assert again.seen == []


@pytest.mark.usefixtures("small_shards")
def test_a_changed_shard_of_an_interrupted_run_is_found_by_its_hash(tmp_path: Path, lines: Path) -> None:
    score_corpus(lines, tmp_path / "whole", Lengths())
    with pytest.raises(KeyboardInterrupt):
        score_corpus(lines, tmp_path / "out", Lengths(fail_after=35))
    shard = tmp_path / "out/shards/000000.parquet"
    pl.read_parquet(shard).with_columns(pl.lit(0.0).alias("pair_max")).write_parquet(shard)  # the rows are the same
    score_corpus(lines, tmp_path / "out", Lengths())
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("hashes", [None, "", "torn"])
def test_a_run_without_its_hashes_goes_on(tmp_path: Path, lines: Path, hashes: str | None) -> None:
    score_corpus(lines, tmp_path / "whole", Lengths())
    with pytest.raises(KeyboardInterrupt):
        score_corpus(lines, tmp_path / "out", Lengths(fail_after=35))
    file, scorer = tmp_path / "out/shards/evenli-hashes.txt", Lengths()
    assert file.read_text(encoding="utf-8").count("\n") == 3
    file.unlink() if hashes is None else file.write_text(hashes, encoding="utf-8")
    score_corpus(lines, tmp_path / "out", scorer)
    assert digest(tmp_path / "out") == digest(tmp_path / "whole") and not file.exists()
    assert len(scorer.seen) == 95


@pytest.mark.usefixtures("small_shards")
def test_kill_9(tmp_path: Path, lines: Path) -> None:
    code = f"""
import sys, time
sys.path[:0] = {sys.path!r}
from evenli.corpus import run as corpus
from test_corpus import Lengths
corpus.SHARD_ROWS = {module.SHARD_ROWS}
class Slow(Lengths):
    def score_many(self, sentences):
        time.sleep(0.3)
        return super().score_many(sentences)
corpus.score_corpus({str(lines)!r}, sys.argv[1], Slow())
"""
    score_corpus(lines, tmp_path / "whole", Lengths())
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "out")])
    for _ in range(300):
        if (tmp_path / "out/shards/000001.parquet").exists():
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert json.loads((tmp_path / "out/scores.json").read_text())["status"] == "running"
    score_corpus(lines, tmp_path / "out", Lengths())
    assert digest(tmp_path / "out") == digest(tmp_path / "whole")


@pytest.mark.parametrize("moment", ["shards", "header", "make"])
def test_a_run_killed_while_it_starts_over_is_not_refused(
    tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    class Other(Lengths):
        identity = "other"

    def die(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    score_corpus(lines, out, Other())
    with monkeypatch.context() as patch:
        if moment == "shards":
            patch.setattr(store.shutil, "rmtree", die)
        elif moment == "header":
            patch.setattr(store.RunDir, "write_manifest", die)
        else:
            made = Path.mkdir
            patch.setattr(Path, "mkdir", lambda path, *a, **k: die() if path.name == "shards" else made(path, *a, **k))
        with pytest.raises(KeyboardInterrupt):
            score_corpus(lines, out, Lengths(), overwrite=True)
    fresh = score_corpus(lines, tmp_path / "fresh", Lengths())
    score_corpus(lines, out, Lengths(), overwrite=True)
    assert digest(out) == digest(fresh.path)


def test_what_a_killed_run_left_without_a_header_is_cleared(tmp_path: Path, lines: Path) -> None:
    class Other(Lengths):
        identity = "other"

    out = tmp_path / "out"
    score_corpus(lines, out, Other())
    (out / "scores.json").unlink()
    (out / ".scores.partial.json").write_text("{")
    scorer = Lengths()
    score_corpus(lines, out, scorer)
    # The old shards have the right rows, but nothing says who scored them.
    assert len(scorer.seen) > 0
    assert digest(out) == digest(score_corpus(lines, tmp_path / "fresh", Lengths()).path)
    (out / "scores.json").unlink()
    (out / "shards" / "photo.png").write_text("mine")
    with pytest.raises(RunError, match="corpus"):
        score_corpus(lines, out, Lengths(), overwrite=True)
    assert (out / "shards" / "photo.png").is_file()


def test_folders_that_are_refused(tmp_path: Path, lines: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("mine", encoding="utf-8")
    with pytest.raises(RunError, match="corpus"):
        score_corpus(lines, foreign, Lengths(), overwrite=True)
    assert [entry.name for entry in foreign.iterdir()] == ["thesis.tex"]
    out = tmp_path / "out"
    score_corpus(lines, out, Lengths())
    other = Lengths()
    other.identity = "other"
    with pytest.raises(RunError, match="scorer"):
        score_corpus(lines, out, other)
    assert score_corpus(lines, out, other, overwrite=True).header["scorer"] == "other"
    lines.write_text("changed\n", encoding="utf-8")
    with pytest.raises(RunError, match="source"):
        score_corpus(lines, out, other)
    with FileLock(out / ".lock"):
        code = f"""
import sys
sys.path[:0] = {sys.path!r}
from test_corpus import Lengths, score_corpus
score_corpus({str(lines)!r}, {str(out)!r}, Lengths(), overwrite=True)
"""
        second = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert f"{RunLockedError.__name__}: another process is working in {out}" in second.stderr
    (out / "shards/000000.parquet").unlink()
    with pytest.raises(RunError, match="000000.parquet"):
        CorpusScores.read(out)
    (out / "scores.json").write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match="scores.json"):
        CorpusScores.read(out)
    with pytest.raises(InputError, match="nowhere"):
        CorpusScores.read(tmp_path / "nowhere")


def test_a_shard_or_manifest_that_was_changed_is_refused(tmp_path: Path, lines: Path) -> None:
    out = tmp_path / "out"
    score_corpus(lines, out, Lengths())
    (shard,) = sorted((out / "shards").glob("*.parquet"))[:1]
    whole, manifest = shard.read_bytes(), (out / "scores.json").read_text(encoding="utf-8")
    pl.read_parquet(shard).with_columns(pair_max=pl.col("pair_max") + 1).write_parquet(shard)
    with pytest.raises(RunError, match=shard.name):
        list(CorpusScores.read(out).frames())
    shard.write_bytes(whole)
    assert sum(frame.height for frame in CorpusScores.read(out).frames()) == 95  # the control
    for changed in (
        manifest.replace('"rows": 95', '"rows": 94'),
        manifest.replace("manifest_sha256", "other"),
        manifest.replace('"schema": 2', '"schema": 1'),
    ):
        (out / "scores.json").write_text(changed, encoding="utf-8")
        with pytest.raises(RunError, match="scores.json"):
            CorpusScores.read(out)


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.jsonl", '{"a": "x", "b": "y"}', None, "a, b"),
        ("a.jsonl", '{"a": "x", "b": "y"}', ["c"], "column c"),
        ("a.jsonl", '{"text": "x"}\n\n{"t": "y"}', None, "line 3.*'text'"),
        ("a.jsonl", '{"text": "x"}\n{"text": ', None, "line 2.*JSON"),
        ("a.jsonl", '{"text": ["x"]}', None, "line 1.*list"),
        ("a.jsonl", "[1]", None, "line 1.*list"),
        ("a.jsonl", "", None, "rows"),
        ("a.txt", "", None, "rows"),
        ("a.txt", "x", ["premise"], "premise"),
        ("a.csv", "text\na,b\n", None, "line 2.*cell"),
        ("a.csv", "text,b\n", ["text"], "rows"),
        ("a.jsonl.gz", "no gzip", None, "a[.](jsonl|parquet)"),
        ("a.jsonl.xz", "no xz", None, "a[.](jsonl|parquet)"),
        ("a.parquet", "no parquet", None, "a[.](jsonl|parquet)"),
        ("a.docx", "x", None, "docx"),
        ("a.jsonl", '{"text": "x"}', ["text", "text"], "columns"),
    ],
)
def test_bad_sources(tmp_path: Path, name: str, content: str, columns: list[str] | None, message: str) -> None:
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        score_corpus(tmp_path / name, tmp_path / "out", Lengths(), ReadSettings(columns))
    assert "\n" not in str(caught.value)


def test_more_bad_input(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="none.txt"):
        score_corpus(tmp_path / "none.txt", tmp_path / "out", Lengths())
    with pytest.raises(InputError, match=r"\.parquet"):
        score_corpus(f"{tmp_path}/*.parquet", tmp_path / "out", Lengths())
    with pytest.raises(InputError, match="batch"):
        score_corpus(lines, tmp_path / "out", Lengths(), ReadSettings(batch=0))
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed/a.txt").write_text("x\n", encoding="utf-8")
    (tmp_path / "mixed/b.jsonl").write_text('{"text": "x"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="tables"):
        score_corpus(tmp_path / "mixed", tmp_path / "out", Lengths())
    scorer = Lengths()
    monkeypatch.setattr(scorer, "score_many", lambda sentences: np.zeros((len(sentences), 2)))
    with pytest.raises(InputError, match=r"\(40, 3\)|\(95, 3\)|array"):
        score_corpus(lines, tmp_path / "out", scorer)
    monkeypatch.setattr(scorer, "score_many", lambda sentences: np.full((len(sentences), 3), np.nan))
    with pytest.raises(InputError, match="number 0"):
        score_corpus(lines, tmp_path / "out", scorer)
    monkeypatch.setattr(io, "LINE_BYTES", 10)
    with pytest.raises(InputError, match="text file"):
        score_corpus(lines, tmp_path / "other", Lengths())


def test_shards_are_bounded_in_bytes(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SHARD_BYTES", 100)
    scores = score_corpus(lines, tmp_path / "out", Lengths())
    assert scores.rows == 95
    assert len(scores.shards) > 10
    assert table(tmp_path / "out")["row"].to_list() == list(range(95))


def test_thresholds_by_hand(tmp_path: Path, pair_file) -> None:
    # Abs = letters / 100 + 0.1 for one word: 0.11, 0.12, 0.13, 0.14, 0.15; the pair without gold would be the largest.
    rows = [{"premise": "x" * n, "hypothesis": "x", "gold": "neutral"} for n in (3, 1, 5, 2, 4)]
    source = pair_file([*rows, {"premise": "x" * 50, "hypothesis": "x", "gold": "-"}])
    assert score_corpus(source, tmp_path / "out", Lengths()).gold_rows == 5
    found = thresholds(tmp_path / "out", [0, 50, 90, 100])
    # 90 %: rank 0.9 * 4 = 3.6, so 0.14 + 0.6 * 0.01.
    assert list(found.values()) == pytest.approx([0.11, 0.13, 0.146, 0.15])
    with pytest.raises(InputError, match="101"):
        thresholds(tmp_path / "out", [50, 101])


@pytest.mark.usefixtures("small_shards")
@pytest.mark.parametrize("bits", [1, 8, 16])
def test_thresholds_in_passes_are_exact(
    tmp_path: Path, lines: Path, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    score_corpus(lines, tmp_path / "out", Lengths())
    wanted = [0, 3, 50, 90, 95, 97, 100]
    exact = thresholds(tmp_path / "out", wanted)
    monkeypatch.setattr("evenli.corpus.scored.HELD_ROWS", 10)
    monkeypatch.setattr("evenli.corpus.scored._BITS", bits)
    assert thresholds(tmp_path / "out", wanted) == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("kind", ["spread", "ties", "tiny", "equal", "signed"])
def test_percentiles_in_passes_are_those_of_numpy(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    values = {
        "spread": rng.lognormal(0, 5, 4_001),
        "ties": np.round(rng.exponential(0.3, 4_001), 1),
        "tiny": 1 + rng.integers(0, 50, 4_001) * np.finfo(float).eps,
        "equal": np.full(4_001, 0.3),
        "signed": np.round(rng.normal(0, 1, 4_001), 1) * rng.choice([-1.0, 1.0], 4_001),
    }[kind]
    monkeypatch.setattr("evenli.corpus.scored.HELD_ROWS", 10)
    monkeypatch.setattr("evenli.corpus.scored._BITS", 4)
    wanted = [0, 0.01, 33.3, 50, 97, 99.99, 100]
    parts = [values[:1], values[1:1], values[1:2_500], values[2_500:]]
    found = percentiles_of(lambda: iter(parts), len(values), wanted)
    np.testing.assert_allclose(list(found.values()), np.percentile(values, wanted), rtol=1e-15)


def test_distribution_by_hand(tmp_path: Path, pair_file) -> None:
    # One word each: F = letters / 100, M = -0.1, Abs = F + 0.1; the highest score is 0.2, so a bin is 0.05 wide.
    rows = [{"premise": "x" * n, "hypothesis": "x", "gold": "neutral"} for n in (1, 4, 6, 10)]
    source = pair_file([*rows, {"premise": "x" * 2, "hypothesis": "x", "gold": "-"}])
    score_corpus(source, tmp_path / "out", Lengths())
    found = distribution(tmp_path / "out", [50], bins=4)
    assert found.edges == pytest.approx([0, 0.05, 0.1, 0.15, 0.2])
    assert found.rows.tolist() == [0, 0, 2, 2]  # 0.11, 0.14, 0.16, 0.2; without the pair that has no gold label
    assert found.female.tolist() == [6, 1, 1, 0]  # 0.01 of four hypotheses, 0.01, 0.04, 0.06, 0.1
    assert found.male.tolist() == [0, 0, 8, 0]
    assert found.thresholds == pytest.approx({50: 0.15}) and found.rows.sum() == 4
    with pytest.raises(InputError, match="bins"):
        distribution(tmp_path / "out", bins=0)


@pytest.mark.usefixtures("small_shards")
def test_distribution_over_shards(tmp_path: Path, lines: Path) -> None:
    score_corpus(lines, tmp_path / "out", Lengths())
    found, rows = distribution(tmp_path / "out"), table(tmp_path / "out")
    for counts, column in ((found.rows, "pair_max"), (found.female, "text_F"), (found.male, "text_M")):
        assert counts.tolist() == np.histogram(rows[column].abs(), found.edges)[0].tolist()
        assert counts.sum() == 95


def test_distribution_of_nothing_but_zeros(tmp_path: Path) -> None:
    (tmp_path / "blank.txt").write_text("\n \n", encoding="utf-8")
    found = distribution(score_corpus(tmp_path / "blank.txt", tmp_path / "out", Lengths()), bins=2)
    assert (found.edges.tolist(), found.rows.tolist()) == ([0, 0.5, 1], [2, 0])


def test_chart_of_the_distribution(tmp_path: Path, lines: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    score_corpus(lines, tmp_path / "out", Lengths())
    found = distribution(tmp_path / "out")
    spec = distribution_chart(found).to_dict()
    above, below = spec["vconcat"]

    def data(part: dict) -> list[dict]:
        return spec["datasets"][part["data"]["name"]]

    labels = [data(layer)[0]["label"] for layer in above["layer"] if layer["mark"]["type"] == "text"]
    assert labels == [f"{name:g} %: {value:.4f}" for name, value in found.thresholds.items()]
    lines_at = [data(layer)[0]["at"] for layer in above["layer"] if layer["mark"]["type"] == "rule"]
    assert lines_at == list(found.thresholds.values())
    assert sum(bar["count"] for bar in data(above["layer"][0])) == 95
    sides = {side: [bar for bar in data(below) if bar["side"] == side] for side in ("female (F)", "male (M)")}
    assert all(sum(bar["count"] for bar in bars) == 95 for bars in sides.values())
    assert all(bar["to"] <= 0 for bar in sides["male (M)"]) and all(bar["from"] >= 0 for bar in sides["female (F)"])
    files = write_distribution_chart(tmp_path / "out", tmp_path / "charts/scores.svg")
    assert [file.name for file in files] == ["scores.svg", "scores.png"]
    drawn = files[0].read_text(encoding="utf-8")
    assert all(label in drawn for label in labels) and files[1].read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(InputError, match=".svg"):
        write_distribution_chart(tmp_path / "out", tmp_path / "scores.pdf")


def test_snli(tmp_path: Path, shared_data: Path) -> None:
    source = shared_data / "snli/snli_1.0_test.jsonl.xz"
    scores = score_corpus(source, tmp_path / "out", Lengths())
    assert scores.rows == 10_000
    assert scores.header["counts"]["no_gold"] == 176
    assert scores.gold_rows == 9_824
    with lzma.open(source, "rb") as stream:
        originals = [line.decode().strip() for line in stream]
    assert table(tmp_path / "out")["original"].to_list() == originals


def test_memory_does_not_grow_with_rows(tmp_path: Path) -> None:
    code = f"""{PEAK_MEMORY}
import sys
sys.path[:0] = {sys.path!r}
from evenli.corpus import run as corpus
from test_corpus import Lengths
corpus.SHARD_ROWS, corpus._CACHED = 5000, 1000
class Cheap(Lengths):
    def score_many(self, sentences):
        self.seen = []
        return super().score_many(sentences)
for file in sys.argv[1:]:
    corpus.score_corpus(file, file + " scored", Cheap())
    print(peak_memory())
"""
    files = []
    for rows in (20_000, 320_000):
        files.append(tmp_path / f"{rows}.txt")
        files[-1].write_text("".join(f"sentence number {n} with more words\n" for n in range(rows)), encoding="utf-8")
    # The peak of a process never falls: what the larger file adds to it is what its further rows need.
    done = subprocess.run([sys.executable, "-c", code, *map(str, files)], capture_output=True, text=True, check=True)
    small, large = map(float, done.stdout.split())
    assert large - small < 25  # megabytes; the rows alone would take more


def test_ray_is_optional(tmp_path: Path, lines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"evenli\[scale\]"):
        score_corpus_ray(lines, tmp_path / "out", Lengths)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_survives_the_loss_of_a_machine(tmp_path: Path) -> None:
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{'word ' * (n % 7)}number {n}\n" for n in range(400_000)), encoding="utf-8")
    score_corpus(source, tmp_path / "local", Lengths())
    log = tmp_path / "log"
    batches = 13  # of 4,096 sentences, for the 50,000 of a shard

    def slow_scorer() -> object:
        class Slow:
            identity = "lengths"

            def score_many(self, sentences):
                import time

                import numpy as np
                import ray

                with log.open("a") as stream:
                    stream.write(ray.get_runtime_context().get_node_id() + "\n")
                time.sleep(0.2)  # long enough that the machine is gone before its shard is done
                f = np.array([len(text) / 100 for text in sentences])
                m = np.array([-len(text.split()) / 10 for text in sentences])
                return np.stack([f, m, abs(f) + abs(m)], axis=1)

        return Slow()

    # The head does no work itself, so both others get some.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    machines = [cluster.add_node(num_cpus=1), cluster.add_node(num_cpus=1)]
    lost: list[str] = []

    def lose_one() -> None:
        for _ in range(3_000):
            counts = Counter(log.read_text().split()) if log.exists() else Counter()
            for machine in machines:
                if counts[machine.node_id] % batches in range(3, 9):  # in the middle of a shard
                    lost.append(machine.node_id)
                    cluster.remove_node(machine, allow_graceful=False)
                    return
            time.sleep(0.02)

    try:
        ray.init(address=cluster.address, log_to_driver=False)
        thread = threading.Thread(target=lose_one)
        thread.start()
        scores = score_corpus_ray(source, tmp_path / "ray", slow_scorer)
        thread.join()
        assert len(lost) == 1
        for _ in range(300):  # the cluster notices a loss by missing heartbeats
            dead = [node["NodeID"] for node in ray.nodes() if not node["Alive"]]
            if dead:
                break
            time.sleep(0.1)
        assert dead == lost
        assert scores.rows == 400_000
        assert len(log.read_text().split()) > 8 * batches  # work was done again
        assert digest(tmp_path / "ray") == digest(tmp_path / "local")
        bad = tmp_path / "bad.jsonl"
        bad.write_text('{"text": "x"}\n{"text": \n', encoding="utf-8")
        with pytest.raises(PairError, match="bad.jsonl, line 2"):
            score_corpus_ray(bad, tmp_path / "bad", slow_scorer)
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("loss", ["machine", "process"])
def test_ray_deals_shards_to_one_actor_per_gpu(tmp_path: Path, loss: str) -> None:
    """Two machines that say they have a GPU. One is lost, or the actor on it, and no byte differs."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    source = tmp_path / "lines.txt"
    source.write_text("".join(f"{'word ' * (n % 7)}number {n}\n" for n in range(500_000)), encoding="utf-8")
    score_corpus(source, tmp_path / "local", Lengths())
    log, made = tmp_path / "log", tmp_path / "made"

    def slow_scorer() -> object:
        class Slow:
            identity = "lengths"
            wants_gpu = True

            def score_many(self, sentences):
                import os
                import time

                import numpy as np
                import ray

                context = ray.get_runtime_context()
                gpu = context.get_accelerator_ids()["GPU"]
                with log.open("a") as stream:
                    stream.write(
                        f"{context.get_node_id()} {context.get_actor_id()} {os.getpid()} {','.join(gpu) or '-'}\n"
                    )
                time.sleep(0.1)
                f = np.array([len(text) / 100 for text in sentences])
                m = np.array([-len(text.split()) / 10 for text in sentences])
                return np.stack([f, m, abs(f) + abs(m)], axis=1)

        with made.open("a") as stream:
            stream.write("made\n")
        return Slow()

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "num_gpus": 0})
    machines = [cluster.add_node(num_cpus=1, num_gpus=1), cluster.add_node(num_cpus=1, num_gpus=1)]
    lost: list[str] = []

    def seen() -> list[list[str]]:
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    def lose_one() -> None:
        for _ in range(3_000):
            counts = Counter((line[0], line[2]) for line in seen())
            for (node, process), count in counts.items():
                if count % 13 in range(3, 9):  # in the middle of a shard
                    lost.append(node)
                    if loss == "process":
                        os.kill(int(process), signal.SIGKILL)
                    else:
                        gone = next(machine for machine in machines if machine.node_id == node)
                        cluster.remove_node(gone, allow_graceful=False)
                    return
            time.sleep(0.02)

    try:
        ray.init(address=cluster.address, log_to_driver=False)
        thread = threading.Thread(target=lose_one)
        thread.start()
        scores = score_corpus_ray(source, tmp_path / "ray", slow_scorer)
        thread.join()
        assert len(lost) == 1 and scores.rows == 500_000
        lines = seen()
        actors = 3 if loss == "process" else 2  # a process is replaced, a machine's GPU is gone with it
        assert len({actor for _, actor, _, _ in lines}) == actors
        assert len({node for node, _, _, _ in lines}) == 2 and all(gpu == "0" for _, _, _, gpu in lines)
        assert len(made.read_text().split()) == actors + 1  # once each, and once here to ask its identity
        assert len(lines) > 10 * 13  # work was done again
        assert digest(tmp_path / "ray") == digest(tmp_path / "local")
        bad = tmp_path / "bad.jsonl"
        bad.write_text('{"text": "x"}\n{"text": \n', encoding="utf-8")
        with pytest.raises(PairError, match="bad.jsonl, line 2"):
            score_corpus_ray(bad, tmp_path / "bad", slow_scorer)
        log.unlink()
        (tmp_path / "few.txt").write_text("a word\n" * 9, encoding="utf-8")
        score_corpus_ray(tmp_path / "few.txt", tmp_path / "few", slow_scorer, gpus=False)
        assert [gpu for _, _, _, gpu in seen()] == ["-"]  # the control
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_ray_says_when_nobody_answers(tmp_path: Path, lines: Path) -> None:
    pytest.importorskip("ray")
    with pytest.raises(RunError, match="127.0.0.1:9"):
        score_corpus_ray(lines, tmp_path / "out", Lengths, address="127.0.0.1:9")
    with pytest.raises(InputError, match="nonsense"):
        score_corpus_ray(lines, tmp_path / "out", Lengths, address="nonsense")
