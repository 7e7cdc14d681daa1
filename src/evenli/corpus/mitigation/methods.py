"""Mitigations of corpora."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from evenli.core.callable import settings_of
from evenli.core.mitigation import Method


def _swap(source: str | Path, out: str | Path, given: Mapping[str, Any], overwrite: bool) -> Any:
    from evenli.corpus.mitigation.augment import SwapSettings
    from evenli.corpus.mitigation.swap_file import swap_corpus

    options = dict(given)
    review = options.pop("review", None)
    settings = settings_of(SwapSettings, options, "swap", "review")
    return swap_corpus(source, out, settings, review=review, overwrite=overwrite)


def _fairer(
    method: Any, percentile: float, source: str | Path, out: str | Path, given: Mapping[str, Any], overwrite: bool
) -> Any:
    from evenli.corpus.mitigation.corpora import fairer_corpus
    from evenli.corpus.mitigation.plan import CorpusSettings

    options = {"percentile": percentile, **given}
    scorer, further = options.pop("vectors", None), ["vectors"]
    if method == "augment":
        further.append("replace")
        method = "combined" if options.pop("replace", False) else method
    settings = settings_of(CorpusSettings, options, method, *further)
    return fairer_corpus(method, source, out, settings, scorer=scorer, overwrite=overwrite)


_checked = partial(Method, checks_settings=True)
SWAP = _checked("swap", "Add gender-swapped copies to a training set", "Sharma et al. 2021", kind="corpus", apply=_swap)
SUBTRACT = _checked(
    "subtract",
    "Leave out the most biased pairs of a scored corpus",
    "Dolci et al. 2023",
    kind="corpus",
    apply=partial(_fairer, "subtract", 95.0),
)
AUGMENT = _checked(
    "augment",
    "Add swapped copies of the most biased pairs of a scored corpus",
    "Dolci et al. 2023",
    kind="corpus",
    apply=partial(_fairer, "augment", 90.0),
)
