"""Mitigation: corpora, vectors and encoders in, fairer ones out. ``evenli.mitigate("leace", encoder, out)``."""

from evenli._callable import make_callable

make_callable(__name__, "evenli.mitigate.api:mitigate")
