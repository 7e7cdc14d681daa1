"""Word vectors from the files of the field, and ``vectors:FILE``, the encoder that takes their mean.

A file is read once, some rows at a time, into a float32 ``.npy`` in a cache folder; the next load maps that copy and
reads no text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.core.binary import read_array
from evenli.core.errors import InputError, RunError
from evenli.core.format import file_name
from evenli.core.io import hash_files, hash_text, read_json
from evenli.core.store import UNREADABLE, RunDir, replacing
from evenli.encoders.base import Embeddings, EncoderRequest
from evenli.encoders.vector_formats import BROKEN, Block, blocks, words_beside
from evenli.words.lists import split_words

CACHE = ".evenli-vectors"  # name of the cache folder beside a vector file
_LAYOUT = 2  # of a cache entry; raise it when what is stored changes
_ABOUT, _MATRIX, _WORDS = "about.json", "matrix.npy", "words.txt"


@dataclass(frozen=True, eq=False)
class WordVectors:
    """Words and their vectors; row i of ``matrix`` belongs to ``words[i]``, in file order (frequent words first)."""

    words: tuple[str, ...]
    matrix: NDArray[np.float32]
    index: dict[str, int] = field(repr=False)
    name: str
    identity: str  # SHA-256 of words and numbers: the same for the same vectors, whatever the file format
    notes: tuple[str, ...] = ()
    file: Path | None = None  # where they were read from

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

    def unit(self, rows: ArrayLike) -> NDArray[np.float64]:
        """Vectors of the given rows at length 1; NaN for a zero vector, which has no direction."""
        which = np.asarray(rows, dtype=np.int64)
        if which.size and not (which.min() >= 0 and which.max() < len(self)):
            raise InputError(f"{self.name} has rows 0 to {len(self) - 1}; drop words without a vector (row -1) first")
        chosen = np.asarray(self.matrix[which], dtype=np.float64)
        length = np.linalg.norm(chosen, axis=-1, keepdims=True)
        return np.asarray(chosen / np.where(length > 0, length, np.nan), dtype=np.float64)


class VectorMean:
    """The mean of the vectors of a text's words; words without a vector are left out."""

    pooling = "mean"

    def __init__(self, vectors: WordVectors, method: str = "") -> None:
        self.vectors = vectors
        self.method = method  # how the vectors were mitigated, for reports
        self.identity = f"mean:{vectors.identity}"

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Words or phrases of which no part has a vector."""
        return [word for word in words if not (self.vectors.rows(split_words(word)) >= 0).any()]

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; a text without a known word is a row of zeros."""
        embeddings = np.zeros((len(texts), self.vectors.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            known = self.vectors.rows(split_words(text))
            known = known[known >= 0]
            if known.size:
                embeddings[row] = self.vectors.matrix[known].mean(axis=0)
        return embeddings


def load(target: str, request: EncoderRequest) -> VectorMean:
    """The encoder of a vector file."""
    request.keep_pooling(f"vectors:{target}", VectorMean.pooling)
    return VectorMean(load_vectors(target))


def load_vectors(path: str | Path, *, limit: int | None = None, cache: str | Path | None = None) -> WordVectors:
    """Load a file of word vectors, memory-mapped.

    Text of GloVe, word2vec and fastText (``.vec``) and word2vec binary, each also as ``.gz`` or ``.xz``; ``.npz`` with
    ``vectors`` and ``words``, a list of text or the UTF-8 bytes (uint8) of one word a line; ``.npy`` with the words,
    one a line, in a ``.txt`` or ``.vocab`` of the same stem. With a ``limit`` only that many words are read from the
    top of the file. The folder ``cache`` has a binary copy, by default ``.evenli-vectors`` beside the file. It is used
    as long as the file has the content that it was made of and its own numbers and words are those that were written.
    """
    path = Path(path)
    if limit is not None and limit < 1:
        raise InputError(f"limit must be 1 or more words, not {limit}")
    if not path.is_file():
        raise InputError(f"no such file of word vectors: {path}")
    sources = [path, words_beside(path)] if path.suffix.lower() == ".npy" else [path]
    place = Path(cache) if cache is not None else path.parent / CACHE
    entry = place / file_name(f"{path.name}-{hash_text(f'{path.resolve()}|{limit}')[:12]}")
    # Both are hashed at every load, 1 to 3 s a gigabyte: results name the vectors they rest on, and a file may change
    # within its size and keep its time.
    stamp = [_LAYOUT, hash_files(sources)]
    stored = _open(entry, stamp, path)
    if stored is not None:
        return stored
    failure: RunError | None = None
    try:
        with replacing(_directory(entry), overwrite=True) as folder:
            about = _write_rows(blocks(path, sources[-1]), folder, path, limit)
            _directory(folder).write_manifest({"stamp": stamp, **about})
    except RunError as error:
        failure = error  # perhaps another process was faster: its copy is as good
    stored = _open(entry, stamp, path)
    if stored is None:
        raise failure or InputError(f"the copy of {path} in {place} changed while it was read; load the file again")
    return stored


def _directory(entry: Path) -> RunDir:
    return RunDir(entry, kind="vector cache", manifest=_ABOUT, owned=(_MATRIX, _WORDS), option="folder as cache")


def _open(entry: Path, stamp: list[Any], path: Path) -> WordVectors | None:
    """The vectors of a cache entry, or nothing if it is absent, of another file, or damaged."""
    try:
        about = read_json(entry / _ABOUT)
        if about["stamp"] != stamp:
            return None
        # A line feed alone ends a word: vocabularies hold U+0085, U+2028 and carriage returns.
        words = tuple((entry / _WORDS).read_bytes().decode("utf-8", "surrogatepass").split("\n"))
        matrix = read_array(entry / _MATRIX, mapped=True)
        identity, notes = str(about["identity"]), tuple(about["notes"])
    except UNREADABLE:
        return None
    if matrix.ndim != 2 or matrix.dtype != np.float32 or len(matrix) != len(words):
        return None
    digest = hashlib.sha256(matrix.data if matrix.flags.c_contiguous else matrix.tobytes())
    if identity != _identity(digest.hexdigest(), words, matrix.shape[1]):
        return None  # damaged or edited: the copy is made anew
    index = {word: row for row, word in enumerate(words)}
    return WordVectors(words, matrix, index, path.name, identity, notes, path)


def _write_rows(rows: Iterator[Block], folder: Path, path: Path, limit: int | None) -> dict[str, Any]:
    """Write the matrix block by block, then the words; returns what is known of them."""
    words: dict[str, None] = {}
    repeated = replaced = zeros = dimension = 0
    digest = hashlib.sha256()
    try:
        with (folder / _MATRIX).open("wb") as out:
            for names, block in rows:
                if not dimension:
                    dimension = block.shape[1]
                    _write_header(out, 0, dimension)  # the rows are not counted yet
                keep = []
                for row, name in enumerate(names):
                    if len(words) == limit:
                        break
                    word = name if isinstance(name, str) else name.decode("utf-8", "replace")
                    replaced += word != name and word.encode() != name
                    if word in words:
                        repeated += 1
                        continue
                    words[word] = None
                    keep.append(row)
                chosen = np.ascontiguousarray(block if len(keep) == len(block) else block[keep], dtype="<f4")
                zeros += int((~chosen.any(axis=1)).sum())
                digest.update(chosen.data)
                out.write(chosen.data)
                if len(words) == limit:
                    break
            if not words:
                raise InputError(f"{path} holds no word vectors: the file is empty")
            out.seek(0)
            _write_header(out, len(words), dimension)
    except BROKEN as error:
        raise InputError(f"cannot convert {path}: {getattr(error, 'strerror', None) or error}") from error
    (folder / _WORDS).write_bytes("\n".join(words).encode("utf-8", "surrogatepass"))
    counts = {
        "repeated word(s) left out: the first vector of a word counts": repeated,
        "word(s) are not valid UTF-8: the bytes were replaced by U+FFFD": replaced,
        "word(s) have a zero vector: cosines with them are undefined": zeros,
    }
    notes = [f"{count} {text}" for text, count in counts.items() if count]
    return {"identity": _identity(digest.hexdigest(), words, dimension), "notes": notes}


def _write_header(out: IO[bytes], rows: int, dimension: int) -> None:
    # NumPy pads the header so that the first axis can grow: it can be written again once the rows are counted.
    np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)})


def _identity(numbers: str, words: Iterable[str], dimension: int) -> str:
    """SHA-256 over the digest of the numbers, their count in a vector, and the words."""
    digest = hashlib.sha256(f"{numbers}|{dimension}".encode())
    for word in words:
        digest.update(b"\n" + word.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
