"""What a mitigation is; each is a command ``evenli mitigate NAME``.

Other packages add methods through entry points of the group ``evenli.mitigations`` that name a ``Method``. This module
imports no numerics, because the command line reads it for its help.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenli.core.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


Kind = Literal["encoder", "vectors", "corpus"]
Fit = Callable[[GenderedEmbeddings, Mapping[str, Any], "np.random.Generator"], Any]
Apply = Callable[["str | Path", "str | Path", Mapping[str, Any], bool], Any]


@dataclass(frozen=True)
class Option:
    """A setting of a method, an option of its command."""

    name: str  # as in Python; the command line has hyphens
    default: int | float | str  # values are of the same type
    help: str  # one line
    minimum: float | None = None  # least value of a number
    choices: tuple[str, ...] = ()  # what a text may be; empty for any

    def check(self, value: Any) -> Any:
        """The value, if it is usable."""
        kinds = (int, float) if isinstance(self.default, float) else type(self.default)
        if not isinstance(value, kinds):
            raise InputError(f"{self.name} should be {type(self.default).__name__}, not {value!r}")
        if self.minimum is not None and value < self.minimum:  # type: ignore[operator]
            raise InputError(f"{self.name} is {value}; {self.minimum:g} or more is needed")
        if self.choices and value not in self.choices:
            raise InputError(f"{self.name} '{value}' is unknown; choose {' or '.join(self.choices)}")
        return value


_NEEDS = {"encoder": "fit", "vectors": "apply", "corpus": "apply"}


@dataclass(frozen=True)
class Method:
    """A mitigation: of an encoder it fits an eraser, of word vectors or a corpus it writes fairer ones."""

    name: str  # also of the command
    title: str  # what it does, in one sentence without a full stop
    reference: str  # the paper, as "Author et al. 2020"
    # Kind encoder: embeddings, settings by name and a random generator in, an eraser out.
    fit: Fit | None = field(default=None, repr=False)
    options: tuple[Option, ...] = ()
    kind: Kind = "encoder"
    # The other kinds: source, output, settings by name and whether to overwrite in; it writes the output and gives back
    # what there is to know of it, as values for JSON or with a ``to_dict`` that gives them.
    apply: Apply | None = field(default=None, repr=False)
    checks_settings: bool = False  # whether apply checks the names of its settings itself

    def __post_init__(self) -> None:
        if (self.fit is None) is (self.kind == "encoder") or (self.apply is None) is (self.kind != "encoder"):
            raise InputError(f"the method '{self.name}' for {self.kind} needs {_NEEDS[self.kind]}, and nothing else")
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
