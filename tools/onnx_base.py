"""Encoder weights out of an ONNX export, fp32 or int8, and the check that they compute what the export computes.

A product's weight has lost its name in an export, but the bias that is added behind it has not; so each product is
called after its bias. Integer weights are expanded: (integer - zero point) x scale, one scale for all or one per
output.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

PREFIXES = ("wrapped.bert.", "m.deberta.", "bert.")
PRODUCTS = ("MatMul", "MatMulInteger")
_HOPS = 6  # nodes between a product and its bias: casts and scales of integer arithmetic


def load_graph(file: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """The model and its constants by name, integers expanded under the name they had before."""
    model = onnx.load(file)
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for name in [name for name in values if name.endswith("_quantized")]:
        plain = name.removesuffix("_quantized")
        if plain in values:
            # A weight that is used twice may be there in floats, too: then nothing was lost.
            continue
        scale, zero = values[f"{plain}_scale"], values[f"{plain}_zero_point"]
        values[plain] = (values[name].astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)
    return model, values


def read_encoder(file: Path) -> dict[str, np.ndarray]:
    """Weights of the encoder by their names in ``transformers``, without the head of the export."""
    model, values = load_graph(file)
    products = _products(model.graph, values)
    named = {name: value for name, value in values.items() if name.endswith((".weight", ".bias")) and value.ndim}
    weights = {}
    for name, value in (named | products).items():
        short = next((name.removeprefix(prefix) for prefix in PREFIXES if name.startswith(prefix)), name)
        if short.startswith(("embeddings.", "encoder.", "pooler.")):
            weights[short] = np.ascontiguousarray(value, dtype=np.float32)
    return weights


def _products(graph: Any, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The constant factors of products, called after the bias behind them, one row per output."""
    consumers = defaultdict(list)
    for node in graph.node:
        for name in node.input:
            consumers[name].append(node)
    weights = {}
    for node in graph.node:
        factor = node.input[1].removesuffix("_quantized") if node.op_type in PRODUCTS else ""
        if factor not in values:
            continue
        bias = _bias_behind(node, consumers, values)
        if bias:
            weights[f"{bias.removesuffix('.bias')}.weight"] = values[factor].T
    return weights


def _bias_behind(node: Any, consumers: dict[str, list[Any]], values: dict[str, np.ndarray]) -> str:
    for _ in range(_HOPS):
        following = consumers[node.output[0]]
        for one in following:
            names = [name for name in one.input if name.endswith(".bias") and name in values]
            if one.op_type == "Add" and names:
                return str(names[0])
        if not following:
            return ""
        node = following[0]
    return ""


def is_quantised(file: Path) -> bool:
    """Whether the export computes its products with integers."""
    return any(node.op_type == "MatMulInteger" for node in onnx.load(file, load_external_data=False).graph.node)


def without_integers(graph: Any, values: dict[str, np.ndarray]) -> None:
    """Let every integer product be one of floats, with the expanded weights; the rest of the graph stays.

    Integer products round what goes into them, anew for each text. What is left is the network that the export rounds.
    """
    source = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "DynamicQuantizeLinear"}
    consumers = {name: node for node in graph.node for name in node.input}
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        plain = node.input[1].removesuffix("_quantized")
        if plain in values:
            graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(values[plain]), f"{plain}_expanded"))
        factors = source[node.input[0]], f"{plain}_expanded" if plain in values else source[node.input[1]]
        # Behind it stand a cast and the product with the two scales, which the floats have in them already.
        scaled = consumers[consumers[node.output[0]].output[0]]
        node.op_type = "MatMul"
        del node.input[:]
        node.input.extend(factors)
        scaled.op_type = "Identity"
        kept = consumers[node.output[0]].output[0]
        del scaled.input[:]
        scaled.input.append(kept)


def hidden_states(file: Path, inputs: dict[str, np.ndarray], layers: int, *, integers: bool = True) -> np.ndarray:
    """What the last layer of the export gives, [text, token, width]; with or without its integer arithmetic."""
    import onnxruntime

    model, values = load_graph(file)
    if not integers:
        without_integers(model.graph, values)
    ending = f"encoder.layer.{layers - 1}.output.LayerNorm.bias"
    node = next(node for node in model.graph.node if any(name.endswith(ending) for name in node.input))
    del model.graph.output[:]
    model.graph.output.append(onnx.helper.make_tensor_value_info(node.output[0], onnx.TensorProto.FLOAT, None))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # External weights lie beside the file.
    onnx.load_external_data_for_model(model, str(file.parent))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = {one.name: one.shape[1] for one in session.get_inputs()}
    texts, tokens = next(iter(inputs.values())).shape
    # Some exports take texts of one length only: the rest is padding, which has id 0, type 0 and no weight.
    inputs = {
        name: np.pad(value, ((0, 0), (0, wanted[name] - tokens if isinstance(wanted[name], int) else 0)))
        for name, value in inputs.items()
        if name in wanted
    }
    # Some exports take one text at a time.
    rows = [session.run(None, {name: value[i : i + 1] for name, value in inputs.items()})[0] for i in range(texts)]
    return np.concatenate(rows)[:, :tokens]
