"""A model backend and an axis with a new language are one new file each, in a package of someone else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenli
from evenli import registry
from evenli.errors import InputError, ModelError
from evenli.evaluate.assess import Scoring
from evenli.models import ModelOptions, load_model
from plugin_package import installed, plugin_environment, write_plugin

FAST = Scoring(resamples=100)
BACKEND = '''
"""Answers of a fake, behind a backend of its own."""
from evenli.models import CallableModel, fake_model

def load(target, request):
    inner = fake_model(target, lang=request.lang)
    def answer(premises, hypotheses):
        return inner.logits(inner.prepare(premises, hypotheses).items)
    return CallableModel(
        answer, name=f"echo {target}", fingerprint=f"echo-{target}", outputs="logits",
        batch_size=request.options.token_budget or 64, spec=request.spec,
    )

def broken(target, request):
    return target.upper()
'''


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Path]:
    points = {"echo": "echo_backend:load", "shout": "echo_backend:broken", "lost": "no_such_module:load", "hf": "x:y"}
    folder = write_plugin(tmp_path / "site", "echo-backend", {"echo_backend": BACKEND}, {"evenli.models": points})
    with installed(folder, registry.MODELS):
        yield folder


def test_a_backend_from_python(backend: Path) -> None:
    model = load_model("echo:biased", options=ModelOptions(token_budget=7))
    assert (model.info.spec, model.info.name) == ("echo:biased", "echo biased")
    assert model.token_budget // model.bucket == 7, "the options reach it"
    audit = evenli.audit("echo:biased", scoring=FAST)
    assert audit.results["coal"]["measures"]["coal"]["value"] == 1.0
    japanese = evenli.audit("echo:biased", "ja", scoring=FAST)
    assert japanese.results["coal"]["measures"]["coal"]["value"] == 1.0, "and so does the language"


def test_a_backend_from_the_command_line(backend: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    environment = plugin_environment(backend)
    out = run_cli("audit", "echo:even", "-o", str(tmp_path / "run"), "--resamples", "100", "--json", env=environment)
    results = json.loads(out.stdout)
    assert results["coal"]["measures"]["coal"]["value"] == 0.0
    assert results["model"]["name"] == "echo even"
    assert "echo" in json.loads(run_cli("models", "--json", env=environment).stdout)["backends"]
    assert "echo" not in json.loads(run_cli("models", "--json").stdout)["backends"]


def test_a_backend_that_does_not_work_is_named(backend: Path) -> None:
    with pytest.raises(ModelError, match="shout"):
        load_model("shout:x")
    with pytest.raises(InputError, match="lost"):
        load_model("lost:x")
    with pytest.raises(ModelError, match="backend 'nobody'"):
        load_model("nobody:x")
    with pytest.raises(ModelError, match="names no model"):
        load_model("echo:")
    assert registry.MODELS.names().count("hf") == 1, "a built-in name is never replaced"
