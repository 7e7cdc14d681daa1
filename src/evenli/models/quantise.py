"""An int8 copy of an ONNX model that is also right on CPUs without VNNI."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from evenli._extras import need
from evenli._hashing import hash_files


def cache_folder() -> Path:
    """Where derived models are kept: ``$EVENLI_CACHE`` or the user's cache folder."""
    root = os.environ.get("EVENLI_CACHE") or os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "evenli"


def int8_copy(path: Path) -> Path:
    """Quantise matrix products to int8 once and reuse the result.

    Weights keep to seven bits (``reduce_range``) because AVX2 kernels without VNNI add two products in 16
    bits and saturate silently with the full range; per-channel scales win back most of the lost bit.
    """
    target = cache_folder() / f"{hash_files([path])[:16]}-int8.onnx"
    if target.is_file():
        return target
    need("onnx", extra="onnx", purpose="--dtype int8")
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        plain = Path(scratch) / "plain.onnx"
        expand_weights(path, plain)
        prepared = Path(scratch) / "prepared.onnx"
        quant_pre_process(str(plain), str(prepared), skip_symbolic_shape=True)
        made = Path(scratch) / "int8.onnx"
        quantize_dynamic(
            str(prepared),
            str(made),
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            reduce_range=True,
            weight_type=QuantType.QInt8,
        )
        made.replace(target)
    return target


def expand_weights(source: Path, target: Path) -> None:
    """Replace stored int8 weights (DequantizeLinear on constants) by fp32 constants."""
    import onnx
    from onnx import numpy_helper

    model = onnx.load(source)
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    kept, used = [], set()
    for node in model.graph.node:
        if node.op_type == "DequantizeLinear" and all(name in constants for name in node.input if name):
            values, scale = (numpy_helper.to_array(constants[name]) for name in node.input[:2])
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            shape = [1] * values.ndim
            if scale.ndim:
                shape[axis] = -1
            dense = values.astype("float32") * scale.reshape(shape)
            model.graph.initializer.append(numpy_helper.from_array(dense, node.output[0]))
            used.update(node.input)
        else:
            kept.append(node)
    del model.graph.node[:]
    model.graph.node.extend(kept)
    remaining = [tensor for tensor in model.graph.initializer if tensor.name not in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(remaining)
    onnx.save(model, target)
