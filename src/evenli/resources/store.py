"""Reading the tables in ``data/`` and their provenance cards."""

from __future__ import annotations

import csv
import hashlib
import io
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from evenli.errors import ResourceError
from evenli.io import read_text, split_lines

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover
    import tomli as tomllib

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

    @property
    def path(self) -> Path:
        """The data file of this card."""
        return DATA / self.name

    def verify(self) -> bool:
        """True if the file's SHA-256 is the one on the card."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file or say where it is broken."""
    try:
        return dict(tomllib.loads(read_text(path)))
    except tomllib.TOMLDecodeError as error:
        raise ResourceError(f"{path} is not valid TOML: {error}") from error


@cache
def card(name: str) -> Card:
    """The provenance card of one data file."""
    fields = read_toml((DATA / name).with_suffix(".toml"))
    return Card(name=name, **{key: str(fields.get(key, "")) for key in Card.__dataclass_fields__ if key != "name"})


def cards() -> list[Card]:
    """All cards, sorted by name."""
    return [card(path.name) for path in sorted(DATA.iterdir()) if path.suffix in {".csv", ".txt"}]


@dataclass(frozen=True)
class Table:
    """A table or list that a TOML file names, or that stands in it.

    Attributes:
        name: File name, or where in the TOML file it stands; for messages and data cards.
        source: The file, or the rows.
    """

    name: str
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
        if isinstance(self.source, Path):
            return read_table(self.source, columns)
        rows = []
        for number, given in enumerate(self.source, 1):
            row = dict(zip(columns, given, strict=False)) if isinstance(given, list) else given
            if not isinstance(row, dict) or not set(columns) <= row.keys() or len(given) < len(columns):
                raise ResourceError(f"{self.name}, row {number} needs {', '.join(columns)}, not {given}")
            rows.append({key: str(value) for key, value in row.items()})
        return rows

    def lines(self) -> list[str]:
        """Entries of a list."""
        return read_lines(self.source) if isinstance(self.source, Path) else [str(line) for line in self.source]


def read_lines(path: str | Path) -> list[str]:
    """Non-empty lines of a text resource, stripped; lines starting with ``#`` are comments.

    As in ``read_table``, a bare name is a shipped file; one of your own is given as a Path or with its folder.
    """
    lines = (line.strip() for line in split_lines(_read_text(path)))
    return [line for line in lines if line and not line.startswith("#")]


def read_table(path: str | Path, required: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Rows of a CSV resource as dictionaries; ``required`` columns must be there."""
    try:
        rows = list(csv.DictReader(io.StringIO(_read_text(path), newline="")))
    except csv.Error as error:
        raise ResourceError(f"{path} is not a readable table: {error}") from error
    missing = [column for column in required if not rows or column not in rows[0]]
    if missing:
        raise ResourceError(f"{path} needs the column(s) {', '.join(missing)}")
    return rows


def _read_text(path: str | Path) -> str:
    # A file of the same name in the current folder must not take the place of a shipped list.
    if isinstance(path, str) and Path(path).name == path:
        if not (DATA / path).is_file():
            raise ResourceError(f"no resource '{path}' is shipped; for a file of your own write ./{path}")
        path = DATA / path
    return read_text(Path(path))
