"""A ranking that admits what it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ranking:
    """A place among several.

    Attributes:
        group: Number of the group of entries that cannot be told apart, 1 is the lowest value.
        best: The best place this entry may have: one more than the entries that lie wholly below it.
        worst: The worst place: all but those that lie wholly above it.
    """

    group: int
    best: int
    worst: int

    @property
    def shown(self) -> str:
        """The possible places, for people."""
        return f"{self.best}" if self.best == self.worst else f"{self.best} to {self.worst}"


def rank(estimates: Sequence[tuple[float, float, float]]) -> list[Ranking]:
    """Rank (value, low, high), lowest first.

    Entries whose intervals overlap, directly or through others, share a group.

    >>> [place.group for place in rank([(0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (0.3, 0.15, 0.35)])]
    [2, 1, 1]
    >>> [place.shown for place in rank([(0.5, 0.4, 0.6), (0.1, 0.0, 0.2), (0.3, 0.15, 0.35)])]
    ['3', '1 to 2', '1 to 2']
    """
    groups: dict[int, int] = {}
    group, reach = 0, float("-inf")
    for index in sorted(range(len(estimates)), key=lambda i: estimates[i][1]):
        _, low, high = estimates[index]
        if low > reach:
            group += 1
        reach = max(reach, high)
        groups[index] = group
    return [
        Ranking(
            groups[index],
            1 + sum(other[2] < low for other in estimates),
            len(estimates) - sum(other[1] > high for other in estimates),
        )
        for index, (_, low, high) in enumerate(estimates)
    ]
