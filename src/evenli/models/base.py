"""The model protocol: prepare texts once, then score items in any grouping."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.labels import label_columns
from evenli.models.tokens import Tokens

Items = Tokens | list[Any]
"""What a backend scores: a token matrix, or whatever a backend without tokenizer keeps per pair."""


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
        """The labels in output order and the columns that bring them into the order of LABELS.

        Args:
            stored: Gives the labels that the model names; not asked where the user gave them.
            name: The model, for messages.
        """
        labels = tuple(self.labels or stored())
        return labels, list(label_columns(labels, origin="--labels" if self.labels else f"the model {name}"))


@dataclass(frozen=True)
class ModelRequest:
    """What a backend is told beside the target: ``load(target, request) -> NLIModel``.

    Attributes:
        spec: The whole string the user gave; ``ModelInfo.spec`` should be this.
        lang: Language of the audit.
        options: Loading options.
    """

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
        revision: Commit of a hub model, else empty.
        fingerprint: Hash that changes when the answers may change.
        labels: The model's own label order.
        device: ``cpu``, ``cuda``, ``mps``.
        dtype: Arithmetic of the forward pass.
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
        ...

    def logits(self, items: Any) -> NDArray[np.float32]:
        """Score one batch: float32 [n, 3] in LABELS order. Raises OutOfMemory if it does not fit."""
        ...
