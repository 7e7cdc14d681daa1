"""An encoder with an eraser behind it is an encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.encoders.base import Encoder
from evenli.errors import InputError, ModelError
from evenli.io import hash_text
from evenli.mitigate.erasers import Eraser

CHECK = ("She is a nurse.", "He is a doctor.", "My mother is there.", "A man walks in the park.")
"""Texts on which the outputs must differ from those of the base encoder."""
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Erased:
    """An encoder whose embeddings pass through an eraser.

    A mitigated encoder that is the base encoder by mistake would look like a mitigation without effect. So the two are
    compared on a few texts when they are put together, and equal outputs are an error.

    Attributes:
        encoder: Anything with ``encode(texts)``.
        eraser: What its embeddings pass through.
        check: Texts to compare on.
    """

    encoder: Encoder
    eraser: Eraser
    check: tuple[str, ...] = CHECK

    def __post_init__(self) -> None:
        if not self.check:
            raise InputError("give one or more texts to compare on")
        before = self._base(self.check)
        after = self.eraser(before)
        if not np.abs(after - before).max() > _ROUNDING * np.abs(before).max():
            raise ModelError(
                f"the eraser changes nothing: all {len(before)} outputs are those of the base encoder; "
                "fit it on embeddings of this encoder"
            )

    @property
    def dimension(self) -> int:
        """Numbers in an embedding."""
        return self.eraser.dimension

    @property
    def identity(self) -> str:
        """Changes when any output could, as far as the encoder has an identity."""
        return hash_text(f"{getattr(self.encoder, 'identity', type(self.encoder).__name__)}|{self.eraser.identity}")

    @property
    def note(self) -> str:
        """What a user should know of the encoder before trusting the embeddings."""
        return str(getattr(self.encoder, "note", ""))

    def encode(self, texts: Sequence[str]) -> NDArray[Any]:
        """Embeddings [n, d] without the concept."""
        return self.eraser(self._base(texts))

    def _base(self, texts: Sequence[str]) -> NDArray[Any]:
        embeddings = np.asarray(self.encoder.encode(list(texts)))
        if embeddings.shape != (len(texts), self.eraser.dimension):
            raise InputError(
                f"the eraser is for embeddings of {self.eraser.dimension} numbers, the encoder gave shape "
                f"{embeddings.shape} for {len(texts)} text(s); fit an eraser for this encoder"
            )
        return embeddings
