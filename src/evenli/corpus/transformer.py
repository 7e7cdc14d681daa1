"""Hugging Face encoders with max pooling: which word wins which dimension, and what its output leans to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.corpus.importance import FloatArray
from evenli.encoders.base import Pooled
from evenli.errors import InputError, ModelError
from evenli.io import checkpoint_files, hash_files
from evenli.models.positions import longest_input
from evenli.resources.words import split_words

_MARKER = -1


@dataclass(frozen=True)
class _Text:
    """A text, its words and where each begins."""

    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int64]


@dataclass(frozen=True)
class _Outputs:
    """The encoder's outputs of one text, one row per word-piece.

    Attributes:
        at: Position of the text among those given.
        owners: Word of every piece, -1 for markers.
        counts: Dimensions won by every piece.
        cosines: Cosine of every piece with the direction; empty if none was given.
        embedding: The maximum over the pieces.
    """

    at: int
    owners: NDArray[np.int64]
    counts: NDArray[np.int64]
    cosines: FloatArray
    embedding: NDArray[np.float32]


class TransformerArgmax:
    """A transformer whose last layer is pooled by maximum over all word-pieces, markers such as ``[CLS]`` included.

    Ties go to the first piece. The pieces of a word add up to the word.

    Args:
        spec: Checkpoint folder or ``[hf:]id[@revision]``; safetensors only, no code from the hub.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        max_length: Longest text in word-pieces; words beyond it win nothing.
        batch_size: Texts encoded at a time, of similar length.
    """

    def __init__(
        self, spec: str | Path, *, device: str | None = None, max_length: int = 128, batch_size: int = 64
    ) -> None:
        self._torch = need("torch", extra="hf", purpose="max pooling with a transformer")
        transformers = need("transformers", extra="hf", purpose="max pooling with a transformer")
        if max_length < 3 or batch_size < 1:
            raise InputError(f"max_length must be 3 or more and batch_size 1 or more, not {max_length}, {batch_size}")
        target = str(spec).removeprefix("hf:")
        local = Path(target).is_dir()
        name, _, revision = (target, "", "") if local else target.partition("@")
        source: dict[str, Any] = {"revision": revision or None, "trust_remote_code": False}
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        try:
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, use_fast=True, **source)
            model = transformers.AutoModel.from_pretrained(
                name, dtype=self._torch.float32, use_safetensors=True, **source
            )
        except (OSError, ValueError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise ModelError(f"cannot load the encoder '{target}': {reason}") from error
        if not self._tokenizer.is_fast:
            raise ModelError(
                f"the tokenizer of '{target}' does not say where its pieces stand; use one with a fast form"
            )
        if getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(f"'{target}' is an encoder-decoder; give an encoder such as BERT")
        self.device = device or _fastest(self._torch)
        self._model = model.eval().to(self.device)
        self._limit = longest_input(model.config, max_length, tokenizer_limit=self._tokenizer.model_max_length)
        self._batch = batch_size
        self.dimension = int(model.config.hidden_size)
        commit = getattr(model.config, "_commit_hash", None) or revision
        weights = hash_files(checkpoint_files(Path(name)))[:32] if local else f"{name}@{commit}"
        self.identity = f"transformer:{weights}:{self._limit}"

    def argmax(self, texts: Sequence[str | Sequence[str]]) -> list[Pooled]:
        """The words of every text and how many dimensions each wins; what is missing to ``dimension`` is on markers.

        A text may be given as its words, which are then encoded with a space between two of them.
        """
        prepared = [_prepare(text) for text in texts]
        found: list[Pooled | None] = [None] * len(prepared)
        for one in self._outputs(prepared, None):
            found[one.at] = self._pooled(prepared[one.at], one)
        return [pooled for pooled in found if pooled is not None]

    def lean(
        self, texts: Sequence[str | Sequence[str]], direction: NDArray[np.float64]
    ) -> list[tuple[Pooled, FloatArray]]:
        """The wins of the words and the cosine of each word's output with a direction.

        A word of several pieces has the mean of their cosines, weighted by the dimensions each piece wins, so that
        importance times bias is what the pieces add up to.
        """
        axis = np.asarray(direction, dtype=np.float64)
        if axis.shape != (self.dimension,):
            raise InputError(f"the direction has shape {axis.shape}; this encoder needs ({self.dimension},)")
        prepared = [_prepare(text) for text in texts]
        found: list[tuple[Pooled, FloatArray] | None] = [None] * len(prepared)
        for one in self._outputs(prepared, axis):
            pooled = self._pooled(prepared[one.at], one)
            size, real = len(pooled.tokens), one.owners != _MARKER
            owners, cosines = one.owners[real], one.cosines[real]
            wins = np.bincount(owners, one.counts[real], size)
            # A word that wins nothing has no weighted mean; the plain one shows what it would lean to.
            weights = np.where(wins[owners] > 0, one.counts[real], 1.0)
            total = np.bincount(owners, weights, size)
            means = np.bincount(owners, weights * cosines, size) / np.maximum(total, 1e-300)
            found[one.at] = pooled, means
        return [answer for answer in found if answer is not None]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Max-pooled sentence embeddings, [n, dimension]."""
        prepared = [_prepare(text) for text in texts]
        made = np.zeros((len(prepared), self.dimension), dtype=np.float32)
        for one in self._outputs(prepared, None):
            made[one.at] = one.embedding
        return made

    def _pooled(self, text: _Text, outputs: _Outputs) -> Pooled:
        real = outputs.owners != _MARKER
        wins = np.bincount(outputs.owners[real], outputs.counts[real], len(text.words))
        return Pooled(text.words, wins.astype(np.int64).tolist(), self.dimension)

    def _outputs(self, texts: Sequence[_Text], direction: FloatArray | None) -> Iterator[_Outputs]:
        """Encode texts of similar length together; the answers come in that order."""
        torch = self._torch
        order = sorted(range(len(texts)), key=lambda at: len(texts[at].text))
        for start in range(0, len(order), self._batch):
            chosen = order[start : start + self._batch]
            batch = self._tokenizer(
                [texts[at].text for at in chosen],
                truncation=True,
                max_length=self._limit,
                padding=True,
                return_tensors="pt",
                return_offsets_mapping=True,
                return_special_tokens_mask=True,
            )
            offsets = batch.pop("offset_mapping").numpy()
            special = batch.pop("special_tokens_mask").numpy().astype(bool)
            tensors = {key: value.to(self.device) for key, value in batch.items()}
            with torch.inference_mode():
                hidden = self._model(**tensors).last_hidden_state
                counts, top = _wins(torch, hidden, tensors["attention_mask"].bool())
                cosines = _cosines(torch, hidden, direction) if direction is not None else None
            lengths = batch["attention_mask"].numpy().astype(bool)
            for row, at in enumerate(chosen):
                kept = lengths[row]
                yield _Outputs(
                    at,
                    _owners(texts[at].starts, offsets[row][kept], special[row][kept]),
                    counts[row][kept],
                    cosines[row][kept] if cosines is not None else np.zeros(0),
                    top[row],
                )


