"""Files: one streaming reader, one atomic writer, one JSON rule, and hashes.

Whatever comes from a file passes here under limits: size, packing, length of a line; ``parse`` has those of values,
``binary`` those of arrays and tables.

Reading accepts ``.jsonl``, ``.csv``, ``.tsv``, ``.txt`` and ``.parquet``, packed as ``.gz``, ``.xz``, ``.bz2`` or
``.zst``. Only Parquet needs polars, so that training can read its data on machines that have none.
"""

from __future__ import annotations

import bz2
import contextlib
import dataclasses
import errno
import gzip
import hashlib
import io
import json
import lzma
import math
import os
import re
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, cast

from evenli.core.binary import iter_parquet, zstd_blocks
from evenli.core.errors import InputError, PairError, RunError, reason_of, translated
from evenli.core.parse import LINE_BYTES, check_ratio, check_regular, parse_json_object, parse_table
from evenli.core.temporary import leftovers, process_mark

COLUMNS = {
    "premise": ("premise", "sentence1", "sentence_A_Ja", "sentence_A", "text_a"),
    "hypothesis": ("hypothesis", "sentence2", "sentence_B_Ja", "sentence_B", "text_b"),
    "gold": ("gold", "gold_label", "label", "entailment_label_Ja", "entailment_label"),
    "id": ("id", "pairID", "pair_ID", "sentence_pair_id"),
    "occupation": ("occupation", "occ_word"),
    "stereotype": ("stereotype", "occ_type"),
    "subset": ("subset",),
    "template": ("template",),
    "group": ("group",),
}
"""What we call a column, and what SNLI, MNLI, OCNLI, JNLI, JSICK, XNLI and NLI-CoAL call it."""

PACKED = (".gz", ".xz", ".bz2", ".zst")
BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error)  # what a damaged or unreadable file raises while it is read
WHOLE_BYTES = 1 << 30  # the largest text that is read at once, unpacked: a small packed file may hold gigabytes
STORED_BYTES = 128 << 20  # the largest JSON document; what evenli writes is far smaller
MEMBERS = 100_000  # the most files of an archive or a directory that are looked at
_BLOCK = 1 << 20
_STORED = {"run.json", "results.json", "predictions.parquet"}
DIGITS = 6
Content = str | bytes | Callable[[Path], object]


class Readable(Protocol):
    """A file here or elsewhere: ``Path``, or a remote file with the same few methods."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def suffixes(self) -> list[str]: ...  # noqa: D102

    def open(self, mode: str) -> Any: ...  # noqa: D102


def file_kind(file: Readable) -> str:
    """The ending that says what a file holds, without that of its packing.

    >>> file_kind(Path("train.JSONL.xz")), file_kind(Path("README"))
    ('.jsonl', '')
    """
    # SNLI_1.0_dev.JSONL.XZ has the suffixes .0_dev, .JSONL and .XZ: only the last two say something.
    suffixes = ["", *(suffix.lower() for suffix in file.suffixes)]
    return suffixes[-2] if suffixes[-1] in PACKED else suffixes[-1]


@contextlib.contextmanager
def reading(file: Readable) -> Iterator[None]:
    """Turn what goes wrong while a file is read into one line."""
    with translated(f"cannot read {file}: ", kinds=BROKEN, reason=reason_of, missing=f"no such file: {file}"):
        yield


@contextlib.contextmanager
def open_binary(file: Readable) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked as they are read."""
    packing = file.suffixes[-1].lower() if file.suffixes else ""
    if isinstance(file, Path):
        check_regular(file)
    unpack: dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}
    with contextlib.ExitStack() as stack:
        packed = stack.enter_context(file.open("rb"))
        if packing not in PACKED:
            yield packed
            return
        if packing in unpack:
            blocks = iter(partial(stack.enter_context(unpack[packing](packed)).read, _BLOCK), b"")
        else:
            blocks = zstd_blocks(packed, file.name)
        yield io.BufferedReader(_Unpacked(file, packed, blocks), _BLOCK)


class _Unpacked(io.RawIOBase):
    """What a packed file holds, as long as it is in proportion to the file."""

    def __init__(self, file: Readable, packed: Any, blocks: Iterator[bytes]) -> None:
        self._file, self._packed, self._blocks, self._count = file, packed, blocks, 0
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._ready:
            self._ready = memoryview(next(self._blocks, b""))
            self._count += len(self._ready)
            # Checked as it is read: a bomb must be noticed before it is unpacked, not afterwards.
            check_ratio(self._file, self._count, self._packed.tell())
        content, self._ready = self._ready[: len(buffer)], self._ready[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)


