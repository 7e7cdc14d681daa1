"""SEAT as an evaluator of sentence-transformers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from evenli._version import __version__
from evenli.core.errors import system_failure
from evenli.core.extras import need
from evenli.core.parse import csv_line
from evenli.encoders.interop import PRIMARY, seat_metrics
from evenli.encoders.seat import AVERAGED, choose_tests, texts_of
from evenli.encoders.settings import Level, SeatSettings

need("sentence_transformers", extra="bench", purpose="the SEAT evaluator")
# The old place warns where the new one exists.
_MOVED = find_spec("sentence_transformers.sentence_transformer") is not None
_PLACE = "sentence_transformers.sentence_transformer.evaluation" if _MOVED else "sentence_transformers.evaluation"
_Evaluator: Any = need(_PLACE, extra="bench", purpose="the SEAT evaluator").SentenceEvaluator

logger = logging.getLogger("evenli.encoders.interop")


class SeatEvaluator(_Evaluator):  # type: ignore[misc]  # known at run time only
    """SEAT as an evaluator of sentence-transformers, for training and after it.

    Called with a model it gives ``seat_metrics`` as a dictionary. Trainers keep the checkpoint of the largest
    ``primary_metric``, which here is the smallest mean absolute effect. ``names`` are the tests to run and to average;
    level, permutations and seed are those of ``SeatSettings``. ``name`` is put before the names of the metrics.
    ``write_csv`` adds a row to ``seat_evaluation_results.csv`` in the output folder of every call.
    """

    def __init__(
        self,
        names: Sequence[str] = AVERAGED,
        *,
        level: Level = "sentence",
        permutations: int = SeatSettings.permutations,
        seed: int = 0,
        batch_size: int = 32,
        name: str = "",
        write_csv: bool = True,
    ) -> None:
        super().__init__()
        self.settings = SeatSettings(level=level, seed=seed, permutations=permutations, resamples=0)
        self.tests = choose_tests(names, level)
        self.batch_size, self.name, self.write_csv = batch_size, name, write_csv
        self.csv_file = f"seat_evaluation{'_' if name else ''}{name}_results.csv"
        self.primary_metric = PRIMARY
        self.greater_is_better = True

    def __call__(
        self, model: Any, output_path: str | None = None, epoch: int = -1, steps: int = -1
    ) -> dict[str, float]:
        """The metrics of a model; the output folder gets a row of a CSV file."""
        texts = texts_of(self.tests)
        vectors = model.encode(texts, batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True)
        plain, note = seat_metrics(self.tests, texts, vectors, self.settings)
        if note:
            logger.warning("SEAT: %s", note)
        if output_path is not None and self.write_csv:
            row, file = {"epoch": epoch, "steps": steps, **plain}, Path(output_path) / self.csv_file
            with system_failure(f"cannot write {file}: "):
                file.parent.mkdir(parents=True, exist_ok=True)
                new = not file.is_file()
                with file.open("a", newline="", encoding="utf-8") as stream:
                    stream.write((csv_line(row) if new else "") + csv_line(row.values()))
        metrics: dict[str, float] = self.prefix_name_to_metrics(plain, self.name)
        self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    @property
    def description(self) -> str:
        """What is evaluated, for model cards."""
        return "Sentence Encoder Association Test"

    def get_config_dict(self) -> dict[str, Any]:
        """Settings, for model cards."""
        return {"tests": [test.name for test in self.tests], "level": self.settings.level, "evenli": __version__}
