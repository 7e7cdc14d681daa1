"""The source of a scored corpus: its files, their text columns, their rows one at a time.

Files may lie elsewhere: ``s3://``, ``gs://``, ``https://`` and whatever else fsspec reads. Nothing is asked of the
network unless such an address is given. Credentials and endpoints are those that the storage's own tools use (for S3:
``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and so on).
"""

from __future__ import annotations

import contextlib
import glob
import io
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path, PurePath, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from evenli.core.binary import iter_parquet
from evenli.core.errors import InputError, MissingExtraError, PairError, message_of, translated
from evenli.core.extras import need
from evenli.core.io import PACKED, file_kind, find_columns, hash_files, hash_text, iter_blocks
from evenli.core.parse import parse_json_object, parse_table

_PARQUET_ROWS = 50_000
_FULL_HASH_BYTES = 4 << 30
_KINDS = (".jsonl", ".json", ".csv", ".tsv", ".txt", ".parquet")
_SINGLE = ("text", "sentence")
_BUFFER = 1 << 20
_BLOCK = 8 << 20
"""Bytes asked of a storage at a time."""
_TAGS = ("ETag", "etag", "Content-MD5", "md5Hash", "mtime", "LastModified", "last_modified", "Last-Modified", "created")
"""What tells two contents of one name apart, the best first; each storage has some of them."""


class RemoteFile:
    """One file behind an address, at ``path`` of an fsspec file system; it is used like a ``Path`` that is read."""

    def __init__(self, url: str, system: Any, path: str) -> None:
        self.url, self._system, self._path = url, system, path
        pure = PurePosixPath(urlsplit(url).path if _is_web(url) else url)  # a web address may have a query
        self.name, self.suffix, self.suffixes = pure.name, pure.suffix, pure.suffixes
        self._copy: Path | None = None

    def __str__(self) -> str:
        return self.url

    @cached_property
    def info(self) -> tuple[int, str]:
        """Size in bytes, 0 if the storage does not tell, and what changes with the content."""
        with remote_errors(self.url):
            about = self._system.info(self._path)
        tag = next((f"{name}={about[name]}" for name in _TAGS if about.get(name)), "")
        return int(about.get("size") or 0), tag

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """A stream of the bytes, read a block at a time."""
        # A web server need not answer to a part of a file, so of it the whole is read in one go.
        block = 0 if _is_web(self.url) else _BLOCK
        with remote_errors(self.url):
            return io.BufferedReader(self._system.open(self._path, mode, block_size=block), _BUFFER)

    @contextlib.contextmanager
    def local(self) -> Iterator[Path]:
        """A copy on this machine's disk, for a format that is read in leaps; gone once it was read to the end."""
        if self._copy is None:
            self._folder = tempfile.TemporaryDirectory(prefix="evenli-")
            copy = Path(self._folder.name) / self.name
            with self.open() as stream, copy.open("wb") as target:
                shutil.copyfileobj(stream, target, _BUFFER)
            self._copy = copy
        yield self._copy
        self._copy = None
        self._folder.cleanup()


SourceFile = Path | RemoteFile


class SourceRecord(NamedTuple):
    """One row of a table or of JSON Lines, as it travels to the process that scores it: a JSON object.

    ``cells`` is the row itself where the file is a table; a line of JSON is parsed only where it is scored.
    """

    data: bytes
    file: str
    line: int
    cells: Mapping[str, Any] | None = None

    @property
    def place(self) -> str:
        """File and line, as messages say it."""
        return f"{self.file}, line {self.line}"


def source_files(source: str | Path) -> list[SourceFile]:
    """The files of a source (file, directory, glob pattern or address of one), in the order of their names."""
    path = Path(source)
    files: list[SourceFile]
    if is_remote(source):
        remote = remote_files(str(source))
        # A file that is named is read whatever it is called; of a folder those that can be read.
        files = list(remote) if len(remote) == 1 else [file for file in remote if _is_listed(file)]
    elif path.is_file():
        files = [path]
    elif path.is_dir():
        files = [file for file in path.iterdir() if _is_listed(file) and file.is_file()]
    elif glob.has_magic(str(source)):
        names = glob.glob(str(source), recursive=True)  # noqa: PTH207 - Path.glob takes no absolute pattern
        files = [Path(name) for name in names if Path(name).is_file()]
    else:
        raise InputError(f"no such file or directory: {source}")
    advice = f"use {', '.join(_KINDS)} ({', '.join(PACKED)} may follow)"
    if not files:
        raise InputError(f"{source} has no file to score; {advice}")
    for file in files:
        # Parquet has a compression of its own and cannot be read as a stream.
        if file_kind(file) not in _KINDS or (file_kind(file) == ".parquet" and file.suffix.lower() != ".parquet"):
            raise InputError(f"{file}: unknown kind of file; {advice}")
    return sorted(files, key=lambda file: PurePath(str(file)).parts)


def _is_listed(file: SourceFile) -> bool:
    return file_kind(file) in _KINDS and not file.name.startswith(".")


def fingerprint(files: Sequence[SourceFile]) -> dict[str, Any]:
    """What identifies the content of the files.

    A hash of all bytes; for more than 4 GB size, time and both ends of each file, because hashing all takes long; for
    remote files what their storage says: size and tag or time.
    """
    about: dict[str, Any] = {"files": [file.name for file in files][:100], "count": len(files)}
    remote = [(file.url, *file.info) for file in files if isinstance(file, RemoteFile)]
    if remote:
        total = sum(size for _, size, _ in remote)
        return {**about, "bytes": total, "method": "address, size and tag", "hash": hash_text(repr(remote))}
    paths = [file for file in files if isinstance(file, Path)]
    sizes = [file.stat().st_size for file in paths]
    about["bytes"] = sum(sizes)
    if sum(sizes) <= _FULL_HASH_BYTES:
        return {**about, "method": "sha256", "hash": hash_files(paths)}
    parts = []
    for file, size in zip(paths, sizes, strict=True):
        with file.open("rb") as stream:
            head = stream.read(1 << 20)
            stream.seek(max(0, size - (1 << 20)))
            parts.append((file.name, size, file.stat().st_mtime_ns, hash_text(repr((head, stream.read())))))
    return {**about, "method": "size, time and both ends", "hash": hash_text(repr(parts))}


