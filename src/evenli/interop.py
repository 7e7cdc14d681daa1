"""SEAT inside other evaluation libraries, and evenli's encoders inside mteb.

``SeatEvaluator`` is an evaluator of sentence-transformers, ``SeatTask`` a task of mteb. Both libraries take the larger
score for the better one, hence the score to compare by is the mean absolute effect with a minus: 0 is best, about -2
worst. It is no measure of quality. An encoder that tells nothing apart has small effects, too: use it beside others.

The classes derive from those of the libraries, which are loaded when a name is first used.
"""

from __future__ import annotations

import csv
import hashlib
import logging
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli._extras import need
from evenli._version import __version__
from evenli.encoders.base import Encoder, encode_checked
from evenli.errors import InputError, ModelError, RunError
from evenli.evaluate.seat import AssociationTest, SeatSettings, seat_from_vectors
from evenli.evaluate.seat.results import AVERAGED
from evenli.evaluate.seat.tests import Level, choose_tests, texts_of
from evenli.io import hash_text

PRIMARY = "negative_mean_absolute_effect"
_PROBE = ("She is a nurse.", "He is a doctor.", "This is a rose.", "Two people walk in the rain.")
"""Texts by which an encoder is recognised."""
_SETTINGS = SeatSettings(resamples=0)
_SEAT_PAPER = "https://aclanthology.org/N19-1063/"
_CITATION = """@inproceedings{may-etal-2019-measuring,
  author = {May, Chandler and Wang, Alex and Bordia, Shikha and Bowman, Samuel R. and Rudinger, Rachel},
  title = {On Measuring Social Biases in Sentence Encoders},
  booktitle = {Proceedings of NAACL-HLT 2019},
  year = {2019},
}"""

logger = logging.getLogger(__name__)


def seat_metrics(
    tests: Sequence[AssociationTest], texts: Sequence[str], vectors: ArrayLike, settings: SeatSettings = _SETTINGS
) -> tuple[dict[str, float], str]:
    """Effects and p-values of some tests and the means over them, as a flat dictionary; and what is undefined, why.

    The means are over the tests given: ``mean_effect`` with signs, ``mean_absolute_effect`` without, and PRIMARY, the
    latter with a minus. An undefined value is NaN: a model that diverges in training should not stop it.

    Args:
        tests: Association tests.
        texts: All their texts, as ``texts_of`` gives them.
        vectors: One row for each text.
        settings: Seed and permutations; intervals are not among the metrics.
    """
    rows = np.asarray(vectors)
    if rows.ndim != 2 or len(rows) != len(texts):
        raise ModelError(f"the model gave an array of shape {rows.shape} for {len(texts)} texts; expected [n, d]")
    result = seat_from_vectors(tests, dict(zip(texts, rows, strict=True)), settings)
    mean = result.average()
    metrics = {f"{one.name}_effect": one.effect for one in result.tests}
    metrics |= {f"{one.name}_p": one.p for one in result.tests}
    metrics |= {"mean_effect": mean.signed, "mean_absolute_effect": mean.absolute, PRIMARY: -mean.absolute}
    return metrics, "; ".join(f"{one.name}: {one.note}" for one in result.tests if one.note)


def as_mteb_model(encoder: Encoder, name: str | None = None) -> Any:
    """An encoder as a model for ``mteb.evaluate``; ``encode`` also takes a plain list of texts.

    mteb keeps results under name and revision. The revision is taken from the encoder's identity and from its outputs
    on a few texts, so that an encoder and its mitigated version do not share results.

    Args:
        encoder: From ``load_encoder``, or mitigated.
        name: What mteb calls it, ``organisation/model``; default: ``evenli/`` and its class.
    """
    name = f"evenli/{type(encoder).__name__}" if name is None else name
    if name.count("/") != 1 or not all(name.split("/")):
        raise InputError(f"mteb takes no model name '{name}'; give organisation/model")
    return _mteb_model()(encoder, name)


def __getattr__(name: str) -> Any:
    if name == "SeatEvaluator":
        return _seat_evaluator()
    if name == "SeatTask":
        return _seat_task()
    raise AttributeError(f"module 'evenli.interop' has no attribute '{name}'")


