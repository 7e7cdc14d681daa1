"""The cases of the golden files: what is run on the command line, and what of its output is kept.

A case is a function of a ``Bench`` that returns plain JSON values. ``tests/test_goldens.py`` compares them with
``tests/goldens/NAME.json``; ``tools/make_goldens.py`` writes those files. Everything goes through the command line,
so that modules and classes can move. Models, encoders and word vectors are hashes of their text: the same on every
machine, without a random generator, and far from the round numbers that the fakes give.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import re
import shutil
from collections.abc import Callable
from functools import cache, cached_property
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

Case = Callable[["Bench"], Any]
CASES: dict[str, Case] = {}
NEEDS_DATA = {"reproduce-with-data"}
"""Cases that read the public data."""
FAKES = ("oracle:0.3", "oracle:0", "biased", "even", "wrong", "random", "neutral")
LABELS = ("entailment", "neutral", "contradiction")


def case(function: Case) -> Case:
    """Register a case under the name of its function."""
    CASES[function.__name__.replace("_", "-")] = function
    return function


# --- deterministic models, encoders and word vectors ------------------------------------------------------------


def uniform(text: str, count: int) -> np.ndarray:
    """Numbers in -0.5..0.5 that depend on the text alone."""
    digest = hashlib.shake_256(text.encode()).digest(2 * count)
    return np.frombuffer(digest, dtype="<u2") / 65536 - 0.5


@cache
def _fake(lang: str, rate: float) -> Callable[[list[str], list[str]], list[str]]:
    from evenli.audit.models.callables import FakeModel

    return FakeModel("oracle", lang, rate)


def _hashed(salt: str, lang: str, rate: float, premises: list[str], hypotheses: list[str]) -> np.ndarray:
    # An oracle under noise: competent enough for a verdict, and wrong often enough for wide intervals.
    answers = _fake(lang, rate)(premises, hypotheses)
    rows = [3.0 * uniform(f"{salt}|{p}|{h}", 3) for p, h in zip(premises, hypotheses, strict=True)]
    return np.array(rows) + 1.8 * np.array([[label == answer for label in LABELS] for answer in answers])


def hashed_en(premises: list[str], hypotheses: list[str]) -> np.ndarray:
    return _hashed("a", "en", 0.7, premises, hypotheses)


def hashed_other(premises: list[str], hypotheses: list[str]) -> np.ndarray:
    return _hashed("b", "en", 0.4, premises, hypotheses)


def hashed_ja(premises: list[str], hypotheses: list[str]) -> np.ndarray:
    return _hashed("a", "ja", 0.7, premises, hypotheses)


def hashed_zh(premises: list[str], hypotheses: list[str]) -> np.ndarray:
    return _hashed("a", "zh", 0.7, premises, hypotheses)


PAIRS = (
    "woman man",
    "girl boy",
    "she he",
    "mother father",
    "daughter son",
    "gal guy",
    "female male",
    "her his",
    "herself himself",
    "mary john",
    "sister brother",
    "aunt uncle",
    "queen king",
    "wife husband",
    "women men",
    "girls boys",
)
LEAN = {word: sign for pair in PAIRS for word, sign in zip(pair.split(), (1.0, -1.0), strict=True)}
# Half of what tells the gender of first names, so that probes find some of it and not all.
ENDINGS = {"ess": 0.9, "a": 0.7, "ie": 0.6, "ne": 0.5, "o": -0.7, "n": -0.4, "d": -0.4, "k": -0.6}
LEAN |= {"dress": 0.5, "pink": 0.3, "nurse": 0.4, "football": -0.5, "engineer": -0.4, "beard": -0.6}
DIMENSION = 16


def word_vector(word: str) -> np.ndarray:
    """A hashed vector with a gender component on its first axis."""
    vector = uniform(word, DIMENSION).copy()
    ending = next((lean for end, lean in ENDINGS.items() if word.endswith(end)), 0.0)
    vector[0] = 0.3 * vector[0] + LEAN.get(word, ending)
    return vector


def hashed_encoder(sentences: list[str]) -> np.ndarray:
    """Mean of the word vectors, with a little of the sentence as a whole."""
    rows = []
    for text in sentences:
        words = ["".join(filter(str.isalnum, word)) for word in text.lower().split()]
        rows.append(np.mean([word_vector(word) for word in words], axis=0) + 0.2 * uniform(text, DIMENSION))
    return np.array(rows)


# --- a corpus of our own ----------------------------------------------------------------------------------------

_PEOPLE = ("woman", "man", "girl", "boy", "nurse", "engineer", "mother", "father", "person", "child", "Mary", "John")
_ACTIONS = (
    ("likes the pink dress", "likes a dress"),
    ("plays football in the park", "plays a game"),
    ("walks with his dog", "has an animal"),
    ("reads her book at home", "reads"),
)
GOLD = ("entailment", "neutral", "contradiction")


def corpus_rows() -> list[dict[str, str]]:
    """Forty-eight pairs, two of them odd: one without a gold label, one with an empty hypothesis."""
    rows = []
    for n, (who, (premise, hypothesis)) in enumerate((who, action) for who in _PEOPLE for action in _ACTIONS):
        article = "" if who[0].isupper() else "The "
        other = _PEOPLE[(7 * n + 3) % len(_PEOPLE)]
        text = f"{article}{who} {premise} with the {other.lower()}."
        row = {"id": f"p{n}", "premise": text, "hypothesis": f"{article}{who} {hypothesis}.", "gold": GOLD[n % 3]}
        rows.append(row)
    rows[17]["gold"] = "-"
    rows[31]["hypothesis"] = ""
    return rows


SENTENCES = (
    "She said that he was late.",
    "Her brother lent him his car.",
    "The king and the queen met John's aunt.",
    "Mary gave the book to him, and he thanked her.",
    "An engineer repaired the bridge.",
    "The actress and the waiter left; the men stayed.",
    "HE shouted at the boys. They ran.",
    "Mr. Smith told Mrs. Brown about his daughter.",
)


# --- running the command line -----------------------------------------------------------------------------------


class Bench:
    """A folder, the command line, and inputs that several cases share."""

    def __init__(self, folder: Path, data: Path | None = None) -> None:
        self.folder = folder
        self.data = data

    def text(self, *arguments: object, code: int = 0) -> str:
        """Run ``evenli`` in this process and give what it prints."""
        from typer.testing import CliRunner

        from evenli.cli import app

        done = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        if done.exit_code != code:
            raise RuntimeError(f"evenli {' '.join(map(str, arguments))}: exit code {done.exit_code}\n{done.output}")
        # Where the folder lies is no result.
        return done.stdout.replace(str(self.folder), "FOLDER")

    def json(self, *arguments: object, code: int = 0) -> Any:
        """Run ``evenli … --json`` and read its answer."""
        return json.loads(self.text(*arguments, "--json", code=code))

    def ledger(self, *arguments: object) -> Any:
        """Run ``python -m studies.ledger … --json`` in this process and read its answer."""
        from studies.ledger.__main__ import main

        with contextlib.redirect_stdout(io.StringIO()) as printed:
            if code := main([*map(str, arguments), "--json"]):
                raise RuntimeError(f"python -m studies.ledger: exit code {code}")
        return json.loads(printed.getvalue())

    def audit(self, model: str, lang: str = "en", suite: str = "coal", *more: object) -> tuple[Path, Any]:
        """Run folder and results of an audit; the second call with the same arguments costs nothing."""
        key = hashlib.sha256(repr((model, lang, suite, more)).encode()).hexdigest()[:12]
        folder, kept = self.folder / key, self.folder / f"{key}.json"
        if not kept.is_file():
            found = self.json("audit", model, "--lang", lang, "--suite", suite, "-o", folder, *more)
            kept.write_text(json.dumps(found), encoding="utf-8")
        return folder, json.loads(kept.read_text(encoding="utf-8"))

    @cached_property
    def vectors(self) -> Path:
        """Word vectors of the corpus, of the gender pairs and of four hundred other words."""
        texts = " ".join(f"{row['premise']} {row['hypothesis']}" for row in corpus_rows()).lower().replace(".", " ")
        words = dict.fromkeys([*LEAN, *texts.split(), *(f"word{n}" for n in range(400))])
        lines = [f"{word} {' '.join(f'{x:.5f}' for x in word_vector(word))}\n" for word in words]
        file = self.folder / "vectors.txt"
        file.write_text("".join(lines), encoding="utf-8")
        return file

    @cached_property
    def corpus(self) -> Path:
        file = self.folder / "corpus.jsonl"
        file.write_text("".join(json.dumps(row) + "\n" for row in corpus_rows()), encoding="utf-8")
        return file

    def scored(self, weights: str = "uniform") -> tuple[Path, Any]:
        """Folder and summary of the scored corpus."""
        out, kept = self.folder / f"scored-{weights}", self.folder / f"scored-{weights}.json"
        if not kept.is_file():
            settings = ("--vectors", self.vectors, "--weights", weights, "--published")
            found = self.json("score", self.corpus, *settings, "-o", out)
            kept.write_text(json.dumps(found), encoding="utf-8")
        return out, json.loads(kept.read_text(encoding="utf-8"))


def read_table(text: str) -> list[dict[str, Any]]:
    """Rows of a CSV text; what reads as a number is one."""

    def cell(value: str) -> Any:
        try:
            return float(value)
        except ValueError:
            return value

    return [{key: cell(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(text))]


def read_lines(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def hashes(folder: Path, pattern: str) -> dict[str, str]:
    """Path below the folder -> sha256 of the content."""
    files = sorted(folder.glob(pattern))
    return {file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


class _Visible(HTMLParser):
    """Text that a reader of a page sees; drawings are left out, their text depends on the library that drew them."""

    _HIDDEN = ("script", "style", "svg", "head", "template")

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._depth += tag in self._HIDDEN

    def handle_endtag(self, tag: str) -> None:
        self._depth -= tag in self._HIDDEN

    def handle_data(self, data: str) -> None:
        if not self._depth and data.strip():
            self.parts.append(" ".join(data.split()))


def visible(page: str) -> list[str]:
    """The pieces of visible text of an HTML page, in order."""
    parser = _Visible()
    parser.feed(page)
    # How long it took stands in a cell of its own after its name.
    names = ["", *parser.parts]
    return [part for name, part in zip(names, parser.parts, strict=False) if not name.endswith("seconds")]


# --- audits -----------------------------------------------------------------------------------------------------


def _audit_case(model: str, lang: str, suite: str, *more: object) -> Case:
    return lambda bench: bench.audit(model, lang, suite, *more)[1]


for _kind in FAKES:
    for _lang in ("en", "ja", "zh"):
        _suites = "coal,probe,dev2020" if _lang == "en" else "coal"
        CASES[f"audit-{_kind.replace(':', '-')}-{_lang}"] = _audit_case(f"fake:{_kind}", _lang, _suites)
ALL_SUITES = ("py:golden_cases:hashed_en", "en", "coal,probe,dev2020")
OTHER = ("py:golden_cases:hashed_other", "en", "coal,probe,dev2020")
CASES["audit-hashed-en"] = _audit_case(*ALL_SUITES)
CASES["audit-hashed-other"] = _audit_case(*OTHER)
CASES["audit-hashed-ja"] = _audit_case("py:golden_cases:hashed_ja", "ja", "coal")
CASES["audit-hashed-zh"] = _audit_case("py:golden_cases:hashed_zh", "zh", "coal")
CASES["audit-probe-ja"] = _audit_case("py:golden_cases:hashed_ja", "ja", "probe")
CASES["audit-probe-zh"] = _audit_case("py:golden_cases:hashed_zh", "zh", "probe")
CASES["audit-swap"] = _audit_case("py:golden_cases:hashed_en", "en", "swap")
CASES["audit-robust"] = _audit_case("py:golden_cases:hashed_en", "en", "robust")
CASES["audit-groups"] = _audit_case("fake:oracle:0.3", "en", "groups", "--axis", "nationality")


@case
def measure(bench: Bench) -> Any:
    # On a copy: the command writes its results into the run, and other cases read this one.
    copy = shutil.copytree(bench.audit(*ALL_SUITES)[0], bench.folder / "measured")
    return bench.json("measure", copy)


@case
def compare(bench: Bench) -> Any:
    runs = [bench.audit(*ALL_SUITES)[0], bench.audit(*OTHER)[0]]
    return bench.json("compare", *runs)


@case
def gate(bench: Bench) -> Any:
    first, second = bench.audit(*ALL_SUITES)[0], bench.audit(*OTHER)[0]
    return {
        "failed": bench.json("gate", first, "--fail-if", "coal.low > 0.30", "--fail-if", "coal > 0.9", code=1),
        "passed": bench.json("gate", second, "--fail-if", "coal.low > 0.9"),
        "worse": bench.json("gate", first, "--policy", "none", "--baseline", second, code=1),
        "better": bench.json("gate", second, "--policy", "none", "--baseline", first),
    }


@case
def table(bench: Bench) -> Any:
    found = {}
    for what in ("measures", "occupations"):
        file = bench.folder / f"{what}.csv"
        bench.text("table", bench.audit(*ALL_SUITES)[0], "--what", what, "-o", file)
        found[what] = read_table(file.read_text(encoding="utf-8"))
    return found


@case
def card(bench: Bench) -> Any:
    run = bench.audit(*ALL_SUITES)[0]
    return {part: {"text": bench.text("card", run, "--part", part)} for part in ("yaml", "markdown")}


@case
def report(bench: Bench) -> Any:
    first, second = bench.audit(*ALL_SUITES)[0], bench.audit(*OTHER)[0]
    found = {}
    for name, runs in (("one", [first]), ("two", [first, second])):
        file = bench.folder / f"{name}.html"
        bench.text("report", *runs, "-o", file)
        page = file.read_text(encoding="utf-8")
        # The golden file is older than the sections about suites beside NLI-CoAL.
        page = re.sub(r'<section aria-labelledby="[^"]*-suite-.*?</section>', "", page, flags=re.DOTALL)
        found[name] = {"text": visible(page)}
    return found


# --- published numbers and data sets ----------------------------------------------------------------------------


@case
def reproduce(bench: Bench) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EVENLI_SHARED_DATA", "no/such/folder")
        return bench.ledger()


@case
def reproduce_with_data(bench: Bench) -> Any:
    return bench.ledger("--data", bench.data)


@case
def build(bench: Bench) -> Any:
    out = bench.folder / "built"
    out.mkdir()
    cards = {}
    for lang in ("en", "ja", "zh"):
        cards[f"coal-{lang}"] = bench.json("build", "coal", "--lang", lang, "-o", out / f"coal-{lang}.jsonl")
        controlled = out / f"controlled-{lang}"
        options = ("--rates", "0:1:0.5", "--width", 3)
        cards[f"controlled-{lang}"] = bench.json("build", "controlled", "--lang", lang, *options, "-o", controlled)
    cards["coal-shuffled"] = bench.json("build", "coal", "--seed", 5, "--width", 3, "-o", out / "coal-shuffled.csv")
    cards["probe"] = bench.json("build", "probe", "-o", out / "probe.jsonl")
    cards["probe-premise"] = bench.json("build", "probe", "--family", "premise", "-o", out / "probe-premise.jsonl")
    cards["dev2020"] = bench.json("build", "dev2020", "--words", "man", "-o", out / "dev.csv")
    files = hashes(out, "*.*") | hashes(out, "controlled-*/*/*.jsonl")
    return {"cards": cards, "sha256": files}


# --- corpora ----------------------------------------------------------------------------------------------------


def _score_case(weights: str) -> Case:
    def run(bench: Bench) -> Any:
        import polars as pl

        folder, summary = bench.scored(weights)
        shards = [pl.read_parquet(file) for file in sorted(folder.glob("shards/*.parquet"))]
        rows = [row for shard in shards for row in shard.to_dicts()]
        for row in rows:
            row["original"] = json.loads(row["original"])
        return {"summary": summary, "rows": rows}

    return run


CASES |= {f"score-{_weights}": _score_case(_weights) for _weights in ("uniform", "idf", "sif")}


@case
def score_sentence(bench: Bench) -> Any:
    sentence = "The nurse likes her pink dress, football and the unseenword."
    common = ("score", sentence, "--vectors", bench.vectors)
    return [
        bench.json(*common, "--published"),
        bench.json(*common, "--published", "--punctuation", "--pairs", "long"),
    ]


@case
def score_centred(bench: Bench) -> Any:
    centres = ("mean", "function-words", "length")
    out = bench.folder / "scored-centred"
    common = ("score", "She likes the new pink dress", "--vectors", bench.vectors)
    sentences = [bench.json(*common, "--centre", centre) for centre in centres]
    return {"sentences": sentences, "corpus": bench.json("score", bench.corpus, "--vectors", bench.vectors, "-o", out)}


@case
def direction(bench: Bench) -> Any:
    return bench.json("direction", "--vectors", bench.vectors, "--count", 6)


@case
def mitigate_corpus(bench: Bench) -> Any:
    folder, _ = bench.scored()
    variants = {
        "subtract": ("subtract", "--percentile", 80),
        "subtract-random": ("subtract", "--percentile", 80, "--random", "--seed", 4),
        "augment": ("augment", "--percentile", 70),
        "augment-replace": ("augment", "--percentile", 70, "--replace", "--mode", "paper"),
        "augment-random": ("augment", "--percentile", 70, "--random", "--seed", 4),
    }
    found = {}
    for name, (command, *options) in variants.items():
        out = bench.folder / name
        made = bench.json("mitigate", command, folder, *options, "--split", "6,5", "-o", out)
        splits = {file.stem: read_lines(file) for file in sorted(out.glob("*.jsonl"))}
        lists = {file.stem: read_table(file.read_text(encoding="utf-8")) for file in sorted(out.glob("*.csv"))}
        found[name] = {"card": made, "splits": splits, "lists": lists}
    return found


@case
def mitigate_swap(bench: Bench) -> Any:
    lines = bench.folder / "lines.txt"
    lines.write_text("".join(f"{line}\n" for line in SENTENCES), encoding="utf-8")
    found = {}
    for mode in ("default", "paper", "released"):
        text, pairs = bench.folder / f"{mode}.txt", bench.folder / f"{mode}.jsonl"
        common = ("--mode", mode, "-o")
        counts = [bench.json("mitigate", "swap", "--corpus", lines, *common, text)]
        counts.append(bench.json("mitigate", "swap", "--corpus", bench.corpus, "--only-swapped", *common, pairs))
        found[mode] = {
            "counts": counts,
            "lines": text.read_text(encoding="utf-8").splitlines(),
            "pairs": [[row["id"], row["premise"], row["hypothesis"]] for row in read_lines(pairs)],
        }
    occupation = bench.folder / "occupation.jsonl"
    options = ("--select", "occupation", "--no-names", "-o", occupation)
    found["occupation"] = {"counts": bench.json("mitigate", "swap", "--corpus", bench.corpus, *options)}
    return found


# --- encoders ---------------------------------------------------------------------------------------------------

ENCODER = "py:golden_cases:hashed_encoder"


@case
def seat(bench: Bench) -> Any:
    test = bench.folder / "jobs.json"
    sets = {"targ1": range(8), "targ2": range(8, 16)}
    content = {role: {"category": role, "examples": [f"word{n}" for n in numbers]} for role, numbers in sets.items()}
    women, men = zip(*(pair.split() for pair in PAIRS), strict=True)
    content |= {"attr1": {"category": "men", "examples": men}, "attr2": {"category": "women", "examples": women}}
    test.write_text(json.dumps(content), encoding="utf-8")
    return {
        "sentences": bench.json("seat", ENCODER, "--permutations", 2000),
        "words": bench.json("seat", ENCODER, "--level", "word", "--permutations", 2000, "--seed", 3),
        "own": bench.json("seat", f"vectors:{bench.vectors}", "--tests", test, "--permutations", 500),
    }


@case
def leakage(bench: Bench) -> Any:
    found = {}
    for method in ("leace", "inlp", "sent-debias"):
        found[method] = bench.json("mitigate", method, ENCODER, "-o", bench.folder / method)
    return found


@case
def hard_debias(bench: Bench) -> Any:
    found = {}
    for name, options in (("debiased", ()), ("control", ("--control",))):
        file = bench.folder / f"{name}.npz"
        found[name] = bench.json("mitigate", "hard-debias", bench.vectors, "-o", file, *options)
        with np.load(file) as stored:
            matrix = next(stored[key] for key in stored.files if stored[key].ndim == 2)
        found[name]["rows"] = matrix[::40].astype(float).tolist()
    return found


@case
def encoder_report(bench: Bench) -> Any:
    folder = bench.folder / "reported"
    bench.json("mitigate", "leace", ENCODER, "-o", folder)
    return bench.json("encoder-report", ENCODER, f"mitigated:{folder},{ENCODER}", "--permutations", 500)
