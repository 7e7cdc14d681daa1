"""The trust boundary: no network unless asked, no code because a file says so, no weights made up."""

from __future__ import annotations

import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import evenli
from conftest import make_checkpoint
from evenli.audit.audit import AuditSettings, load_run, measure_run
from evenli.audit.models import CallableModel, fake_model, load_model
from evenli.audit.predictions import RunFolder
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.verify import verify_run
from evenli.core.errors import InputError, ModelError, RunError
from evenli.core.io import archive_texts, hash_files, read_text, write_atomic
from evenli.core.record import Scoring
from evenli.core.store import RunDir, is_stamped, replacing, stamp, with_hash
from evenli.core.temporary import process_mark
from evenli.core.terminal import SafeStream
from evenli.encoders.base import EmbeddingCache, load_encoder
from evenli.encoders.mitigation import MitigationSettings, mitigate_encoder
from evenli.encoders.seat.tables import print_block
from evenli.encoders.senteval import SentEvalResult, TaskResult
from evenli.encoders.senteval.tables import scores
from evenli.encoders.vectors import VectorMean, WordVectors, load_vectors

FAST = Scoring()

EVIL = """
import pathlib
pathlib.Path("ran").write_text("code of a stranger")
def encode(texts):
    return [[len(text), 1.0, 2.0] for text in texts]
"""
HASHED = """
import hashlib
import numpy as np
def encode(texts):
    return np.array([[b / 255 for b in hashlib.sha256(text.encode()).digest()[:8]] for text in texts])
"""


def drop_tensor(folder: Path, name: str, *, shape: bool = False) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    file = folder / "model.safetensors"
    tensors = safetensors.load_file(file)
    found = next(key for key in tensors if name in key)
    if shape:
        tensors[found] = tensors[found][:-1].clone()
    else:
        del tensors[found]
    safetensors.save_file(tensors, file, metadata={"format": "pt"})


@pytest.mark.parametrize("part", ["layer.0.attention.self.query.weight", "classifier.weight", "classifier.bias"])
def test_missing_tensors_are_refused_by_name(tmp_path: Path, part: str) -> None:
    folder = make_checkpoint(tmp_path / "model")
    load_model(str(folder))  # whole, it loads
    drop_tensor(folder, part)
    with pytest.raises(ModelError, match=part.replace(".", r"\.")):
        load_model(str(folder))
    if "classifier" not in part:
        with pytest.raises(ModelError, match=part.replace(".", r"\.")):
            load_encoder(f"hf:{folder}")


def test_tensors_of_another_shape_or_model_are_refused(tmp_path: Path) -> None:
    safetensors = pytest.importorskip("safetensors.torch")
    torch = pytest.importorskip("torch")
    folder = make_checkpoint(tmp_path / "model")
    drop_tensor(folder, "classifier.bias", shape=True)
    with pytest.raises(ModelError, match="classifier"):
        load_model(str(folder))
    other = make_checkpoint(tmp_path / "other")
    tensors = safetensors.load_file(other / "model.safetensors") | {"surprise.weight": torch.ones(2)}
    safetensors.save_file(tensors, other / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match="surprise"):
        load_model(str(other))


@pytest.mark.parametrize("damage", ["elsewhere", "absent", "exchanged"])
def test_an_index_that_does_not_fit_its_shards_is_refused(checkpoint: Path, tmp_path: Path, damage: str) -> None:
    transformers = pytest.importorskip("transformers")
    model = shutil.copytree(checkpoint, tmp_path / "model")
    (model / "model.safetensors").unlink()
    transformers.AutoModelForSequenceClassification.from_pretrained(checkpoint).save_pretrained(
        model, max_shard_size="20KB"
    )
    load_model(str(model))
    index = model / "model.safetensors.index.json"
    content = json.loads(index.read_text(encoding="utf-8"))
    (tensor, shard), *others = content["weight_map"].items()
    other = next(name for _, name in others if name != shard)
    if damage == "elsewhere":
        (model / shard).rename(tmp_path / shard)
    named = {"elsewhere": f"../{shard}", "absent": "model-9.safetensors", "exchanged": other}[damage]
    moved = {key: named if name == shard and damage != "exchanged" else name for key, name in others}
    content["weight_map"] = {tensor: named, **moved}
    index.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ModelError, match="index.json"):
        load_model(str(model))


