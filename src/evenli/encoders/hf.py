"""``hf:ID`` or ``hf:FOLDER``: transformers of Hugging Face, safetensors only, no code from the hub."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenli._extras import need
from evenli.encoders.base import Embeddings, EncoderRequest, check_pooling
from evenli.io import checkpoint_files, hash_files, hash_text
from evenli.models.loading import check_folder, one_line, pick_device
from evenli.models.positions import longest_input


class TransformerEncoder:
    """A Hugging Face encoder with mean, first-token or max pooling over its real tokens.

    Args:
        spec: Checkpoint folder or ``id[@revision]``.
        pooling: One of POOLINGS.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        batch_size: Texts at a time, of similar length.
    """

    def __init__(self, spec: str, pooling: str = "mean", *, device: str | None = None, batch_size: int = 64) -> None:
        check_pooling(pooling)
        self.spec = f"hf:{spec}"
        self._torch = need("torch", extra="hf", purpose="a transformer encoder")
        transformers = quiet_transformers()
        local = Path(spec).is_dir()
        name, _, revision = (spec, "", "") if local else spec.partition("@")
        if local:
            check_folder(Path(name))
        source: dict[str, Any] = {"revision": revision or None, "trust_remote_code": False}
        with one_line(name, local=local, revision=revision):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
            model = transformers.AutoModel.from_pretrained(
                name, dtype=self._torch.float32, use_safetensors=True, **source
            )
        self._device = pick_device(self._torch, device)
        self._model = model.eval().to(self._device)
        self._limit = longest_input(model.config, 512, tokenizer_limit=self._tokenizer.model_max_length)
        self._pooling, self._batch = pooling, batch_size
        # A checkpoint on the hub is identified by its commit, a folder by its files.
        self._source = "" if local else f"{name}@{getattr(model.config, '_commit_hash', None) or revision}"
        self._folder = Path(name).resolve() if local else None

    @cached_property
    def identity(self) -> str:
        """Hash of checkpoint and pooling."""
        weights = self._source if self._folder is None else hash_files(checkpoint_files(self._folder, nested=True))
        return f"hf:{hash_text(f'{weights}|{self._pooling}')[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        # Texts of similar length share a batch, so that little is padded.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        embeddings: Embeddings | None = None
        for start in range(0, len(order), self._batch):
            rows = order[start : start + self._batch]
            batch = self._tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=self._limit, return_tensors="pt"
            ).to(self._device)
            with self._torch.inference_mode():
                hidden = self._model(**batch).last_hidden_state
                pooled = self._pool(hidden, batch["attention_mask"].bool()).float().cpu().numpy()
            if embeddings is None:
                embeddings = np.empty((len(texts), pooled.shape[1]), dtype=np.float32)
            embeddings[rows] = pooled
        return np.empty((0, 0), dtype=np.float32) if embeddings is None else embeddings

    def _pool(self, hidden: Any, keep: Any) -> Any:
        if self._pooling == "cls":
            return hidden[:, 0]
        if self._pooling == "max":
            return hidden.masked_fill(~keep[..., None], -self._torch.inf).amax(dim=1)
        shares = keep[..., None].to(hidden.dtype)
        return (hidden * shares).sum(dim=1) / shares.sum(dim=1)


def quiet_transformers() -> Any:
    """The transformers library, without its log and progress bars."""
    transformers = need("transformers", extra="hf", purpose="a transformer encoder")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return transformers


def load(target: str, request: EncoderRequest) -> TransformerEncoder:
    """The encoder of a checkpoint."""
    return TransformerEncoder(target, request.pooling, device=request.device)
