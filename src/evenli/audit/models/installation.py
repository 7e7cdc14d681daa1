"""What is installed here: packages, extras, devices, embedded models, plug-ins."""

from __future__ import annotations

import contextlib
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from evenli._version import __version__
from evenli.audit.models.onnx import embedded_models
from evenli.core import registry
from evenli.words import axis_names, cards

EXTRAS = {
    "base": ("numpy", "scipy", "polars", "onnxruntime", "tokenizers", "filelock", "typer", "rich", "jinja2"),
    "hf": ("torch", "transformers", "safetensors"),
    "chat": ("httpx",),
    "gguf": ("gguf",),
    "train": ("accelerate",),
    "onnx": ("onnx", "onnxscript"),
    "report": ("altair", "vl-convert-python"),
    "encoders": ("scikit-learn",),
    "wording": ("statsmodels",),
    "scale": ("ray",),
}
"""Packages by extra."""


def installation() -> dict[str, Any]:
    """Versions, missing extras, devices, embedded models, plug-ins, and shipped files that were changed."""
    packages = {extra: {name: _version(name) for name in names} for extra, names in EXTRAS.items()}
    registries = (registry.SUITES, registry.MEASURES, registry.MODELS, registry.ENCODERS, registry.MITIGATIONS)
    return {
        "evenli": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "missing_extras": [extra for extra, versions in packages.items() if not all(versions.values())],
        "devices": _devices(),
        "embedded_models": [model.name for model in embedded_models()],
        "axes": axis_names(),
        "plugins": {registry.kind: registry.plugins() for registry in registries if registry.plugins()},
        "changed_resources": [card.name for card in cards() if not card.verify()],
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _devices() -> dict[str, str]:
    devices = {"cpu": f"{os.cpu_count()} cores"}
    with contextlib.suppress(ImportError):
        import torch

        if torch.cuda.is_available():
            devices["cuda"] = torch.cuda.get_device_name()
        if torch.backends.mps.is_available():
            devices["mps"] = "Apple GPU"
    return devices
