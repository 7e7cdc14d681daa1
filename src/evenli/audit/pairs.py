"""The pair set: one table of premise-hypothesis pairs with what is known about each."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.results import DataCard
from evenli.core.binary import check_fork
from evenli.core.errors import InputError

PAIR_COLUMNS = {
    "id": "unique within the set",
    "subset": "PS, AS or NS for NLI-CoAL; gold or control for the checks",
    "premise": "first sentence",
    "hypothesis": "second sentence",
    "gold": "correct label by name",
    "occupation": "occupation word in the premise, or null",
    "stereotype": "group the occupation is stereotyped as, or neutral",
    "template": "sentence with the slot open; the second cluster of an interval",
    "group": "group named in the hypothesis",
}
"""Columns of a pair set, all strings, in order."""


def frame_of_rows(rows: Iterable[Mapping[str, Any]], schema: Mapping[str, Any]) -> pl.DataFrame:
    """A table of dictionaries, absent columns null; in blocks, because Python objects take ten times the memory."""
    check_fork()
    rows, frames = iter(rows), [pl.DataFrame(schema=schema)]
    while block := list(islice(rows, 20_000)):
        frames.append(pl.DataFrame({name: [row.get(name) for row in block] for name in schema}, schema=schema))
    return pl.concat(frames, rechunk=True)


def distinct_pairs(frame: pl.DataFrame) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The first row of each distinct pair of texts, in order, and which of these pairs every row is.

    Texts become numbers first: ``unique`` and a join on a million texts would take 400 MB.
    """
    keys = np.zeros(frame.height, dtype=np.int64)
    for name in ("premise", "hypothesis"):
        codes = frame[name].fill_null("").rank("dense").to_numpy()
        # Both ranks in one number, like two digits.
        keys = keys * (int(codes.max()) + 1) + codes
    _, first, where = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return first[order], np.argsort(order)[where]


@dataclass(frozen=True)
class PairSet:
    """A named set of sentence pairs in one language: what an audit asks.

    Attributes:
        name: Short name shown to people, such as built-in or official v1.1.
        suite: What the pairs are for: coal, probe, dev2020, swap, robust, groups or check.
        lang: Language code.
        frame: One row per pair: id, subset, premise, hypothesis, gold, occupation, stereotype, template, group.
        source: Where the set comes from, in one line.
        notes: Repairs and other things that a reader must know.
        occupation_list: The list of occupations that the set was built from, if not the published one.
        scores: Share of men minus share of women by occupation, where that list has it.
        whole: Pairs of the whole set, where a limit took a part of it.
    """

    name: str
    suite: str
    lang: str
    frame: pl.DataFrame
    source: str = ""
    notes: tuple[str, ...] = ()
    occupation_list: str = ""
    scores: Mapping[str, float] = field(default_factory=dict)
    whole: int | None = None

    def __post_init__(self) -> None:
        """Refuse empty sets and duplicate ids: every later step relies on both."""
        if self.frame.height == 0:
            raise InputError(f"the pair set '{self.name}' is empty")
        if self.frame["id"].n_unique() < self.frame.height:
            repeated = self.frame["id"].filter(self.frame["id"].is_duplicated())
            raise InputError(
                f"the pair set '{self.name}' has {repeated.n_unique()} duplicate id(s), first '{repeated[0]}'; "
                "ids must be unique"
            )

    def __len__(self) -> int:
        """Number of pairs."""
        return self.frame.height

    @classmethod
    def from_rows(cls, rows: Iterable[Mapping[str, str | None]], extra: Sequence[str] = (), **fields: Any) -> PairSet:
        """Build from dictionaries; absent columns become null, ids are numbered if absent.

        ``extra`` are columns beside ours that are kept.
        """
        numbered = ({"id": str(number), **row} for number, row in enumerate(rows))
        return cls(frame=frame_of_rows(numbered, dict.fromkeys([*PAIR_COLUMNS, *extra], pl.String)), **fields)

    @cached_property
    def sha256(self) -> str:
        """Hash of the content: every column of every row, in order."""
        digest = hashlib.sha256()
        # Other columns of a user's file are part of what a run keeps.
        for row in self.frame.select([*PAIR_COLUMNS, *self.extra]).iter_rows():
            digest.update("\x1f".join("\x00" if value is None else value for value in row).encode())
            digest.update(b"\x1e")
        return digest.hexdigest()

    @property
    def extra(self) -> list[str]:
        """Columns of the user's own, which travel with the pairs."""
        return [name for name in self.frame.columns if name not in PAIR_COLUMNS]

    @property
    def counts(self) -> dict[str, int]:
        """Rows per subset."""
        return {str(key): int(n) for key, n in self.frame.group_by("subset", maintain_order=True).len().iter_rows()}

    def where(self, condition: pl.Expr) -> PairSet:
        """The rows that satisfy ``condition``."""
        return replace(self, frame=self.frame.filter(condition))

    def card(self) -> DataCard:
        """A machine-readable data-set card: counts, hash, source and notes."""
        same = ("name", "suite", "lang", "source", "sha256", "occupation_list", "whole")
        return DataCard(
            **{name: getattr(self, name) for name in same},
            rows=len(self),
            subsets=self.counts,
            occupations=self.frame["occupation"].n_unique(),
            templates=self.frame["template"].n_unique(),
            distinct_pairs=len(distinct_pairs(self.frame)[0]),
            notes=list(self.notes),
            scores=dict(self.scores),
        )


_FEWEST = 2
"""Occupations of every kind that an interval needs."""
Unit = tuple[str, str, str]
"""Occupation, template and premise: all pairs that ask about one sentence, one for each group."""
_VERSIONS = ("original", "swapped")


