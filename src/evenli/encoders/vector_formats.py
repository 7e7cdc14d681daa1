"""The file formats of word vectors, each read some rows at a time.

Text of GloVe, word2vec and fastText, word2vec binary, NumPy arrays. Nothing is ever unpickled: a pickle runs whatever
code its author put in it.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from evenli.core.binary import decoding, read_array, read_arrays
from evenli.core.errors import InputError, translated
from evenli.core.io import BROKEN as BROKEN_STREAM
from evenli.core.io import iter_lines, open_binary

BROKEN = (*BROKEN_STREAM, zipfile.BadZipFile)  # what reading a damaged file raises, however it is packed
Block = tuple[Sequence[bytes | str], NDArray[np.float32]]  # some words and their rows

_NUMBERS = 100_000  # read at a time: enough to amortise calls, and still little memory
_SNIFF = 1 << 18
_WIDEST = 100_000  # numbers in a row; a header that says more belongs to some other kind of file
_LONGEST = 10_000  # bytes in a word of a binary file
_LARGEST = float(np.finfo(np.float32).max)
_FASTTEXT = (793712314).to_bytes(4, "little")
_PICKLED = {".kv", ".model", ".pkl", ".pickle", ".wordvectors"}


def blocks(path: Path, words: Path) -> Iterator[Block]:
    """Rows of any supported file, some at a time; ``words`` is the file that names those of an ``.npy``."""
    kind = path.suffix.lower()
    if kind == ".zip":
        raise InputError(f"{path} is an archive of files: unpack it and give the text file (it may be .gz or .xz)")
    if kind in {".npy", ".npz"}:
        return _array_blocks(path, words)
    with translated(f"cannot read {path}: ", kinds=BROKEN), open_binary(path) as stream:
        head = stream.read(_SNIFF)
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
    sizes = first.split()
    if len(sizes) != 2 or not all(map(bytes.isdigit, sizes)):
        return _text_blocks(path, None)
    shape = int(sizes[0]), int(sizes[1])
    if not 1 <= shape[1] <= _WIDEST:
        raise InputError(f"{path}, line 1: the header says {shape[1]} numbers a row, expected 1 to {_WIDEST}")
    fields = rest.partition(b"\n")[0].split()
    # The header is the same in both: it is text if a row of text follows, and binary numbers hardly ever read so.
    textual = len(fields) > 1 and all(_number(field) is not None for field in fields[-min(len(fields) - 1, shape[1]) :])
    return _text_blocks(path, shape) if textual or not rest.strip() else _binary_blocks(path, shape)


def _number(text: bytes) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text_blocks(path: Path, shape: tuple[int, int] | None) -> Iterator[Block]:
    dimension = shape[1] if shape else 0
    rows = 0
    lines = ((number, line.rstrip(b" \t\r")) for number, line in iter_lines(path) if number > bool(shape))
    filled = ((number, line.replace(b"\t", b" ")) for number, line in lines if line)
    while some := list(itertools.islice(filled, max(1, _NUMBERS // dimension) if dimension else 1)):
        dimension = dimension or _width(some[0][1], path, some[0][0])
        rows += len(some)
        yield _parse(some, dimension, path)
    if shape and rows != shape[0]:
        raise InputError(f"{path}: the header says {shape[0]} rows, the file has {rows}; is the download complete?")


def _width(line: bytes, path: Path, number: int) -> int:
    """Numbers at the end of the first row; a word that is a number itself is the first field."""
    numbers = sum(1 for _ in itertools.takewhile(lambda field: _number(field) is not None, reversed(line.split()[1:])))
    if not numbers:
        raise InputError(f"{path}, line {number}: expected a word and its numbers, found '{_shown(line)}'")
    return numbers


def _parse(lines: list[tuple[int, bytes]], dimension: int, path: Path) -> Block:
    """Words and numbers of some lines: all at once where every line is plain, else one by one."""
    # A plain line has one space per number; words with spaces and doubled spaces take the slow way, which also names
    # what is wrong.
    parts = [line.partition(b" ") for _, line in lines if line.count(b" ") == dimension]
    if len(parts) == len(lines) and all(word for word, _, _ in parts):
        values = parse_numbers(b" ".join(rest for _, _, rest in parts), len(lines) * dimension)
        if values is not None and np.abs(values).max() <= _LARGEST:
            return [word for word, _, _ in parts], values.astype(np.float32).reshape(len(lines), dimension)
    rows = [_parse_line(line, dimension, f"{path}, line {number}") for number, line in lines]
    return [word for word, _ in rows], np.array([numbers for _, numbers in rows], dtype=np.float32)


def parse_numbers(text: bytes, count: int) -> NDArray[np.float64] | None:
    """Numbers separated by single spaces, or None if a field is not a number or there are not ``count`` of them.

    The CSV reader of polars rounds as ``float`` does and is several times as fast.
    """
    try:
        import polars as pl
    except ImportError:  # machines that only train need no polars
        with contextlib.suppress(ValueError):
            values = np.array([float(field) for field in text.split(b" ")])
            return values if len(values) == count else None
        return None
    column = io.BytesIO(text.replace(b" ", b"\n"))
    try:
        parsed = pl.read_csv(column, has_header=False, schema={"number": pl.Float64}, quote_char=None).to_series()
    except pl.exceptions.PolarsError:
        return None
    return parsed.to_numpy() if len(parsed) == count and not parsed.null_count() else None


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


def _binary_blocks(path: Path, shape: tuple[int, int]) -> Iterator[Block]:
    count, dimension = shape
    size, step = 4 * dimension, max(1, _NUMBERS // dimension)
    with open_binary(path) as stream:
        stream.readline()
        buffer, at = b"", 0
        for start in range(0, count, step):
            words: list[bytes] = []
            block = np.empty((min(step, count - start), dimension), dtype=np.float32)
            for row in range(len(block)):
                end = buffer.find(b" ", at)
                # Read on until the word and all of its numbers are in the buffer.
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


def words_beside(path: Path) -> Path:
    """The file with the words of an ``.npy``."""
    beside = [path.with_suffix(suffix) for suffix in (".txt", ".vocab")]
    for file in filter(Path.is_file, beside):
        return file
    names = " or ".join(file.name for file in beside)
    raise InputError(f"{path} holds no words: put them, one a line in row order, beside it in {names}")


def _array_blocks(path: Path, beside: Path) -> Iterator[Block]:
    words: Sequence[bytes | str]
    if path.suffix.lower() == ".npy":
        with decoding(beside):
            words = [line.rstrip(b"\r") for line in beside.read_bytes().removesuffix(b"\n").split(b"\n")]
        matrix = read_array(path, mapped=True)
    else:
        listed, matrix = read_arrays(path, "words", "vectors").values()
        if listed.ndim != 1 or (listed.dtype.kind not in "US" and listed.dtype != np.uint8):
            raise InputError(f"{path}: words must be a list of text, not {listed.dtype} of shape {listed.shape}")
        with decoding(path):
            text = listed.dtype == np.uint8
            words = listed.tobytes().decode("utf-8", "surrogatepass").split("\n") if text else listed.tolist()
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
    for row in np.flatnonzero(~np.isfinite(block).all(axis=1)).tolist():
        raise InputError(f"{path}, row {start + row + 1}: a number for '{_shown(words[row])}' is not finite")
    for row, word in enumerate(words):
        if not word or ("\n" in word if isinstance(word, str) else b"\n" in word):
            raise InputError(f"{path}, row {start + row + 1}: the word is empty or holds a line break")


def _shown(text: bytes | str, width: int = 40) -> str:
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    return text if len(text) <= width else f"{text[:width]}…"