def iter_blocks(file: Readable) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of ``iter_lines``, about a megabyte at a time, with the number of the first."""
    with reading(file), open_binary(file) as stream:
        number, rest = 1, b""
        while block := stream.read1(_BLOCK) or (rest and b"\n"):  # type: ignore[attr-defined] # the last may lack its end
            *lines, rest = (block := rest + block).split(b"\n")
            # Only a block that is longer than the limit can hold such a line.
            lengths = map(len, (*lines, rest)) if len(block) >= LINE_BYTES else ()
            if too_long := [at for at, length in enumerate(lengths, number) if length + 1 >= LINE_BYTES]:
                raise InputError(f"{file}, line {too_long[0]} is longer than {LINE_BYTES >> 20} MB; is it a text file?")
            if number == 1 and lines:
                lines[0] = lines[0].removeprefix(b"\xef\xbb\xbf")
            yield number, [line.rstrip(b"\r") for line in lines] if b"\r" in block else lines
            number += len(lines)


def iter_lines(file: Readable) -> Iterator[tuple[int, bytes]]:
    r"""Lines with their numbers, without their ends (``\n`` or ``\r\n``) and without a byte order mark.

    One line at a time, so that a file larger than the memory is fine. Unlike ``str.splitlines`` this does not cut at
    U+2028 and others that stand within sentences.
    """
    for first, lines in iter_blocks(file):
        yield from enumerate(lines, first)


def iter_text(file: Readable) -> Iterator[tuple[int, str]]:
    """The same lines as text; a line that is not UTF-8 is refused."""
    for number, line in iter_lines(file):
        try:
            yield number, line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"{file} is not UTF-8 text (line {number}, byte {error.start})") from error


def is_plain_text(file: Readable) -> bool:
    """Whether a .txt file holds lines of text; SNLI and MNLI are also released as tables that end in .txt."""
    if file_kind(file) != ".txt":
        return False
    header = next((line for _, line in iter_text(file)), "").split("\t")
    return not set(header) & set(COLUMNS["premise"])


def read_text(file: Readable, *, fallback: str | None = None, limit: int | None = None) -> str:
    """A whole text file of at most so many bytes, unpacked; one that is not UTF-8 is refused without ``fallback``."""
    limit = limit or WHOLE_BYTES
    with reading(file), open_binary(file) as stream:
        # In blocks: read() would ask for as much memory as the limit, of which a short file needs little. One byte more
        # than the limit tells a file at it from one beyond it.
        content = bytearray()
        while block := stream.read(min(_BLOCK, limit + 1 - len(content))):
            content += block
    if len(content) > limit:
        raise InputError(f"{file} exceeds the limit of {limit >> 20} MB when unpacked; refusing to read it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if fallback is not None:
            return content.decode(fallback)
        raise InputError(f"{file} is not UTF-8 text (byte {error.start})") from error


def split_lines(text: str) -> list[str]:
    r"""The lines of a text without their ends, which are ``\n`` or ``\r\n``.

    >>> split_lines("a\u2028b\r\n\nc\n")
    ['a\u2028b', '', 'c']
    """
    lines = [line.rstrip("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def read_json(file: Path) -> dict[str, Any]:
    """The object of a JSON file."""
    return parse_json_object(read_text(file, limit=STORED_BYTES), str(file))


def read_rows(path: str | Path) -> list[dict[str, Any]]:  # noqa: D103 - the list of what iter_rows gives
    return [row for _, row in iter_rows(path)]


def iter_rows(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a data file with the line on which each ends (Parquet: the row), counted from 1."""
    path = Path(path)
    check_regular(path)
    if not path.is_file():
        raise InputError(f"no such file: {path}")
    kind = file_kind(path)
    if kind == ".parquet":
        yield from iter_parquet(path)
    elif kind in {".json", ".jsonl"}:
        for number, line in iter_text(path):
            if line.strip():
                yield number, parse_json_object(line, f"{path.name}, line {number}")
    elif kind in {".csv", ".tsv", ".txt"}:
        lines = (f"{line}\n" for _, line in iter_text(path))
        yield from parse_table(lines, path.name, commas=kind == ".csv")
    else:
        packed = ", ".join(PACKED)
        raise InputError(f"{path}: unknown kind of file; use .jsonl, .csv, .tsv or .parquet ({packed} may follow)")


def find_columns(first: Mapping[str, Any], path: str | Path) -> dict[str, str]:
    """Which column of a file plays which role, judged by its first row; roles without a column are left out."""
    columns = {ours: next((name for name in names if name in first), "") for ours, names in COLUMNS.items()}
    missing = [ours for ours in ("premise", "hypothesis") if not columns[ours]]
    if missing:
        raise PairError(
            f"{path}: no column for {' and '.join(missing)} among {', '.join(map(str, first))}; "
            f"accepted are {', '.join(COLUMNS['premise'] + COLUMNS['hypothesis'])}"
        )
    return {ours: theirs for ours, theirs in columns.items() if theirs}


