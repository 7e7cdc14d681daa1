"""The command line as a user meets it: real processes, exit codes, one line per mistake."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import make_checkpoint


def test_audit_json_is_json_only(run_cli, tmp_path: Path) -> None:
    out = run_cli("audit", "fake:biased", "--json", cwd=tmp_path)
    assert out.returncode == 0
    results = json.loads(out.stdout)
    assert results["coal"]["measures"]["coal"]["value"] == pytest.approx(1.0)
    assert results["verdict"]["code"] == "bias"
    folder = tmp_path / results["folder"]
    stored = json.loads((folder / "results.json").read_text())
    assert stored["schema"] == 3 and stored["coal"] == results["coal"]
    header = json.loads((folder / "run.json").read_text())
    assert {"model", "data", "seed", "settings", "timings", "plan", "evenli"} <= set(header)
    assert (folder / "predictions.parquet").is_file()


def test_audit_shows_everything(run_cli, tmp_path: Path) -> None:
    out = run_cli("audit", "fake:oracle:0.9", "--lang", "ja", "--verbose", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    for text in (
        "PS pro-stereotypical",
        "95% interval",
        "0..1",
        "higher = more biased",
        "Competence: gold pairs 1.000",
        "Verdict",
        "Tohoku-BERT-base",
        "this model",
        "predictions.parquet",
        "Order condition",
    ):
        assert text in out.stdout, text
    assert "\x1b[" not in out.stdout


def test_narrow_terminals_keep_numbers_on_their_lines() -> None:
    import io

    from rich.console import Console

    import evenli
    from evenli.audit.report.terminal import show_results

    audit = evenli.audit("fake:oracle:0.9", "ja")
    for width in (64, 80, 140):
        text = io.StringIO()
        show_results(audit, Console(file=text, width=width), verbose=True)
        lines = text.getvalue().splitlines()
        assert max(len(line) for line in lines) <= width
        assert any(line.startswith("NLI-CoAL") and "0.600" in line and "[" in line for line in lines), width


def test_measure_rescores_without_the_model(run_cli, tmp_path: Path) -> None:
    assert run_cli("audit", "fake:random", "-o", "run", cwd=tmp_path).returncode == 0
    before = json.loads((tmp_path / "run" / "results.json").read_text())
    (tmp_path / "run" / "results.json").unlink()
    out = run_cli("measure", "run", "--json", cwd=tmp_path)
    after = json.loads(out.stdout)
    assert after["coal"] == before["coal"] and after["competence"] == before["competence"]


def test_official_release_and_tokenised(run_cli, tmp_path: Path, shared_data: Path) -> None:
    archive = shared_data / "nli_coal" / "ja_v1.1.tar.xz"
    out = run_cli(
        "audit", "fake:even", "--lang", "ja", "--data", archive, "--tokenised", "--split", "down", cwd=tmp_path
    )
    assert out.returncode == 0, out.stderr
    assert "official v1.1 downsampled tokenised (ja, 600 pairs" in out.stdout


def test_callable_from_the_current_folder(run_cli, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def predict(p, h):\n    return ['neutral'] * len(p)\n")
    out = run_cli("audit", "py:mine:predict", "--json", cwd=tmp_path)
    assert json.loads(out.stdout)["verdict"]["code"] == "none"


def test_build_data_models_doctor(run_cli, tmp_path: Path) -> None:
    built = run_cli("build", "coal", "--lang", "zh", "-o", "zh.jsonl", "--json", cwd=tmp_path)
    assert json.loads(built.stdout)["rows"] == 5420
    checked = run_cli("data", "--check", "zh.jsonl", "--lang", "zh", cwd=tmp_path)
    assert checked.returncode == 0 and "no findings" in checked.stdout
    # What an audit refuses is listed and refused here as well.
    lines = (tmp_path / "zh.jsonl").read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    lines[0] = json.dumps({**first, "premise": first["premise"] + "。"})
    (tmp_path / "zh.jsonl").write_text("\n".join(lines[:8]), encoding="utf-8")
    checked = run_cli("data", "--check", "zh.jsonl", "--lang", "zh", cwd=tmp_path)
    assert checked.returncode == 2 and "difference: 1 rows" in checked.stdout
    assert checked.stderr.count("\n") == 1 and "an audit refuses 1 finding" in checked.stderr
    listed = json.loads(run_cli("data", "--json").stdout)
    assert all(resource["intact"] for resource in listed["resources"])
    assert "fake:" in run_cli("models").stdout
    doctor = json.loads(run_cli("doctor", "--json").stdout)
    assert doctor["packages"]["base"]["numpy"] and "cpu" in doctor["devices"]
    assert run_cli("--version").stdout.startswith("evenli ")


def test_predict_any_pair_file(run_cli, tmp_path: Path, pair_file) -> None:
    path = pair_file(
        [{"sentence1": "a b", "sentence2": "c", "gold_label": label} for label in ("neutral", "entailment", "-")]
    )
    out = run_cli("predict", "fake:neutral", "--data", path, "-o", "p", "--json", cwd=tmp_path)
    summary = json.loads(out.stdout)
    assert summary["accuracy"]["value"] == pytest.approx(0.5) and summary["predicted"]["neutral"] == 3


BAD = {
    "unknown model": (["audit", "hf:no-such/model@main"], "no-such/model@main"),
    "unknown path": (["audit", "./nowhere"], "nowhere"),
    "unknown language": (["audit", "fake:even", "--lang", "fr"], "'fr'"),
    "missing data": (["audit", "fake:even", "--data", "none.jsonl"], "none.jsonl"),
    "bad json": (["audit", "fake:even", "--data", "bad.jsonl"], "bad.jsonl, line 2"),
    "missing columns": (["audit", "fake:even", "--data", "columns.jsonl"], "premise"),
    "unknown label": (["audit", "fake:even", "--data", "label.jsonl"], "'maybe'"),
    "empty set": (["audit", "fake:even", "--data", "empty.jsonl"], "empty.jsonl"),
    "duplicate ids": (["audit", "fake:even", "--data", "double.jsonl"], "duplicate"),
    "template without slot": (
        ["build", "coal", "-o", "x.jsonl", "--templates", "t.txt"],
        "template 1",
    ),
    "two labels": (["audit", "./two"], "two-label"),
    "unnamed labels": (["audit", "./unnamed"], "--labels"),
    "bad --labels": (["audit", "./unnamed", "--labels", "yes,no,maybe"], "yes, no, maybe"),
    "no run": (["measure", "."], "run folder"),
    "folder in use": (["audit", "fake:even", "-o", "busy"], "busy"),
    "bad device": (["audit", "./unnamed", "--labels", "e,n,c", "--device", "tpu"], "'tpu'"),
    "unwritable": (["audit", "fake:even", "-o", "/proc/evenli"], "/proc/evenli"),
    "bad determiner": (["build", "dev2020", "-o", "x.csv", "--determiner", "some"], "the or a"),
    "unknown device": (["audit", "--device", "tpu"], "'tpu'"),
    "device of no model": (["audit", "fake:even", "--device", "tpu"], "'tpu'"),
    "onnx on cuda": (["audit", "--device", "cuda"], "ONNX"),
    "predict without pairs": (["predict", "fake:biased"], "--data: which pairs"),
    "report of a damaged run": (["report", "damaged"], "run what wrote it again"),
    "wrong order": (["audit", "py:turned:predict"], "--labels contradiction,neutral,entailment"),
}


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    good = {
        "sentence1": "the nurse waits.",
        "sentence2": "the man waits.",
        "label": "neutral",
        "occ_word": "nurse",
        "occ_type": "female-stereo",
    }
    (folder / "bad.jsonl").write_text(json.dumps(good) + "\n{oops\n")
    (folder / "columns.jsonl").write_text('{"text": 1}\n')
    (folder / "label.jsonl").write_text(json.dumps(good | {"label": "maybe"}) + "\n")
    (folder / "empty.jsonl").write_text("\n")
    (folder / "double.jsonl").write_text((json.dumps(good | {"id": 1}) + "\n") * 2)
    (folder / "t.txt").write_text("nobody is here.\n")
    (folder / "damaged").mkdir()
    (folder / "damaged" / "run.json").write_text("{")
    (folder / "busy").mkdir()
    (folder / "busy" / "x").write_text("")
    (folder / "turned.py").write_text(
        "from evenli.audit.models import fake_model\n"
        "right = fake_model('even')\n"
        "def predict(p, h):\n    return right.logits(right.prepare(p, h).items)[:, [2, 1, 0]]\n"
    )
    make_checkpoint(folder / "two", labels=["entailment", "not_entailment"])
    make_checkpoint(folder / "unnamed", labels=["LABEL_0", "LABEL_1", "LABEL_2"])
    return folder


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_and_exit_code_2(case: str, run_cli, workplace: Path) -> None:
    arguments, message = BAD[case]
    out = run_cli(*arguments, cwd=workplace)
    assert out.returncode == 2, out.stdout + out.stderr
    lines = out.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("evenli: "), out.stderr
    assert message in lines[0]
    assert out.stdout == ""


def test_incomplete_run_cannot_be_measured(run_cli, tmp_path: Path) -> None:
    from evenli.core.store import with_hash

    (tmp_path / "run.json").write_text(json.dumps(with_hash({"schema": 3, "status": "running"})))
    out = run_cli("measure", tmp_path)
    assert out.returncode == 2 and "complete" in out.stderr


def test_unwritable_folder_is_one_line(run_cli, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere; /proc stands in for it in the table of bad input")
    tmp_path.chmod(0o500)
    out = run_cli("audit", "fake:even", "-o", tmp_path / "run")
    assert out.returncode == 2 and "Permission" in out.stderr


@pytest.fixture(scope="module")
def run(run_cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds") / "run"
    assert run_cli("audit", "fake:biased", "-o", folder).returncode == 0
    return folder


NEGATIVE = {
    "build coal": ["build", "coal", "-o", "x.jsonl"],
    "build probe": ["build", "probe", "-o", "x.jsonl"],
    "build controlled": ["build", "controlled", "-o", "x"],
    "train nli": ["train", "nli", "b", "--data", "d", "-o", "x"],
    "train encoder": ["train", "encoder", "--data", "d", "--vectors", "v", "-o", "x"],
    "seat": ["seat", "vectors:v"],
    "senteval": ["senteval", "vectors:v"],
    "encoder-report": ["encoder-report", "vectors:v", "-o", "x"],
    "mitigate subtract": ["mitigate", "subtract"],
    "mitigate augment": ["mitigate", "augment"],
    "mitigate hard-debias": ["mitigate", "hard-debias"],
    "mitigate inlp": ["mitigate", "inlp"],
    "mitigate leace": ["mitigate", "leace"],
    "mitigate sent-debias": ["mitigate", "sent-debias"],
}


@pytest.mark.parametrize("command", NEGATIVE)
def test_a_negative_seed_is_refused(command: str, tmp_path: Path, monkeypatch) -> None:
    from typer.testing import CliRunner

    from evenli.cli import app

    monkeypatch.chdir(tmp_path)
    arguments = NEGATIVE[command]
    # The seed stands first: options are checked in their order in the command.
    words = command.count(" ") + 1
    out = CliRunner().invoke(app, [*arguments[:words], "--seed", "-1", *arguments[words:]])
    assert out.exit_code == 2, out.output
    assert "--seed" in out.output
    assert not list(tmp_path.iterdir())


def test_a_negative_seed_of_a_sweep_is_refused(run_cli, tmp_path: Path) -> None:
    from evenli.core.errors import InputError
    from evenli.training.meta import Design

    out = run_cli("meta", "b", "-o", tmp_path / "x", "--seed", "-1")
    assert out.returncode == 2 and "--seed" in out.stderr
    with pytest.raises(InputError, match="seed.*-1"):
        Design(seed=-1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_an_output_that_cannot_be_written_is_one_line(run: Path) -> None:
    command = [sys.executable, "-m", "evenli"]
    for arguments in (
        ["gate", str(run), "--fail-if", "coal > 2"],
        ["gate", str(run), "--fail-if", "coal > 2", "--json"],
        ["measure", str(run)],
        ["--version"],
    ):
        with Path("/dev/full").open("w") as full:
            out = subprocess.run([*command, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
        assert out.returncode == 2, (arguments, out.stderr)
        assert out.stderr == "evenli: cannot write the output: No space left on device\n"


def test_a_closed_pipe_does_not_change_what_a_gate_found(run: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "evenli", "gate", str(run), "--json", "--fail-if"]
    for condition, code in (("coal > 0.1", 1), ("coal > 2", 0)):
        out = subprocess.run(
            [*command, condition],
            stdout=write,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            text=True,
            timeout=60,
        )
        assert (out.returncode, out.stderr) == (code, "")
    os.close(write)
