"""ONNX encoders: an ``.onnx`` file and its ``tokenizer.json``. Needs no torch."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.encoders.base import POOLINGS, Embeddings
from evenli.errors import InputError, ModelError
from evenli.io import hash_files
from evenli.models.onnx import limits_beside, open_session, open_tokenizer
from evenli.models.positions import longest_input, position_limit
from evenli.models.tokens import Tokens

_POOLED = "sentence_embedding"
_HIDDEN = "last_hidden_state"
_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_INTEGERS = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
_LIMIT = 512


class OnnxEncoder:
    """A sentence encoder or a transformer exported to ONNX.

    A graph with an output ``sentence_embedding`` pools by itself. Of any other, ``last_hidden_state`` or else the first
    output of three dimensions is pooled over the real tokens of a text.

    Texts of similar length share a batch. Where that could make a row depend on its neighbours it is avoided: a graph
    without ``attention_mask`` gets texts of one length only, and one that quantizes its activations by the range of the
    batch gets one text at a time, which is slow.

    Args:
        target: A folder with ``tokenizer.json`` and ``model.onnx`` or ``onnx/model.onnx``, or the ``.onnx`` file.
        pooling: mean, cls or max.
        batch_size: Texts at a time.
    """

    def __init__(self, target: str | Path, pooling: str = "mean", *, batch_size: int = 64) -> None:
        if pooling not in POOLINGS:
            raise InputError(f"no pooling '{pooling}'; choose {', '.join(POOLINGS)}")
        if batch_size < 1:
            raise InputError(f"the batch size is {batch_size}; give at least 1")
        need("onnxruntime", extra="onnx", purpose="an ONNX encoder")
        self._path = _model_file(Path(target))
        folder = _tokenizer_folder(self._path)
        self._tokenizer = open_tokenizer(folder)
        limit = _limit(folder, self._tokenizer)
        self._tokenizer.enable_truncation(limit)
        graph = _Graph(self._path)
        weights = graph.data_files()  # refused before the runtime would open them
        self._session = open_session(self._path, None)
        self._inputs = _inputs(self._path, self._session)
        self._output, self.dimension = _output(self._path, self._session)
        self._pooling = _POOLED if self._output == _POOLED else pooling
        self._batch = 1 if "DynamicQuantizeLinear" in graph.operators else batch_size
        content = hash_files([self._path, *weights, folder / "tokenizer.json"])
        self.identity = f"onnx:{content[:32]}:{self._output}:{self._pooling}:{limit}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; a text without a token is a row of zeros."""
        encoded = self._tokenizer.encode_batch_fast(list(texts))
        lengths = np.array([len(one) for one in encoded], dtype=np.int64)
        made: Embeddings | None = None
        for rows in self._batches(lengths):
            chosen = [encoded[row] for row in rows]
            pooled = self._run(Tokens.from_lists([one.ids for one in chosen], [one.type_ids for one in chosen], 0))
            if made is None:
                made = np.zeros((len(texts), pooled.shape[1]), dtype=np.float32)
            made[rows] = pooled
        return np.zeros((len(texts), self.dimension or 0), dtype=np.float32) if made is None else made

    def _batches(self, lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        order = np.argsort(lengths, kind="stable")
        order = order[lengths[order] > 0]
        groups = [order]
        if "attention_mask" not in self._inputs:
            groups = np.split(order, np.flatnonzero(np.diff(lengths[order])) + 1)
        for group in groups:
            for start in range(0, len(group), self._batch):
                yield group[start : start + self._batch]

    def _run(self, tokens: Tokens) -> Embeddings:
        ids, types, mask = tokens.batch()
        mask = np.ones_like(ids) if mask is None else mask
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        try:
            (output,) = self._session.run(
                [self._output], {name: feeds[name].astype(kind) for name, kind in self._inputs.items()}
            )
        except Exception as error:  # onnxruntime raises its own types, one per status code
            raise ModelError(f"{self._path} failed on a batch: {' '.join(str(error).split())[:300]}") from error
        expected = (len(tokens),) if self._pooling == _POOLED else ids.shape
        if output.ndim != len(expected) + 1 or output.shape[:-1] != expected:
            sides = ", ".join(map(str, (*expected, "d")))
            raise ModelError(f"{self._path}: {self._output} has the shape {output.shape}, expected ({sides})")
        output = np.asarray(output, dtype=np.float32)
        return output if self._pooling == _POOLED else _pool(output, mask.astype(bool), self._pooling)


def _pool(hidden: Embeddings, keep: NDArray[np.bool_], pooling: str) -> Embeddings:
    """Pool [n, tokens, d] over the tokens to keep.

    >>> hidden = np.array([[[1.0, 5.0], [3.0, 1.0], [9.0, 9.0]]], dtype=np.float32)
    >>> [_pool(hidden, np.array([[True, True, False]]), how).tolist() for how in ("mean", "cls", "max")]
    [[[2.0, 3.0]], [[1.0, 5.0]], [[3.0, 5.0]]]
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "max":
        top: Embeddings = np.where(keep[..., None], hidden, np.float32(-np.inf)).max(axis=1)
        return top
    mean: Embeddings = np.where(keep[..., None], hidden, 0).sum(axis=1) / keep.sum(axis=1, dtype=np.float32)[:, None]
    return mean


def _model_file(target: Path) -> Path:
    if not target.is_dir():
        if target.is_file():
            return target
        raise ModelError(f"no ONNX model at {target}; give a folder with model.onnx and tokenizer.json")
    found = next((file for file in (target / "model.onnx", target / "onnx" / "model.onnx") if file.is_file()), None)
    if found is None:
        raise ModelError(f"neither model.onnx nor onnx/model.onnx is in {target}; give the .onnx file itself")
    return found


def _tokenizer_folder(path: Path) -> Path:
    """The folder of the model, or the one above ``onnx/``, which is where exports for the hub keep the tokenizer."""
    folder = path.parent
    above = folder.absolute().name == "onnx" and not (folder / "tokenizer.json").is_file()
    return folder.absolute().parent if above else folder


def _limit(folder: Path, tokenizer: Any) -> int:
    """Longest text in tokens: the positions of the model if ``config.json`` tells, else what the tokenizer keeps."""
    config, limit = limits_beside(folder)
    if position_limit(config) is None:
        # A stored truncation is often that of whoever used the tokenizer last, but all there is here.
        limit = (tokenizer.truncation or {}).get("max_length", limit)
    return longest_input(config, _LIMIT, tokenizer_limit=limit)


def _inputs(path: Path, session: Any) -> dict[str, Any]:
    """The inputs of the graph and their integer types."""
    found = {entry.name: _INTEGERS.get(entry.type) for entry in session.get_inputs()}
    if "input_ids" not in found or set(found) - set(_INPUTS) or None in found.values():
        listed = ", ".join(f"{entry.name} {entry.type}" for entry in session.get_inputs())
        raise ModelError(f"{path} takes {listed or 'no inputs'}; expected integers {', '.join(_INPUTS)}")
    return found


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


class _Graph:
    """What has to be known of an ONNX file before it is loaded: its operators, and where its weights lie.

    The file is read as the protocol buffer that it is; tensors are skipped, not copied.
    """

    # Message -> field -> message, along all ways that lead to a tensor or to an operator.
    _PARTS: ClassVar[dict[str, dict[int, str]]] = {
        "model": {7: "graph", 20: "training", 25: "function"},
        "training": {1: "graph", 2: "graph"},
        "graph": {1: "node", 5: "tensor", 15: "sparse"},
        "function": {7: "node", 11: "attribute"},
        "node": {5: "attribute"},
        "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
        "sparse": {1: "tensor", 2: "tensor"},
        "tensor": {13: "entry"},
        "entry": {},
    }
    _TEXTS: ClassVar[dict[tuple[str, int], str]] = {("node", 4): "operator", ("entry", 1): "key", ("entry", 2): "value"}

    def __init__(self, path: Path) -> None:
        self._path = path
        self.operators: set[str] = set()
        self.locations: set[str] = set()
        try:
            with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content:
                self._walk(content, "model", 0, len(content))
        except (OSError, ValueError, IndexError, RecursionError) as error:  # an empty file cannot be mapped
            raise ModelError(f"{path} is not an ONNX model: {error}") from error

    def data_files(self) -> list[Path]:
        """Files with weights beside the model, all of them in its folder."""
        for location in sorted(self.locations):
            # Read as either system would: a path that leaves the folder on one of them is no path to trust.
            parts = (PurePosixPath(location), PureWindowsPath(location))
            if not location or any(one.drive or one.root or ".." in one.parts for one in parts):
                raise ModelError(
                    f"{self._path} wants its weights from '{location}', outside of its folder; "
                    "export it again with the weights beside it"
                )
            if not (self._path.parent / location).is_file():
                raise ModelError(f"{self._path} keeps weights in {location}, which is missing; copy it there")
        return [self._path.parent / location for location in sorted(self.locations)]

    def _walk(self, content: mmap.mmap, message: str, at: int, end: int) -> None:
        texts: dict[str, str] = {}
        while at < end:
            key, at = _varint(content, at)
            field, wire = key >> 3, key & 7
            if wire == 2:
                size, at = _varint(content, at)
                if at + size > end:
                    raise ValueError("a part of it is cut off")
                if field in self._PARTS[message]:
                    self._walk(content, self._PARTS[message][field], at, at + size)
                elif (message, field) in self._TEXTS:
                    texts[self._TEXTS[message, field]] = content[at : at + size].decode("utf-8", "replace")
                at += size
            elif wire == 0:
                _, at = _varint(content, at)
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            else:
                raise ValueError("it is no protocol buffer")
        if "operator" in texts:
            self.operators.add(texts["operator"])
        if texts.get("key") == "location":
            self.locations.add(texts.get("value", ""))


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where it ends."""
    value = shift = 0
    while True:
        byte = content[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("it is no protocol buffer")
