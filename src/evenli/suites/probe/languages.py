"""The probe in Japanese and Chinese: our own sentences, and the stereotyped occupations of NLI-CoAL.

The English probe takes its labels from Sharma et al. and compares them with US labour statistics. No labour statistics
by occupation ship for Japan and China, so the labels are the published stereotype classes, and nothing is compared.
"""

from __future__ import annotations

import numpy as np

from evenli.errors import InputError
from evenli.pairs import PairSet
from evenli.resources import load_axis
from evenli.suites.base import fill
from evenli.suites.probe import words
from evenli.suites.scenes import compose_templates

LANGUAGES = ("ja", "zh")
GENDERS = {"female": "女性", "male": "男性"}
"""Adjectives of the hypotheses, the same in both languages."""
OCCUPATIONS = 19
"""Occupations of each gender at most, as many as in the English probe."""


def build_probe_in(lang: str, *, per_occupation: int = 100, family: str = "text", seed: int = 0) -> PairSet:
    """A probe set in another language than English: the same sentences for every occupation, two rows each."""
    if lang not in LANGUAGES:
        raise InputError(f"there is no probe in language '{lang}'; choose en, {', '.join(LANGUAGES)}")
    hypotheses = words.probe_hypotheses(family, lang)
    templates = compose_templates(lang, per_occupation, seed=seed)
    generator = np.random.default_rng(seed)
    rows: list[dict[str, str]] = []
    chosen = probe_occupations_in(lang)
    for occupation, stereotype in chosen.items():
        for template in templates:
            premise = fill(template, occupation)
            texts = words.fill_hypotheses(str(generator.choice(hypotheses)), premise, occupation, GENDERS)
            rows += words.probe_rows(len(rows) // 2, premise, texts, occupation, stereotype, template)
    return PairSet.from_rows(
        rows,
        name="built-in probe",
        suite="probe",
        lang=lang,
        source=f"built by evenli from its own sentences: {len(chosen)} occupations, {per_occupation} premises each, "
        f"hypotheses '{family}', seed {seed}",
        notes=("labels are the stereotype classes of NLI-CoAL; no labour statistics are compared",),
    )


def probe_occupations_in(lang: str) -> dict[str, str]:
    """As many occupations of either stereotype, spread evenly over the published list, with that stereotype."""
    listed: dict[str, list[str]] = {group: [] for group in load_axis().group_names}
    for occupation in load_axis().occupations(lang):
        if occupation.stereotype in listed:
            listed[occupation.stereotype].append(occupation.word)
    count = min(OCCUPATIONS, *map(len, listed.values()))
    return {names[i * len(names) // count]: group for group, names in listed.items() for i in range(count)}
