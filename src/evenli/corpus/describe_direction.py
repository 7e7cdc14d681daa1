"""The gender direction of word vectors or of an encoder: described, and written with its chart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.corpus.settings import DirectionSettings as DirectionSettings
from evenli.encoders.direction import DirectionSummary, describe_direction

if TYPE_CHECKING:
    from evenli.corpus.contextual import ContextualSummary


class DescribedDirection(NamedTuple):
    """What is known of a direction, and the files that it was written to."""

    summary: DirectionSummary | ContextualSummary
    files: list[Path]


def direction(
    vectors: str | Path | None = None,
    encoder: str | None = None,
    out: str | Path | None = None,
    settings: DirectionSettings | None = None,
) -> DescribedDirection:
    """Describe the gender direction of word vectors, or of an encoder in their place; ``evenli direction``.

    Args:
        vectors: File of word vectors.
        encoder: ``hf:ID``; its direction comes from sentences in two versions.
        out: Directory for direction.npz and the chart; for word vectors only.
        settings: Pairs, how many words, and how an encoder is loaded.
    """
    settings = settings or DirectionSettings()
    if encoder is not None:
        if vectors is not None or out is not None:
            raise InputError("an encoder (--encoder) cannot be combined with vectors (--vectors) or out (-o)")
        from evenli.corpus.contextual import describe_contextual
        from evenli.corpus.transformer import TransformerArgmax

        importance = cast(Any, settings.importance)  # checked there
        loaded = TransformerArgmax(encoder, device=settings.device, online=settings.online, importance=importance)
        return DescribedDirection(describe_contextual(loaded, settings.pairs), [])
    if vectors is None:
        raise InputError(
            "which word vectors (--vectors)? Name a GloVe, word2vec or fastText file, or an encoder (--encoder)"
        )
    if out is not None:
        check_extra("report", "the plots of a direction")
    report = describe_direction(vectors, settings.pairs, count=settings.count, among=settings.among)
    if out is None:
        return DescribedDirection(report.summary, [])
    from evenli.corpus.charts import write_direction  # here: the charts load all that an audit needs

    return DescribedDirection(report.summary, write_direction(report.direction, report.vectors, out))
