"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={"exports": {"cyclonedx": "evenli.exports.cyclonedx:ml_bom"}},
    commands="evenli.exports.commands:COMMANDS",
)
