"""Shipped tables and lists with their provenance cards, and tables that a TOML file names or holds."""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenli.core.errors import PairError, ResourceError, translated
from evenli.core.io import read_text, split_lines
from evenli.core.parse import parse_table, parse_toml

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Card:
    """Where a resource comes from and whether the file is the one the card speaks of."""

    name: str
    title: str
    source: str
    licence: str
    date: str
    sha256: str
    note: str = ""
    limits: str = ""  # what it cannot do; every shipped file says so

    def verify(self) -> bool:
        """True if the file's SHA-256 is the one on the card."""
        return hashlib.sha256((DATA / self.name).read_bytes()).hexdigest() == self.sha256


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file or say where it is broken."""
    with translated("", into=ResourceError, kinds=(PairError,)):
        return parse_toml(read_text(path), str(path))


@cache
def cards() -> tuple[Card, ...]:
    """All cards, sorted by name."""
    files = [path for path in sorted(DATA.iterdir()) if path.suffix in {".csv", ".txt"}]
    fields = ({**read_toml(path.with_suffix(".toml")), "name": path.name} for path in files)
    return tuple(Card(**{key: str(about.get(key, "")) for key in Card.__dataclass_fields__}) for about in fields)


@dataclass(frozen=True)
class Table:
    """A table or list that a TOML file names, or that stands in it: the file, or the rows."""

    name: str  # of the file, or where in the TOML file it stands; for messages and data cards
    source: Path | tuple[Any, ...]

    @classmethod
    def find(cls, value: Any, owner: Path, field: str) -> Table:
        """What a field holds: an array is the table itself; a name is a file beside the owner or a shipped one."""
        if isinstance(value, list):
            return cls(f"{owner.name}, {field}", tuple(value))
        if not isinstance(value, str):
            raise ResourceError(f"{owner}: {field} must be the name of a file or an array")
        for candidate in (owner.parent / value, DATA / value):
            if candidate.is_file():
                return cls(candidate.name, candidate)
        raise ResourceError(f"no resource '{value}' in {owner.parent} or among the shipped ones")

    def rows(self, *columns: str) -> list[dict[str, str]]:
        """Rows with at least these columns; in TOML a row may also be an array with exactly these, in order."""
        return [row for _, row in self.numbered(*columns)]

    def numbered(self, *columns: str) -> list[tuple[str, dict[str, str]]]:
        """The same, each with where it stands, for messages: file and line, or place and row in a TOML file."""
        if isinstance(self.source, Path):
            return [(f"{self.source}, line {line}", row) for line, row in numbered_rows(self.source, columns)]
        rows = []
        for number, given in enumerate(self.source, 1):
            row = dict(zip(columns, given, strict=False)) if isinstance(given, list) else given
            if not isinstance(row, dict) or not set(columns) <= row.keys() or len(given) < len(columns):
                raise ResourceError(f"{self.name}, row {number} needs {', '.join(columns)}, not {given}")
            rows.append((f"{self.name}, row {number}", {key: str(value) for key, value in row.items()}))
        return rows

    def lines(self) -> list[str]:
        """Entries of a list."""
        return read_lines(self.source) if isinstance(self.source, Path) else [str(line) for line in self.source]


def read_lines(path: str | Path) -> list[str]:
    """Non-empty lines of a text resource, stripped, without ``#`` comments; a bare name is a shipped file."""
    lines = (line.strip() for line in split_lines(_read_text(path)))
    return [line for line in lines if line and not line.startswith("#")]


def read_table(path: str | Path, required: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Rows of a CSV resource as dictionaries; ``required`` columns must be there."""
    return [row for _, row in numbered_rows(path, required)]


def numbered_rows(path: str | Path, required: tuple[str, ...] = ()) -> list[tuple[int, dict[str, str]]]:
    """The same, each with its line."""
    with translated("", into=ResourceError, kinds=(PairError,)):
        lines = io.StringIO(_read_text(path), newline="")
        rows = list(parse_table(lines, str(path), commas=True))
    missing = [column for column in required if not rows or column not in rows[0][1]]
    if missing:
        raise ResourceError(f"{path} needs the column(s) {', '.join(missing)}")
    for line, row in rows:
        if short := [column for column in required if row[column] is None]:
            raise ResourceError(f"{path}, line {line} ends before the column(s) {', '.join(short)}")
    return rows


@cache
def word_classes(path: str, column: str, members: str = "word") -> dict[str, frozenset[str]]:
    """The words of a shipped table by their class, which stands in ``column``; or what else is in a column."""
    classes: dict[str, set[str]] = {}
    for row in read_table(path, (column, members)):
        classes.setdefault(row[column], set()).add(row[members])
    return {name: frozenset(words) for name, words in classes.items()}


def _read_text(path: str | Path) -> str:
    # A file of the same name in the current folder must not take the place of a shipped list.
    if isinstance(path, str) and Path(path).name == path:
        if not (DATA / path).is_file():
            raise ResourceError(f"no resource '{path}' is shipped; for a file of your own write ./{path}")
        path = DATA / path
    return read_text(Path(path))
