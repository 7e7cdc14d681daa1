"""Settings of training: how a run is carried out, what the data of a sweep are made of."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from evenli.core.errors import InputError
from evenli.core.settings import (
    LANGUAGES,
    SEEDS,
    Settings,
    axis_setting,
    device_setting,
    internal,
    online_setting,
    option_of,
    own_fields,
    setting,
    settings_of,
)

TRAIN_WIDTH = 500
"""Templates per word in train: 529 templates give 30,000 rows."""
CAUSES = ("stereotype", "default", "undirected")
"""The causes of bias that a mixture trains, in the order of its levels."""
_LEAST = 3
_MOST = 1000
_LEVELS = "START:STOP:STEP or NUMBER,NUMBER"


def parse_rates(text: str, low: float = 0) -> tuple[float, ...]:
    """Read at least three rates from ``low`` to 1: ``0:1:0.25`` (start, stop, step; with both ends), or a list."""
    try:
        if ":" in text:
            start, stop, step = (float(part) for part in text.split(":"))
            if not (step > 0 and (stop - start) / step < _MOST):
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

    style: str | None = setting(
        None,
        "Column style of the files; default: found.",
        choices=("snli", "mnli", "ocnli", "jnli", "jsick", "jsick-en", "sick", "hf"),
    )
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
    noise: tuple[float, ...] = setting(
        (), "Levels of the noise axis; none by default.", metavar=_LEVELS, parse=parse_rates
    )
    stereotype: tuple[float, ...] = setting(
        (), "Levels of the stereotype cause, -1 to 1.", metavar=_LEVELS, parse=partial(parse_rates, low=-1)
    )
    default: tuple[float, ...] = setting(
        (),
        "Levels of the default gender, -1 to 1: share of words read as a man.",
        metavar=_LEVELS,
        parse=partial(parse_rates, low=-1),
    )
    undirected: tuple[float, ...] = setting(
        (), "Levels of undirected error, 0 to 1; all mixtures are trained.", metavar=_LEVELS, parse=parse_rates
    )
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
            _check_levels(levels, f"{name} levels", low=0 if name == "undirected" else -1)

    @property
    def causes(self) -> tuple[tuple[float, ...], ...]:
        """Levels of the three causes."""
        return self.stereotype, self.default, self.undirected

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
