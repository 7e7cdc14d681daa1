"""The last layer of a BERT-like classifier, computed for the first token alone.

The classifier reads nothing else: in the last layer the other tokens are needed as keys and values only. Leaving out
their queries and feed-forward saves most of that layer, one seventh of a six-layer model, and changes no answer.
"""

from __future__ import annotations

from typing import Any

MODEL_TYPES = {"bert", "roberta", "xlm-roberta", "camembert", "electra"}
"""Types whose classifier reads position 0 and whose layers share BERT's names."""

_CLOSE = 1e-4


def shorten_last_layer(model: Any, torch: Any) -> bool:
    """Replace the last layer in place; undone, and False, if that changes the answers on a probe.

    Args:
        model: A sequence classifier in evaluation mode, fp32, on the CPU.
        torch: The torch module.
    """
    if model.config.model_type not in MODEL_TYPES or getattr(model.config, "is_decoder", False):
        return False
    layers = model.base_model.encoder.layer
    whole = layers[-1]
    ids = torch.arange(24).view(2, 12) % 20 + 5
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    probes: list[dict[str, Any]] = [{"input_ids": ids}, {"input_ids": ids, "attention_mask": mask}]
    with torch.inference_mode():
        before = [model(**probe).logits for probe in probes]
        try:
            layers[-1] = _first_token_layer(whole, torch)
            after = [model(**probe).logits for probe in probes]
            if all(torch.allclose(a, b, atol=_CLOSE, rtol=_CLOSE) for a, b in zip(before, after, strict=True)):
                return True
        except (AttributeError, RuntimeError, TypeError, ValueError, IndexError):
            pass  # a layout we do not know: the model runs as it is
    layers[-1] = whole
    return False


def _first_token_layer(layer: Any, torch: Any) -> Any:
    """A module that takes the place of ``layer`` and returns one token per pair."""

    class FirstTokenLayer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.whole = layer

        def forward(self, hidden: Any, attention_mask: Any = None, *_: Any, **__: Any) -> Any:
            attention = self.whole.attention.self
            first = hidden[:, :1]
            heads = (hidden.shape[0], -1, attention.num_attention_heads, attention.attention_head_size)
            query = attention.query(first).view(heads).transpose(1, 2)
            key = attention.key(hidden).view(heads).transpose(1, 2)
            value = attention.value(hidden).view(heads).transpose(1, 2)
            mask = None if attention_mask is None else attention_mask[:, :, :1]
            mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
            mixed = self.whole.attention.output(mixed.transpose(1, 2).reshape(first.shape), first)
            return self.whole.output(self.whole.intermediate(mixed), mixed)

    return FirstTokenLayer()
