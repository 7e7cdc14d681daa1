"""The checkpoint a training run starts from, and the directory it ends in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from evenli.audit.models.loading import find_checkpoint, load_network, load_part, one_line, quiet_transformers
from evenli.core.errors import LabelError, ModelError
from evenli.core.labels import LABELS, label_columns


@dataclass(frozen=True)
class Base:
    """A classifier with three outputs in LABELS order, fp32 on the CPU, and its tokenizer.

    ``fingerprint`` changes when weights, labels or tokenizer do. ``fresh`` names the parameters that the checkpoint did
    not have, such as the classifier; a run draws them from its seed.
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    fingerprint: str
    fresh: tuple[str, ...]


def load_base(spec: str, *, online: bool = False) -> Base:
    """Load the model to start from: ``hf:id[@revision]``, a hub id or a directory.

    A base without classifier, or with one of other labels, gets a new one. A base that already knows the three labels
    keeps its classifier, its outputs put into LABELS order.
    """
    transformers = quiet_transformers("training")
    source = find_checkpoint(spec.removeprefix("hf:"), online=online)
    name = source.name
    with source.copied() as source, one_line(name):
        config = load_part(transformers.AutoConfig, source)
        tokenizer = load_part(transformers.AutoTokenizer, source)
        # Read before the number of labels is set, which replaces the names where there are not three.
        names = [str(config.id2label[index]) for index in sorted(config.id2label)]
        config.num_labels = len(LABELS)
        model, loading = load_network(transformers.AutoModelForSequenceClassification, source, config=config)
    # Without tokenizer files the loader makes one that knows its special tokens only.
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise ModelError(f"{name} has no tokenizer; put its tokenizer.json into the folder")
    if not isinstance(tokenizer.model_max_length, int | float):
        raise ModelError(f"{name}: model_max_length of tokenizer_config.json is no number")
    size = getattr(config, "vocab_size", None)
    if size is not None and len(tokenizer) > size:
        raise ModelError(f"{name}: the tokenizer has {len(tokenizer)} tokens, the model knows {size}")
    # The loader had to make these parameters up; only a head may be among them.
    mismatched = {key if isinstance(key, str) else key[0] for key in loading["mismatched_keys"]}
    fresh = sorted({*loading["missing_keys"], *mismatched})
    inner = [key for key in fresh if key.startswith(f"{model.base_model_prefix}.") and "pooler" not in key]
    if inner:
        kind = model.config.model_type
        raise ModelError(f"{name} is not a whole {kind} checkpoint: {len(inner)} weights are missing, first {inner[0]}")
    fresh += _sort_outputs(model, names, fresh)
    model.config.id2label = dict(enumerate(LABELS))
    model.config.label2id = {label: index for index, label in enumerate(LABELS)}
    return Base(model, tokenizer, name, source.revision, source.fingerprint, tuple(fresh))


def save_model(base: Base, weights: dict[str, torch.Tensor], folder: Path) -> None:
    """Write ``config.json``, ``model.safetensors`` and the tokenizer, as ``from_pretrained`` expects them."""
    from safetensors.torch import save_file

    rest = {name: value for name, value in base.model.state_dict().items() if name not in weights}
    tensors = {
        name: value.detach().cpu().float().contiguous() if value.is_floating_point() else value.cpu()
        for name, value in (rest | weights).items()
    }
    config = base.model.config
    config.architectures = [type(base.model).__name__]
    config.dtype = torch.float32
    config.save_pretrained(folder)
    base.tokenizer.save_pretrained(folder)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)  # the library writes it for its owner only


def _sort_outputs(model: Any, names: list[str], fresh: list[str]) -> list[str]:
    """Put the outputs of a stored classifier into LABELS order; if it has other labels, name it to be drawn anew."""
    # The logits come from the last linear layer with three outputs.
    layers = [name for name, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m.out_features == 3]
    if not layers:
        raise ModelError(f"{type(model).__name__} has no linear output layer")
    head = str(layers[-1])
    if any(key.startswith(head) for key in fresh):
        return []
    try:
        order = list(label_columns(names, origin="the base"))
    except LabelError:
        return [f"{head}.weight", f"{head}.bias"]
    layer = model.get_submodule(head)
    layer.weight.data, layer.bias.data = layer.weight.data[order], layer.bias.data[order]
    return []
