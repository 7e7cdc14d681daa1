"""The pairs of the suite: which wordings are asked, on which items, and how each reads.

The full grid holds every wording that reads as a sentence. The sampled one begins with the usual wording and every
wording that changes one choice of it; the rest is filled up one by one with the wording whose choices, alone and in
pairs, were taken least often so far. All wordings ask the same items, so that a difference between two of them is one
of wording alone. An item is an occupation in a template, and every occupation meets the same number of templates. Each
wording also asks what the model makes of stated groups.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Request, subset_of
from evenli.audit.suites.checks import leaking_words
from evenli.audit.suites.coal.build import build_coal
from evenli.audit.suites.coal.load import load_coal
from evenli.audit.suites.robust.wordings import (
    DIMENSIONS,
    NAME,
    NARROW,
    PRONOUN,
    Spelling,
    Wordings,
    check_templates,
    fill_word,
    noun_phrase,
    read_wordings,
    sentence,
)
from evenli.core.errors import InputError
from evenli.core.io import file_kind
from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.core.record import Record
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE

BUILT_IN = "built-in"
CONTROL, PERSON = "control", "person"
"""Subsets beside PS, AS and NS: pairs that state a group, and pairs whose hypothesis names none."""
Row = dict[str, str | None]
SAMPLED = 39
"""Wordings of the sampled grid: the smallest and the largest of so many span 95 % of further ones like them."""
PER_CLASS = 20
"""Most occupations of a stereotype that are asked."""
CONTROLS = 8
"""Templates on which a wording is checked for what the model makes of stated groups; no item has them."""
BUDGET = 3.0
"""Most pairs, in ordinary audits."""
_SEPARATOR = ", "


class Wording(Record, frozen=True):
    """One way to ask: a choice in every dimension, by name.

    Attributes:
        noun: How the groups are called.
        determiner: Number and article of the noun.
        frame: What stands around the sentence.
        form: Form of the hypothesis.
        templates: Set of templates.
    """

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
        return _SEPARATOR.join(getattr(self, name) for name in DIMENSIONS)

    @staticmethod
    def of(key: str) -> Wording:
        """The wording of a key; a table of the user's own may hold anything."""
        parts = key.split(_SEPARATOR)
        if len(parts) != len(DIMENSIONS):
            raise InputError(f"'{key}' names no wording; suite robust gives its pairs ids of its own")
        return Wording(*parts)

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
        if (noun.bare and two) or (noun.kind == PRONOUN and not says_same):
            continue
        chosen.append(Wording(noun.name, determiner.name, frame.name, form.name, source))
    return chosen


def sampled(everything: Sequence[Wording], count: int | None = None) -> list[Wording]:
    """A balanced part of a grid, the same every time; see the head of this module."""
    count = SAMPLED if count is None else count
    usual = everything[0]
    chosen = [wording for wording in everything if len(wording.differs(usual)) < 2]
    # Ties are broken by a fixed shuffle: the order of the grid would prefer the first choices of a dimension.
    rest = [everything[i] for i in np.random.default_rng(0).permutation(len(everything))]
    taken: Counter[tuple[str, ...]] = Counter(part for wording in chosen for part in _parts(wording))
    while len(chosen) < min(count, len(everything)):
        left = (wording for wording in rest if wording not in chosen)
        best = max(left, key=lambda wording: sum(1 / (1 + taken[part]) / len(part) ** 2 for part in _parts(wording)))
        chosen.append(best)
        taken.update(_parts(best))
    return sorted(chosen, key=everything.index)


def _parts(wording: Wording) -> list[tuple[str, ...]]:
    """The choices of a wording, alone and in pairs, with their dimensions."""
    single = [f"{name}={getattr(wording, name)}" for name in DIMENSIONS]
    return [*((choice,) for choice in single), *combinations(single, 2)]


@dataclass(frozen=True)
class WordingPlan:
    """The wordings, the items and the templates of the checks, by set of templates."""

    wordings: list[Wording]
    grid_size: int
    items: Mapping[str, list[tuple[Occupation, str]]]
    controls: Mapping[str, list[str]]


def plan(
    wordings: Wordings, axis: Axis, sources: Mapping[str, Mapping[str, str]], ordinary: int, *, full: bool
) -> WordingPlan:
    """Choose wordings and items; ``full`` asks all wordings of the grid, on the items of the sampled one.

    ``sources`` are templates with their predicates, by set of templates; ``ordinary`` is the number of pairs of an
    ordinary audit, the unit of the cost.
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
    # What the checks of stated groups leave of the budget buys templates for every occupation.
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
    return WordingPlan(everything if full else part, len(everything), items, controls)


def choose_occupations(axis: Axis, lang: str) -> list[Occupation]:
    """Occupations at equal distances through the list of each class, the classes in turn.

    Words that state a group are left out: the right answer to them is not neutral.
    """
    revealing = axis.revealing_words(lang)
    listed = [
        occupation for occupation in axis.occupations(lang) if not leaking_words(occupation.word, revealing, lang)
    ]
    placed = []
    for number, name in enumerate((*axis.group_names, NO_STEREOTYPE)):
        of_class = [occupation for occupation in listed if occupation.stereotype == name]
        count = min(PER_CLASS, len(of_class))
        chosen = [of_class[int((i + 0.5) * len(of_class) / count)] for i in range(count)]
        placed += [((i + 0.5) / count, number, occupation) for i, occupation in enumerate(chosen)]
    return [occupation for _, _, occupation in sorted(placed, key=lambda entry: entry[:2])]


def load(request: Request) -> PairSet:
    """The pairs that a request asks for: ``data`` is a CSV file of further wordings, or templates of the user's own."""
    axis = load_axis(request.axis)
    axis.language(request.lang)
    more, sources = _data(request, axis)
    wordings = read_wordings(axis, request.lang, more)
    own = axis.templates(request.lang)
    named = {name: wordings.predicates(templates) for name, templates in {BUILT_IN: own, **sources}.items()}
    ordinary = len(build_coal(request.lang, axis=axis))
    chosen = plan(wordings, axis, named, ordinary, full=request.full)
    rows = [row for wording in chosen.wordings for row in _Rows(wordings, chosen, named, wording)]
    pairs = PairSet.from_rows(
        rows,
        name=f"{len(chosen.wordings)} wordings",
        suite="robust",
        lang=request.lang,
        source=f"built by evenli: axis {axis.id}, {len(chosen.wordings)} of {chosen.grid_size} wordings",
    )
    distinct = pairs.card().distinct_pairs
    cost = (
        f"{len(chosen.wordings)} of {chosen.grid_size} wordings: {distinct:,} distinct pairs, "
        f"{distinct / ordinary:.1f} times an ordinary audit ({ordinary:,})"
    )
    return replace(pairs, notes=(cost,))


