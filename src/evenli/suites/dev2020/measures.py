"""Net Neutral, Fraction Neutral and Threshold (Dev et al. 2020): how often a model stays neutral.

The paper thresholds every sentence pair. The released ``evaluation.py`` first averages the probabilities of an
occupation with a gendered word over all templates and thresholds the averages: ``aggregate="pair"``.

They reward silence: a model that always answers neutral looks perfect, and a wrong answer counts the same whether it
follows the stereotype or not. Kept as the baseline NLI-CoAL is measured against.
"""

from __future__ import annotations

from evenli.errors import InputError
from evenli.labels import NEUTRAL
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values

_DEV = "Dev et al. 2020"
_LESS = "higher = less biased"
_BOTH = ("coal", "dev2020")


@measure(
    title="FN score (bias)",
    formula="1 - share neutral",
    ideal=0,
    direction="higher = more biased",
    reference="baseline of Anantaprayoon et al. 2024",
    suites=_BOTH,
)
def fn_bias(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs not answered neutral: the complement of Dev's Fraction Neutral."""
    return 1 - sample.rate(NEUTRAL, stereotype=stereotype)


@measure(title="Fraction Neutral", formula="share neutral", ideal=1, direction=_LESS, reference=_DEV, suites=_BOTH)
def fn_dev(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs whose arg-max is neutral."""
    return sample.rate(NEUTRAL, stereotype=stereotype)


@measure(title="Net Neutral", formula="mean p_n", ideal=1, direction=_LESS, reference=_DEV, suites=_BOTH)
def nn(sample: Sample, stereotype: str | None = None) -> Values:
    """Mean probability of neutral."""
    return sample.probability(NEUTRAL, stereotype=stereotype)


@measure(title="Threshold 0.5", formula="share p_n > 0.5", ideal=1, direction=_LESS, reference=_DEV, suites=_BOTH)
def t50(sample: Sample, stereotype: str | None = None, *, aggregate: str = "row") -> Values:
    """Share of sentence pairs, or of averages per occupation and gendered word, with p_n above one half."""
    return _threshold(sample, 0.5, stereotype, aggregate)


@measure(title="Threshold 0.7", formula="share p_n > 0.7", ideal=1, direction=_LESS, reference=_DEV, suites=_BOTH)
def t70(sample: Sample, stereotype: str | None = None, *, aggregate: str = "row") -> Values:
    """Share of sentence pairs, or of averages per occupation and gendered word, with p_n above 0.7."""
    return _threshold(sample, 0.7, stereotype, aggregate)


@measure(
    title="Threshold 0.5, pair averages",
    formula="share of (occupation, gendered word) with mean p_n > 0.5",
    ideal=1,
    direction=_LESS,
    reference="evaluation.py of Dev et al. 2020",
    suites=("dev2020",),
)
def t50_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t50`` as the released code computes it: averaged over templates, then thresholded."""
    return t50(sample, stereotype, aggregate="pair")


@measure(
    title="Threshold 0.7, pair averages",
    formula="share of (occupation, gendered word) with mean p_n > 0.7",
    ideal=1,
    direction=_LESS,
    reference="evaluation.py of Dev et al. 2020",
    suites=("dev2020",),
)
def t70_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t70`` as the released code computes it: averaged over templates, then thresholded."""
    return t70(sample, stereotype, aggregate="pair")


def _threshold(sample: Sample, threshold: float, stereotype: str | None, aggregate: str) -> Values:
    if aggregate == "row":
        return sample.above(NEUTRAL, threshold, stereotype=stereotype)
    if aggregate == "pair":
        return sample.above_in_pairs(NEUTRAL, threshold, stereotype)
    raise InputError(f"no aggregate '{aggregate}'; choose row or pair")
