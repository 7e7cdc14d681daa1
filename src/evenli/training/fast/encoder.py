"""From token ids to logits: BERT-like models as three functions of our own, other models as they are.

Faster: every step of training. ``embed``, ``encoder_layer`` and ``classify`` are BERT's, without branches and with
query, key and value in one product: the compiler turns each into a handful of kernels.
Benchmark: ``benchmarks/train.py --profile`` lists the kernels of a step.
Plain path: ``PlainForward``; ``tests/training/test_training.py`` compares logits and gradients for each model type.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 - its name everywhere

from evenli.audit.models.loading import first_position
from evenli.training.fast.flat import FlatParameters, compile_static

FUSED = {"bert", "camembert", "electra", "mpnet", "roberta", "xlm-roberta"}
"""Model types with BERT's layer; MPNet adds a learnt bias by the distance between two tokens."""


def encoder_layer(
    x: Any, bias: Any, weights: tuple[Any, ...], heads: int, eps: float, dropout: float, attention_dropout: float
) -> Any:
    """Self-attention and feed-forward, each with dropout, residual and norm after it (Devlin et al. 2019).

    ``x`` is [batch, length, width]; ``bias`` is added to the attention scores: [batch, 1, 1, length], 0 or -inf by key,
    or one for every head and pair of tokens, where it is learnt.
    """
    w_qkv, b_qkv, w_mix, b_mix, w_norm1, b_norm1, w_up, b_up, w_down, b_down, w_norm2, b_norm2 = weights
    batch, length, width = x.shape
    # One product three times as wide keeps the device busier than three, and reads x once.
    qkv = F.linear(x, w_qkv, b_qkv).view(batch, length, 3, heads, width // heads)
    query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
    if bias.requires_grad:
        # Written out: the kernels for attention have no gradient of the bias, or add it up in no fixed order.
        scores = query @ key.transpose(-1, -2) * (width // heads) ** -0.5 + bias
        mixed = F.dropout(scores.softmax(dim=-1), attention_dropout) @ value
    else:
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=attention_dropout)
    # Norm after the residual, as in the paper; models with the norm before it are not in FUSED.
    mixed = F.linear(mixed.transpose(1, 2).reshape(batch, length, width), w_mix, b_mix)
    x = F.layer_norm(x + F.dropout(mixed, dropout), (width,), w_norm1, b_norm1, eps)
    hidden = F.linear(F.gelu(F.linear(x, w_up, b_up)), w_down, b_down)
    return F.layer_norm(x + F.dropout(hidden, dropout), (width,), w_norm2, b_norm2, eps)


def embed(words: Any, types: Any, weights: tuple[Any, ...], first: int, eps: float, dropout: float) -> Any:
    """Sum of word, segment and position embeddings, normalised.

    ``words`` are looked up already [batch, length, width]; ``first`` is the position of the first token. Models without
    segments have no table of them.
    """
    positions, norm, norm_bias, *tables = weights
    x = words + positions[first : first + words.shape[1]]
    for segments in tables:
        # Choosing between two segments is cheaper than looking them up.
        x = x + (torch.where(types[..., None] == 1, segments[1], segments[0]) if len(segments) == 2 else segments[0])
    return F.dropout(F.layer_norm(x, norm.shape, norm, norm_bias, eps), dropout)


def classify(
    x: Any, dense: Any, dense_bias: Any, out: Any, out_bias: Any, activation: str, before: float, after: float
) -> Any:
    """Logits from the hidden state of the first token; ``before`` and ``after`` are the dropouts around ``dense``."""
    x = F.linear(F.dropout(x, before), dense, dense_bias)
    x = torch.tanh(x) if activation == "tanh" else F.gelu(x)
    return F.linear(F.dropout(x, after), out, out_bias)


def can_fuse(model: Any) -> bool:
    """Whether our functions compute what the model's own modules compute."""
    config = model.config
    # Each line is something that the functions above do not compute; what is not listed is taken by PlainForward.
    return (
        config.model_type in FUSED
        and config.hidden_act == "gelu"
        and not getattr(config, "is_decoder", False)
        and getattr(config, "type_vocab_size", 0) <= 2
        and getattr(config, "position_embedding_type", "absolute") in {"absolute", None}
    )


def joined_names(model: Any) -> list[list[str]]:
    """Parameters to lay side by side: query, key and value of each layer."""
    at = f"{model.base_model_prefix}.encoder.layer"
    inside, names = ("attn", "qkv") if model.config.model_type == "mpnet" else ("self", ("query", "key", "value"))
    return [
        [f"{at}.{number}.attention.{inside}.{name}.{kind}" for name in names]
        for number in range(model.config.num_hidden_layers)
        for kind in ("weight", "bias")
    ]


class FusedForward:
    """A BERT-like classifier, computed by the functions above; ``flat`` is laid out with ``joined_names``."""

    def __init__(self, model: Any, flat: FlatParameters, *, compiled: bool) -> None:
        self._model, self._base = model, model.base_model
        self._plain = (embed, encoder_layer, classify)
        self._fast = tuple(compile_static(function, compiled) for function in self._plain)
        self._mpnet = model.config.model_type == "mpnet"
        names = iter(joined_names(model))
        self._layers = []
        self._distances: dict[int, Any] = {}
        for layer in self._base.encoder.layer:
            out = layer.output
            # The norm after the heads, and the product before it; MPNet has the two in other modules.
            after = layer.attention if self._mpnet else layer.attention.output
            mix = layer.attention.attn.o if self._mpnet else after.dense
            parts = (mix, after.LayerNorm, layer.intermediate.dense, out.dense, out.LayerNorm)
            qkv = (flat.joints[tuple(next(names))] for _ in ("weight", "bias"))
            self._layers.append((*qkv, *(t for part in parts for t in (part.weight, part.bias))))
        # BERT keeps the hidden layer of its head in the encoder and drops nothing before it.
        pooled = getattr(self._base, "pooler", None) is not None
        head = model.classifier
        dense, out = (self._base.pooler.dense, head) if pooled else (head.dense, head.out_proj)
        self._head = (dense.weight, dense.bias, out.weight, out.bias)
        self._activation = "gelu" if model.config.model_type == "electra" else "tanh"
        self._dropout = (None, model.dropout) if pooled else (head.dropout, head.dropout)

    def __call__(self, ids: Any, types: Any, keep: Any) -> Any:
        """Logits; ``keep`` is true where a token is not padding. Dropout follows the model's training mode."""
        base, config, training = self._base, self._model.config, self._model.training
        # Evaluation has many batch shapes, each of which would be compiled anew.
        embed, layer, classify = self._fast if training else self._plain

        def rate(dropout: Any) -> float:
            return float(dropout.p) if training and dropout is not None else 0.0

        tables = base.embeddings
        # Looked up outside the compiler: its gradient would be added up there in no fixed order.
        words = F.embedding(ids, tables.word_embeddings.weight)
        others = [tables.position_embeddings.weight, tables.LayerNorm.weight, tables.LayerNorm.bias]
        if hasattr(tables, "token_type_embeddings"):
            others.append(tables.token_type_embeddings.weight)
        x = embed(words, types, tuple(others), first_position(config), config.layer_norm_eps, rate(tables.dropout))
        # ELECTRA's small models have narrower embeddings than layers.
        if hasattr(base, "embeddings_project"):
            x = base.embeddings_project(x)
        bias = torch.zeros_like(keep, dtype=x.dtype).masked_fill_(~keep, -math.inf)[:, None, None, :]
        if hasattr(base.encoder, "relative_attention_bias"):
            bias = bias + self._distance_bias(ids.shape[1])
        # All layers of a model have the same dropout; the modules say it, because a user may have set it there.
        block = base.encoder.layer[0]
        inner = block.attention.attn if self._mpnet else block.attention.self
        rates = rate(block.output.dropout), rate(inner.dropout)
        for weights in self._layers:
            x = layer(x, bias, weights, config.num_attention_heads, config.layer_norm_eps, *rates)
        return classify(x[:, 0], *self._head, self._activation, *(rate(layer) for layer in self._dropout))

    def _distance_bias(self, length: int) -> Any:
        """MPNet's bias of every head for every pair of tokens, [1, heads, length, length]."""
        encoder = self._base.encoder
        if length not in self._distances:
            # Made on the host, once: a recorded step may not copy from there. A table that is first needed when the
            # model is evaluated must serve training too.
            with torch.inference_mode(False):
                places = torch.arange(length)
                buckets = encoder.relative_position_bucket(places[None] - places[:, None])
                self._distances[length] = buckets.to(encoder.relative_attention_bias.weight.device)
        return F.embedding(self._distances[length], encoder.relative_attention_bias.weight).permute(2, 0, 1)[None]


class PlainForward:
    """Any other sequence classifier, called as ``transformers`` calls it; ``dtype`` is that of its products."""

    def __init__(self, model: Any, dtype: Any = torch.float32) -> None:
        self._model, self._dtype = model, dtype
        takes = inspect.signature(model.forward).parameters
        self._types = "token_type_ids" in takes and (getattr(model.config, "type_vocab_size", 0) or 0) > 1
        encoder: Any = getattr(model.base_model, "encoder", None)
        if hasattr(encoder, "get_rel_pos") and not hasattr(encoder.get_rel_pos, "__wrapped__"):
            encoder.get_rel_pos = _kept_by_length(encoder.get_rel_pos)

    def __call__(self, ids: Any, types: Any, keep: Any) -> Any:
        """Logits; ``keep`` is true where a token is not padding."""
        segments = {"token_type_ids": types} if self._types else {}
        # What is not trained stays fp32, such as RoFormer's table of rotations: one factor of a product may be coarse
        # and the other fine, which only autocast allows. Its cache would outlive a recorded step.
        mixed = self._dtype != torch.float32
        with torch.autocast(ids.device.type, dtype=self._dtype if mixed else None, enabled=mixed, cache_enabled=False):
            return self._model(input_ids=ids, attention_mask=keep.long(), **segments).logits


def _kept_by_length(build: Callable[..., Any]) -> Callable[..., Any]:
    """DeBERTa's table of distances, built once a length: it copies from the host, which a recorded step may not do."""
    tables: dict[tuple[int, Any], Any] = {}

    @functools.wraps(build)
    def table(hidden: Any, query: Any = None, given: Any = None) -> Any:
        if query is not None or given is not None:
            return build(hidden, query, given)
        key = hidden.shape[-2], hidden.device
        if key not in tables:
            # A table that is first needed when the model is evaluated must serve training too.
            with torch.inference_mode(False):
                tables[key] = build(torch.empty(1, key[0], 1, device=key[1]))
        return tables[key]

    return table


def unused_parameters(model: Any, ids: Any, types: Any, keep: Any) -> list[str]:
    """Names of parameters on which the logits do not depend; an optimiser must leave them alone."""
    # A parameter without a gradient would still be decayed, and drift away from the checkpoint.
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    total = PlainForward(model)(ids, types, keep).sum()
    gradients = torch.autograd.grad(total, [p for _, p in named], allow_unused=True)
    return [name for (name, _), gradient in zip(named, gradients, strict=True) if gradient is None]
