"""Word vectors from the files of the field, as one memory-mapped matrix.

A file is read once, some rows at a time, into a float32 ``.npy`` in a cache folder; the next load maps that copy and
reads no text.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from evenli.encoders.vectors.base import WordVectors, identity_of
from evenli.encoders.vectors.formats import BROKEN, Block, blocks, words_beside
from evenli.errors import InputError
from evenli.io import hash_text

CACHE = ".evenli-vectors"
"""Name of the cache folder beside a vector file."""
_LAYOUT = 1  # of a cache entry; raise it when what is stored changes


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
    stamp = [_LAYOUT, *([stat.st_size, stat.st_mtime_ns] for stat in (source.stat() for source in sources))]
    stored = _open(entry, stamp, path)
    if stored is not None:
        return stored
    try:
        place.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f"{entry.name}.part-", dir=place))
    except OSError as error:
        raise InputError(f"cannot write to {place} ({error.strerror}); give another folder as cache") from error
    try:
        _store(blocks(path, sources[-1]), part, path, stamp, limit)
        _swap(part, entry)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    stored = _open(entry, stamp, path)
    if stored is None:
        raise InputError(f"the copy of {path} in {place} changed while it was read; load the file again")
    return stored


def _open(entry: Path, stamp: list[Any], path: Path) -> WordVectors | None:
    """The vectors of a cache entry, or nothing if it is absent, of another file, or damaged."""
    try:
        about = json.loads((entry / "about.json").read_text(encoding="utf-8"))
        if about["stamp"] != stamp:
            return None
        words = tuple((entry / "words.txt").read_bytes().decode("utf-8", "surrogatepass").split("\n"))
        matrix = np.load(entry / "matrix.npy", mmap_mode="r", allow_pickle=False)
        identity, notes = str(about["identity"]), tuple(about["notes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if matrix.ndim != 2 or matrix.dtype != np.float32 or len(matrix) != len(words):
        return None
    index = {word: row for row, word in enumerate(words)}
    return WordVectors(words, matrix, index, path.name, identity, notes, path)


def _store(read: Iterator[Block], folder: Path, path: Path, stamp: list[Any], limit: int | None) -> None:
    """Write one cache entry: the matrix row block by row block, then the words, then what is known of them."""
    words: dict[str, None] = {}
    repeated = replaced = zeros = dimension = 0
    digest = hashlib.sha256()
    try:
        with (folder / "matrix.npy").open("wb") as out:
            for names, block in read:
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
    except BROKEN as error:
        raise InputError(f"cannot convert {path}: {getattr(error, 'strerror', None) or error}") from error
    notes = []
    if repeated:
        notes.append(f"{repeated} repeated word(s) left out: the first vector of a word counts")
    if replaced:
        notes.append(f"{replaced} word(s) are not valid UTF-8: the bytes were replaced by U+FFFD")
    if zeros:
        notes.append(f"{zeros} word(s) have a zero vector: cosines with them are undefined")
    identity = identity_of(digest.hexdigest(), words, dimension)
    about = {"stamp": stamp, "identity": identity, "notes": notes}
    (folder / "words.txt").write_bytes("\n".join(words).encode("utf-8", "surrogatepass"))
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
