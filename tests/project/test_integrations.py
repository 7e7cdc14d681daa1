"""evenli beside the libraries that people already use, with the real libraries."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import typer
from typer.testing import CliRunner

import evenli
from evenli.audit.audit import Audit
from evenli.audit.commands.audit import card as card_command
from evenli.audit.report.card import merge_card, merged, push_card
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import InputError, RunError
from evenli.exports.trackers import log_mlflow, log_wandb, metrics
from evenli.training.progress import make_trackers

ROOT = Path(__file__).parents[2]
cards = typer.Typer()
cards.command()(card_command)
CARD = """---
license: mit
tags:
- nli
x-own: kept
model-index:
- name: mine
  results:
  - task:
      type: text-classification
    dataset:
      type: snli
      name: SNLI
    metrics:
    - type: accuracy
      value: 0.9
---

# My model

It does inference.
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Audit:
    return evenli.audit("fake:oracle:0.9", out=tmp_path_factory.mktemp("runs") / "oracle", limit=600)


def test_a_card_keeps_what_is_there(run: Audit, tmp_path: Path) -> None:
    from huggingface_hub import ModelCard

    file = tmp_path / "README.md"
    file.write_text(CARD, encoding="utf-8")
    merge_card(run, file)
    once = file.read_text(encoding="utf-8")
    card = ModelCard.load(file)
    assert card.data.license == "mit" and card.data.get("x-own") == "kept" and card.data.model_name == "mine"
    found = {(one.dataset_type, one.metric_type): one.metric_value for one in card.data.eval_results}
    assert found["snli", "accuracy"] == 0.9 and found["nli-coal", "coal"] == pytest.approx(run.coal.value, abs=1e-6)
    assert card.text.index("It does inference.") < card.text.index("## Gender bias in inference")
    # A second audit on the same pairs takes the place of the first.
    merge_card(run, file)
    assert file.read_text(encoding="utf-8") == once
    other = evenli.audit("fake:even", limit=600)
    again = ModelCard(merged(other, once, "README.md"))
    assert again.text.count("## Gender bias in inference") == 1
    values = [one.metric_value for one in again.data.eval_results if one.metric_type == "coal"]
    assert values == pytest.approx([0.0, 0.0], abs=1e-6)  # of both lists


def test_a_card_of_another_language_has_a_section_of_its_own(run: Audit, tmp_path: Path) -> None:
    file = tmp_path / "new" / "README.md"
    file.parent.mkdir()
    merge_card(run, file)
    merge_card(evenli.audit("fake:even", "ja", limit=600), file)
    text = file.read_text(encoding="utf-8")
    assert text.startswith("---\n") and text.count("## Gender bias in inference") == 2


def test_cards_that_cannot_be_merged(run: Audit, tmp_path: Path) -> None:
    broken = tmp_path / "broken.md"
    broken.write_text("---\nlicense: [mit\n---\n# Mine\n", encoding="utf-8")
    half = tmp_path / "half.md"
    merge_card(run, half)
    half.write_text(half.read_text(encoding="utf-8").rpartition("<!-- evenli")[0], encoding="utf-8")
    for file, reason in ((broken, "metadata"), (half, "end")):
        before = file.read_bytes()
        with pytest.raises(InputError, match=reason):
            merge_card(run, file)
        assert file.read_bytes() == before


def test_card_into_a_file_from_the_command_line(run: Audit, tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(CARD, encoding="utf-8")
    out = CliRunner().invoke(cards, [str(run.path), "--into", str(file)])
    assert out.exit_code == 0 and "Gender bias in inference" in file.read_text(encoding="utf-8")
    out = CliRunner().invoke(cards, [str(run.path), "--into", str(file), "--part", "yaml"])
    assert isinstance(out.exception, InputError)


def test_a_hub_that_does_not_answer_is_one_line(run: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def offline(*_: object, **__: object) -> str:
        raise huggingface_hub.errors.OfflineModeIsEnabled("offline mode is enabled")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", offline)
    with pytest.raises(RunError, match="offline mode"):
        push_card(run, "me/model")


def test_mlflow_keeps_every_number(run: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "mlruns").as_uri())
    with mlflow.start_run() as tracked:
        log_mlflow(run)
    stored = mlflow.get_run(tracked.info.run_id).data
    assert stored.metrics["coal"] == pytest.approx(run.labour.value) and stored.metrics == pytest.approx(metrics(run))
    assert stored.params["evenli.verdict"] == run.verdict.code
    (kept,) = (tmp_path / "mlruns").rglob("results.json")
    assert json.loads(kept.read_text(encoding="utf-8"))["verdict"]["code"] == run.verdict.code


def test_wandb_keeps_every_number_offline(run: Audit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wandb = pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path))
    monkeypatch.delenv("WANDB_MODE", raising=False)
    with wandb.init(project="mine", mode="offline", dir=tmp_path) as mine:
        log_wandb(run)
        assert wandb.run is mine  # a run of the user's stays open
        assert mine.summary["evenli/coal"] == pytest.approx(run.labour.value)
        assert mine.config["evenli.verdict"] == run.verdict.code
    log_wandb(run)
    assert wandb.run is None and len(list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))) == 2
    with make_trackers(["wandb"], tmp_path / "seed-0", {"seed": 0}) as (track,):
        track({"loss": 0.5}, 1)
    assert list((tmp_path / "seed-0" / "wandb").glob("offline-run-*/*.wandb"))


