"""Rooms and what they bring: suites, measures, models, encoders, mitigations, formats of exports, axes, commands.

A folder of evenli with a module ``room`` brings these by import path. Nothing outside a room names its modules, so a
room can be taken out. Each kind has a registry; an entry is loaded when it is first used. Other packages are rooms of
their own through the entry-point group ``evenli.rooms``, or add single entries through that of a registry::

    [project.entry-points."evenli.rooms"]
    courts = "my_package.room:ROOM"

    [project.entry-points."evenli.suites"]
    winograd = "my_package.winograd:SUITE"

An entry point never replaces what is built in.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any, Generic, TypeVar

import evenli
from evenli.core.errors import EvenliError, InputError, MissingExtraError, named_reason, translated
from evenli.core.extras import EXTRA_MODULES


@dataclass(frozen=True)
class Room:
    """What a folder of evenli, or another package, adds."""

    # Import paths ``module:attribute`` by registry (``suites``, ``models`` ...) and name.
    entries: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    commands: str = ""  # import path of its commands, a sequence of ``Command``; the module must load no numerics


@dataclass(frozen=True)
class Command:
    """A command of a room."""

    run: Callable[..., None]  # typer reads its signature, the first paragraph of its docstring is the help
    section: str  # heading under which ``evenli --help`` lists it, or the group that it belongs to
    name: str = ""  # on the command line; default: that of the function

    @property
    def spelled(self) -> str:
        """The name on the command line."""
        return self.name or self.run.__name__.replace("_", "-")


@cache
def rooms() -> dict[str, Room]:
    """All rooms by name: our own in alphabetical order, then those of other packages."""
    found = {}
    for name in sorted(file.parent.name for path in evenli.__path__ for file in Path(path).glob("*/room.py")):
        try:
            found[name] = importlib.import_module(f"evenli.{name}.room").ROOM
        except ModuleNotFoundError as error:
            if error.name != f"evenli.{name}":
                raise
    for point in sorted(metadata.entry_points(group="evenli.rooms"), key=lambda point: point.name):
        if point.name in found:
            raise InputError(f"{point.value} cannot be the room '{point.name}': there is one in evenli")
        found[point.name] = point.load()
    return found


def commands() -> Sequence[Command]:
    """The commands of all rooms."""
    paths = (room.commands.partition(":") for room in rooms().values() if room.commands)
    return [command for module, _, name in paths for command in getattr(importlib.import_module(module), name)]


Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """Named entries of one kind."""

    def __init__(self, kind: str, group: str) -> None:
        self.kind = kind  # what an entry is, for messages
        self.group = group  # key of the entries that rooms bring, and with ``evenli.`` before it the entry-point group
        self._added: dict[str, Entry] = {}
        self._loaded: dict[str, Entry] = {}

    @cached_property
    def builtin(self) -> dict[str, str]:
        """Import paths of the entries that ship with evenli."""
        return {name: path for room in rooms().values() for name, path in room.entries.get(self.group, {}).items()}

    @cached_property
    def _installed(self) -> dict[str, metadata.EntryPoint]:
        # Looking through all installed packages takes milliseconds, so it waits until a name is asked for.
        points = {point.name: point for point in metadata.entry_points(group=f"evenli.{self.group}")}
        return {name: points[name] for name in sorted(points) if name not in self.builtin}

    def plugins(self) -> list[str]:
        """Names that are not built in."""
        return [name for name in self if name not in self.builtin]

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self._added or name in self._installed

    def __iter__(self) -> Iterator[str]:
        """All names: built-in ones first."""
        return iter(dict.fromkeys([*self.builtin, *self._added, *self._installed]))

    def register(self, name: str, entry: Entry) -> None:
        """Add an entry for this process; a built-in name is refused."""
        if name in self.builtin:
            raise InputError(f"there is a built-in {self.kind} '{name}'; choose another name")
        self._added[name] = self._loaded[name] = entry

    def get(self, name: str) -> Entry:
        """An entry by name; an unknown name is refused with the ones there are."""
        if name not in self._loaded:
            # Imported only now: a suite or a backend may need seconds, or an extra that is not installed.
            if name in self.builtin:
                self._loaded[name] = load_object(self.builtin[name], f"the {self.kind} '{name}'")
            elif name in self._installed:
                point = self._installed[name]
                # A plug-in may fail in any way; the user needs its name, not our traceback.
                before = f"the {self.kind} '{name}' of {point.value} cannot be loaded ("
                with translated(before, ")", kinds=(Exception, EvenliError), reason=named_reason):
                    self._loaded[name] = point.load()
            else:
                raise InputError(f"no {self.kind} '{name}'; there are {', '.join(self)}")
        return self._loaded[name]


def load_object(path: str, purpose: str) -> Any:
    """What ``module:attribute`` of ours names; where a library is missing, the extra that brings it is named."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        extra = next((extra for extra, modules in EXTRA_MODULES.items() if library in modules), None)
        if extra is None:
            raise
        raise MissingExtraError(library, extra, purpose) from error


SUITES: Registry[Any] = Registry("suite", "suites")  # what an audit asks; see ``evenli.audit.suites.base.Suite``
DEFAULT_SUITE = "coal"  # the suite that is asked where none is named
MEASURES: Registry[Any] = Registry("measure", "measures")
"""Measures beside those of the suites; see ``evenli.stats.measure.Measure``."""
MODELS: Registry[Any] = Registry("model backend", "models")
"""Loaders of NLI models by the word before the colon of a spec: ``load(target, request) -> NLIModel``."""
EMBEDDED: Registry[Any] = Registry("package of embedded models", "embedded")
"""Directories of embedded models in other packages; the English one is in ``audit/models/embedded``."""
ENCODERS: Registry[Any] = Registry("encoder backend", "encoders")
"""Loaders of encoders by the word before the colon of a spec: ``load(target, request) -> Encoder``."""
MITIGATIONS: Registry[Any] = Registry("mitigation", "mitigations")
"""Ways to make an encoder, word vectors or a corpus fairer; see ``evenli.core.mitigation.Method``."""
EXPORTS: Registry[Any] = Registry("format", "exports")
"""Formats in which audits are written for other tools; see ``evenli.exports.files.Export``."""
AXES: Registry[Any] = Registry("axis", "axes")
"""TOML files of axes in other packages; the shipped ones are in ``words/axes``."""
