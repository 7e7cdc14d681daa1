"""Rows of a leaderboard, their order, and the files they are kept in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import polars as pl

from evenli.binary import write_csv
from evenli.errors import InputError, RunError
from evenli.io import read_json, write_atomic, write_json
from evenli.types import Estimate, Number, Numbers, Record

KIND = "leaderboard"
SCHEMA = 1
MAIN = "official.coal"
"""The measure that orders a leaderboard: NLI-CoAL on the published pairs, as in the paper."""
SHOWN = ("coal", "fn_bias", "stereotype", "default_gender", "undirected", "follow", "defy")
"""Measures of NLI-CoAL that a board has."""
Source = Literal["ours", "submitted", "published"]


class BoardRow(Record, frozen=True, kw_only=True):
    """A model, or the seeds of one recipe.

    Attributes:
        name: For people.
        lang: Language of the pairs.
        source: Trained for evenli, sent in, or printed in a paper (then without intervals, and not recomputed).
        base: What was fine-tuned.
        data: On which pairs.
        recipe: And how.
        parameters: Of the base, in millions.
        seeds: Over how many the numbers are means.
        accuracy: Share of right answers by test set.
        measures: By set of pairs and measure, such as ``official.coal``.
        seed_sd: Standard deviation between seeds, by the same names.
        problem: Why the row has no verdict and no rank: how many of its seeds fail the gold pairs, or at what.
        reference: Where a published row stands.
        evidence: Hashes of the files a submitted row was computed from.
    """

    name: str
    lang: str
    source: Source
    base: str = ""
    data: str = ""
    recipe: str = ""
    parameters: Number = math.nan
    seeds: int = 1
    accuracy: Numbers = msgspec.field(default_factory=dict)
    measures: dict[str, Estimate] = msgspec.field(default_factory=dict)
    seed_sd: Numbers = msgspec.field(default_factory=dict)
    problem: str = ""
    reference: str = ""
    evidence: dict[str, str] = msgspec.field(default_factory=dict)

    def value(self, measure: str) -> float:
        """A measure, or NaN."""
        return self.measures[measure].value if measure in self.measures else math.nan


class Board(Record, frozen=True, kw_only=True):
    """All rows."""

    kind: str = KIND
    schema: int = SCHEMA
    rows: list[BoardRow] = msgspec.field(default_factory=list)

    def frame(self) -> pl.DataFrame:
        """One line a row, for spreadsheets: every number in a column of its own, ends of intervals beside it."""
        names = list(dict.fromkeys(name for row in self.rows for name in row.measures))
        tests = list(dict.fromkeys(name for row in self.rows for name in row.accuracy))
        ranks = rank_groups(self.rows)
        lines = []
        for row, rank in zip(self.rows, ranks, strict=True):
            line: dict[str, str | float | int | None] = {
                name: getattr(row, name) for name in ("name", "lang", "source", "base", "data", "recipe", "seeds")
            }
            line |= {"parameters": _defined(row.parameters), "rank_group": rank, "problem": row.problem}
            line |= {f"accuracy.{name}": _defined(row.accuracy.get(name, math.nan)) for name in tests}
            for name in names:
                one = row.measures.get(name)
                for part in ("value", "low", "high"):
                    line[f"{name}.{part}"] = _defined(getattr(one, part)) if one else None
                line[f"{name}.seed_sd"] = _defined(row.seed_sd.get(name, math.nan))
            lines.append({**line, "reference": row.reference})
        return pl.DataFrame(lines, infer_schema_length=None)


def _defined(value: float) -> float | None:
    return value if math.isfinite(value) else None


def rank_groups(rows: Sequence[BoardRow], measure: str = MAIN) -> list[int | None]:
    """The group of each row in its language, 1 the least biased; None without verdict, interval or measure.

    Rows are taken in order. A group holds those that do not differ significantly from its first row: the difference is
    within 1.96 standard errors of both rows together, as if they had been asked different pairs. They were asked the
    same ones, which makes true standard errors smaller, so groups are rather too large than too small.
    """
    groups: list[int | None] = [None] * len(rows)
    for lang in dict.fromkeys(row.lang for row in rows):
        ranked = [
            index
            for index, row in enumerate(rows)
            if row.lang == lang and not row.problem and measure in row.measures and math.isfinite(_se(row, measure))
        ]
        ranked.sort(key=lambda index: rows[index].value(measure))
        group, first = 0, -1
        for index in ranked:
            apart = first < 0 or rows[index].value(measure) - rows[first].value(measure) > 1.96 * math.hypot(
                _se(rows[index], measure), _se(rows[first], measure)
            )
            if apart:
                group, first = group + 1, index
            groups[index] = group
    return groups


def _se(row: BoardRow, measure: str) -> float:
    return row.measures[measure].se


def read_board(path: str | Path) -> Board:
    """Read a board."""
    content = read_json(Path(path))
    if content.get("kind") != KIND or content.get("schema") != SCHEMA:
        raise InputError(f"{path} is no leaderboard of this version; make it with 'evenli leaderboard' or the tool")
    try:
        return Board.from_dict(content)
    except RunError as error:
        raise InputError(f"{path}: {error}") from error


def write_board(board: Board, path: str | Path) -> list[Path]:
    """Write ``board.json`` and the same as CSV and Parquet beside it."""
    file = Path(path)
    # As it is read again: a board that is written twice stays the same in all three files.
    board = Board.from_dict(board.to_dict())
    write_json(file, board.to_dict())
    frame = board.frame()
    tables = [file.with_suffix(".csv"), file.with_suffix(".parquet")]
    write_atomic(tables[0], lambda target: write_csv(frame, target))
    write_atomic(tables[1], lambda target: frame.write_parquet(target))
    return [file, *tables]
