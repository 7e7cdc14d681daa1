"""Word vectors from the files of the field, as one memory-mapped matrix.

Text is read once, some rows at a time, into a float32 ``.npy`` in a cache folder; the next load maps that file
and reads no text. Nothing is ever unpickled: a pickle runs whatever code its author put in it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import math
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli._hashing import hash_text
from evenli.errors import InputError
from evenli.vectors._decimal import parse_decimals

CACHE = ".evenli-vectors"
"""Name of the cache folder beside a vector file."""
_LAYOUT = 1  # of a cache entry; raise it when what is stored changes
_NUMBERS = 10_000  # parsed at a time: enough to amortise calls, few enough to stay in the processor's cache
_SNIFF = 1 << 18
_WIDEST = 100_000  # numbers in a row; a header that says more belongs to some other kind of file
_LONGEST = 10_000  # bytes in a word of a binary file
_LARGEST = float(np.finfo(np.float32).max)
_FASTTEXT = (793712314).to_bytes(4, "little")
_PICKLED = {".kv", ".model", ".pkl", ".pickle", ".wordvectors"}
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile)

_Block = tuple[Sequence[bytes | str], NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; row i of ``matrix`` belongs to ``words[i]``, in file order (frequent words first)."""

    words: tuple[str, ...]
    matrix: NDArray[np.float32]
    index: dict[str, int] = field(repr=False)
    name: str
    identity: str
    """SHA-256 of words and numbers: the same for the same vectors, whatever the file format."""
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, words: Iterable[str], matrix: ArrayLike, name: str = "vectors") -> WordVectors:
        """Vectors that are in memory already; words must be distinct."""
        words = tuple(words)
        rows = np.ascontiguousarray(matrix, dtype=np.float32)
        if rows.ndim != 2 or len(rows) != len(words) or not words:
            raise InputError(f"{name}: {len(words)} words need a matrix of as many rows, not one of shape {rows.shape}")
        if not np.isfinite(rows).all():
            raise InputError(f"{name}: the matrix holds numbers that are not finite")
        index = {word: row for row, word in enumerate(words)}
        if len(index) < len(words):
            twice = next(word for row, word in enumerate(words) if index[word] != row)
            raise InputError(f"{name}: '{twice}' is there more than once; keep one vector a word")
        digest = hashlib.sha256(rows.tobytes())
        return cls(words, rows, index, name, _identity(digest.hexdigest(), words, rows.shape[1]))

    @property
    def dimension(self) -> int:
        """Numbers in a vector."""
        return int(self.matrix.shape[1])

    def __len__(self) -> int:
        return len(self.words)

    def find(self, word: str) -> int:
        """Row of a word: its exact form, else its lower-case form, else -1."""
        row = self.index.get(word)
        return row if row is not None else self.index.get(word.lower(), -1)

    def rows(self, words: Iterable[str]) -> NDArray[np.int64]:
        """Rows of many words, -1 for those without a vector."""
        return np.fromiter((self.find(word) for word in words), dtype=np.int64)

    def vector(self, word: str) -> NDArray[np.float32]:
        """The vector of a word, as stored."""
        row = self.find(word)
        if row < 0:
            raise InputError(f"{self.name} has no vector for '{word}' nor for '{word.lower()}'")
        return np.array(self.matrix[row])

    def unit(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Vectors of the given rows at length 1; NaN for a zero vector, which has no direction."""
        which = np.asarray(rows, dtype=np.int64)
        if which.size and not (which.min() >= 0 and which.max() < len(self)):
            raise InputError(f"{self.name} has rows 0 to {len(self) - 1}; drop words without a vector (row -1) first")
        chosen = np.asarray(self.matrix[which], dtype=np.float64)
        length = np.linalg.norm(chosen, axis=-1, keepdims=True)
        return np.asarray(chosen / np.where(length > 0, length, np.nan), dtype=np.float64)


def load_vectors(path: str | Path, *, limit: int | None = None, cache: str | Path | None = None) -> WordVectors:
    """Load a file of word vectors, memory-mapped.

    Text of GloVe, word2vec and fastText (``.vec``) and word2vec binary, each also as ``.gz`` or ``.xz``; ``.npz`` with
    ``words`` and ``vectors``; ``.npy`` with the words, one a line, in a ``.txt`` or ``.vocab`` of the same stem.

    Args:
        path: The file.
        limit: Read only that many words from the top of the file.
        cache: Folder for the binary copy; by default ``.evenli-vectors`` beside the file. A copy is used as long as
            the file keeps its size and its time of change.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more words, not {limit}")
    if not path.is_file():
        raise InputError(f"no such file of word vectors: {path}")
    sources = [path, _words_beside(path)] if path.suffix.lower() == ".npy" else [path]
    place = Path(cache) if cache is not None else path.parent / CACHE
    entry = place / f"{path.name}-{hash_text(f'{path.resolve()}|{limit}')[:12]}"
    stamp = [_LAYOUT, *([stat.st_size, stat.st_mtime_ns] for stat in (source.stat() for source in sources))]
    stored = _open(entry, stamp, path.name)
    if stored is not None:
        return stored
    try:
        place.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{entry.name}.part-", dir=place))
    except OSError as error:
        raise InputError(f"cannot write to {place} ({error.strerror}); give another folder as cache") from error
    try:
        _store(_blocks(path, sources[-1]), part, path, stamp, limit)
        _swap(part, entry)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    stored = _open(entry, stamp, path.name)
    if stored is None:
        raise InputError(f"the copy of {path} in {place} changed while it was read; load the file again")
    return stored


def _open(entry: Path, stamp: list[Any], name: str) -> WordVectors | None:
    """The vectors of a cache entry, or nothing if it is absent, of another file, or damaged."""
    try:
        about = json.loads((entry / "about.json").read_text(encoding="utf-8"))
        if about["stamp"] != stamp:
            return None
        words = tuple((entry / "words.txt").read_bytes().decode("utf-8").split("\n"))
        matrix = np.load(entry / "matrix.npy", mmap_mode="r", allow_pickle=False)
        identity, notes = str(about["identity"]), tuple(about["notes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if matrix.ndim != 2 or matrix.dtype != np.float32 or len(matrix) != len(words):
        return None
    return WordVectors(words, matrix, {word: row for row, word in enumerate(words)}, name, identity, notes)


def _store(blocks: Iterator[_Block], folder: Path, path: Path, stamp: list[Any], limit: int | None) -> None:
    """Write one cache entry: the matrix row block by row block, then the words, then what is known of them."""
    words: dict[str, None] = {}
    repeated = replaced = zeros = dimension = 0
    digest = hashlib.sha256()
    try:
        with (folder / "matrix.npy").open("wb") as out:
            for names, block in blocks:
                if not dimension:
                    dimension = block.shape[1]
                    start = _head(out, 0, dimension)
                keep = []
                for row, name in enumerate(names):
                    if isinstance(name, bytes):
                        try:
                            word = name.decode("utf-8")
                        except UnicodeDecodeError:
                            word = name.decode("utf-8", "replace")
                            replaced += 1
                    else:
                        word = name
                    if word in words:
                        repeated += 1
                        continue
                    words[word] = None
                    keep.append(row)
                    if len(words) == limit:
                        break
                chosen = np.ascontiguousarray(block if len(keep) == len(block) else block[keep], dtype="<f4")
                zeros += int((~chosen.any(axis=1)).sum())
                numbers = chosen.tobytes()
                digest.update(numbers)
                out.write(numbers)
                if len(words) == limit:
                    break
            if not words:
                raise InputError(f"{path} holds no word vectors: the file is empty")
            out.seek(0)
            if _head(out, len(words), dimension) != start:  # pragma: no cover
                raise InputError(f"{path}: {len(words)} rows do not fit the header of an .npy file")
    except _BROKEN as error:
        raise InputError(f"cannot convert {path}: {getattr(error, 'strerror', None) or error}") from error
    notes = []
    if repeated:
        notes.append(f"{repeated} repeated word(s) left out: the first vector of a word counts")
    if replaced:
        notes.append(f"{replaced} word(s) are not valid UTF-8: the bytes were replaced by U+FFFD")
    if zeros:
        notes.append(f"{zeros} word(s) have a zero vector: cosines with them are undefined")
    identity = _identity(digest.hexdigest(), words, dimension)
    about = {"stamp": stamp, "identity": identity, "notes": notes}
    (folder / "words.txt").write_bytes("\n".join(words).encode("utf-8"))
    (folder / "about.json").write_text(json.dumps(about), encoding="utf-8")


def _head(out: IO[bytes], rows: int, dimension: int) -> int:
    # NumPy pads the header so that the first axis can grow: it can be written again once the rows are counted.
    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(out, about)
    return out.tell()


def _swap(part: Path, entry: Path) -> None:
    """Put a finished entry in its place; whoever came first may be replaced, never half-written."""
    old = part.with_name(f"{part.name}.old")
    try:
        if entry.exists():
            entry.replace(old)
        part.replace(entry)
    except OSError as error:
        if not entry.is_dir():
            raise InputError(f"cannot write {entry}: {error.strerror}; give another folder as cache") from error
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _identity(numbers: str, words: Iterable[str], dimension: int) -> str:
    digest = hashlib.sha256(f"{numbers}|{dimension}".encode())
    for word in words:
        digest.update(b"\n" + word.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _blocks(path: Path, words: Path) -> Iterator[_Block]:
    """Rows of any supported file, some at a time."""
    kind = path.suffix.lower()
    if kind == ".zip":
        raise InputError(f"{path} is an archive of files: unpack it and give the text file (it may be .gz or .xz)")
    if kind in {".npy", ".npz"}:
        return _array_blocks(*_arrays(path, words), path)
    try:
        with _opened(path) as stream:
            head = stream.read(_SNIFF)
    except _BROKEN as error:
        raise InputError(f"cannot read {path}: {error}") from error
    if head[:4] == _FASTTEXT:
        raise InputError(f"{path} is a fastText model: give the .vec file of the same vectors, which is text")
    if kind in _PICKLED or (head[:1] == b"\x80" and head[1:2] in {b"\x02", b"\x03", b"\x04", b"\x05"}):
        raise InputError(
            f"{path} is a pickle, which can run code and is not opened: export it where you trust it, with "
            "gensim's KeyedVectors.load(path).save_word2vec_format('vectors.bin', binary=True)"
        )
    first, newline, rest = head.partition(b"\n")
    if head.strip() and not newline and len(head) == _SNIFF:
        raise InputError(f"{path}: no line ends within {_SNIFF} bytes; expected text or word2vec binary vectors")
    shape = _header(first)
    if shape is None:
        return _text_blocks(path, None)
    if not 1 <= shape[1] <= _WIDEST:
        raise InputError(f"{path}, line 1: the header says {shape[1]} numbers a row, expected 1 to {_WIDEST}")
    fields = rest.partition(b"\n")[0].split()
    # The header is the same in both: it is text if a row of text follows, and binary numbers hardly ever read so.
    textual = len(fields) > 1 and all(_number(one) is not None for one in fields[-min(len(fields) - 1, shape[1]) :])
    return _text_blocks(path, shape) if textual or not rest.strip() else _binary_blocks(path, shape)


def _opened(path: Path) -> IO[bytes]:
    kind = path.suffix.lower()
    if kind == ".gz":
        return cast("IO[bytes]", gzip.open(path, "rb"))
    if kind == ".xz":
        return lzma.open(path, "rb")
    return path.open("rb", buffering=1 << 20)


def _header(line: bytes) -> tuple[int, int] | None:
    fields = line.split()
    return (int(fields[0]), int(fields[1])) if len(fields) == 2 and all(map(bytes.isdigit, fields)) else None


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text_blocks(path: Path, shape: tuple[int, int] | None) -> Iterator[_Block]:
    dimension = shape[1] if shape else 0
    seen = 0
    with _opened(path) as stream:
        number = 0
        if shape:
            stream.readline()
            number = 1
        lines: list[tuple[int, bytes]] = []
        for line in stream:
            number += 1
            line = line.rstrip(b" \t\r\n")
            if not line:
                continue
            if b"\t" in line:
                line = line.replace(b"\t", b" ")
            if not dimension:
                dimension = _width(line, path, number)
            lines.append((number, line))
            if len(lines) >= _NUMBERS // dimension:
                seen += len(lines)
                yield _parse(lines, dimension, path)
                lines = []
        if lines:
            seen += len(lines)
            yield _parse(lines, dimension, path)
    if shape and seen != shape[0]:
        raise InputError(f"{path}: the header says {shape[0]} rows, the file has {seen}; is the download complete?")


def _width(line: bytes, path: Path, number: int) -> int:
    """Numbers at the end of the first row; a word that is a number itself is the first field."""
    fields = line.split()
    numbers = 0
    while numbers < len(fields) - 1 and _number(fields[-1 - numbers]) is not None:
        numbers += 1
    if not numbers:
        raise InputError(f"{path}, line {number}: expected a word and its numbers, found '{_shown(line)}'")
    return numbers


def _parse(lines: list[tuple[int, bytes]], dimension: int, path: Path) -> _Block:
    """Words and numbers of some lines: all at once where every line is plain, else one by one."""
    parts = [line.partition(b" ") for _, line in lines if line.count(b" ") == dimension]
    if len(parts) == len(lines) and all(word for word, _, _ in parts):
        values = parse_decimals(b" ".join(rest for _, _, rest in parts))
        if values is not None and np.abs(values).max() <= _LARGEST:
            return [word for word, _, _ in parts], values.astype(np.float32).reshape(len(lines), dimension)
    words, block = [], np.empty((len(lines), dimension), dtype=np.float32)
    for row, (number, line) in enumerate(lines):
        word, numbers = _parse_line(line, dimension, f"{path}, line {number}")
        words.append(word)
        block[row] = numbers
    return words, block


def _parse_line(line: bytes, dimension: int, where: str) -> tuple[bytes, list[float]]:
    fields = line.rsplit(None, dimension)
    if line[:1] == b" " and len(fields) == dimension:
        raise InputError(f"{where}: {dimension} numbers without a word before them")
    if len(fields) <= dimension:
        raise InputError(f"{where}: {len(fields) - 1} numbers for '{_shown(fields[0])}', expected {dimension}")
    numbers = []
    for text in fields[1:]:
        value = _number(text)
        if value is None or not math.isfinite(value) or abs(value) > _LARGEST:
            wrong = "is not a finite number" if value is not None else "is not a number"
            raise InputError(f"{where}: '{_shown(text)}' {wrong} ({dimension} are due for '{_shown(fields[0])}')")
        numbers.append(value)
    word = fields[0].strip(b" ")
    # Words with spaces exist (GloVe 840B has some), but none that end in a number: that is a row too long.
    extra = word.split()[1:]
    if extra and _number(extra[-1]) is not None:
        count = dimension + len(extra)
        raise InputError(f"{where}: {count} numbers for '{_shown(word.split()[0])}', expected {dimension}")
    return word, numbers


def _binary_blocks(path: Path, shape: tuple[int, int]) -> Iterator[_Block]:
    count, dimension = shape
    size, step = 4 * dimension, max(1, _NUMBERS // dimension)
    with _opened(path) as stream:
        stream.readline()
        buffer, at = b"", 0
        for start in range(0, count, step):
            words: list[bytes] = []
            block = np.empty((min(step, count - start), dimension), dtype=np.float32)
            for row in range(len(block)):
                end = buffer.find(b" ", at)
                while end < 0 or len(buffer) < end + 1 + size:
                    if end < 0 and len(buffer) - at > _LONGEST:
                        raise InputError(f"{path}, row {start + row + 1}: no word found; is it word2vec binary?")
                    more = stream.read(max(1 << 20, size))
                    if not more:
                        whole = f"{start + row} of {count} rows are whole"
                        raise InputError(f"{path} ends too early: {whole}; is the download complete?")
                    buffer, at = buffer[at:] + more, 0
                    end = buffer.find(b" ", at)
                # The original tool writes a line end after every vector, others do not.
                words.append(buffer[at:end].lstrip(b"\n"))
                block[row] = np.frombuffer(buffer, dtype="<f4", count=dimension, offset=end + 1)
                at = end + 1 + size
            _check(words, block, start, path)
            yield words, block
        if (buffer[at:] + stream.read(16)).strip(b"\n"):
            raise InputError(f"{path}: more bytes follow the {count} rows of the header; is it word2vec binary?")


def _words_beside(path: Path) -> Path:
    for suffix in (".txt", ".vocab"):
        if path.with_suffix(suffix).is_file():
            return path.with_suffix(suffix)
    names = f"{path.stem}.txt or {path.stem}.vocab"
    raise InputError(f"{path} holds no words: put them, one a line in row order, beside it in {names}")


def _arrays(path: Path, words: Path) -> tuple[Sequence[bytes | str], NDArray[Any]]:
    try:
        if path.suffix.lower() == ".npy":
            matrix = np.load(path, mmap_mode="r", allow_pickle=False)
            lines: list[bytes] = words.read_bytes().split(b"\n")
            lines = [line.rstrip(b"\r") for line in (lines[:-1] if lines[-1] == b"" else lines)]
            return lines, matrix
        with np.load(path, allow_pickle=False) as archive:
            missing = [key for key in ("words", "vectors") if key not in archive.files]
            if missing:
                found = ", ".join(archive.files) or "nothing"
                raise InputError(f"{path} needs the arrays words and vectors; it holds {found}")
            listed, matrix = archive["words"], archive["vectors"]
    except (*_BROKEN, ValueError, TypeError, AttributeError) as error:
        hint = "; store words as text (dtype str), not as objects" if "allow_pickle" in str(error) else ""
        raise InputError(f"cannot read {path}: {str(error).partition(chr(10))[0]}{hint}") from error
    if listed.ndim != 1 or listed.dtype.kind not in "US":
        raise InputError(f"{path}: words must be a list of text, not {listed.dtype} of shape {listed.shape}")
    return listed.tolist(), matrix


def _array_blocks(words: Sequence[bytes | str], matrix: NDArray[Any], path: Path) -> Iterator[_Block]:
    if matrix.ndim != 2 or matrix.dtype.kind not in "fiu" or not matrix.shape[1]:
        raise InputError(f"{path}: expected a table of numbers, found {matrix.dtype} of shape {matrix.shape}")
    if len(words) != len(matrix):
        raise InputError(f"{path}: {len(matrix)} rows but {len(words)} words")
    step = max(1, _NUMBERS // matrix.shape[1])
    for start in range(0, len(words), step):
        names = words[start : start + step]
        with np.errstate(over="ignore"):
            block = np.asarray(matrix[start : start + step], dtype=np.float32)
        _check(names, block, start, path)
        yield names, block


def _check(words: Sequence[bytes | str], block: NDArray[np.float32], start: int, path: Path) -> None:
    if not np.isfinite(block).all():
        row = int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
        raise InputError(f"{path}, row {start + row + 1}: a number for '{_shown(words[row])}' is not finite")
    for row, word in enumerate(words):
        if not word or ("\n" in word if isinstance(word, str) else b"\n" in word):
            raise InputError(f"{path}, row {start + row + 1}: the word is empty or holds a line break")


def _shown(text: bytes | str, width: int = 40) -> str:
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return text if len(text) <= width else f"{text[:width]}…"
