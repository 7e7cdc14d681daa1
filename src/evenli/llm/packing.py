"""Questions about one premise in one row of a batch: what they begin with is computed once.

A row is a trunk (what the questions of a premise have in common), then the rest of each question, then the answers of
several tokens. Each part sees the trunk and what it continues, never its neighbours, so every number is that of the
question alone. Rows of a batch have their parts in the same columns: each part ends where the longest of the batch
does, and what is left free before it is seen by nobody.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Row = tuple[int, ...]
WIDEST = 256
"""Tokens of a row: attention grows with its square, and what is shared does not."""
_ENOUGH, _FILLED = 192, 1.05
"""A batch of so many tokens takes no family that would make so much of it free columns."""


@dataclass(frozen=True)
class Pack:
    """A batch of rows with as many questions each."""

    ids: NDArray[np.int64]  # [rows, width]
    positions: NDArray[np.int64]  # [rows, width], after the beginning that all rows share
    seen: NDArray[np.bool_]  # [rows, width, width]: who reads whom
    columns: NDArray[np.int64]  # whose next tokens are wanted: ends of the questions, then tokens of their answers


def common(rows: Sequence[Row]) -> Row:
    """What all rows begin with; at least one token of each is left.

    >>> common([(1, 2, 3, 4), (1, 2, 5)])
    (1, 2)
    """
    low, high = min(rows), max(rows)
    shortest = min(map(len, rows)) - 1
    count = next((at for at in range(shortest) if low[at] != high[at]), shortest)
    return low[:count]


def families(premises: Sequence[int], rows: Sequence[Row]) -> list[list[int]]:
    """Positions of rows with one premise, as many as fit into one row of a batch; like sizes stand together.

    >>> families([0, 1, 0], [(1, 2, 3), (4, 5), (1, 2, 4)])
    [[1], [0, 2]]
    """
    groups: dict[int, list[list[int]]] = {}
    for at, premise in enumerate(premises):
        parts = groups.setdefault(premise, [[]])
        if parts[-1] and sum(len(rows[i]) for i in parts[-1]) + len(rows[at]) > WIDEST:
            parts.append([])
        parts[-1].append(at)
    parts_of = [sorted(part, key=lambda at: -len(rows[at])) for parts in groups.values() for part in parts]
    # Families with as many questions and as many tokens stand together.
    return sorted(parts_of, key=lambda part: (len(part), *_shape(part, rows)))


def _shape(family: Sequence[int], rows: Sequence[Row]) -> tuple[int, ...]:
    """Lengths of what follows the trunk, and of the trunk."""
    trunk = len(common([rows[at] for at in family]))
    return (*(len(rows[at]) - trunk for at in family), trunk)


def batches(premises: Sequence[int], rows: Sequence[Row], budget: int) -> Iterator[NDArray[np.int64]]:
    """Positions of rows that are asked together: families of one size, at most ``budget`` tokens with what is free."""
    batch: list[list[int]] = []
    widths: NDArray[np.int64] = np.zeros(0, dtype=np.int64)
    tokens = 0
    for family in families(premises, rows):
        shape = np.array(_shape(family, rows))
        alike = len(shape) == len(widths)
        # Every part is as wide as the longest of the batch, so one long family costs columns in all rows.
        wider = np.maximum(widths, shape) if alike else shape
        size = (len(batch) + 1) * int(wider.sum())
        fits = alike and size <= budget and (tokens < _ENOUGH or size <= _FILLED * (tokens + shape.sum()))
        if batch and not fits:
            yield np.concatenate(batch)
            batch, wider, tokens = [], shape, 0
        widths, tokens = wider, tokens + int(shape.sum())
        batch.append(family)
    if batch:
        yield np.concatenate(batch)


def pack(members: Sequence[Sequence[Row]], answers: Sequence[Row]) -> Pack:
    """Lay out families with as many questions each; ``answers`` follow each question, where there are any."""
    trunks, questions = [common(family) for family in members], len(members[0])
    # Slots of tokens and the slot that each continues: the trunk, then the questions, then the answers to each.
    slots = [trunks]
    slots += [[own[at][len(trunk) :] for own, trunk in zip(members, trunks, strict=True)] for at in range(questions)]
    slots += [[answer] * len(members) for _ in range(questions) for answer in answers]
    parents = [-1, *[0] * questions, *(1 + at for at in range(questions) for _ in answers)]
    widths = [max(map(len, slot)) for slot in slots]
    ends = np.cumsum(widths)
    count, width = len(slots[0]), int(ends[-1])
    ids, positions = np.zeros((2, count, width), dtype=np.int64)
    filled = np.zeros((count, width), dtype=bool)
    family = np.zeros((len(slots), width), dtype=bool)  # columns that a slot sees: its own and those of its ancestors
    reached = np.zeros((len(slots), count), dtype=np.int64)  # tokens up to the end of a slot
    owner = np.repeat(np.arange(len(slots)), widths)
    for at, (slot, parent) in enumerate(zip(slots, parents, strict=True)):
        family[at] = owner == at
        if parent >= 0:
            family[at] |= family[parent]
        for row, tokens in enumerate(slot):
            before = int(reached[parent, row]) if parent >= 0 else 0
            span = slice(int(ends[at]) - len(tokens), int(ends[at]))
            ids[row, span] = tokens
            positions[row, span] = np.arange(before, before + len(tokens))
            filled[row, span] = True
            reached[at, row] = before + len(tokens)
    seen = (family[owner] & np.tri(width, dtype=bool))[None] & filled[:, None, :]
    seen |= np.eye(width, dtype=bool)  # a free column sees itself: attention to nothing is undefined
    wanted = [np.array([ends[1 + at] - 1]) for at in range(questions)]
    wanted += [np.arange(ends[at] - widths[at], ends[at]) for at in range(1 + questions, len(slots))]
    return Pack(ids, positions, seen, np.concatenate(wanted))
