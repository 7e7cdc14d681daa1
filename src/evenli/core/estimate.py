"""A number with its interval, the card of the measure behind it, and the settings of the scoring step."""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenli.core.format import interval, number
from evenli.core.record import Number, Record
from evenli.core.settings import Settings, internal, setting


@dataclass(frozen=True)
class Scoring(Settings):
    """Settings of the scoring step; none of them asks the model again.

    Attributes:
        level: Coverage of the intervals.
        published: Whether our own measures keep words that state a group, as published ones do.
    """

    level: float = internal(
        0.95, "Coverage of the intervals.", rule=(lambda level: 0 < level < 1, "a number between 0 and 1, like 0.95")
    )
    published: bool = setting(False, "Count words that state a gender, such as businessman, in the causes, too.")


class Estimate(Record, frozen=True):
    """A value, its interval and what it rests on.

    Attributes:
        value: The number; NaN where it is undefined.
        low: Lower end of the interval.
        high: Upper end.
        se: Standard error.
        level: Coverage of the interval.
        n: Rows it is computed from.
        clusters: How many occupations and templates those rows come from.
        note: Why the value or the interval is undefined, or empty.
    """

    value: Number
    low: Number
    high: Number
    se: Number
    level: float
    n: int
    clusters: dict[str, int] = {}
    note: str = ""

    @classmethod
    def undefined(cls, note: str, level: float = 0.95, n: int = 0) -> Estimate:
        """No value, and why."""
        return Estimate(math.nan, math.nan, math.nan, math.nan, level, n, {}, note)

    @property
    def shown(self) -> str:
        """The number with its interval, for people."""
        if math.isnan(self.value):
            return "n/a"
        ends = "(no interval)" if math.isnan(self.low) else interval(self.low, self.high)
        return f"{number(self.value)} {ends}"

    def __repr__(self) -> str:
        return self.shown


class MeasureResult(Estimate, frozen=True, kw_only=True):
    """An estimate with the card of its measure.

    Attributes:
        title: Name for people.
        formula: Definition in the symbols of the paper.
        range: Smallest and largest possible value.
        ideal: Value of a model that treats groups evenly and is right.
        direction: What a larger value means.
        reference: Paper.
        kind: ``extrinsic`` or ``intrinsic``.
        by_stereotype: The same over the occupations of one stereotype.
    """

    title: str
    formula: str
    range: tuple[float | None, float | None]
    ideal: float
    direction: str
    reference: str
    kind: str
    by_stereotype: dict[str, Estimate] = {}

    @property
    def estimate(self) -> Estimate:
        """The numbers without the card."""
        return Estimate(**{name: getattr(self, name) for name in Estimate.__struct_fields__})

    @property
    def span(self) -> str:
        """The range as text: ``0..1``; an end that is open is left out."""
        shown = "..".join("" if end is None else f"{end:g}" for end in self.range)
        return "any" if shown == ".." else shown

    def __repr__(self) -> str:
        return f"{self.title}: {self.shown}"
