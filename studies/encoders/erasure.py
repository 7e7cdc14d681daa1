"""What erasers leave of gender: held-out words, real text and the fit domain, by two probes trained five times each.

    python -m studies.encoders.erasure "GloVe mean=vectors:FILE" "all-MiniLM-L6-v2=hf:FOLDER" --text A.txt --other B.txt

``--text`` is the real text in which gender is looked for, ``--other`` text of the same kind to fit on. Beside the
built-in fit a broader one is tried: every fitted word in 40 further scenes and in 40 sentences of a verb and an
object. The tables go into docs/studies/encoders.md; intervals are over test sentences and five trainings.
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.suites.dev2020 import load_dev_lists
from evenli.core.record import Estimate
from evenli.encoders import mitigation as fitting
from evenli.encoders.base import EmbeddingCache, load_encoder
from evenli.encoders.gendered import GenderedSet, SentencePair, gendered_set, probe_text, read_gendered
from evenli.encoders.leakage import HeldOut, Residual, known_sentences, residual_leakage
from evenli.words.scenes import compose_templates

PAGE = Path(__file__).parents[2] / "docs" / "studies" / "encoders.md"
ARMS = (
    ("INLP", "inlp", {}, "built-in"),
    ("SentenceDebias", "sent-debias", {}, "built-in"),
    ("LEACE, gender as one concept (as published)", "leace", {"concepts": "one"}, "built-in"),
    ("LEACE, a concept for every pair of gender words (our default)", "leace", {}, "built-in"),
    ("the same, broader fit", "leace", {}, "broader"),
    ("the same, fitted on other captions", "leace", {}, "other"),
    ("the same, fitted on other captions and the built-in sentences", "leace", {}, "both"),
)
SCENES = 40  # of a word in the broader fit, and as many deeds; it is 16 scenes in the built-in one
HEADS = (
    "",
    "dimensions",
    *(f"{what}, {probe}" for what in ("held-out words", "captions", "fit domain") for probe in ("linear", "MLP")),
)


def main() -> None:
    """Measure every encoder, and fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", nargs="+", metavar="NAME=SPEC")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dry", action="store_true", help="print only")
    arguments = parser.parse_args()
    text = PAGE.read_text(encoding="utf-8")
    for name, spec in (one.split("=", 1) for one in arguments.encoder):
        rows = list(measure(name, EmbeddingCache(load_encoder(spec, device=arguments.device)), arguments))
        lines = [f"| {' | '.join(row)} |" for row in ((name, *HEADS[1:]), ["---"] * len(HEADS), *rows)]
        print("\n".join(lines), flush=True)
        start, end = f"<!-- erasure of {name} -->", f"<!-- end of erasure of {name} -->"
        if start in text and not arguments.dry:
            text = "\n\n".join([text.partition(start)[0] + start, "\n".join(lines), end + text.partition(end)[2]])
            PAGE.write_text(text, encoding="utf-8")


def measure(name: str, base: EmbeddingCache, arguments: argparse.Namespace) -> Iterator[list[str]]:
    """One row per eraser, the encoder as it is before them and text without gender words behind them."""
    probe, fits = probe_text(arguments.text), {"built-in": known_sentences(base, gendered_set())}
    other = known_sentences(base, read_gendered(arguments.other))
    fits["broader"] = known_sentences(base, broader(gendered_set()))
    fits["other"], fits["both"] = other, replace(other, fit=(*other.fit, *fits["built-in"].fit))
    held = {fit: HeldOut.of(base, sentences, probe) for fit, sentences in fits.items()}
    lean = held["built-in"].lean()
    yield ["as it is", "", *cells(residual_leakage(held["built-in"], lean))]
    for arm, method, options, fit in ARMS:
        began = time.perf_counter()
        eraser = fitting.fit_eraser(base, fits[fit], fitting.MitigationSettings(method, options=options))
        left = residual_leakage(held[fit].erased(eraser), lean)
        print(f"{name}, {arm}: {len(fits[fit].fit):,} pairs, {time.perf_counter() - began:.0f} s", flush=True)
        yield [arm, f"{eraser.rank} of {eraser.dimension}", *cells(left)]
    without = HeldOut.of(base, fits["built-in"], replace(probe, train=neutral(probe.train), test=neutral(probe.test)))
    yield [
        "no eraser, gender words replaced by *person*",
        "",
        "",
        "",
        *cells(residual_leakage(without, lean))[2:4],
        "",
        "",
    ]


def cells(left: Residual) -> list[str]:
    """Accuracies with intervals."""
    places: list[Any] = [left, left.on_text, left.on_domain]
    return [shown(getattr(place, probe)) if place else "" for place in places for probe in ("linear", "mlp")]


def shown(value: Estimate) -> str:
    """A share with its interval."""
    return f"{value.value:.2f} [{value.low:.2f}, {value.high:.2f}]"


def broader(built_in: GenderedSet) -> GenderedSet:
    """The fitted words in many more sentences; held-out words and the scenes of the probes stay unseen."""
    scenes, lists = cycle(compose_templates("en", 638)[:400]), load_dev_lists()
    words = list(dict.fromkeys(pair.words[:2] for pair in built_in.fit if pair.concept != "first names"))
    nouns = [pair for pair in words if any(f" {pair[0]} " in one.female.lower() for one in built_in.fit)]
    order = np.random.default_rng(0).permutation(len(lists.templates))
    deeds = cycle(lists.templates[at] for at in order)
    more = []
    for female, male in nouns:
        for scene in islice(scenes, SCENES):
            more.append(
                SentencePair(*(capital(scene.replace("[Sub]", word)) for word in (female, male)), (female, male))
            )
        for deed in islice(deeds, SCENES):
            more.append(SentencePair(*(f"A {word} {deed}." for word in (female, male)), (female, male)))
    return replace(built_in, fit=(*built_in.fit, *more))


def capital(text: str) -> str:
    """With a capital at the beginning."""
    return text[0].upper() + text[1:]


def neutral(rows: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
    """The texts with every gender word replaced."""
    from evenli.words.swap.swapper import Swapper

    swapper = Swapper(names=True, conflicts="swap")
    changed = []
    for text, gender in rows:
        for word in {change.word for change in swapper.swap_document([text]).changes[0]}:
            text = re.sub(rf"\b{re.escape(word)}\b", "person", text)
        changed.append((text, gender))
    return tuple(changed)


if __name__ == "__main__":
    main()
