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
        self.folder = folder
        self._files = [folder / f".{name}-{number:04d}" for number in range(-(-total // _BUCKET))]
        self._waiting: list[list[tuple[int, str]]] = [[] for _ in self._files]
        self._held = 0

    def add(self, place: int, text: str) -> None:
        """Take in a text that belongs at this place."""
        self._waiting[place // _BUCKET].append((place, text))
        self._held += 1
        if self._held >= _BUCKET and len(self._files) > 1:
            for file, waiting in zip(self._files, self._waiting, strict=True):
                with file.open("a", encoding="utf-8") as stream:
                    stream.writelines(f"{json.dumps(entry)}\n" for entry in waiting)
                waiting.clear()
            self._held = 0

    def sorted(self) -> Iterator[str]:
        """All texts in the order of their places."""
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if file.is_file():
                with file.open(encoding="utf-8") as stream:
                    waiting += [(place, text) for place, text in map(json.loads, stream)]
                file.unlink()
            yield from (text for _, text in sorted(waiting))
            waiting.clear()


class Review:
    """A list for human eyes: all of it as CSV, its top as a page; ``scores`` are those of the rows in order."""

    def __init__(self, folder: Path, name: str, columns: Sequence[str], scores: NDArray[np.float64]) -> None:
        self._folder, self._name, self._columns = folder, name, columns
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
        self._ranks, self._added = ranks, 0
        self._sorter = Sorter(folder, len(scores), name)
        self._top: dict[int, list[Any]] = {}

    def add(self, cells: Sequence[Any]) -> None:
        """Take in the next row."""
        rank = int(self._ranks[self._added])
        self._added += 1
        row = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        self._sorter.add(rank, _csv_line(row))
        if rank < _SHOWN:
            self._top[rank] = row

    def finish(self) -> None:
        """Write NAME.csv and NAME.html."""
        with (self._folder / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as stream:
            stream.write(_csv_line(self._columns))
            stream.writelines(self._sorter.sorted())
        top = [self._top[rank] for rank in sorted(self._top)]
        (self._folder / f"{self._name}.html").write_text(self._page(top), encoding="utf-8")

    def _page(self, rows: Sequence[Sequence[Any]]) -> str:
        title = f"{self._name.capitalize()} rows"
        shown = "" if len(rows) == self._added else f" The first {len(rows):,} are shown, the CSV file has all."
        lines = [
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
            "<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left}</style>\n</head>",
            f"<body>\n<h1>{title}</h1>\n<p>{self._added:,} rows, highest score first.{shown}</p>\n<table>",
            f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in self._columns)}</tr>",
        ]
        for cells in rows:
            texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
            lines.append(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>")
        return "\n".join([*lines, "</table>\n</body>\n</html>\n"])


def _csv_line(cells: Sequence[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(cells)
    return line.getvalue()


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
