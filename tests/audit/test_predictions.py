"""The prediction loop: never twice, never lost, never silently wrong."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenli
from evenli.audit.assess import check_label_order
from evenli.audit.models import CallableModel, OutOfMemory, fake_model, load_model
from evenli.audit.models.base import plan_batches
from evenli.audit.pairs import PairSet
from evenli.audit.predict import predict
from evenli.audit.predictions import SCHEMA, Predictions, RunFolder
from evenli.audit.settings import RunSettings
from evenli.audit.suites.checks import gold_pairs
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import LabelOrderError, ModelError, RunError, RunLockedError
from evenli.core.labels import LABELS
from evenli.core.record import Scoring
from evenli.core.store import with_hash


def small(rows: int = 60) -> PairSet:
    return PairSet("small", "coal", "en", build_coal("en").frame.head(rows))


class Counting(CallableModel):
    """Deterministic logits from the text; counts what it is asked and can run out of memory."""

    def __init__(self, limit: int | None = None, **more: object) -> None:
        self.asked: list[tuple[str, str]] = []
        self.limit = limit
        super().__init__(self.answer, name="counting", fingerprint="counting", batch_size=16, **more)  # type: ignore[arg-type]

    def answer(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        if self.limit is not None and len(premises) > self.limit:
            raise OutOfMemory
        self.asked += zip(premises, hypotheses, strict=True)
        return np.array(
            [[len(p) % 7, len(h) % 5, len(p + h) % 3 - 9] for p, h in zip(premises, hypotheses, strict=True)]
        )


def reference(pairs: PairSet) -> np.ndarray:
    return Counting().answer(pairs.frame["premise"].to_list(), pairs.frame["hypothesis"].to_list()).astype(float)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.sampled_from([1, 4, 8]), st.integers(1, 300))
def test_batches_cover_every_row_once_within_the_budget(lengths: list[int], bucket: int, budget: int) -> None:
    array = np.array(lengths, dtype=np.int32)
    batches = list(plan_batches(array, bucket=bucket, token_budget=budget))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
    for batch in batches:
        padded = -(-array[batch] // bucket) * bucket
        assert len(set(padded)) == 1
        assert len(batch) == 1 or padded[0] * len(batch) <= budget


AGAIN = 4
"""Pairs of 60 that are asked twice, to see whether the model repeats itself."""


def test_every_distinct_pair_is_asked_once() -> None:
    pairs = small()
    doubled = PairSet(
        "doubled",
        "coal",
        "en",
        pl.concat([pairs.frame, pairs.frame.with_columns(pl.concat_str("id", pl.lit("-again")))]),
    )
    model = Counting()
    table = predict(model, [doubled])
    assert len(set(model.asked)) == 60 and len(model.asked) == 60 + AGAIN
    np.testing.assert_array_equal(table.logits, np.tile(reference(pairs), (2, 1)))
    assert table.frame["id"].to_list() == doubled.frame["id"].to_list()


def test_complete_runs_are_reused_and_other_runs_refused(tmp_path: Path) -> None:
    pairs, model = small(), Counting()
    first = predict(model, [pairs], RunFolder(tmp_path / "run"))
    asked = len(model.asked)
    again = predict(model, [pairs], RunFolder(tmp_path / "run"))
    assert len(model.asked) == asked and again.frame.equals(first.frame)
    with pytest.raises(RunError, match="--overwrite"):
        predict(model, [small(50)], RunFolder(tmp_path / "run"))
    assert (
        predict(model, [small(50)], RunFolder(tmp_path / "run"), settings=RunSettings(overwrite=True)).frame.height
        == 50
    )
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["status"] == "complete" and header["schema"] == SCHEMA
    assert header["data"][0]["sha256"] == small(50).sha256
    assert header["model"]["fingerprint"] == "counting"


def test_out_of_memory_halves_the_batch_and_goes_on() -> None:
    pairs, warnings = small(), []
    table = predict(Counting(limit=5), [pairs], settings=RunSettings(on_warning=warnings.append))
    np.testing.assert_array_equal(table.logits, reference(pairs))
    assert len([w for w in warnings if "out of memory" in w]) == 2  # 15 -> 7 -> 3, then it fits for good
    with pytest.raises(ModelError, match="memory"):
        predict(Counting(limit=0), [pairs])


def test_nan_stops_with_the_pair_named_and_keeps_the_rest(tmp_path: Path) -> None:
    pairs = small()
    bad = pairs.frame["premise"][40]

    def sometimes(premises: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
        return np.array([[np.nan if p == bad else 1.0, 0.0, 0.0] for p in premises])

    model = CallableModel(sometimes, batch_size=16, fingerprint="nan")
    with pytest.raises(ModelError, match=f"nan.*'{bad}'"):
        predict(model, [pairs], RunFolder(tmp_path / "run"))
    assert len(list((tmp_path / "run" / "shards").glob("*.parquet"))) == 2


class Dies(Counting):
    """Is stopped after 32 pairs."""

    def answer(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
        if len(self.asked) >= 32:
            raise KeyboardInterrupt
        return super().answer(premises, hypotheses)


def test_interrupted_runs_continue_and_ask_nothing_twice(tmp_path: Path) -> None:
    pairs = small()

    stopped = Dies()
    with pytest.raises(KeyboardInterrupt):
        predict(stopped, [pairs], RunFolder(tmp_path / "run"))
    model, warnings = Counting(), []
    table = predict(model, [pairs], RunFolder(tmp_path / "run"), RunSettings(on_warning=warnings.append))
    assert len(model.asked) == 60 - len(stopped.asked) + AGAIN
    assert any("interrupted" in w for w in warnings)
    assert table.header["repeat"] == predict(Counting(), [pairs]).header["repeat"]
    np.testing.assert_array_equal(table.logits, reference(pairs))
    assert not (tmp_path / "run" / "shards").exists()


@pytest.mark.parametrize("damage", [b"", b"PAR1garbagePAR1", None])
def test_a_damaged_shard_is_scored_again(tmp_path: Path, damage: bytes | None) -> None:
    pairs = small()

    class Dies(Counting):
        def answer(self, premises: list[str], hypotheses: list[str]) -> np.ndarray:
            if len(self.asked) >= 45:
                raise KeyboardInterrupt
            return super().answer(premises, hypotheses)

    with pytest.raises(KeyboardInterrupt):
        predict(Dies(), [pairs], RunFolder(tmp_path / "run"))
    shard = sorted((tmp_path / "run" / "shards").glob("*.parquet"))[1]
    shard.write_bytes(shard.read_bytes()[:-20] if damage is None else damage)
    warnings: list[str] = []
    table = predict(Counting(), [pairs], RunFolder(tmp_path / "run"), RunSettings(on_warning=warnings.append))
    assert any(f"1 damaged shard(s) are scored again: {shard.name}" in w for w in warnings)
    np.testing.assert_array_equal(table.logits, reference(pairs))


def test_a_damaged_table_is_refused(tmp_path: Path) -> None:
    predict(Counting(), [small()], RunFolder(tmp_path / "run"))
    (tmp_path / "run" / "predictions.parquet").write_bytes(b"PAR1")
    with pytest.raises(RunError, match="predictions.parquet"):
        predict(Counting(), [small()], RunFolder(tmp_path / "run"))


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("x")
    with pytest.raises(RunError, match="empty"):
        predict(Counting(), [small()], RunFolder(tmp_path / "full"))
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["thesis.tex"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunError, match="file"):
        predict(Counting(), [small()], RunFolder(tmp_path / "file"))
    newer = tmp_path / "newer"
    newer.mkdir()
    for version in (1, 99):
        (newer / "run.json").write_text(json.dumps({"schema": version, "evenli": "7.0"}))
        with pytest.raises(RunError, match=f"schema {version}"):
            predict(Counting(), [small()], RunFolder(newer))
    (newer / "run.json").write_text(json.dumps({"schema": 2, "evenli": "1.0", "kind": "scored corpus"}))
    with pytest.raises(RunError, match="scored corpus"):
        RunFolder(newer).header()
    (newer / "run.json").write_text("{")
    with pytest.raises(RunError, match="damaged"):
        predict(Counting(), [small()], RunFolder(newer))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").locked():
        code = (
            f"from evenli.audit.predictions import RunFolder\nwith RunFolder({str(tmp_path / 'run')!r}).locked(): pass"
        )
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "RunLockedError" in out.stderr and "another process" in out.stderr
    assert issubclass(RunLockedError, RunError)


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path: Path) -> None:
    """A real refusal by the kernel: the process may write only small files, the final table does not fit."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (60_000, 60_000))

    command = [sys.executable, "-m", "evenli", "audit", "fake:biased", "-o", str(tmp_path / "run")]
    out = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit)
    assert out.returncode == 2
    assert out.stderr.strip().splitlines()[-1].startswith("evenli: no space left in")
    shards = len(list((tmp_path / "run" / "shards").glob("*.parquet")))
    assert shards >= 10
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 0 and "interrupted" in again.stderr


