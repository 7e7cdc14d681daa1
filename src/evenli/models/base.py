"""The model protocol: prepare texts once, then score items in any grouping; and the one reader of model specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.errors import ModelError
from evenli.labels import label_columns
from evenli.models.tokens import Tokens
from evenli.registry import MODELS

Items = Tokens | list[Any]
"""What a backend scores: a token matrix, or whatever a backend without tokenizer keeps per pair."""
ONNX_FILE = "model.onnx"
"""Name of the model in a directory that is given as a whole."""


@dataclass(frozen=True)
class ModelOptions:
    """How to load a model.

    Attributes:
        labels: Output order, where the model does not name its labels.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        dtype: ``float32``, ``bfloat16`` or ``float16``; None picks bfloat16 on CUDA, float32 elsewhere.
        max_length: Longest input in tokens; longer pairs are truncated and counted.
        token_budget: Tokens per batch; None picks by device.
        threads: CPU threads for ONNX Runtime; None uses all.
        online: Download from the hub what its local cache lacks; nothing is asked otherwise.
        allow_pickle: Accept pickle checkpoints, which can run code when loaded.
    """

    labels: tuple[str, ...] | None = None
    device: str | None = None
    dtype: str | None = None
    max_length: int = 128
    token_budget: int | None = None
    threads: int | None = None
    online: bool = False
    allow_pickle: bool = False

    def label_order(self, stored: Callable[[], tuple[str, ...]], name: str) -> tuple[tuple[str, ...], list[int]]:
        """The labels in output order (``stored`` gives the model's own) and the columns in the order of LABELS."""
        labels = tuple(self.labels or stored())
        return labels, list(label_columns(labels, origin="--labels" if self.labels else f"the model {name}"))


@dataclass(frozen=True)
class ModelRequest:
    """What a backend is told beside the target: ``load(target, request) -> NLIModel``; ``ModelInfo`` keeps ``spec``."""

    spec: str
    lang: str = "en"
    options: ModelOptions = ModelOptions()


class OutOfMemory(Exception):  # noqa: N818 - a signal to the batching loop, never shown to people
    """The batch did not fit; the caller halves it and tries again."""


@dataclass(frozen=True)
class ModelInfo:
    """What a run must remember about the model it asked.

    Attributes:
        spec: The string the user gave.
        backend: Name in the registry: ``hf``, ``onnx``, ``py``, ``fake`` or that of a plug-in.
        name: Display name.
        fingerprint: Hash that changes when the answers may change.
        labels: The model's own label order.
        revision: Commit of a hub model, else empty.
        max_length: Longest input in tokens, or None where the model has no tokenizer of ours.
    """

    spec: str
    backend: str
    name: str
    fingerprint: str
    labels: tuple[str, ...]
    revision: str = ""
    device: str = "cpu"
    dtype: str = "float32"
    max_length: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self) | {"labels": list(self.labels)}


@dataclass(frozen=True)
class Prepared:
    """Inputs ready to score: item ``i`` costs ``lengths[i]`` tokens."""

    items: Items
    lengths: NDArray[np.int32]
    truncated: int = 0

    def take(self, rows: NDArray[np.int64]) -> Items:
        """The chosen items, in order."""
        return self.items[rows] if isinstance(self.items, Tokens) else [self.items[i] for i in rows]


class NLIModel(Protocol):
    """What the prediction loop needs of a model.

    ``bucket``: lengths are grouped up to multiples of this; 1 means that no batch contains padding.
    ``token_budget``: largest number of tokens, padding included, in one batch.
    ``note``, where there is one: a line that people who store predictions should read.
    """

    info: ModelInfo
    bucket: int
    token_budget: int

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Tokenise all pairs at once."""

    def logits(self, items: Any) -> NDArray[np.float32]:
        """Score one batch: float32 [n, 3] in LABELS order. Raises OutOfMemory if it does not fit."""


def load_model(spec: str | None = None, *, lang: str = "en", options: ModelOptions | None = None) -> NLIModel:
    """Load a model from its spec.

    Args:
        spec: ``hf:id[@revision]`` or a checkpoint directory, ``onnx:file.onnx`` or a directory with one,
            ``py:module:function``, ``fake:kind``, ``evenli:name``, or ``NAME:target`` of an installed backend; a bare
            path or hub id is recognised. None is the embedded model of ``lang``.
        lang: Language of the audit; chooses the embedded model and the words of the fakes.
        options: Loading options.
    """
    spec = spec or f"evenli:{lang}"
    backend, target = _split(spec)
    model: NLIModel = MODELS.get(backend)(target, ModelRequest(spec, lang, options or ModelOptions()))
    missing = [name for name in ("info", "prepare", "logits", "bucket", "token_budget") if not hasattr(model, name)]
    if missing:
        raise ModelError(
            f"the backend '{backend}' gave a {type(model).__name__} without {', '.join(missing)}, no model"
        )
    return model


def _split(spec: str) -> tuple[str, str]:
    """Backend and target of a spec."""
    backend, colon, target = spec.partition(":")
    if colon and backend in MODELS:
        if not target:
            raise ModelError(f"'{spec}' names no model")
        return backend, target
    path = Path(spec)
    if path.suffix == ".onnx" or (path / ONNX_FILE).is_file():
        return "onnx", spec
    if path.is_dir():
        return "hf", spec
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or path.is_file():
        raise ModelError(f"no checkpoint directory or .onnx file at {spec}")
    if colon:  # no hub id has one
        raise ModelError(f"no model backend '{backend}'; there are {', '.join(MODELS)}")
    return "hf", spec
