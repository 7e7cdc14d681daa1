"""A run is worth its evidence: forged, swapped and mixed runs are refused by everything that reads them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import evenli
from evenli.audit import predictions as stored_predictions
from evenli.audit.audit import load_run, measure_run
from evenli.audit.models import fake_model
from evenli.audit.predictions import RunFolder
from evenli.audit.verify import verify_run
from evenli.core.errors import RunError
from evenli.core.io import hash_files
from evenli.core.store import with_hash
from studies.leaderboard.board import submit_run


def submit(run: Path) -> object:
    return submit_run(run, run.parent / "board.json")


DOORS: dict[str, Callable[[Path], object]] = {
    "load": load_run,
    "verify": verify_run,
    "gate": lambda run: evenli.gate(run, ["coal.low > 0.9"]),
    "baseline": lambda run: evenli.gate(run.parent / "good", baseline=run),
    "compare": lambda run: evenli.compare(run.parent / "good", run),
    "report": lambda run: evenli.report(run, run.parent / "report.html"),
    "submit": submit,
    "measure": measure_run,
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for name, model in {"bad": "fake:biased", "good": "fake:even"}.items():
        evenli.audit(model, suites=("coal",), limit=60, out=folder / name)
    return folder


@pytest.fixture
def copies(runs: Path, tmp_path: Path) -> Path:
    """A failing and a passing run, to be changed at will."""
    for name in ("bad", "good"):
        shutil.copytree(runs / name, tmp_path / name)
    return tmp_path


def read(file: Path) -> dict[str, Any]:
    return dict(json.loads(file.read_text(encoding="utf-8")))


def rehash(run: Path, changes: dict[str, Any] | None = None) -> None:
    """What a forger does: all hashes are right again."""
    header = read(run / "run.json") | (changes or {})
    header["files"] = {name: hash_files([run / name]) for name in ("predictions.parquet", "results.json")}
    (run / "run.json").write_text(json.dumps(with_hash(header)), encoding="utf-8")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("hashed", [False, True])
def test_a_downgraded_run_with_another_table_is_refused_everywhere(copies: Path, door: str, hashed: bool) -> None:
    run = copies / "bad"
    header = read(run / "run.json") | {"schema": 1}
    del header["files"], header["manifest_sha256"]
    (run / "run.json").write_text(json.dumps(with_hash(header) if hashed else header), encoding="utf-8")
    shutil.copy(copies / "good" / "predictions.parquet", run)
    before = {file.name: file.read_bytes() for file in run.iterdir()}
    with pytest.raises(RunError, match=r"run\.json"):
        DOORS[door](run)
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.name != ".lock"} == {
        name: content for name, content in before.items() if name != ".lock"
    }


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("files", [None, {}, "none", {"predictions.parquet": None, "results.json": ""}])
def test_a_run_without_hashes_is_refused_everywhere(copies: Path, door: str, files: object) -> None:
    run = copies / "bad"
    header = read(run / "run.json") | {"files": files}
    (run / "run.json").write_text(json.dumps(with_hash(header)), encoding="utf-8")
    with pytest.raises(RunError, match=r"run\.json"):
        DOORS[door](run)


@pytest.mark.parametrize("door", DOORS)
def test_a_table_of_another_run_is_refused_everywhere(copies: Path, door: str) -> None:
    shutil.copy(copies / "good" / "predictions.parquet", copies / "bad")
    with pytest.raises(RunError, match=r"predictions\.parquet"):
        DOORS[door](copies / "bad")


def killed(out: Path, model: str) -> Path:
    """An audit that was killed in the middle of its second set."""
    asked, calls = fake_model(model), [0]
    answer, asked.token_budget = asked.logits, 20 * asked.bucket

    def dies(items: Any) -> Any:
        calls[0] += 1
        if calls[0] == 20:
            raise KeyboardInterrupt
        return answer(items)

    asked.logits = dies  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        evenli.audit(asked, suites=("coal",), limit=200, out=out)
    assert list((out / "shards").iterdir())
    return out


def test_answers_of_another_model_do_not_continue_a_run(tmp_path: Path) -> None:
    """The shards of a killed run stood for any model that was asked the same pairs."""
    even, biased = (killed(tmp_path / name, name) for name in ("even", "biased"))
    shutil.rmtree(even / "shards")
    shutil.copytree(biased / "shards", even / "shards")
    said: list[str] = []
    found = evenli.audit("fake:even", suites=("coal",), limit=200, out=even, on_warning=said.append)
    assert found.coal.value == pytest.approx(0, abs=1e-9)
    assert any("damaged shard" in text for text in said)
    alone = evenli.audit("fake:even", suites=("coal",), limit=200)
    np.testing.assert_array_equal(found.predictions.logits, alone.predictions.logits)


@pytest.mark.parametrize("name", ["predictions.parquet", "results.json"])
def test_a_file_that_is_replaced_after_its_hash_was_checked(
    copies: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = copies / "bad"

    def replaced(files: list[Path]) -> str:
        digest = hash_files(files)
        if files[0].name == name:
            shutil.copy(copies / "good" / name, files[0])
        return digest

    monkeypatch.setattr(stored_predictions, "hash_files", replaced)
    with pytest.raises(RunError, match=name):
        load_run(run)


# Everything in results.json follows from the table.


def forge(run: Path, place: str, value: object) -> None:
    """Change one value of results.json and make every hash right."""
    results = read(run / "results.json")
    *above, last = place.split(".")
    part: Any = results
    for key in above:
        part = part[int(key)] if isinstance(part, list) else part[key]
    assert part[last] != value
    part[last] = value
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    rehash(run)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("verdict.code", "even"),
        ("verdict.sentence", "Even."),
        ("verdict.causes", []),
        ("verdict.causes.0.estimate.value", 0.01),
        ("competence.gold.value", 0.5),
        ("competence.problem", "it sleeps"),
        ("coal.problem", "it sleeps"),
        ("coal.measures.coal.n", 5),
        ("coal.measures.coal.p", 0.2),
        ("coal.measures.coal.value", None),
        ("coal.measures.stereotype.by_stereotype", {}),
        ("coal.occupations.0.score", 0.5),
        ("coal.minimum_detectable_difference", 0.001),
        ("coal.medians.coal", 0.99),
        ("model.name", "a good model"),
        ("timings.truncated", 7),
        ("repeat.changed", 3),
        ("data.0.rows", 3),
        ("lang", "ja"),
    ],
)
def test_no_result_that_the_table_does_not_give_is_verified(copies: Path, place: str, value: object) -> None:
    run = copies / "bad"
    forge(run, place, value)
    load_run(run)  # every hash is right
    for door in ("verify", "gate", "baseline", "submit"):
        with pytest.raises(RunError, match="results"):
            DOORS[door](run)
    assert verify_run(copies / "good").numbers > 500


def test_a_condition_does_not_pass_on_a_replaced_verdict(copies: Path) -> None:
    assert evenli.gate(copies / "bad", ["verdict == 'bias'"]).passed is False
    forge(copies / "bad", "verdict.code", "even")
    with pytest.raises(RunError, match=r"verdict\.code = even, the table gives bias"):
        evenli.gate(copies / "bad", ["verdict == 'bias'"])
    # Scored again it is what it was.
    measure_run(copies / "bad")
    assert evenli.gate(copies / "bad", ["verdict == 'bias'"]).passed is False


def test_a_suite_that_was_not_asked_is_not_verified(copies: Path) -> None:
    run = copies / "bad"
    results = read(run / "results.json")
    results["labour"] = read(copies / "good" / "results.json")["coal"]
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    rehash(run)
    with pytest.raises(RunError, match="labour"):
        verify_run(run)


def test_measures_of_the_users_own_are_left_out(tmp_path: Path) -> None:
    def mine(sample: Any) -> float:
        return 0.25

    evenli.audit("fake:even", suites=("coal",), limit=60, out=tmp_path / "run", measures=[mine])
    assert verify_run(tmp_path / "run").numbers > 500
    assert evenli.gate(tmp_path / "run", ["coal.mine > 0.3"]).passed is True


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model": {"fingerprint": "x", "name": "fake biased"}}, "model"),
        ({"plan": "0" * 64}, "model"),
    ],
)
def test_a_run_of_another_model_than_its_plan_is_not_verified(
    copies: Path, change: dict[str, Any], problem: str
) -> None:
    run = copies / "bad"
    rehash(run, change)
    measure_run(run)  # the results name the same model again
    with pytest.raises(RunError, match=problem):
        verify_run(run)


def test_a_table_with_other_sentences_is_not_verified(copies: Path) -> None:
    run = copies / "bad"
    table = pl.read_parquet(run / "predictions.parquet")
    first = pl.int_range(pl.len()) == 0  # a gold pair
    changed = pl.when(first).then(pl.lit("The car is red.")).otherwise("hypothesis").alias("hypothesis")
    table.with_columns(changed).write_parquet(run / "predictions.parquet")
    rehash(run)
    with pytest.raises(RunError, match="pairs"):
        verify_run(run)


def test_a_run_folder_has_no_other_door(copies: Path) -> None:
    """Hashes are asked for where files of a run are read, and nowhere else."""
    folder = RunFolder(copies / "bad")
    header = folder.header()
    assert header is not None
    assert folder.read_results(header).suites["coal"].value == pytest.approx(1)
    with pytest.raises(RunError, match="describes"):
        folder.content("report.html", header)


@pytest.mark.parametrize("at", ["predictions.parquet", "results.json", "run.json"])
@pytest.mark.parametrize("measured", [False, True])
@pytest.mark.parametrize("early", [False, True])
def test_a_run_that_is_copied_over_another_at_work_is_not_mixed_with_it(
    copies: Path, at: str, measured: bool, early: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results and table of two models had right hashes, since run.json and files were read again after writing."""
    run, write = copies / "good", RunFolder.write

    def invaded(self: RunFolder, name: str, content: Any, *, sync: bool = True) -> Path:
        file = self.path / name if early else write(self, name, content, sync=sync)
        if name == at:
            shutil.copytree(copies / "bad", run, dirs_exist_ok=True)
        return write(self, name, content, sync=sync) if early else file

    monkeypatch.setattr(RunFolder, "write", invaded)
    if measured:
        measure_run(run)
    else:
        evenli.audit("fake:even", suites=("coal",), limit=60, out=run, overwrite=True)
    try:
        shown = load_run(run)
    except RunError:
        return
    value = {"fake even": 0, "fake biased": 1}[shown.name]
    assert shown.coal.value == pytest.approx(value) and verify_run(run).numbers > 500
