"""The probe as a file in every language; in Japanese and Chinese of our own sentences and occupations of NLI-CoAL.

The English probe takes its labels from Sharma et al. and compares them with US labour statistics. No labour statistics
by occupation ship for Japan and China, so the labels are the published stereotype classes, and nothing is compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.settings import ProbeSettings
from evenli.audit.suites.files import write_pairs
from evenli.audit.suites.probe.build import ProbeReport, build_probe, probe_pairs
from evenli.core.errors import InputError
from evenli.core.settings import settings_of
from evenli.words import load_axis
from evenli.words.scenes import compose_templates
from evenli.words.templates import fill

LANGUAGES = ("ja", "zh")
OCCUPATIONS = 19
"""Occupations of each gender at most, as many as in the English probe."""


def build_probe_in(lang: str, settings: ProbeSettings | None = None, **options: Any) -> PairSet:
    """A probe set in another language than English: the same sentences for every occupation, two rows each."""
    settings = settings_of(ProbeSettings, settings, options, "build_probe_in")
    if lang not in LANGUAGES:
        raise InputError(f"there is no probe in language '{lang}'; choose en, {', '.join(LANGUAGES)}")
    # As many occupations of either stereotype, spread evenly over the published list.
    listed = {
        group: [job.word for job in load_axis().occupations(lang) if job.stereotype == group]
        for group in load_axis().group_names
    }
    count = min(OCCUPATIONS, *map(len, listed.values()))
    chosen = {names[i * len(names) // count]: group for group, names in listed.items() for i in range(count)}
    templates = compose_templates(lang, settings.per_occupation, seed=settings.seed)
    premises = {occupation: [(fill(template, occupation), template) for template in templates] for occupation in chosen}
    note = "labels are the stereotype classes of NLI-CoAL; no labour statistics are compared"
    return probe_pairs(premises, chosen, settings, np.random.default_rng(settings.seed), lang, [note])


@dataclass(frozen=True)
class ProbeFile:
    """A probe set that was written; the report is that of an English one, None in other languages."""

    path: Path
    pairs: PairSet
    report: ProbeReport | None


def write_probe(out: str | Path, lang: str = "en", settings: ProbeSettings | None = None, **options: Any) -> ProbeFile:
    """Build a probe set and write it as .jsonl, .csv or .parquet; ``evenli build probe``.

    Args:
        out: File to write.
        lang: Language; Japanese and Chinese have our own sentences and the stereotypes of NLI-CoAL.
        settings: How it is built; of other languages than English premises, hypotheses and seed count.
        options: Fields of ``ProbeSettings``.
    """
    settings, report = settings_of(ProbeSettings, settings, options, "write_probe"), None
    if lang != "en":
        # The sentences are ours there: what chooses them from a corpus would have no effect.
        if english := list(settings.changed("corpus", "occupations", "dominance")):
            given = ", ".join(f"--{name}" for name in english)
            raise InputError(f"{given}: for English only, the language is '{lang}'; leave it out")
        pairs = build_probe_in(lang, settings)
    else:
        built = build_probe(settings)
        pairs, report = built.pairs, built.report
    write_pairs(pairs, out)
    return ProbeFile(Path(out), pairs, report)
