"""Rooms: a folder of evenli with a module ``room`` brings its suites, models, encoders, mitigations and commands.

Nothing outside a room names its modules, so a room can be taken out. Another package is a room of its own through the
entry-point group ``evenli.rooms``, whose entries name a ``Room``::

    [project.entry-points."evenli.rooms"]
    courts = "my_package.room:ROOM"
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from pathlib import Path

import evenli
from evenli.core.errors import InputError


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
