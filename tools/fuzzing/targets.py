"""What is fuzzed: a command, the valid inputs it needs, and the files or words of it that are damaged."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator
from typing import Any

from fuzzing import mutate
from fuzzing.more_targets import more_targets
from fuzzing.target import CPU, SEAT, Target, Words


def targets() -> list[Target]:
    """All of them."""
    groups = (_pair_files, _runs, _words, _corpora, _encoders, _models, _training, _expressions, _options, more_targets)
    return [target for group in groups for target in group()]


def _pair_files() -> Iterator[Target]:
    for ending in ("jsonl", "csv", "tsv", "parquet", "jsonl.gz", "jsonl.xz", "jsonl.bz2", "csv.zst"):
        file = f"pairs.{ending}"
        yield Target(f"audit-{ending}", ("audit", "fake:even", "--data", file, "-o", "out"), ("pairs",), (file,))
        yield Target(f"predict-{ending}", ("predict", "fake:even", "--data", file, "-o", "out"), ("pairs",), (file,))
        yield Target(f"check-{ending}", ("data", "--check", file), ("pairs",), (file,))
        file = f"probe.{ending}"
        suite = ("audit", "fake:even", "--suite", "probe", "--data", file, "-o", "out")
        yield Target(f"audit-probe-{ending}", suite, ("probe",), (file,), weight=0.5)
    yield Target(
        "audit-dev2020",
        ("audit", "fake:even", "--suite", "dev2020", "--data", "dev.csv", "-o", "out"),
        ("runs",),
        ("dev.csv",),
    )
    for name in ("release.tar.xz", "release.tar.gz", "release"):
        files = ("release/all-words/*",) if name == "release" else (name,)
        yield Target(f"check-{name}", ("data", "--check", name, "--json"), ("release",), files)
        yield Target(f"audit-{name}", ("audit", "fake:even", "--data", name, "-o", "out"), ("release",), files)


def _runs() -> Iterator[Target]:
    for part in ("run.json", "results.json", "predictions.parquet"):
        files = (f"run/{part}",)
        commands: dict[str, Words] = {
            "measure": ("measure", "run", "--json"),
            "measure-shown": ("measure", "run"),
            "verify": ("verify", "run", "--json"),
            "gate": ("gate", "run", "--fail-if", "coal.low > 0.05", "--json"),
            "gate-shown": ("gate", "run", "--fail-if", "coal.low > 0.05"),
            "gate-baseline": ("gate", "other", "--baseline", "run", "--json"),
            "card": ("card", "run"),
            "compare": ("compare", "run", "other", "--json"),
            "compare-shown": ("compare", "other", "run"),
            "table": ("table", "run"),
            "table-occupations": ("table", "run", "--what", "occupations"),
        }
        for name, words in commands.items():
            yield Target(f"{name}-{part}", words, ("runs",), files, evidence=True, weight=1.5)
        table = ("compare", "run", "other", "-o", "table.tex")
        yield Target(f"compare-table-{part}", table, ("runs",), files, evidence=True, output="table.tex", weight=0.5)
        report = ("report", "run", "other", "-o", "report.html")
        yield Target(f"report-{part}", report, ("runs",), files, evidence=True, output="report.html", weight=0.2)
        again = ("audit", "fake:oracle:0.3", "--data", "pairs.jsonl", "-o", "run", "--json")
        yield Target(f"audit-again-{part}", again, ("runs", "pairs"), files, evidence=True)
        dev = ("measure", "dev", "--json")
        yield Target(f"measure-dev-{part}", dev, ("runs",), (f"dev/{part}",), evidence=True, weight=0.5)
        if part != "results.json":
            predicted = ("measure", "run")
            yield Target(f"measure-predicted-{part}", predicted, ("predicted",), files, weight=0.3, refused=True)
    resume = ("audit", "fake:biased", "--data", "pairs.jsonl", "-o", "run", "--token-budget", "200", "--json")
    for part in ("run.json", "shards/*"):
        yield Target(f"resume-{part}", resume, ("unfinished",), (f"run/{part}",), evidence=True, weight=2)
        gate = ("gate", "run", "--fail-if", "coal > 1")
        yield Target(f"gate-unfinished-{part}", gate, ("unfinished",), (f"run/{part}",), refused=True)


def _words() -> Iterator[Target]:
    files = ("axis.toml", "axis.toml", "words.csv", "templates.txt", "gold.csv", "revealing.csv", "out.txt")
    for file in dict.fromkeys(files):
        weight = 3 if file == "axis.toml" else 1
        audit = ("audit", "fake:even", "--axis", "axis.toml", "-o", "out")
        yield Target(f"audit-{file}", audit, ("axis",), (file,), weight=weight)
        build = ("build", "coal", "--axis", "axis.toml", "-o", "out.jsonl", "--width", "2")
        yield Target(f"build-{file}", build, ("axis",), (file,), weight=weight)
    robust = ("robustness", "fake:neutral", "--data", "wordings.csv", "-o", "out", "--json")
    yield Target("robustness-wordings", robust, ("wordings",), ("wordings.csv",), weight=0.3)
    yield Target("data-axis", ("data", "--axis", "axis.toml", "--json"), ("axis",), ("axis.toml",))
    controlled = ("build", "controlled", "--axis", "axis.toml", "-o", "out", "--width", "2", "--rates", "0,0.5,1")
    yield Target("controlled-axis", controlled, ("axis",), ("axis.toml",))
    own = (
        "build",
        "coal",
        "--templates",
        "templates.txt",
        "--occupations",
        "occupations.csv",
        "-o",
        "o.csv",
        "--width",
        "2",
    )
    yield Target("build-own", own, ("axis",), ("templates.txt", "occupations.csv"), weight=2)
    yield Target(
        "check-axis", ("data", "--check", "pairs.jsonl", "--axis", "axis.toml"), ("axis", "pairs"), ("axis.toml",)
    )


def _corpora() -> Iterator[Target]:
    for file in ("corpus.txt", "corpus.jsonl", "corpus.csv", "corpus.jsonl.xz", "corpus.txt.gz"):
        score = ("score", file, "--vectors", "vectors.txt", "-o", "out")
        yield Target(f"score-{file}", score, ("corpus", "vectors"), (file,))
        kind = ".txt" if ".txt" in file else ".jsonl"
        swap = ("mitigate", "swap", "--corpus", file, "-o", f"out{kind}")
        yield Target(f"swap-{file}", swap, ("corpus",), (file,))
    idf = ("score", "corpus.txt", "--vectors", "vectors.txt", "-o", "out", "--weights", "idf", "--counts", "corpus.csv")
    yield Target("score-counts", idf, ("corpus", "vectors"), ("corpus.csv",))
    own = (
        "score",
        "corpus.csv",
        "--vectors",
        "vectors.txt",
        "-o",
        "out",
        "--gender-words",
        "corpus.txt",
        "--lang",
        "en",
    )
    yield Target("score-gender-words", own, ("corpus", "vectors"), ("corpus.txt",))
    for part in ("scores.json", "shards/*"):
        files = (f"scored/{part}",)
        yield Target(f"summary-{part}", ("score", "scored", "--json"), ("scored",), files, evidence=True)
        split = ("--split", "2,2")
        subtract = ("mitigate", "subtract", "scored", "-o", "out", *split, "--json")
        yield Target(f"subtract-{part}", subtract, ("scored",), files, evidence=True)
        yield Target(f"augment-{part}", ("mitigate", "augment", "scored", "-o", "out", *split), ("scored",), files)
        again = ("score", "corpus.jsonl", "--vectors", "vectors.txt", "-o", "scored", "--json")
        yield Target(f"score-again-{part}", again, ("scored", "corpus", "vectors"), files, evidence=True)
    captions = ("build", "controlled", "--captions", "captions.txt", "-o", "out", "--width", "2", "--rates", "0,0.5,1")
    yield Target("controlled-captions", captions, ("captions",), ("captions.txt",), weight=0.3)


def _encoders() -> Iterator[Target]:
    for ending in ("txt", "vec", "bin", "npz", "txt.gz"):
        file = f"vectors.{ending}"
        yield Target(f"direction-{ending}", ("direction", "--vectors", file), ("vectors",), (file,))
        yield Target(f"seat-{ending}", ("seat", f"vectors:{file}", *SEAT), ("vectors", "seat-test"), (file,))
        hard = ("mitigate", "hard-debias", file, "-o", "out")
        yield Target(f"hard-debias-{ending}", hard, ("vectors",), (file,), weight=0.5)
        sentence = ("score", "A woman waits.", "--vectors", file)
        yield Target(f"score-sentence-{ending}", sentence, ("vectors",), (file,), weight=0.5)
    pairs = ("direction", "--vectors", "vectors.npz", "--pairs", "wordpairs.csv")
    yield Target("direction-pairs", pairs, ("vectors",), ("wordpairs.csv",))
    yield Target(
        "seat-test", ("seat", "vectors:vectors.npz", *SEAT, "--json"), ("vectors", "seat-test"), ("own.json",), weight=2
    )
    senteval = ("senteval", "vectors:vectors.npz", "--data", "data", "--tasks", "STS14", "--json")
    yield Target("senteval-data", senteval, ("senteval", "vectors"), ("data/STS14.tsv",))
    tasks = ("senteval", "vectors:vectors.npz", "--data", "data", "--tasks", "MR", "--kfold", "2", *CPU)
    yield Target("senteval-tasks", tasks, ("senteval", "vectors"), ("data/MR.*",), weight=0.3, torch=True)
    kept = ("senteval", "vectors:vectors.txt", "--data", "data", "--tasks", "STS14", "-o", "result.json")
    yield Target("senteval-kept", kept, ("senteval", "vectors"), ("result.json",))
    for kind, part in (
        ("hard", "vectors.npz"),
        ("hard", "mitigated.json"),
        ("leace", "*"),
        ("leace", "mitigated.json"),
    ):
        seat = ("seat", f"mitigated:{kind}", *SEAT)
        yield Target(f"seat-{kind}-{part}", seat, ("mitigated", "seat-test"), (f"{kind}/{part}",), evidence=True)
    fit = ("mitigate", "sent-debias", "vectors:many.txt", "-o", "out", "--fit", "gendered.txt")
    yield Target("fit-corpus", fit, ("mitigated", "captions"), ("gendered.txt",), weight=0.1)
    report = ("encoder-report", "vectors:many.txt", "-o", "out", "--permutations", "100", "--json")
    yield Target("encoder-report", report, ("mitigated",), ("many.txt",), weight=0.1, torch=True)


def _models() -> Iterator[Target]:
    for part in ("config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"):
        files = (f"model/{part}",)
        ask = ("predict", "model", "--data", "few.jsonl", "-o", "out", *CPU)
        yield Target(f"predict-hf-{part}", ask, ("checkpoint", "pairs"), files, torch=True, weight=0.7)
        seat = ("seat", "hf:model", *SEAT, *CPU)
        yield Target(f"seat-hf-{part}", seat, ("checkpoint", "seat-test"), files, torch=True, weight=0.4)
    ask = ("predict", "onnx:onnx", "--data", "few.jsonl", "-o", "out")
    yield Target("predict-onnx", ask, ("onnx", "pairs"), ("onnx/*",), torch=True)
    yield Target(
        "audit-onnx",
        ("audit", "onnx:onnx", "--data", "pairs.jsonl", "-o", "out"),
        ("onnx", "pairs"),
        ("onnx/*",),
        torch=True,
        weight=0.3,
    )
    seat = ("seat", "infersent:trained", *SEAT, *CPU)
    yield Target("seat-infersent", seat, ("infersent", "seat-test"), ("trained/*",), torch=True)
    sentence = ("score", "A woman waits.", "--vectors", "vectors.txt", "--encoder", "infersent:trained", *CPU)
    yield Target("score-infersent", sentence, ("infersent", "vectors"), ("trained/*",), torch=True, weight=0.5)
    export = ("onnx", "model", "-o", "out", "--check", "few.jsonl")
    yield Target("export-check", export, ("checkpoint", "pairs"), ("few.jsonl",), torch=True, weight=0.1)
    yield Target(
        "export-model",
        export,
        ("checkpoint", "pairs"),
        ("model/config.json", "model/tokenizer.json"),
        torch=True,
        weight=0.1,
    )


def _training() -> Iterator[Target]:
    options = ("--epochs", "1", "--batch-size", "4", "--no-graph", *CPU)
    nli = ("train", "nli", "model", "--data", "train.jsonl", "-o", "trained", *options)
    yield Target("train-nli-again", nli, ("trained", "checkpoint"), ("trained/training.json",), torch=True, weight=0.7)
    new = (*nli[:-9], "-o", "new", *options)
    yield Target("train-nli-data", new, ("trained", "checkpoint"), ("train.jsonl",), torch=True, weight=0.5)
    yield Target("train-nli-base", new, ("trained", "checkpoint"), ("model/*",), torch=True, weight=0.3)
    encoder = ("train", "encoder", "--data", "train.jsonl", "--dev", "dev.jsonl", "--vectors", "vectors.txt")
    encoder += ("--hidden", "4", "--epochs", "1", *CPU)
    again = (*encoder, "-o", "trained")
    yield Target(
        "train-encoder-again", again, ("infersent", "vectors"), ("trained/training.json",), torch=True, weight=0.7
    )
    files = ("train.jsonl", "dev.jsonl", "vectors.txt")
    yield Target("train-encoder-data", (*encoder, "-o", "new"), ("infersent", "vectors"), files, torch=True, weight=0.5)
    for part in ("meta.json", "models.jsonl", "training.json", "evaluation.jsonl", "logits/*", "labels/*"):
        words = ("meta", "-o", "sweep", "--json")
        yield Target(f"meta-{part}", words, ("meta",), (f"sweep/{part}",), weight=0.15)


def _expressions() -> Iterator[Target]:
    gate = ("gate", "run", "--fail-if", "EXPRESSION")
    yield Target("gate-expression", gate, ("runs",), change=_expression, weight=6)
    yield Target(
        "gate-two-runs",
        ("gate", "run", "--baseline", "other", "--max-worse", "EXPRESSION"),
        ("runs",),
        change=_expression,
    )
    yield Target("card-part", ("card", "run", "--part", "EXPRESSION"), ("runs",), change=_text)
    yield Target("table-what", ("table", "run", "--what", "EXPRESSION"), ("runs",), change=_text)
    yield Target("score-text", ("score", "EXPRESSION", "--vectors", "vectors.npz"), ("vectors",), change=_text)
    yield Target("model-spec", ("audit", "EXPRESSION", "--data", "pairs.jsonl", "-o", "out"), ("pairs",), change=_spec)
    yield Target("encoder-spec", ("seat", "EXPRESSION", *SEAT), ("vectors", "seat-test"), change=_spec)
    yield Target(
        "data-spec",
        ("audit", "fake:even", "--data", "EXPRESSION", "-o", "out"),
        ("pairs", "release"),
        change=_spec,
    )


_NAMES = ("coal", "coal.low", "coal.value", "coal.high", "probe_b", "verdict", "follow", "coal.coal_pro", "gold", "x")
_TOKENS = (
    "<",
    ">",
    ">=",
    "==",
    "!=",
    "and",
    "or",
    "not",
    "(",
    ")",
    "-",
    "+",
    "*",
    "/",
    "0.3",
    "1e999",
    "nan",
    "'bias'",
)
_TOKENS += (
    "'",
    '"',
    "**",
    "[0]",
    ".",
    "__class__",
    "lambda",
    "9" * 400,
    "is None",
    "is",
    "None",
    "True",
    ",",
    "%",
    "=",
)


def _expression(rng: random.Random, words: Words) -> Words:
    """A gate expression, good or not."""
    if rng.random() < 0.1:
        return _text(rng, words)
    parts = [rng.choice((*_NAMES, *_TOKENS)) for _ in range(rng.randrange(1, 8))]
    if rng.random() < 0.5:
        parts = [rng.choice(_NAMES), rng.choice(("<", ">", ">=", "<=", "==")), rng.choice(("0.3", "-1", "0", "nan"))]
        if rng.random() < 0.5:
            parts += [rng.choice(("and", "or")), *parts]
    text = " ".join(parts)
    if rng.random() < 0.03:
        text = "(" * 2_000 + text + ")" * 2_000
    return tuple(text if word == "EXPRESSION" else word for word in words)


def _text(rng: random.Random, words: Words) -> Words:
    # A command line holds no NUL, and a lone surrogate stands for a byte that is no UTF-8.
    texts = [text.replace("\x00", "") for text in mutate.TEXTS if text != mutate.SURROGATE]
    text = rng.choice((*texts, "\udcff", "all", "yaml"))
    if rng.random() < 0.3:
        text += rng.choice(texts)
    return tuple(text if word == "EXPRESSION" else word for word in words)


def _spec(rng: random.Random, words: Words) -> Words:
    starts = (
        "fake:",
        "hf:",
        "onnx:",
        "py:",
        "st:",
        "vectors:",
        "mitigated:",
        "infersent:",
        "evenli:",
        "coal=",
        "",
        "no:",
    )
    ends = (
        "even",
        "oracle:",
        "oracle:2",
        "oracle:nan",
        "vectors.npz",
        "pairs.jsonl",
        ".",
        "..",
        "/",
        "someone/model@x",
        "x,y",
    )
    text = rng.choice(starts) + rng.choice(
        (*ends, *(t for t in mutate.TEXTS if "\x00" not in t and t != mutate.SURROGATE))
    )
    return tuple(text if word == "EXPRESSION" else word for word in words)


VALID: dict[str, tuple[Words, Words]] = {
    "audit": (("fake:even", "--data", "pairs.jsonl", "-o", "out"), ("pairs", "axis")),
    "batch write": (("tiny", "--limit", "12", "-o", "out.jsonl"), ()),
    "batch read": (("responses.jsonl", "--suite", "labour", "--limit", "12", "-o", "out"), ("batch",)),
    "predict": (("fake:even", "--data", "few.jsonl", "-o", "out"), ("pairs",)),
    "measure": (("run",), ("runs",)),
    "verify": (("run",), ("runs",)),
    "report": (("run", "-o", "report.html"), ("runs",)),
    "view": ((".", "--export", "pages"), ("runs",)),
    "compare": (("run", "other"), ("runs",)),
    "robustness": (("fake:even", "-o", "out"), ("wordings",)),
    "gate": (("run", "--fail-if", "coal.low > 0.9"), ("runs",)),
    "export": (("run", "--as", "cyclonedx"), ("runs",)),
    "evidence": (("run", "-o", "out"), ("runs",)),
    "card": (("run",), ("runs",)),
    "table": (("run",), ("runs",)),
    "onnx": (("model", "-o", "out.onnx", "--check", "few.jsonl"), ("checkpoint", "pairs")),
    "models": ((), ()),
    "data": (("--check", "pairs.jsonl"), ("pairs", "axis")),
    "doctor": ((), ()),
    "meta": (("-o", "sweep"), ("meta",)),
    "score": (("corpus.jsonl", "--vectors", "vectors.npz", "-o", "out"), ("corpus", "vectors")),
    "direction": (("--vectors", "vectors.npz"), ("vectors",)),
    "seat": (("vectors:vectors.npz", *SEAT), ("vectors", "seat-test")),
    "senteval": (("vectors:vectors.npz", "--data", "data", "--tasks", "STS14"), ("vectors", "senteval")),
    "encoder-report": (("vectors:many.txt", "--permutations", "100"), ("mitigated",)),
    "axis new": (("mine",), ()),
    "axis check": (("axis.toml",), ("axis",)),
    "build coal": (("-o", "out.jsonl", "--axis", "axis.toml", "--width", "2"), ("axis",)),
    "build probe": (("-o", "out.jsonl", "--per-occupation", "1"), ("corpus",)),
    "build dev2020": (("-o", "out.csv", "--words", "man"), ()),
    "build controlled": (("-o", "out", "--width", "2", "--rates", "0,0.5,1"), ("corpus",)),
    "mitigate swap": (("--corpus", "corpus.jsonl", "-o", "out.jsonl"), ("corpus",)),
    "mitigate subtract": (("scored", "-o", "out", "--split", "2,2"), ("scored",)),
    "mitigate augment": (("scored", "-o", "out", "--split", "2,2"), ("scored",)),
    "mitigate hard-debias": (("vectors.npz", "-o", "out"), ("vectors",)),
    "mitigate inlp": (("vectors:many.txt", "-o", "out", "--iterations", "1"), ("mitigated", "corpus")),
    "mitigate leace": (("vectors:many.txt", "-o", "out"), ("mitigated",)),
    "mitigate sent-debias": (("vectors:many.txt", "-o", "out"), ("mitigated",)),
    "train nli": (
        ("model", "--data", "train.jsonl", "-o", "out", "--epochs", "1", "--batch-size", "4", *CPU),
        ("checkpoint", "trained"),
    ),
    "train encoder": (
        (
            *("--data", "train.jsonl", "--dev", "dev.jsonl", "--vectors", "vectors.txt", "-o", "out", "--hidden", "4"),
            *("--epochs", "1", *CPU),
        ),
        ("infersent", "vectors"),
    ),
}
"""A call of every command that works, and the seeds it needs."""

_TORCH = {"onnx", "train nli", "train encoder", "encoder-report"}
_SLOW = {
    "view",
    "robustness",
    "report",
    "evidence",
    "meta",
    "onnx",
    "encoder-report",
    "build dev2020",
    "build controlled",
    "mitigate inlp",
    "mitigate leace",
}
_KEEP = {
    "out",
    "junit",
    "chart",
    "charts",
    "cache",
    "engine",
    "address",
    "online",
    "help",
    "debug",
    "measure",
    "measures",
    "seeds",
}
"""Options that write, reach elsewhere or import what they name; the fuzzer leaves them alone."""


@functools.cache
def commands() -> dict[str, Any]:
    """Every command of the command line by name, as the command line itself lists them."""
    import click
    from typer.main import get_command

    from evenli.cli import app

    commands: dict[str, Any] = {}

    def walk(command: Any, path: Words) -> None:
        if hasattr(command, "list_commands"):
            context = click.Context(command)
            for name in command.list_commands(context):
                walk(command.get_command(context, name), (*path, name))
        else:
            commands[" ".join(path)] = command

    walk(get_command(app), ())
    return commands


def _options() -> Iterator[Target]:
    for name in commands():
        words, seeds = VALID[name]
        weight = 0.05 if name in _SLOW else 0.8
        yield Target(
            f"options-{name.replace(' ', '-')}",
            (*name.split(), *words),
            seeds,
            change=_option,
            weight=weight,
            torch=name in _TORCH,
        )


def _option(rng: random.Random, words: Words) -> Words:
    """One to three options of the command with values that hardly fit."""
    known = commands()
    name = next(one for one in (" ".join(words[:2]), words[0]) if one in known)
    chosen = [p for p in known[name].params if p.name not in _KEEP and p.param_type_name == "option"]
    more: list[str] = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        if not chosen:
            break
        parameter = rng.choice(chosen)
        more.append(parameter.opts[0])
        if not getattr(parameter, "is_flag", False):
            more.append(_value(rng, parameter.name))
    if rng.random() < 0.1:
        more.append(rng.choice(("extra", "--unknown", "--", "-x")))
    if rng.random() < 0.1 and len(words) > 2:
        words = words[:-1]
    return (*words, *more)


def _value(rng: random.Random, name: str) -> str:
    if name in {"seed", "top", "among", "max_worse", "lr", "warmup", "percentile"} and rng.random() < 0.6:
        return str(rng.choice(mutate.NUMBERS))
    small = (
        "-1",
        "0",
        "1",
        "2",
        "3",
        "8",
        "100",
        "0.5",
        "en",
        "ja",
        "zh",
        "gender",
        "axis.toml",
        "pairs.jsonl",
        "run",
        ".",
    )
    if rng.random() < 0.6:
        return rng.choice(
            (*small, "down", "none", "auto", "cpu", "float16", "a,b,c", "neutral,entailment,contradiction", "0:1:0.5")
        )
    texts = [
        text.replace("\x00", "") for text in mutate.TEXTS if text != mutate.SURROGATE and not text.startswith("py:")
    ]
    return rng.choice(texts)
