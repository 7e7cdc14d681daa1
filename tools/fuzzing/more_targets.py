"""More of what is fuzzed: other suites, policies, pages, caches, encoders, language models."""

from __future__ import annotations

from collections.abc import Iterator

from fuzzing.target import CPU, SEAT, Target, Words

_PARTS = ("run.json", "results.json", "predictions.parquet")


def more_targets() -> Iterator[Target]:
    """All of them."""
    for group in (_suites, _decisions, _pages, _packs, _batches, _caches, _encoders, _weights):
        yield from group()


def _suites() -> Iterator[Target]:
    for suite in ("probe", "swap", "groups", "robust"):
        # Pages and comparisons of wordings take seconds.
        weight, seeds = (0.2, ("robust",)) if suite == "robust" else (0.7, ("suites",))
        for part in _PARTS:
            commands: dict[str, Words] = {
                "measure": ("measure", suite, "--json"),
                "shown": ("measure", suite),
                "verify": ("verify", suite, "--json"),
                "compare": ("compare", suite, f"{suite}2", "--json"),
                "table": ("table", suite),
            }
            for name, words in commands.items():
                yield Target(f"{suite}-{name}-{part}", words, seeds, (f"{suite}/{part}",), evidence=True, weight=weight)
            report = ("report", suite, "-o", "report.html")
            yield Target(
                f"{suite}-report-{part}",
                report,
                seeds,
                (f"{suite}/{part}",),
                evidence=True,
                output="report.html",
                weight=weight / 4,
            )
    for part in _PARTS:
        stored = ("robustness", "robust", "--json")
        yield Target(f"robustness-{part}", stored, ("robust",), (f"robust/{part}",), evidence=True, weight=0.2)
    swap = ("audit", "fake:even", "--suite", "swap", "--data", "corpus.jsonl", "-o", "out")
    yield Target("audit-swap", swap, ("suites",), ("corpus.jsonl",))


def _decisions() -> Iterator[Target]:
    gate = ("gate", "run", "--policy", "policy.toml")
    yield Target("gate-policy", gate, ("runs", "suites"), ("policy.toml",), weight=2)
    yield Target(
        "axis-check", ("axis", "check", "axis.toml"), ("axis",), ("axis.toml", "words.csv", "gold.csv"), weight=2
    )
    occupations = ("audit", "fake:even", "--occupations", "occupations.csv", "-o", "out")
    yield Target("audit-occupations", occupations, ("axis",), ("occupations.csv",))
    jobs = (
        "build",
        "probe",
        "--corpus",
        "jobs.txt",
        "--occupations",
        "jobs.csv",
        "-o",
        "o.csv",
        "--per-occupation",
        "1",
    )
    yield Target("build-probe-jobs", jobs, ("probe",), ("jobs.csv", "jobs.txt"))


def _pages() -> Iterator[Target]:
    for part in _PARTS:
        files = (f"run/{part}", f"other/{part}")
        view = ("view", ".", "--export", "pages", "--json")
        yield Target(f"view-{part}", view, ("runs",), files, weight=0.1)


def _packs() -> Iterator[Target]:
    for part in ("manifest.json", "README.md", "runs/run/gate.json", "runs/run/run.json"):
        verify = ("verify", "pack", "--json")
        yield Target(f"verify-pack-{part}", verify, ("packs",), (f"pack/{part}",), evidence=True, weight=0.5)
    yield Target("verify-zip", ("verify", "pack.zip", "--json"), ("packs",), ("pack.zip",), evidence=True)


def _batches() -> Iterator[Target]:
    read = ("batch", "read", "responses.jsonl", "--suite", "labour", "--limit", "12", "-o", "out", "--json")
    yield Target("batch-read", read, ("batch",), ("responses.jsonl",), weight=0.7)


def _caches() -> Iterator[Target]:
    direction = ("direction", "--vectors", "vectors.txt", "--json")
    kept = (".evenli-vectors/*/about.json", ".evenli-vectors/*/matrix.npy", ".evenli-vectors/*/words.txt")
    yield Target("vectors-cache", direction, ("caches",), kept, evidence=True, weight=2)
    senteval = ("senteval", "vectors:vectors.txt", "--data", "data", "--tasks", "STS14", "--cache", "kept", "--json")
    yield Target("senteval-cache", senteval, ("caches",), ("kept/*/*.npy",), evidence=True, weight=2)


def _encoders() -> Iterator[Target]:
    for part in (
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ):
        for kind in ("st", "hf"):
            seat = ("seat", f"{kind}:st", *SEAT, *CPU)
            weight = 0.3 if kind == "st" else 0.6
            yield Target(
                f"seat-{kind}-folder-{part}",
                seat,
                ("encoder-folder", "seat-test"),
                (f"st/{part}",),
                torch=True,
                weight=weight,
            )
    score = ("score", "A woman waits.", "--encoder", "hf:model", *CPU)
    yield Target("score-hf", score, ("checkpoint",), ("model/*",), torch=True, weight=0.5)


def _weights() -> Iterator[Target]:
    ask = ("predict", "model", "--data", "few.jsonl", "-o", "out", *CPU)
    files = ("model/model.safetensors.index.json", "model/model-*.safetensors")
    yield Target("predict-sharded", ask, ("sharded", "pairs"), files, torch=True)
    ask = ("predict", "onnx:onnx", "--data", "few.jsonl", "-o", "out")
    yield Target(
        "predict-onnx-external", ask, ("external", "pairs"), ("onnx/weights.data", "onnx/model.onnx"), torch=True
    )
    ask = ("predict", "causal:lm", "--data", "few.jsonl", "-o", "out", "--prompts", "1", *CPU)
    yield Target("predict-causal", ask, ("causal",), ("lm/*",), torch=True)
    yield Target("predict-causal-data", ask, ("causal",), ("few.jsonl",), torch=True, weight=0.5)
