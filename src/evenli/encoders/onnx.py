"""``onnx:FOLDER``: an ``.onnx`` file and its ``tokenizer.json``. Needs no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models.base import OutOfMemory, Tokens
from evenli.audit.models.growth import portions
from evenli.audit.models.loading import longest_input, position_limit
from evenli.audit.models.onnx import OnnxGraph, limits_beside
from evenli.core.errors import InputError, ModelError
from evenli.core.extras import need
from evenli.core.io import hash_text
from evenli.encoders.base import Embeddings, EncoderRequest, PoolingError
from evenli.encoders.configured import Configured

_POOLED = "sentence_embedding"
_HIDDEN = "last_hidden_state"
_LIMIT = 512


class OnnxEncoder:
    """A sentence encoder or a transformer exported to ONNX.

    ``target`` is a folder with ``tokenizer.json`` and ``model.onnx`` or ``onnx/model.onnx``, or the ``.onnx`` file. A
    graph with an output ``sentence_embedding`` pools by itself. Of any other, ``last_hidden_state`` or else the first
    output of three dimensions is pooled over the real tokens of a text. A graph that quantizes its activations by the
    range of the batch gets one text at a time, so that no row depends on its neighbours; this is slow.
    """

    def __init__(self, target: str | Path, pooling: str | None = None, *, batch_size: int = 64) -> None:
        EncoderRequest(pooling=pooling)  # refuses an unknown one
        if batch_size < 1:
            raise InputError(f"the batch size is {batch_size}; give at least 1")
        need("onnxruntime", extra="onnx", purpose="an ONNX encoder")
        self._path, folder = _places(Path(target))
        self._graph = OnnxGraph(self._path, folder)
        self._tokenizer = self._graph.tokenizer
        self._configured = Configured.read(folder)
        config, kept = limits_beside(folder)
        if position_limit(config) is None:
            # A stored truncation is often that of whoever used the tokenizer last, but all there is here.
            kept = (self._tokenizer.truncation or {}).get("max_length", kept)
        limit = min(longest_input(config, _LIMIT, tokenizer_limit=kept), self._configured.limit or _LIMIT)
        self._tokenizer.enable_truncation(limit)
        self._output, self.dimension = _output(self._path, self._graph.session)
        if self._output == _POOLED:
            if pooling is not None:
                raise PoolingError(
                    f"{self._path} pools by itself ({_POOLED}); leave out the pooling (--pooling {pooling})"
                )
            # Such a graph holds the whole model; what its files say is done already, but for prompt and lower case.
            self._configured = replace(self._configured, normalise=False)
            self.pooling, self.note = _POOLED, ""
        else:
            self.pooling, self.note = self._configured.choose(pooling, str(self._path))
        self._batch = 1 if self._graph.scales_by_batch else batch_size
        configured = hash_text(str(self._configured))[:16]
        self.identity = f"onnx:{self._graph.sha256[:32]}:{self._output}:{self.pooling}:{limit}:{configured}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; a text without a token is a row of zeros."""
        texts = self._configured.prepare(texts)
        blocks = [Tokens.from_lists([], [], pad_id=0)]
        for part in portions(self._tokenizer, list(map(len, texts))):
            encoded = self._tokenizer.encode_batch_fast(texts[part])
            blocks.append(Tokens.from_lists([text.ids for text in encoded], [text.type_ids for text in encoded], 0))
        tokens = Tokens.join(blocks)
        pooled = [(rows, self._run(tokens[rows])) for rows in self._batches(tokens.lengths)]
        width = pooled[0][1].shape[1] if pooled else self.dimension or 0
        embeddings = np.zeros((len(texts), width), dtype=np.float32)
        for rows, values in pooled:
            embeddings[rows] = values
        return embeddings

    def _batches(self, lengths: NDArray[np.int32]) -> Iterator[NDArray[np.int64]]:
        # Texts of similar length share a batch; those without a token stay out, their rows are zero.
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        groups = [order]
        if "attention_mask" not in self._graph.inputs:
            # Without a mask padded tokens would take part, so only texts of one length go together.
            groups = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
        for group in groups:
            for start in range(0, len(group), self._batch):
                yield group[start : start + self._batch]

    def _run(self, tokens: Tokens) -> Embeddings:
        keep = np.arange(tokens.lengths.max()) < tokens.lengths[:, None]
        try:
            output = self._graph.run(tokens, self._output)
        except OutOfMemory as error:
            raise ModelError(f"{self._path} ran out of memory on a batch of {len(tokens)} texts") from error
        expected = (len(tokens),) if self.pooling == _POOLED else keep.shape
        if output.ndim != len(expected) + 1 or output.shape[:-1] != expected:
            sides = ", ".join(map(str, (*expected, "d")))
            raise ModelError(f"{self._path}: {self._output} has the shape {output.shape}, expected ({sides})")
        rows = np.asarray(output, dtype=np.float32)
        if self.pooling != _POOLED:
            rows = _pool(rows, keep, self.pooling)
        if self._configured.normalise:
            rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
        return rows


def _pool(hidden: Embeddings, keep: NDArray[np.bool_], pooling: str) -> Embeddings:
    """Pool [n, tokens, d] over the tokens to keep.

    >>> hidden = np.array([[[1.0, 5.0], [3.0, 1.0], [9.0, 9.0]]], dtype=np.float32)
    >>> [_pool(hidden, np.array([[True, True, False]]), how).tolist() for how in ("mean", "cls", "max")]
    [[[2.0, 3.0]], [[1.0, 5.0]], [[3.0, 5.0]]]
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "max":
        return np.asarray(np.where(keep[..., None], hidden, np.float32(-np.inf)).max(axis=1))
    return np.asarray(np.where(keep[..., None], hidden, 0).sum(axis=1) / keep.sum(axis=1, dtype=np.float32)[:, None])


def _places(target: Path) -> tuple[Path, Path]:
    """The file of the model, and the folder of its tokenizer; exports for the hub keep that one above ``onnx/``."""
    for file in (target, target / "model.onnx", target / "onnx" / "model.onnx"):
        if file.is_file():
            folder = file.parent
            above = folder.absolute().name == "onnx" and not (folder / "tokenizer.json").is_file()
            return file, folder.absolute().parent if above else folder
    if target.is_dir():
        raise ModelError(f"neither model.onnx nor onnx/model.onnx is in {target}; give the .onnx file itself")
    raise ModelError(f"no ONNX model at {target}; give a folder with model.onnx and tokenizer.json")


def _output(path: Path, session: Any) -> tuple[str, int | None]:
    """Name of the output to use, and its last dimension where the graph states it."""
    shapes = {entry.name: list(entry.shape or ()) for entry in session.get_outputs()}
    deep = [name for name, shape in shapes.items() if len(shape) == 3]
    name = next((name for name in (_POOLED, _HIDDEN, *deep) if name in shapes), None)
    if name is None or len(shapes[name]) not in (0, 2 if name == _POOLED else 3):
        listed = ", ".join(f"{name} of {len(shape)} dimensions" for name, shape in shapes.items())
        raise ModelError(
            f"{path} gives {listed}; an encoder gives {_POOLED} of 2 dimensions, or {_HIDDEN} or another output of 3"
        )
    last = shapes[name][-1] if shapes[name] else None
    return name, last if isinstance(last, int) else None


def load(target: str, request: EncoderRequest) -> OnnxEncoder:
    """The encoder of an ONNX model, on the CPU."""
    return OnnxEncoder(target, request.pooling)