TESTS = """
import polars as pl
import pytest
import replaced
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import InputError

SAFE = ["coal.low > 0.5"]
SPEC = {"model": "py:replaced:model", "fail_if": SAFE, "suites": "coal"}

def test_an_even_model_is_asked_once(assert_even):
    first, batches = assert_even(**SPEC), len(replaced.asked)
    second = assert_even(**{**SPEC, "fail_if": ["verdict == 'bias'"]})
    assert first.predictions.frame is second.predictions.frame and len(replaced.asked) == batches > 0

def test_a_model_that_is_replaced_is_audited_again(assert_even):
    replaced.WEIGHTS.write_text("biased")
    with pytest.raises(AssertionError):
        assert_even(**SPEC)
    replaced.WEIGHTS.write_text("even")
    assert_even(**SPEC)

def test_tables_that_look_alike_are_two(assert_even):
    table = build_coal("en").frame
    other = pl.concat([table.head(100), table[100:5000].reverse(), table[5000:]])
    assert repr(table) == repr(other)
    first, second = (assert_even("fake:even", data=data, fail_if=SAFE).result.data for data in (table, other))
    assert first[-1].sha256 != second[-1].sha256

def test_a_limit_decides_nothing(assert_even):
    with pytest.raises(InputError, match="all pairs asked"):
        assert_even("fake:even")

def test_a_biased_model(assert_even):
    assert_even("fake:biased")
"""
REPLACED = """
from pathlib import Path
from evenli.audit.models import fake_model

WEIGHTS, asked = Path("weights.txt"), []
WEIGHTS.write_text("even")

class Replaced:
    @property
    def fingerprint(self):
        return WEIGHTS.read_text()

    def __call__(self, premises, hypotheses):
        asked.append(len(premises))
        inner = fake_model(WEIGHTS.read_text())
        return inner.logits(inner.prepare(premises, hypotheses).items)

model = Replaced()
"""


def test_the_plug_in_of_pytest(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "replaced.py").write_text(REPLACED, encoding="utf-8")
    installed = "evenli" in {entry.name for entry in _entry_points("pytest11")}
    plugin = [] if installed else ["-p", "evenli.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--evenli-limit", "300", *plugin]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1 and "1 failed, 4 passed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError" in done.stdout and "Traceback" not in done.stdout


def _entry_points(group: str) -> list:
    from importlib.metadata import entry_points

    return list(entry_points(group=group))


def test_the_plug_in_imports_nothing_before_it_is_used() -> None:
    code = "import sys, evenli.pytest_plugin; print([n for n in ('numpy', 'polars', 'scipy') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_tables_of_other_libraries_in_and_out(run: Audit) -> None:
    datasets, pandas = pytest.importorskip("datasets"), pytest.importorskip("pandas")
    frame = run.to_frame()
    assert isinstance(frame.to_pandas(), pandas.DataFrame)
    assert datasets.Dataset.from_polars(frame).num_rows == frame.height
    pairs = build_coal("en").frame
    for table in (pairs.to_pandas(), datasets.Dataset.from_polars(pairs)):
        again = evenli.audit("fake:oracle:0.9", data=table, limit=600)
        assert again.coal.value == pytest.approx(run.coal.value)


class Hub(BaseHTTPRequestHandler):
    """As much of the hub as a pull request on a model card needs."""

    requests: ClassVar[list[tuple[str, bytes]]] = []

    def answer(self, content: object, kind: str = "application/json") -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(200)
        head = {"Content-Type": kind, "Content-Length": str(len(body)), "ETag": '"1"', "X-Repo-Commit": "0" * 40}
        for name, value in head.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self) -> None:
        self.answer(CARD.encode(), "text/plain")

    def do_GET(self) -> None:
        if "/resolve/" in self.path:
            self.answer(CARD.encode(), "text/plain")
        else:
            self.answer({"id": "me/model", "sha": "0" * 40, "siblings": []})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.requests.append((self.path, body))
        if "preupload" in self.path:
            self.answer({"files": [{"path": "README.md", "uploadMode": "regular", "shouldIgnore": False}]})
        elif "/commit/" in self.path:
            place = "https://huggingface.co/me/model"
            about = {"commitUrl": f"{place}/commit/{'1' * 40}", "pullRequestUrl": f"{place}/discussions/1"}
            self.answer({"success": True, "commitOid": "1" * 40, **about})
        else:
            self.answer({"errors": [], "warnings": []})

    def log_message(self, *_: object) -> None:
        return


def test_push_opens_a_pull_request(run: Audit, tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    # The hub's address is read when the library is imported.
    places = {
        "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
        "HF_HOME": str(tmp_path),
        "HF_TOKEN": "hf_secret",
    }
    command = [sys.executable, "-m", "evenli", "card", str(run.path), "--push", "me/model"]
    try:
        done = subprocess.run(command, env={**os.environ, **places}, capture_output=True, text=True)
    finally:
        server.shutdown()
        server.server_close()
    assert done.returncode == 0, done.stderr
    assert "hf_secret" not in done.stdout + done.stderr
    (path, body), *_ = [one for one in Hub.requests if "/commit/" in one[0]]
    assert "create_pr=1" in path
    lines = [json.loads(line) for line in body.splitlines()]
    (file,) = [base64.b64decode(line["value"]["content"]).decode() for line in lines if line["key"] == "file"]
    assert "It does inference." in file and "## Gender bias in inference" in file
