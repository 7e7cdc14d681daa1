"""From a checkpoint to one ONNX file that ``onnx:`` loads without torch."""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.audit.models import loading
from evenli.core.errors import InputError, ModelError, translated
from evenli.core.extras import need
from evenli.core.io import json_text, write_together
from evenli.core.labels import label_columns
from evenli.core.record import Number, Record
from evenli.core.store import RunDir

_OPSET = 20  # the first opset with Gelu as one node; ONNX Runtime knows it since 1.17
_IR_VERSION = 10
_SMALLEST = 4_096


class ExportReport(Record, frozen=True):
    """What was written and how far it strays from the checkpoint."""

    digits: ClassVar[int | None] = None

    path: Path  # the .onnx file
    bytes: int
    int8: bool  # whether weight matrices are stored in int8
    pairs: int = 0  # on which the two were compared
    max_difference: Number = math.nan  # largest absolute difference of a logit; NaN without pairs
    agreement: Number = math.nan  # share of pairs with the same label; NaN without pairs


def export_onnx(
    folder: str | Path,
    out: str | Path,
    int8: bool = False,
    *,
    check: Sequence[tuple[str, str]] | str | Path | None = (),
    lang: str = "en",
) -> ExportReport:
    """Write a local checkpoint as ONNX, a file or ``model.onnx`` in a folder, with tokenizer and label names beside it.

    The graph takes ``input_ids``, ``attention_mask`` and, where the model knows segments, ``token_type_ids``, of any
    batch size and length, and gives ``logits``. With ``int8`` a DequantizeLinear node expands every weight matrix: a
    quarter of the size, and arithmetic that stays fp32, hence exact on every CPU. ``check`` are premise-hypothesis
    pairs on which the result is compared with the fp32 checkpoint, or a file of them; None are the gold pairs of
    ``lang``.
    """
    if check is None or isinstance(check, str | Path):
        # Here, because a machine that only trains has no polars.
        from evenli.audit.suites.checks import gold_pairs
        from evenli.audit.suites.files import read_pairs

        pairs = read_pairs(check, lang, suite="check") if check else gold_pairs(lang)
        check = pairs.frame.select("premise", "hypothesis").rows()
    need("onnxscript", extra="onnx", purpose="exporting to ONNX")
    onnx: Any = need("onnx", extra="onnx", purpose="exporting to ONNX")

    source = Path(folder)
    path = Path(out) if Path(out).suffix == ".onnx" else Path(out) / "model.onnx"
    model, tokenizer = _load(source)
    config = model.config
    names = [str(config.id2label[index]) for index in sorted(config.id2label)]
    label_columns(names, origin=f"the model {source}")
    about = {
        "model_type": config.model_type,
        "id2label": {str(index): name for index, name in enumerate(names)},
        "max_position_embeddings": getattr(config, "max_position_embeddings", None),
        "pad_token_id": tokenizer.pad_token_id,
    }
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"{type(tokenizer).__name__} has no tokenizer.json form; an ONNX model needs one")
    # A checkpoint's tokenizer often carries the padding and truncation of whoever used it last.
    backend.no_padding()
    backend.no_truncation()
    beside = {"tokenizer.json": backend.to_str(), "config.json": json_text(about)}
    if path.parent.resolve() == source.resolve():
        raise InputError(
            f"{source} is the checkpoint itself, whose config.json an export would replace; choose another file (-o)"
        )
    _ExportDir(path, beside).check()
    graph = _trace(model)
    if int8:
        _store_int8(graph)
    entry = graph.metadata_props.add()
    entry.key, entry.value = "labels", ",".join(names)
    onnx.checker.check_model(graph)
    files = {path.parent / name: text.encode() for name, text in beside.items()}
    write_together({path: graph.SerializeToString(), **files})
    return ExportReport(path, path.stat().st_size, int8, **(_compare(source, path, check) if check else {}))


def _compare(folder: Path, file: Path, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """Run the checkpoint in fp32 and the ONNX file on the same pairs; fields of the report."""
    from evenli.audit.models import ModelOptions, ModelRequest
    from evenli.audit.models.hf import HFModel
    from evenli.audit.models.onnx import OnnxModel

    request = ModelRequest("check", options=ModelOptions(device="cpu", dtype="float32"))
    parts = np.split(np.arange(len(pairs)), range(32, len(pairs), 32))

    def logits(model: Any) -> NDArray[np.float32]:
        prepared = model.prepare(*(list(column) for column in zip(*pairs, strict=True)))
        return np.concatenate([model.logits(prepared.take(rows)) for rows in parts])

    ours = logits(OnnxModel(str(file), request))
    theirs = logits(HFModel(str(folder), request))
    agreement = float((ours.argmax(1) == theirs.argmax(1)).mean())
    return {"pairs": len(pairs), "max_difference": float(np.abs(ours - theirs).max()), "agreement": agreement}


def _store_int8(model: Any) -> None:
    """Replace every large fp32 matrix of an ONNX model, in place, by int8 values and a DequantizeLinear node."""
    from onnx import helper, numpy_helper

    tensors, nodes = [], []
    for tensor in model.graph.initializer:
        matrix = numpy_helper.to_array(tensor)
        if matrix.dtype != np.float32 or matrix.ndim != 2 or matrix.size < _SMALLEST:
            tensors.append(tensor)
            continue
        axis, values, scales = quantise(matrix)
        name, inputs = tensor.name, [f"{tensor.name}.int8", f"{tensor.name}.scale"]
        tensors += [numpy_helper.from_array(*named) for named in zip((values, scales), inputs, strict=True)]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}.expand", axis=axis))
    # Nodes are in the order of their execution: weights are expanded before anything reads them.
    nodes.extend(model.graph.node)
    del model.graph.initializer[:], model.graph.node[:]
    model.graph.initializer.extend(tensors)
    model.graph.node.extend(nodes)


