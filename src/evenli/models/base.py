"""The model protocol: prepare texts once, then score items in any grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.models.tokens import Tokens

Items = Tokens | list[Any]
"""What a backend scores: a token matrix, or whatever a backend without tokenizer keeps per pair."""


class OutOfMemory(Exception):  # noqa: N818 - a signal to the batching loop, never shown to people
    """The batch did not fit; the caller halves it and tries again."""


@dataclass(frozen=True)
class ModelInfo:
    """What a run must remember about the model it asked.

    Attributes:
        spec: The string the user gave.
        backend: ``hf``, ``onnx``, ``py`` or ``fake``.
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
