"""Making an axis of one's own: a commented file to begin with, and a check of what is missing or wrong in it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from evenli.audit.suites.checks import CONTROL_TEMPLATES, gold_pairs, is_known, usable_templates
from evenli.audit.suites.groups.build import FEWEST
from evenli.core.errors import InputError
from evenli.core.io import write_together
from evenli.core.labels import LABELS
from evenli.stats.intervals import POWER_FACTOR
from evenli.words import Axis, load_axis
from evenli.words.templates import SLOT, leaking_words

ENOUGH = 20
"""Words of a class from which on a comparison is worth making."""
_NAME = re.compile(r"[a-z][a-z0-9_]*")

_NEW = Path(__file__).with_name("new_axis.toml")
"""What a new axis begins with, beside its words; {name} is its name."""


@dataclass(frozen=True)
class Problem:
    """Something to mend (``error``) or to know (``warning``) about an axis."""

    kind: str
    text: str


def new_axis(name: str, folder: str | Path = ".") -> list[Path]:
    """Write a commented axis file and its table; files with other content are never replaced."""
    if not _NAME.fullmatch(name):
        raise InputError(f"'{name}' is no name for an axis; use small letters, digits and _, beginning with a letter")
    kinds = {f"{name}.toml": _NEW, f"{name}_words.csv": _NEW.with_suffix(".csv")}
    texts = {Path(folder) / file: kind.read_text("utf-8").replace("{name}", name) for file, kind in kinds.items()}
    files = {file: text.encode() for file, text in texts.items()}
    for file, content in files.items():
        # A command that was killed half-way may have left one of the two, which is no reason to refuse.
        if file.exists() and not (file.is_file() and file.read_bytes() == content):
            raise InputError(f"{file} is there already; choose another name or delete it")
    write_together(files)
    return list(files)


def check_axis(axis: Axis | str | Path) -> list[Problem]:
    """What is missing or wrong in an axis. What keeps it from loading at all is an error of its own."""
    loaded = load_axis(axis)
    return [*_words(loaded), *(problem for lang in loaded.languages for problem in _language(loaded, lang))]


def _words(axis: Axis) -> Iterator[Problem]:
    counts = Counter(group for _, kind in axis.typed_words if kind != "neutral" for group in kind.split("|"))
    # An axis without ratings has no classes to be too small.
    for group in axis.group_names if counts else ():
        if counts[group] < ENOUGH:
            yield Problem("warning", f"{counts[group]} words are stereotyped with '{group}'{_power(counts[group])}")
    untyped = sum(stereotype == "neutral" for _, stereotype in axis.typed_words)
    if untyped < ENOUGH:
        yield Problem("warning", f"{untyped} words have no stereotype{_power(untyped)}")


def _power(words: int) -> str:
    if not words:
        return ": nothing can be said about them"
    # The worst case of a share, answers alike within a word: what n words detect with 80 % power.
    smallest = min(1.0, POWER_FACTOR * math.sqrt(0.25 / words))
    return f", fewer than {ENOUGH}: power is low, a share must differ from even by about {smallest:.2f} to be found"


def _language(axis: Axis, lang: str) -> Iterator[Problem]:
    language, revealing = axis.languages[lang], axis.revealing_words(lang)
    nouns = Counter(language.group_words.values())
    for noun, times in nouns.items():
        if times > 1:
            yield Problem("error", f"{lang}: {times} groups are called '{noun}'; give each a noun of its own")
    for group, noun in language.group_words.items():
        if noun == language.person:
            yield Problem("error", f"{lang}: the noun of '{group}' is the word for any person, '{noun}'")
        elif not leaking_words(noun, revealing, lang):
            yield Problem("warning", f"{lang}: '{noun}' is not among the revealing words; a sentence may hold it")
    words = [occupation.word for occupation in axis.occupations(lang)]
    leaks = [word for word in words if word not in nouns and leaking_words(word, revealing, lang)]
    if leaks:
        yield Problem("warning", f"{lang}: {len(leaks)} words state a group and are left out, first: '{leaks[0]}'")
    templates = axis.templates(lang)
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            yield Problem("error", f"{lang}: template {number} has no {SLOT} slot: '{template}'")
    usable = usable_templates(axis, lang, FEWEST)
    if len(usable) < FEWEST:
        yield Problem(
            "error", f"{lang}: {len(usable)} usable templates of {len(templates)}; at least {FEWEST} are needed"
        )
    elif len(templates) < CONTROL_TEMPLATES + FEWEST:
        yield Problem("warning", f"{lang}: {len(templates)} templates; control pairs and pairs of the audit share them")
    counts = Counter(gold_pairs(lang, axis=axis).frame["gold"])
    # So few that a model which gets all of them right may have guessed.
    if few := [f"{counts[label]} {label}" for label in LABELS if not is_known(counts[label], counts[label])]:
        yield Problem(
            "error", f"{lang}: too few gold pairs for a verdict, {', '.join(few)}; give three or more of each"
        )
    if silent := [group for group, pairs in axis.paraphrases(lang).items() if not pairs]:
        yield Problem("warning", f"{lang}: no paraphrases of {', '.join(silent)}; no control pairs of the same group")