def quantise(matrix: NDArray[np.float32]) -> tuple[int, NDArray[np.int8], NDArray[np.float32]]:
    """Symmetric int8 with one scale per row or per column, whichever loses less: axis of the scales, values, scales."""
    # The scale maps the largest entry of a channel to 127. Clipping below it was tried and gains nothing: channels of a
    # few hundred entries have no outliers that are worth the error.
    tried = []
    for axis in (0, 1):
        peak = np.abs(matrix).max(axis=1 - axis, keepdims=True)
        scale = (np.where(peak == 0, 1, peak) / 127).astype(np.float32)
        values = np.rint(matrix / scale)
        tried.append((float(np.square(values * scale - matrix).sum(dtype=np.float64)), axis, values, scale))
    _, axis, values, scale = min(tried, key=lambda trial: trial[0])
    return axis, values.astype(np.int8), scale.reshape(-1)


def _load(folder: Path) -> tuple[Any, Any]:
    loading.check_folder(folder)
    transformers = loading.quiet_transformers("exporting to ONNX")
    classifier, source = transformers.AutoModelForSequenceClassification, loading.Checkpoint(str(folder), folder)
    with source.copied() as source, loading.one_line(source.name):
        # Plain attention exports to a third fewer nodes than the fused operator.
        model, report = loading.load_network(classifier, source, attn_implementation="eager")
        tokenizer = loading.load_part(transformers.AutoTokenizer, source)
    if report["missing_keys"]:
        missing = ", ".join(sorted(report["missing_keys"]))
        raise ModelError(f"{folder} has no trained classifier (missing {missing}); train one with: evenli train nli")
    loading.check_tensors({**report, "unexpected_keys": ()}, source.name)
    return model.eval(), tokenizer


class _ExportDir(RunDir):
    """The directory of an ONNX file. It may hold files of the user, but none that belong to another model."""

    def __init__(self, path: Path, beside: dict[str, str]) -> None:
        super().__init__(
            path.parent, kind="ONNX model", manifest="config.json", option="directory (-o), one of its own"
        )
        self._file, self._beside = path, beside

    def is_ours(self) -> bool:
        """Whether it is an earlier export of this name alone; the config of other models has more fields."""
        fields = set(json.loads(self._beside["config.json"]))
        only_file = list(self.path.glob("*.onnx")) == [self._file] and not self._weights()
        return only_file and set(loading.read_fields(self.manifest_file)) == fields

    def _weights(self) -> list[str]:
        return sorted(file.name for file in self.path.glob("*.safetensors"))

    def foreign_files(self) -> list[str]:
        """Weights of a checkpoint, and files that an export would replace by others."""
        there = {name: self.path / name for name in self._beside if (self.path / name).is_file()}
        texts = {name: file.read_text(encoding="utf-8", errors="replace") for name, file in there.items()}
        return self._weights() + [name for name, text in texts.items() if text != self._beside[name]]


def _trace(model: Any) -> Any:
    names = ["input_ids", "attention_mask"]
    if (getattr(model.config, "type_vocab_size", 0) or 0) > 1:
        names.append("token_type_ids")
    ids = torch.full((2, 11), 5, dtype=torch.int64)
    mask = torch.ones_like(ids)
    mask[1, 7:] = 0
    example = dict(zip(names, (ids, mask, torch.zeros_like(ids)), strict=False))
    module = _Logits(model)
    with torch.no_grad():
        expected = model(**example).logits
        # 0 / -inf by key, where the model accepts that, spares the graph the model's own mask arithmetic.
        try:
            module.additive = bool(torch.allclose(expected, module(**example), atol=1e-5))
        except (RuntimeError, ValueError, IndexError, TypeError):
            module.additive = False
    # The exporter logs and warns about its own internals.
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        with translated(f"cannot trace a {model.config.model_type} model to ONNX: ", into=ModelError):
            program = torch.onnx.export(
                module.eval(),
                (),
                kwargs=example,
                dynamo=True,
                verbose=False,
                input_names=names,
                output_names=["logits"],
                dynamic_shapes={name: {0: "batch", 1: "length"} for name in names},
                opset_version=_OPSET,
            )
    graph = program.model_proto
    graph.ir_version = min(graph.ir_version, _IR_VERSION)
    # Stack traces, shapes and other leftovers of tracing are a hundredth of the file and say nothing.
    del graph.metadata_props[:], graph.graph.metadata_props[:], graph.graph.value_info[:]
    graph.doc_string = graph.graph.doc_string = ""
    for part in (graph.graph.node, graph.graph.initializer, graph.graph.input, graph.graph.output):
        for entry in part:
            del entry.metadata_props[:]
            entry.doc_string = ""
    return graph


class _Logits(torch.nn.Module):  # type: ignore[misc]
    """The model with named inputs and one output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model, self.additive = model, True

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any = None) -> Any:
        mask = attention_mask
        if self.additive:
            mask = (1.0 - mask[:, None, None, :].float()) * torch.finfo(torch.float32).min
        segments = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        return self.model(input_ids=input_ids, attention_mask=mask, **segments).logits
