"""The functions that ``evenli_coal.yaml`` names."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from evenli.audit.results import AuditResult
from evenli.core.errors import EvenliError
from evenli.core.extras import need
from evenli.core.registry import DEFAULT_SUITE
from evenli.llm.questions import questions, score

Item = tuple[str, str, tuple[float, ...]]
"""Settings as JSON, key of the question, log-likelihood of each answer."""


def load(lang: str = "en", prompts: int = 1, orders: int = 3, **_: Any) -> dict[str, Any]:
    """The questions as a data set; every row carries the settings that made it."""
    datasets = need("datasets", extra="lm-eval", purpose="the lm-eval task")
    settings = json.dumps({"lang": lang, "count": prompts, "orders": orders})
    rows = [{**row, "settings": settings} for row in questions(lang, prompts, orders)]
    return {"test": datasets.Dataset.from_list(rows)}


def process(doc: dict[str, Any], results: Sequence[tuple[float, bool]]) -> dict[str, Item]:
    """One question's numbers, for every metric."""
    item = (str(doc["settings"]), str(doc["key"]), tuple(float(value) for value, _ in results))
    return dict.fromkeys(("coal", "gold_accuracy", "abstained", "order_agreement"), item)


@lru_cache(maxsize=4)
def _audit(items: tuple[Item, ...]) -> AuditResult | None:
    answers = [(key, values, min(1.0, sum(map(math.exp, values)))) for _, key, values in items]
    try:
        return score(answers, **json.loads(items[0][0]))
    except EvenliError:  # --limit left no whole pair, or the model has no answer to any
        return None


def coal(items: Sequence[Item]) -> float:
    """NLI-CoAL, or NaN where the model is not competent: its number would say nothing about bias."""
    audit = _audit(tuple(items))
    return math.nan if audit is None or audit.coal.problem else audit.coal.value


def gold_accuracy(items: Sequence[Item]) -> float:
    """Accuracy on the gold pairs."""
    audit = _audit(tuple(items))
    return math.nan if audit is None or audit.competence is None else audit.competence.gold.value


def abstained(items: Sequence[Item]) -> float:
    """Share of pairs without an answer."""
    audit = _audit(tuple(items))
    return 1.0 if audit is None else audit.prompting[DEFAULT_SUITE]["abstained"].value


def order_agreement(items: Sequence[Item]) -> float:
    """Of the wordings answered in any option order, the share answered alike in all."""
    audit = _audit(tuple(items))
    return math.nan if audit is None else audit.prompting[DEFAULT_SUITE]["order_agreement"].value
