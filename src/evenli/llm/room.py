"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "models": {"chat": "evenli.llm.chat:ChatModel", "causal": "evenli.llm.causal:CausalModel"},
    },
)
