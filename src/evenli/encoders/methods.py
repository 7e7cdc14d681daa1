"""Mitigations of encoders and word vectors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evenli.core.callable import settings_of
from evenli.core.mitigation import GenderedEmbeddings, Method, Option


def _erasers() -> Any:
    from evenli.encoders import erasers

    return erasers


def _leace(data: GenderedEmbeddings, concepts: str) -> Any:
    if concepts == "one" or not data.concepts:
        return _erasers().fit_leace(*data.labelled())
    return _erasers().fit_leace_pairs(data.female, data.male, data.concepts)


INLP = Method(
    "inlp",
    "Project out what linear classifiers find of gender",
    "Ravfogel et al. 2020",
    lambda data, settings, generator: _erasers().fit_inlp(
        *data.labelled(), min(settings["iterations"], data.female.shape[1] - 1), generator
    ),
    (Option("iterations", 35, "Rounds at most; it ends early once a round finds nothing.", minimum=1),),
)
LEACE = Method(
    "leace",
    "Erase what any linear classifier could find of gender",
    "Belrose et al. 2023",
    lambda data, settings, generator: _leace(data, settings["concepts"]),
    (
        Option(
            "concepts",
            "pairs",
            "What is erased: every pair of gender words, or gender alone, as published.",
            choices=("pairs", "one"),
        ),
    ),
)
SENT_DEBIAS = Method(
    "sent-debias",
    "Remove what tells sentences from their swapped copies",
    "Liang et al. 2020",
    lambda data, settings, generator: _erasers().fit_sentence_debias(data.female, data.male, settings["components"]),
    (Option("components", 1, "Directions to remove.", minimum=1),),
)


def _hard_debias(source: str | Path, out: str | Path, given: Mapping[str, Any], overwrite: bool) -> Any:
    from evenli.encoders.mitigation import HardDebiasSettings, hard_debias_file

    return hard_debias_file(source, out, settings_of(HardDebiasSettings, given, "hard-debias"), overwrite=overwrite)


HARD_DEBIAS = Method(
    "hard-debias",
    "Neutralise and equalise word vectors",
    "Bolukbasi et al. 2016",
    kind="vectors",
    apply=_hard_debias,
    checks_settings=True,
)
