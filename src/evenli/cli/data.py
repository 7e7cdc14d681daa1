"""``evenli data``."""

from __future__ import annotations

from typing import Annotated

import typer

from evenli.cli import _shared as shared


def data(
    check: Annotated[
        str | None, typer.Option("--check", help="Validate a release or pair file.", show_default=False)
    ] = None,
    lang: shared.Lang = "en",
    split: shared.Split = "full",
    tokenised: shared.Tokenised = False,
    axis: shared.Axis = "gender",
    as_json: shared.Json = False,
) -> None:
    """List word lists and templates with their sources, or check a pair set."""
    if check is not None:
        _check(check, lang, split, tokenised, axis, as_json)
        return
    from evenli.resources import cards, load_axis
    from evenli.suites.coal.build import build_coal

    built = [build_coal(code).card() for code in load_axis(axis).languages]
    if as_json:
        shared.print_json({"sets": built, "resources": [{**c.__dict__, "intact": c.verify()} for c in cards()]})
        return
    for card in built:
        subsets = ", ".join(f"{k} {v}" for k, v in card["subsets"].items())
        typer.echo(f"built-in {card['lang']}: {card['rows']} pairs ({subsets}), sha256 {card['sha256'][:16]}")
    for resource in cards():
        state = "" if resource.verify() else "  CHANGED since its card was written"
        typer.echo(f"{resource.name}: {resource.title}. {resource.source} [{resource.licence}]{state}")


def _check(path: str, lang: str, split: str, tokenised: bool, axis: str, as_json: bool) -> None:
    from collections import Counter

    from evenli.suites.coal.load import load_coal
    from evenli.suites.validate import validate

    pairs = load_coal(lang, path, split=split, tokenised=tokenised, axis=axis)
    findings = validate(pairs, axis=axis)
    card = {**pairs.card(), "findings": dict(Counter(finding.rule for finding in findings))}
    if as_json:
        shared.print_json(card)
        return
    typer.echo(f"{pairs.name}: {len(pairs)} pairs, " + ", ".join(f"{k} {v}" for k, v in pairs.counts.items()))
    for note in pairs.notes:
        typer.echo(f"note: {note}")
    for rule, count in card["findings"].items():
        first = next(finding for finding in findings if finding.rule == rule)
        typer.echo(f"{rule}: {count} rows, first pair {first.id}: {first.detail}")
    if not findings:
        typer.echo("no findings")
