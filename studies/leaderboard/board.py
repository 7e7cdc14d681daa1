"""A leaderboard of models: rows with intervals, their ranks, and submissions. ``grid`` makes ours.

A stranger's run becomes a row if its files are whole, its numbers follow from its table and its pairs are known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
import polars as pl

from evenli.audit.audit import load_run
from evenli.audit.suites.base import Request
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.coal.pairs import load
from evenli.audit.verify import check_evidence
from evenli.core.binary import write_csv
from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files, hash_text, read_json, to_plain, write_atomic, write_json
from evenli.core.record import Estimate, Number, Numbers, Record

KIND = "leaderboard"
SCHEMA = 1
MAIN = "official.coal"
"""The measure that orders a leaderboard: NLI-CoAL on the published pairs, as in the paper."""
SHOWN = ("coal", "fn_bias", "stereotype", "default_gender", "total_error", "contradictory", "follow", "defy")
"""Measures of NLI-CoAL that a board has."""
OFFICIAL = {
    "en": ("v1.1", "d1fc3cc7a1c1e41062afa760f529a1d4a1c6b47366e635aeffedd68a24aaa78c"),
    "ja": ("v1.1", "39201027d2b0550057f7a1a9be558cd3498aa4672880b70b4b169e0be23d2b4c"),
    "zh": ("v1.0", "101e553e0e8bec629317219610117b4d4736a4fa500cd9b01849da55872674e0"),
}
"""Release of NLI-CoAL and the digest of its pairs, by language."""
_COLUMNS = ("subset", "premise", "hypothesis", "occupation", "stereotype", "group")
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
        lines = []
        for row, rank in zip(self.rows, rank_groups(self.rows), strict=True):
            about = ("name", "lang", "source", "base", "data", "recipe", "seeds", "parameters")
            line: dict[str, Any] = {name: getattr(row, name) for name in about}
            line |= {"rank_group": rank, "problem": row.problem}
            line |= {f"accuracy.{name}": row.accuracy.get(name) for name in tests}
            for name in names:
                one = row.measures.get(name)
                line |= {f"{name}.{part}": getattr(one, part, None) for part in ("value", "low", "high")}
                line[f"{name}.seed_sd"] = row.seed_sd.get(name)
            lines.append(to_plain({**line, "reference": row.reference}, None))
        return pl.DataFrame(lines, infer_schema_length=None)


def rank_groups(rows: Sequence[BoardRow]) -> list[int | None]:
    """The group of each row in its language by ``MAIN``, 1 the least biased; None without verdict, interval or measure.

    Rows are taken in order. A group holds those that do not differ significantly from its first row: the difference is
    within 1.96 standard errors of both rows together, as if they had been asked different pairs. They were asked the
    same ones, which makes true standard errors smaller, so groups are rather too large than too small.
    """
    ranked = {
        index: row.measures[MAIN]
        for index, row in enumerate(rows)
        if not row.problem and MAIN in row.measures and math.isfinite(row.measures[MAIN].se)
    }
    groups: list[int | None] = [None] * len(rows)
    latest: dict[str, tuple[int, Estimate]] = {}  # by language, the group that is being filled and its first row
    for index, one in sorted(ranked.items(), key=lambda item: item[1].value):
        lang = rows[index].lang
        group, first = latest.get(lang, (0, None))
        if first is None or one.value - first.value > 1.96 * math.hypot(one.se, first.se):
            group += 1
            latest[lang] = group, one
        groups[index] = group
    return groups


def read_board(path: str | Path) -> Board:
    """Read a board."""
    content = read_json(Path(path))
    if content.get("kind") != KIND or content.get("schema") != SCHEMA:
        raise InputError(f"{path} is no leaderboard of this version; make it with python -m studies.leaderboard")
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


def pairs_digest(frame: pl.DataFrame) -> str:
    """A hash of what was asked, whatever the order of the rows."""
    return hash_text("\n".join(sorted("\t".join(str(value) for value in row) for row in frame.select(_COLUMNS).rows())))


def submit_run(
    run: str | Path,
    board: str | Path,
    *,
    name: str | None = None,
    data: str = "",
    recipe: str = "",
    parameters: float | None = None,
) -> BoardRow:
    """Check a run folder and write its row into a board.

    Refused are folders whose files do not have the hashes of their manifest, numbers that the table does not give,
    pairs that are neither those of the official release nor the built-in ones, and gold pairs that are not ours. A
    model that fails the gold pairs gets a row without rank, and so does one that was asked the built-in pairs: boards
    are ordered by the official ones.

    Args:
        run: Folder of ``evenli audit MODEL --data RELEASE``.
        board: The ``board.json`` to write into; made where it is missing.
        name: Of the row; default the model's.
        data: What the model was trained on, in words.
        recipe: How, in words.
        parameters: How many it has, in millions.
    """
    audit = load_run(run, needs="coal")
    check_evidence(audit)
    frame, lang = audit.predictions.frame, audit.result.lang or "?"
    asked = _asked(frame.filter(pl.col("suite") == "coal"), lang, audit.path)
    _check_gold(frame.filter(pl.col("suite") == "check"), lang, audit.path)
    gate = audit.result.competence
    files = [audit.path / file for file in ("predictions.parquet", "results.json", "run.json")]
    measures = audit.result.suites["coal"].measures
    row = BoardRow(
        name=name or audit.result.model.name,
        lang=lang,
        source="submitted",
        base=audit.result.model.spec,
        data=data,
        recipe=recipe,
        parameters=float("nan") if parameters is None else parameters,
        measures={f"{asked}.{key}": measures[key].estimate for key in SHOWN if key in measures},
        problem=gate.problem if gate else "no gold pairs were asked",
        evidence={file.name: hash_files([file]) for file in files},
    )
    _add(row, Path(board))
    return row


def _add(row: BoardRow, file: Path) -> None:
    rows = read_board(file).rows if file.exists() else []
    same = [one.name for one in rows if one.evidence.get("predictions.parquet") == row.evidence["predictions.parquet"]]
    if same == [row.name]:  # the same command again, which may have been killed after it wrote
        return
    if same:
        raise RunError(f"these answers are in {file} already, as '{same[0]}'")
    taken = [one for one in rows if (one.name, one.lang, one.source) == (row.name, row.lang, row.source)]
    if taken:
        raise RunError(f"{file} has a submitted row '{row.name}' in {row.lang}; give this one another name (--name)")
    write_board(Board(rows=[*rows, row]), file)


def _asked(frame: pl.DataFrame, lang: str, run: Path) -> str:
    """Which set of pairs was asked, all of it and nothing else: ``official``, or ``coal`` for our own wording."""
    if lang not in OFFICIAL:
        raise RunError(f"{run} is in '{lang}'; there is a release in {', '.join(OFFICIAL)}")
    release, digest = OFFICIAL[lang]
    asked = pairs_digest(frame)
    if asked == digest:
        return "official"
    if asked == pairs_digest(load(Request(lang)).frame):
        return "coal"
    raise RunError(
        f"{run} was asked neither the official pairs, all of them and nothing else (release {release}, {lang}), nor "
        f"the built-in ones; audit the model with 'evenli audit MODEL --lang {lang} --data RELEASE'"
    )


def _check_gold(frame: pl.DataFrame, lang: str, run: Path) -> None:
    """Competence counts only where the gold and control pairs are this version's, with their labels."""
    frames = (frame, gold_pairs(lang).frame, control_pairs(lang).frame)
    asked, gold, control = (set(one.select("premise", "hypothesis", "gold").rows()) for one in frames)
    if asked != gold | control:
        raise RunError(
            f"the gold pairs of {run} are not those of this evenli, so its competence is unknown; audit the model again"
        )
