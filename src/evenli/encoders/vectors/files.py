"""Word vectors from the files of the field, as one memory-mapped matrix.

A file is read once, some rows at a time, into a float32 ``.npy`` in a cache folder; the next load maps that copy and
reads no text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenli.encoders.vectors.base import WordVectors, identity_of
from evenli.encoders.vectors.formats import BROKEN, Block, blocks, words_beside
from evenli.errors import InputError, RunError
from evenli.io import hash_text
from evenli.store import UNREADABLE, RunDir, replacing

CACHE = ".evenli-vectors"
"""Name of the cache folder beside a vector file."""
_LAYOUT = 1  # of a cache entry; raise it when what is stored changes
_ABOUT, _MATRIX, _WORDS = "about.json", "matrix.npy", "words.txt"


def load_vectors(path: str | Path, *, limit: int | None = None, cache: str | Path | None = None) -> WordVectors:
    """Load a file of word vectors, memory-mapped.

    Text of GloVe, word2vec and fastText (``.vec``) and word2vec binary, each also as ``.gz`` or ``.xz``; ``.npz`` with
    ``vectors`` and ``words``, a list of text or the UTF-8 bytes (uint8) of one word a line; ``.npy`` with the words,
    one a line, in a ``.txt`` or ``.vocab`` of the same stem.

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
    sources = [path, words_beside(path)] if path.suffix.lower() == ".npy" else [path]
    place = Path(cache) if cache is not None else path.parent / CACHE
    entry = place / f"{path.name}-{hash_text(f'{path.resolve()}|{limit}')[:12]}"
    # Size and time say whether the file has changed: hashing gigabytes at every load would cost what the copy saves.
    stamp = [_LAYOUT, *([stat.st_size, stat.st_mtime_ns] for stat in (source.stat() for source in sources))]
    stored = _open(entry, stamp, path)
    if stored is not None:
        return stored
    failure: RunError | None = None
    try:
        with replacing(_directory(entry), overwrite=True) as folder:
            _store(blocks(path, sources[-1]), folder, path, stamp, limit)
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
        about = json.loads((entry / _ABOUT).read_text(encoding="utf-8"))
        if about["stamp"] != stamp:
            return None
        # A line feed alone ends a word: vocabularies hold U+0085, U+2028 and carriage returns.
        words = tuple((entry / _WORDS).read_bytes().decode("utf-8", "surrogatepass").split("\n"))
        matrix = np.load(entry / _MATRIX, mmap_mode="r", allow_pickle=False)
        identity, notes = str(about["identity"]), tuple(about["notes"])
    except UNREADABLE:
        return None
    if matrix.ndim != 2 or matrix.dtype != np.float32 or len(matrix) != len(words):
        return None
    index = {word: row for row, word in enumerate(words)}
    return WordVectors(words, matrix, index, path.name, identity, notes, path)


class _Words:
    """The distinct words of a file in order; of a repeated word the first vector counts."""

    def __init__(self, limit: int | None) -> None:
        self.words: dict[str, None] = {}
        self.repeated = self.replaced = 0
        self._limit = limit

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.words) == self._limit

    def add(self, names: Sequence[bytes | str]) -> list[int]:
        """Take in the words of a block; returns the rows to keep."""
        keep = []
        for row, name in enumerate(names):
            if self.full:
                break
            word = name if isinstance(name, str) else self._decode(name)
            if word in self.words:
                self.repeated += 1
                continue
            self.words[word] = None
            keep.append(row)
        return keep

    def _decode(self, name: bytes) -> str:
        try:
            return name.decode("utf-8")
        except UnicodeDecodeError:
            self.replaced += 1
            return name.decode("utf-8", "replace")


def _store(rows: Iterator[Block], folder: Path, path: Path, stamp: list[Any], limit: int | None) -> None:
    """Write one cache entry: the matrix block by block, then the words, then what is known of them."""
    words = _Words(limit)
    zeros = dimension = 0
    digest = hashlib.sha256()
    try:
        with (folder / _MATRIX).open("wb") as out:
            for names, block in rows:
                if not dimension:
                    dimension = block.shape[1]
                    start = _head(out, 0, dimension)
                keep = words.add(names)
                chosen = np.ascontiguousarray(block if len(keep) == len(block) else block[keep], dtype="<f4")
                zeros += int((~chosen.any(axis=1)).sum())
                digest.update(chosen.data)
                out.write(chosen.data)
                if words.full:
                    break
            if not words.words:
                raise InputError(f"{path} holds no word vectors: the file is empty")
            out.seek(0)
            if _head(out, len(words.words), dimension) != start:  # pragma: no cover
                raise InputError(f"{path}: {len(words.words)} rows do not fit the header of an .npy file")
    except BROKEN as error:
        raise InputError(f"cannot convert {path}: {getattr(error, 'strerror', None) or error}") from error
    counts = {
        "repeated word(s) left out: the first vector of a word counts": words.repeated,
        "word(s) are not valid UTF-8: the bytes were replaced by U+FFFD": words.replaced,
        "word(s) have a zero vector: cosines with them are undefined": zeros,
    }
    about = {
        "stamp": stamp,
        "identity": identity_of(digest.hexdigest(), words.words, dimension),
        "notes": [f"{count} {text}" for text, count in counts.items() if count],
    }
    (folder / _WORDS).write_bytes("\n".join(words.words).encode("utf-8", "surrogatepass"))
    _directory(folder).write_manifest(about)


def _head(out: IO[bytes], rows: int, dimension: int) -> int:
    # NumPy pads the header so that the first axis can grow: it can be written again once the rows are counted.
    about = {"descr": "<f4", "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(out, about)
    return out.tell()
