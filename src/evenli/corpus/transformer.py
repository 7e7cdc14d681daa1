"""Hugging Face encoders with max pooling: which word has the maximum of which dimension, and where its output leans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.importance import FloatArray
from evenli.encoders.base import Pooled
from evenli.encoders.configured import Configured
from evenli.encoders.hf import TransformerEncoder
from evenli.errors import InputError, ModelError
from evenli.io import hash_files
from evenli.models.loading import checkpoint_files, longest_input
from evenli.resources.words import split_words

_TINY = 1e-300  # keeps words without a piece from dividing by zero


class _Text(NamedTuple):
    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int64]


class TransformerArgmax(TransformerEncoder):
    """A transformer whose last layer is pooled by maximum over all word-pieces, markers such as ``[CLS]`` included.

    Of equal maxima the first piece counts. The pieces of a word add up to the word. Words beyond ``max_length`` pieces
    count 0. The spec is a checkpoint directory or ``[hf:]id[@revision]``.
    """

    def __init__(
        self,
        spec: str | Path,
        *,
        device: str | None = None,
        max_length: int = 128,
        batch_size: int = 64,
        online: bool = False,
    ) -> None:
        if max_length < 3 or batch_size < 1:
            raise InputError(f"max_length must be 3 or more and batch_size 1 or more, not {max_length}, {batch_size}")
        target = str(spec).removeprefix("hf:")
        super().__init__(target, "max", device=device, batch_size=batch_size, online=online)
        config = self._model.config
        if not self._tokenizer.is_fast:
            raise ModelError(f"the tokenizer of '{target}' does not say where its pieces are; use one with a fast form")
        if getattr(config, "is_encoder_decoder", False):
            raise ModelError(f"'{target}' is an encoder-decoder; give an encoder such as BERT")
        self._limit = longest_input(config, max_length, tokenizer_limit=self._tokenizer.model_max_length)
        self.device, self.dimension = self._device, int(config.hidden_size)

    def _configuration(self, folder: Path) -> Configured:
        return Configured()  # the outputs of the tokens are what counts here

    @cached_property
    def identity(self) -> str:
        """Checkpoint and longest text."""
        weights = self._source if self._folder is None else hash_files(checkpoint_files(self._folder))[:32]
        return f"transformer:{weights}:{self._limit}"

    def argmax(self, texts: Sequence[str | Sequence[str]]) -> list[Pooled]:
        """The words of every text and their counts; what is missing to ``dimension`` is on markers.

        A text may be given as its words, which are then encoded with a space between two of them.
        """
        return [pooled for pooled, _ in self._outputs(texts, None)]

    def lean(self, texts: Sequence[str | Sequence[str]], direction: FloatArray) -> list[tuple[Pooled, FloatArray]]:
        """The counts of the words and the cosine of each word's output with a direction.

        A word of several pieces has the mean of their cosines, weighted by the count of each piece, so that importance
        times bias is what the pieces add up to.
        """
        axis = np.asarray(direction, dtype=np.float64)
        if axis.shape != (self.dimension,):
            raise InputError(f"the direction has shape {axis.shape}; this encoder needs ({self.dimension},)")
        return self._outputs(texts, axis)

    def _outputs(
        self, texts: Sequence[str | Sequence[str]], direction: FloatArray | None
    ) -> list[tuple[Pooled, FloatArray]]:
        prepared = [_prepare(text) for text in texts]
        # Texts of similar length are encoded together, so that little is padded.
        order = sorted(range(len(prepared)), key=lambda at: len(prepared[at].text))
        found: dict[int, tuple[Pooled, FloatArray]] = {}
        for start in range(0, len(order), self._batch):
            some = order[start : start + self._batch]
            found.update(zip(some, self._encode_batch([prepared[at] for at in some], direction), strict=True))
        return [found[at] for at in range(len(prepared))]

    def _encode_batch(
        self, texts: Sequence[_Text], direction: FloatArray | None
    ) -> Iterator[tuple[Pooled, FloatArray]]:
        batch = self._tokenizer(
            [text.text for text in texts],
            truncation=True,
            max_length=self._limit,
            padding=True,
            return_tensors="pt",
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
        )
        offsets = batch.pop("offset_mapping").numpy()
        words = batch.pop("special_tokens_mask").numpy() == 0
        words &= (batch["attention_mask"].numpy() > 0) & (offsets[..., 1] > offsets[..., 0])
        tensors = {key: value.to(self.device) for key, value in batch.items()}
        with self._torch.inference_mode():
            hidden = self._model(**tensors).last_hidden_state.float()
            counts = _argmax_counts(self._torch, hidden, tensors["attention_mask"].bool())
            cosines = np.zeros(counts.shape) if direction is None else _cosines(self._torch, hidden, direction)
        for row, text in enumerate(texts):
            # A piece may begin with the space before its word, so its last character decides which word it is of.
            owners = np.searchsorted(text.starts, offsets[row, :, 1] - 1, side="right") - 1
            real, size = words[row] & (owners >= 0), len(text.words)
            owners, count, cosine = owners[real], counts[row][real], cosines[row][real]
            totals = np.bincount(owners, count, size)
            # A word with count 0 has no weighted mean; the plain one shows where it would lean.
            weights = np.where(totals[owners] > 0, count, 1.0)
            means = np.bincount(owners, weights * cosine, size) / np.maximum(np.bincount(owners, weights, size), _TINY)
            yield Pooled(text.words, totals.astype(np.int64).tolist(), self.dimension), means


def _prepare(text: str | Sequence[str]) -> _Text:
    words = split_words(text) if isinstance(text, str) else list(text)
    joined = text if isinstance(text, str) else " ".join(words)
    starts, at = [], 0
    for word in words:
        at = joined.index(word, at)
        starts.append(at)
        at += len(word)
    return _Text(joined, tuple(words), np.array(starts, dtype=np.int64))


def _argmax_counts(torch: Any, hidden: Any, mask: Any) -> NDArray[np.int64]:
    """Dimensions in which each piece has the maximum; padding never has, the first of equals does."""
    rows, length, _ = hidden.shape
    hidden = hidden.masked_fill(~mask[:, :, None], float("-inf"))
    top = hidden.max(dim=1, keepdim=True).values
    # torch.argmax does not promise the first of equals.
    positions = torch.arange(length, device=hidden.device)[None, :, None]
    winners = torch.where(hidden == top, positions, length).min(dim=1).values
    flat = winners + torch.arange(rows, device=hidden.device)[:, None] * length
    counts = torch.bincount(flat.flatten(), minlength=rows * length).reshape(rows, length)
    return np.asarray(counts.cpu().numpy())


def _cosines(torch: Any, hidden: Any, direction: FloatArray) -> FloatArray:
    axis = torch.as_tensor(direction / np.linalg.norm(direction), dtype=torch.float32, device=hidden.device)
    norms = hidden.norm(dim=2).clamp_min(1e-30)
    return np.asarray(((hidden @ axis) / norms).double().cpu().numpy())
