"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "exports": {
            "cyclonedx": "evenli.exports.cyclonedx:ml_bom",
            "eval-results": "evenli.exports.hub:eval_results",
            "every-eval-ever": "evenli.exports.every_eval_ever:record",
            "github": "evenli.exports.ci:github",
            "gitlab": "evenli.exports.ci:gitlab",
            "comment": "evenli.exports.ci:comment",
        }
    },
    commands="evenli.exports.commands:COMMANDS",
)
