"""``evenli leaderboard``: a run becomes a row, and a board becomes a page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output
from evenli.core.format import interval, number


def submit(
    run: Annotated[Path, argument("Run folder of an audit on the official pairs (evenli audit MODEL --data RELEASE).")],
    board: Annotated[Path, option("Board to write the row into; made where it is missing.")] = Path("board.json"),
    name: Annotated[str | None, option("Name of the row; default: the model's.", metavar="NAME")] = None,
    data: Annotated[str, option("What the model was trained on, e.g. snli.", metavar="WORDS")] = "",
    recipe: Annotated[str, option("How it was trained, e.g. paper.", metavar="WORDS")] = "",
    parameters: Annotated[float | None, option("How many parameters it has, in millions.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Check a run and write its row into a leaderboard.

    Files must have their hashes, numbers must follow from the stored table, and the pairs must be those of the official
    release or the built-in ones. A model that fails the gold pairs, or was asked the built-in ones, gets no rank.
    """
    from evenli.evaluate.leaderboard import MAIN, submit_run

    row = submit_run(run, board, name=name, data=data, recipe=recipe, parameters=parameters)
    if as_json:
        terminal.print_json(row.to_dict())
        return
    asked, one = next((name, one) for name, one in row.measures.items() if name.endswith(".coal"))
    ends = interval(one.low, one.high, 3)
    terminal.say(f"{board}: {row.name}, NLI-CoAL {number(one.value, 3)} {ends}")
    if row.problem:
        terminal.say(f"without rank: {row.problem}")
    elif asked != MAIN:
        terminal.say("without rank: it was asked the built-in pairs, and boards are ordered by the official ones")


def page(
    board: Annotated[Path, argument("Board, as 'evenli leaderboard submit' writes it.")],
    out: Annotated[Path | None, output("HTML file to write; default: index.html beside the board.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Write the page of a leaderboard, with CSV and Parquet beside the board.

    The page needs no network; its downloads are the files beside the board.
    """
    from evenli.report.leaderboard import publish_board

    written = publish_board(board, out)
    content = {"page": str(written.page), "rows": written.rows, "files": list(map(str, written.files))}
    names = ", ".join(file.name for file in written.files)
    terminal.answer(as_json, content, f"{written.page}: {written.rows} rows; {names} beside it")
