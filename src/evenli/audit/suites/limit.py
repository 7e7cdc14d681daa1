"""A first answer from fewer pairs: a part of a pair set that is balanced like the whole."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.core.errors import InputError

_FEWEST = 2
"""Occupations of every kind that an interval needs."""
Unit = tuple[str, str, str]
"""Occupation, template and premise: all pairs that ask about one sentence, one for each group."""
_VERSIONS = ("original", "swapped")


def subsample(pairs: PairSet, limit: int, seed: int = 0) -> PairSet:
    """At most ``limit`` pairs, reproducible by ``seed``; a set that is smaller is given back as it is.

    A sentence is taken with all its hypotheses or not at all. Every kind of occupation (its stereotype) keeps its
    share of the sentences, every occupation has as many sentences as any other of its kind, one more or less, and of
    the templates it could meet it gets the one that was used least. So measures keep their meaning, and their
    intervals, which are made from the pairs that were asked, widen by themselves. A larger limit with the same seed
    holds the pairs of a smaller one.
    """
    if limit >= len(pairs):
        return pairs
    units = _units(pairs)
    kinds: dict[str, dict[str, list[Unit]]] = defaultdict(lambda: defaultdict(list))
    for unit, (kind, _) in units.items():
        kinds[kind][unit[0]].append(unit)
    taken: list[int] = []
    for unit in _in_order(kinds, np.random.default_rng(seed)):
        rows = units[unit][1]
        if len(taken) + len(rows) > limit:
            break
        taken += rows
    # A kind with one occupation has no interval, and measures over it would be n/a.
    _check(pairs, taken, limit, kinds, units)
    note = (
        f"a balanced part, {len(taken):,} of {len(pairs):,} pairs (--limit {limit}, seed {seed}); intervals are wider"
    )
    name = f"{pairs.name}, {len(taken):,} of {len(pairs):,} pairs"
    return replace(pairs, name=name, frame=pairs.frame[sorted(taken)], notes=(*pairs.notes, note))


def _units(pairs: PairSet) -> dict[Unit, tuple[str, list[int]]]:
    """Kind and row numbers of every sentence that is asked about."""
    units: dict[Unit, tuple[str, list[int]]] = {}
    columns = pairs.frame.select("occupation", "template", "premise", "stereotype", "id", "group").fill_null("")
    for row, (occupation, template, premise, kind, name, group) in enumerate(columns.iter_rows()):
        # Two versions of one pair have different premises; their ids differ in the version only.
        asked = name.removesuffix(f"-{group}") if group in _VERSIONS else premise
        units.setdefault((occupation, template or premise, asked), (kind, []))[1].append(row)
    return units


def _in_order(kinds: Mapping[str, Mapping[str, Sequence[Unit]]], rng: np.random.Generator) -> Iterator[Unit]:
    """Sentences so that every beginning of the list is balanced: first a few of each kind, then kinds by their size."""
    sizes = {kind: sum(map(len, of_kind.values())) for kind, of_kind in kinds.items()}
    used: Counter[str] = Counter()
    queues = {kind: _round_robin(kinds[kind], used, rng) for kind in sorted(kinds)}
    given = dict.fromkeys(queues, 0)
    for kind, queue in queues.items():
        for _ in range(min(_FEWEST, sizes[kind])):
            given[kind] += 1
            yield next(queue)
    for _ in range(sum(sizes.values()) - sum(given.values())):
        # The kind that lags furthest behind its share is next.
        kind = min((one for one in queues if given[one] < sizes[one]), key=lambda one: (given[one] + 0.5) / sizes[one])
        given[kind] += 1
        yield next(queues[kind])


def _round_robin(
    occupations: Mapping[str, Sequence[Unit]], used: Counter[str], rng: np.random.Generator
) -> Iterator[Unit]:
    """Sentences of one kind, occupation by occupation in turn, with the template that was used least so far."""
    names = sorted(occupations)
    order = [names[i] for i in rng.permutation(len(names))]
    left = {name: [occupations[name][i] for i in rng.permutation(len(occupations[name]))] for name in order}
    while any(left.values()):
        for name in order:
            if left[name]:
                unit = min(left[name], key=lambda one: used[one[1]])
                left[name].remove(unit)
                used[unit[1]] += 1
                yield unit


def _check(
    pairs: PairSet,
    taken: Sequence[int],
    limit: int,
    kinds: Mapping[str, Mapping[str, Sequence[Unit]]],
    units: Mapping[Unit, tuple[str, list[int]]],
) -> None:
    """Refuse a part in which a kind has no interval; the whole set may have as few."""
    frame = pairs.frame[list(taken)].select("stereotype", "occupation").fill_null("")
    there = {kind: frame.filter(frame["stereotype"] == kind)["occupation"].n_unique() for kind in kinds}
    if all(there[kind] >= min(_FEWEST, len(of_kind)) for kind, of_kind in kinds.items()):
        return
    size = max(len(rows) for _, rows in units.values())
    least = size * sum(min(_FEWEST, len(of_kind)) for of_kind in kinds.values())
    raise InputError(
        f"a limit of {limit} is too few for '{pairs.name}': two occupations of every kind are {least} pairs"
    )
