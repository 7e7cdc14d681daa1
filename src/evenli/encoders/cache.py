"""Every text is encoded once: embeddings kept by content, in memory and, if wanted, on disk."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from evenli.encoders.base import Embeddings, Encoder, encode_checked
from evenli.errors import InputError
from evenli.io import hash_text, write_atomic

_KEYS = ".keys.npy"


class EmbeddingCache:
    """An encoder that remembers what it has encoded, in memory and, with a ``folder``, between runs.

    On disk an encoder has a folder of its own, named by its identity, with two files for every batch of new texts: the
    hashes of the texts and their embeddings. A batch counts once its hashes are there, which are written last.
    """

    def __init__(self, encoder: Encoder, folder: str | Path | None = None, *, identity: str | None = None) -> None:
        if getattr(encoder, "v1_padding", False):
            raise InputError(
                "with v1_padding an embedding depends on its batch and cannot be kept; use v1_padding=False, which "
                "gives what sentences encoded one at a time have"
            )
        self.encoder = encoder
        known = identity or getattr(encoder, "identity", None)
        self.encoded = 0
        """Texts the encoder itself was asked for."""
        self._blocks: list[Embeddings] = []
        self._where: dict[bytes, tuple[int, int]] = {}
        self._folder: Path | None = None
        if folder is not None:
            if known is None:
                raise InputError(
                    f"{type(encoder).__name__} has no identity, so its embeddings in {folder} could be confused with "
                    "those of others; pass EmbeddingCache(encoder, folder, identity=…)"
                )
            self._folder = Path(folder) / hash_text(str(known))[:32]
            self._load(self._folder)
        self.identity = str(known) if known is not None else type(encoder).__name__
        self.note = str(getattr(encoder, "note", ""))

    def __len__(self) -> int:
        return len(self._where)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; only texts never seen before reach the encoder, each once."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._where}
        if new:
            self._encode_new(new)
        if not keys:
            return np.empty((0, 0), dtype=np.float32)
        # Block by block: blocks on disk are mapped, and their rows are read in one go.
        places = np.array([self._where[key] for key in keys], dtype=np.int64)
        embeddings = np.empty((len(keys), self._blocks[0].shape[1]), dtype=np.float32)
        for block in np.unique(places[:, 0]):
            rows = np.flatnonzero(places[:, 0] == block)
            embeddings[rows] = self._blocks[int(block)][places[rows, 1]]
        return embeddings

    def _encode_new(self, new: dict[bytes, str]) -> None:
        embeddings = encode_checked(self.encoder, list(new.values()))
        if self._blocks and self._blocks[0].shape[1] != embeddings.shape[1]:
            raise InputError(
                f"the encoder gives {embeddings.shape[1]} numbers, the cache holds {self._blocks[0].shape[1]}; "
                "give another cache folder"
            )
        self.encoded += len(new)
        self._add(list(new), embeddings)
        if self._folder is None:
            return
        keys = b"".join(new)
        name = hashlib.sha256(keys).hexdigest()[:32]
        # The keys come last: a batch without them is not seen by a reader.
        table = np.frombuffer(keys, dtype=np.uint8).reshape(-1, 32)
        write_atomic(self._folder / f"{name}.npy", lambda file: np.save(file, embeddings))
        write_atomic(self._folder / f"{name}{_KEYS}", lambda file: np.save(file, table))

    def _add(self, keys: Sequence[bytes], embeddings: Embeddings) -> None:
        number = len(self._blocks)
        self._blocks.append(embeddings)
        self._where.update((key, (number, row)) for row, key in enumerate(keys))

    def _load(self, folder: Path) -> None:
        for path in sorted(folder.glob("*" + _KEYS)):
            values = path.with_name(path.name.removesuffix(_KEYS) + ".npy")
            try:
                keys, embeddings = np.load(path), np.load(values, mmap_mode="r")
            except (OSError, ValueError, EOFError) as error:
                raise InputError(f"{values} cannot be read: {error}; delete {folder} to encode anew") from error
            if keys.ndim != 2 or embeddings.ndim != 2 or len(keys) != len(embeddings):
                raise InputError(f"{values} does not fit its keys; delete {folder} to encode anew")
            self._add([key.tobytes() for key in keys], embeddings)
