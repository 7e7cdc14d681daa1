"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(commands="evenli.training.commands:COMMANDS")