def test_a_stored_spec_imports_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hashed_words.py").write_text(HASHED, encoding="utf-8")
    (tmp_path / "evil_words.py").write_text(EVIL, encoding="utf-8")
    out = tmp_path / "leace"
    mitigate_encoder("py:hashed_words:encode", out, MitigationSettings("leace"))
    about = json.loads((out / "mitigated.json").read_text(encoding="utf-8"))
    about["base"]["spec"] = "py:evil_words:encode"
    (out / "mitigated.json").write_text(json.dumps(with_hash(about)), encoding="utf-8")
    with pytest.raises(ModelError, match="evil_words"):
        load_encoder(str(out))
    assert not (tmp_path / "ran").exists() and "evil_words" not in sys.modules
    # The user may name the code; it must still be the encoder that was mitigated.
    assert load_encoder(f"mitigated:{out},py:hashed_words:encode").encode(["she"]).shape == (1, 8)


def test_an_encoder_that_is_its_own_base_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hashed_words.py").write_text(HASHED, encoding="utf-8")
    out = tmp_path / "leace"
    mitigate_encoder("py:hashed_words:encode", out, MitigationSettings("leace"))
    about = json.loads((out / "mitigated.json").read_text(encoding="utf-8"))
    about["base"]["spec"] = f"mitigated:{out}"
    (out / "mitigated.json").write_text(json.dumps(with_hash(about)), encoding="utf-8")
    with pytest.raises(ModelError, match="its own base"):
        load_encoder(str(out))


