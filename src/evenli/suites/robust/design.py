"""Which wordings are asked, and on which items: every choice often enough, at a bounded cost.

The full grid holds every wording that reads as a sentence. The sampled one begins with the usual wording and every
wording that changes one choice of it; the rest is filled up one by one with the wording whose choices, alone and in
pairs, were taken least often so far. All wordings ask the same items, so that a difference between two of them is one
of wording alone. An item is an occupation in a template, and every occupation meets the same number of templates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, product

import numpy as np

from evenli.errors import InputError
from evenli.resources import Axis, Occupation
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.checks import leaking_words
from evenli.suites.robust.wordings import DIMENSIONS, PRONOUN, Wordings

SAMPLED = 39
"""Wordings of the sampled grid: the smallest and the largest of so many span 95 % of further ones like them."""
PER_CLASS = 20
"""Most occupations of a stereotype that are asked."""
CONTROLS = 8
"""Templates on which a wording is checked for what the model makes of stated groups; no item has them."""
BUDGET = 3.0
"""Most pairs, in ordinary audits."""
_SEPARATOR = ", "


@dataclass(frozen=True)
class Wording:
    """One way to ask: a choice in every dimension, by name."""

    noun: str
    determiner: str
    frame: str
    form: str
    templates: str

    @property
    def key(self) -> str:
        """Its name in ids and tables.

        >>> Wording("he", "the", "bare", "same sentence", "built-in").key
        'he, the, bare, same sentence, built-in'
        """
        return _SEPARATOR.join(asdict(self).values())

    @classmethod
    def of(cls, key: str) -> Wording:
        """The wording of a key; a table of the user's own may hold anything."""
        parts = key.split(_SEPARATOR)
        if len(parts) != len(DIMENSIONS):
            raise InputError(f"'{key}' names no wording; suite robust gives its pairs ids of its own")
        return cls(*parts)

    def differs(self, other: Wording) -> list[str]:
        """The dimensions in which two wordings differ."""
        return [name for name in DIMENSIONS if getattr(self, name) != getattr(other, name)]


def grid(wordings: Wordings, templates: Sequence[str]) -> list[Wording]:
    """Every wording that reads as a sentence; the usual one comes first.

    A pronoun cannot stand behind *the person is a*, and neither it nor a name speaks of two.
    """
    chosen = []
    choices = product(wordings.group_nouns, wordings.determiners, wordings.frames, wordings.forms, templates)
    for noun, determiner, frame, form, source in choices:
        two, says_same = determiner.kind == "two", form.kind == "same"
        if (noun.alone and two) or (noun.kind == PRONOUN and not says_same):
            continue
        chosen.append(Wording(noun.name, determiner.name, frame.name, form.name, source))
    return chosen


def sampled(everything: Sequence[Wording], count: int | None = None) -> list[Wording]:
    """A balanced part of a grid, the same every time; see the head of this module."""
    count = SAMPLED if count is None else count
    usual = everything[0]
    chosen = [one for one in everything if len(one.differs(usual)) < 2]
    # Ties are broken by a fixed shuffle: the order of the grid would prefer the first choices of a dimension.
    rest = [everything[i] for i in np.random.default_rng(0).permutation(len(everything))]
    taken: Counter[tuple[str, ...]] = Counter(part for one in chosen for part in _parts(one))
    while len(chosen) < min(count, len(everything)):
        left = (one for one in rest if one not in chosen)
        best = max(left, key=lambda one: sum(1 / (1 + taken[part]) / len(part) ** 2 for part in _parts(one)))
        chosen.append(best)
        taken.update(_parts(best))
    return sorted(chosen, key=everything.index)


def _parts(wording: Wording) -> list[tuple[str, ...]]:
    """The choices of a wording, alone and in pairs, with their dimensions."""
    single = [f"{name}={getattr(wording, name)}" for name in DIMENSIONS]
    return [*((one,) for one in single), *combinations(single, 2)]


def balance(chosen: Sequence[Wording]) -> dict[str, dict[str, int]]:
    """How often each choice was taken, by dimension."""
    return {name: dict(Counter(getattr(one, name) for one in chosen)) for name in DIMENSIONS}


@dataclass(frozen=True)
class Plan:
    """The wordings, the items and the templates of the checks, by set of templates."""

    wordings: list[Wording]
    grid_size: int
    items: Mapping[str, list[tuple[Occupation, str]]]
    controls: Mapping[str, list[str]]
    ordinary: int  # pairs of an ordinary audit


def plan(
    wordings: Wordings,
    axis: Axis,
    sources: Mapping[str, Mapping[str, str]],
    ordinary: int,
    *,
    full: bool = False,
) -> Plan:
    """Choose wordings and items.

    Args:
        wordings: The choices of a language.
        axis: Whose occupations are asked.
        sources: Templates with their predicates, by set of templates.
        ordinary: Pairs of an ordinary audit, the unit of the cost.
        full: Ask all wordings of the grid, on the items of the sampled one.
    """
    occupations = choose_occupations(axis, wordings.lang)
    needed = 2 * CONTROLS
    for name, predicates in sources.items():
        if len(predicates) < needed:
            raise InputError(
                f"{name}: {len(predicates)} templates have a predicate that fits the frames of '{wordings.lang}', "
                f"{needed} are needed"
            )
    everything = grid(wordings, list(sources))
    part = sampled(everything)
    groups = len(wordings.groups)
    checks = (groups * groups + 1) * CONTROLS
    room = BUDGET * ordinary / len(part) - checks
    width = max(1, int(room / (groups * len(occupations))))
    items, controls = {}, {}
    for name, predicates in sources.items():
        window, controls[name] = list(predicates)[:-CONTROLS], list(predicates)[-CONTROLS:]
        # Each occupation begins one template further on, and the window closes to a ring.
        items[name] = [
            (occupation, window[(k + j) % len(window)])
            for k, occupation in enumerate(occupations)
            for j in range(min(width, len(window)))
        ]
    return Plan(everything if full else part, len(everything), items, controls, ordinary)


def choose_occupations(axis: Axis, lang: str, most: int = PER_CLASS) -> list[Occupation]:
    """Occupations at equal distances through the list of each class, the classes in turn.

    Words that state a group are left out: the right answer to them is not neutral.
    """
    revealing = axis.revealing_words(lang)
    listed = [one for one in axis.occupations(lang) if not leaking_words(one.word, revealing, lang)]
    placed = []
    for number, name in enumerate((*axis.group_names, NO_STEREOTYPE)):
        of_class = [one for one in listed if one.stereotype == name]
        count = min(most, len(of_class))
        chosen = [of_class[int((i + 0.5) * len(of_class) / count)] for i in range(count)]
        placed += [((i + 0.5) / count, number, one) for i, one in enumerate(chosen)]
    return [one for _, _, one in sorted(placed, key=lambda entry: entry[:2])]
