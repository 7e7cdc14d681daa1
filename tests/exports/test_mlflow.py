"""MLflow 3 with a server of its own: the audit, its intervals and its report are in the run of an evaluation.

Slow, and only where the whole of MLflow is (``pip install mlflow``); it runs on this machine, on a database file.
"""

from __future__ import annotations

import importlib.util
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import evenli
from evenli.audit.models.callables import fake_model
from evenli.core.errors import InputError
from evenli.core.labels import LABELS
from evenli.exports.mlflow import Evaluator
from evenli.exports.trackers import metrics

ASKED: dict[str, Any] = {"lang": "en", "limit": 48, "suites": ("coal",)}


def labels(premises: list[str], hypotheses: list[str]) -> list[str]:
    return [LABELS[row.argmax()] for row in fake_model("biased").logits(list(zip(premises, hypotheses, strict=True)))]


def test_only_a_language_calls_the_evaluator() -> None:
    """MLflow asks every evaluator that is installed, also where the user thinks of another."""
    assert Evaluator.can_evaluate(model_type="classifier", evaluator_config={"lang": "en"})
    assert not Evaluator.can_evaluate(model_type="classifier", evaluator_config={"explainability_nsamples": 3})
    assert not Evaluator.can_evaluate(model_type="regressor", evaluator_config=None)
    with pytest.raises(InputError, match="predictions"):
        Evaluator().evaluate(evaluator_config=ASKED)


needs_server = pytest.mark.skipif(importlib.util.find_spec("flask") is None, reason="pip install mlflow")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    mlflow = pytest.importorskip("mlflow")
    folder = tmp_path_factory.mktemp("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{folder}/store.db", "--artifacts-destination", str(folder / "files")]
    with (folder / "log").open("wb") as log:
        started = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/health", timeout=1).close()
                break
            except OSError:
                assert started.poll() is None, (folder / "log").read_text(encoding="utf-8")
                time.sleep(0.5)
        mlflow.set_tracking_uri(address)
        mlflow.set_experiment("evenli")
        yield mlflow
    finally:
        started.terminate()
        started.wait(30)


def check(mlflow: Any, run_id: str, folder: Path) -> None:
    """The numbers of the run are those of an audit of the same model."""
    direct = evenli.audit(labels, **ASKED)
    stored = mlflow.get_run(run_id).data
    expected = metrics(direct)
    assert {name: stored.metrics[name] for name in expected} == pytest.approx(expected)
    for cause in direct.verdict.causes:
        ends = stored.metrics[f"{cause.name}_low"], stored.metrics[cause.name], stored.metrics[f"{cause.name}_high"]
        estimate = cause.estimate
        assert ends == pytest.approx((estimate.low, estimate.value, estimate.high), abs=1e-6)
    assert direct.verdict.causes and stored.params["evenli.verdict"] == direct.verdict.code != "none"
    listed = {file.path for file in mlflow.MlflowClient().list_artifacts(run_id, "evenli")}
    assert listed == {"evenli/results.json", "evenli/report.html"}
    page = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="evenli/report.html", dst_path=str(folder))
    assert "NLI-CoAL" in (text := Path(page).read_text(encoding="utf-8")) and "</html>" in text


@pytest.mark.slow
@needs_server
def test_a_scorer_of_genai(server: Any, tmp_path: Path) -> None:
    from evenli.exports.mlflow import genai

    rows, scorer = genai(**ASKED)

    def answer(premise: str, hypothesis: str) -> str:
        return labels([premise], [hypothesis])[0]

    found = server.genai.evaluate(data=rows, predict_fn=answer, scorers=[scorer])
    check(server, found.run_id, tmp_path)
    direct = evenli.audit(labels, **ASKED)
    assert found.metrics["evenli/score"] == pytest.approx(direct.coal.value)
    # An audit that asked a sample of the pairs again: those rows are there twice.
    assert len(rows) == direct.predictions.frame.height + direct.header["repeat"]["pairs"]


@pytest.mark.slow
@needs_server
def test_an_evaluator_of_classic_models(server: Any, tmp_path: Path) -> None:
    import pandas as pd
    from mlflow.models.evaluation.evaluator_registry import _model_evaluation_registry as registry

    if not registry.is_registered("evenli"):  # the entry point does this where evenli is installed
        registry.register("evenli", Evaluator)

    def predict(table: Any) -> Any:
        return pd.Series(labels(list(table["premise"]), list(table["hypothesis"])))

    data = pd.DataFrame({"premise": ["A nurse waits."], "hypothesis": ["A woman waits."], "gold": ["neutral"]})
    with server.start_run() as run:
        found = server.models.evaluate(
            predict, data, targets="gold", model_type="classifier", evaluators="evenli", evaluator_config=ASKED
        )
    check(server, run.info.run_id, tmp_path)
    assert found.metrics["coal"] == pytest.approx(evenli.audit(labels, **ASKED).coal.value)
