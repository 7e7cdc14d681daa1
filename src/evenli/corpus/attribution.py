"""Integrated gradients (Sundararajan et al. 2017) of a transformer through Captum: what each word-piece adds.

    f(x) = mean output of the pieces of x, projected on u,   u = that of the sentence itself, of length 1

The path leads from the same sentence with a mask in the place of every word-piece, markers kept, to the sentence.
Attributions are of the input embeddings and add up to f(sentence) - f(masks); this completeness buys the reading "this
piece moves the embedding so far". Markers are the same at both ends, so they have none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from evenli._extras import need
from evenli.errors import ModelError

STEPS = 50
"""Points of the path, at the nodes of Gauss and Legendre."""
_AT_ONCE = 8  # sentences; a network sees STEPS times as many rows


class Attributions(NamedTuple):
    """Tensors: of every token [n, tokens], and f(sentence) - f(masks) [n]."""

    tokens: Any
    difference: Any


def integrated_gradients(model: Any, tokenizer: Any, tensors: Any, steps: int = STEPS) -> Attributions:
    """Attributions of the tokens of a batch; ``tensors`` are what the tokenizer gave, on the device of the model."""
    captum = need("captum.attr", extra="attribution", purpose="--importance gradients")
    torch = need("torch", extra="hf", purpose="a transformer encoder")
    mask = next((one for one in (tokenizer.mask_token_id, tokenizer.unk_token_id) if one is not None), None)
    if mask is None:
        raise ModelError("this tokenizer has no mask, which integrated gradients start from; use --importance max")
    special = torch.tensor(sorted(tokenizer.all_special_ids), device=tensors["input_ids"].device)
    parts = []
    # Clones, because tensors that were made for inference cannot take part in a gradient.
    with torch.inference_mode(False), torch.enable_grad():
        for start in range(0, len(tensors["input_ids"]), _AT_ONCE):
            ids, keep = (tensors[name][start : start + _AT_ONCE].clone() for name in ("input_ids", "attention_mask"))
            # An unknown word has a special id, too, but it is a word: the mask stands in its place.
            marker = torch.isin(ids, special) & (ids != (tokenizer.unk_token_id or -1))
            parts.append(_attribute(captum, torch, model, (ids, torch.where(marker, ids, mask), keep), steps))
    tokens, difference = (torch.cat(some) for some in zip(*parts, strict=True))
    return Attributions(tokens, difference)


def _attribute(captum: Any, torch: Any, model: Any, batch: tuple[Any, Any, Any], steps: int) -> tuple[Any, Any]:
    ids, masked, keep = batch

    def pooled(ids: Any, keep: Any) -> Any:
        shares = keep[..., None].float()
        return (model(input_ids=ids, attention_mask=keep).last_hidden_state * shares).sum(dim=1) / shares.sum(dim=1)

    def along(ids: Any, keep: Any, axis: Any) -> Any:
        return (pooled(ids, keep) * axis).sum(dim=1)

    with torch.no_grad():
        axis = torch.nn.functional.normalize(pooled(ids, keep), dim=1)
        difference = along(ids, keep, axis) - along(masked, keep, axis)
    method = captum.LayerIntegratedGradients(along, model.get_input_embeddings())
    shares = method.attribute(ids, baselines=masked, additional_forward_args=(keep, axis), n_steps=steps)
    return shares.sum(dim=-1).detach(), difference
