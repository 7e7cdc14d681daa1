"""Texts in the order of their keys, in bounded memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager

from evenli.core.errors import RunError, translated


class Sorter:
    """Puts texts into the order of their keys; equal keys keep the order in which they came.

    SQLite does it, in a temporary database of its own on the disk: however long the texts are, few are in memory.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None)
        for statement in ("PRAGMA journal_mode = OFF", "CREATE TABLE texts (key REAL, text BLOB)", "BEGIN"):
            self._database.execute(statement)

    def add(self, keys: Iterable[float], texts: Iterable[str]) -> None:
        """Take in texts with their keys."""
        rows = zip(keys, map(str.encode, texts), strict=True)
        with _disk():
            self._database.executemany("INSERT INTO texts VALUES (?, ?)", rows)

    def __del__(self) -> None:
        """The database goes with its sorter, whether or not its texts were asked for."""
        self._database.close()

    def sorted(self) -> Iterator[bytes]:
        """All texts in the order of their keys."""
        with _disk():
            yield from (text for (text,) in self._database.execute("SELECT text FROM texts ORDER BY key, rowid"))


def _disk() -> AbstractContextManager[None]:
    advice = "; TMPDIR may name a directory with more room"
    return translated("cannot sort the rows: ", advice, into=RunError, kinds=(sqlite3.Error,))
