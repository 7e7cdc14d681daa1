"""What is trained, as frozen values: the recipe of a classifier and that of a BiLSTM-max encoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from evenli.core.errors import InputError
from evenli.core.settings import Rule, Settings, internal, setting, with_default

_ABOVE_0: Rule = (lambda value: 0 < value < math.inf, "a number above 0")
_SHARE: Rule = (lambda value: 0 <= value < 1, "a number from 0, below 1")


@dataclass(frozen=True, kw_only=True)
class BaseRecipe(Settings):
    """What both recipes have."""

    epochs: int = setting(5, "Passes over the data.", minimum=1)
    batch_size: int = setting(32, "Pairs per step.", minimum=1)
    lr: float = setting(2e-5, "Peak learning rate.", rule=_ABOVE_0)
    clip: float = internal(1.0, "Largest norm of the gradient; 0 leaves it as it is.", minimum=0)
    dtype: str = setting("auto", "Numbers to compute in; auto is bfloat16 on CUDA.")

    def dtype_on(self, device: str) -> str:
        """The arithmetic on a device, ``auto`` resolved; weights and moments stay float32.

        >>> Recipe().dtype_on("cuda:1"), Recipe().dtype_on("cpu"), Recipe(dtype="bfloat16").dtype_on("cpu")
        ('bfloat16', 'float32', 'bfloat16')
        """
        if self.dtype != "auto":
            return self.dtype
        return "bfloat16" if device.partition(":")[0] == "cuda" else "float32"


@dataclass(frozen=True, kw_only=True)
class Recipe(BaseRecipe):
    """Settings of a fine-tuning run with AdamW; the defaults are those of NLI-CoAL."""

    name: str = internal("coal", "Preset it started from.")
    max_length: int = setting(128, "Longest pair in tokens; longer ones are truncated and counted.", minimum=8)
    warmup: float = setting(0.0, "Share of the steps with a rising learning rate.", rule=_SHARE)
    weight_decay: float = internal(0.01, "Decoupled, of all weights but norms and biases.", minimum=0)
    beta1: float = internal(0.9, "Decay of the mean of the gradient in AdamW.")
    beta2: float = internal(0.999, "Decay of the mean of its square.")
    eps: float = internal(1e-8, "What AdamW adds to a divisor.")
    dropout: float | None = internal(None, "Everywhere; default: what the base was trained with.", rule=_SHARE)
    seed: int = internal(0, "Seed of the order of the data, dropout and the new classifier.", minimum=0)
    dtype: str = with_default(
        BaseRecipe,
        "dtype",
        "auto",
        help="Numbers to compute in; default: bfloat16 on CUDA, else float32.",
        metavar="[float32|bfloat16]",
        choices=("auto", "float32", "bfloat16"),
    )


RECIPES = {
    # Anantaprayoon et al. 2024, and our decisions where the paper is silent: AdamW, linear decay, no warm-up.
    "coal": Recipe(),
    # The same paper's re-training on bias-controlled data, from a model fine-tuned on NLI.
    "control": Recipe(name="control", epochs=3),
    # Sharma et al. 2021: AdamW (0.9, 0.999); batch size and warm-up are not stated.
    "sharma": Recipe(name="sharma", epochs=3, max_length=180),
}


def make_recipe(name: str = "coal", **changes: Any) -> Recipe:
    """A preset with some settings changed; None leaves a setting as it is.

    >>> make_recipe("sharma", lr=1e-5, epochs=None).epochs
    3
    """
    if name not in RECIPES:
        raise InputError(f"no recipe '{name}'; choose {', '.join(RECIPES)}")
    return replace(RECIPES[name], **{key: value for key, value in changes.items() if value is not None})


@dataclass(frozen=True, kw_only=True)
class EncoderRecipe(BaseRecipe):
    """Settings of a run; the defaults are those of Dolci et al. 2023."""

    hidden: int = setting(2048, "Width of each direction of the LSTM.", minimum=1)
    classifier: int = internal(512, "Width of the two hidden layers of the classifier.", minimum=1)
    epochs: int = with_default(BaseRecipe, "epochs", 8)
    batch_size: int = with_default(BaseRecipe, "batch_size", 64)
    lr: float = with_default(BaseRecipe, "lr", 0.1, help="First learning rate of SGD.")
    decay: float = internal(
        0.99,
        "Factor on the learning rate before every epoch but the first.",
        rule=(lambda value: 0 < value <= 1, "a number above 0, at most 1"),
    )
    shrink: float = internal(
        5.0, "Divisor of the learning rate after an epoch that did not improve dev accuracy.", minimum=1
    )
    min_lr: float = internal(1e-5, "Training stops once a division goes below it.", minimum=0)
    clip: float = with_default(BaseRecipe, "clip", 5.0, help="Largest norm of the gradient.", rule=_ABOVE_0)
    window: int = internal(
        32,
        "Batches of the shuffled order among which pairs of similar length are put together; 1 leaves the order "
        "uniform, and costs time steps in which few sentences are still running.",
        minimum=1,
    )
    v1_padding: bool = setting(False, "Padding takes part in the maximum, as in V1.")
    dtype: str = with_default(BaseRecipe, "dtype", "auto", choices=("auto", "float32", "tf32", "bfloat16"))


def learning_rate(recipe: EncoderRecipe, dev: Sequence[float]) -> float | None:
    """The learning rate of the next epoch, given the dev accuracy of those before; None if training is over."""
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
