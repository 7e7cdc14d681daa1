"""Hugging Face sequence classifiers: safetensors, no remote code, labels by name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.errors import LabelError, ModelError
from evenli.models.base import ModelInfo, ModelOptions, ModelRequest, OutOfMemory, Prepared
from evenli.models.hub import check_tensors, find_checkpoint, load_part
from evenli.models.loading import OR_ALLOW, one_line, pick_device
from evenli.models.positions import longest_input
from evenli.models.speedups import pack_linear_layers, shorten_last_layer
from evenli.models.tokens import Tokens, tokenise

DTYPES = ("float32", "bfloat16", "float16")


def load(target: str, request: ModelRequest) -> HFModel:
    """The backend ``hf:ID[@REVISION]`` or ``hf:DIRECTORY``."""
    return HFModel(target, request.options, spec=request.spec)


class HFModel:
    """An ``AutoModelForSequenceClassification`` with three labels."""

    def __init__(self, target: str, options: ModelOptions, *, spec: str) -> None:
        self._torch = torch = need("torch", extra="hf", purpose="loading Hugging Face models")
        transformers = need("transformers", extra="hf", purpose="loading Hugging Face models")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        source = find_checkpoint(target, online=options.online, allow_pickle=options.allow_pickle, advice=OR_ALLOW)
        with one_line(source.name):
            config = load_part(transformers.AutoConfig, source)
            self._tokenizer = tokenizer = load_part(transformers.AutoTokenizer, source, use_fast=True)
        self._pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        self._types = "token_type_ids" in tokenizer.model_input_names

        # Everything that can be refused is checked before the weights are read, which takes longest.
        names = tuple(config.id2label[index] for index in sorted(config.id2label))
        if options.labels and len(names) != len(options.labels):
            raise LabelError(f"{source.name} has {len(names)} output(s), --labels names {len(options.labels)}")
        labels, self._columns = options.label_order(lambda: names, source.name)
        self._device = pick_device(torch, options.device)
        kind = self._device.partition(":")[0]
        dtype = options.dtype or ("bfloat16" if kind == "cuda" else "float32")
        if dtype not in DTYPES:
            raise ModelError(f"--dtype {dtype} is not for Hugging Face checkpoints; choose {', '.join(DTYPES)}")

        safe = None if options.allow_pickle else True
        classifier = transformers.AutoModelForSequenceClassification
        with one_line(source.name):
            model, loading = load_part(
                classifier, source, dtype=torch.float32, use_safetensors=safe, output_loading_info=True
            )
        check_tensors(loading, source.name)
        model.eval()
        shorten_last_layer(model, torch)
        if kind == "cpu" and dtype == "float32":
            pack_linear_layers(model, torch)
        self._model = model.to(self._device, getattr(torch, dtype))

        # Padding to multiples of 8 pays on GPUs only; on the CPU a batch holds pairs of one length.
        self.bucket, budget = (1, 2_048) if kind == "cpu" else (8, 65_536)
        self.token_budget = options.token_budget or budget
        limit = longest_input(config, options.max_length, tokenizer_limit=tokenizer.model_max_length)
        self.info = ModelInfo(
            spec=spec,
            backend="hf",
            name=source.name,
            revision=source.revision,
            fingerprint=source.fingerprint,
            labels=labels,
            device=self._device,
            dtype=dtype,
            max_length=limit,
        )

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Tokenise all pairs at once; too long ones are truncated and counted."""
        limit = self.info.max_length or 0
        tokenizer = self._tokenizer
        if tokenizer.is_fast:
            pairs = list(zip(premises, hypotheses, strict=True))
            side = tokenizer.truncation_side
            tokens, truncated = tokenise(tokenizer.backend_tokenizer, pairs, limit, pad_id=self._pad, side=side)
            return Prepared(tokens, tokens.lengths, truncated)
        texts, plain = (list(premises), list(hypotheses)), {"padding": False, "return_attention_mask": False}
        batch = tokenizer(*texts, **plain, verbose=False)
        truncated = sum(len(row) > limit for row in batch["input_ids"])
        if truncated:
            batch = tokenizer(*texts, **plain, truncation=True, max_length=limit)
        tokens = Tokens.from_lists(batch["input_ids"], batch.get("token_type_ids"), self._pad)
        return Prepared(tokens, tokens.lengths, truncated)

    def logits(self, items: Tokens) -> NDArray[np.float32]:
        """One forward pass; no attention mask where nothing is padded."""
        torch = self._torch
        ids, types, mask = items.batch()
        arguments = {"input_ids": ids} | ({"token_type_ids": types} if self._types else {})
        if mask is not None:
            arguments["attention_mask"] = mask
        try:
            with torch.inference_mode():
                tensors = {key: torch.from_numpy(value).to(self._device) for key, value in arguments.items()}
                # RoBERTa-like models derive positions from the pad id, not from the mask; only these ask for one.
                if mask is None and getattr(self._model.config, "is_encoder_decoder", False):
                    tensors["attention_mask"] = torch.ones_like(tensors["input_ids"])
                output = self._model(**tensors).logits
                return np.asarray(output.float().cpu().numpy()[:, self._columns])
        except (RuntimeError, MemoryError) as error:
            # The CPU allocator raises a plain RuntimeError.
            memory = isinstance(error, torch.OutOfMemoryError | MemoryError)
            if not memory and "out of memory" not in str(error) and "can't allocate memory" not in str(error):
                raise ModelError(f"{self.info.name} failed on a batch: {error}") from error
            self._release()
            raise OutOfMemory from error

    def _release(self) -> None:
        if self._device.partition(":")[0] == "cuda":
            self._torch.cuda.empty_cache()
