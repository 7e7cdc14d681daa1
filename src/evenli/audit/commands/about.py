"""``evenli models``, ``data`` and ``doctor``: what is here and whether it is right."""

from __future__ import annotations

from typing import Annotated

from evenli.audit.settings import PairSettings
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import option, with_settings
from evenli.core.errors import InputError


def models(as_json: shared.Json = False) -> None:
    """List the embedded models and how to name others."""
    from evenli.audit.models import embedded_models
    from evenli.audit.models.fakes import KINDS
    from evenli.core.registry import MODELS

    embedded = embedded_models()
    if as_json:
        entries = [{"name": m.name, "lang": m.lang, "path": str(m.path), "card": m.card} for m in embedded]
        terminal.print_json({"embedded": entries, "fakes": KINDS, "backends": MODELS.names()})
        return
    for model in embedded:
        size = (model.path / "model.onnx").stat().st_size / 1e6
        terminal.say(f"evenli:{model.name}  ({model.lang}, {size:.0f} MB, {model.card['licence']})")
        for line in (model.card["title"], *model.card["accuracy"], *filter(None, [model.card.get("purpose")])):
            terminal.say(f"    {line}")
    terminal.say("fake:" + ", fake:".join(KINDS) + "  known bias, for checks")
    terminal.say("others: a hub id, a checkpoint folder, onnx:FILE, py:module:function")
    if MODELS.plugins():
        terminal.say("installed backends: " + ", ".join(f"{name}:TARGET" for name in MODELS.plugins()))


@with_settings(settings=("split", "tokenised", "axis"))
def data(
    check: Annotated[str | None, option("Validate a release or pair file.", "--check", metavar="FILE")] = None,
    lang: shared.Lang = "en",
    *,
    settings: PairSettings,
    as_json: shared.Json = False,
) -> None:
    """List word lists and their sources, or check a pair set.

    With --check: exit code 2 if an audit would refuse the pairs.
    """
    if check is not None:
        from evenli.audit.suites.coal.load import check_file

        checked = check_file(check, lang, **vars(settings))
        # The card holds a hash of all rows, which takes seconds for a million of them.
        content = {**checked.pairs.card().to_dict(), "findings": checked.counts} if as_json else None
        terminal.answer(as_json, content, *checked.lines())
        # Raised only now, so that everything is listed.
        if checked.problem:
            raise InputError(checked.problem)
        return
    from evenli.audit.suites.base import built_in_sets
    from evenli.words import cards

    built = built_in_sets(settings.axis)
    if as_json:
        resources = [{**c.__dict__, "intact": c.verify()} for c in cards()]
        terminal.print_json({"sets": [card.to_dict() for card in built], "resources": resources})
        return
    for card in built:
        subsets = ", ".join(f"{k} {v}" for k, v in card.subsets.items())
        terminal.say(f"{card.name} {card.lang}: {card.rows} pairs ({subsets}), sha256 {card.sha256[:16]}")
    for resource in cards():
        state = "" if resource.verify() else "  CHANGED since its card was written"
        terminal.say(f"{resource.name}: {resource.title}. {resource.source} [{resource.licence}]{state}")


def doctor(as_json: shared.Json = False) -> None:
    """Say what is installed and what is missing."""
    from evenli.audit.models.installation import installation

    report = installation()
    lines = [f"evenli {report['evenli']}, Python {report['python']}"]
    for extra, versions in report["packages"].items():
        lines.append(f"{extra}: " + ", ".join(f"{name} {version or 'missing'}" for name, version in versions.items()))
    for extra in report["missing_extras"]:
        lines.append(f"to add what is missing: pip install 'evenli{'' if extra == 'base' else f'[{extra}]'}'")
    lines.append("devices: " + ", ".join(f"{name} ({what})" for name, what in report["devices"].items()))
    lines.append("embedded models: " + (", ".join(report["embedded_models"]) or "none"))
    lines += [f"installed {kind}: {', '.join(names)}" for kind, names in report["plugins"].items()]
    if report["changed_resources"]:
        lines.append("changed resources: " + ", ".join(report["changed_resources"]))
    terminal.answer(as_json, report, *lines)
