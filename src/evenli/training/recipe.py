"""The settings of a fine-tuning run as one frozen value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from evenli.errors import InputError


@dataclass(frozen=True)
class Recipe:
    """Settings of a fine-tuning run; the defaults are those of NLI-CoAL.

    Attributes:
        name: Preset it started from.
        epochs: Passes over the data.
        lr: Peak learning rate; it falls linearly to zero.
        batch_size: Pairs per step, over all devices.
        max_length: Longest pair in tokens; longer ones are truncated and counted.
        weight_decay: Decoupled decay of all weights but norms and biases.
        warmup: Share of the steps over which the learning rate rises from zero.
        clip: Largest norm of the gradient; 0 leaves it as it is.
        beta1: Decay of AdamW's first moment.
        beta2: Decay of AdamW's second moment.
        eps: AdamW's epsilon.
        dropout: Dropout everywhere; None keeps what the base was trained with.
        seed: Order of the data, dropout and the new classifier.
        dtype: Arithmetic, ``bfloat16`` or ``float32``; ``auto`` is bfloat16 on CUDA. Weights and moments stay fp32.
    """

    name: str = "coal"
    epochs: int = 5
    lr: float = 2e-5
    batch_size: int = 32
    max_length: int = 128
    weight_decay: float = 0.01
    warmup: float = 0.0
    clip: float = 1.0
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    dropout: float | None = None
    seed: int = 0
    dtype: str = "auto"

    def __post_init__(self) -> None:
        """Refuse values that cannot train."""
        valid = {
            "epochs": self.epochs >= 1,
            "lr": self.lr > 0,
            "batch_size": self.batch_size >= 1,
            "max_length": self.max_length >= 8,
            "weight_decay": self.weight_decay >= 0,
            "warmup": 0 <= self.warmup < 1,
            "clip": self.clip >= 0,
            "dropout": self.dropout is None or 0 <= self.dropout < 1,
            "dtype": self.dtype in {"auto", "bfloat16", "float32"},
        }
        for name, is_valid in valid.items():
            if not is_valid:
                raise InputError(f"a recipe cannot have {name} = {getattr(self, name)}")

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
        return asdict(self)


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
