"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "encoders": {
            "st": "evenli.encoders.hf:load_sentence_transformer",
            "hf": "evenli.encoders.hf:load",
            "infersent": "evenli.encoders.bilstm:load",
            "onnx": "evenli.encoders.onnx:load",
            "vectors": "evenli.encoders.vectors:load",
            "mitigated": "evenli.encoders.mitigation:load",
            "py": "evenli.encoders.base:load_callable",
        },
        "mitigations": {
            "inlp": "evenli.encoders.inlp:INLP",
            "leace": "evenli.encoders.leace:LEACE",
            "sent-debias": "evenli.encoders.sent_debias:SENT_DEBIAS",
            "hard-debias": "evenli.encoders.hard_debias:HARD_DEBIAS",
        },
    },
    commands="evenli.encoders.commands:COMMANDS",
)
