"""The audit: pairs, models, suites, verdict, comparison, report, gate. It can be called: ``evenli.audit(model)``."""

from evenli.core.extras import make_callable

make_callable(__name__, "evenli.audit.audit:audit")
