"""Hugging Face sequence classifiers: safetensors, no remote code, labels by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models import loading
from evenli.audit.models.base import ModelInfo, ModelRequest, Prepared, Tokens, tokenise
from evenli.core.errors import LabelError
from evenli.core.extras import need

FIRST_TOKEN_TYPES = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}
"""Types whose classifier reads position 0 and whose layers share BERT's names."""

_CLOSE = 1e-4
_UNKNOWN_LAYOUT = (AttributeError, RuntimeError, TypeError, ValueError, IndexError)
_USUAL_ROWS = 2048  # tokens in a full batch on the CPU; oneDNN chooses the layout for it


class HFModel:
    """The backend ``hf:ID[@REVISION]`` or ``hf:DIRECTORY``: a sequence classifier with three labels."""

    def __init__(self, target: str, request: ModelRequest) -> None:
        options = request.options
        self._torch = torch = need("torch", extra="hf", purpose="loading Hugging Face models")
        transformers = loading.quiet_transformers("loading Hugging Face models")
        source = loading.find_checkpoint(target, online=options.online, allow_pickle=options.allow_pickle)
        with source.copied() as source:
            with loading.one_line(source.name):
                config = loading.load_part(transformers.AutoConfig, source)
                self._tokenizer = tokenizer = loading.load_part(transformers.AutoTokenizer, source, use_fast=True)
                loading.try_tokenizer(tokenizer, source.name, "a b", "b")
                self._types = "token_type_ids" in tokenizer.model_input_names
                names = tuple(config.id2label[index] for index in sorted(config.id2label))

            # Everything that can be refused is checked before the weights are read, which takes longest.
            if options.labels and len(names) != len(options.labels):
                raise LabelError(
                    f"{source.name} has {len(names)} output(s), {len(options.labels)} labels are given (--labels)"
                )
            labels, self._columns = options.label_order(lambda: names, source.name)
            self._device, dtype = loading.pick_arithmetic(torch, options)
            kind = self._device.partition(":")[0]

            safe = None if options.allow_pickle else True
            with loading.one_line(source.name):
                model, report = loading.load_network(transformers.AutoModelForSequenceClassification, source, safe=safe)
        loading.check_tensors(report, source.name)
        model.eval()
        shorten_last_layer(model, torch)
        if kind == "cpu" and dtype == "float32":
            pack_linear_layers(model, torch)
        self._model = model.to(self._device, getattr(torch, dtype))

        # Padding to multiples of 8 pays on GPUs only; on the CPU a batch holds pairs of one length.
        self.bucket, budget = (1, 2_048) if kind == "cpu" else (8, 65_536)
        self.token_budget = options.token_budget or budget
        limit = loading.longest_input(config, options.max_length, tokenizer_limit=tokenizer.model_max_length)
        self.info = ModelInfo(
            spec=request.spec,
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
        tokens, truncated = tokenise(self._tokenizer, premises, hypotheses, self.info.max_length or 0)
        return Prepared(tokens, tokens.lengths, truncated)

    def logits(self, items: Tokens) -> NDArray[np.float32]:
        """One forward pass; no attention mask where nothing is padded."""
        torch = self._torch
        ids, types, mask = items.batch()
        arguments = {"input_ids": ids} | ({"token_type_ids": types} if self._types else {})
        if mask is not None:
            arguments["attention_mask"] = mask
        with loading.inference(torch, self._device, self.info.name):
            tensors = {key: torch.from_numpy(value).to(self._device) for key, value in arguments.items()}
            # RoBERTa-like models derive positions from the pad id, not from the mask; only these ask for one.
            if mask is None and getattr(self._model.config, "is_encoder_decoder", False):
                tensors["attention_mask"] = torch.ones_like(tensors["input_ids"])
            output = self._model(**tensors).logits
            return np.asarray(output.float().cpu().numpy()[:, self._columns])


# Two changes to a loaded classifier make it faster and leave its answers alone: each is proved on a probe when the
# model is loaded, and undone where the answers change or the layout is not known.


def shorten_last_layer(model: Any, torch: Any) -> bool:
    """Compute the last layer of a BERT-like classifier for the first token alone.

    The classifier reads nothing else. Of the other tokens only keys and values are needed, and those not one by one:
    the key matrix is applied to the one query, the value matrix to the one mixture per head. What remains of the layer
    is a few per cent; a six-layer model saves nearly a sixth.
    """
    if model.config.model_type not in FIRST_TOKEN_TYPES or getattr(model.config, "is_decoder", False):
        return False
    layers = model.base_model.encoder.layer
    return _replace(model, torch, [(layers, str(len(layers) - 1))], _first_token_layer)


def pack_linear_layers(model: Any, torch: Any) -> bool:
    """Lay out the weights of all linear layers once for oneDNN, whose products are faster than the default ones.

    For models that stay on the CPU in fp32 only: the packed weights cannot be moved or saved.
    """
    if not torch.backends.mkldnn.is_available():
        return False
    children = ((parent, name, child) for parent in model.modules() for name, child in parent.named_children())
    places = [(parent, name) for parent, name, child in children if type(child) is torch.nn.Linear]
    return _replace(model, torch, places, _packed_linear)


def _replace(model: Any, torch: Any, places: list[tuple[Any, str]], build: Callable[[Any, Any], Any]) -> bool:
    """Replace modules by faster ones; undone, and False, if that fails or changes the answers on a probe."""
    ids = torch.arange(24).view(2, 12) % 20 + 5
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    probes: list[dict[str, Any]] = [{"input_ids": ids}, {"input_ids": ids, "attention_mask": mask}]
    originals = [getattr(parent, name) for parent, name in places]
    with suppress(*_UNKNOWN_LAYOUT), torch.inference_mode():  # where one is met, the model runs as it is
        before = [model(**probe).logits for probe in probes]
        for (parent, name), original in zip(places, originals, strict=True):
            setattr(parent, name, build(original, torch))
        after = [model(**probe).logits for probe in probes]
        if all(torch.allclose(a, b, atol=_CLOSE, rtol=_CLOSE) for a, b in zip(before, after, strict=True)):
            return True
    for (parent, name), original in zip(places, originals, strict=True):
        setattr(parent, name, original)
    return False


def _first_token_layer(layer: Any, torch: Any) -> Any:
    class FirstTokenLayer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.whole = layer
            attention = layer.attention.self
            self.heads, self.width = attention.num_attention_heads, attention.attention_head_size
            self.key, self.value = attention.key.weight, attention.value.weight
            self.bias = attention.value.bias

        def forward(self, hidden: Any, attention_mask: Any = None, *_: Any, **__: Any) -> Any:
            first = hidden[:, :1]
            query = self.whole.attention.self.query(first).view(-1, self.heads, self.width)
            by_head = (self.heads, self.width, -1)
            # A key's bias adds the same to every score of a head, which the softmax takes out again.
            query = torch.einsum("bhd,hdi->bhi", query, self.key.view(by_head))
            scores = torch.bmm(query, hidden.transpose(1, 2)) * self.width**-0.5
            if attention_mask is not None:
                mask = attention_mask[:, :, 0]
                scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
            shares = torch.softmax(scores, dim=-1)
            mixed = torch.einsum("bhi,hdi->bhd", torch.bmm(shares, hidden), self.value.view(by_head))
            mixed = mixed.reshape(first.shape) + self.bias
            mixed = self.whole.attention.output(mixed, first)
            return self.whole.output(self.whole.intermediate(mixed), mixed)

    return FirstTokenLayer()


def _packed_linear(layer: Any, torch: Any) -> Any:
    class PackedLinear(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _USUAL_ROWS)
            self.bias = None if layer.bias is None else layer.bias.detach()

        def forward(self, rows: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "none")

    return PackedLinear()
