"""Language models: ``causal:`` beside lm-evaluation-harness on the same questions; how busy ``chat:`` keeps a server.

    python benchmarks/language_models.py --model MODEL_FOLDER_OR_GGUF --pairs 40 --batch 1,16
    python benchmarks/language_models.py --chat --model FILE.gguf --pairs 16 --concurrency 8      # llama.cpp's server
    python benchmarks/language_models.py --chat --latency 0.1 --pairs 100 --concurrency 8
    python benchmarks/language_models.py --cache --model FILE.gguf --pairs 32 --repeats 3
    python benchmarks/language_models.py --rounding --model MODEL_FOLDER_OR_GGUF --pairs 16

Both libraries run in one process on one loaded network, one after the other, on the processor time of the process, so
that a busy machine changes neither; ratios are what counts. lm-eval needs ``pip install 'evenli[lm-eval]'``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from evenli.audit.models import ModelOptions, Prompting, load_model
from evenli.audit.suites.base import load_suite
from evenli.core.labels import LABELS


def run_causal(model: Any, premises: list[str], hypotheses: list[str]) -> np.ndarray:
    """Log-probabilities as an audit computes them, [pairs, views, 3]."""
    prepared = model.prepare(premises, hypotheses)
    rows = np.empty((len(premises), len(LABELS) + len(model.details)))
    for batch in model.plan(prepared.items):
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
    scored = harness.loglikelihood(requests, disable_tqdm=True)
    return np.array([value for value, _ in scored]).reshape(len(premises), len(model.views), len(LABELS))


class Counter:
    """Counts what goes through a network: tokens, and positions whose next token is computed."""

    def __init__(self, network: Any) -> None:
        self.tokens = self.heads = 0
        network.register_forward_hook(self._after, with_kwargs=True)

    def _after(self, _: Any, arguments: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
        ids = arguments[0] if arguments else named["input_ids"]
        self.tokens += ids.numel()
        self.heads += output.logits.shape[0] * output.logits.shape[1]

    def take(self) -> tuple[int, int]:
        """Counts since the last call."""
        counts = self.tokens, self.heads
        self.tokens = self.heads = 0
        return counts


def whole_premises(count: int) -> tuple[list[str], list[str]]:
    """About so many pairs of NLI-CoAL, spread over the set: premises with all their hypotheses."""
    frame = load_suite("coal").frame
    premises = frame["premise"].unique(maintain_order=True)
    chosen = premises.gather_every(max(1, 2 * len(premises) // count)).head(-(-count // 2))
    frame = frame.filter(frame["premise"].is_in(chosen.implode()))
    return frame["premise"].to_list(), frame["hypothesis"].to_list()


def compare(target: str, count: int, batches: Sequence[int], prompts: int) -> dict[str, Any]:
    """Seconds of processor time for the same questions, what was computed, and how far the answers differ."""
    options = ModelOptions(device="cpu", prompting=Prompting(prompts=prompts))
    model: Any = load_model(f"causal:{target}", options=options)
    pairs = whole_premises(count)
    run_causal(model, *(part[:2] for part in pairs))  # the first call allocates
    counter = Counter(model._model)
    started = time.process_time()
    ours = run_causal(model, *pairs)
    seconds = time.process_time() - started
    questions = len(ours) * len(model.views)
    figures: dict[str, Any] = {"pairs": len(ours), "views": len(model.views), "threads": model._torch.get_num_threads()}
    figures["causal"] = _figures(seconds, counter.take(), questions)
    print(figures, file=sys.stderr)  # the rest takes several times as long
    for batch in batches:
        started = time.process_time()
        theirs = run_lm_eval(model, *pairs, batch)
        spent = time.process_time() - started
        figures[f"lm_eval, batch size {batch}"] = {
            **_figures(spent, counter.take(), questions),
            "ratio": round(spent / seconds, 2),
            "same_answer": round(float((ours.argmax(axis=2) == theirs.argmax(axis=2)).mean()), 4),
        }
        print(figures, file=sys.stderr)
    return figures


def rounding(target: str, count: int) -> dict[str, Any]:
    """Largest differences, in nats and in probability, from questions asked one by one in 32-bit numbers."""
    answers: dict[str, np.ndarray] = {}
    pairs = [part[:count] for part in whole_premises(count)]
    for dtype in ("float32", "bfloat16"):
        options = ModelOptions(device="cpu", dtype=dtype, prompting=Prompting(prompts=1))
        model: Any = load_model(f"causal:{target}", options=options)
        items = model.prepare(*pairs).items
        with model._torch.inference_mode():
            for name, score, size in (
                ("alone", model._plain, 1),
                ("two", model._packed, 2),
                ("all", model._packed, count),
            ):
                parts = [score(0, items[at : at + size]) for at in range(0, len(items), size)]
                answers[f"{dtype}, {name}"] = np.concatenate(parts)
    first = answers["float32, alone"]
    return {
        name: {
            "nats": round(float(np.abs(rows - first).max()), 5),
            "probability": round(float(np.abs(_shares(rows) - _shares(first)).max()), 5),
        }
        for name, rows in answers.items()
    }


def _shares(rows: np.ndarray) -> np.ndarray:
    return np.exp(rows - np.logaddexp.reduce(rows, axis=1, keepdims=True))


def _figures(seconds: float, counts: tuple[int, int], questions: int) -> dict[str, Any]:
    tokens, heads = (round(count / questions, 1) for count in counts)
    return {"seconds": round(seconds, 2), "tokens_per_question": tokens, "heads_per_question": heads}


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


@contextmanager
def fake_server(latency: float) -> Iterator[str]:
    """A server in a process of its own that takes ``latency`` seconds for each answer."""
    code = (
        "import sys, time; from chat_server import serving\n"
        "with serving('biased', faults=lambda _: time.sleep(float(sys.argv[1]))) as one:\n"
        "    print(one.url, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    tests = Path(__file__).parents[1] / "tests"
    words = [sys.executable, "-c", code, str(latency)]
    with subprocess.Popen(words, cwd=tests, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        yield process.stdout.readline().strip()
        process.stdin.close()


@contextmanager
def llama_server(file: str, concurrency: int) -> Iterator[str]:
    """llama.cpp's own server on one thread (``pip install xllamacpp``)."""
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = file
    settings.n_ctx, settings.n_parallel = 1024 * concurrency, concurrency
    settings.hostnames, settings.port = ["127.0.0.1"], 0
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    yield str(server.listening_address)
    del server


