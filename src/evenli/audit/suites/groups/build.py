"""Pairs of any number of groups: built from an axis, or a file or table of the user's own."""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import NS, PUBLISHED, SUBSETS, Request, filled_row, subset_of
from evenli.audit.suites.checks import note_design, usable_templates
from evenli.audit.suites.files import read_pairs, refuse_rows
from evenli.core.errors import InputError, ResourceError
from evenli.core.labels import NEUTRAL
from evenli.words import Axis, load_axis
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import SLOT, deal, leaking_words, looks_like

PAIRS = 5_420
"""Pairs of an ordinary audit; words meet as many templates as keep a set near it."""
FEWEST, MOST = 3, 10
STEREOTYPED = "stereotyped"
"""Class of all words with a stereotype: words are drawn from it, whatever their groups."""


def load(request: Request) -> PairSet:
    """The pairs that a request asks for."""
    if request.split != "full" or request.tokenised:
        raise InputError("suite groups has no official release; leave split and tokenised out")
    axis = load_axis(request.axis)
    if request.data is None:
        return build_groups(request.lang, axis=axis, words=str(request.occupations or PUBLISHED))
    return check(read_pairs(request.data, request.lang, suite="groups"), request)


def build_groups(lang: str = "en", *, axis: Axis | str = "gender", words: str = PUBLISHED, seed: int = 0) -> PairSet:
    """Every word of an axis in some sentences, each asked for every group; ``words`` is a list of the axis.

    PS pairs name a group that the word is stereotyped with, AS pairs another one, NS pairs any group for a word
    without stereotype. Words with and without stereotype are dealt the same templates: so many that the set is about
    as large as an ordinary audit.
    """
    axis = load_axis(axis)
    language = axis.language(lang)
    if words not in (known := (PUBLISHED, *language.lists)):
        raise InputError(f"axis '{axis.id}' has no list '{words}' in '{lang}'; choose {', '.join(known)}")
    listed = axis.occupations(lang) if words == PUBLISHED else axis.read_list(lang, words)
    revealing = axis.revealing_words(lang)
    kept = [occupation for occupation in listed if not leaking_words(occupation.word, revealing, lang)]
    if not kept:
        raise ResourceError(f"axis '{axis.id}' has no word without a group word in it")
    width = max(FEWEST, min(MOST, PAIRS // (len(kept) * len(axis.groups))))
    templates = usable_templates(axis, lang, width)
    if missing := next((template for template in templates if SLOT not in template), None):
        raise ResourceError(f"axis '{axis.id}': a template has no {SLOT} slot: '{missing}'")
    if len(templates) < width:
        raise ResourceError(f"axis '{axis.id}' has {len(templates)} templates in '{lang}'; {width} are needed")
    kinds = [[o.word for o in kept if bool(o.groups) is typed] for typed in (False, True)]
    # So few that each is met by two words with a stereotype: those of one group and of others meet the same ones.
    most = len(kinds[1]) * width // 2 if kinds[1] else len(templates)
    met = deal(kinds, templates[: max(width, most)], width, seed)
    rows = (
        filled_row(
            template,
            word.word,
            noun,
            subset=subset_of(group, word.groups),
            stereotype=STEREOTYPED if word.groups else NO_STEREOTYPE,
            group=group,
        )
        for word in kept
        for template in met[word.word]
        for group, noun in language.group_words.items()
    )
    left_out = f"{len(listed) - len(kept)} words name a group themselves and are left out"
    counts = f"{len(kept)} words, {len(language.group_words)} groups, width {width}, seed {seed}"
    return PairSet.from_rows(
        rows,
        name=f"built-in, axis {axis.id}{'' if words == PUBLISHED else f', {words}'}",
        suite="groups",
        lang=lang,
        source=f"built by evenli: axis {axis.id}, {counts}",
        notes=(left_out,) if kept != listed else (),
        occupation_list="" if words == PUBLISHED else words,
    )


def check(pairs: PairSet, request: Request) -> PairSet:
    """What a pair set of the user's own must have; words of a group are known by its PS pairs."""
    column = pl.col
    needed = {"occupation": "word", "template": "template", "group": "group"}
    rules = {
        "subset '{subset}' is not one of PS, AS, NS": ~column("subset").is_in(SUBSETS).fill_null(value=False),
        **{f"no {what}; suite groups needs the column {name}": column(name).is_null() for name, what in needed.items()},
        "gold label '{gold}'; in suite groups all are neutral": column("gold") != NEUTRAL,
    }
    refuse_rows(pairs, rules, pairs.name)
    first = str(pairs.frame["premise"][0])
    if not looks_like(first, pairs.lang):
        raise InputError(
            f"{pairs.name}: '{first}' does not look like language '{pairs.lang}'; set the language (--lang)"
        )
    by_word = pairs.frame.group_by("occupation", "group", maintain_order=True).agg(kinds=column("subset").unique())
    if (mixed := by_word.filter(column("kinds").list.len() > 1)).height:
        word, group, kinds = mixed.row(0)
        raise InputError(f"{pairs.name}: '{word}' with group '{group}' is {' and '.join(sorted(kinds))}; give one")
    kind = pl.when(column("subset") == NS).then(pl.lit(NO_STEREOTYPE)).otherwise(pl.lit(STEREOTYPED))
    typed = pairs.frame.with_columns(stereotype=kind, gold=pl.lit(NEUTRAL))
    return note_design(replace(pairs, frame=typed), axis=request.axis)
