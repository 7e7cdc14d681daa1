"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "models": {
            "chat": "evenli.llm.chat:load_chat",
            "causal": "evenli.llm.causal:CausalModel",
            "batch": "evenli.llm.batch:load_answers",
        },
    },
    commands="evenli.llm.commands:COMMANDS",
)