def test_wrong_label_order_stops_before_the_audit(tmp_path: Path) -> None:
    truth = fake_model("even")

    def turned(premises: list[str], hypotheses: list[str]) -> np.ndarray:
        right = truth.logits(truth.prepare(premises, hypotheses).items)
        return right[:, [2, 0, 1]]  # says contradiction, entailment, neutral

    asked = []

    def counted(premises: list[str], hypotheses: list[str]) -> np.ndarray:
        asked.extend(premises)
        return turned(premises, hypotheses)

    model = CallableModel(counted, name="turned", fingerprint="turned")
    gold = gold_pairs("en")
    with pytest.raises(LabelOrderError, match="contradiction,entailment,neutral"):
        predict(
            model,
            [gold, small()],
            check_first=lambda first: check_label_order(first, model.info.labels),
        )
    assert len(asked) == len(gold)
    named = CallableModel(turned, labels=("contradiction", "entailment", "neutral"), fingerprint="turned")
    table = predict(named, [gold], check_first=lambda first: check_label_order(first, named.info.labels))
    assert (table.logits.argmax(axis=1) == [LABELS.index(g) for g in gold.frame["gold"]]).all()


@pytest.mark.parametrize("wanted", [8, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_many_times_ends_with_the_same_table(tmp_path: Path, wanted: int) -> None:
    """kill -9 at random moments of one run; the surviving shards carry over and the table is identical."""
    # Every run is a fork of a process that has the imports, and has not used them.
    code = """
import os, sys, time
import numpy as np
from evenli.audit.pairs import PairSet
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.models import CallableModel
from evenli.audit.predict import predict
from evenli.audit.predictions import RunFolder
def slow(premises, hypotheses):
    time.sleep(0.004)
    return np.array([[len(p) % 7 + .1, len(h) % 5 + .2, len(p + h) % 3 - 9.] for p, h in zip(premises, hypotheses)])
for folder in map(str.strip, sys.stdin):
    child = os.fork()
    if not child:
        pairs = PairSet("x", "coal", "en", build_coal("en").frame.head(2400))
        predict(CallableModel(slow, batch_size=8, fingerprint="slow"), [pairs], RunFolder(folder))
        os._exit(0)
    print(child, flush=True)
    print(os.waitpid(child, 0)[1], flush=True)
"""
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line() -> int:
        return int(parent.stdout.readline())  # type: ignore[union-attr]

    def start(folder: str) -> int:
        print(tmp_path / folder, file=parent.stdin, flush=True)
        return line()

    start("whole")
    assert line() == 0
    dice = random.Random(3)
    kills, survivors = 0, []
    while kills < wanted:
        shards = tmp_path / "killed" / "shards"
        before = len(list(shards.iterdir())) if shards.is_dir() else 0
        job, deadline = start("killed"), time.monotonic() + 120
        want = before + dice.randint(1, 12)
        while time.monotonic() < deadline and not (shards.is_dir() and len(list(shards.iterdir())) >= want):
            time.sleep(0.001)
        time.sleep(dice.random() * 0.004)
        os.kill(job, signal.SIGKILL)
        assert line() == signal.SIGKILL, "the run ended before it could be killed"
        kills += 1
        survivors.append(len(list(shards.glob("[0-9]*.parquet"))))
    assert survivors == sorted(survivors) and survivors[0] > 0
    start("killed")
    assert line() == 0
    parent.communicate()
    tables = [Predictions.read(tmp_path / name / "predictions.parquet").frame for name in ("whole", "killed")]
    assert tables[0].equals(tables[1])


def test_table_of_another_kind_is_refused(tmp_path: Path) -> None:
    pl.DataFrame({"a": [1]}).write_parquet(tmp_path / "x.parquet")
    with pytest.raises(RunError, match="column"):
        Predictions.read(tmp_path / "x.parquet")


def test_bucketing_changes_no_answer(checkpoint: Path) -> None:
    model = load_model(str(checkpoint))
    pairs = small(120)
    bucketed = predict(model, [pairs]).logits
    model.token_budget, model.bucket = 10_000, 64
    padded = predict(model, [pairs]).logits
    np.testing.assert_allclose(bucketed, padded, atol=1e-4)
    assert (bucketed.argmax(axis=1) == padded.argmax(axis=1)).all()


def test_a_full_disk_at_the_first_header_leaves_the_folder_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *arguments: object, **more: object) -> int:
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(RunError, match="space"):
            predict(Counting(), [small()], RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()
    assert predict(Counting(), [small()], RunFolder(tmp_path / "run")).frame.height == 60


def test_what_a_crash_left_before_the_header_is_no_ones_file(tmp_path: Path) -> None:
    run = tmp_path / "run"
    folder = RunFolder(run)
    with folder.locked():
        folder.write_shard(0, np.arange(60), np.full((60, 3), 7, dtype=np.float32))
    (run / ".run.partial.json").write_text("{")
    # The shard is of nobody knows which model, so it is not continued.
    np.testing.assert_array_equal(predict(Counting(), [small()], RunFolder(run)).logits, reference(small()))
    assert names(run) == WHOLE
    for name in ("mine.parquet", "000000.parquet"):
        other = tmp_path / name
        (other / "shards").mkdir(parents=True)
        pl.DataFrame({"text": ["x"]}).write_parquet(other / "shards" / name)
        with pytest.raises(RunError, match="empty"):
            predict(Counting(), [small()], RunFolder(other), settings=RunSettings(overwrite=True))
        assert (other / "shards" / name).is_file()


@pytest.mark.parametrize("stop", range(1, 5))
def test_clearing_can_be_killed_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: int) -> None:
    run, calls, unlink = tmp_path / "run", [0], Path.unlink
    predict(Counting(), [small()], RunFolder(run))
    RunFolder(run).write_results({}, RunFolder(run).header() or {})
    (run / "report.html").write_text("of this run")

    def dies(self: Path, missing_ok: bool = False) -> None:
        calls[0] += 1
        if calls[0] == stop:
            raise KeyboardInterrupt
        unlink(self, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", dies)
        with pytest.raises(KeyboardInterrupt):
            RunFolder(run).clear()
    assert (run / "run.json").is_file()
    table = predict(Counting(), [small()], RunFolder(run))
    np.testing.assert_array_equal(table.logits, reference(small()))


def test_results_are_written_in_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, seen = RunFolder.write_results, []

    def checked(self: RunFolder, results: dict[str, object], header: dict[str, object]) -> None:
        with pytest.raises(RunLockedError), RunFolder(self.path).locked():
            pass
        seen.append(self.path)
        write(self, results, header)

    monkeypatch.setattr(RunFolder, "write_results", checked)
    evenli.audit("fake:even", out=tmp_path / "run", scoring=Scoring())
    assert seen == [tmp_path / "run"]
    with RunFolder(tmp_path / "run").locked():
        pass


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} - {".lock"}


WHOLE = {"run.json", "predictions.parquet"}


def test_a_report_goes_with_its_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    predict(Counting(), [small()], RunFolder(run))
    for name in ("report.html", ".report.partial.html", "probe.svg", "probe.png", "results.json", "notes.txt"):
        (run / name).write_text("of the old run")
    predict(Counting(), [small(50)], RunFolder(run), settings=RunSettings(overwrite=True))
    assert names(run) == WHOLE | {"notes.txt"}


@pytest.mark.parametrize("damage", ["predictions.parquet", "run.json", "both"])
def test_overwriting_begins_anew_whatever_is_damaged(tmp_path: Path, damage: str) -> None:
    run, model = tmp_path / "run", Counting()
    predict(model, [small()], RunFolder(run))
    for name in WHOLE if damage == "both" else [damage]:
        (run / name).write_bytes(b"{")
    with pytest.raises(RunError, match="--overwrite"):
        predict(model, [small()], RunFolder(run))
    table = predict(model, [small()], RunFolder(run), settings=RunSettings(overwrite=True))
    np.testing.assert_array_equal(table.logits, reference(small()))
    assert len(model.asked) == 2 * (60 + AGAIN) and names(run) == WHOLE
    assert Predictions.read(run / "predictions.parquet").frame.equals(table.frame)


@pytest.mark.parametrize("name", ["report.html", "predictions.parquet"])
def test_files_that_anyone_might_have_are_ours_only_beside_a_header(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine")
    with pytest.raises(RunError, match="empty"):
        predict(Counting(), [small()], RunFolder(tmp_path), RunSettings(overwrite=True))
    assert (tmp_path / name).read_text() == "mine"


def test_overwriting_spares_the_run_json_of_another_program(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"lr": 0.1}')
    (tmp_path / "weights.bin").write_text("x")
    with pytest.raises(RunError, match="empty"):
        predict(Counting(), [small()], RunFolder(tmp_path), settings=RunSettings(overwrite=True))
    assert {file.name for file in tmp_path.iterdir()} == {"run.json", "weights.bin"}


def test_a_missing_table_is_scored_again(tmp_path: Path) -> None:
    run, model = tmp_path / "run", Counting()
    predict(model, [small()], RunFolder(run))
    (run / "predictions.parquet").unlink()
    with pytest.raises(RunError, match="predictions.parquet"):
        Predictions.read(run / "predictions.parquet")
    np.testing.assert_array_equal(predict(model, [small()], RunFolder(run)).logits, reference(small()))
    assert len(model.asked) == 2 * (60 + AGAIN)


def test_a_refused_label_order_leaves_nothing_behind(tmp_path: Path) -> None:
    truth, scoring = fake_model("even"), Scoring()

    def turned(premises: list[str], hypotheses: list[str]) -> np.ndarray:
        return truth.logits(truth.prepare(premises, hypotheses).items)[:, [2, 1, 0]]

    wrong = CallableModel(turned, name="turned", fingerprint="turned")
    right = CallableModel(turned, labels=("contradiction", "neutral", "entailment"), fingerprint="turned")
    with pytest.raises(LabelOrderError, match="contradiction,neutral,entailment"):
        evenli.audit(wrong, out=tmp_path / "run", scoring=scoring)
    assert not (tmp_path / "run").exists()
    evenli.audit(right, out=tmp_path / "run", scoring=scoring)
    # Nor is a run replaced by one that is refused.
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(LabelOrderError):
        evenli.audit(wrong, out=tmp_path / "run", scoring=scoring, overwrite=True)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_a_strange_shard_is_one_line(tmp_path: Path) -> None:
    run = tmp_path / "run"

    with pytest.raises(KeyboardInterrupt):
        predict(Dies(), [small()], RunFolder(run))
    copy = run / "shards" / "000001 copy.parquet"
    copy.write_bytes(next((run / "shards").glob("000001-*.parquet")).read_bytes())
    with pytest.raises(RunError, match="copy.parquet"):
        predict(Counting(), [small()], RunFolder(run))
    copy.unlink()
    np.testing.assert_array_equal(predict(Counting(), [small()], RunFolder(run)).logits, reference(small()))


@pytest.mark.parametrize("key", ["model", "data", "status"])
def test_a_header_that_lacks_something_is_one_line(tmp_path: Path, key: str) -> None:
    run = tmp_path / "run"
    predict(Counting(), [small()], RunFolder(run))
    header = json.loads((run / "run.json").read_text())
    del header[key]
    (run / "run.json").write_text(json.dumps(with_hash(header)))
    with pytest.raises(RunError, match=f"run.json.*{key}"):
        predict(Counting(), [small(50)], RunFolder(run))
    if key != "status":
        (run / "run.json").write_text(json.dumps(with_hash(header | {"status": "running"})))
        with pytest.raises(RunError, match="--out"):
            predict(Counting(), [small(50)], RunFolder(run))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (
            lambda f: f.with_columns(neutral=pl.Series([float("nan"), *f["neutral"][1:]])),
            "1 row.* finite",
        ),
        (lambda f: f.with_columns(neutral=pl.Series([None, None, *f["neutral"][2:]])), "2 row.* finite"),
        (lambda f: f.with_columns(neutral=pl.lit("x")), "60 row"),
        (lambda f: f.head(57), "57 rows"),
        (lambda f: pl.concat([f, f.head(2)]), "2 row.*twice"),
        (lambda f: pl.concat([f.head(59), f.head(1)]), "1 row.*twice"),
    ],
)
def test_a_table_that_was_changed_is_refused(tmp_path: Path, harm, message: str) -> None:  # type: ignore[no-untyped-def]
    run = tmp_path / "run"
    table = predict(Counting(), [small()], RunFolder(run))
    harm(table.frame).write_parquet(run / "predictions.parquet")
    with pytest.raises(RunError, match=f"{message}.*--overwrite"):
        Predictions.read(run / "predictions.parquet", table.header)
    with pytest.raises(RunError, match="damaged"):  # its hash says so before it is read
        predict(Counting(), [small()], RunFolder(run))
