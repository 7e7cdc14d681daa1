"""Methods that fit an eraser to an encoder; each is a command ``evenli mitigate NAME``.

Other packages add methods through entry points of the group ``evenli.mitigations`` that name a ``Method``. This module
imports no numerics, because the command line reads it for its help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from evenli.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from evenli.mitigate.erasers import Affine, Projection

RESERVED = {"encoder", "out", "fit", "probe", "seed", "pooling", "device", "overwrite", "as_json"}
"""Options that every method has."""


@dataclass(frozen=True)
class GenderedEmbeddings:
    """What a method is fitted on: embeddings [n, d] of sentences in a female and a male version, in the same order."""

    female: NDArray[Any]
    male: NDArray[Any]
    concepts: tuple[str, ...] = ()
    """The pair of words in which the versions of each sentence differ; empty where that is not known."""

    def labelled(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """All embeddings, [2n, d], first the female versions, and the class of each: 0 is female, 1 is male."""
        import numpy as np

        return np.concatenate([self.female, self.male]), np.repeat([0, 1], len(self.female))


Fit = Callable[[GenderedEmbeddings, Mapping[str, Any], "np.random.Generator"], "Projection | Affine"]


@dataclass(frozen=True)
class Option:
    """A setting of a method, an option of its command."""

    name: str  # as in Python; the command line has hyphens
    default: int | float | str  # values are of the same type
    help: str  # one line
    minimum: float | None = None  # least value of a number

    def check(self, value: Any) -> Any:
        """The value, if it is usable."""
        kinds = (int, float) if isinstance(self.default, float) else type(self.default)
        if not isinstance(value, kinds):
            raise InputError(f"{self.name} should be {type(self.default).__name__}, not {value!r}")
        if self.minimum is not None and value < self.minimum:  # type: ignore[operator]
            raise InputError(f"{self.name} is {value}; {self.minimum:g} or more is needed")
        return value


@dataclass(frozen=True)
class Method:
    """A way to fit an eraser."""

    name: str  # also of the command
    title: str  # what it does, in one sentence without a full stop
    reference: str  # the paper, as "Author et al. 2020"
    fit: Fit = field(repr=False)  # embeddings, settings by name and a random generator in, an eraser out
    options: tuple[Option, ...] = ()

    def __post_init__(self) -> None:
        taken = [option.name for option in self.options if option.name in RESERVED]
        if taken:
            raise InputError(f"the method '{self.name}' has an option '{taken[0]}', which every method has")

    def settings(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All settings, those not given at their defaults; unknown ones are refused."""
        known = {option.name: option for option in self.options}
        unknown = sorted(given.keys() - known.keys())
        if unknown:
            names = ", ".join(known) or "none"
            raise InputError(f"the method '{self.name}' has no option '{unknown[0]}'; it has {names}")
        return {name: option.check(given.get(name, option.default)) for name, option in known.items()}


def _erasers() -> Any:
    from evenli.mitigate import erasers

    return erasers


def _leace(data: GenderedEmbeddings, concepts: str) -> Any:
    if concepts not in {"pairs", "one"}:
        raise InputError(f"concepts are 'pairs' or 'one', not '{concepts}'")
    if concepts == "one" or not data.concepts:
        return _erasers().fit_leace(*data.labelled())
    return _erasers().fit_leace_pairs(data.female, data.male, data.concepts)


INLP = Method(
    "inlp",
    "Project out what linear classifiers find of gender",
    "Ravfogel et al. 2020",
    lambda data, settings, generator: _erasers().fit_inlp(
        *data.labelled(), min(settings["iterations"], data.female.shape[1] - 1), generator
    ),
    (Option("iterations", 35, "Rounds at most; it ends early once a round finds nothing.", minimum=1),),
)
LEACE = Method(
    "leace",
    "Erase what any linear classifier could find of gender",
    "Belrose et al. 2023",
    lambda data, settings, generator: _leace(data, settings["concepts"]),
    (Option("concepts", "pairs", "pairs: every pair of gender words is erased; one: gender alone, as published."),),
)
SENT_DEBIAS = Method(
    "sent-debias",
    "Remove what tells sentences from their swapped copies",
    "Liang et al. 2020",
    lambda data, settings, generator: _erasers().fit_sentence_debias(data.female, data.male, settings["components"]),
    (Option("components", 1, "Directions to remove.", minimum=1),),
)
