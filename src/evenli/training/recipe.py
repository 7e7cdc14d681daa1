"""Recipes and settings of training, as frozen values: what is trained, how it is carried out, the data of a sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from evenli.core.errors import InputError
from evenli.core.settings import (
    LANGUAGES,
    SEEDS,
    Rule,
    Settings,
    axis_setting,
    device_setting,
    internal,
    online_setting,
    option_of,
    own_fields,
    setting,
    settings_of,
    with_default,
)

TRAIN_WIDTH = 500
"""Templates per word in train: 529 templates give 30,000 rows."""
CAUSES = ("stereotype", "default", "error")
"""The causes of bias that a mixture trains, in the order of its levels."""
STYLES = {
    "snli": ("sentence1", "sentence2", "gold_label", "pairID"),
    "mnli": ("sentence1", "sentence2", "gold_label", "pairID"),
    "ocnli": ("sentence1", "sentence2", "label", "id"),
    "jnli": ("sentence1", "sentence2", "label", "sentence_pair_id"),
    "jsick": ("sentence_A_Ja", "sentence_B_Ja", "entailment_label_Ja", "pair_ID"),
    "jsick-en": ("sentence_A_En", "sentence_B_En", "entailment_label_En", "pair_ID"),
    "sick": ("sentence_A", "sentence_B", "entailment_label", "pair_ID"),
    "hf": ("premise", "hypothesis", "label", "id"),
}
"""Column styles by name: premise, hypothesis, gold label, id. ``hf`` numbers its labels in LABELS order."""
_LEAST = 3
_LEVELS = "START:STOP:STEP or NUMBER,NUMBER"
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


def parse_rates(text: str, low: float = 0) -> tuple[float, ...]:
    """Read at least three rates from ``low`` to 1: ``0:1:0.25`` (start, stop, step; with both ends), or a list."""
    try:
        if ":" in text:
            start, stop, step = (float(part) for part in text.split(":"))
            if not (step > 0 and (stop - start) / step < 1000):
                raise InputError(f"'{text}': the step of start:stop:step must be above 0 and give few rates")
            count = math.floor((stop - start) / step + 1e-9) + 1
            # Multiples of the step carry rounding errors; a rate is also a file name.
            rates = tuple(round(start + number * step, 10) for number in range(count))
        else:
            rates = tuple(float(part) for part in text.split(","))
    except (ValueError, OverflowError):
        raise InputError(f"cannot read the rates '{text}'; write 0:1:0.1 (start:stop:step) or 0,0.5,1") from None
    _check_levels(rates, "rates", least=_LEAST, low=low)
    return rates


def _check_levels(levels: Sequence[float], name: str, *, least: int = 0, low: float = 0) -> None:
    outside = [level for level in levels if not low <= level <= 1]
    if outside:
        raise InputError(f"{name} lie in {low:g}..1, not at {outside[0]:g}")
    shown = ", ".join(f"{level:g}" for level in levels) or "none"
    if len(set(levels)) < len(levels):
        raise InputError(f"{name} must be distinct; given: {shown}")
    if len(levels) < least:
        raise InputError(f"at least {least} {name} are needed; given: {shown}")


@dataclass(frozen=True, kw_only=True)
class DeviceSettings(Settings):
    """Where a transformer is trained, and whether it is compiled."""

    device: str | None = device_setting()
    graph: bool = setting(True, "No CUDA graphs and no compiler.", "--no-graph", shown=False, parse=lambda off: not off)
    online: bool = online_setting()
    shown: bool = internal(True, "Show notes and progress on stderr.")


@dataclass(frozen=True)
class TrainSettings(DeviceSettings):
    """How a run is carried out; nothing here changes what a seed learns, but for the arithmetic of the device."""

    style: str | None = setting(None, "Column style of the files; default: found.", choices=tuple(STYLES))
    log: Sequence[str] = setting(
        (), "Also log there; may be repeated.", choices=("tensorboard", "mlflow", "wandb"), repeated=True
    )
    checkpoint_minutes: float = setting(10.0, "Minutes between checkpoints inside an epoch.", minimum=0)


@dataclass(frozen=True)
class SweepSettings(DeviceSettings):
    """How the models of a sweep are trained."""

    seeds: Sequence[int] = setting(
        (0,), "Training seed, default 0; repeat for several sweeps.", "--seed", repeated=True, **SEEDS
    )
    recipe: Mapping[str, Any] = internal(
        dict[str, Any](), "Settings in the place of those of the recipe control; a sweep that was begun keeps its own."
    )


@dataclass(frozen=True)
class EncoderSettings(Settings):
    """How the training of a BiLSTM is carried out."""

    device: str | None = device_setting()
    shown: bool = internal(True, "Show progress on stderr.")
    checkpoints: bool = internal(
        True, "Store all weights after every epoch; takes its time where many short runs follow."
    )


def _levels(text: str, low: float = 0) -> Any:
    return setting((), text, metavar=_LEVELS, parse=partial(parse_rates, low=low))


@dataclass(frozen=True)
class Design(Settings):
    """What the data of a sweep are made of.

    The levels of the three causes span a grid of mixtures (see module mixture), and those that fit into the words are
    trained. A default gender above 0 is a man.
    """

    lang: str = setting("en", "Language of the pairs.", choices=LANGUAGES, closed=False)
    rates: tuple[float, ...] = setting(
        tuple(i / 10 for i in range(11)), "Bias rates.", metavar=_LEVELS, shown="0:1:0.1", parse=parse_rates
    )
    noise: tuple[float, ...] = _levels("Levels of the noise axis; none by default.")
    stereotype: tuple[float, ...] = _levels("Levels of the stereotype cause, -1 to 1.", low=-1)
    default: tuple[float, ...] = _levels("Levels of the default gender, -1 to 1: share of words read as a man.", low=-1)
    error: tuple[float, ...] = _levels("Levels of error in no direction, 0 to 1; all mixtures are trained.")
    balanced: bool = setting(False, "Roles to female and male words in turn.")
    ns_words: str = setting("train", "NS words; default train, as in the paper.", choices=("train", "released"))
    data: str | None = setting(None, "Official release to evaluate on; default: own templates.", metavar="FOLDER")
    captions: str | None = setting(None, "Captions to make templates of; default: composed ones.", metavar="FILE")
    width: int = setting(TRAIN_WIDTH, "Training templates per word.", minimum=1)
    seed: int = setting(0, "Seed of the order of templates.", **SEEDS)
    axis: str = axis_setting()

    def __post_init__(self) -> None:
        """Sort and check the levels."""
        super().__post_init__()
        # Curves are read along increasing rates, in whatever order they were written down.
        for name in ("rates", "noise", *CAUSES):
            object.__setattr__(self, name, tuple(sorted(getattr(self, name))))
        _check_levels(self.rates, "bias rates", least=0 if any(self.causes) else 1)
        _check_levels(self.noise, "noise levels")
        for name, levels in zip(CAUSES, self.causes, strict=True):
            _check_levels(levels, f"{name} levels", low=0 if name == "error" else -1)

    @property
    def causes(self) -> tuple[tuple[float, ...], ...]:
        """Levels of the three causes."""
        return self.stereotype, self.default, self.error

    def check_correlation(self) -> None:
        """Refuse too few levels to correlate scores with."""
        if self.rates or not any(self.causes):
            _check_levels(self.rates, "bias rates", least=_LEAST)
        if self.noise:
            _check_levels(self.noise, "noise levels", least=_LEAST)


def complete_design(given: Mapping[str, Any], earlier: Design | None = None, *, quick: bool = False) -> Design | None:
    """The design of a new sweep, or of an earlier one with what is given; None where that is nothing.

    Levels may be texts. A ``quick`` first look has three rates and a tenth of the pairs.
    """
    chosen = dict(given)
    if quick:
        if double := " and ".join(f"{name} (--{name})" for name in ("rates", "width") if name in chosen):
            raise InputError(f"a first look (--quick) has its own rates and width; leave it or {double} out")
        chosen |= {"width": 50} | ({} if set(CAUSES) & set(chosen) else {"rates": "0,0.5,1"})
    for field in own_fields(Design):
        parse = option_of(field).parse
        if parse is not None and isinstance(chosen.get(field.name), str):
            chosen[field.name] = parse(chosen[field.name])
    if earlier is not None:
        # An earlier sweep keeps its design: what differs from it is refused where both are compared.
        return settings_of(Design, earlier, chosen, "a design") if chosen else None
    # A sweep of mixtures needs no bias axis; rates add one.
    if set(CAUSES) & set(chosen):
        chosen.setdefault("rates", ())
    return settings_of(Design, None, chosen, "a design")