def busy(url: str, concurrency: int, count: int, repeats: int) -> dict[str, Any]:
    """Requests a second of ``chat:`` and of a plain client, in turns, because the machine may be busy otherwise."""
    from evenli.llm.abilities import body

    options = ModelOptions(prompting=Prompting(prompts=1, concurrency=concurrency))
    model: Any = load_model(f"chat:{url}", options=options)
    prepared = model.prepare(*(part[:count] for part in whole_premises(count)))
    texts = [view.text(*pair) for pair in prepared.items for view in model.views]
    bodies = [json.dumps(body(model.abilities, text)).encode() for text in texts]
    port = urlsplit(url).port or 80
    plain, ours = [], []
    plain_client(port, bodies[:concurrency], concurrency)  # the first requests find a cold server
    for _ in range(repeats):
        plain.append(plain_client(port, bodies, concurrency))
        started = time.perf_counter()
        model.logits(prepared.items)
        ours.append(len(bodies) / (time.perf_counter() - started))
    ratios = [one / two for one, two in zip(ours, plain, strict=True)]
    return {
        "server": model.abilities.engine,
        "requests": len(bodies),
        "concurrency": concurrency,
        "chat": [round(rate, 2) for rate in ours],
        "plain_client": [round(rate, 2) for rate in plain],
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(min(ratios), 3), round(max(ratios), 3)],
        "ratio_of_means": round(statistics.fmean(ours) / statistics.fmean(plain), 3),
    }


def cache(url: str, concurrency: int, count: int, repeats: int) -> dict[str, Any]:
    """Pairs a second, also of processor time, with llama.cpp's prompt cache and without, in turns."""
    options = ModelOptions(prompting=Prompting(concurrency=concurrency))
    used: Any = load_model(f"chat:{url}", options=options)
    plain = copy(used)
    plain.abilities = replace(used.abilities, cached=False)
    items = used.prepare(*(part[:count] for part in whole_premises(count))).items
    paces: dict[str, list[tuple[float, float]]] = {"cache": [], "none": []}
    answers = {}
    for _ in range(repeats):
        for name, model, share in (("cache", used, 1), ("none", plain, 4)):
            asked = items[: -(-len(items) // share)]  # the slow way is asked fewer pairs
            started, worked = time.perf_counter(), time.process_time()
            answers[name] = model.logits(asked)
            spent = time.perf_counter() - started, time.process_time() - worked
            paces[name].append((len(asked) / spent[0], len(asked) / spent[1]))
    both = len(answers["none"])
    moved = _shares(answers["cache"][:both, :3]) - _shares(answers["none"][:, :3])
    first, second = (np.median(paces[name], axis=0) for name in ("cache", "none"))
    return {
        **used.abilities.card(),
        "pairs_per_second": [round(float(pace[0]), 3) for pace in (first, second)],
        "ratio": round(float(first[0] / second[0]), 2),
        "ratio_of_processor_time": round(float(first[1] / second[1]), 2),
        "answers_move": round(float(np.sqrt(np.mean(moved**2))), 4),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder or GGUF file of a causal model")
    parser.add_argument("--pairs", type=int, default=24)
    parser.add_argument("--batch", default="1,16", help="batch sizes of lm-eval; its own default is 1")
    parser.add_argument("--prompts", type=int, default=1)
    parser.add_argument("--chat", action="store_true")
    parser.add_argument("--cache", action="store_true", help="llama.cpp's prompt cache beside none")
    parser.add_argument("--rounding", action="store_true", help="how far bfloat16 and batches move the answers")
    parser.add_argument("--latency", type=float, default=0.05)
    parser.add_argument("--concurrency", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5, help="of each client, in turns")
    given = parser.parse_args(arguments)
    if given.chat:
        with llama_server(given.model, given.concurrency) if given.model else fake_server(given.latency) as url:
            print(json.dumps(busy(url, given.concurrency, given.pairs, given.repeats), indent=1))
    elif given.cache:
        with llama_server(given.model, given.concurrency) as url:
            print(json.dumps(cache(url, given.concurrency, given.pairs, given.repeats), indent=1))
    elif given.rounding:
        print(json.dumps(rounding(given.model, given.pairs), indent=1))
    else:
        sizes = [int(size) for size in given.batch.split(",")]
        print(json.dumps(compare(given.model, given.pairs, sizes, given.prompts), indent=1))


if __name__ == "__main__":
    main()
