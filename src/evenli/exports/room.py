"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(entries={"exports": {}}, commands="evenli.exports.commands:COMMANDS")
