"""The three labels of natural-language inference, and how foreign names map onto them."""

from __future__ import annotations

from collections.abc import Sequence

from evenli.core.errors import LabelError

ENTAILMENT, NEUTRAL, CONTRADICTION = "entailment", "neutral", "contradiction"

LABELS = (ENTAILMENT, NEUTRAL, CONTRADICTION)
"""Column order of every logit array in this package. Everything else travels by name."""

_ALIASES = {
    **dict.fromkeys(("entailment", "entail", "entails", "entailed", "e"), ENTAILMENT),
    **dict.fromkeys(("neutral", "n"), NEUTRAL),
    **dict.fromkeys(("contradiction", "contradict", "contradicts", "contradictory", "c"), CONTRADICTION),
}


def canonical_label(name: str) -> str | None:
    """Return the label that ``name`` means, or None.

    >>> canonical_label(" Entailment"), canonical_label("LABEL_0")
    ('entailment', None)
    """
    return _ALIASES.get(name.strip().lower())


def label_columns(names: Sequence[str], *, origin: str) -> tuple[int, int, int]:
    """Columns of a model's output such that ``outputs[:, columns]`` is in LABELS order.

    ``names`` are those of its outputs, in their order; ``origin`` is what they were read from, for the error message.

    >>> label_columns(["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], origin="config")
    (2, 1, 0)
    """
    names = [str(name) for name in names]  # a configuration may hold anything
    shown = ", ".join(names)
    if len(names) != 3:
        raise LabelError(
            f"{origin} has {len(names)} label(s) ({shown}); evenli needs the three labels {', '.join(LABELS)}. "
            "A two-label head cannot answer 'neutral' and is not scored."
        )
    labels = [canonical_label(name) for name in names]
    if sorted(label or "" for label in labels) != sorted(LABELS):
        raise LabelError(
            f"{origin} names its labels {shown}; cannot tell which is which. "
            "Say the order (--labels), for example contradiction,entailment,neutral"
        )
    e, n, c = (labels.index(label) for label in LABELS)
    return e, n, c
