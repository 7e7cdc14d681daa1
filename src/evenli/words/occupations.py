"""Lists of occupations: the published words of an axis, another list that it names, or a file of the user's own.

A list beside the published one is a table with the column ``word`` and ``stereotype`` (or ``class``: a group of the
axis, or neutral), or ``women_percent``, the share of women in that occupation from 0 to 100. By share, a word is female
from 70, male up to 30, neutral from 40 to 60, and left out in between.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli.core.errors import InputError
from evenli.core.io import iter_rows
from evenli.words.axes import NO_STEREOTYPE, Axis, Occupation
from evenli.words.templates import SLOT, looks_like

PUBLISHED, LABOUR = "published", "labour"
"""The occupations of the papers, and those of labour statistics; an axis may have further lists."""
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
    with contextlib.suppress(TypeError, ValueError):
        if 0 <= (women := float(text)) <= 100:
            return women
    raise InputError(f"{where}: {_SHARE} is '{str(text).strip()}', not a number from 0 to 100")
