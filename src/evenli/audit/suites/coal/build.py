"""The NLI-CoAL builder: occupations slide over templates, premise and hypothesis differ in one slot.

Occupations are the published words of an axis, another list that it names, or a file of the user's own. A list beside
the published one is a table with the column ``word`` and ``stereotype`` (or ``class``: a group of the axis, or
neutral), or ``women_percent``, the share of women in that occupation from 0 to 100. By share, a word is female from 70,
male up to 30, neutral from 40 to 60, and left out in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.settings import PUBLISHED, CoalSettings
from evenli.audit.suites.base import AS, NS, PS, filled_row
from evenli.audit.suites.checks import CheckedPairs, validate
from evenli.audit.suites.files import write_pairs
from evenli.core.errors import InputError, ResourceError
from evenli.core.io import iter_rows
from evenli.core.settings import settings_of
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.templates import SLOT, looks_like


def build_coal(lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> PairSet:
    """Build PS, AS and NS pairs with the sliding window of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    Occupation ``k`` meets templates ``k .. k + width - 1``. PS pairs name the group an occupation is stereotyped as, AS
    pairs every other group, NS pairs give an unstereotyped occupation every group in turn. The gold label is always
    neutral; ids count from 0 through PS, AS and NS.

    Published words stand in blocks, neutral ones first, so each class meets templates of its own. The classes of any
    other list take turns instead: they meet the same templates, and what a template does cancels between them.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    settings = settings_of(CoalSettings, settings, options, "build_coal")
    axis, width, seed = load_axis(settings.axis), settings.width, settings.seed
    words = load_occupations(settings.occupations, lang, axis)
    # The published list keeps its blocks, so that a release is built again byte for byte.
    own, given = "" if words.name == PUBLISHED else words.name, words.occupations
    window = settings.templates
    if isinstance(window, str | Path):
        window = read_lines(Path(window))
    window = axis.templates(lang) if window is None else list(window)
    _check(given, window, width, axis)
    blocks = [[o for o in given if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]
    if seed is not None:
        generator = np.random.default_rng(seed)
        blocks = [[block[i] for i in generator.permutation(len(block))] for block in blocks]
        window = [window[i] for i in generator.permutation(len(window))]
    placed = list(enumerate(in_turn(blocks) if own else chain(*blocks)))
    nouns = axis.language(lang).group_words
    typed = [(k, o) for k, o in placed if o.stereotype != NO_STEREOTYPE]
    asked = [(PS, k, o, o.stereotype) for k, o in typed]
    asked += [(AS, k, o, group) for k, o in typed for group in nouns if group != o.stereotype]
    neutral_order = settings.neutral_group_order or axis.group_names
    asked += [(NS, k, o, group) for group in neutral_order for k, o in placed if o.stereotype == NO_STEREOTYPE]
    rows = (
        filled_row(template, o.word, nouns[group], subset=subset, stereotype=o.stereotype, group=group)
        for subset, k, o, group in asked
        for template in window[k : k + width]
    )
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, seed {seed}"
    name = f"built-in, {own} occupations" if own else "built-in"
    kept: dict[str, Any] = {"notes": words.notes, "occupation_list": own, "scores": words.scores}
    return PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source, **kept)


