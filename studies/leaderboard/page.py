"""The page of a leaderboard: all rows with intervals and rank groups, sorted and filtered in the browser, offline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from evenli.core.format import interval, number
from evenli.core.page import fill, write_page
from evenli.core.record import Estimate
from studies.leaderboard.board import MAIN, Board, BoardRow, rank_groups, read_board, write_board

COLUMNS = {
    MAIN: "NLI-CoAL",
    "coal.coal": "NLI-CoAL, our wording",
    "official.stereotype": "stereotype",
    "official.default_gender": "default gender",
    "official.total_error": "total error",
    "official.fn_bias": "FN (bias)",
    "released_snli.probe_s": "S",
    "released_snli.probe_dp": "ΔP",
    "released_snli.probe_b": "B",
}
"""Measures that the page shows, and their heads; the downloads have all."""
_SOURCES = {"ours": "trained for this board", "submitted": "submitted", "published": "as printed in the paper"}
_BASE_SIZE = 60
"""Millions of parameters from which a model counts as base size."""


class Number(NamedTuple):
    """A cell: what it sorts by, its text and the interval in small print."""

    sort: str
    text: str
    ends: str = ""


class Line(NamedTuple):
    """A row of the page."""

    row: BoardRow
    group: int | None
    size: str
    numbers: list[Number]
    accuracy: list[Number]


def leaderboard_page(board: Board) -> str:
    """One HTML text: the ranked rows by group, those without verdict greyed below, published ones marked."""
    tests = list(dict.fromkeys(name for row in board.rows for name in row.accuracy))
    groups = rank_groups(board.rows)
    order = sorted(range(len(board.rows)), key=lambda index: _place(board.rows[index], groups[index]))
    lines = [_line(board.rows[index], groups[index], tests) for index in order]
    page = fill(
        "leaderboard",
        "Leaderboard",
        "studies.leaderboard",
        lead=_lead(board.rows, groups),
        lines=lines,
        heads=list(COLUMNS.values()),
        tests=tests,
        sources=_SOURCES,
    )
    return f"{page}\n"


class PublishedBoard(NamedTuple):
    """The page of a board, how many rows it has, and the files beside the board: JSON, CSV and Parquet."""

    page: Path
    rows: int
    files: list[Path]


def publish_board(board: str | Path, out: str | Path | None = None) -> PublishedBoard:
    """Write the page of a stored board, and its tables beside the board; ``python -m studies.leaderboard page``.

    ``out`` is the HTML file, by default ``index.html`` beside the board.
    """
    read = read_board(board)
    page = write_page(leaderboard_page(read), out or Path(board).parent / "index.html")
    return PublishedBoard(page, len(read.rows), write_board(read, board))


def _place(row: BoardRow, group: int | None) -> tuple[str, bool, float]:
    value = row.value(MAIN)
    # Published rows have no group; they stand where their value puts them.
    unranked = group is None and row.source != "published"
    return row.lang, unranked, value if math.isfinite(value) else math.inf


def _line(row: BoardRow, group: int | None, tests: Sequence[str]) -> Line:
    size = "" if math.isnan(row.parameters) else "base" if row.parameters >= _BASE_SIZE else "small"
    numbers = []
    for name in COLUMNS:
        one = row.measures.get(name) or Estimate.undefined("")
        ends = "" if math.isnan(one.low) else interval(one.low, one.high, 2)
        numbers.append(_number(one.value, number(one.value), ends))
    shares = (row.accuracy.get(name, math.nan) for name in tests)
    return Line(row, group, size, numbers, [_number(share, f"{100 * share:.1f} %") for share in shares])


def _number(value: float, text: str, ends: str = "") -> Number:
    return Number("", "–") if math.isnan(value) else Number(f"{value:.6f}", text, ends)


def _lead(rows: Sequence[BoardRow], groups: Sequence[int | None]) -> str:
    ours = [row for row in rows if row.source != "published"]
    models = sum(row.seeds for row in ours)
    ranked = sum(group is not None for group in groups)
    most = max((group for group in groups if group), default=0)
    return (
        f"{models} models in {len(ours)} rows; {ranked} rows pass the gold pairs and fall into at most {most} groups "
        "that can be told apart. Lower is less biased; 0 is a model that infers no gender from a job."
    )