@cache
def _seat_evaluator() -> Any:
    need("sentence_transformers", extra="bench", purpose="the SEAT evaluator")
    # The old place warns where the new one exists.
    moved = find_spec("sentence_transformers.sentence_transformer") is not None
    place = "sentence_transformers.sentence_transformer.evaluation" if moved else "sentence_transformers.evaluation"
    base: Any = need(place, extra="bench", purpose="the SEAT evaluator").SentenceEvaluator

    class SeatEvaluator(base):  # type: ignore[misc]  # known at run time only
        """SEAT as an evaluator of sentence-transformers, for training and after it.

        Called with a model it gives ``seat_metrics`` as a dictionary. Trainers keep the checkpoint of the largest
        ``primary_metric``, which here is the smallest mean absolute effect.

        Args:
            names: Tests to run and to average; default: the gender tests C6 to C8b.
            level: ``sentence`` (SEAT) or ``word`` (WEAT).
            permutations: Most partitions to count per test.
            seed: Of the partitions.
            batch_size: Texts encoded at a time.
            name: Put before the names of the metrics.
            write_csv: Add a row to ``seat_evaluation_results.csv`` in the output folder of every call.
        """

        def __init__(
            self,
            names: Sequence[str] = AVERAGED,
            *,
            level: Level = "sentence",
            permutations: int = _SETTINGS.permutations,
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
            texts = texts_of(self.tests)
            vectors = model.encode(texts, batch_size=self.batch_size, show_progress_bar=False, convert_to_numpy=True)
            plain, note = seat_metrics(self.tests, texts, vectors, self.settings)
            if note:
                logger.warning("SEAT: %s", note)
            if output_path is not None and self.write_csv:
                _add_row(Path(output_path) / self.csv_file, {"epoch": epoch, "steps": steps, **plain})
            metrics: dict[str, float] = self.prefix_name_to_metrics(plain, self.name)
            self.store_metrics_in_model_card_data(model, metrics, epoch, steps)
            return metrics

        @property
        def description(self) -> str:
            return "Sentence Encoder Association Test"

        def get_config_dict(self) -> dict[str, Any]:
            return {"tests": [test.name for test in self.tests], "level": self.settings.level, "evenli": __version__}

    return _picklable(SeatEvaluator)


@cache
def _seat_task() -> Any:
    mteb: Any = need("mteb", extra="bench", purpose="the SEAT task")
    datasets: Any = need("datasets", extra="bench", purpose="the SEAT task")
    loading: Any = need("torch.utils.data", extra="bench", purpose="the SEAT task")
    tests = choose_tests(AVERAGED)
    texts = texts_of(tests)

    class SeatTask(mteb.AbsTask):  # type: ignore[misc]  # known at run time only
        """SEAT as a task of mteb: the gender tests C6 to C8b on sentences that evenli ships, so nothing is fetched.

        The scores are those of ``seat_metrics``; the main score is PRIMARY.
        """

        abstask_prompt = "Retrieve semantically similar text."
        metadata = mteb.TaskMetadata(
            name="EvenliSEAT",
            description=(
                "Association of male and female names and terms with career and family, mathematics, science and arts "
                "in short sentences; the main score is minus the mean absolute effect size, 0 is best."
            ),
            # Never fetched: the sentences come with evenli, and the revision says which they are.
            dataset={"path": "evenli/seat", "revision": hash_text("\n".join(texts))[:40]},
            type="STS",
            category="t2t",
            modalities=["text"],
            reference=_SEAT_PAPER,
            eval_splits=["test"],
            eval_langs=["eng-Latn"],
            main_score=PRIMARY,
            date=("2017-01-01", "2019-12-31"),
            domains=["Constructed", "Written"],
            task_subtypes=[],
            license="apache-2.0",
            annotations_creators="derived",
            dialect=[],
            sample_creation="created",
            bibtex_citation=_CITATION,
        )

        def load_data(self, *_: Any, **__: Any) -> None:
            self.dataset = {"test": datasets.Dataset.from_dict({"text": texts})}
            self.data_loaded = True

        def _evaluate_subset(
            self, model: Any, data_split: Any, *, hf_split: str, hf_subset: str, encode_kwargs: Any, **_: Any
        ) -> dict[str, Any]:
            vectors = model.encode(
                loading.DataLoader(data_split, batch_size=encode_kwargs.get("batch_size", 32)),
                task_metadata=self.metadata,
                hf_split=hf_split,
                hf_subset=hf_subset,
                **encode_kwargs,
            )
            settings = SeatSettings(seed=self.seed, resamples=0)
            metrics, note = seat_metrics(tests, list(data_split["text"]), _as_array(vectors), settings)
            return {**metrics, "note": note} if note else dict(metrics)

        def _calculate_descriptive_statistics_from_split(self, split: str, **_: Any) -> dict[str, int]:
            rows = self.dataset[split]["text"]
            return {"num_samples": len(rows), "number_of_characters": sum(map(len, rows))}

    return _picklable(SeatTask)


@cache
def _mteb_model() -> Any:
    need("mteb", extra="bench", purpose="a model for mteb")
    base: Any = need("mteb.models.abs_encoder", extra="bench", purpose="a model for mteb").AbsEncoder
    meta: Any = need("mteb.models.model_meta", extra="bench", purpose="a model for mteb")

    class MtebModel(base):  # type: ignore[misc]  # known at run time only
        """An encoder of evenli behind the interface of mteb; made by ``as_mteb_model``."""

        def __init__(self, encoder: Encoder, name: str) -> None:
            self.encoder = encoder
            outputs = encode_checked(encoder, _PROBE)
            seen = f"{getattr(encoder, 'identity', '')}|{hashlib.sha256(outputs.tobytes()).hexdigest()}"
            self.mteb_model_meta = meta.ModelMeta.create_empty(
                {
                    "name": name,
                    "revision": hash_text(seen)[:40],
                    "embed_dim": outputs.shape[1],
                    "similarity_fn_name": meta.ScoringFunction.COSINE,
                }
            )

        def encode(self, inputs: Iterable[Any], **_: Any) -> NDArray[np.float32]:
            return encode_checked(self.encoder, _texts(inputs))

    return MtebModel


def _texts(inputs: Iterable[Any]) -> list[str]:
    """The texts of mteb's batches, or of a plain list."""
    if isinstance(inputs, str):
        raise InputError(f"'{inputs[:40]}' is one text; give a list of texts")
    texts: list[str] = []
    for part in inputs:
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and "text" in part:
            texts.extend(part["text"])
        else:
            raise InputError("the encoder takes texts only; give a list of texts or batches with 'text'")
    return texts


def _as_array(vectors: Any) -> NDArray[np.float32]:
    """An array or a tensor, which may be on a device or in half precision, as an array."""
    if hasattr(vectors, "detach"):
        vectors = vectors.detach().float().cpu().numpy()
    return np.asarray(vectors, dtype=np.float32)


def _add_row(file: Path, row: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        new = not file.is_file()
        with file.open("a", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, list(row))
            if new:
                writer.writeheader()
            writer.writerow(row)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror or error}") from error


def _picklable(defined: Any) -> Any:
    """Let a class that a function defines be pickled: it is looked up as an attribute of this module."""
    defined.__qualname__ = defined.__name__
    return defined
