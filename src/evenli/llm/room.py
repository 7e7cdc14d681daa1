"""What this room adds."""

from evenli.core.rooms import Room

ROOM = Room(
    entries={
        "models": {"chat": "evenli.llm.chat:ChatModel", "causal": "evenli.llm.causal:CausalModel"},
    },
)
