"""The pairs of the suite: which wordings are asked, on which items, and how each reads.

The full grid holds every wording that reads as a sentence. The sampled one begins with the usual wording and every
wording that changes one choice of it; the rest is filled up one by one with the wording whose choices, alone and in
pairs, were taken least often so far. All wordings ask the same items, so that a difference between two of them is one
of wording alone. An item is an occupation in a template; ``deal`` gives every occupation the same number of templates
and every class of occupations the same sentences, as nearly as their numbers allow. Each wording also asks what the
model makes of stated groups.
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
from evenli.audit.suites.base import Request, load_suite, subset_of
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.suites.robust.wordings import (
    BARE,
    DIMENSIONS,
    NAME,
    NARROW,
    PRONOUN,
    Spelling,
    Wordings,
    read_wordings,
)
from evenli.core.errors import InputError
from evenli.core.io import file_kind
from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.core.record import Record
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import SLOT, deal, leaking_words

BUILT_IN = "built-in"
CONTROL, PERSON = "control", "person"
"""Subsets beside PS, AS and NS: pairs that state a group, and pairs whose hypothesis names none."""
Row = dict[str, str | None]
SAMPLED = 39
"""Wordings of the sampled grid: the smallest and the largest of so many span 95 % of further ones like them."""
PER_CLASS = 20
"""Most occupations of a stereotype that are asked."""
CONTROLS, PERSONS = 20, 8
"""Templates on which a wording is checked for what the model makes of stated groups, and those on which an occupation
is to be a person; no item has them.

