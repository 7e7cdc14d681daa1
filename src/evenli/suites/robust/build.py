"""The pairs of the suite: items in every wording, and checks of what the model makes of stated groups in each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenli.errors import InputError
from evenli.io import file_kind
from evenli.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, load_axis, read_lines
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import Request
from evenli.suites.coal.build import AS, NS, PS, build_coal
from evenli.suites.coal.load import load_coal
from evenli.suites.robust.design import Plan, Wording, plan
from evenli.suites.robust.wordings import (
    NAME,
    NARROW,
    Spelling,
    Wordings,
    check_templates,
    fill_word,
    noun_phrase,
    read_wordings,
    sentence,
)

BUILT_IN = "built-in"
CONTROL, PERSON = "control", "person"
"""Subsets beside PS, AS and NS: pairs that state a group, and pairs whose hypothesis names none."""
Row = dict[str, Any]


def load(request: Request) -> PairSet:
    """The pairs that a request asks for: ``data`` is a CSV file of further wordings, or templates of the user's own."""
    axis = load_axis(request.axis)
    axis.language(request.lang)
    more, sources = _data(request, axis)
    wordings = read_wordings(axis, request.lang, more)
    own = axis.templates(request.lang)
    named = {name: wordings.predicates(one) for name, one in {BUILT_IN: own, **sources}.items()}
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
    return replace(pairs, notes=(cost(pairs, chosen),))


def cost(pairs: PairSet, chosen: Plan) -> str:
    """What asking takes, in a sentence."""
    distinct = pairs.card().distinct_pairs
    return (
        f"{len(chosen.wordings)} of {chosen.grid_size} wordings: {distinct:,} distinct pairs, "
        f"{distinct / chosen.ordinary:.1f} times an ordinary audit ({chosen.ordinary:,})"
    )


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
    return None, {"official": [one for one in release if not _leaks(one, axis, request.lang)]}


def _leaks(template: str, axis: Axis, lang: str) -> bool:
    try:
        check_templates([template], axis, lang, "")
    except InputError:
        return True
    return False


class _Rows:
    """The rows of one wording."""

    def __init__(
        self, wordings: Wordings, chosen: Plan, predicates: Mapping[str, Mapping[str, str]], wording: Wording
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
                pro = occupation.stereotype == group
                subset = NS if occupation.stereotype == NO_STEREOTYPE else PS if pro else AS
                row = self._row(subset, NEUTRAL, premise, group, template, occupation.word)
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
                premise = self._sentence(noun.word(given, self.turns[template]), template, alone=noun.alone)
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

    def _sentence(self, word: Spelling, template: str, *, alone: bool = False) -> str:
        phrase = noun_phrase(self.determiner, word, alone=alone)
        return sentence(self.frame, phrase, self.predicates[template], two=self.two)

    def _hypothesis(self, group: str, template: str) -> str:
        word = self.noun.word(group, self.turns[template])
        if self.form.kind == "same":
            return self._sentence(word, template, alone=self.noun.alone)
        return fill_word(self.form.read(two=self.two), word, alone=self.noun.alone)

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
