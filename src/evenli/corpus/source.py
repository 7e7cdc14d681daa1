"""The source of a scored corpus: its files, their text columns, their rows one at a time.

A row travels as a record, the bytes of a JSON object or of a line of plain text, and is parsed where it is scored.
"""

from __future__ import annotations

import contextlib
import csv
import glob
import gzip
import itertools
import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from evenli.corpus.remote import RemoteFile, answering, is_remote, remote_files
from evenli.errors import InputError, PairError
from evenli.io import COLUMNS, LINE_BYTES, find_columns, hash_files, hash_text

SourceFile = Path | RemoteFile

_PARQUET_ROWS = 50_000
_FULL_HASH_BYTES = 4 << 30
_KINDS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet")
_PACKED = (".gz", ".xz")
_SINGLE = ("text", "sentence")
_NO_GOLD = {"-", "-1"}


@dataclass(frozen=True)
class Row:
    """A parsed record.

    Attributes:
        original: The row as JSON.
        texts: Its texts, in the order of the columns.
        invalid: Whether bytes or escapes were no text and have been replaced.
        no_gold: Whether it is a pair without gold label.
    """

    original: str
    texts: list[str]
    invalid: bool
    no_gold: bool


def source_files(source: str | Path) -> list[SourceFile]:
    """The files of a source, a file, folder or glob pattern, in the order of their names; it may be an address."""
    path = Path(source)
    files: list[SourceFile]
    if is_remote(source):
        found = remote_files(str(source))
        files = list(found) if len(found) == 1 else [file for file in found if _listed(file)]
    elif path.is_file():
        files = [path]
    elif path.is_dir():
        files = [file for file in path.iterdir() if _listed(file) and file.is_file()]
    elif glob.has_magic(str(source)):
        names = glob.glob(str(source), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        files = [Path(name) for name in names if Path(name).is_file()]
    else:
        raise InputError(f"no such file or folder: {source}")
    usable = f"use {', '.join(_KINDS)} ({' or '.join(_PACKED)} may follow)"
    if not files:
        raise InputError(f"{source} has no file to score; {usable}")
    for file in files:
        if _kind(file) not in _KINDS or (_kind(file) == ".parquet" and file.suffix.lower() != ".parquet"):
            raise InputError(f"{file}: unknown kind of file; {usable}")
    return sorted(files, key=lambda file: PurePath(str(file)).parts)


def _listed(file: SourceFile) -> bool:
    return _kind(file) in _KINDS and file.name[0] != "."


def _kind(file: SourceFile) -> str:
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes[-1:] and suffixes[-1] in _PACKED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def fingerprint(files: Sequence[SourceFile]) -> dict[str, Any]:
    """The content of the files; of very large ones size, time and both ends, as reading all of it takes long.

    Of files elsewhere, what their storage says: size and tag or time.
    """
    known: dict[str, Any] = {"files": [file.name for file in files][:100], "count": len(files)}
    remote = [(file.url, *file.info) for file in files if isinstance(file, RemoteFile)]
    if remote:
        total = sum(size for _, size, _ in remote)
        return {**known, "bytes": total, "method": "address, size and tag", "hash": hash_text(repr(remote))}
    paths = [file for file in files if isinstance(file, Path)]
    sizes = [file.stat().st_size for file in paths]
    known["bytes"] = sum(sizes)
    if sum(sizes) <= _FULL_HASH_BYTES:
        return {**known, "method": "sha256", "hash": hash_files(paths)}
    parts = []
    for file, size in zip(paths, sizes, strict=True):
        with file.open("rb") as stream:
            head = stream.read(1 << 20)
            stream.seek(max(0, size - (1 << 20)))
            parts.append((file.name, size, file.stat().st_mtime_ns, hash_text(repr((head, stream.read())))))
    return {**known, "method": "size, time and both ends", "hash": hash_text(repr(parts))}


def is_plain(file: SourceFile, columns: Sequence[str] | None) -> bool:
    """Whether a file is one text per line; a .txt with a header of tab-separated columns is a table."""
    if _kind(file) != ".txt":
        return False
    first = next((record for _, record in _lines(file)), b"")
    header = first.decode("utf-8", "replace").split("\t")
    if len(header) > 1 and (set(columns or ()) & set(header) or _pair_columns(header)):
        return False
    if columns is not None and tuple(columns) != ("text",):
        raise InputError(f"{file}: plain text has no column {', '.join(columns)}; leave the columns out")
    return True


def choose_columns(file: SourceFile, columns: Sequence[str] | None) -> tuple[str, ...]:
    """The text columns of a file, judged by its first row."""
    if is_plain(file, columns):
        return ("text",)
    line, first = next(((line, record) for line, record in read_records(file, plain=False) if record), (0, b"{}"))
    there = list(_json_object(first.decode("utf-8", "replace"), (file.name, line)))
    if not there:
        if columns is None:
            raise InputError(f"{file} has no rows")
        return tuple(columns)
    if columns is not None:
        missing = [name for name in columns if name not in there]
        if missing:
            raise InputError(f"{file}: no column {' and '.join(missing)} among {', '.join(there)}")
        return tuple(columns)
    found = _pair_columns(there) or tuple(name for name in _SINGLE if name in there)[:1]
    if not found:
        raise InputError(
            f"{file}: no premise and hypothesis, text or sentence among {', '.join(there)}; name the text columns"
        )
    return found


def _pair_columns(names: Iterable[str]) -> tuple[str, ...]:
    try:
        found = find_columns(dict.fromkeys(names), "")
    except PairError:
        return ()
    return found["premise"], found["hypothesis"]


def read_records(file: SourceFile, *, plain: bool) -> Iterator[tuple[int, bytes | None]]:
    """Rows of a file with their line; None stands for a blank line, which is no row."""
    kind = _kind(file)
    if plain:
        yield from _lines(file)
    elif kind == ".parquet":
        yield from _parquet_records(file)
    elif kind in {".json", ".jsonl"}:
        for number, line in _lines(file):
            line = line.strip()
            yield number, line or None
    else:
        yield from _csv_records(file, commas=kind == ".csv")


@contextlib.contextmanager
def _opened(file: SourceFile) -> Iterator[BinaryIO | gzip.GzipFile | lzma.LZMAFile]:
    """The bytes of a file, unpacked."""
    with contextlib.ExitStack() as stack:
        raw = stack.enter_context(file.open("rb"))
        match file.suffix.lower():
            case ".gz":
                yield stack.enter_context(gzip.GzipFile(fileobj=raw))
            case ".xz":
                yield stack.enter_context(lzma.LZMAFile(raw))
            case _:
                yield raw


@contextlib.contextmanager
def _reading(file: SourceFile) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one line."""
    if isinstance(file, RemoteFile):
        with answering(file.url):
            yield
        return
    try:
        yield
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise InputError(f"cannot read {file}: {error}") from error


def _lines(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    """Lines without their end, read one at a time, so that a file larger than the memory is fine."""
    with _reading(file), _opened(file) as stream:
        for number in itertools.count(1):
            line = stream.readline(LINE_BYTES)
            if not line:
                return
            if len(line) == LINE_BYTES:
                raise InputError(f"{file}, line {number} is longer than {LINE_BYTES >> 20} MB; is it a text file?")
            if number == 1:
                line = line.removeprefix(b"\xef\xbb\xbf")
            yield number, line.rstrip(b"\r\n")


def _csv_records(file: SourceFile, *, commas: bool) -> Iterator[tuple[int, bytes | None]]:
    csv.field_size_limit(LINE_BYTES)
    lines = (line.decode("utf-8", "surrogateescape") + "\n" for _, line in _lines(file))
    # Tab-separated releases of NLI data never quote, and their sentences hold stray quotation marks.
    reader = csv.reader(lines) if commas else csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)
    try:
        header = next(reader, [])
        for cells in reader:
            if not cells:
                yield reader.line_num, None
                continue
            if len(cells) > len(header):
                raise PairError(f"{file.name}, line {reader.line_num}: {len(cells)} cells under {len(header)} columns")
            row = dict(itertools.zip_longest(header, cells))
            # The escaped bytes come back as they were, so that the row is flagged where it is parsed.
            yield reader.line_num, json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")
    except csv.Error as error:
        raise PairError(f"{file.name}, line {reader.line_num}: {error}") from error


def _parquet_records(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    import polars as pl

    with file.local() if isinstance(file, RemoteFile) else contextlib.nullcontext(file) as path:
        try:
            table = pl.scan_parquet(path)
            total = int(table.select(pl.len()).collect().item())
            for start in range(0, total, _PARQUET_ROWS):
                part = table.slice(start, _PARQUET_ROWS).collect()
                for number, row in enumerate(part.iter_rows(named=True), start + 1):
                    yield number, json.dumps(row, ensure_ascii=False, default=str).encode()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise InputError(f"cannot read {file}: {error}") from error


def parse(record: bytes, origin: tuple[str, int], columns: Sequence[str], *, plain: bool) -> Row:
    """Read one record; ``origin`` is its file and line, for messages."""
    try:
        line, invalid = record.decode("utf-8"), False
    except UnicodeDecodeError:
        line, invalid = record.decode("utf-8", "replace"), True
    if plain:
        return Row(json.dumps({"text": line}, ensure_ascii=False), [line], invalid, False)
    row = _json_object(line, origin)
    texts = []
    for column in columns:
        if column not in row:
            raise PairError(f"{origin[0]}, line {origin[1]}: no column '{column}' among {', '.join(row)}")
        value = row[column]
        if value is not None and not isinstance(value, str | int | float):
            raise PairError(f"{origin[0]}, line {origin[1]}: column '{column}' holds a {type(value).__name__}, no text")
        text = "" if value is None else str(value)
        # Half of a surrogate pair, written as an escape, is valid JSON and no text.
        if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
            text, invalid = text.encode("utf-8", "replace").decode("utf-8"), True
        texts.append(text)
    gold = next((row[name] for name in COLUMNS["gold"] if name in row), None) if len(columns) > 1 else None
    return Row(line, texts, invalid, gold is not None and str(gold).strip() in _NO_GOLD)


def _json_object(line: str, origin: tuple[str, int]) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = f"{error.msg} at column {error.colno}" if isinstance(error, json.JSONDecodeError) else "too deep"
        raise PairError(f"{origin[0]}, line {origin[1]}: not valid JSON ({reason})") from error
    if not isinstance(row, dict):
        raise PairError(f"{origin[0]}, line {origin[1]}: expected an object, found {type(row).__name__}")
    return row
