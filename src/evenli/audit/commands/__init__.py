"""Commands of the audit."""

from evenli.audit.commands import audit, data, report
from evenli.core.rooms import Command

_AUDIT, _DECIDE, _DATA = "Audit a model", "Compare and decide", "Data and installation"
COMMANDS = (
    *(Command(run, _AUDIT) for run in (audit.audit, audit.predict, audit.measure, audit.verify)),
    *(Command(run, _AUDIT) for run in (report.report, report.view, report.card, report.table)),
    *(Command(run, _DECIDE) for run in (audit.compare, audit.robustness, report.gate)),
    *(Command(run, "build") for run in (data.coal, data.probe, data.dev2020)),
    *(Command(run, "axis") for run in (data.new, data.check)),
    *(Command(run, _DATA) for run in (data.data, data.models, data.doctor)),
)
