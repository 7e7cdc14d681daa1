"""``hf:ID`` or ``hf:FOLDER``, ``st:NAME`` or ``st:FOLDER``: transformers and sentence-transformers of Hugging Face.

Safetensors only, and no code but that of the two libraries.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.models import loading
from evenli.audit.models.growth import growth
from evenli.core.errors import InputError, ModelError, named_reason, translated
from evenli.core.extras import need
from evenli.core.io import hash_files, hash_text, read_text
from evenli.core.parse import check_regular, parse_json
from evenli.core.temporary import private_copy
from evenli.encoders.base import CallableEncoder, Embeddings, EncoderRequest
from evenli.encoders.configured import MODULES, Configured, read_modules

_LIBRARY = "sentence_transformers."
_PICKLES = {".bin", ".ckpt", ".pickle", ".pkl", ".pt", ".pth"}


class TransformerEncoder:
    """A Hugging Face encoder, a folder or ``id[@revision]``; mean, first-token or max pooling over its real tokens.

    Without a pooling the sentence-transformers files beside the weights decide, else it is the mean. Scaling to length
    1, prompt and longest text are always those of the files; a pooling other than theirs is said in ``note``.
    """

    def __init__(
        self,
        spec: str,
        pooling: str | None = None,
        *,
        device: str | None = None,
        batch_size: int = 64,
        online: bool = False,
    ) -> None:
        EncoderRequest(pooling=pooling)  # refuses an unknown one
        self.spec = f"hf:{spec}"
        self._torch = need("torch", extra="hf", purpose="a transformer encoder")
        self._device = loading.pick_device(self._torch, device)
        source = loading.find_checkpoint(spec, online=online)
        self._configured = self._configuration(source.folder)
        self.pooling, self.note = self._configured.choose(pooling, source.name)
        transformers = loading.quiet_transformers("a transformer encoder")
        with source.copied() as source, loading.one_line(source.name):
            self._tokenizer = loading.load_part(transformers.AutoTokenizer, source)
            loading.try_tokenizer(self._tokenizer, source.name, "a b")
            model, report = loading.load_network(transformers.AutoModel, source)
        # Checkpoints of other tasks bring a head along, and many have no pooling layer; neither is used here.
        loading.check_tensors({**report, "unexpected_keys": ()}, source.name, optional=("pooler.", "lm_head.", "cls."))
        self._model = model.eval().to(self._device)
        longest = self._configured.limit or 512
        self._limit = loading.longest_input(model.config, longest, tokenizer_limit=self._tokenizer.model_max_length)
        self._batch = batch_size
        self._fingerprint = source.fingerprint

    def _configuration(self, folder: Path) -> Configured:
        return Configured.read(folder)

    @cached_property
    def identity(self) -> str:
        """Hash of checkpoint and pooling."""
        return f"hf:{hash_text(f'{self._fingerprint}|{self.pooling}|{self._configured}')[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        # Texts of similar length share a batch, so that little is padded.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        texts = self._configured.prepare(texts)
        parts: list[Embeddings] = []
        for start in range(0, len(order), self._batch):
            batch = self._tokenizer(
                [texts[row] for row in order[start : start + self._batch]],
                padding=True,
                truncation=True,
                max_length=self._limit,
                return_tensors="pt",
                return_attention_mask=True,  # some tokenizers give none, and padding would count as text
            ).to(self._device)
            with self._torch.inference_mode():
                hidden = self._model(**batch).last_hidden_state
                pooled = self._pool(hidden, batch["attention_mask"].bool()).float()
                if self._configured.normalise:
                    pooled = self._torch.nn.functional.normalize(pooled, dim=1)
            parts.append(pooled.cpu().numpy())
        return np.concatenate(parts)[np.argsort(order)] if parts else np.empty((0, 0), dtype=np.float32)

    def _pool(self, hidden: Any, keep: Any) -> Any:
        if self.pooling == "cls":
            return hidden[:, 0]
        if self.pooling == "max":
            return hidden.masked_fill(~keep[..., None], -self._torch.inf).amax(dim=1)
        shares = keep[..., None].to(hidden.dtype)
        return (hidden * shares).sum(dim=1) / shares.sum(dim=1)


def load(target: str, request: EncoderRequest) -> TransformerEncoder:
    """The encoder of a checkpoint."""
    return TransformerEncoder(target, request.pooling, device=request.device, online=request.online)


def load_sentence_transformer(target: str, request: EncoderRequest) -> CallableEncoder:
    """Load a sentence-transformers model from a folder, or by ``name[@revision]`` from the hub or its local cache.

    A name without owner is looked for under ``sentence-transformers`` first. What is fetched is read as a folder.
    """
    library = need("sentence_transformers", extra="bench", purpose="sentence-transformers encoders")
    torch = need("torch", extra="hf", purpose="a transformer encoder")
    loading.quiet_transformers("a transformer encoder")
    logging.getLogger("sentence_transformers").setLevel(logging.ERROR)
    place = loading.pick_device(torch, request.device)
    local = Path(target).is_dir()
    name, folder = (target, Path(target)) if local else _fetch(target, request.online)
    _check_folder(folder)
    if request.pooling is not None:
        configured = Configured.read(folder)
        # A plain checkpoint says nothing, and the library takes the mean.
        request.keep_pooling(f"st:{target}", configured.pooling or ("" if configured.beyond else "mean"))
    files = loading.checkpoint_files(folder, nested=True)
    with private_copy(files, folder) as copy, loading.one_line(name):
        sha256 = hash_files(copy / file.relative_to(folder) for file in files)
        model = library.SentenceTransformer(
            str(copy),
            device=place,
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True},
        ).float()  # as hf: does; half precision is slow on a CPU
        # The library counts positions of RoBERTa-like models that no token can have.
        config = getattr(getattr(model[0], "auto_model", None), "config", None)
        if config is not None and isinstance(model.max_seq_length, int):
            model.max_seq_length = loading.longest_input(config, model.max_seq_length)
    growth(getattr(model, "tokenizer", None))
    spec = "st" if local else f"st:{name}@{folder.name}"
    return CallableEncoder(lambda texts: model.encode(texts, show_progress_bar=False), spec, sha256, reusable=True)


def _check_folder(folder: Path) -> None:
    """Refuse a folder that is no model, keeps weights in a pickle or names code that is not the library's.

    The library itself trusted local folders in versions before 6.
    """
    if not any((folder / name).is_file() for name in ("modules.json", "config.json")):
        raise ModelError(f"{folder} is no sentence-transformers model: neither modules.json nor config.json in it")
    for file in sorted(folder.rglob("*")):
        if not file.is_dir():
            check_regular(file)  # the library opens what it finds, and would wait for a pipe
        # Torch's loaders ignore a pickle beside safetensors of the same weights, or of another backend.
        ignored = file.with_name("model.safetensors").is_file() or file.stem.startswith("openvino")
        if file.suffix in _PICKLES and not ignored:
            raise ModelError(
                f"{file} is a pickle, which can run code when loaded; convert the model to safetensors "
                "(save_pretrained of sentence-transformers writes them)"
            )
        if file.name == "adapter_config.json":
            raise ModelError(f"{folder} is an adapter of another model; merge the two and save them as one")
        if file.name.endswith(("config.json", "modules.json")) and file.is_file():
            _check_fields(file)


def _check_fields(file: Path) -> None:
    # Only modules.json lists modules; other lists, such as that of the training data, are nobody's business here.
    kinds: list[Any] = [kind for kind, _ in read_modules(file)] if file.name == MODULES else []
    with translated(f"{file} is broken (", ")", into=ModelError, kinds=(InputError,), reason=named_reason):
        content = parse_json(read_text(file), str(file))
    fields = content if isinstance(content, dict) else {}
    nested = fields.get("types")
    kinds += nested.values() if isinstance(nested, dict) else ()
    layers = [fields.get(key) for key in ("tokenizer_class", "activation_function")]
    foreign = [name for name in kinds if not str(name).startswith(_LIBRARY)]
    foreign += [name for name in layers if "." in str(name) and not str(name).startswith((_LIBRARY, "torch.nn."))]
    if foreign:
        raise ModelError(
            f"{file} asks to run code of its own ({foreign[0]}); evenli runs no such code. "
            "Load it yourself and pass it as py:module:function"
        )


def _fetch(target: str, online: bool) -> tuple[str, Path]:
    """The name with its owner, and the folder of its files, which is called after the commit."""
    name, _, revision = target.partition("@")
    if "/" not in name:
        with contextlib.suppress(ModelError):  # perhaps a plain model, without owner
            owned = f"sentence-transformers/{name}"
            return owned, loading.snapshot(owned, revision, nested=True, online=online)
    return name, loading.snapshot(name, revision, nested=True, online=online)
