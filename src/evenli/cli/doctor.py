"""``evenli doctor``."""

from __future__ import annotations

from typing import Any

import typer

from evenli.cli import _shared as shared

_EXTRAS = {
    "base": ("numpy", "scipy", "polars", "onnxruntime", "tokenizers", "filelock", "typer", "rich", "jinja2"),
    "hf": ("torch", "transformers", "safetensors"),
    "train": ("accelerate",),
    "onnx": ("onnx", "onnxscript"),
    "report": ("altair", "vl-convert-python"),
    "encoders": ("scikit-learn",),
    "scale": ("ray",),
}


def doctor(as_json: shared.Json = False) -> None:
    """Say what is installed, which extras are missing and which device would be used."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    from evenli._version import __version__
    from evenli.models import embedded_models
    from evenli.resources import cards

    def installed(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    packages = {extra: {name: installed(name) for name in names} for extra, names in _EXTRAS.items()}
    missing = [extra for extra, found in packages.items() if not all(found.values())]
    report: dict[str, Any] = {
        "evenli": __version__,
        "python": platform.python_version(),
        "packages": packages,
        "missing_extras": missing,
        "devices": _devices(),
        "embedded_models": [model.name for model in embedded_models()],
        "changed_resources": [card.name for card in cards() if not card.verify()],
    }
    if as_json:
        shared.print_json(report)
        return
    typer.echo(f"evenli {__version__}, Python {report['python']}")
    for extra, found in packages.items():
        typer.echo(f"{extra}: " + ", ".join(f"{name} {v or 'missing'}" for name, v in found.items()))
    for extra in missing:
        typer.echo(f"to add what is missing: pip install 'evenli{'' if extra == 'base' else f'[{extra}]'}'")
    typer.echo("devices: " + ", ".join(f"{name} ({what})" for name, what in report["devices"].items()))
    typer.echo("embedded models: " + (", ".join(report["embedded_models"]) or "none"))
    if report["changed_resources"]:
        typer.echo("changed resources: " + ", ".join(report["changed_resources"]))


def _devices() -> dict[str, str]:
    import os

    devices = {"cpu": f"{os.cpu_count()} cores"}
    try:
        import torch
    except ImportError:
        return devices
    if torch.cuda.is_available():
        devices["cuda"] = torch.cuda.get_device_name()
    if torch.backends.mps.is_available():
        devices["mps"] = "Apple GPU"
    return devices
