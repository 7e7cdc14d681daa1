"""SEAT as a task of mteb, and evenli's encoders as its models."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.core.extras import need
from evenli.core.io import hash_text
from evenli.encoders.base import Encoder, detached, encode_checked
from evenli.encoders.interop import PRIMARY, seat_metrics
from evenli.encoders.seat import AVERAGED, SeatSettings, choose_tests, texts_of

_mteb: Any = need("mteb", extra="bench", purpose="SEAT in mteb")
_datasets: Any = need("datasets", extra="bench", purpose="SEAT in mteb")
_loading: Any = need("torch.utils.data", extra="bench", purpose="SEAT in mteb")
_encoders: Any = need("mteb.models.abs_encoder", extra="bench", purpose="SEAT in mteb")
_meta: Any = need("mteb.models.model_meta", extra="bench", purpose="SEAT in mteb")

_TESTS = choose_tests(AVERAGED)
_TEXTS = texts_of(_TESTS)
_PROBE = ("She is a nurse.", "He is a doctor.", "This is a rose.", "Two people walk in the rain.")
"""Texts by which an encoder is recognised."""
_CITATION = """@inproceedings{may-etal-2019-measuring,
  author = {May, Chandler and Wang, Alex and Bordia, Shikha and Bowman, Samuel R. and Rudinger, Rachel},
  title = {On Measuring Social Biases in Sentence Encoders},
  booktitle = {Proceedings of NAACL-HLT 2019},
  year = {2019},
}"""


class SeatTask(_mteb.AbsTask):  # type: ignore[misc]  # known at run time only
    """SEAT as a task of mteb: the gender tests C6 to C8b on sentences that evenli ships; scores of ``seat_metrics``."""

    abstask_prompt = "Retrieve semantically similar text."
    metadata = _mteb.TaskMetadata(
        name="EvenliSEAT",
        description=(
            "Association of male and female names and terms with career and family, mathematics, science and arts "
            "in short sentences; the main score is minus the mean absolute effect size, 0 is best."
        ),
        # Never fetched: the sentences come with evenli, and the revision says which they are.
        dataset={"path": "evenli/seat", "revision": hash_text("\n".join(_TEXTS))[:40]},
        type="STS",
        category="t2t",
        modalities=["text"],
        reference="https://aclanthology.org/N19-1063/",
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
        """Put the sentences where mteb looks for them."""
        self.dataset = {"test": _datasets.Dataset.from_dict({"text": _TEXTS})}
        self.data_loaded = True

    def _evaluate_subset(
        self, model: Any, data_split: Any, *, hf_split: str, hf_subset: str, encode_kwargs: Any, **_: Any
    ) -> dict[str, Any]:
        batches = _loading.DataLoader(data_split, batch_size=encode_kwargs.get("batch_size", 32))
        where = {"task_metadata": self.metadata, "hf_split": hf_split, "hf_subset": hf_subset}
        rows = np.asarray(detached(model.encode(batches, **where, **encode_kwargs)), dtype=np.float32)
        settings = SeatSettings(seed=self.seed, resamples=0)
        metrics, note = seat_metrics(_TESTS, list(data_split["text"]), rows, settings)
        return {**metrics, "note": note} if note else dict(metrics)

    def _calculate_descriptive_statistics_from_split(self, split: str, **_: Any) -> dict[str, int]:
        rows = self.dataset[split]["text"]
        return {"num_samples": len(rows), "number_of_characters": sum(map(len, rows))}


class MtebModel(_encoders.AbsEncoder):  # type: ignore[misc]  # known at run time only
    """An encoder of evenli behind the interface of mteb; made by ``as_mteb_model``."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        self.encoder = encoder
        outputs = encode_checked(encoder, _PROBE)
        seen = f"{getattr(encoder, 'identity', '')}|{hashlib.sha256(outputs.tobytes()).hexdigest()}"
        about = {"name": name, "revision": hash_text(seen)[:40], "embed_dim": outputs.shape[1]}
        cosine = _meta.ScoringFunction.COSINE
        self.mteb_model_meta = _meta.ModelMeta.create_empty({**about, "similarity_fn_name": cosine})

    def encode(self, inputs: Iterable[Any], **_: Any) -> NDArray[np.float32]:
        """[n, d], of mteb's batches or of a list of texts."""
        if isinstance(inputs, str):
            raise InputError(f"'{inputs[:40]}' is one text; give a list of texts")
        texts: list[str] = []
        for part in inputs:
            if not isinstance(part, str) and not (isinstance(part, dict) and "text" in part):
                raise InputError("the encoder takes texts only; give a list of texts or batches with 'text'")
            texts += [part] if isinstance(part, str) else part["text"]
        return encode_checked(self.encoder, texts)
