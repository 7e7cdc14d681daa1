"""The one place where a model string is understood. A new backend is one file and one line here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from evenli.errors import ModelError
from evenli.labels import label_columns
from evenli.models.base import NLIModel

_ONNX = "model.onnx"
_WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class ModelOptions:
    """How to load a model.

    Attributes:
        labels: Output order, where the model does not name its labels.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        dtype: ``float32``, ``bfloat16`` or ``float16``; None picks bfloat16 on CUDA, float32 elsewhere.
        max_length: Longest input in tokens; longer pairs are truncated and counted.
        token_budget: Tokens per batch; None picks by device.
        threads: CPU threads for ONNX Runtime; None uses all.
        offline: Never ask the hub, use its local cache only.
        allow_pickle: Accept pickle checkpoints, which can run code when loaded.
    """

    labels: tuple[str, ...] | None = None
    device: str | None = None
    dtype: str | None = None
    max_length: int = 128
    token_budget: int | None = None
    threads: int | None = None
    offline: bool = False
    allow_pickle: bool = False


def load_model(spec: str | None = None, *, lang: str = "en", options: ModelOptions | None = None) -> NLIModel:
    """Load a model from its spec.

    Args:
        spec: ``hf:id[@revision]`` or a checkpoint folder, ``onnx:file.onnx`` or a folder with one,
            ``py:module:function``, ``fake:kind``, ``evenli:name``; a bare path or hub id is recognised. None is the
            embedded model of ``lang``.
        lang: Language of the audit; chooses the embedded model and the words of the fakes.
        options: Loading options.
    """
    options = options or ModelOptions()
    kind, target = _split(spec or f"evenli:{lang}")
    spec = spec or f"evenli:{lang}"
    if kind == "hf":
        from evenli.models.hf import HFModel

        return HFModel(target, options, spec=spec)
    if kind in {"onnx", "evenli"}:
        from evenli.models.embedded import find_embedded
        from evenli.models.onnx import OnnxModel

        model = OnnxModel(str(find_embedded(target).path) if kind == "evenli" else target, options, spec=spec)
        weights = _weights_beside(spec)
        if weights:
            # Under its folder's name alone, an old or int8 export would pass for the checkpoint.
            model.info = replace(model.info, name=f"{model.info.name}/{_ONNX}".lstrip("/"))
            model.note = (  # type: ignore[attr-defined]  # the prediction loop tells it where there is one
                f"{spec} holds {_ONNX} and {weights}; {_ONNX} is asked: pass hf:{spec} for the checkpoint, or "
                f"onnx:{spec} to say that it is meant"
            )
        return model
    if kind == "py":
        from evenli.models.callables import load_callable

        return load_callable(target, options, spec=spec)
    from evenli.models.fakes import load_fake

    if options.labels:  # fakes answer by name, so that an order changes nothing; names that are none are a mistake
        label_columns(options.labels, origin="--labels")
    return load_fake(target, lang)


def _weights_beside(spec: str) -> str:
    """The checkpoint that a bare folder holds beside its ONNX model, or nothing."""
    folder = Path(spec)
    if not (folder / _ONNX).is_file():
        return ""
    return next((name for name in _WEIGHTS if (folder / name).is_file()), "")


def _split(spec: str) -> tuple[str, str]:
    kind, colon, target = spec.partition(":")
    if colon and kind in {"hf", "onnx", "py", "fake", "evenli"}:
        if not target:
            raise ModelError(f"'{spec}' names no model")
        return kind, target
    path = Path(spec)
    if path.suffix == ".onnx" or (path / _ONNX).is_file():
        return "onnx", spec
    if path.is_dir():
        return "hf", spec
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or path.is_file():
        raise ModelError(f"no checkpoint folder or .onnx file at {spec}")
    return "hf", spec
