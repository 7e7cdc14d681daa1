"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "mitigations": {
            "swap": "evenli.corpus.mitigation.methods:SWAP",
            "subtract": "evenli.corpus.mitigation.methods:SUBTRACT",
            "augment": "evenli.corpus.mitigation.methods:AUGMENT",
        },
    },
    commands="evenli.corpus.commands:COMMANDS",
)
