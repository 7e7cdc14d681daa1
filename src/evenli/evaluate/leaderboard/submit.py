"""A stranger's run becomes a row, if its files are whole, its numbers follow from its table and its pairs are known."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenli.errors import RunError
from evenli.evaluate.audit import load_run, verify_run
from evenli.evaluate.leaderboard.board import SHOWN, Board, BoardRow, read_board, write_board
from evenli.io import hash_files, hash_text
from evenli.pairs import PairSet
from evenli.suites.checks import control_pairs, gold_pairs
from evenli.suites.coal.load import load_coal

OFFICIAL = {
    "en": ("v1.1", "d1fc3cc7a1c1e41062afa760f529a1d4a1c6b47366e635aeffedd68a24aaa78c"),
    "ja": ("v1.1", "39201027d2b0550057f7a1a9be558cd3498aa4672880b70b4b169e0be23d2b4c"),
    "zh": ("v1.0", "101e553e0e8bec629317219610117b4d4736a4fa500cd9b01849da55872674e0"),
}
"""Release of NLI-CoAL and the digest of its pairs, by language."""
_COLUMNS = ("subset", "premise", "hypothesis", "occupation", "stereotype", "group")


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
    verify_run(run)
    audit = load_run(run, needs="coal")
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
        raise RunError(f"{file} has a submitted row '{row.name}' in {row.lang}; give this one another --name")
    write_board(Board(rows=[*rows, row]), file)


def _asked(frame: pl.DataFrame, lang: str, run: Path) -> str:
    """Which set of pairs was asked, all of it and nothing else: ``official``, or ``coal`` for our own wording."""
    if lang not in OFFICIAL:
        raise RunError(f"{run} is in '{lang}'; there is a release in {', '.join(OFFICIAL)}")
    release, digest = OFFICIAL[lang]
    asked = pairs_digest(frame)
    if asked == digest:
        return "official"
    if asked == pairs_digest(load_coal(lang).frame):
        return "coal"
    raise RunError(
        f"{run} was asked neither the official pairs, all of them and nothing else (release {release}, {lang}), nor "
        f"the built-in ones; audit the model with 'evenli audit MODEL --lang {lang} --data RELEASE'"
    )


def _check_gold(frame: pl.DataFrame, lang: str, run: Path) -> None:
    """Competence counts only where the gold and control pairs are this version's, with their labels."""
    ours: list[PairSet] = [gold_pairs(lang), control_pairs(lang)]
    expected = {row for pairs in ours for row in pairs.frame.select("premise", "hypothesis", "gold").rows()}
    if set(frame.select("premise", "hypothesis", "gold").rows()) != expected:
        raise RunError(
            f"the gold pairs of {run} are not those of this evenli, so its competence is unknown; audit the model again"
        )
