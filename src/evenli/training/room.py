"""What this room adds."""

from evenli.core.rooms import Room

ROOM = Room(commands="evenli.training.commands:COMMANDS")