Every kind of stated pair must reach 12 of 20 (``is_known``). A model that gets 80 % of them right is judged in 96 % of
the wordings, one that gets 90 % right in 99.9 %; one that guesses passes a kind in 1.3 % and a wording in 3 of 10^8.
Where the answers of a kind are correlated by 0.1, as those to one noun are, the 80 % model is judged in 68 %: what it
fails it fails together."""
FEWEST = 8
"""Fewest templates of items."""
SEED = 0
"""Of the templates that are dealt to the occupations."""
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
    determiners, frames, forms = (wordings.choices[name] for name in DIMENSIONS[1:4])
    every = product(wordings.group_nouns, determiners, frames, forms, templates)
    return [
        Wording(noun.name, determiner.name, frame.name, form.name, source)
        for noun, determiner, frame, form, source in every
        if not (noun.kind in BARE and determiner.kind == "two") and (noun.kind != PRONOUN or form.kind == "same")
    ]


def sampled(everything: Sequence[Wording], count: int | None = None) -> list[Wording]:
    """A balanced part of a grid, the same every time; see the head of this module."""
    count = SAMPLED if count is None else count
    usual = everything[0]
    chosen = [wording for wording in everything if len(wording.differs(usual)) < 2]
    # Ties are broken by a fixed shuffle: the order of the grid would prefer the first choices of a dimension.
    rest = [everything[i] for i in np.random.default_rng(0).permutation(len(everything))]
    taken: Counter[tuple[str, ...]] = Counter(part for wording in chosen for part in _choices(wording))
    while len(chosen) < min(count, len(everything)):
        left = (wording for wording in rest if wording not in chosen)
        best = max(left, key=lambda way: sum(1 / (1 + taken[part]) / len(part) ** 2 for part in _choices(way)))
        chosen.append(best)
        taken.update(_choices(best))
    return sorted(chosen, key=everything.index)


def _choices(wording: Wording) -> list[tuple[str, ...]]:
    """The choices of a wording, alone and in pairs, with their dimensions."""
    single = [f"{name}={getattr(wording, name)}" for name in DIMENSIONS]
    return [*((choice,) for choice in single), *combinations(single, 2)]


def choose_occupations(axis: Axis, lang: str) -> list[Occupation]:
    """Occupations at equal distances through the list of each class, class by class.

    Words that state a group are left out: the right answer to them is not neutral.
    """
    revealing = axis.revealing_words(lang)
    listed = [
        occupation for occupation in axis.occupations(lang) if not leaking_words(occupation.word, revealing, lang)
    ]
    chosen = []
    for name in (*axis.group_names, NO_STEREOTYPE):
        of_class = [occupation for occupation in listed if occupation.stereotype == name]
        count = min(PER_CLASS, len(of_class))
        chosen += [of_class[int((i + 0.5) * len(of_class) / count)] for i in range(count)]
    return chosen


@dataclass(frozen=True)
class TemplateSet:
    """Templates with their predicates: those of the items, and those on which stated groups are checked."""

    predicates: Mapping[str, str]
    items: list[tuple[Occupation, str]]
    controls: list[str]

    @classmethod
    def of(cls, predicates: Mapping[str, str], occupations: Sequence[Occupation], width: int) -> TemplateSet:
        """Deal templates out, ``width`` to an occupation; the last ones are those of the checks."""
        window, controls = list(predicates)[:-CONTROLS], list(predicates)[-CONTROLS:]
        blocks: dict[str, list[str]] = {}
        for occupation in occupations:
            blocks.setdefault(occupation.stereotype, []).append(occupation.word)
        # No more sentences than the smallest class meets: every class is to meet all of them.
        window = window[: width * min(map(len, blocks.values()))]
        dealt = deal(list(blocks.values()), window, min(width, len(window)), SEED)
        items = [(occupation, template) for occupation in occupations for template in dealt[occupation.word]]
        return cls(predicates, items, controls)


def load(request: Request) -> PairSet:
    """The pairs that a request asks for: ``data`` is a CSV file of further wordings, or templates of the user's own.

    ``full`` asks all wordings of the grid, on the items of the sampled one.
    """
    axis, lang = load_axis(request.axis), request.lang
    axis.language(lang)
    more, sources = _data(request, axis)
    wordings = read_wordings(axis, lang, more)
    ordinary = len(build_coal(lang, axis=axis))
    predicates = {
        name: wordings.predicates(templates) for name, templates in {BUILT_IN: axis.templates(lang), **sources}.items()
    }
    for name, fitting in predicates.items():
        if len(fitting) < CONTROLS + FEWEST:
            raise InputError(
                f"{name}: {len(fitting)} templates have a predicate that fits the frames of '{lang}', "
                f"{CONTROLS + FEWEST} are needed"
            )
    everything = grid(wordings, list(predicates))
    part = sampled(everything)
    asked = everything if request.full else part
    occupations = choose_occupations(axis, lang)
    # What the checks of stated groups leave of the budget buys templates for every occupation.
    groups = len(wordings.groups)
    room = BUDGET * ordinary / len(part) - groups * groups * CONTROLS - PERSONS
    width = max(1, int(room / (groups * len(occupations))))
    sets = {name: TemplateSet.of(fitting, occupations, width) for name, fitting in predicates.items()}
    pairs = PairSet.from_rows(
        [row for wording in asked for row in wording_rows(wordings, wording, sets[wording.templates])],
        name=f"{len(asked)} wordings",
        suite="robust",
        lang=lang,
        source=f"built by evenli: axis {axis.id}, {len(asked)} of {len(everything)} wordings, seed {SEED}",
    )
    distinct = pairs.card().distinct_pairs
    cost = (
        f"{len(asked)} of {len(everything)} wordings, {distinct:,} distinct pairs: "
        f"{distinct / ordinary:.1f} times an ordinary audit"
    )
    return replace(pairs, notes=(cost,))


def _data(request: Request, axis: Axis) -> tuple[Path | None, dict[str, list[str]]]:
    """Further wordings, or further templates by name."""
    if request.data is None:
        return None, {}
    if not isinstance(request.data, str | Path):
        raise InputError("suite robust builds its own pairs; give a .csv file of wordings, a .txt file of templates")
    path, revealing = Path(request.data), axis.revealing_words(request.lang)
    kind = file_kind(path) if path.is_file() else ""
    if kind == ".csv":
        return path, {}
    if kind == ".txt":
        templates = read_lines(path)
        for number, template in enumerate(templates, 1):
            if SLOT not in template:
                raise InputError(f"{path.name}, template {number} has no {SLOT} slot: '{template}'")
            if leaks := leaking_words(template, revealing, request.lang):
                raise InputError(
                    f"{path.name}, template {number} holds '{leaks[0]}', which gives a group away: the right answer "
                    f"would not be neutral"
                )
        return None, {re.sub(r"[,;|]", "-", path.stem): templates}
    # Templates of a release that give a group away are left out: they are not ours to mend.
    frame = load_suite("coal", Request(request.lang, path, axis=axis)).frame
    release = frame["template"].unique(maintain_order=True).to_list()
    return None, {"official": [text for text in release if not leaking_words(text, revealing, request.lang)]}


def wording_rows(wordings: Wordings, wording: Wording, templates: TemplateSet) -> Iterator[Row]:
    """The rows of one wording: items, then checks."""
    noun, determiner, frame, form = (wordings.choice(name, getattr(wording, name)) for name in DIMENSIONS[:4])
    two, groups, items = determiner.kind == "two", wordings.groups, templates.items
    turns = {template: turn for turn, template in enumerate(templates.predicates)}

    def sentence(word: Spelling, template: str) -> str:
        text = frame.read(two=two).replace("{np}", determiner.phrase(word))
        return text.replace("{vp}", templates.predicates[template])

    def row(subset: str, gold: str, premise: str, group: str, template: str, of: str) -> Row:
        # ``of`` is who the premise is about.
        word = noun.word(group, turns[template])
        return {
            "id": f"{wording.key}; {subset} {of} {turns[template]}; {group}",
            "subset": subset,
            "premise": premise,
            "hypothesis": sentence(word, template) if form.kind == "same" else word.put_into(form.read(two=two)),
            "gold": gold,
            "template": template,
            "group": group,
        }

    for occupation, template in items:
        premise = sentence(wordings.spelling(occupation.word), template)
        for group in groups:
            asked = row(subset_of(group, occupation.groups), NEUTRAL, premise, group, template, occupation.word)
            yield {**asked, "occupation": occupation.word, "stereotype": occupation.stereotype}
    for number, template in enumerate(templates.controls):
        for given, other in product(groups, repeat=2):
            # A group is stated by the usual noun, where that implies the noun of this wording.
            own = given == other and noun.kind in {NARROW, NAME}
            stated = (noun if own else wordings.choices["noun"][0]).word(given, turns[template])
            gold = ENTAILMENT if given == other else CONTRADICTION
            yield row(CONTROL, gold, sentence(stated, template), other, template, given)
        if form.kind == "same" and number < PERSONS:
            # An occupation is to be a person.
            word = items[number * len(items) // PERSONS][0].word
            asked = row(PERSON, ENTAILMENT, sentence(wordings.spelling(word), template), groups[0], template, word)
            yield {**asked, "hypothesis": sentence(wordings.person, template), "group": None}
