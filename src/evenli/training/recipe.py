"""What is trained, as frozen values: the recipe of a classifier and that of a BiLSTM-max encoder."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from evenli.core.errors import InputError

Rule = tuple[Callable[[Any], bool], str]  # whether a value can train, and which would

_ABOVE_0: Rule = (lambda value: 0 < value < math.inf, "a number above 0")
_FROM_0: Rule = (lambda value: value >= 0, "0 or more")
_FROM_1: Rule = (lambda value: value >= 1, "1 or more")
_SHARE: Rule = (lambda value: value is None or 0 <= value < 1, "0 or more, below 1")


def _one_of(*names: str) -> Rule:
    return (lambda value: value in names), ", ".join(names)


class _Settings:
    """What both recipes can do."""

    dtype: str
    rules: ClassVar[Mapping[str, Rule]]

    def __post_init__(self) -> None:
        for name, (is_valid, expected) in self.rules.items():
            value = getattr(self, name)
            if not is_valid(value):
                raise InputError(f"a recipe cannot have {name} = {value}; expected {expected}")

    def dtype_on(self, device: str) -> str:
        """The arithmetic on a device, ``auto`` resolved.

        >>> Recipe().dtype_on("cuda:1"), Recipe().dtype_on("cpu"), Recipe(dtype="bfloat16").dtype_on("cpu")
        ('bfloat16', 'float32', 'bfloat16')
        """
        if self.dtype != "auto":
            return self.dtype
        return "bfloat16" if device.partition(":")[0] == "cuda" else "float32"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)  # type: ignore[call-overload,no-any-return]  # both are dataclasses


@dataclass(frozen=True)
class Recipe(_Settings):
    """Settings of a fine-tuning run with AdamW; the defaults are those of NLI-CoAL."""

    name: str = "coal"  # preset it started from
    epochs: int = 5
    lr: float = 2e-5  # peak learning rate; it falls linearly to zero
    batch_size: int = 32  # pairs per step, over all devices
    max_length: int = 128  # longest pair in tokens; longer ones are truncated and counted
    weight_decay: float = 0.01  # decoupled, of all weights but norms and biases
    warmup: float = 0.0  # share of the steps over which the learning rate rises from zero
    clip: float = 1.0  # largest norm of the gradient; 0 leaves it as it is
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    dropout: float | None = None  # everywhere; None keeps what the base was trained with
    seed: int = 0  # of the order of the data, dropout and the new classifier
    dtype: str = "auto"  # bfloat16 or float32; auto is bfloat16 on CUDA. Weights and moments stay fp32

    rules: ClassVar[Mapping[str, Rule]] = {
        **dict.fromkeys(("epochs", "batch_size"), _FROM_1),
        **dict.fromkeys(("weight_decay", "clip"), _FROM_0),
        **dict.fromkeys(("warmup", "dropout"), _SHARE),
        "lr": _ABOVE_0,
        "max_length": (lambda value: value >= 8, "8 or more"),
        "dtype": _one_of("auto", "bfloat16", "float32"),
    }


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


@dataclass(frozen=True)
class EncoderRecipe(_Settings):
    """Settings of a run; the defaults are those of Dolci et al. 2023."""

    hidden: int = 2048  # width of each direction of the LSTM
    classifier: int = 512  # width of the two hidden layers of the classifier
    epochs: int = 8  # at most
    batch_size: int = 64  # pairs per step
    lr: float = 0.1  # learning rate of the first epoch
    decay: float = 0.99  # factor on the learning rate before every epoch but the first
    shrink: float = 5.0  # divisor of the learning rate after an epoch that did not improve dev accuracy
    min_lr: float = 1e-5  # training stops once a division goes below it
    clip: float = 5.0  # largest norm of the gradient
    # Batches of the shuffled order among which pairs of similar length are put together; 1 leaves the order uniform,
    # and costs time steps in which few sentences are still running.
    window: int = 32
    v1_padding: bool = False  # zero padding takes part in the maximum, as in the original code
    dtype: str = "auto"  # float32, on CUDA also tf32 and bfloat16; auto is bfloat16 on CUDA. Weights stay fp32

    rules: ClassVar[Mapping[str, Rule]] = {
        **dict.fromkeys(("hidden", "classifier", "epochs", "batch_size", "window", "shrink"), _FROM_1),
        **dict.fromkeys(("lr", "clip"), _ABOVE_0),
        "decay": (lambda value: 0 < value <= 1, "a number above 0, at most 1"),
        "min_lr": _FROM_0,
        "dtype": _one_of("auto", "float32", "tf32", "bfloat16"),
    }


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
