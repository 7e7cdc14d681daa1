"""Sent-Debias: project out the main directions in which sentences differ from their gender-swapped copies.

Liang et al. 2020, "Towards debiasing sentence representations". Nothing is promised about classes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from evenli.core.errors import InputError
from evenli.core.mitigation import Method
from evenli.encoders.base import paired
from evenli.encoders.eraser import Eraser, projection
from evenli.encoders.settings import SentDebiasSettings


def fit_sentence_debias(female: ArrayLike, male: ArrayLike, components: int = 1) -> Eraser:
    """Project out principal components of the differences, not centred: what all of them share is what is sought."""
    f, m = paired(female, male)
    _, sigma, axes = np.linalg.svd(f - m, full_matrices=False)
    # Directions below the rounding of float32 are noise, not differences.
    scale = max(np.abs(f).max(), np.abs(m).max()) * np.sqrt(f.size)
    rank = int((sigma > scale * np.finfo(np.float32).eps).sum())
    if not 1 <= components <= rank:
        raise InputError(f"{components} component(s) asked for, the {len(f)} pairs differ in {rank} direction(s)")
    return projection(axes[:components], method="SentenceDebias")


SENT_DEBIAS = Method(
    "sent-debias",
    "Remove what tells sentences from their swapped copies",
    "Liang et al. 2020",
    lambda data, settings, generator: fit_sentence_debias(data.female, data.male, settings.components),
    SentDebiasSettings(),
)