@pytest.mark.parametrize("spec", ["someone/some-model", "hf:someone/some-model@main"])
def test_a_hub_id_is_not_looked_up_unless_asked(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    asked: list[object] = []
    monkeypatch.setattr("socket.getaddrinfo", lambda *host, **_: asked.append(host))
    with pytest.raises(ModelError, match="--online"):
        load_model(spec)
    with pytest.raises(ModelError, match="--online"):
        load_encoder(f"hf:{spec.removeprefix('hf:')}")
    assert asked == []


# Results are bound to their evidence.


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evidence") / "run"
    evenli.audit("fake:oracle:0.3", out=folder, scoring=FAST)
    return folder


def copy_of(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def test_a_run_verifies(finished: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    assert set(verify_run(finished).files) == {"predictions.parquet", "results.json"}
    done = run_cli("verify", str(finished))
    assert done.returncode == 0 and "verified" in done.stdout, done.stderr


@pytest.mark.parametrize("key", ["status", "model", "data", "seed", "files", "schema", "manifest_sha256"])
def test_an_edited_manifest_is_refused(finished: Path, tmp_path: Path, key: str) -> None:
    run = copy_of(finished, tmp_path / "run")
    header = json.loads((run / "run.json").read_text(encoding="utf-8"))
    assert with_hash(header) == header
    for changed in (
        {name: value for name, value in header.items() if name != key},
        header | {key: 1 if key == "schema" else "x"},
    ):
        (run / "run.json").write_text(json.dumps(changed), encoding="utf-8")
        for use in (load_run, verify_run, measure_run):
            with pytest.raises(RunError, match=r"run\.json"):
                use(run)
        with pytest.raises(RunError, match=r"run\.json"):
            evenli.audit("fake:oracle:0.3", out=run, scoring=FAST)


def test_a_complete_run_with_another_table_is_not_reused(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    table = pl.read_parquet(run / "predictions.parquet")
    table.with_columns(neutral=pl.col("neutral") + 1).write_parquet(run / "predictions.parquet")
    with pytest.raises(RunError, match="predictions"):
        evenli.audit("fake:oracle:0.3", out=run, scoring=FAST)


@pytest.mark.parametrize("seed", range(20))
def test_a_flipped_bit_is_found(finished: Path, tmp_path: Path, seed: int) -> None:
    run = copy_of(finished, tmp_path / "run")
    file = run / ("predictions.parquet" if seed % 2 else "results.json")
    content = bytearray(file.read_bytes())
    place = random.Random(seed).randrange(len(content))
    content[place] ^= 1 << (seed % 8)
    file.write_bytes(content)
    for use in (load_run, verify_run, evenli.gate):
        with pytest.raises(RunError, match=file.name):
            use(run, *([["coal.low > 0.9"]] if use is evenli.gate else []))


def test_an_edited_result_does_not_pass_a_gate(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    assert evenli.gate(finished, ["coal.value > 0.1"]).passed is False
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    results["coal"]["measures"]["coal"]["value"] = 0.0
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    with pytest.raises(RunError, match="results"):
        evenli.gate(run, ["coal.value > 0.1"])
    # Someone who edits the hash as well is found by scoring the table again.
    header = json.loads((run / "run.json").read_text(encoding="utf-8"))
    header["files"]["results.json"] = hash_files([run / "results.json"])
    (run / "run.json").write_text(json.dumps(with_hash(header)), encoding="utf-8")
    with pytest.raises(RunError, match="coal"):
        verify_run(run)
    assert measure_run(run, FAST).coal.value == pytest.approx(0.2) and verify_run(run).numbers > 40


def test_cutting_the_hashes_out_does_not_pass_a_gate(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    results = json.loads((run / "results.json").read_text(encoding="utf-8"))
    results["coal"]["measures"]["coal"]["value"] = 0.0
    (run / "results.json").write_text(json.dumps(results), encoding="utf-8")
    header = json.loads((run / "run.json").read_text(encoding="utf-8"))
    del header["files"], header["manifest_sha256"]
    for changed in (header, with_hash(header), with_hash(header | {"schema": 1})):
        (run / "run.json").write_text(json.dumps(changed), encoding="utf-8")
        with pytest.raises(RunError, match=r"run\.json"):
            evenli.gate(run, ["coal.value > 0.1"])


def test_a_damaged_shard_is_scored_again(tmp_path: Path) -> None:
    rows, logits = np.arange(4), np.zeros((4, 3), dtype=np.float32)
    folder = RunFolder(tmp_path / "run")
    with folder.locked():
        folder.write_shard(0, rows, logits)
        (shard,) = folder.shard_files()
        content = bytearray(shard.read_bytes())
        content[len(content) // 2] ^= 1
        shard.write_bytes(content)
        into = np.full((4, 3), np.nan, dtype=np.float32)
        assert folder.read_shards(into) == [shard.name] and np.isnan(into).all()


def test_a_callable_is_never_taken_for_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "weights.txt").write_text("0.9", encoding="utf-8")
    (tmp_path / "reads_weights.py").write_text(
        "from pathlib import Path\n"
        "from evenli.audit.models import fake_model\n"
        "inner = fake_model('biased')\n"
        "def predict(premises, hypotheses):\n"
        "    Path('weights.txt').read_text()\n"
        "    return inner.logits(inner.prepare(premises, hypotheses).items)\n",
        encoding="utf-8",
    )
    evenli.audit("py:reads_weights:predict", out="run", scoring=FAST)
    with pytest.raises(RunError, match="another run"):
        evenli.audit("py:reads_weights:predict", out="run", scoring=FAST)


# The validator is the door.


def test_pairs_that_are_not_what_they_claim_are_refused(tmp_path: Path) -> None:
    pairs = build_coal("en")
    some = pairs.where(pl.col("occupation").is_in(["nurse", "engineer"])).frame
    swapped = some.with_columns(subset=pl.col("subset").replace({"PS": "AS", "AS": "PS"}))
    swapped.write_ndjson(tmp_path / "swapped.jsonl")
    with pytest.raises(InputError, match="subset"):
        evenli.audit("fake:biased", data=tmp_path / "swapped.jsonl", scoring=FAST)
    nurse = some.filter(pl.col("occupation") == "nurse").with_row_index()
    both = nurse.with_columns(
        stereotype=pl.when(pl.col("index") < 5).then(pl.lit("male")).otherwise(pl.col("stereotype"))
    ).drop("index", "subset")
    both.write_ndjson(tmp_path / "both.jsonl")
    with pytest.raises(InputError, match="nurse"):
        evenli.audit("fake:biased", data=tmp_path / "both.jsonl", scoring=FAST)
    some.write_ndjson(tmp_path / "right.jsonl")
    assert evenli.audit("fake:biased", data=tmp_path / "right.jsonl", scoring=FAST).coal.coal_pro.value == 1


def test_pairs_made_in_python_pass_the_same_door() -> None:
    pairs = build_coal("en").where(pl.col("occupation").is_in(["nurse", "engineer"]))
    swapped = pairs.frame.with_columns(subset=pl.col("subset").replace({"PS": "AS", "AS": "PS"}))
    with pytest.raises(InputError, match="subset"):
        evenli.audit("fake:biased", data=replace(pairs, frame=swapped), scoring=FAST)
    bare = pairs.frame.with_columns(template=pl.lit("a sentence without a place"))
    with pytest.raises(InputError, match="slot"):
        evenli.audit("fake:biased", data=replace(pairs, frame=bare), scoring=FAST)
    assert evenli.audit("fake:biased", data=pairs, scoring=FAST).coal.coal_pro.value == 1


def test_a_stored_table_passes_the_same_door(finished: Path, tmp_path: Path) -> None:
    run = copy_of(finished, tmp_path / "run")
    before = (run / "results.json").read_bytes()
    table = pl.read_parquet(run / "predictions.parquet")
    swapped = {"PS": "AS", "AS": "PS"}
    for broken, noun in (
        (pl.col("subset").replace(swapped), "subset"),
        (pl.when(pl.col("suite") == "coal").then(pl.lit("nobody")).otherwise("group").alias("group"), "group"),
    ):
        table.with_columns(broken).write_parquet(run / "predictions.parquet")
        header = json.loads((run / "run.json").read_text(encoding="utf-8"))
        header["files"]["predictions.parquet"] = hash_files([run / "predictions.parquet"])
        (run / "run.json").write_text(json.dumps(with_hash(header)), encoding="utf-8")
        for use in (measure_run, verify_run):
            with pytest.raises(InputError, match=noun):
                use(run)
    assert (run / "results.json").read_bytes() == before
    assert measure_run(copy_of(finished, tmp_path / "whole"), FAST).coal.value == pytest.approx(0.2)


def test_results_that_counted_other_words_are_not_replaced_in_silence(finished: Path, tmp_path: Path) -> None:
    run, said = copy_of(finished, tmp_path / "run"), list[str]()
    before = measure_run(run, FAST, on_warning=said.append)
    assert not said
    after = measure_run(run, Scoring(published=True), on_warning=said.append)
    assert len(said) == 1 and "results.json" in said.pop()
    assert after.coal.default_gender.n > before.coal.default_gender.n and verify_run(run).numbers > 40
    again = AuditSettings(scoring=FAST, on_warning=lambda text: said.append(text) if "results.json" in text else None)
    evenli.audit("fake:oracle:0.3", out=run, settings=again)
    assert len(said) == 1


# A model that does not repeat itself is named.


def test_a_model_that_does_not_repeat_itself_is_named(tmp_path: Path) -> None:
    noise, said = np.random.default_rng(0), list[str]()
    settings = AuditSettings(scoring=FAST, on_warning=said.append)

    def unsure(premises: list[str], hypotheses: list[str]) -> object:
        answers = np.array(fake_answers(premises, hypotheses))
        doubted = noise.random(len(answers)) < 0.1
        answers[doubted] = np.roll(answers[doubted], 1, axis=1)
        return answers

    model = CallableModel(unsure, name="unsure", fingerprint="1", outputs="logits")
    repeat = evenli.audit(model, out=tmp_path / "unsure", settings=settings).result.repeat
    assert repeat is not None and not repeat.stable and 0 < repeat.largest <= 1 and repeat.pairs == 64
    assert [line for line in said if line.startswith("unsure")]
    assert load_run(tmp_path / "unsure").result.repeat == repeat
    said.clear()
    evenli.audit(model, out=tmp_path / "unsure", settings=settings)  # stored answers are not asked again
    assert not [line for line in said if line.startswith("unsure")]
    steady = evenli.audit("fake:oracle:0.3", scoring=FAST).result.repeat
    assert steady is not None and steady.stable and steady.largest == 0 and steady.changed == 0


# Every failure is one line and exit code 2.


def test_an_unexpected_error_is_one_line_and_not_a_failed_gate(tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "broken_measure.py").write_text("def f(sample):\n    raise ZeroDivisionError('a defect')\n")
    command = ("audit", "fake:even", "--measure", "broken_measure:f")
    done = run_cli(*command, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    log = next(word for word in done.stderr.split() if word.endswith(".log"))
    assert "ZeroDivisionError" in Path(log).read_text(encoding="utf-8")
    Path(log).unlink()
    shown = run_cli("--debug", *command, cwd=tmp_path)
    assert "Traceback" in shown.stderr


@pytest.mark.parametrize("words", [("gate", "run\udcff"), ("data", "--check", "x\udcff.csv"), ("audit", "onnx:\udcff")])
def test_a_name_that_is_not_utf8_is_one_line(words: tuple[str, ...], tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    if words[0] == "gate":
        evenli.audit("fake:even", out=tmp_path / "run", limit=20).path.rename(tmp_path / words[1])
    if words[0] == "data":
        (tmp_path / words[2]).write_text("premise,hypothesis,gold\na,b,neutral\n")
    done = run_cli(*words, cwd=tmp_path)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "not UTF-8" in done.stderr, done.stderr


def test_a_name_cannot_move_the_cursor(tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    done = run_cli("audit", "fake:\x1b[2Jpassed\x07", cwd=tmp_path)
    assert done.returncode == 2 and "\x1b" not in done.stderr and "\x07" not in done.stderr


def test_the_terminal_gets_no_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    stream = SafeStream(sys.stdout)
    print("a\x1b[2Jb\x9b31m\x07\r\tc", file=stream)
    print("\u202edessap\u2028", file=stream)  # shown from right to left, and a line of its own
    print("\x1b[31mred", file=stream)  # a colour is for terminals, and this is none
    assert capsys.readouterr().out == (
        "a\\u001b[2Jb\\u009b31m\\u0007\\u000d\tc\n\\u202edessap\\u2028\n\\u001b[31mred\n"
    )
    assert json.loads('"\\u009b"') == "\x9b"  # spelled so, JSON stays what it was


def test_a_model_cannot_forge_a_line(tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    name = "good\n\x1b[1mpassed  fail if coal.low > 0.9\x1b[0m"
    model = CallableModel(fake_answers, name=name, fingerprint="1", outputs="logits")
    evenli.audit(model, out=tmp_path / "run", scoring=FAST)
    for command in (("gate", "run", "--fail-if", "coal.low > 0.9"), ("measure", "run")):
        done = run_cli(*command, cwd=tmp_path)
        assert "\x1b" not in done.stdout and "\npassed  fail if coal.low > 0.9\x1b" not in done.stdout
        assert done.returncode == 0, done.stderr


def fake_answers(premises: list[str], hypotheses: list[str]) -> object:
    inner = fake_model("even")
    return inner.logits(inner.prepare(premises, hypotheses).items)


def test_a_stored_note_cannot_forge_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    task = TaskResult("STS14", float("nan"), {}, float("nan"), 8, note="good\nevenli: passed")
    print_block(scores(SentEvalResult({"STS14": task})), Console(width=200))
    out = capsys.readouterr().out
    assert "passed" in out and not any(line.startswith("evenli:") for line in out.splitlines())


def _gone() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def test_what_a_killed_writer_left_goes_with_the_next_one(tmp_path: Path) -> None:
    mark = process_mark()
    gone, here = (mark.replace(str(os.getpid()), str(number), 1) for number in (_gone(), os.getppid()))
    names = [f".table.{one}.partial.csv" for one in (gone, here, f"{gone[:-1]}x")] + [f".other.{gone}.partial.csv"]
    for name in names:
        (tmp_path / name).write_text("a,b")
    write_atomic(tmp_path / "table.csv", "a")
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", *names[1:]}


@pytest.mark.parametrize("renamed", [False, True])
def test_a_replacement_that_was_killed_leaves_the_old_directory(tmp_path: Path, renamed: bool) -> None:
    gone = process_mark().replace(str(os.getpid()), str(_gone()), 1)
    run = RunDir(tmp_path / "out", kind="thing", manifest="thing.json", owned=("part",))
    run.path.mkdir()
    run.write_manifest({})
    (tmp_path / f".out.{gone}.tmp").mkdir()
    if renamed:
        run.path.rename(tmp_path / f".out.{gone}.old")
    with pytest.raises(RunError, match="overwrite"), replacing(run, overwrite=False):
        pass
    assert [file.name for file in tmp_path.iterdir()] == ["out"] and run.is_ours()


def test_a_file_beside_our_own_stops_a_replacement(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "out", kind="thing", manifest="thing.json", owned=("part",))
    run.path.mkdir()
    run.write_manifest({})
    (run.path / "notes.md").write_text("mine")
    with pytest.raises(RunError, match=r"is not empty.*notes\.md"), replacing(run, overwrite=True):
        pass
    assert (run.path / "notes.md").read_text() == "mine"


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenli.core.io.WHOLE_BYTES", 1 << 20)
    (tmp_path / "bomb.txt.xz").write_bytes(lzma.compress(bytes(4 << 20)))
    with pytest.raises(InputError, match="bomb"):
        read_text(tmp_path / "bomb.txt.xz")
    with tarfile.open(tmp_path / "bomb.tar.xz", "w:xz") as archive:
        for number in range(3):
            member = tarfile.TarInfo(f"{number}.txt")
            member.size = 1 << 19
            archive.addfile(member, BytesIO(bytes(1 << 19)))
    with pytest.raises(InputError, match="bomb"):
        archive_texts(tmp_path / "bomb.tar.xz", lambda name: True)


# Caches of vectors rest on contents, not on sizes and times.


def test_a_cache_of_vectors_follows_the_content(tmp_path: Path) -> None:
    file = tmp_path / "words.txt"
    file.write_text("she 1.0 2.0\nhe 3.0 4.0\nnurse 5.0 6.0\n", encoding="utf-8")
    first, times = load_vectors(file), file.stat()
    assert load_vectors(file).identity == first.identity
    file.write_text("she 1.0 2.0\nhe 9.0 4.0\nnurse 5.0 6.0\n", encoding="utf-8")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    changed = load_vectors(file)
    assert changed.matrix[1].tolist() == [9, 4] and changed.identity != first.identity


@pytest.mark.parametrize("name", ["matrix.npy", "words.txt", "about.json"])
def test_a_damaged_cache_of_vectors_is_made_anew(tmp_path: Path, name: str) -> None:
    file = tmp_path / "words.txt"
    file.write_text("she 1.0 2.0\nhe 3.0 4.0\nnurse 5.0 6.0\n", encoding="utf-8")
    first = load_vectors(file, cache=tmp_path / "cache")
    (stored,) = (tmp_path / "cache").glob(f"*/{name}")
    content = bytearray(stored.read_bytes())
    content[-2 if name != "about.json" else 20] ^= 1
    stored.write_bytes(content)
    again = load_vectors(file, cache=tmp_path / "cache")
    assert again.words == first.words and np.array_equal(again.matrix, [[1, 2], [3, 4], [5, 6]])


def test_a_damaged_cache_of_embeddings_is_refused(tmp_path: Path) -> None:
    vectors = WordVectors.of(["she", "he"], [[1.0, 2.0], [3.0, 4.0]])
    before = EmbeddingCache(VectorMean(vectors), tmp_path).encode(["she", "he"])
    assert np.array_equal(EmbeddingCache(VectorMean(vectors), tmp_path).encode(["she", "he"]), before)
    values = next(file for file in tmp_path.glob("*/*.npy") if ".hashes" not in file.name)
    content = bytearray(values.read_bytes())
    content[-1] ^= 1
    values.write_bytes(content)
    with pytest.raises(InputError, match=values.name):
        EmbeddingCache(VectorMean(vectors), tmp_path)


# An interrupt is said, whenever it comes.


def test_a_signal_is_one_line_and_130(tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    for name in ("SIGINT", "SIGTERM"):
        code = f"import os, signal\ndef f(sample):\n    os.kill(os.getpid(), signal.{name})\n    return 0.5\n"
        (tmp_path / "signals_itself.py").write_text(code, encoding="utf-8")
        command = ("audit", "fake:even", "-o", name, "--measure", "signals_itself:f")
        done = run_cli(*command, cwd=tmp_path)
        assert done.returncode == 130 and "Traceback" not in done.stderr, done
        assert "interrupted" in done.stderr.splitlines()[-1]
        assert (tmp_path / name / "predictions.parquet").is_file()  # what was finished is kept


def test_a_signal_before_the_command_line_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "typer.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    words = [sys.executable, "-m", "evenli", "models"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 130 and done.stderr == "evenli: interrupted\n", done


def test_a_signal_after_the_end_changes_nothing(tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "signals_late.py").write_text(
        "import atexit, os, signal\n"
        "atexit.register(lambda: [os.kill(os.getpid(), number) for number in (signal.SIGINT, signal.SIGTERM)])\n"
        "def f(sample):\n    return 0.5\n",
        encoding="utf-8",
    )
    done = run_cli("audit", "fake:even", "--measure", "signals_late:f", cwd=tmp_path)
    assert done.returncode == 0 and "Files:" in done.stdout and done.stderr.count("KeyboardInterrupt") == 0, done


@pytest.mark.parametrize(
    "within",
    [
        "exec('os.kill(os.getpid(), signal.SIGINT)')",  # as dataclasses do; Python then ends by the signal itself
        "try:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    raise SyntaxError from None",
    ],
)
def test_a_signal_that_a_library_takes_for_something_else(within: str, tmp_path: Path, run_cli) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "signals_import.py").write_text(f"import os, signal\n{within}\n", encoding="utf-8")
    done = run_cli("audit", "fake:even", "--measure", "signals_import:f", cwd=tmp_path)
    assert done.returncode == 130 and done.stderr.count("\n") == 1 and "interrupted" in done.stderr, done


def test_a_reader_that_has_enough_changes_no_exit_code(tmp_path: Path) -> None:
    """``evenli … | head -1``: exit code 1 would mean that a gate failed."""
    command = f"{sys.executable} -m evenli data --json | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


def test_a_file_says_what_it_holds() -> None:
    content = stamp("thing", 2)
    assert is_stamped(content, "thing", schema=2) and not is_stamped(content, "thing", schema=1)
    assert not is_stamped(content, "other", schema=2) and not is_stamped({}, "thing")
    assert not is_stamped({"schema": "x", "kind": "thing"}, "thing")


@pytest.mark.parametrize(
    "words",
    [
        ("table", "RUN", "-o", "RUN/predictions.parquet"),
        ("gate", "RUN", "--fail-if", "coal > 1", "--junit", "RUN/run.json"),
        ("compare", "RUN", "RUN", "-o", "RUN/predictions.parquet"),
        ("card", "RUN", "--into", "RUN/run.json"),
        ("export", "RUN", "--as", "gitlab", "-o", "RUN/results.json"),
    ],
    ids=lambda words: words[0],
)
def test_no_command_writes_over_the_files_of_a_run(
    run_cli: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path, words: tuple[str, ...]
) -> None:
    run = tmp_path / "run"
    evenli.audit("fake:oracle:0.4", suites="coal", limit=60, out=run)
    before = {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()}
    done = run_cli(*(word.replace("RUN", str(run)) for word in words))
    assert done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert {file.name: file.read_bytes() for file in run.iterdir() if file.is_file()} == before