def subsample(pairs: PairSet, limit: int, seed: int = 0) -> PairSet:
    """At most ``limit`` pairs, reproducible by ``seed``; a set that is smaller is given back as it is.

    A sentence is taken with all its hypotheses or not at all. Every kind of occupation (its stereotype) keeps its
    share of the sentences, every occupation has as many sentences as any other of its kind, one more or less, and of
    the templates it could meet it gets the one that its kind has used least, and the other kinds most. So measures keep
    their meaning, and their intervals, which are made from the pairs that were asked, widen by themselves. A larger
    limit with the same seed holds the pairs of a smaller one.
    """
    if limit >= len(pairs):
        return pairs
    # Kind and row numbers of every sentence that is asked about.
    units: dict[Unit, tuple[str, list[int]]] = {}
    columns = pairs.frame.select("occupation", "template", "premise", "stereotype", "id", "group").fill_null("")
    for row, (occupation, template, premise, kind, name, group) in enumerate(columns.iter_rows()):
        # Two versions of one pair have different premises; their ids differ in the version only.
        asked = name.removesuffix(f"-{group}") if group in _VERSIONS else premise
        units.setdefault((occupation, template or premise, asked), (kind, []))[1].append(row)
    kinds: dict[str, dict[str, list[Unit]]] = defaultdict(lambda: defaultdict(list))
    for unit, (kind, _) in units.items():
        kinds[kind][unit[0]].append(unit)
    taken: list[int] = []
    for unit in _in_order(kinds, np.random.default_rng(seed)):
        rows = units[unit][1]
        if len(taken) + len(rows) > limit:
            break
        taken += rows
    # A kind with one occupation has no interval, and measures over it would be n/a; the whole set may have as few.
    part = pairs.frame[sorted(taken)]
    words = part.select("stereotype", "occupation").fill_null("").group_by("stereotype").n_unique()
    met, fewest = dict(words.iter_rows()), {kind: min(_FEWEST, len(of_kind)) for kind, of_kind in kinds.items()}
    if any(met.get(kind, 0) < least for kind, least in fewest.items()):
        least = max(len(rows) for _, rows in units.values()) * sum(fewest.values())
        raise InputError(
            f"a limit of {limit} is too few for '{pairs.name}': two occupations of every kind are {least} pairs"
        )
    return _part(pairs, part, f"--limit {limit}, seed {seed}")


FEWEST_CHECKS = 20
"""Checks of a kind under any limit. A model that guesses gets 60 % of 20 right in 1.3 % of cases, and one that is right
on 80 % misses it in 1.0 %."""


def few_checks(sets: Sequence[PairSet], limit: int) -> list[PairSet]:
    """Gold and control pairs for an audit of ``limit`` pairs: at most as many, but FEWEST_CHECKS of every kind.

    A kind is what the gate judges by itself: a gold label, or which groups premise and hypothesis state. Of each those
    at the same places are taken, spread evenly, so that kinds keep the same premises.
    """
    # An id is the kind with a number in it.
    kind = [pl.col("gold"), pl.col("id").str.replace_all(r"\d+", "")]
    kinds = sum(pairs.frame.select(pl.struct(kind).n_unique()).item() for pairs in sets)
    most = max(FEWEST_CHECKS, limit // kinds)
    chosen = pl.int_range(pl.len()).over(kind) * most % pl.len().over(kind) < most
    return [_part(pairs, pairs.frame.filter(chosen), f"--limit {limit}") for pairs in sets]


def _part(pairs: PairSet, frame: pl.DataFrame, why: str) -> PairSet:
    """Some rows of a set, which says so."""
    if frame.height == len(pairs):
        return pairs
    asked = f"{frame.height:,} of {len(pairs):,} pairs"
    note = f"a balanced part, {asked} ({why}); intervals are wider"
    whole = pairs.whole or len(pairs)
    return replace(pairs, name=f"{pairs.name}, {asked}", frame=frame, notes=(*pairs.notes, note), whole=whole)


def _in_order(kinds: Mapping[str, Mapping[str, Sequence[Unit]]], rng: np.random.Generator) -> Iterator[Unit]:
    """Sentences so that every beginning of the list is balanced: first a few of each kind, then kinds by their size."""
    sizes = {kind: sum(map(len, of_kind.values())) for kind, of_kind in kinds.items()}
    met: Counter[str] = Counter()
    queues = {kind: _round_robin(kinds[kind], met, rng) for kind in sorted(kinds)}
    given = {kind: min(_FEWEST, sizes[kind]) for kind in queues}
    for kind, queue in queues.items():
        yield from islice(queue, given[kind])
    while left := [kind for kind in queues if given[kind] < sizes[kind]]:
        # The kind that lags furthest behind its share is next.
        kind = min(left, key=lambda name: (given[name] + 0.5) / sizes[name])
        given[kind] += 1
        yield next(queues[kind])


def _round_robin(
    occupations: Mapping[str, Sequence[Unit]], met: Counter[str], rng: np.random.Generator
) -> Iterator[Unit]:
    """Sentences of one kind, occupation by occupation in turn, chosen as ``words.design.deal`` chooses templates.

    ``met`` counts the templates of all kinds.
    """
    used: Counter[str] = Counter()
    names = sorted(occupations)
    order = [names[i] for i in rng.permutation(len(names))]
    left = {name: [occupations[name][i] for i in rng.permutation(len(occupations[name]))] for name in order}
    while any(left.values()):
        for name in order:
            if left[name]:
                unit = min(left[name], key=lambda unit: (used[unit[1]], -met[unit[1]]))
                left[name].remove(unit)
                used[unit[1]] += 1
                met[unit[1]] += 1
                yield unit
