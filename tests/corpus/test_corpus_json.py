"""How often a row of a corpus passes through JSON, and that plain text is written as ``json`` would write it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenli.core import io, parse
from evenli.corpus import rows, run
from evenli.corpus.bias import BiasScorer
from evenli.corpus.importance import Idf, Sif, WordCounts
from evenli.corpus.mitigation.corpora import fairer_corpus
from evenli.corpus.mitigation.selection import CorpusSettings, Split
from evenli.corpus.run import corpus_texts, score_corpus
from evenli.corpus.scored import CorpusScores
from evenli.corpus.scoring import score
from evenli.encoders.direction import gender_direction, read_pairs
from evenli.encoders.vectors import load_vectors


class Words:
    """F = words / 100, M = 0."""

    identity = "words"

    def score_many(self, sentences: list[str]) -> np.ndarray:
        f = np.array([len(text.split()) / 100 for text in sentences])
        return np.stack([f, 0 * f, f], axis=1)


class Passes(Counter[str]):
    """Counts how often each row is read from JSON or written as JSON; rows have marks such as ``#7#``."""

    def note(self, text: object) -> None:
        kind = "copy" if "woman" in str(text) else "row"
        self.update(f"{kind} {mark}" for mark in re.findall(r"#(\d+)#", str(text)))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Passes:
    """Every way into JSON and out of it that evenli has is counted from here on."""
    counted = Passes()

    def watch(owner: Any, name: str, texts: Callable[[Any, Any], list[Any]]) -> None:
        really = getattr(owner, name)

        def call(*arguments: Any, **options: Any) -> Any:
            result = really(*arguments, **options)
            for text in texts(arguments[0], result):
                counted.note(text)
            return result

        monkeypatch.setattr(owner, name, call)

    class Decoder:
        def __init__(self, really: json.JSONDecoder) -> None:
            self._really = really

        def decode(self, text: str) -> Any:
            counted.note(text)
            return self._really.decode(text)

    for module, name in ((json, "loads"), (json, "load")):
        watch(module, name, lambda given, _: [given])
    watch(json, "dumps", lambda _, result: [result])
    watch(run, "plain_rows", lambda _, result: result["original"])
    monkeypatch.setattr(parse, "_JSON", Decoder(parse._JSON))
    return counted


def sentences(count: int) -> list[str]:
    return [f"The man saw #{n}# {'and ' * (n % 20)}slept" for n in range(count)]


def write_source(folder: Path, suffix: str, texts: list[str]) -> Path:
    file = folder / f"lines{suffix}"
    if suffix == ".txt":
        file.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    elif suffix == ".parquet":
        pl.DataFrame({"text": texts}).write_parquet(file)
    else:
        file.write_text("".join('{"text": "%s"}\n' % text for text in texts), encoding="utf-8")  # noqa: UP031
    return file


def write_vectors(folder: Path) -> Path:
    generator = np.random.default_rng(2)
    words = sorted({word for pair in read_pairs("ten") for word in pair} | {"the", "saw", "and", "slept"})
    lines = [f"{word} " + " ".join(f"{x:.3f}" for x in generator.normal(size=6)) for word in words]
    (folder / "vectors.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "vectors.txt"


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".parquet"])
@pytest.mark.parametrize("method", ["subtract", "augment", "combined"])
def test_a_row_passes_through_json_at_most_twice(tmp_path: Path, passes: Passes, suffix: str, method: Any) -> None:
    count = 400
    source = write_source(tmp_path, suffix, sentences(count))
    passes.clear()
    score_corpus(source, tmp_path / "scored", Words())
    scored = passes.copy()
    assert len(scored) == count  # the control: every row is seen once at least, because its JSON is stored
    made = fairer_corpus(method, tmp_path / "scored", tmp_path / "out", CorpusSettings(80, split=Split(20, 20)))
    counts = made.card.counts
    rows_now = {name: passes[name] for name in passes if name.startswith("row")}
    del rows_now["row 0"], scored["row 0"]  # the first row says which columns there are
    assert set(scored.values()) == {1}
    # Only a changed row is read again. Its copy is a row of its own, and written once.
    assert Counter(rows_now.values()) == {1: count - 1 - counts.above_threshold, 2: counts.above_threshold}
    copies = [passes[name] for name in passes if name.startswith("copy")]
    assert copies == [1] * counts.added and (counts.added > 50) == (method != "subtract")


