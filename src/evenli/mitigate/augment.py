"""Counterfactual augmentation: add gender-swapped copies of training pairs.

Two choices of what to copy. ``select="all"`` copies every pair with a word that can be swapped.
``select="occupation"`` follows Sharma et al. 2021: pairs whose premise names one of 38 occupations,
one per premise, if one of the two sentences has a gender word. That adds less than 0.1 % to SNLI.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal

from evenli.errors import InputError
from evenli.io import COLUMNS
from evenli.mitigate.pronoun_words import word_set
from evenli.mitigate.swap import Mode, Swapper
from evenli.resources import read_table

SUFFIX = "-swapped"
# What the notebook looks for; a missing comma there lost "him" and "guy" (but not "guys").
_SHARMA_GENDER = word_set("she he her his girl boy man men woman women male female guys lady ladies")
_SHARMA_TOKENS = _SHARMA_GENDER | {f"{word}s" for word in _SHARMA_GENDER}


@dataclass(frozen=True)
class Augmented:
    """A training set with swapped copies behind the original rows, and how it came about.

    Attributes:
        rows: The original rows, then the added ones.
        added: How many swapped copies are among them.
        considered: Rows looked at: all of them, or for ``occupation`` those left after one per premise.
        without_gender: Of those, rows without a word to swap.
        counts: Every step: rows given, matched (``occupation``), considered, without_gender, swapped,
            duplicates dropped, added, rows at the end.
    """

    rows: tuple[dict[str, Any], ...]
    added: int
    considered: int
    without_gender: int
    counts: Mapping[str, int]


def swap_augment(
    rows: Sequence[Mapping[str, Any]],
    *,
    columns: tuple[str, str] = ("premise", "hypothesis"),
    select: Literal["all", "occupation"] = "all",
    occupations: Iterable[str] | None = None,
    mode: Mode = "default",
    names: bool = True,
    drop_duplicates: bool = True,
    shuffle_seed: int | None = None,
) -> Augmented:
    """Append gender-swapped copies of pairs; label and all other columns are kept, ids get ``-swapped``.

    With ``select="occupation"`` and ``mode="released"`` the steps are those of Sharma et al.: an occupation
    (or its plural) is a space-separated token of the lower-cased premise; of the rows with the same premise
    the first stays; premise or hypothesis must hold a gender token of their list (which lacks *him* and
    *guy*); both sentences are lower-cased and swapped. They shuffle the file first, which decides the row
    that stays: ``shuffle_seed=12`` gives their order. In the other modes tokens are words, punctuation does
    not hide them, and the gender words are those the swapper knows.

    Args:
        rows: Pairs as dictionaries.
        columns: The names of the premise and the hypothesis column.
        select: ``all`` or ``occupation``.
        occupations: Words for ``occupation``; by default the 38 of the paper.
        mode: How to swap, see ``Swapper``.
        names: Whether first names are swapped too.
        drop_duplicates: Drop rows whose two sentences occur before; of the given rows, too.
        shuffle_seed: Look at the rows in a shuffled order; the rows returned keep theirs.
    """
    premise, hypothesis = columns
    for number, row in enumerate(rows, 1):
        for column in columns:
            if not isinstance(row.get(column), str):
                raise InputError(f"row {number} has no text in column '{column}'; it has {', '.join(map(str, row))}")
    if select not in {"all", "occupation"}:
        raise InputError(f"select '{select}' is unknown; choose all or occupation")
    if occupations is not None and select == "all":
        raise InputError("occupations are only used with select='occupation'; leave them out or choose that")
    swapper = Swapper(mode, names)
    order = list(range(len(rows)))
    if shuffle_seed is not None:
        Random(shuffle_seed).shuffle(order)
    counts = {"rows_given": len(rows)}
    if select == "occupation":
        words = occupations
        if words is None:
            words = [row["occupation"] for row in read_table("probe_occupations.csv", ("occupation",))]
        mentions = _mentions(words, released=mode == "released")
        order = [index for index in order if mentions(rows[index][premise])]
        counts["matched"] = len(order)
        first: dict[str, int] = {}
        for index in order:
            first.setdefault(rows[index][premise], index)
        order = list(first.values())
    counts["considered"] = len(order)

    gendered = _has_sharma_token if (select, mode) == ("occupation", "released") else swapper.gendered
    chosen = [index for index in order if gendered(rows[index][premise]) or gendered(rows[index][hypothesis])]
    counts["without_gender"] = len(order) - len(chosen)
    counts["swapped"] = len(chosen)
    copies = []
    for index in sorted(chosen):
        copy = dict(rows[index])
        copy[premise], copy[hypothesis] = swapper(copy[premise]), swapper(copy[hypothesis])
        for column in COLUMNS["id"]:
            if copy.get(column) is not None:
                copy[column] = f"{copy[column]}{SUFFIX}"
        copies.append(copy)

    kept = [dict(row) for row in rows]
    if drop_duplicates:
        seen: set[tuple[str, str]] = set()
        kept = [row for row in kept if _is_new(seen, (row[premise], row[hypothesis]))]
        copies = [row for row in copies if _is_new(seen, (row[premise], row[hypothesis]))]
    counts["duplicates"] = len(rows) + len(chosen) - len(kept) - len(copies)
    counts["added"] = len(copies)
    counts["rows"] = len(kept) + len(copies)
    return Augmented((*kept, *copies), len(copies), counts["considered"], counts["without_gender"], counts)


def _is_new(seen: set[tuple[str, str]], pair: tuple[str, str]) -> bool:
    if pair in seen:
        return False
    seen.add(pair)
    return True


def _has_sharma_token(text: str) -> bool:
    return not _SHARMA_TOKENS.isdisjoint(text.lower().split(" "))


def _mentions(occupations: Iterable[str], *, released: bool) -> Callable[[str], bool]:
    """A test whether a sentence names one of the occupations, in the singular or the plural."""
    singular = [word.lower() for word in occupations]
    # Plurals as in the notebook, where only secretary has one of its own; ours also knows other words on -y.
    plural = [f"{w[:-1]}ies" for w in singular if w.endswith("y") and (w == "secretary" or not released)]
    forms = {*singular, *(f"{word}s" for word in singular), *plural}
    if released:
        return lambda text: not forms.isdisjoint(text.lower().split(" "))
    pattern = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(forms)))})\b")
    return lambda text: pattern.search(text.lower()) is not None
