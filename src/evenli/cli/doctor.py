"""``evenli doctor``."""

from __future__ import annotations

import typer

from evenli.cli import _shared as shared


def doctor(as_json: shared.Json = False) -> None:
    """Say what is installed, which extras are missing and which device would be used."""
    from evenli.models.installation import installation

    report = installation()
    if as_json:
        shared.print_json(report)
        return
    typer.echo(f"evenli {report['evenli']}, Python {report['python']}")
    for extra, versions in report["packages"].items():
        typer.echo(f"{extra}: " + ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items()))
    for extra in report["missing_extras"]:
        typer.echo(f"to add what is missing: pip install 'evenli{'' if extra == 'base' else f'[{extra}]'}'")
    typer.echo("devices: " + ", ".join(f"{name} ({what})" for name, what in report["devices"].items()))
    typer.echo("embedded models: " + (", ".join(report["embedded_models"]) or "none"))
    for kind, names in report["plugins"].items():
        typer.echo(f"installed {kind}: {', '.join(names)}")
    if report["changed_resources"]:
        typer.echo("changed resources: " + ", ".join(report["changed_resources"]))
