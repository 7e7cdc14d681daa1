"""``evenli models``."""

from __future__ import annotations

import typer

from evenli.cli import _shared as shared


def models(as_json: shared.Json = False) -> None:
    """List the models that ship with the package and how to name others."""
    from evenli.models import embedded_models
    from evenli.models.fakes import KINDS
    from evenli.registry import MODELS

    embedded = embedded_models()
    if as_json:
        entries = [{"name": m.name, "lang": m.lang, "path": str(m.path), "card": m.card} for m in embedded]
        shared.print_json({"embedded": entries, "fakes": KINDS, "backends": MODELS.names()})
        return
    for model in embedded:
        size = (model.path / "model.onnx").stat().st_size / 1e6
        typer.echo(f"evenli:{model.name}  ({model.lang}, {size:.0f} MB, {model.card['licence']})")
        for line in (model.card["title"], *model.card["accuracy"]):
            typer.echo(f"    {line}")
    typer.echo("fake:" + ", fake:".join(KINDS) + "  known bias, for checks")
    typer.echo("others: a hub id, a checkpoint folder, onnx:FILE, py:module:function")
    if MODELS.plugins():
        typer.echo("installed backends: " + ", ".join(f"{name}:TARGET" for name in MODELS.plugins()))
