"""Add the run of an audit to a leaderboard, and write the page of a leaderboard.

python -m studies.leaderboard submit RUN [--board board.json] [--name NAME]
python -m studies.leaderboard page BOARD [-o index.html]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from evenli.core.errors import EvenliError
from evenli.core.format import interval, number, printable
from studies.leaderboard.board import MAIN, submit_run
from studies.leaderboard.page import publish_board


def submit(given: argparse.Namespace) -> None:
    """Check a run and write its row into a board."""
    about = {"name": given.name, "data": given.data, "recipe": given.recipe, "parameters": given.parameters}
    row = submit_run(given.run, given.board, **about)
    if given.json:
        print(json.dumps(row.to_dict(), indent=2, ensure_ascii=False, allow_nan=False))
        return
    asked, one = next((name, one) for name, one in row.measures.items() if name.endswith(".coal"))
    ends = interval(one.low, one.high, 3)
    print(printable(f"{given.board}: {row.name}, NLI-CoAL {number(one.value, 3)} {ends}"))
    if row.problem:
        print(printable(f"without rank: {row.problem}"))
    elif asked != MAIN:
        print("without rank: it was asked the built-in pairs, and boards are ordered by the official ones")


def page(given: argparse.Namespace) -> None:
    """Write the page of a board, with CSV and Parquet beside the board."""
    written = publish_board(given.board, given.out)
    if given.json:
        files = [str(file) for file in written.files]
        content = {"page": str(written.page), "rows": written.rows, "files": files}
        print(json.dumps(content, indent=2, ensure_ascii=False))
        return
    names = ", ".join(file.name for file in written.files)
    print(printable(f"{written.page}: {written.rows} rows; {names} beside it"))


def main(words: Sequence[str] | None = None) -> None:
    """Run one of the two commands; an expected failure prints one line and has exit code 2."""
    parser = argparse.ArgumentParser("python -m studies.leaderboard", description="Keep a leaderboard of models.")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("submit", help="check a run and write its row into a leaderboard")
    one.set_defaults(command=submit)
    one.add_argument("run", type=Path, help="run folder of evenli audit MODEL --data RELEASE")
    one.add_argument("--board", type=Path, default=Path("board.json"), help="created where it is missing")
    one.add_argument("--name", help="name of the row; default: the model's")
    one.add_argument("--data", default="", help="what the model was trained on, e.g. snli")
    one.add_argument("--recipe", default="", help="how it was trained, e.g. paper")
    one.add_argument("--parameters", type=float, help="how many parameters it has, in millions")
    one.add_argument("--json", action="store_true", help="print machine-readable output only")
    one = commands.add_parser("page", help="write the page of a leaderboard, with CSV and Parquet beside the board")
    one.set_defaults(command=page)
    one.add_argument("board", type=Path, help="board.json of submit")
    one.add_argument("-o", "--out", type=Path, help="HTML file to write; default: index.html beside the board")
    one.add_argument("--json", action="store_true", help="print machine-readable output only")
    given = parser.parse_args(words)
    try:
        given.command(given)
    except (EvenliError, OSError) as error:
        parser.exit(2, f"evenli: {printable(str(error))}\n")


if __name__ == "__main__":
    main()
