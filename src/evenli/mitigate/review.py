"""Lists of dropped and added rows for people to read, highest score first, sorted in bounded memory."""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BUCKET = 200_000
_SHOWN = 1_000


class Sorter:
    """Puts texts into a given order in bounded memory: into bucket files first, then bucket by bucket."""

    def __init__(self, folder: Path, total: int, name: str = "order") -> None:
        self._files = [folder / f".{name}-{number:04d}" for number in range(-(-total // _BUCKET))]
        self._waiting: list[list[str]] = [[] for _ in self._files]
        self._held = 0

    def add(self, place: int, text: str) -> None:
        """Take in a text that belongs at this place."""
        self._waiting[place // _BUCKET].append(json.dumps([place, text]))
        self._held += 1
        if self._held >= _BUCKET and len(self._files) > 1:
            self._spill()

    def sorted(self) -> Iterator[str]:
        """All texts in the order of their places."""
        if len(self._files) > 1:
            self._spill()
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if file.is_file():
                waiting = file.read_text(encoding="utf-8").splitlines()
                file.unlink()
            entries = [json.loads(line) for line in waiting]
            entries.sort(key=lambda entry: entry[0])
            for _, text in entries:
                yield text

    def _spill(self) -> None:
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if waiting:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write("\n".join(waiting) + "\n")
                waiting.clear()
        self._held = 0


class Review:
    """A list for human eyes: all of it as CSV, its top as a page."""

    def __init__(self, folder: Path, name: str, columns: Sequence[str], total: int) -> None:
        self._folder, self._name, self._columns, self._total = folder, name, columns, total
        self._sorter = Sorter(folder, total, name)

    def add(self, rank: int, cells: Sequence[Any]) -> None:
        """Take in a row; rank 0 comes first."""
        self._sorter.add(rank, json.dumps(cells))

    def finish(self) -> None:
        """Write NAME.csv and NAME.html."""
        top: list[list[Any]] = []
        with (self._folder / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(self._columns)
            for line in self._sorter.sorted():
                cells = [clean(cell) if isinstance(cell, str) else cell for cell in json.loads(line)]
                writer.writerow(cells)
                if len(top) < _SHOWN:
                    top.append(cells)
        (self._folder / f"{self._name}.html").write_text(self._page(top), encoding="utf-8")

    def _page(self, rows: Sequence[Sequence[Any]]) -> str:
        page = io.StringIO()
        title = f"{self._name.capitalize()} rows"
        page.write(f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n')
        page.write("<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left}</style>\n</head>\n")
        shown = "" if len(rows) == self._total else f" The first {len(rows):,} are shown, the CSV file has all."
        page.write(f"<body>\n<h1>{title}</h1>\n<p>{self._total:,} rows, highest score first.{shown}</p>\n<table>\n")
        page.write(f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in self._columns)}</tr>\n")
        for cells in rows:
            texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
            page.write(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>\n")
        page.write("</table>\n</body>\n</html>\n")
        return page.getvalue()


def ranks_of(score: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Place of each row in the list with the highest score first; equal scores keep the order of the corpus."""
    rows = np.flatnonzero(among)
    ranks = np.full(len(score), -1)
    ranks[rows[np.argsort(-score[rows], kind="stable")]] = np.arange(len(rows))
    return ranks


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