@pytest.mark.parametrize("suffix", [".txt", ".jsonl", ".parquet"])
@pytest.mark.parametrize("weights", ["idf", "sif"])
def test_counting_words_before_scoring_costs_no_pass(tmp_path: Path, passes: Passes, suffix: str, weights: Any) -> None:
    """The rows are parsed once for both, and a later step reads the counts instead of the corpus."""
    count = 200
    source = write_source(tmp_path, suffix, sentences(count))
    passes.clear()
    scored = score(source, tmp_path / "scored", vectors=write_vectors(tmp_path), weights=weights)
    del passes["row 0"]  # the first row says which columns there are
    assert len(passes) == count - 1 and set(passes.values()) == {1}
    source.unlink()  # neither the scorer nor the words of removed rows need it any more
    made = fairer_corpus("subtract", scored, tmp_path / "out", CorpusSettings(80, split=None))
    assert made.card.driving_words == "shown" and made.card.counts.removed > 20
    del passes["row 0"]
    assert Counter(passes.values())[2] in {made.card.counts.removed, made.card.counts.removed - 1}
    assert set(passes.values()) == {1, 2}
    assert not list(tmp_path.glob(".*.tmp"))  # where the rows waited


@pytest.mark.parametrize("weights", ["idf", "sif"])
def test_rows_that_waited_score_as_those_that_did_not(tmp_path: Path, weights: Any) -> None:
    source = tmp_path / "pairs.jsonl"
    texts = sentences(150)
    lines = [json.dumps({"a": text, "b": "", "label": "-" if len(text) % 7 == 0 else "neutral"}) for text in texts]
    source.write_bytes(b"\n\n".join([*(line.encode() for line in lines), b'{"a": "a \xff man", "b": "x"}']))
    vectors = load_vectors(write_vectors(tmp_path))
    weigh: Any = {"idf": Idf, "sif": Sif}[weights](WordCounts.count(corpus_texts(source, ["a", "b"])))
    scorer = BiasScorer(vectors, gender_direction(vectors), weights=weigh, centre="length")
    plain = score_corpus(source, tmp_path / "plain", scorer, run.ReadSettings(["a", "b"]))
    kept = score(source, tmp_path / "kept", vectors=vectors.file, weights=weights, columns=["a", "b"], centre="length")
    assert kept.header["scorer"] == plain.header["scorer"] and kept.header["counts"] == plain.header["counts"]
    assert kept.header["counts"]["blank_lines"] == 150
    for frame, other in zip(kept.frames(), plain.frames(), strict=True):
        assert frame.equals(other)
    assert any(frame["a_Abs"].max() > 0 for frame in kept.frames())


def test_the_words_of_plain_text_are_counted_without_json(tmp_path: Path, passes: Passes) -> None:
    assert WordCounts.count(corpus_texts(write_source(tmp_path, ".txt", sentences(30)))).documents == 30
    assert not passes
    assert WordCounts.count(corpus_texts(write_source(tmp_path, ".jsonl", sentences(30)))).documents == 30
    assert len(passes) == 30  # the control


LINES = st.lists(st.binary(max_size=12) | st.text(max_size=8).map(str.encode), min_size=1, max_size=12)


@settings(max_examples=300, deadline=None)
@given(LINES)
def test_plain_text_is_written_as_json_writes_it(lines: list[bytes]) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    found = rows.plain_rows(lines)
    columns = found["text0"], found["original"], found["invalid_utf8"]
    for line, text, original, invalid in zip(lines, *columns, strict=True):
        assert text == line.decode("utf-8", "replace")
        assert original == json.dumps({"text": text}, ensure_ascii=False)
        assert invalid == (text.encode() != line)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60), st.integers(1, 9))
def test_blocks_of_lines_are_those_of_readline(tmp_path_factory: Any, content: bytes, size: int) -> None:
    file = tmp_path_factory.getbasetemp() / "blocks.txt"
    content = content.replace(b"a", b"\n").replace(b"b", b"\r\n")
    file.write_bytes(content)
    with file.open("rb") as stream:
        lines = [line.rstrip(b"\r\n") for line in stream]
    if lines:
        lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "_BLOCK", size)
        assert list(io.iter_lines(file)) == list(enumerate(lines, 1))


def test_a_shard_that_cannot_be_written_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes does not swallow it, and what was scored before is there when the run goes on."""
    monkeypatch.setattr(run, "SHARD_ROWS", 10)
    source = write_source(tmp_path, ".txt", sentences(50))
    with monkeypatch.context() as patch:
        really = run.Job.store

        def store(job: run.Job, number: int, *shard: Any) -> None:
            if number == 2:
                raise OSError(28, "No space left on device")
            really(job, number, *shard)

        patch.setattr(run.Job, "store", store)
        with pytest.raises(OSError, match="No space"):
            score_corpus(source, tmp_path / "out", Words())
    assert len(list((tmp_path / "out/shards").glob("*.parquet"))) == 2
    score_corpus(source, tmp_path / "out", Words())
    assert CorpusScores.read(tmp_path / "out").rows == 50
