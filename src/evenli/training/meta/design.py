"""Settings of a meta-evaluation: what the data are made of, words and levels, and how the models are trained."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from evenli.core.errors import InputError, ResourceError
from evenli.training.meta.mixture import CAUSES
from evenli.words import Axis, load_axis, read_table

TRAIN_WIDTH = 500
"""Templates per word in train: 529 templates give 30,000 rows."""
_TABLE = "controlled_words.csv"
_LEAST = 3
_MOST = 1000


@dataclass(frozen=True)
class Design:
    """What the data of a sweep are made of."""

    lang: str = "en"
    rates: tuple[float, ...] = tuple(i / 10 for i in range(11))  # bias rates, 0 to 1; kept in increasing order
    noise: tuple[float, ...] = ()  # levels of the noise axis; empty for none
    # Levels of the three causes, empty for none: they span a grid of mixtures (see module mixture), and those that
    # fit into the words are trained. Stereotype and default gender (above 0: a man) -1 to 1, undirected error 0 to 1.
    stereotype: tuple[float, ...] = ()
    default: tuple[float, ...] = ()
    undirected: tuple[float, ...] = ()
    balanced: bool = False  # give roles to female and male words in turn instead of to female words first
    # "train", the unstereotyped words of training as the paper says, or "released", as in its files.
    ns_words: str = "train"
    data: str | None = None  # official release to evaluate on; None for our own templates
    captions: str | None = None  # captions to make training templates of; None for our composed ones
    width: int = TRAIN_WIDTH  # templates per word in training
    seed: int = 0  # of the order of templates and of the noise
    axis: str = "gender"

    def __post_init__(self) -> None:
        # Curves are read along increasing rates, in whatever order they were written down.
        for name in ("rates", "noise", *CAUSES):
            object.__setattr__(self, name, tuple(sorted(getattr(self, name))))
        _check_levels(self.rates, "bias rates", least=0 if any(self.causes) else 1)
        _check_levels(self.noise, "noise levels")
        for name, levels in zip(CAUSES, self.causes, strict=True):
            _check_levels(levels, f"{name} levels", low=0 if name == "undirected" else -1)
        if self.ns_words not in {"train", "released"}:
            raise InputError(f"ns_words {self.ns_words} is unknown; choose train or released")
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}; give 0 or more")

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


GivenLevels = str | Sequence[float] | None
"""Levels as numbers, or as text: start:stop:step or a list."""


@dataclass(frozen=True)
class DesignOptions:
    """What is said of a design; None is as in an earlier sweep, or the default of ``Design``."""

    lang: str | None = None
    rates: GivenLevels = None
    noise: GivenLevels = None
    stereotype: GivenLevels = None
    default: GivenLevels = None
    undirected: GivenLevels = None
    balanced: bool | None = None
    ns_words: str | None = None
    data: str | None = None
    captions: str | None = None
    width: int | None = None
    quick: bool = False  # a first look: three rates and a tenth of the pairs

    def complete(self, earlier: Design | None = None) -> Design | None:
        """The design of a new sweep, or of an earlier one with what is given here; None where that is nothing."""
        given = {name: value for name, value in vars(self).items() if value is not None and name != "quick"}
        if self.quick:
            if double := [f"{name} (--{name})" for name in ("rates", "width") if name in given]:
                named = " and ".join(double)
                raise InputError(f"a first look (--quick) has its own rates and width; leave it or {named} out")
            given |= {"width": 50} | ({} if set(CAUSES) & set(given) else {"rates": "0,0.5,1"})
        # Of the causes two have a sign, and their levels begin at -1.
        lowest = {"rates": 0, "noise": 0, "undirected": 0, "stereotype": -1, "default": -1}
        for name, low in lowest.items():
            if isinstance(given.get(name), str):
                given[name] = parse_rates(given[name], low=low)
        if earlier is not None:
            # An earlier sweep keeps its design: what differs from it is refused where both are compared.
            return replace(earlier, **given) if given else None
        # A sweep of mixtures needs no bias axis; rates add one.
        if set(CAUSES) & set(given):
            given.setdefault("rates", ())
        return Design(**given)


@dataclass(frozen=True)
class SweepSettings:
    """How the models of a sweep are trained."""

    seeds: tuple[int, ...] = (0,)  # one sweep each
    # Settings that replace those of the recipe "control", e.g. {"epochs": 5}. A sweep that was begun keeps its own
    # recipe; other values are refused.
    recipe: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None  # cpu, cuda or mps; None picks the fastest there is
    graph: bool = True  # use CUDA graphs and the compiler on CUDA
    online: bool = False  # download from the hub what its local cache lacks
    shown: bool = True  # show notes and progress on stderr


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


@dataclass(frozen=True)
class ControlledWords:
    """The words of a bias-controlled set; their order decides who is biased at which rate."""

    # Stereotyped words by axis group; groups and words in file order, which is the order of roles.
    groups: dict[str, tuple[str, ...]]
    neutral: tuple[str, ...]  # neutral words of train, dev and test
    neutral_released: tuple[str, ...] = ()  # neutral words of the released downsampled evaluation files

    def __post_init__(self) -> None:
        if not self.neutral or not self.groups or not all(self.groups.values()):
            raise InputError("bias-controlled words need neutral words and at least one word for every group")
        # Roles are set by word, so a word may occur only once.
        repeated = sorted({word for word in self.words if self.words.count(word) > 1})
        if repeated:
            raise InputError(f"'{repeated[0]}' occurs more than once in the words; a word can have only one role")

    @property
    def words(self) -> tuple[str, ...]:
        """All words in file order: the groups, then neutral."""
        return (*(word for words in self.groups.values() for word in words), *self.neutral)

    @property
    def stereotypes(self) -> dict[str, str]:
        """Stereotyped words and their groups, in file order."""
        return {word: group for group, words in self.groups.items() for word in words}

    def first(self, share: float, *, balanced: bool = False) -> tuple[str, ...]:
        """The first ``share`` of the stereotyped words, one group after the other as released.

        At one half all female words are biased and no male word is; ``balanced`` alternates between the groups.
        """
        total = len(self.stereotypes)
        if not 0 <= share <= 1:
            raise InputError(f"the rate {share:g} lies outside 0..1")
        count = round(share * total)
        # A word has one role in all its rows, so a rate is a whole number of words.
        if abs(share * total - count) > 1e-6:
            raise InputError(
                f"the rate {share:g} would split a word: {total} stereotyped words allow steps of {1 / total:g}"
            )
        blocks = self.groups.values()
        turns = zip_longest(*blocks) if balanced else blocks
        return tuple(word for turn in turns for word in turn if word is not None)[:count]


def controlled_words(lang: str, axis: Axis | str = "gender") -> ControlledWords:
    """The shipped words of a language."""
    axis = load_axis(axis)
    rows = read_table(_TABLE, ("lang", "role", "word"))
    langs = list(dict.fromkeys(row["lang"] for row in rows))
    if lang not in langs:
        raise ResourceError(f"no bias-controlled words for language '{lang}'; there are {', '.join(langs)}")

    def words(role: str) -> tuple[str, ...]:
        listed = tuple(row["word"] for row in rows if row["lang"] == lang and row["role"] == role)
        if not listed:
            raise ResourceError(f"{_TABLE} has no '{role}' words; for axis '{axis.id}' pass your own ControlledWords")
        return listed

    return ControlledWords(
        {group: words(group) for group in axis.group_names}, words("neutral_train"), words("neutral_released")
    )
