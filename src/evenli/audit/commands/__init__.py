"""Commands of the audit."""

from evenli.audit.commands import audit, data
from evenli.core.registry import Command

_AUDIT, _DECIDE, _DATA = "Audit a model", "Compare and decide", "Data and installation"
COMMANDS = (
    *(Command(run, _AUDIT) for run in (audit.audit, audit.predict, audit.measure)),
    *(Command(run, _AUDIT) for run in (audit.report, audit.view, audit.card, audit.table)),
    *(Command(run, _DECIDE) for run in (audit.compare, audit.robustness, audit.gate)),
    *(Command(run, "build") for run in (data.coal, data.probe, data.dev2020)),
    *(Command(run, "axis") for run in (data.new, data.check)),
    *(Command(run, _DATA) for run in (data.data, data.models, data.doctor)),
)
