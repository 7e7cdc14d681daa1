"""Hugging Face encoders with max pooling: which word has the maximum of which dimension, and where its output leans."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.corpus.importance import FloatArray
from evenli.encoders.base import Pooled
from evenli.encoders.hf import quiet_transformers
from evenli.errors import InputError, ModelError
from evenli.models.hub import check_tensors, find_checkpoint, load_part
from evenli.models.loading import longest_input, one_line, pick_device
from evenli.resources.words import split_words

_MARKER = -1


class _Text(NamedTuple):
    text: str
    words: tuple[str, ...]
    starts: NDArray[np.int64]


class _Outputs(NamedTuple):
    """The encoder's outputs of one text: per word-piece its word (-1 for markers), count and cosine; the embedding."""

    owners: NDArray[np.int64]
    counts: NDArray[np.int64]
    cosines: FloatArray
    embedding: NDArray[np.float32]


class TransformerArgmax:
    """A transformer whose last layer is pooled by maximum over all word-pieces, markers such as ``[CLS]`` included.

    Of equal maxima the first piece counts. The pieces of a word add up to the word.

    Args:
        spec: Checkpoint directory or ``[hf:]id[@revision]``; safetensors only, no code from the hub.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        max_length: Longest text in word-pieces; words beyond it count 0.
        batch_size: Texts encoded at a time, of similar length.
        online: Download from the hub what its local cache lacks.
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
        self._torch = need("torch", extra="hf", purpose="max pooling with a transformer")
        transformers = quiet_transformers()
        if max_length < 3 or batch_size < 1:
            raise InputError(f"max_length must be 3 or more and batch_size 1 or more, not {max_length}, {batch_size}")
        target = str(spec).removeprefix("hf:")
        source = find_checkpoint(target, online=online)
        with one_line(target):
            self._tokenizer = load_part(transformers.AutoTokenizer, source, use_fast=True)
            form: dict[str, Any] = {"dtype": self._torch.float32, "use_safetensors": True}
            model, loading = load_part(transformers.AutoModel, source, output_loading_info=True, **form)
        check_tensors({**loading, "unexpected_keys": ()}, source.name, optional=("pooler.", "lm_head.", "cls."))
        if not self._tokenizer.is_fast:
            raise ModelError(f"the tokenizer of '{target}' does not say where its pieces are; use one with a fast form")
        if getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(f"'{target}' is an encoder-decoder; give an encoder such as BERT")
        self.device = pick_device(self._torch, device)
        self._model = model.eval().to(self.device)
        self._limit = longest_input(model.config, max_length, tokenizer_limit=self._tokenizer.model_max_length)
        self._batch = batch_size
        self.dimension = int(model.config.hidden_size)
        at_hub = f"{source.name}@{source.revision}"
        weights = at_hub if source.revision else source.fingerprint[:32]
        self.identity = f"transformer:{weights}:{self._limit}"

    def argmax(self, texts: Sequence[str | Sequence[str]]) -> list[Pooled]:
        """The words of every text and their counts; what is missing to ``dimension`` is on markers.

        A text may be given as its words, which are then encoded with a space between two of them.
        """
        return [self._pooled(text, one) for text, one in self._outputs(texts, None)]

    def lean(self, texts: Sequence[str | Sequence[str]], direction: FloatArray) -> list[tuple[Pooled, FloatArray]]:
        """The counts of the words and the cosine of each word's output with a direction.

        A word of several pieces has the mean of their cosines, weighted by the count of each piece, so that importance
        times bias is what the pieces add up to.
        """
        axis = np.asarray(direction, dtype=np.float64)
        if axis.shape != (self.dimension,):
            raise InputError(f"the direction has shape {axis.shape}; this encoder needs ({self.dimension},)")
        answers = []
        for text, one in self._outputs(texts, axis):
            real, size = one.owners != _MARKER, len(text.words)
            owners, counts = one.owners[real], one.counts[real]
            # A word with count 0 has no weighted mean; the plain one shows where it would lean.
            weights = np.where(np.bincount(owners, counts, size)[owners] > 0, counts, 1.0)
            total = np.maximum(np.bincount(owners, weights, size), 1e-300)
            means = np.bincount(owners, weights * one.cosines[real], size) / total
            answers.append((self._pooled(text, one), means))
        return answers

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Max-pooled sentence embeddings, [n, dimension]."""
        rows = [one.embedding for _, one in self._outputs(texts, None)]
        return np.array(rows, dtype=np.float32).reshape(-1, self.dimension)

    def _pooled(self, text: _Text, outputs: _Outputs) -> Pooled:
        real = outputs.owners != _MARKER
        counts = np.bincount(outputs.owners[real], outputs.counts[real], len(text.words))
        return Pooled(text.words, counts.astype(np.int64).tolist(), self.dimension)

    def _outputs(
        self, texts: Sequence[str | Sequence[str]], direction: FloatArray | None
    ) -> list[tuple[_Text, _Outputs]]:
        """The outputs of every text; texts of similar length are encoded together."""
        prepared = [_prepare(text) for text in texts]
        order = sorted(range(len(prepared)), key=lambda at: len(prepared[at].text))
        found: dict[int, _Outputs] = {}
        for start in range(0, len(order), self._batch):
            some = order[start : start + self._batch]
            found.update(zip(some, self._encode_batch([prepared[at] for at in some], direction), strict=True))
        return [(text, found[at]) for at, text in enumerate(prepared)]

    def _encode_batch(self, texts: Sequence[_Text], direction: FloatArray | None) -> Iterator[_Outputs]:
        torch = self._torch
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
        special = batch.pop("special_tokens_mask").numpy().astype(bool)
        tensors = {key: value.to(self.device) for key, value in batch.items()}
        with torch.inference_mode():
            hidden = self._model(**tensors).last_hidden_state.float()
            counts, top = _argmax_counts(torch, hidden, tensors["attention_mask"].bool())
            cosines = np.zeros(counts.shape) if direction is None else _cosines(torch, hidden, direction)
        for row, text in enumerate(texts):
            kept = batch["attention_mask"][row].numpy().astype(bool)
            owners = _owners(text.starts, offsets[row][kept], special[row][kept])
            yield _Outputs(owners, counts[row][kept], cosines[row][kept], top[row])


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


def _argmax_counts(torch: Any, hidden: Any, mask: Any) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Dimensions in which each piece has the maximum, and the maxima; padding never has, the first of equals does."""
    rows, length, _ = hidden.shape
    hidden = hidden.masked_fill(~mask[:, :, None], float("-inf"))
    top = hidden.max(dim=1, keepdim=True).values
    # torch.argmax does not promise the first of equals.
    positions = torch.arange(length, device=hidden.device)[None, :, None]
    winners = torch.where(hidden == top, positions, length).min(dim=1).values
    flat = winners + torch.arange(rows, device=hidden.device)[:, None] * length
    counts = torch.bincount(flat.flatten(), minlength=rows * length).reshape(rows, length)
    return counts.cpu().numpy(), top[:, 0].cpu().numpy()


def _cosines(torch: Any, hidden: Any, direction: FloatArray) -> FloatArray:
    axis = torch.as_tensor(direction / np.linalg.norm(direction), dtype=torch.float32, device=hidden.device)
    norms = hidden.norm(dim=2).clamp_min(1e-30)
    return np.asarray(((hidden @ axis) / norms).double().cpu().numpy())
