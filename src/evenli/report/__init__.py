"""Results for people: terminal, HTML, charts, model card, gate. It can be called: ``evenli.report(run, "x.html")``."""

from evenli._callable import make_callable

make_callable(__name__, "evenli.report.html:report")
