"""Mitigations of encoders and word vectors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenli.core.mitigation import GenderedEmbeddings, Method
from evenli.encoders.settings import HardDebiasSettings, InlpSettings, LeaceSettings, SentDebiasSettings


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
        *data.labelled(), min(settings.iterations, data.female.shape[1] - 1), generator
    ),
    InlpSettings(),
)
LEACE = Method(
    "leace",
    "Erase what any linear classifier could find of gender",
    "Belrose et al. 2023",
    lambda data, settings, generator: _leace(data, settings.concepts),
    LeaceSettings(),
)
SENT_DEBIAS = Method(
    "sent-debias",
    "Remove what tells sentences from their swapped copies",
    "Liang et al. 2020",
    lambda data, settings, generator: _erasers().fit_sentence_debias(data.female, data.male, settings.components),
    SentDebiasSettings(),
)


def _hard_debias(source: str | Path, out: str | Path, settings: HardDebiasSettings, overwrite: bool) -> Any:
    from evenli.encoders.mitigation import hard_debias_file

    return hard_debias_file(source, out, settings, overwrite=overwrite)


HARD_DEBIAS = Method(
    "hard-debias",
    "Neutralise and equalise word vectors",
    "Bolukbasi et al. 2016",
    settings=HardDebiasSettings(),
    kind="vectors",
    apply=_hard_debias,
)
