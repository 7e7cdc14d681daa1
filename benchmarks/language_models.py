"""Language models: ``causal:`` beside lm-evaluation-harness on the same questions; how busy ``chat:`` keeps a server.

    python benchmarks/language_models.py --model MODEL_FOLDER_OR_GGUF --pairs 24
    python benchmarks/language_models.py --chat --latency 0.05 --concurrency 8

Both libraries run in one process on one loaded network, one after the other, on the processor time of the process, so
that a busy machine changes neither; ratios are what counts. lm-eval needs ``pip install 'evenli[lm-eval]'``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from evenli.labels import LABELS
from evenli.models import ModelOptions, Prompting, load_model
from evenli.models.base import plan_batches
from evenli.suites.base import load_suite


def run_causal(model: Any, premises: list[str], hypotheses: list[str]) -> np.ndarray:
    """Log-probabilities as an audit computes them, [pairs, views, 3]."""
    prepared = model.prepare(premises, hypotheses)
    rows = np.empty((len(premises), len(LABELS) + len(model.details)))
    for batch in plan_batches(prepared.lengths, bucket=model.bucket, token_budget=model.token_budget):
        rows[batch] = model.logits(prepared.take(batch))
    return rows[:, len(LABELS) + 2 :].reshape(len(rows), len(model.views), 4)[..., :3]


def run_lm_eval(model: Any, premises: list[str], hypotheses: list[str], batch: int) -> np.ndarray:
    """The same through ``HFLM.loglikelihood``: one request for each answer, as a multiple-choice task makes them."""
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    harness = HFLM(pretrained=model._model, tokenizer=model._tokenizer, batch_size=batch, device="cpu")
    requests = []
    for pair in zip(premises, hypotheses, strict=True):
        for view in model.views:
            text = model._question(view.text(*pair))
            for label in LABELS:
                arguments = (text, view.answers[label])
                requests.append(Instance("loglikelihood", doc={}, arguments=arguments, idx=len(requests)))
    found = harness.loglikelihood(requests, disable_tqdm=True)
    return np.array([value for value, _ in found]).reshape(len(premises), len(model.views), len(LABELS))


def compare(target: str, count: int, batch: int) -> dict[str, Any]:
    """Seconds of processor time for the same pairs, and how far the answers differ."""
    model: Any = load_model(f"causal:{target}", options=ModelOptions(device="cpu", prompting=Prompting(prompts=1)))
    frame = load_suite("coal").frame.gather_every(5420 // count).head(count)
    pairs = frame["premise"].to_list(), frame["hypothesis"].to_list()
    run_causal(model, *(part[:2] for part in pairs))  # the first call allocates
    started = time.process_time()
    ours = run_causal(model, *pairs)
    middle = time.process_time()
    theirs = run_lm_eval(model, *pairs, batch)
    ended = time.process_time()
    seconds = middle - started, ended - middle
    return {
        "pairs": count,
        "views": len(model.views),
        "causal_seconds": round(seconds[0], 2),
        "lm_eval_seconds": round(seconds[1], 2),
        "ratio": round(seconds[1] / seconds[0], 2),
        "same_answer": float((ours.argmax(axis=2) == theirs.argmax(axis=2)).mean()),
    }


def plain_client(port: int, bodies: Sequence[bytes], concurrency: int) -> float:
    """Requests a second of threads that do nothing but send and read, each on one connection."""
    from http.client import HTTPConnection
    from threading import Thread

    remaining = iter(bodies)

    def work() -> None:
        connection = HTTPConnection("127.0.0.1", port)
        for body in remaining:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()

    threads = [Thread(target=work) for _ in range(concurrency)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(bodies) / (time.perf_counter() - started)


def busy(latency: float, concurrency: int, count: int) -> dict[str, Any]:
    """Requests a second of ``chat:`` and of a plain client, at a server that takes ``latency`` seconds for each."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from chat_server import serving
    from evenli.models.chat import _body

    frame = load_suite("coal").frame.head(count)
    with serving("biased", faults=lambda _: time.sleep(latency)) as server:
        options = ModelOptions(prompting=Prompting(prompts=1, concurrency=concurrency))
        model: Any = load_model(f"chat:{server.url}", options=options)
        prepared = model.prepare(frame["premise"].to_list(), frame["hypothesis"].to_list())
        texts = [view.text(*pair) for pair in prepared.items for view in model.views]
        bodies = [json.dumps(_body(model.abilities, text)).encode() for text in texts]
        # One before and one after, because the machine may be busy with something else.
        before = plain_client(server.server_address[1], bodies, concurrency)
        started = time.perf_counter()
        model.logits(prepared.items)
        rate = len(bodies) / (time.perf_counter() - started)
        after = plain_client(server.server_address[1], bodies, concurrency)
    plain = (before + after) / 2
    return {"chat": round(rate, 1), "plain_client": round(plain, 1), "ratio": round(rate / plain, 3)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or GGUF file of a causal model")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--batch", type=int, default=24, help="batch size of lm-eval")
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, default=8)
    given = parser.parse_args(arguments)
    if given.chat:
        print(json.dumps(busy(given.latency, given.concurrency, given.pairs)))
    else:
        print(json.dumps(compare(given.model, given.pairs, given.batch)))


if __name__ == "__main__":
    main()