def archive_texts(path: Path, wanted: Callable[[str], bool]) -> dict[str, str]:
    """Texts of a directory or a tar archive by their relative name; links and special files are left out."""
    with translated(f"cannot read {path}: ", kinds=(tarfile.TarError, UnicodeDecodeError, *BROKEN)):
        if path.is_dir():
            names = {file.relative_to(path).as_posix(): file for file in sorted(path.rglob("*")) if file.is_file()}
            return {name: read_text(file) for name, file in names.items() if wanted(name)}
        check_regular(path)
        with tarfile.open(path) as archive:
            texts, left = {}, WHOLE_BYTES
            for count, member in enumerate(archive):  # one at a time: an archive may unpack to far more than it holds
                left -= member.size
                check_ratio(path, WHOLE_BYTES - left, path.stat().st_size)
                if left < 0 or count >= MEMBERS:
                    limit = f"{MEMBERS:,} files" if left >= 0 else f"{WHOLE_BYTES >> 20} MB"
                    raise InputError(f"{path} exceeds the limit of {limit} when unpacked; refusing to read it")
                if member.isfile() and wanted(member.name):
                    content = cast("IO[bytes]", archive.extractfile(member)).read()
                    texts[member.name] = content.decode("utf-8")
            return texts


@contextlib.contextmanager
def atomic(path: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name at the end: readers see the old file or the new one.

    The bytes are on the disk before the name is, unless ``sync`` is off: then a power cut may leave a damaged file. A
    failure leaves the old file as it was and nothing beside it. A killed process leaves the temporary file, which
    ``is_temporary`` recognises; the next one that writes the same file removes it. A pipe or a device is refused: the
    file would take its place, /dev/null for example.
    """
    check_regular(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending stays, because writers such as numpy.savez append one that is missing. Two processes may write the same
    # file, for example of a cache, so each has a temporary file of its own.
    temporary = path.with_name(f".{path.stem}.{process_mark()}.partial{path.suffix}")
    if sync:  # files that need no sync are many in one directory, which would be listed for each of them
        with contextlib.suppress(OSError):
            for left in leftovers(path.parent, f".{path.stem}.", f".partial{path.suffix}"):
                left.unlink(missing_ok=True)
    try:
        yield temporary
        if sync:
            with temporary.open("rb+") as stream:
                os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_content(path: Path, content: Content, *, sync: bool = True) -> None:
    """Write text or bytes, or what a function writes to the path it is given, as ``atomic`` does."""
    with atomic(path, sync=sync) as temporary:
        if callable(content):
            content(temporary)
        else:
            temporary.write_bytes(content.encode() if isinstance(content, str) else content)


def write_atomic(path: str | Path, content: Content) -> None:
    """Write a whole file or none; its directory is made, and a failure is one line."""
    _refuse_stored(Path(path))
    with translated(f"cannot write {path}: ", into=RunError, reason=write_failure):
        write_content(Path(path), content)


def _refuse_stored(path: Path) -> None:
    """Refuse the name of a file that a run was stored in: only ``core.store`` replaces those."""
    if path.name in _STORED and (path.parent / "run.json").is_file():
        raise InputError(f"{path} is a file of the run in {path.parent}; write to another one")


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write files that belong together: all are complete before one takes its name, so a full disk changes nothing.

    The main file comes first; it takes its name last.
    """
    any(map(_refuse_stored, contents))
    with contextlib.ExitStack() as stack:
        before = f"cannot write {', '.join(map(str, contents))}: "
        stack.enter_context(translated(before, into=RunError, kinds=(OSError,), reason=write_failure))
        for file, temporary in [(file, stack.enter_context(atomic(file))) for file in contents]:
            temporary.write_bytes(contents[file])


def write_failure(error: BaseException) -> str | None:
    """Why something could not be written, None if the error says nothing of the kind.

    polars, numpy and safetensors wrap the error of the operating system in classes and words of their own.
    """
    reason = reason_of(error)
    full = getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
    if full or re.search(r"No space left|File too large|\d+ requested and \d+ written", reason):
        return "no space left"
    return reason if isinstance(error, OSError) or "os error" in reason.lower() else None


def write_json(path: str | Path, content: Any) -> None:  # noqa: D103
    write_atomic(path, json_text(content))


def json_text(content: Any) -> str:
    """Indented strict JSON; undefined numbers must be null by now (see ``to_plain``)."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def to_plain(value: Any, digits: int | None = DIGITS) -> Any:
    """Dataclasses, arrays and numbers as strict JSON values: the one rule for undefined numbers.

    NaN and infinity become null, floats are rounded. The p-values ``p``, ``p_holm`` and ``p_bh`` keep their digits: a p
    of 1e-9 is not 0.

    >>> to_plain({"value": float("nan"), "share": 1 / 3, "p": 1e-9})
    {'value': None, 'share': 0.333333, 'p': 1e-09}
    """
    if hasattr(value, "stored_fields"):  # a record
        value = value.stored_fields()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        exact = {"p", "p_holm", "p_bh"}
        return {str(key): to_plain(item, None if key in exact else digits) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item, digits) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist") and not isinstance(value, str | bytes):  # numpy scalars and arrays
        return to_plain(value.tolist(), digits)
    if isinstance(value, float):
        return None if not math.isfinite(value) else value if digits is None else round(value, digits)
    return value


def hash_text(text: str) -> str:
    """SHA-256 of a string."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over names and contents, in the order given."""
    digest = hashlib.sha256()
    for path in paths:
        check_regular(path)
        digest.update(path.name.encode() + b"\x00")
        with path.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return digest.hexdigest()
