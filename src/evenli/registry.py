"""What can be added from outside: suites, measures, model backends, embedded models, encoders, mitigations and axes.

Each kind has a registry. Built-in entries are named here by their import path and loaded when they are first used.
Other packages add entries through entry points of the group that the registry names, for example::

    [project.entry-points."evenli.suites"]
    winograd = "my_package.winograd:SUITE"

An entry point never replaces a built-in entry.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib import metadata
from typing import Any, Generic, TypeVar

from evenli.errors import InputError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Named entries of one kind.

    Args:
        kind: What an entry is, for messages.
        group: Entry-point group through which other packages add entries.
        builtin: Import paths ``module:attribute`` by name, in the order in which they are listed.
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind, self.group = kind, group
        self._builtin = dict(builtin)
        self._added: dict[str, Entry] = {}
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def _installed(self) -> dict[str, metadata.EntryPoint]:
        # Looking through all installed packages takes milliseconds, so it waits until a name is asked for.
        points = {point.name: point for point in metadata.entry_points(group=self.group)}
        return {name: points[name] for name in sorted(points) if name not in self._builtin}

    @property
    def builtin(self) -> list[str]:
        """Names of the entries that ship with evenli."""
        return list(self._builtin)

    def names(self) -> list[str]:
        """All names: built-in ones first."""
        return list(dict.fromkeys([*self._builtin, *self._added, *self._installed]))

    def plugins(self) -> list[str]:
        """Names that are not built in."""
        return [name for name in self.names() if name not in self._builtin]

    def __contains__(self, name: object) -> bool:
        """Whether there is an entry of this name."""
        return name in self._builtin or name in self._added or name in self._installed

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self.names())

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry for this process; a built-in name is refused."""
        if name in self._builtin:
            raise InputError(f"there is a built-in {self.kind} '{name}'; choose another name")
        self._added[name] = entry

    def get(self, name: str) -> Entry:
        """An entry by name; an unknown name is refused with the ones there are."""
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            # Imported only now: a suite or a backend may need seconds, or an extra that is not installed.
            if name in self._builtin:
                module, _, attribute = self._builtin[name].partition(":")
                self._loaded[name] = getattr(importlib.import_module(module), attribute)
            elif name in self._installed:
                self._loaded[name] = self._load(self._installed[name])
            else:
                raise InputError(f"no {self.kind} '{name}'; there are {', '.join(self.names())}")
        return self._loaded[name]

    def _load(self, point: metadata.EntryPoint) -> Entry:
        try:
            entry: Entry = point.load()
        except Exception as error:  # a plug-in may fail in any way; the user needs its name, not our traceback
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(f"the {self.kind} '{point.name}' of {point.value} cannot be loaded ({reason})") from error
        return entry


SUITES: Registry[Any] = Registry(
    "suite",
    "evenli.suites",
    {
        "coal": "evenli.suites.coal:SUITE",
        "probe": "evenli.suites.probe:SUITE",
        "dev2020": "evenli.suites.dev2020:SUITE",
        "robust": "evenli.suites.robust:SUITE",
        "swap": "evenli.suites.swap:SUITE",
        "groups": "evenli.suites.groups:SUITE",
    },
)
"""What an audit asks; see ``evenli.suites.base.Suite``."""
DEFAULT_SUITE = "coal"
"""The suite that is asked where none is named."""

MEASURES: Registry[Any] = Registry("measure", "evenli.measures", {})
"""Measures beside those of the suites; see ``evenli.stats.measure.Measure``."""

MODELS: Registry[Any] = Registry(
    "model backend",
    "evenli.models",
    {
        "hf": "evenli.models.hf:HFModel",
        "onnx": "evenli.models.onnx:load",
        "evenli": "evenli.models.onnx:load_embedded",
        "py": "evenli.models.callables:load",
        "fake": "evenli.models.fakes:load",
        "chat": "evenli.models.chat:ChatModel",
        "causal": "evenli.models.causal:CausalModel",
    },
)
"""Loaders of NLI models by the word before the colon of a spec: ``load(target, request) -> NLIModel``."""

EMBEDDED: Registry[Any] = Registry("package of embedded models", "evenli.embedded", {})
"""Directories of embedded models in other packages; the English one lies in ``models/embedded``."""

ENCODERS: Registry[Any] = Registry(
    "encoder backend",
    "evenli.encoders",
    {
        "st": "evenli.encoders.hf:load_sentence_transformer",
        "hf": "evenli.encoders.hf:load",
        "infersent": "evenli.encoders.bilstm:load",
        "onnx": "evenli.encoders.onnx:load",
        "vectors": "evenli.encoders.vectors:load",
        "mitigated": "evenli.mitigate.encoder:load",
        "py": "evenli.encoders.base:load_callable",
    },
)
"""Loaders of encoders by the word before the colon of a spec: ``load(target, request) -> Encoder``."""

MITIGATIONS: Registry[Any] = Registry(
    "mitigation",
    "evenli.mitigations",
    {
        "inlp": "evenli.mitigate.methods:INLP",
        "leace": "evenli.mitigate.methods:LEACE",
        "sent-debias": "evenli.mitigate.methods:SENT_DEBIAS",
        "hard-debias": "evenli.mitigate.methods:HARD_DEBIAS",
        "swap": "evenli.mitigate.methods:SWAP",
        "subtract": "evenli.mitigate.methods:SUBTRACT",
        "augment": "evenli.mitigate.methods:AUGMENT",
    },
)
"""Ways to make an encoder, word vectors or a corpus fairer; see ``evenli.mitigate.methods.Method``."""

AXES: Registry[Any] = Registry("axis", "evenli.axes", {})
"""TOML files of axes in other packages; the shipped ones lie in ``resources/axes``."""