def is_plain(file: SourceFile, columns: Sequence[str] | None) -> bool:
    """Whether a file is one text per line; a .txt with a header of tab-separated columns is a table."""
    if file_kind(file) != ".txt":
        return False
    first = next((line for _, line in _lines(file)), b"")
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
    # An empty file among others is no error, if the others say which columns there are.
    first = next((record for record in read_records(file) if record), None)
    if first is None:
        if columns is None:
            raise InputError(f"{file} has no rows")
        return tuple(columns)
    names = list(first.cells or parse_json_object(first.data.decode("utf-8", "replace"), first.place, halves=True))
    if columns is not None:
        missing = [name for name in columns if name not in names]
        if missing:
            raise InputError(f"{file}: no column {' and '.join(missing)} among {', '.join(names)}")
        return tuple(columns)
    chosen = _pair_columns(names) or tuple(name for name in _SINGLE if name in names)[:1]
    if not chosen:
        raise InputError(
            f"{file}: no column is called premise and hypothesis, text or sentence, but {', '.join(names)}; name those "
            "with text (--columns FIRST,SECOND)"
        )
    return chosen


def _pair_columns(names: Iterable[str]) -> tuple[str, ...]:
    try:
        columns = find_columns(dict.fromkeys(names), "")
    except PairError:
        return ()
    return columns["premise"], columns["hypothesis"]


def read_records(file: SourceFile) -> Iterator[SourceRecord | None]:
    """The rows of a table or of JSON Lines; None stands for a blank line, which is not a row."""
    kind, name = file_kind(file), file.name
    if kind == ".parquet":
        with file.local() if isinstance(file, RemoteFile) else contextlib.nullcontext(file) as path:
            for number, row in iter_parquet(path, str(file), at_once=_PARQUET_ROWS):
                yield SourceRecord(json.dumps(row, ensure_ascii=False, default=str).encode(), name, number, row)
    elif kind in {".json", ".jsonl"}:
        for number, line in _lines(file):
            line = line.strip()
            yield SourceRecord(line, name, number) if line else None
    else:
        # Invalid bytes travel as escapes and come back as they were, so that the row is flagged where it is parsed.
        lines = (line.decode("utf-8", "surrogateescape") + "\n" for _, line in _lines(file))
        for number, row in parse_table(lines, name, commas=kind == ".csv", blanks=True):
            if None in row:
                more = len(row[None])  # type: ignore[index]
                raise PairError(f"{name}, line {number}: {more} more cell{'s' if more > 1 else ''} than columns")
            data = json.dumps(row, ensure_ascii=False).encode("utf-8", "surrogateescape")
            yield SourceRecord(data, name, number, row) if row else None


def read_lines(file: SourceFile) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a file, many at a time, each time with the number of the first."""
    with remote_errors(file.url) if isinstance(file, RemoteFile) else contextlib.nullcontext():
        yield from iter_blocks(file)


def _lines(file: SourceFile) -> Iterator[tuple[int, bytes]]:
    for first, lines in read_lines(file):
        yield from enumerate(lines, first)


def is_remote(source: object) -> bool:
    """Whether a source is an address such as ``s3://bucket/folder``."""
    return isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source) is not None


def remote_files(url: str) -> list[RemoteFile]:
    """The file, the files of the directory or those that match the glob pattern behind an address."""
    purpose, web = f"reading {url}", _is_web(url)
    fsspec = need("fsspec", extra="scale", purpose=purpose)
    options: dict[str, Any] = {}
    if web:
        # By default a download ends after five minutes, whether or not it is getting on.
        aiohttp = need("aiohttp", extra="scale", purpose=purpose)
        options["client_kwargs"] = {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)}

    def reason(error: BaseException) -> str:
        if url.lower().startswith(("s3://", "s3a://")):
            raise MissingExtraError("s3fs", "scale", purpose) from error
        return message_of(error)

    with (
        translated(f"{purpose} needs another package: ", kinds=(ImportError,), reason=reason),
        translated(f"cannot read {url}: ", kinds=(ValueError,)),
    ):
        system, path = fsspec.core.url_to_fs(url, **options)
    with remote_errors(url):
        # A question mark in a web address begins its query.
        if any(sign in url for sign in ("*[" if web else "*?[")):
            paths = system.glob(path)
        elif system.info(path)["type"] == "directory" or (web and url.endswith("/")):
            paths = [entry["name"] for entry in system.ls(path, detail=True) if entry["type"] == "file"]
        else:
            return [RemoteFile(url, system, str(path))]
    return [RemoteFile(str(system.unstrip_protocol(path)), system, path) for path in paths]


@contextlib.contextmanager
def remote_errors(url: str) -> Iterator[None]:
    """Turn what a storage raises into one line; each has errors of its own kind."""

    def reason(error: BaseException) -> str:
        if not isinstance(error, FileNotFoundError):
            return message_of(error)
        # Of a web address fsspec says so whatever went wrong; the cause tells whether a server answered.
        cause = error.__cause__ if _is_web(url) else None
        if cause is None or isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) == 404:
            raise InputError(f"no such file or directory: {url}") from error
        return message_of(cause)

    with translated(f"cannot read {url}: ", "; check the address, the network and your credentials", reason=reason):
        yield


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))
