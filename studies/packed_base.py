"""Bases that travel to a machine with a GPU: only the tokens they meet, matrices in int8, in parts if need be."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np


def read_embedded(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Configuration and weights of an embedded model, out of its ONNX file."""
    import onnx
    from onnx import numpy_helper

    graph = onnx.load(folder / "model.onnx").graph
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in (node for node in graph.node if node.op_type == "DequantizeLinear"):
        matrix, scale = (values[name] for name in node.input[:2])
        shape = [1, 1]
        shape[node.attribute[0].i] = -1
        values[node.output[0]] = matrix.astype(np.float32) * scale.reshape(shape)
    weights = {name: value for name, value in values.items() if name.startswith("model.")}
    used = {name: node for node in graph.node for name in node.input}
    for node in graph.node:
        # A product's weight has lost its name; the bias that is added to the product has kept it.
        if node.op_type == "MatMul" and node.input[1] in values:
            bias = next(name for name in used[node.output[0]].input if name.endswith(".bias"))
            weights[bias.removesuffix("bias") + "weight"] = values[node.input[1]].T
    weights = {
        name.removeprefix("model."): value for name, value in weights.items() if not name.endswith((".int8", ".scale"))
    }
    words = weights["bert.embeddings.word_embeddings.weight"]
    layers = sum(name.endswith("intermediate.dense.bias") for name in weights)
    config = json.loads((folder / "config.json").read_text()) | {
        "architectures": ["BertForSequenceClassification"],
        "hidden_size": words.shape[1],
        "num_hidden_layers": layers,
        "intermediate_size": len(weights["bert.encoder.layer.0.intermediate.dense.bias"]),
        "num_attention_heads": {384: 12, 512: 8}[words.shape[1]],
        "type_vocab_size": len(weights["bert.embeddings.token_type_embeddings.weight"]),
    }
    return config, weights


def pack_checkpoint(source: Path, texts: list[str], places: list[Path]) -> None:
    """Pack a checkpoint directory."""
    from safetensors.numpy import load_file

    config = json.loads((source / "config.json").read_text())
    weights = {name: tensor for name, tensor in load_file(source / "model.safetensors").items() if tensor.ndim}
    weights = {name.removeprefix("mpnet."): t for name, t in weights.items() if "position_ids" not in name}
    pack(config, weights, source / "tokenizer.json", texts, places)


def pack(
    config: dict[str, Any], weights: dict[str, np.ndarray], tokenizer: Path, texts: list[str], places: list[Path]
) -> None:
    """Write a base with only the tokens it meets, matrices in int8, over as many places as given."""
    from tokenizers import Tokenizer

    from evenli.training.export import quantise

    encoder = Tokenizer.from_file(str(tokenizer))
    encoder.no_truncation()
    encoder.no_padding()
    seen = {
        token
        for start in range(0, len(texts), 10_000)
        for one in encoder.encode_batch(texts[start : start + 10_000])
        for token in one.ids
    }
    table = next(name for name in weights if name.endswith("word_embeddings.weight"))
    spec, kept = prune(json.loads(tokenizer.read_text(encoding="utf-8")), seen, len(weights[table]))
    weights = weights | {table: weights[table][kept]}
    for place in places:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
    (places[0] / "config.json").write_text(json.dumps(config | {"vocab_size": len(kept)}, indent=1))
    (places[0] / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    special = {one["content"].strip("[]<>").lower(): one["content"] for one in spec["added_tokens"]}
    names = {"pad_token": "pad", "unk_token": "unk", "cls_token": "cls" if "cls" in special else "s"}
    names |= {"sep_token": "sep" if "sep" in special else "/s"}
    about = {key: special[name] for key, name in names.items()} | {"tokenizer_class": "PreTrainedTokenizerFast"}
    about |= {"model_max_length": 512, "model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    (places[0] / "tokenizer_config.json").write_text(json.dumps(about, indent=1))
    share = sum(value.size for value in weights.values()) / len(places)
    packed: list[dict[str, np.ndarray]] = [{} for _ in places]
    done = 0
    for name, value in weights.items():
        target = packed[min(int(done / share), len(places) - 1)]
        done += value.size
        if value.ndim == 2 and min(value.shape) >= 64:
            axis, values, scales = quantise(np.ascontiguousarray(value, dtype=np.float32))
            target |= {f"{name}|{axis}": values, f"{name}|scale": scales}
        else:
            target[name] = value
    for place, arrays in zip(places, packed, strict=True):
        np.savez(place / "weights.npz", **arrays)
        print(f"{place}: {(place / 'weights.npz').stat().st_size / 2**20:.1f} MiB, {len(kept):,} tokens")


def prune(spec: dict[str, Any], seen: set[int], size: int) -> tuple[dict[str, Any], list[int]]:
    """A WordPiece tokenizer that knows only the tokens seen and the special ones; and which rows are kept.

    Longest match first: where the longest match is kept and nothing is added, every text is cut as before.
    """
    special = {one["id"]: one["content"] for one in spec["added_tokens"]}
    vocabulary = spec["model"]["vocab"]
    kept = sorted(token for token in {*seen, *special, vocabulary[spec["model"]["unk_token"]]} if token < size)
    new = {old: number for number, old in enumerate(kept)}
    spec["model"]["vocab"] = {word: new[old] for word, old in vocabulary.items() if old in new}
    for one in spec["added_tokens"]:
        one["id"] = new[one["id"]]
    spec["truncation"] = spec["padding"] = None
    after = spec["post_processor"]
    if "special_tokens" in after:
        for token in after["special_tokens"].values():
            token["ids"] = [new[old] for old in token["ids"]]
    for end in ("sep", "cls"):
        if isinstance(after.get(end), list):
            after[end][1] = new[after[end][1]]
    return spec, kept


def unpack(source: Path, name: str, target: Path) -> Path:
    """A packed base, whose parts may lie in several folders of ``source``, as a checkpoint directory."""
    import torch
    from safetensors.torch import save_file

    if (target / "model.safetensors").is_file():
        return target
    target.mkdir(parents=True, exist_ok=True)
    weights: dict[str, Any] = {}
    for place in sorted(source.glob(f"*/bases/{name}")):
        for file in place.glob("*.json"):
            shutil.copy(file, target / file.name)
        weights |= {name: torch.from_numpy(value) for name, value in read_packed(place / "weights.npz")}
    save_file(weights, target / "writing.safetensors", metadata={"format": "pt"})
    (target / "writing.safetensors").replace(target / "model.safetensors")
    return target


def read_packed(file: Path) -> Iterator[tuple[str, np.ndarray]]:
    """Weights of a packed base, in fp32."""
    with np.load(file) as arrays:
        for key in arrays.files:
            name, _, axis = key.partition("|")
            if axis == "scale":
                continue
            value = arrays[key]
            if axis:
                scale = arrays[f"{name}|scale"]
                value = value.astype(np.float32) * (scale[:, None] if axis == "0" else scale)
            yield name, np.ascontiguousarray(value, dtype=np.float32)
