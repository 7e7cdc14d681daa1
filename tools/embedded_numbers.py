"""Make the tables and sentences that quote the embedded models, and two figures, from stored answers.

    python tools/embedded_numbers.py            # ask the models what is not stored, then write pages and figures
    python tools/embedded_numbers.py --check    # name what differs; ask and write nothing

tests/data/embedded_answers.json.gz has for every set of pairs the fingerprint of the model, the hash of the pairs and
the answers in their order: a letter a pair (e, n or c). The probe needs probabilities; its sets have the log-odds of
entailment and of contradiction against neutral, in hundredths. A set is asked again where its pairs or its model
changed; all of them (about ten minutes) where the file is gone. Released pairs are found in ``EVENLI_SHARED_DATA``;
without them stored answers stay, and what needs them is left out.

A page has what is made between two comments, ``made by tools/embedded_numbers.py: NAME`` and ``end``.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.assess import Audit, assess
from evenli.audit.models import embedded_models, load_model
from evenli.audit.pairs import PairSet
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import Request, get_suite
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.coal.verdict import CAUSES
from evenli.audit.suites.robust import figure
from evenli.core.blocks import Block
from evenli.core.format import with_interval
from evenli.core.labels import LABELS, NEUTRAL
from evenli.core.record import Estimate
from evenli.words.occupations import LABOUR

ROOT = Path(__file__).parents[1]
FILE = ROOT / "tests" / "data" / "embedded_answers.json.gz"
DATA = Path(os.environ.get("EVENLI_SHARED_DATA", ROOT.parent / "shared" / "data"))
MARKED = re.compile(r"(<!-- made by tools/embedded_numbers\.py: (\w+) -->\n).*?(\n<!-- end -->)", re.S)
OFFICIAL, SHEET = "nli_coal/en_v1.1.tar.xz", "sharma2021/SNLI_Evaluation_Set.tsv.xz"
CHECKS = {"gold": gold_pairs, "control": control_pairs}
SETS = (
    *((lang, part) for lang in ("en", "ja", "zh") for part in (*CHECKS, "coal")),
    *(("en", LABOUR), ("en", "probe"), ("en", "robust"), ("en", "coal", OFFICIAL), ("en", "probe", SHEET)),
)
"""Language, suite or kind of checks, and the file of released pairs if they are not our own."""


class MissingError(Exception):
    """A file of released pairs is not here."""


@cache
def pairs_of(lang: str, part: str, release: str = "") -> PairSet:
    """The pairs of a set as they are now."""
    if release and not (DATA / release).is_file():
        raise MissingError(release)
    if part in CHECKS:
        return CHECKS[part](lang)
    return get_suite(part).pairs(Request(lang, DATA / release if release else None))


@cache
def fingerprint(lang: str) -> str:
    """Hash of the model that ships."""
    return load_model(lang=lang).info.fingerprint


def stored() -> dict[str, Any]:
    """What is on disk, by the words of a set."""
    return json.loads(gzip.decompress(FILE.read_bytes())) if FILE.is_file() else {}


def ask(which: tuple[str, ...], pairs: PairSet) -> str | list[int]:
    """What the model answers, as it is stored."""
    logits = predict(load_model(lang=which[0]), [pairs]).logits
    if which[1] != "probe":
        return "".join(LABELS[column][0] for column in logits.argmax(axis=1))
    odds = np.delete(logits - logits[:, [LABELS.index(NEUTRAL)]], LABELS.index(NEUTRAL), axis=1)
    return [int(one) for one in np.rint(100 * odds).ravel()]


def logits_of(answers: str | list[int]) -> NDArray[np.float64]:
    """Logits that say the same; a letter is certain."""
    if isinstance(answers, str):
        return np.array([[9.0 * (label[0] == letter) for label in LABELS] for letter in answers])
    return np.insert(np.reshape(answers, (-1, 2)) / 100, LABELS.index(NEUTRAL), 0, axis=1)


@cache
def audit_of(lang: str, *suites: str, release: str = "") -> Audit:
    """An audit of the model that ships, by its stored answers; answers to other pairs are refused."""
    frames, cards, entries = [], [], stored()
    for which in ((lang, "gold"), (lang, "control"), *((lang, suite, *filter(None, [release])) for suite in suites)):
        pairs, entry = pairs_of(*which), entries[" ".join(which)]
        assert entry["pairs"] == pairs.sha256, f"the pairs of {' '.join(which)} changed: tools/embedded_numbers.py"
        columns = (pl.Series(name, column) for name, column in zip(LABELS, logits_of(entry["answers"]).T, strict=True))
        frames.append(pairs.frame.with_columns(*columns, suite=pl.lit(pairs.suite)))
        cards += [pairs.card().to_dict()] if which[1] not in CHECKS else []
    table = Predictions(pl.concat(frames), {"data": cards, "model": {"name": lang}})
    return Audit(assess(table), table)


# --- what the pages show ------------------------------------------------------------------------------------------


def row(*cells: str) -> str:
    """A row of a table."""
    return f"| {' | '.join(cells)} |"


def shown(estimate: Estimate) -> str:
    """A number as a page shows it."""
    return with_interval(estimate.value, estimate.low, estimate.high, 2)


def models() -> Iterator[str]:
    """Size and accuracy of the models, as their cards say."""
    yield from (row("model", "pairs", "accuracy", "before compression"), row(*["---"] * 4))
    for model in sorted(embedded_models(), key=lambda model: model.name):
        name = f"`evenli:{model.name}`, {(model.path / 'model.onnx').stat().st_size / 1e6:.1f} MB"
        for line in model.card["accuracy"]:
            pairs, accuracy, before = re.split(": |; before compression ", line)
            yield row(name, pairs, accuracy, before)
            name = ""


def audits() -> Iterator[str]:
    """What an audit of each model finds."""
    yield row("pairs", "stereotype", "default gender", "total error", "NLI-CoAL", "gold, stated pairs right", "leans")
    yield row(*["---"] * 7)
    for name, lang, suite, release in (
        ("English, labour list", "en", LABOUR, ""),
        ("English, published list", "en", "coal", ""),
        ("English, official", "en", "coal", OFFICIAL),
        ("Japanese", "ja", "coal", ""),
        ("Chinese", "zh", "coal", ""),
    ):
        result = audit_of(lang, suite, release=release).result
        numbers = [shown(result.suites[suite].measures[key]) for key in (*CAUSES, "coal")]
        right = f"{result.competence.gold.value:.0%}, {result.competence.stated.value:.0%}"
        leans = [f"{cause.label} ({cause.size})" for cause in result.verdict.causes if cause.direction != "none"]
        yield row(name, *numbers, right, ", ".join(leans) or "no verdict: fails the competence check")


def lists() -> Iterator[str]:
    """Both English lists side by side."""
    labour, published = (audit_of("en", LABOUR, "coal").result.suites[name].measures for name in (LABOUR, "coal"))
    yield from (row("measure", "labour", "published"), row(*["---"] * 3))
    leans = ("stereotype", "regression_slope", "default_gender", "default_of_stereotyped", "regression_intercept")
    for key in (*leans, "total_error", "contradictory", "coal", "coal_pro", "coal_anti", "coal_non"):
        yield row(labour[key].title.strip(), shown(labour[key]), shown(published[key]))


def probe() -> Iterator[str]:
    """The probe on our premises and on the released ones, beside the published numbers."""
    both = [audit_of("en", "probe", release=release).result.suites["probe"] for release in ("", SHEET)]
    yield row("", "built-in", "released sheet", "BERT, Sharma et al., Tables 5 and 6")
    yield row(*["---"] * 4)
    for name, key, published in (
        ("**lean**", "probe_lean", ""),
        ("S", "probe_s", "0.51"),
        ("dP", "probe_dp", "0.43"),
        ("B", "probe_b", "0.70"),
        ("same label of three for both genders", "probe_s3", ""),
        ("probability of neutral", "probe_neutral", ""),
    ):
        yield row(name, *(shown(result.measures[key]) for result in both), published)
    for side, published in (("male", "0.98"), ("female", "0.37")):
        parts = (shown(result.measures["probe_b"].by_stereotype[side]) for result in both)
        yield row(f"B, {side}-dominated", *parts, published)
    ranks = (f"{result.labour.direction.spearman:.2f}" for result in both)
    yield row("P_f - P_m against the share of women, Spearman", *ranks, "")


def distilled() -> Iterator[str]:
    """The model that ships beside the one before it, which stays as it was."""
    now = audit_of("en", "coal").result.suites["coal"].measures
    yield from (row("", "former", "distilled"), row(*["---"] * 3))
    for name, former in (
        ("stereotype", "0.39 [0.24, 0.51]"),
        ("default_gender", "0.34 [0.28, 0.40]"),
        ("total_error", "0.73 [0.66, 0.77]"),
        ("contradictory", "0.19 [0.14, 0.25]"),
        ("coal", "0.49 [0.44, 0.53]"),
    ):
        yield row(now[name].title.strip(), former, shown(now[name]))


def table_of(place: int) -> Iterator[str]:
    """A table that ``evenli robustness`` shows; the second block has all measures."""
    block = wordings_shown()[place]
    yield from (row(*(name.lstrip(">") for name in block.columns)), row(*["---"] * len(block.columns)))
    yield from (row(*cells) for cells in block.rows)


def wordings_shown() -> Sequence[Block]:
    """What ``evenli robustness`` shows."""
    return get_suite("robust").blocks(audit_of("en", "robust").result.suites["robust"], None, "terminal")


def wordings() -> Iterator[str]:
    """What survives another wording."""
    block = wordings_shown()[0]
    yield from (f"> {block.notes[0]}{block.heading.partition('?')[2]}.", "")
    yield from table_of(0)


def changes() -> Iterator[str]:
    """One choice of words changed at a time."""
    yield from table_of(2)


def choices() -> Iterator[str]:
    """How much of the differences between wordings each choice explains."""
    yield from table_of(3)


def front() -> Iterator[str]:
    """What the figure of the front page says."""
    readings = audit_of("en", LABOUR, "coal").result.suites[LABOUR].readings
    read = {(one.stereotype, one.reading): f"{100 * one.value:.0f}" for one in readings}
    man, woman = read["neutral", "male"], read["neutral", "female"]
    yield f"Jobs that women and men have about equally often are read as a man's in {man} of 100 sentences,"
    yield f"as a woman's in {woman}. An even model would have only the green bars."


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    part.__name__: part for part in (models, audits, lists, probe, distilled, wordings, changes, choices, front)
}


def rewritten(page: str) -> str:
    """A page with its parts made again; a part that needs pairs which are not here stays as it is."""

    def made(match: re.Match[str]) -> str:
        try:
            return "\n".join([match[1], *PARTS[match[2]](), match[3]])
        except MissingError as missing:
            print(f"{match[2]} is left out: no {missing} in {DATA}")
            return match[0]

    return MARKED.sub(made, page)


FIGURES: dict[str, Callable[[], Any]] = {
    "hero": lambda: audit_of("en", LABOUR, "coal").plot(),
    "wordings_en": lambda: figure(audit_of("en", "robust").result.suites["robust"]).chart,
}
"""Figures of the pages, by the name of their file."""


def drawn(name: str) -> str:
    """A figure as it is now."""
    svg = io.StringIO()
    FIGURES[name]().save(svg, format="svg")
    return svg.getvalue()


def said(svg: str) -> list[str]:
    """The numbers of a drawing; the rest depends on the fonts of the machine."""
    return re.findall(r'aria-label="((?:share|low|rank): [^"]*)"', svg)


def stale_sets(entries: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """Sets whose stored answers are not of the model and the pairs that ship."""
    for which in SETS:
        try:
            now = (fingerprint(which[0]), pairs_of(*which).sha256)
        except MissingError as missing:
            print(f"{missing} is left out: it is not in {DATA}")
            continue
        entry = entries.get(" ".join(which), {})
        if now != (entry.get("model"), entry.get("pairs")):
            yield which


def stale_files(docs: Path) -> Iterator[tuple[Path, str]]:
    """Pages and figures that show other numbers, with what they should have."""
    for page in sorted(docs.rglob("*.md")):
        before = page.read_text(encoding="utf-8")
        if (text := rewritten(before)) != before:
            yield page, text
    for name in FIGURES:
        file = docs / "figures" / f"{name}.svg"
        if file.is_file() and said(svg := drawn(name)) != said(file.read_text(encoding="utf-8")):
            yield file, svg


def main(arguments: list[str], docs: Path = ROOT / "docs") -> int:
    """Bring stored answers, pages and figure up to date, or name what is not."""
    check, entries = "--check" in arguments, stored()
    old = list(stale_sets(entries))
    if check and old:
        print(f"not of the models and pairs that ship: {'; '.join(map(' '.join, old))}: make docs-outputs")
        return 1
    for which in old:
        print(f"asking {' '.join(which)}", flush=True)
        pairs = pairs_of(*which)
        entries[" ".join(which)] = {"model": fingerprint(which[0]), "pairs": pairs.sha256, "answers": ask(which, pairs)}
        # Without a time stamp the same content gives the same file.
        FILE.write_bytes(gzip.compress(json.dumps(entries).encode(), mtime=0))
    found = list(stale_files(docs))
    for file, text in found:
        print(f"{file.relative_to(docs)} {'shows other numbers: make docs-outputs' if check else 'is written'}")
        if not check:
            file.write_text(text, encoding="utf-8")
    return int(check and bool(found))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
