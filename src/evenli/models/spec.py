"""The one place where a model string is understood; the backends are found in the registry."""

from __future__ import annotations

from pathlib import Path

from evenli.errors import ModelError
from evenli.models.base import ModelOptions, ModelRequest, NLIModel
from evenli.models.onnx import FILE as ONNX_FILE
from evenli.registry import MODELS

__all__ = ["ModelOptions", "load_model"]


def load_model(spec: str | None = None, *, lang: str = "en", options: ModelOptions | None = None) -> NLIModel:
    """Load a model from its spec.

    Args:
        spec: ``hf:id[@revision]`` or a checkpoint directory, ``onnx:file.onnx`` or a directory with one,
            ``py:module:function``, ``fake:kind``, ``evenli:name``, or ``NAME:target`` of an installed backend; a bare
            path or hub id is recognised. None is the embedded model of ``lang``.
        lang: Language of the audit; chooses the embedded model and the words of the fakes.
        options: Loading options.
    """
    spec = spec or f"evenli:{lang}"
    backend, target = _split(spec)
    model: NLIModel = MODELS.get(backend)(target, ModelRequest(spec, lang, options or ModelOptions()))
    missing = [name for name in ("info", "prepare", "logits", "bucket", "token_budget") if not hasattr(model, name)]
    if missing:
        raise ModelError(
            f"the backend '{backend}' gave a {type(model).__name__} without {', '.join(missing)}, no model"
        )
    return model


def _split(spec: str) -> tuple[str, str]:
    """Backend and target of a spec."""
    backend, colon, target = spec.partition(":")
    if colon and backend in MODELS:
        if not target:
            raise ModelError(f"'{spec}' names no model")
        return backend, target
    path = Path(spec)
    if path.suffix == ".onnx" or (path / ONNX_FILE).is_file():
        return "onnx", spec
    if path.is_dir():
        return "hf", spec
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or path.is_file():
        raise ModelError(f"no checkpoint directory or .onnx file at {spec}")
    if colon:  # no hub id has one
        raise ModelError(f"no model backend '{backend}'; there are {', '.join(MODELS)}")
    return "hf", spec
