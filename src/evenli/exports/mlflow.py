"""Audits inside MLflow's own evaluation: a scorer for ``mlflow.genai.evaluate``, an evaluator for classic models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from evenli.audit.audit import audit, questions
from evenli.audit.models import CallableModel
from evenli.audit.predict import predict
from evenli.audit.settings import AuditSettings
from evenli.audit.suites.base import check_suites, usual_suites
from evenli.core.errors import InputError
from evenli.core.extras import need
from evenli.core.labels import LABELS, NEUTRAL
from evenli.core.settings import settings_of
from evenli.exports.trackers import log_mlflow, metrics

Pair = tuple[str, str]


def genai(lang: str = "en", **options: Any) -> tuple[list[dict[str, Any]], Any]:
    """Rows and a scorer for ``mlflow.genai.evaluate``; the audit is in the run when the last row has its score.

    Of each row the scorer says whether the answer is right. A row is ``premise`` and ``hypothesis``, an answer what
    ``CallableModel`` reads of one pair: a label or three numbers. Some rows are there twice: an audit asks a sample
    again, to see whether the answers change.

    Args:
        lang: Language of the audit.
        options: ``suites`` and fields of ``AuditSettings``, such as ``limit``.
    """
    mlflow = need("mlflow.genai", extra="tracking", purpose="evaluation in MLflow")
    given = dict(options)
    suites = given.pop("suites", None)
    settings = settings_of(AuditSettings, None, given, "genai", "suites")
    sets = questions(check_suites(suites or usual_suites(lang, settings, None)), lang, None, settings)
    asked: list[Pair] = []

    def note(premises: Sequence[str], hypotheses: Sequence[str]) -> list[str]:
        asked.extend(zip(premises, hypotheses, strict=True))
        return [NEUTRAL] * len(premises)

    predict(CallableModel(note, fingerprint="rows"), sets)
    gold = {(p, h): label for part in sets for p, h, label in part.frame["premise", "hypothesis", "gold"].iter_rows()}
    answers, lock = defaultdict[Pair, list[Any]](list), Lock()

    def right(inputs: dict[str, Any], outputs: Any) -> bool:
        pair = inputs["premise"], inputs["hypothesis"]
        (row,) = CallableModel(lambda *_: [outputs], fingerprint="row").logits([pair])
        with lock:
            answers[pair].append(outputs)
        return bool(LABELS[int(row.argmax())] == gold[pair])

    def replay(premises: Sequence[str], hypotheses: Sequence[str]) -> list[Any]:
        pairs = list(zip(premises, hypotheses, strict=True))
        if missing := sum(not answers[pair] for pair in pairs):
            raise InputError(f"{missing} of {len(pairs)} pairs have no answer; all rows of genai() are needed")
        return [answers[pair].pop(0) for pair in pairs]

    def score(_: list[float]) -> float:
        result = audit(CallableModel(replay, name="mlflow model", fingerprint="mlflow"), lang, **options)
        log_mlflow(result)
        return next(iter(result.result.suites.values())).value

    rows = [{"inputs": {"premise": premise, "hypothesis": hypothesis}} for premise, hypothesis in asked]
    return rows, mlflow.scorers.scorer(name="evenli", aggregations=["mean", score])(right)


class Evaluator:
    """``mlflow.models.evaluate(model, data, evaluators="evenli", evaluator_config={"lang": "en"})``.

    The model is asked evenli's pairs, as a table with the columns ``premise`` and ``hypothesis``, whatever ``data`` is.
    The configuration has what ``evenli.audit`` takes. Without a language in it nothing is done: MLflow asks every
    evaluator there is where none is named.
    """

    @classmethod
    def can_evaluate(cls, *, evaluator_config: dict[str, Any] | None = None, **_: Any) -> bool:
        """Whether evenli is asked for."""
        return "lang" in (evaluator_config or {})

    def evaluate(self, *, model: Any = None, evaluator_config: dict[str, Any], **_: Any) -> Any:
        """Audit the model and log the audit to the run."""
        if model is None:
            raise InputError("evenli asks pairs of its own; give evaluate a model, not predictions")
        pandas = need("pandas", extra="tracking", purpose="evaluation in MLflow")

        def answer(premises: Sequence[str], hypotheses: Sequence[str]) -> Any:
            found = model.predict(pandas.DataFrame({"premise": premises, "hypothesis": hypotheses}))
            if isinstance(found, pandas.DataFrame):
                wide = len(found.columns) > 1
                return found.to_dict("records") if wide else found.iloc[:, 0].tolist()
            return found.tolist() if hasattr(found, "tolist") else found

        name = str(getattr(getattr(model, "metadata", None), "model_uuid", None) or "mlflow model")
        result = audit(CallableModel(answer, name=name, fingerprint=name), **evaluator_config)
        log_mlflow(result)
        evaluation = need("mlflow.models.evaluation", extra="tracking", purpose="evaluation in MLflow")
        return evaluation.EvaluationResult(metrics=metrics(result), artifacts={})
