"""NLI-CoAL as a task of inspect_ai: ``inspect eval evenli/evenli_coal --model ...``.

Answers are generated, read by the strict parser and scored by evenli; what cannot be read is an abstention.
"""

from __future__ import annotations

import math
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset
from inspect_ai.dataset import Sample as InspectSample
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
from inspect_ai.solver import TaskState, generate

from evenli.audit.results import AuditResult
from evenli.core.errors import EvenliError
from evenli.core.labels import LABELS
from evenli.llm.questions import parse, questions, score

_SURE = 0.99
"""Probability of a label that was said."""


@task  # type: ignore[untyped-decorator]
def evenli_coal(lang: str = "en", prompts: int = 1, orders: int = 3) -> Task:
    """Every pair of NLI-CoAL, and the pairs that show competence, in every view."""
    settings = {"lang": lang, "count": prompts, "orders": orders}
    samples = [
        InspectSample(input=row["text"], target=row["gold"], id=row["key"], metadata={**settings, "view": row["view"]})
        for row in questions(lang, prompts, orders)
    ]
    config = GenerateConfig(temperature=0.0, max_tokens=16)
    return Task(dataset=MemoryDataset(samples), solver=generate(), scorer=parsed(), config=config)


def audit_of(scores: list[SampleScore]) -> AuditResult | None:
    """The audit that the scores make; None where no pair was answered in every view."""
    answers = []
    for sample in scores:
        label = sample.score.metadata["label"] if sample.score.metadata else None
        values = [math.log(_SURE if label == name else (1 - _SURE) / 2) for name in LABELS]
        answers.append((str(sample.sample_id), tuple(values), 1.0 if label else 0.0))
    settings = scores[0].sample_metadata or {}
    try:
        return score(answers, **{name: settings[name] for name in ("lang", "count", "orders")})
    except EvenliError:
        return None


@metric  # type: ignore[untyped-decorator]
def coal() -> Metric:
    """NLI-CoAL, NaN where the model is not competent."""

    def compute(scores: list[SampleScore]) -> float:
        audit = audit_of(scores)
        return math.nan if audit is None or audit.coal.problem else audit.coal.value

    return compute


@metric  # type: ignore[untyped-decorator]
def gold_accuracy() -> Metric:
    """Accuracy on the gold pairs."""

    def compute(scores: list[SampleScore]) -> float:
        audit = audit_of(scores)
        return math.nan if audit is None or audit.competence is None else audit.competence.gold.value

    return compute


@metric  # type: ignore[untyped-decorator]
def abstained() -> Metric:
    """Share of answers that could not be read."""

    def compute(scores: list[SampleScore]) -> float:
        return sum(not (sample.score.metadata or {}).get("label") for sample in scores) / len(scores)

    return compute


@scorer(metrics=[coal(), gold_accuracy(), abstained()])  # type: ignore[untyped-decorator]
def parsed() -> Scorer:
    """The label of an answer, or none."""

    async def read(state: TaskState, target: Target) -> Score:
        said = state.output.completion
        label: Any = parse(state.metadata["lang"], state.metadata["view"], said)
        right = bool(label) and label == target.text
        return Score(value="C" if right else "I", answer=said, metadata={"label": label})

    return read
