"""Parsers for untrusted input, with limits: JSON, TOML and tables.

A limit turns what would fail later, somewhere else, into one line that names the file and the line: numbers that no
table holds, nesting that no writer survives, halves of characters that no file in UTF-8 can hold.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from evenli.core.errors import InputError, PairError, translated

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEPTH = 100  # the deepest nesting of lists and objects
DIGITS = 38  # the longest integer: what 128 bits hold
LINE_BYTES = 16 << 20  # the longest line or cell; the limit of the csv module, 128 KB, would refuse long texts
RATIO, RATIO_FREE = 200, 64 << 20
"""How many times its size a packed file may unpack to, once that is more than some bytes; text packs 3 to 20 times."""
FORMULA = r"^'*[=+\-@\t\r\n＝＋－＠]"
"""Beginnings that make a spreadsheet compute a cell; apostrophes count, so that what is escaped comes back."""
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile("[\ud800-\udfff]")


def check_ratio(file: object, unpacked: int, packed: int) -> None:
    """Refuse a file that unpacks to far more than it holds."""
    if unpacked > max(RATIO_FREE, RATIO * packed):
        raise InputError(f"{file} unpacks to more than {RATIO} times its size, the limit; refusing to read it")


def check_name(given: str | os.PathLike[str]) -> None:
    """Refuse a name that is not UTF-8: neither JSON nor a page can hold it, and libraries cannot open it."""
    try:
        os.fspath(given).encode()
    except UnicodeEncodeError as error:
        shown = os.fspath(given).encode("utf-8", "backslashreplace").decode()
        raise InputError(f"{shown} is not UTF-8 text; rename the file or folder") from error


def check_regular(path: Path) -> None:
    """Refuse what is not a regular file, which might block who opens it, and a name that is not UTF-8."""
    check_name(path)
    with contextlib.suppress(OSError, ValueError):  # what is not there is said by who opens it
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            kind = "a directory" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
            raise InputError(f"{path} is {kind}, not a file")


def path_of(given: object, what: str) -> Path:
    """The path that a caller gave for ``what``; all but a text or a path is refused."""
    if not isinstance(given, str | os.PathLike):
        raise InputError(f"{what} is named by a path, not by {type(given).__name__}")
    check_name(given)
    return Path(given)


def _integer(text: str) -> int:
    if len(text) > DIGITS + 1:
        raise ValueError(f"an integer of {len(text.lstrip('-'))} digits; {DIGITS} are read")
    return int(text)


_JSON = json.JSONDecoder(parse_int=_integer)


def parse_json(text: str | bytes, where: str, *, halves: bool = False) -> Any:
    """A JSON value, or an error that names where it stands: file and line.

    ``halves`` accepts lone surrogates, for a caller that marks such rows itself.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        value = _JSON.decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise PairError(f"{where}: not valid JSON ({error.msg} at {line}column {error.colno})") from error
    except RecursionError as error:
        raise PairError(f"{where}: nested more than {DEPTH} deep") from error
    except ValueError as error:
        raise PairError(f"{where}: not valid JSON ({error})") from error
    # Only what holds many brackets can be deep, and only what holds an escape can hold half a character.
    check_halves = not halves and _HALF.search(text) is not None
    if check_halves or text.count("[") + text.count("{") > DEPTH:
        _check_tree(value, where, halves=not check_halves)
    return value


def parse_json_object(text: str | bytes, where: str, *, halves: bool = False) -> dict[str, Any]:
    """The same for a JSON object."""
    row = parse_json(text, where, halves=halves)
    if not isinstance(row, dict):
        raise PairError(f"{where}: expected an object, found {type(row).__name__}")
    return row


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """A TOML document under the same limits."""
    with translated(f"{where} is not valid TOML: ", into=PairError, kinds=(ValueError, RecursionError)):
        value = dict(tomllib.loads(text))
    _check_tree(value, where, halves=False)
    return value


def _check_tree(value: Any, where: str, *, halves: bool) -> None:
    """Walk through a value level by level: recursion is what deep nesting breaks."""
    level = [value]
    for _ in range(DEPTH + 1):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                inner += [*item.keys(), *item.values()]
            elif isinstance(item, list):
                inner += item
            elif isinstance(item, str) and not (halves or item.isascii()) and _SURROGATE.search(item):
                raise PairError(f"{where}: a text holds half of a surrogate pair, which is no character")
            elif isinstance(item, int) and abs(item) >= 10**DIGITS:
                raise PairError(f"{where}: an integer has more than {DIGITS} digits")
        if not inner:
            return
        level = inner
    raise PairError(f"{where}: nested more than {DEPTH} deep")


def csv_reader(lines: Iterable[str], *, commas: bool) -> Any:
    """A reader of comma- or tab-separated lines with room for long texts."""
    csv.field_size_limit(LINE_BYTES)
    # Tab-separated releases of NLI data never quote, and their sentences hold stray quotation marks.
    return csv.reader(lines) if commas else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


def parse_table(
    lines: Iterable[str], where: str, *, commas: bool, blanks: bool = False
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows by the names of the first line, each with the line on which it ends; ``blanks`` gives blank ones as {}.

    What a short row lacks is None, and not an empty text; cells beyond the names stand in a list under None.
    """
    reader = csv_reader(lines, commas=commas)
    try:
        header = [unescape_cell(cell) if commas else cell for cell in next(reader, [])]
        for cells in reader:
            if not cells:
                if blanks:
                    yield reader.line_num, {}
                continue
            if commas:
                cells = [unescape_cell(cell) for cell in cells]
            row: dict[str, Any] = dict(itertools.zip_longest(header, cells[: len(header)]))
            if len(cells) > len(header):
                row[None] = cells[len(header) :]  # type: ignore[index]  # as csv.DictReader does
            yield reader.line_num, row
    except csv.Error as error:
        raise PairError(f"{where}, line {reader.line_num}: {error}") from error


def escape_cell(cell: Any) -> Any:
    """A cell that no spreadsheet takes for a formula: an apostrophe goes before a text that begins like one.

    >>> escape_cell("=1+1"), escape_cell("-0.5"), escape_cell(-0.5), escape_cell("a = b")
    ("'=1+1", '-0.5', -0.5, 'a = b')
    """
    risky = isinstance(cell, str) and re.match(FORMULA, cell) and not re.fullmatch(NUMBER, cell)
    return f"'{cell}" if risky else cell


def unescape_cell(cell: str) -> str:
    """What ``escape_cell`` was given.

    >>> unescape_cell("'=1+1"), unescape_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if cell.startswith("'") and re.match(FORMULA, cell) else cell


def csv_line(cells: Iterable[Any]) -> str:
    """One line of a CSV file that people may open in a spreadsheet."""
    line = io.StringIO()
    # With this end of a line the writer also quotes a cell that holds a carriage return.
    csv.writer(line, lineterminator="\r\n").writerow([escape_cell(cell) for cell in cells])
    return line.getvalue().removesuffix("\r\n") + "\n"
