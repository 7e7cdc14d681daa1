"""A pair file scored with a model, and what that says in a few lines: answers and accuracy, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from evenli.audit.audit import Model, resolve_model
from evenli.audit.predict import PredictSettings, RunFolder, predict
from evenli.audit.predictions import ABSTAINED, Predictions
from evenli.audit.results import Timings
from evenli.audit.settings import FileSettings
from evenli.audit.suites.files import read_pairs
from evenli.core.estimate import Estimate
from evenli.core.labels import LABELS
from evenli.core.record import Record
from evenli.stats.proportion import share_of


class PredictionSummary(Record, frozen=True):
    """How often each label was predicted, and how often that was right; 95 % intervals take pairs as independent.

    Attributes:
        pairs: How many were asked.
        predicted: Answers by label.
        gold: Pairs with a gold label.
        accuracy: Of these, the share that was answered right.
        timings: How long asking took; None where the table does not say.
        abstained: Pairs without an answer, of a language model.
    """

    optional: ClassVar[tuple[str, ...]] = ("abstained",)
    computed: ClassVar[Mapping[str, str]] = {"shares": "shares"}

    pairs: int
    predicted: dict[str, int]
    gold: int
    accuracy: Estimate
    timings: Timings | None = None
    abstained: int | None = None

    @property
    def shares(self) -> dict[str, Estimate]:
        """Share of every label."""
        return {name: share_of(count, self.pairs) for name, count in self.predicted.items()}

    def lines(self) -> list[str]:
        """The same for people."""
        shown = [f"{name} {self.predicted[name]} ({share.shown})" for name, share in self.shares.items()]
        if self.abstained is not None:
            shown.append(f"abstained {self.abstained}")
        lines = [f"{self.pairs} pairs: {', '.join(shown)}"]
        if self.gold:
            lines.append(f"accuracy {self.accuracy.shown} on {self.gold} pairs with a gold label")
        return [*lines, "95% intervals, for pairs that are independent of each other"]


def summarise(predictions: Predictions) -> PredictionSummary:
    """Count the answers of a table, and those that are right where there is a gold label."""
    answers, gold, timings = predictions.answers, predictions.frame["gold"], predictions.header.get("timings")
    right = [answer == label for answer, label in zip(answers, gold.to_list(), strict=True) if label]
    return PredictionSummary(
        pairs=len(answers),
        predicted={label: answers.count(label) for label in LABELS},
        gold=len(right),
        accuracy=share_of(sum(right), len(right)),
        timings=Timings.from_dict(timings) if timings else None,
        abstained=answers.count("") if ABSTAINED in predictions.frame.columns else None,
    )


@dataclass(frozen=True)
class FilePredictions:
    """A pair file with the answers of a model."""

    predictions: Predictions  # every pair with the columns of the file and three logits
    summary: PredictionSummary
    notes: tuple[str, ...]  # what should be known of the file
    folder: Path | None


def predict_file(
    model: Model, data: Any, lang: str = "en", *, out: str | Path | None = None, settings: FileSettings | None = None
) -> FilePredictions:
    """Score any pair file with a model; ``evenli predict``.

    Args:
        model: A spec, a model or a callable as ``audit`` takes it; None for the embedded one.
        data: A .jsonl, .csv, .tsv or .parquet file, or a table.
        lang: Language of the pairs.
        out: Run folder, in which an interrupted run continues; None keeps everything in memory.
        settings: Everything else.
    """
    settings = settings or FileSettings()
    pairs = read_pairs(data, lang, suite="user", gold_labels=settings.gold_labels, extra=True)
    predictions = predict(
        resolve_model(model, lang, settings.options),
        [pairs],
        None if out is None else RunFolder(out),
        PredictSettings(overwrite=settings.overwrite),
        on_progress=settings.on_progress,
        on_warning=settings.on_warning,
    )
    return FilePredictions(predictions, summarise(predictions), pairs.notes, None if out is None else Path(out))