def _prepare(text: str | Sequence[str]) -> _Text:
    words = split_words(text) if isinstance(text, str) else list(text)
    joined = text if isinstance(text, str) else " ".join(words)
    starts, at = [], 0
    for word in words:
        at = joined.index(word, at)
        starts.append(at)
        at += len(word)
    return _Text(joined, tuple(words), np.array(starts, dtype=np.int64))


def _owners(starts: NDArray[np.int64], offsets: NDArray[np.int64], special: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The word in which the last character of each piece lies: a piece may begin with the space before its word."""
    owners = np.searchsorted(starts, offsets[:, 1] - 1, side="right") - 1
    empty = offsets[:, 1] <= offsets[:, 0]
    return np.where(special | empty, _MARKER, owners).astype(np.int64)


def _wins(torch: Any, hidden: Any, mask: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Dimensions won by each piece, and the maxima; padding never wins, the first of equals does."""
    rows, length, _ = hidden.shape
    hidden = hidden.float().masked_fill(~mask[:, :, None], float("-inf"))
    top = hidden.max(dim=1, keepdim=True).values
    positions = torch.arange(length, device=hidden.device)[None, :, None]
    winners = torch.where(hidden == top, positions, length).min(dim=1).values
    flat = winners + torch.arange(rows, device=hidden.device)[:, None] * length
    counts = torch.bincount(flat.flatten(), minlength=rows * length).reshape(rows, length)
    return counts.cpu().numpy(), top[:, 0].cpu().numpy()


def _cosines(torch: Any, hidden: Any, direction: FloatArray) -> FloatArray:
    axis = torch.as_tensor(direction / np.linalg.norm(direction), dtype=torch.float32, device=hidden.device)
    norms = hidden.float().norm(dim=2).clamp_min(1e-30)
    return np.asarray(((hidden.float() @ axis) / norms).double().cpu().numpy())


def _fastest(torch: Any) -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"
