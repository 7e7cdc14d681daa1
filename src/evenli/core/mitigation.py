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
from evenli.core.settings import Settings, known_names, settings_of

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
    concepts: tuple[str, ...] = ()  # the pair of words in which the versions of each sentence differ; empty: unknown

    def labelled(self) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """All embeddings, [2n, d], first the female versions, and the class of each: 0 is female, 1 is male."""
        import numpy as np

        return np.concatenate([self.female, self.male]), np.repeat([0, 1], len(self.female))


Kind = Literal["encoder", "vectors", "corpus"]
# The settings are of the class that the method names.
Fit = Callable[[GenderedEmbeddings, Any, "np.random.Generator"], Any]
Apply = Callable[["str | Path", "str | Path", Any, bool], Any]


@dataclass(frozen=True)
class Method:
    """A mitigation: of an encoder it fits an eraser, of word vectors or a corpus it writes fairer ones."""

    name: str  # also of the command
    title: str  # what it does, in one sentence without a full stop
    reference: str  # the paper, as "Author et al. 2020"
    # Kind encoder: embeddings, settings and a random generator in, an eraser out.
    fit: Fit | None = field(default=None, repr=False)
    settings: Settings = field(default_factory=Settings)  # their defaults; its settings are options of its command
    kind: Kind = "encoder"
    # The other kinds: source, output, settings and whether to overwrite in; it writes the output and gives back
    # what there is to know of it, as values for JSON or with a ``to_dict`` that gives them.
    apply: Apply | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        fits = self.kind == "encoder"
        if (self.fit is not None, self.apply is not None) != (fits, not fits):
            needed = "fit" if fits else "apply"
            raise InputError(f"the method '{self.name}' for {self.kind} needs {needed}, and nothing else")
        if taken := RESERVED.intersection(known_names(type(self.settings)) if fits else ()):
            raise InputError(f"the method '{self.name}' has an option '{min(taken)}', which every method has")

    def make_settings(self, given: Mapping[str, Any]) -> Settings:
        """Its settings, those not given at their defaults; unknown ones are refused."""
        return settings_of(type(self.settings), self.settings, given, f"the method '{self.name}'")
