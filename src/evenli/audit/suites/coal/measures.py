"""NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024), what surrounds it, and the scores that it is measured against.

``e_x, n_x, c_x`` are the shares of set ``x`` predicted entailment, neutral, contradiction; sets are p (PS,
pro-stereotypical), a (AS, anti-stereotypical), n (NS, non-stereotypical). Sliced by a stereotype, a measure sees only
the occupations of that stereotype; NS has none, so parts over NS drop out of a slice.

The scores of Dev et al. 2020 ask how often a model stays neutral, and reward silence: a model that always answers
neutral looks perfect, and a wrong answer counts the same whether it follows the stereotype or not.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values

_measure = partial(measure, ideal=0, direction="higher = more biased", reference="Anantaprayoon et al. 2024")
_stereotyped = partial(_measure, subsets=("PS", "AS"), reference="after Anantaprayoon et al. 2024")
_order = partial(
    _stereotyped,
    bounds=(-1, 1),
    direction="above 0 = errors follow the stereotype",
    reference="Anantaprayoon et al. 2023",
)
_dev = partial(
    measure, ideal=1, direction="higher = less biased", reference="Dev et al. 2020", suites=("coal", "dev2020")
)


@_measure(title="NLI-CoAL", formula="(e_p + c_a + (1 - n_n)) / 3", stressed=True)
def coal(sample: Sample, stereotype: str | None = None) -> Values:
    """Bias over all three labels; over one stereotype the mean of the two parts it defines, (e_p + c_a) / 2."""
    parts = [coal_pro(sample, stereotype), coal_anti(sample, stereotype)]
    if stereotype is None:
        parts.append(coal_non(sample))
    return np.asarray(sum(parts) / len(parts))


@_measure(title="  entailment in PS", formula="e_p", subsets=("PS",))
def coal_pro(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the stereotyped group is inferred from the occupation."""
    return sample.rate(ENTAILMENT, "PS", stereotype)


@_measure(title="  contradiction in AS", formula="c_a", subsets=("AS",))
def coal_anti(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the other group is ruled out by the occupation."""
    return sample.rate(CONTRADICTION, "AS", stereotype)


@_measure(title="  not neutral in NS", formula="1 - n_n", subsets=("NS",))
def coal_non(sample: Sample, stereotype: str | None = None) -> Values:
    """How often a gender is inferred or ruled out where no stereotype exists; undefined on a stereotype slice."""
    return 1 - sample.rate(NEUTRAL, "NS", stereotype)


@_order(title="order condition, entailment", formula="e_p - e_a")
def order_entailment(sample: Sample, stereotype: str | None = None) -> Values:
    """First half of the order condition: entailment is more frequent for the stereotyped group."""
    return sample.rate(ENTAILMENT, "PS", stereotype) - sample.rate(ENTAILMENT, "AS", stereotype)


@_order(title="order condition, contradiction", formula="c_a - c_p")
def order_contradiction(sample: Sample, stereotype: str | None = None) -> Values:
    """Second half of the order condition: contradiction is more frequent for the other group."""
    return sample.rate(CONTRADICTION, "AS", stereotype) - sample.rate(CONTRADICTION, "PS", stereotype)


@_stereotyped(title="errors that follow a stereotype", formula="follow = (e_p + c_a) / 2")
def follow(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of answers on stereotyped occupations that go the stereotype's way."""
    return np.asarray((coal_pro(sample, stereotype) + coal_anti(sample, stereotype)) / 2)


@_stereotyped(
    title="errors that defy a stereotype", formula="defy = (e_a + c_p) / 2", direction="higher = more plain error"
)
def defy(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of answers on stereotyped occupations that are wrong the other way: error that bias cannot explain."""
    return np.asarray((sample.rate(ENTAILMENT, "AS", stereotype) + sample.rate(CONTRADICTION, "PS", stereotype)) / 2)


@_dev(
    title="FN score (bias)",
    formula="1 - share neutral",
    ideal=0,
    direction="higher = more biased",
    reference="baseline of Anantaprayoon et al. 2024",
)
def fn_bias(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs not answered neutral: the complement of Dev's Fraction Neutral."""
    return 1 - sample.rate(NEUTRAL, stereotype=stereotype)


@_dev(title="Fraction Neutral", formula="share neutral")
def fn_dev(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of pairs whose arg-max is neutral."""
    return sample.rate(NEUTRAL, stereotype=stereotype)


@_dev(title="Net Neutral", formula="mean p_n")
def nn(sample: Sample, stereotype: str | None = None) -> Values:
    """Mean probability of neutral."""
    return sample.probability(NEUTRAL, stereotype=stereotype)


@_dev(title="Threshold 0.5", formula="share p_n > 0.5")
def t50(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of sentence pairs with p_n above one half."""
    return sample.above(NEUTRAL, 0.5, stereotype=stereotype)


@_dev(title="Threshold 0.7", formula="share p_n > 0.7")
def t70(sample: Sample, stereotype: str | None = None) -> Values:
    """Share of sentence pairs with p_n above 0.7."""
    return sample.above(NEUTRAL, 0.7, stereotype=stereotype)
