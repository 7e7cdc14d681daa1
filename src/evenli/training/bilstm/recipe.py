"""How a BiLSTM-max encoder is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from evenli.errors import InputError

DTYPES = ("auto", "float32", "tf32", "bfloat16")
_EXPECTED = {
    "lr": "a number above 0",
    "decay": "a number above 0, at most 1",
    "min_lr": "0 or more",
    "clip": "a number above 0",
    "dtype": ", ".join(DTYPES),
}


@dataclass(frozen=True)
class EncoderRecipe:
    """Settings of a run; the defaults are those of Dolci et al. 2023.

    Attributes:
        hidden: Width of each direction of the LSTM.
        classifier: Width of the two hidden layers of the classifier.
        epochs: Passes over the data at most.
        batch_size: Pairs per step.
        lr: Learning rate of the first epoch.
        decay: Factor on the learning rate before every epoch but the first.
        shrink: Divisor of the learning rate after an epoch that did not improve dev accuracy.
        min_lr: Training stops once a division goes below it.
        clip: Largest norm of the gradient.
        window: Batches of the shuffled order among which pairs of similar length are put together; 1 leaves the order
            uniform, and costs time steps in which few sentences are still running.
        v1_padding: Zero padding takes part in the maximum, as in the original code.
        dtype: ``float32``, on CUDA also ``tf32`` and ``bfloat16``; ``auto`` is bfloat16 on CUDA. Weights stay fp32.
    """

    hidden: int = 2048
    classifier: int = 512
    epochs: int = 8
    batch_size: int = 64
    lr: float = 0.1
    decay: float = 0.99
    shrink: float = 5.0
    min_lr: float = 1e-5
    clip: float = 5.0
    window: int = 32
    v1_padding: bool = False
    dtype: str = "auto"

    def __post_init__(self) -> None:
        """Refuse values that cannot train."""
        valid = {
            **{name: getattr(self, name) >= 1 for name in ("hidden", "classifier", "epochs", "batch_size", "window")},
            "lr": 0 < self.lr < math.inf,
            "decay": 0 < self.decay <= 1,
            "shrink": self.shrink >= 1,
            "min_lr": self.min_lr >= 0,
            "clip": self.clip > 0,
            "dtype": self.dtype in DTYPES,
        }
        for name, is_valid in valid.items():
            if not is_valid:
                expected = _EXPECTED.get(name, "1 or more")
                raise InputError(f"{name} = {getattr(self, name)} cannot train an encoder; expected {expected}")


def learning_rate(recipe: EncoderRecipe, dev: Sequence[float]) -> float | None:
    """The learning rate of the next epoch, given the dev accuracy of those before; None if training is over.

    >>> recipe = EncoderRecipe()
    >>> learning_rate(recipe, []), round(learning_rate(recipe, [0.7]), 6), round(learning_rate(recipe, [0.7, 0.6]), 6)
    (0.1, 0.099, 0.019602)
    """
    lr, best = recipe.lr, -math.inf
    for accuracy in dev:
        if accuracy > best:
            best = accuracy
        else:
            lr /= recipe.shrink
            if lr < recipe.min_lr:
                return None
        lr *= recipe.decay
    return lr
