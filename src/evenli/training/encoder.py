"""From token ids to logits: BERT-like encoders with a layer of our own, other models as they are.

The layer is BERT's, written as one function: query, key and value in one product, attention in one kernel, and a body
without branches, which the compiler turns into a handful of kernels. Weights and results are those of ``transformers``.
"""

from __future__ import annotations

import inspect
import math
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.training.compiler import compile_static
from evenli.training.flat import FlatParameters

FUSED = {"bert", "camembert", "electra", "roberta", "xlm-roberta"}
"""Model types that share BERT's layer and its parameter names."""

_ORDER = ("query", "key", "value")


class LayerWeights(NamedTuple):
    """The twelve tensors of an encoder layer; weight before bias."""

    qkv: Any
    qkv_bias: Any
    mix: Any
    mix_bias: Any
    norm1: Any
    norm1_bias: Any
    up: Any
    up_bias: Any
    down: Any
    down_bias: Any
    norm2: Any
    norm2_bias: Any


def encoder_layer(
    x: Any, bias: Any, w: LayerWeights, heads: int, eps: float, dropout: float, attention_dropout: float
) -> Any:
    """Self-attention and feed-forward, each with dropout, residual and norm after it (Devlin et al. 2019).

    Args:
        x: Hidden states [batch, length, width].
        bias: Added to the attention scores, 0 or -inf by key [batch, 1, 1, length].
        w: Weights.
        heads: Attention heads.
        eps: Of the norms.
        dropout: Of the two outputs.
        attention_dropout: Of the attention weights.
    """
    batch, length, width = x.shape
    qkv = F.linear(x, w.qkv, w.qkv_bias).view(batch, length, 3, heads, width // heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=attention_dropout)
    mixed = F.linear(mixed.transpose(1, 2).reshape(batch, length, width), w.mix, w.mix_bias)
    x = F.layer_norm(x + F.dropout(mixed, dropout), (width,), w.norm1, w.norm1_bias, eps)
    hidden = F.linear(F.gelu(F.linear(x, w.up, w.up_bias)), w.down, w.down_bias)
    return F.layer_norm(x + F.dropout(hidden, dropout), (width,), w.norm2, w.norm2_bias, eps)


def can_fuse(model: Any) -> bool:
    """Whether ``encoder_layer`` computes what the model's own layers compute."""
    config = model.config
    return (
        config.model_type in FUSED
        and config.hidden_act == "gelu"
        and not config.is_decoder
        and getattr(config, "position_embedding_type", "absolute") in {"absolute", None}
    )


def joined_names(model: Any) -> list[list[str]]:
    """Parameters to lay side by side: query, key and value of each layer."""
    at = f"{model.base_model_prefix}.encoder.layer"
    return [
        [f"{at}.{number}.attention.self.{name}.{kind}" for name in _ORDER]
        for number in range(model.config.num_hidden_layers)
        for kind in ("weight", "bias")
    ]


class FusedForward:
    """A BERT-like classifier: its own embeddings and head around ``encoder_layer``.

    Args:
        model: The ``transformers`` model.
        flat: Its parameters, laid out with ``joined_names``.
        compiled: Compile the layer for training, once per padded length.
    """

    def __init__(self, model: Any, flat: FlatParameters, *, compiled: bool) -> None:
        self._model, self._base = model, model.base_model
        self._layer = compile_static(encoder_layer) if compiled else encoder_layer
        names = iter(joined_names(model))
        self._layers = []
        for layer in self._base.encoder.layer:
            mix, out = layer.attention.output, layer.output
            parts = (mix.dense, mix.LayerNorm, layer.intermediate.dense, out.dense, out.LayerNorm)
            qkv = (flat.joints[tuple(next(names))] for _ in ("weight", "bias"))
            self._layers.append(LayerWeights(*qkv, *(t for part in parts for t in (part.weight, part.bias))))

    def __call__(self, ids: Any, types: Any, keep: Any) -> Any:
        """Logits; ``keep`` is true where a token is not padding. Dropout follows the model's training mode."""
        model, base, config = self._model, self._base, self._model.config
        segments = types if config.type_vocab_size > 1 else torch.zeros_like(types)
        x = base.embeddings(input_ids=ids, token_type_ids=segments)
        if hasattr(base, "embeddings_project"):
            x = base.embeddings_project(x)
        bias = torch.zeros_like(keep, dtype=x.dtype).masked_fill_(~keep, -math.inf)[:, None, None, :]
        first = base.encoder.layer[0]
        rates = (first.output.dropout.p, first.attention.self.dropout.p) if model.training else (0.0, 0.0)
        layer = self._layer if model.training else encoder_layer
        for weights in self._layers:
            x = layer(x, bias, weights, config.num_attention_heads, config.layer_norm_eps, *rates)
        if getattr(base, "pooler", None) is not None:
            return model.classifier(model.dropout(base.pooler(x)))
        return model.classifier(x)


class PlainForward:
    """Any other sequence classifier, called as ``transformers`` calls it."""

    def __init__(self, model: Any) -> None:
        self._model = model
        takes = inspect.signature(model.forward).parameters
        self._types = "token_type_ids" in takes and (getattr(model.config, "type_vocab_size", 0) or 0) > 1

    def __call__(self, ids: Any, types: Any, keep: Any) -> Any:
        """Logits; ``keep`` is true where a token is not padding."""
        segments = {"token_type_ids": types} if self._types else {}
        return self._model(input_ids=ids, attention_mask=keep.long(), **segments).logits


def unused_parameters(model: Any, ids: Any, types: Any, keep: Any) -> list[str]:
    """Names of parameters on which the logits do not depend; an optimiser must leave them alone."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = PlainForward(model)(ids, types, keep).sum()
    gradients = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
    return [name for (name, _), gradient in zip(named, gradients, strict=True) if gradient is None]


def position_limit(config: Any) -> int | None:
    """Longest input a model has position embeddings for, if it has a limit."""
    limit = getattr(config, "max_position_embeddings", None)
    if limit is None or limit < 8:
        return None
    # RoBERTa numbers positions from the padding id on.
    offset = config.pad_token_id + 1 if config.model_type in {"camembert", "roberta", "xlm-roberta"} else 0
    return int(limit - offset)
