"""What this room adds."""

from evenli.core.registry import Room

ROOM = Room(
    entries={
        "suites": {
            "labour": "evenli.audit.suites.coal:LABOUR_SUITE",  # first: it gives the verdict
            "coal": "evenli.audit.suites.coal:SUITE",
            "probe": "evenli.audit.suites.probe:SUITE",
            "dev2020": "evenli.audit.suites.dev2020:SUITE",
            "swap": "evenli.audit.suites.swap:SUITE",
            "groups": "evenli.audit.suites.groups:SUITE",
            # After the suites that ask in one wording: theirs is the verdict of a run, which this one may contradict.
            "robust": "evenli.audit.suites.robust:SUITE",
        },
        "models": {
            "hf": "evenli.audit.models.hf:HFModel",
            "onnx": "evenli.audit.models.onnx:load",
            "evenli": "evenli.audit.models.onnx:load_embedded",
            "py": "evenli.audit.models.callables:load",
            "fake": "evenli.audit.models.callables:load_fake",
        },
    },
    commands="evenli.audit.commands:COMMANDS",
)