def write_coal(out: str | Path, lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> CheckedPairs:
    """Build an NLI-CoAL set, write it as .jsonl, .csv or .parquet, and check every row; ``evenli build coal``.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    path, settings = Path(out), settings_of(CoalSettings, settings, options, "write_coal")
    pairs = replace(build_coal(lang, settings), name=path.name)  # so that a run tells which file it asked
    write_pairs(pairs, path)
    return CheckedPairs(pairs, tuple(validate(pairs, axis=settings.axis)), path)


def in_turn(blocks: Sequence[Sequence[Occupation]]) -> list[Occupation]:
    """The occupations of all blocks, each block spread evenly over the whole."""
    places = [((k + 0.5) / len(block), number, k) for number, block in enumerate(blocks) for k in range(len(block))]
    return [blocks[number][k] for _, number, k in sorted(places)]


def _check(occupations: Sequence[Occupation], templates: Sequence[str], width: int, axis: Axis) -> None:
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            raise ResourceError(f"template {number} has no {SLOT} slot: '{template}'")
    known = {NO_STEREOTYPE, *axis.group_names}
    for occupation in occupations:
        if occupation.stereotype not in known:
            raise ResourceError(
                f"occupation '{occupation.word}' is typed '{occupation.stereotype}'; "
                f"axis '{axis.id}' knows {', '.join(sorted(known))}; a word of several groups is for suite groups"
            )
    if not occupations:
        raise InputError("the builder needs at least one occupation")
    needed = len(occupations) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(occupations)} occupations at width {width} need {needed} templates, {len(templates)} were given"
        )


TYPICAL, EVEN = 70.0, 40.0
"""Percent of one gender from which on an occupation is typed, and percent of both that make it neutral."""
_SHARE = "women_percent"


@dataclass(frozen=True)
class OccupationList:
    """Typed occupations and where they come from."""

    name: str  # published, the name of a list of the axis, or that of a file
    occupations: tuple[Occupation, ...]
    # Share of men minus share of women by word, -1 to 1, where known; the published list has scores on the axis.
    scores: Mapping[str, float]
    notes: tuple[str, ...] = ()  # what a reader must know


def class_of_share(women: float) -> str | None:
    """The class of an occupation by the percentage of women in it; None between the classes.

    >>> class_of_share(87.9), class_of_share(50), class_of_share(65)
    ('female', 'neutral', None)
    """
    if max(women, 100 - women) >= TYPICAL:
        return "female" if women >= TYPICAL else "male"
    return NO_STEREOTYPE if min(women, 100 - women) >= EVEN else None


def load_occupations(given: str | Path | Iterable[Occupation], lang: str, axis: Axis) -> OccupationList:
    """A list by name or from a file, or words that are typed already; what cannot be used is refused with its line.

    ``given`` is ``published``, a list that the axis has in this language, or the path of a .csv or .tsv file.
    """
    lists = axis.language(lang).lists
    if given == PUBLISHED:
        given = axis.occupations(lang)
    if not isinstance(given, str | Path):
        return OccupationList(PUBLISHED, tuple(given), {})
    if given in lists:
        table = lists[str(given)]
        # The first line of a table is its header.
        return _parse(enumerate(table.rows("word"), 2), str(given), table.name, lang, axis)
    path = Path(given)
    if path.suffix.lower() not in {".csv", ".tsv"}:
        named = ", ".join((PUBLISHED, *lists))
        elsewhere = [code for code, words in axis.languages.items() if given in words.lists]
        hint = f" (it is there in {', '.join(elsewhere)})" if elsewhere else ""
        raise InputError(
            f"no occupation list '{given}' in language '{lang}'{hint}; choose {named} or give a .csv or .tsv file"
        )
    return _parse(iter_rows(path), path.name, path.name, lang, axis)


def stored_scores(card: Mapping[str, Any]) -> dict[str, float]:
    """The scores that a run keeps of its list, empty for the published one; what is no number is left out."""
    scores = card.get("scores")
    numbers = scores.items() if isinstance(scores, dict) else ()
    return {word: float(score) for word, score in numbers if isinstance(score, int | float) and abs(score) <= 1}


def _parse(
    rows: Iterable[tuple[int, Mapping[str, Any]]], name: str, origin: str, lang: str, axis: Axis
) -> OccupationList:
    """A list from its rows; the first fault is an error with its line."""
    typed: list[Occupation] = []
    scores: dict[str, float] = {}
    between: list[str] = []
    lines: dict[str, int] = {}
    for line, row in rows:
        where = f"{origin}, line {line}"
        column = next((name for name in ("stereotype", "class") if name in row), None)
        if "word" not in row or not (column or _SHARE in row):
            has = ", ".join(str(name) for name in row if name)
            raise InputError(f"{origin} needs the columns word and stereotype, or word and {_SHARE}; it has {has}")
        if None in row:
            raise InputError(f"{where}: more cells than columns")
        word = (row["word"] or "").strip()
        if not word or SLOT in word or not word.isprintable():
            raise InputError(f"{where}: '{word}' is no word" if word else f"{where}: the word is empty")
        if not looks_like(word, lang):
            raise InputError(f"{where}: '{word}' does not look like language '{lang}'")
        if (first := lines.setdefault(word.casefold(), line)) != line:
            raise InputError(f"{where}: '{word}' stands on line {first} already")
        women = _share(row[_SHARE], where) if row.get(_SHARE) else None
        stereotype = _class((row[column] or "").strip() if column else "", women, where, axis)
        if stereotype is None:
            between.append(word)
            continue
        typed.append(Occupation(word, stereotype, word))
        if women is not None:
            scores[word] = round(1 - women / 50, 6)
    if not lines:
        raise InputError(f"{origin} holds no occupations")
    if not typed:
        raise InputError(f"{origin} types no occupation: {len(between)} words lie between the classes")
    # Shares from 0 to 1 would make every word male.
    if scores and min(scores.values()) >= 1 - 1 / 50:
        raise InputError(f"{origin}: {_SHARE} is at most 1 in every row; give percentages, 0 to 100")
    few = ", ".join(between[:3]) + (" …" if len(between) > 3 else "")
    left_out = f"{len(between)} words of {origin} lie between the classes and are left out: {few}"
    return OccupationList(name, tuple(typed), scores, (left_out,) if between else ())


def _class(given: str, women: float | None, where: str, axis: Axis) -> str | None:
    known = (*axis.group_names, NO_STEREOTYPE)
    if given:
        name = NO_STEREOTYPE if given.lower() == "none" else given.lower()
        if name not in known:
            raise InputError(f"{where}: '{given}' is no class; choose {', '.join(known)}")
        return name
    if women is None:
        raise InputError(f"{where}: neither a class nor {_SHARE}")
    if not {"female", "male"} <= set(known):
        raise InputError(f"{where}: {_SHARE} types no words of axis '{axis.id}'; give the column stereotype")
    return class_of_share(women)


def _share(text: Any, where: str) -> float:
    try:
        women = float(text)
    except (TypeError, ValueError):
        women = -1.0
    if not 0 <= women <= 100:
        raise InputError(f"{where}: {_SHARE} is '{str(text).strip()}', not a number from 0 to 100")
    return women
