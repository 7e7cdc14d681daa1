"""Everything the command line does is one call in Python: the same result, and a table that names the call."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from typer.main import get_command

from conftest import ROOT, make_checkpoint
from evenli.audit.audit import AuditSettings, FileSettings, audit, predict_file, robustness
from evenli.audit.report.export import markdown, run_table
from evenli.audit.suites.base import built_in_sets
from evenli.audit.suites.coal.pairs import CoalSettings, build_coal, check_file, write_coal
from evenli.audit.suites.dev2020 import write_dev_file
from evenli.audit.suites.probe.build import ProbeSettings, write_probe
from evenli.cli import app
from evenli.core.errors import InputError
from evenli.corpus.scoring import DirectionSettings, direction
from evenli.encoders.comparison import ReportSettings, encoder_report
from evenli.encoders.comparison.chart import write_encoder_report
from evenli.encoders.mitigation import MitigationSettings, mitigate_encoder
from evenli.encoders.seat import SeatSettings
from evenli.training.meta import Design, MetaFolder, meta_evaluation
from evenli.training.recipe import complete_design

PAIRS = "premise,hypothesis,gold,mine\nA man waits.,A person waits.,0,x\nA dog runs.,A cat sleeps.,2,y\n"


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import lzma

    file = tmp_path_factory.mktemp("vectors") / "glove.txt"
    file.write_bytes(lzma.decompress((ROOT / "docs" / "tutorials" / "glove_small.txt.xz").read_bytes()))
    return file


def said(run_cli: Any, *words: object, cwd: Path | None = None) -> Any:
    done = run_cli(*map(str, words), "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def commands(command: Any = None, words: tuple[str, ...] = ()) -> Iterator[str]:
    """Every command of ``evenli --help``, those of groups with both words."""
    command = command or get_command(app)
    if not hasattr(command, "list_commands"):
        yield " ".join(words)
        return
    for name in command.list_commands(None):
        yield from commands(command.get_command(None, name), (*words, name))


def listed() -> dict[str, list[str]]:
    """The calls of every command, as the page has them."""
    page = (ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([a-z0-9 -]+)` \| (.*?) \| .*\|$", page, re.MULTILINE)
    return {command: re.findall(r"`(evenli\.[\w.]+)`", text) for command, text in rows}


def test_the_page_names_a_call_for_every_command() -> None:
    assert sorted(listed()) == sorted(commands())


@pytest.mark.parametrize("command", sorted(listed()))
def test_a_named_call_is_there(command: str) -> None:
    if command in {"train nli", "train encoder", "onnx"}:
        pytest.importorskip("torch")
    assert listed()[command]
    for name in listed()[command]:
        assert callable(resolve_name(name)), name


def test_build_coal(run_cli: Any, tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("".join(f"the [Sub] sees tree {i}.\n" for i in range(300)))
    settings = CoalSettings(occupations="labour", templates=tmp_path / "t.txt", width=2, seed=3)
    written = write_coal(tmp_path / "a.csv", settings=settings)
    options = ("--occupations", "labour", "--templates", tmp_path / "t.txt", "--width", 2, "--seed", 3)
    told = said(run_cli, "build", "coal", "-o", tmp_path / "b" / "a.csv", *options)
    assert told["findings"] == len(written.findings) and told["sha256"] == written.pairs.sha256
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b" / "a.csv").read_bytes()
    assert build_coal("en", settings).sha256 == build_coal("en", **vars(settings)).sha256 == written.pairs.sha256
    with pytest.raises(InputError, match="no option 'wide'"):
        build_coal("en", wide=3)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_build_probe(run_cli: Any, tmp_path: Path, lang: str) -> None:
    written = write_probe(tmp_path / "a.csv", lang, ProbeSettings(per_occupation=2, seed=5))
    told = said(run_cli, "build", "probe", "-o", tmp_path / "b.csv", "--lang", lang, "--per-occupation", 2, "--seed", 5)
    assert told["report"] == (written.report.to_dict() if written.report else {"corpus": None})
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
    assert (written.report is None) == (lang == "ja")


def test_build_probe_refuses_english_settings_in_other_languages(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--corpus, --dominance: for"):
        write_probe(tmp_path / "a.csv", "zh", corpus="c.txt", dominance=60)


def test_build_dev2020(run_cli: Any, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    lists = write_dev_file(tmp_path / "a.csv", ["man"], on_progress=lambda done, total: seen.append((done, total)))
    told = said(run_cli, "build", "dev2020", "-o", tmp_path / "b.csv", "--words", "man")
    assert told["pairs"] == lists.pairs and seen[-1] == (lists.pairs, lists.pairs)
    assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()


def test_data(run_cli: Any, tmp_path: Path) -> None:
    assert said(run_cli, "data")["sets"] == [card.to_dict() for card in built_in_sets()]
    file = write_coal(tmp_path / "c.csv", width=1).path
    checked = check_file(file)
    assert said(run_cli, "data", "--check", file) == {**checked.pairs.card().to_dict(), "findings": checked.counts}
    assert run_cli("data", "--check", str(file)).stdout.splitlines() == checked.lines()
    assert checked.problem == "" and checked.lines()[-1] == "no findings"
    row = next(iter(checked.pairs.frame.head(1).iter_rows(named=True)))
    (tmp_path / "bad.jsonl").write_text(json.dumps({**row, "subset": "AS" if row["subset"] != "AS" else "PS"}) + "\n")
    bad, refused = check_file(tmp_path / "bad.jsonl"), run_cli("data", "--check", str(tmp_path / "bad.jsonl"))
    assert bad.counts == {"subset": 1}
    assert (refused.returncode, refused.stderr.strip()) == (2, f"evenli: {bad.problem}")
    assert refused.stdout.splitlines() == bad.lines()


def test_predict(run_cli: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(PAIRS)
    told = said(run_cli, "predict", "fake:biased", "--data", tmp_path / "p.csv", "-o", tmp_path / "run")
    remarks: list[str] = []
    settings = FileSettings(on_warning=remarks.append)
    again = predict_file("fake:biased", tmp_path / "p.csv", out=tmp_path / "run", settings=settings)
    assert {"folder": str(again.folder), **again.summary.to_dict(), "notes": list(again.notes)} == told
    assert "reused" in remarks[0]
    kept = predict_file("fake:biased", tmp_path / "p.csv")
    assert kept.folder is None and kept.summary.predicted == told["predicted"]
    assert kept.predictions.frame["mine"].to_list() == ["x", "y"]


def test_audit_and_table(run_cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = said(run_cli, "audit", "fake:biased", "--limit", 200, "--seed", 4, cwd=tmp_path)
    settings = AuditSettings(limit=200, seed=4)
    again = audit("fake:biased", out=told["folder"], settings=settings)
    assert {"folder": str(again.path), **again.to_dict()} == told
    assert again.path.name.endswith("limit-200-seed-4")
    shown = run_cli("table", str(again.path), "--what", "occupations", cwd=tmp_path)
    assert shown.stdout == markdown(run_table(again.path, "occupations", out="t.csv"))
    assert (tmp_path / "t.csv").is_file()
    with pytest.raises(InputError, match="finished run"):
        robustness(str(again.path), settings=AuditSettings(full=True))


def test_direction(run_cli: Any, tmp_path: Path, vectors: Path) -> None:
    described = direction(vectors, settings=DirectionSettings(count=2))
    assert said(run_cli, "direction", "--vectors", vectors, "--count", 2) == json.loads(
        json.dumps(described.summary.to_dict())
    )
    pytest.importorskip("vl_convert")
    files = [file.name for file in direction(vectors, out=tmp_path / "d").files]
    assert files == ["direction.npz", "direction.svg", "direction.png"]
    with pytest.raises(InputError, match="--encoder"):
        direction(encoder="hf:x", out=tmp_path)


def test_encoder_report(run_cli: Any, tmp_path: Path, vectors: Path) -> None:
    pytest.importorskip("sklearn")
    spec, fast = f"vectors:{vectors}", ReportSettings(SeatSettings(permutations=100))
    report = encoder_report([spec], fast, out=tmp_path)
    assert said(run_cli, "encoder-report", spec, "--permutations", 100, "-o", tmp_path / "cli") == report.to_dict()
    remarks: list[str] = []
    files = write_encoder_report(report, tmp_path, remarks.append)
    assert files[0].name == "report.html" and (len(files) > 1) != bool(remarks)
    assert files[0].read_bytes() == (tmp_path / "cli" / "report.html").read_bytes()


def test_settings_of_a_mitigation_say_how_the_encoder_is_loaded(tmp_path: Path, vectors: Path) -> None:
    pytest.importorskip("sklearn")
    spec = f"vectors:{vectors}"
    with_settings = mitigate_encoder(spec, tmp_path / "a", MitigationSettings("leace", seed=2, device="cpu"))
    with_options = mitigate_encoder(spec, tmp_path / "b", MitigationSettings("leace"), seed=2, device="cpu")
    assert with_settings == with_options


def test_train_encoder(run_cli: Any, tmp_path: Path, vectors: Path) -> None:
    pytest.importorskip("torch")
    from evenli.training.bilstm import EncoderSettings, train_encoder
    from evenli.training.recipe import EncoderRecipe

    texts = [("a man waits", "a person waits", "entailment"), ("a dog runs", "a cat sleeps", "contradiction")]
    rows = [{"sentence1": one, "sentence2": two, "gold_label": gold} for one, two, gold in texts * 3]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe, settings = EncoderRecipe(hidden=3, epochs=1), EncoderSettings(device="cpu", shown=False)
    data, out = tmp_path / "t.jsonl", tmp_path / "e"
    outcome = train_encoder(vectors, data, data, out, recipe=recipe, settings=settings)
    options = ("--hidden", 3, "--epochs", 1, "--device", "cpu", "--dev", data)
    told = said(run_cli, "train", "encoder", "--data", data, "--vectors", vectors, "-o", out, *options)
    assert told == json.loads(json.dumps(outcome.to_dict()))  # the same directory: nothing was trained again
    with pytest.raises(InputError, match="--dev"):
        train_encoder(vectors, data, None, out)


def test_export(run_cli: Any, tmp_path: Path) -> None:
    for module in ("torch", "transformers", "onnx", "onnxscript"):
        pytest.importorskip(module)
    from evenli.training.export import export_onnx

    labels = ["neutral", "contradiction", "entailment"]
    model = make_checkpoint(tmp_path / "model", labels=labels)
    report = export_onnx(model, tmp_path / "out", check=None, lang="ja")
    told = said(run_cli, "onnx", model, "-o", tmp_path / "out", "--lang", "ja")
    assert told == json.loads(json.dumps(report.to_dict()))
    (tmp_path / "p.csv").write_text(PAIRS)
    assert export_onnx(model, tmp_path / "out", check=tmp_path / "p.csv").pairs == 2


def test_meta(run_cli: Any, tmp_path: Path) -> None:
    first = run_cli("meta", "-o", str(tmp_path / "a"), "--stage", "prepare", "--quick", "--noise", "0,0.5,1")
    assert first.returncode == 0, first.stderr
    given = {"noise": (0, 0.5, 1), "quick": True}
    assert meta_evaluation(tmp_path / "b", design=given, stage="prepare") is None
    headers = [MetaFolder(tmp_path / name).header for name in "ab"]
    assert headers[0]["sha256"] == headers[1]["sha256"] and headers[0]["design"] == headers[1]["design"]


def test_options_complete_a_design() -> None:
    assert complete_design({}) == Design()
    quick = complete_design({}, quick=True)
    assert quick == Design(rates=(0, 0.5, 1), width=50)
    assert complete_design({}, quick) is None, "an earlier sweep keeps its own"
    assert complete_design({"balanced": True}, quick) == Design(rates=(0, 0.5, 1), width=50, balanced=True)
    assert complete_design({"stereotype": "-1:1:1"}) == Design(rates=(), stereotype=(-1, 0, 1))
    with pytest.raises(InputError, match="width"):
        complete_design({"width": 3}, quick=True)
