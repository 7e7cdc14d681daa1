"""Two changes to a loaded classifier that make it faster and leave its answers alone.

Each is proved on a probe when the model is loaded, and undone where the answers change or the layout is not known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

FIRST_TOKEN_TYPES = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}
"""Types whose classifier reads position 0 and whose layers share BERT's names."""

_CLOSE = 1e-4
_UNKNOWN_LAYOUT = (AttributeError, RuntimeError, TypeError, ValueError, IndexError)


def shorten_last_layer(model: Any, torch: Any) -> bool:
    """Compute the last layer of a BERT-like classifier for the first token alone.

    The classifier reads nothing else. Of the other tokens only keys and values are needed, and those not one by one:
    the key matrix is applied to the one query, the value matrix to the one mixture per head. What remains of the layer
    is a few per cent; a six-layer model saves nearly a sixth.

    Args:
        model: A sequence classifier in evaluation mode, fp32, on the CPU.
        torch: The torch module.
    """
    if model.config.model_type not in FIRST_TOKEN_TYPES or getattr(model.config, "is_decoder", False):
        return False
    layers = model.base_model.encoder.layer
    return _replace(model, torch, [(layers, str(len(layers) - 1))], _first_token_layer)


def pack_linear_layers(model: Any, torch: Any) -> bool:
    """Lay out the weights of all linear layers once for oneDNN, whose products are faster than the default ones.

    For models that stay on the CPU in fp32 only: the packed weights cannot be moved or saved.

    Args:
        model: A sequence classifier in evaluation mode, fp32, on the CPU.
        torch: The torch module.
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
    with torch.inference_mode():
        try:
            before = [model(**probe).logits for probe in probes]
            for (parent, name), original in zip(places, originals, strict=True):
                setattr(parent, name, build(original, torch))
            after = [model(**probe).logits for probe in probes]
            if all(torch.allclose(a, b, atol=_CLOSE, rtol=_CLOSE) for a, b in zip(before, after, strict=True)):
                return True
        except _UNKNOWN_LAYOUT:
            pass  # the model runs as it is
    for (parent, name), original in zip(places, originals, strict=True):
        setattr(parent, name, original)
    return False


def _first_token_layer(layer: Any, torch: Any) -> Any:
    """A module that takes the place of ``layer`` and returns one token per pair."""

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
    """A module that takes the place of a linear layer, on torch's own operator for packed weights."""

    class PackedLinear(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.ops.mkldnn._reorder_linear_weight(layer.weight.detach(), _USUAL_ROWS)
            self.bias = None if layer.bias is None else layer.bias.detach()

        def forward(self, rows: Any) -> Any:
            return torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "none")

    return PackedLinear()


_USUAL_ROWS = 2048
"""Tokens in a full batch on the CPU; oneDNN chooses the layout for it."""
