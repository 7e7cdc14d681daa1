"""Mitigations of corpora."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from evenli.core.mitigation import Method
from evenli.corpus.settings import AugmentSettings, CorpusSettings, SwapSettings


def _swap(source: str | Path, out: str | Path, settings: SwapSettings, overwrite: bool) -> Any:
    from evenli.corpus.mitigation.swap_file import swap_corpus

    return swap_corpus(source, out, settings, overwrite=overwrite)


def make_fairer(source: str | Path, out: str | Path, settings: CorpusSettings, overwrite: bool) -> Any:
    """Leave rows out of a scored corpus; or add swapped copies of them, or put these in the place of the rows."""
    from evenli.corpus.mitigation.corpora import fairer_corpus

    method: Any = "subtract"
    if isinstance(settings, AugmentSettings):
        method = "combined" if settings.replace else "augment"
    return fairer_corpus(method, source, out, settings, overwrite=overwrite)


SWAP = Method(
    "swap",
    "Add gender-swapped copies to a training set",
    "Sharma et al. 2021",
    settings=SwapSettings(),
    kind="corpus",
    apply=_swap,
)
_of_scored = partial(Method, reference="Dolci et al. 2023", kind="corpus", apply=make_fairer)
SUBTRACT = _of_scored("subtract", "Leave out the most biased pairs of a scored corpus", settings=CorpusSettings())
AUGMENT = _of_scored(
    "augment", "Add swapped copies of the most biased pairs of a scored corpus", settings=AugmentSettings(90)
)