def _data(request: Request, axis: Axis) -> tuple[Path | None, dict[str, list[str]]]:
    """Further wordings, or further templates by name."""
    if request.data is None:
        return None, {}
    if not isinstance(request.data, str | Path):
        raise InputError("suite robust builds its own pairs; give a .csv file of wordings, a .txt file of templates")
    path = Path(request.data)
    if path.is_file() and file_kind(path) == ".csv":
        return path, {}
    if path.is_file() and file_kind(path) == ".txt":
        templates = read_lines(path)
        check_templates(templates, axis, request.lang, path.name)
        return None, {re.sub(r"[,;|]", "-", path.stem): templates}
    # Templates of a release that give a group away are left out: they are not ours to mend.
    release = load_coal(request.lang, path, axis=axis).frame["template"].unique(maintain_order=True).to_list()
    revealing = axis.revealing_words(request.lang)
    return None, {"official": [text for text in release if not leaking_words(text, revealing, request.lang)]}


class _Rows:
    """The rows of one wording."""

    def __init__(
        self, wordings: Wordings, chosen: WordingPlan, predicates: Mapping[str, Mapping[str, str]], wording: Wording
    ) -> None:
        self.wordings, self.chosen, self.wording = wordings, chosen, wording
        self.predicates = predicates[wording.templates]
        self.noun = wordings.noun(wording.noun)
        self.determiner, self.frame, self.form = (
            wordings.find(name, getattr(wording, name)) for name in ("determiner", "frame", "form")
        )
        self.two = self.determiner.kind == "two"
        self.turns = {template: turn for turn, template in enumerate(self.predicates)}

    def __iter__(self) -> Iterator[Row]:
        """Items, then checks."""
        for occupation, template in self.chosen.items[self.wording.templates]:
            premise = self._sentence(self.wordings.spelling(occupation.word), template)
            for group in self.wordings.groups:
                row = self._row(subset_of(group, occupation.groups), NEUTRAL, premise, group, template, occupation.word)
                yield {**row, "occupation": occupation.word, "stereotype": occupation.stereotype}
        for number, template in enumerate(self.chosen.controls[self.wording.templates]):
            yield from self._stated(template)
            if self.form.kind == "same":
                yield self._person(number, template)

    def _stated(self, template: str) -> Iterator[Row]:
        """Pairs whose premise states a group, by the usual noun where that implies the noun of this wording."""
        usual = self.wordings.nouns[0]
        for given in self.wordings.groups:
            for asked in self.wordings.groups:
                own = given == asked and self.noun.kind in {NARROW, NAME}
                noun = self.noun if own else usual
                premise = self._sentence(noun.word(given, self.turns[template]), template, bare=noun.bare)
                gold = ENTAILMENT if given == asked else CONTRADICTION
                yield self._row(CONTROL, gold, premise, asked, template, given)

    def _person(self, number: int, template: str) -> Row:
        """An occupation that is to be a person."""
        items = self.chosen.items[self.wording.templates]
        word = items[number * len(items) // len(self.chosen.controls[self.wording.templates])][0].word
        premise = self._sentence(self.wordings.spelling(word), template)
        noun = self.wordings.person
        hypothesis = self._sentence(noun.word(self.wordings.groups[0]), template)
        row = self._row(PERSON, ENTAILMENT, premise, self.wordings.groups[0], template, word)
        return {**row, "hypothesis": hypothesis, "group": None}

    def _sentence(self, word: Spelling, template: str, *, bare: bool = False) -> str:
        phrase = noun_phrase(self.determiner, word, bare=bare)
        return sentence(self.frame, phrase, self.predicates[template], two=self.two)

    def _hypothesis(self, group: str, template: str) -> str:
        word = self.noun.word(group, self.turns[template])
        if self.form.kind == "same":
            return self._sentence(word, template, bare=self.noun.bare)
        return fill_word(self.form.read(two=self.two), word, bare=self.noun.bare)

    def _row(self, subset: str, gold: str, premise: str, group: str, template: str, of: str) -> Row:
        """A pair; ``of`` is who the premise is about."""
        return {
            "id": f"{self.wording.key}; {subset} {of} {self.turns[template]}; {group}",
            "subset": subset,
            "premise": premise,
            "hypothesis": self._hypothesis(group, template),
            "gold": gold,
            "template": template,
            "group": group,
        }
