"""``evenli build`` and ``axis``: pair sets and axes as files; ``models``, ``data`` and ``doctor``: what is here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.audit.settings import CoalSettings, PairSettings, ProbeSettings
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import option, output, with_settings
from evenli.core.errors import InputError
from evenli.core.settings import LANGUAGES, split_names

WORDS = ("woman", "lady", "girl", "man", "gentleman", "guy")
Out = Annotated[Path, output("File to write: .jsonl, .csv or .parquet.")]


@with_settings()
def coal(out: Out, lang: shared.Lang = "en", *, settings: CoalSettings, as_json: shared.Json = False) -> None:
    """Build an NLI-CoAL set (PS, AS, NS) and check it."""
    from evenli.audit.suites.coal.pairs import write_coal

    written = write_coal(out, lang, settings)
    card, findings = written.pairs.card(), written.findings
    for note in written.pairs.notes:
        terminal.warn(note)
    if as_json:
        terminal.print_json({**card.to_dict(), "findings": len(findings), "file": str(out)})
        return
    terminal.say(f"{out}: {card.rows} pairs, " + ", ".join(f"{k} {v}" for k, v in card.subsets.items()))
    terminal.say(f"{card.occupations} occupations, {card.templates} templates, sha256 {card.sha256[:16]}")
    for finding in findings[:5]:
        terminal.warn(f"pair {finding.id}: {finding.rule}: {finding.detail}")
    if len(findings) > 5:
        terminal.warn(f"… {len(findings)} findings in all")


@with_settings()
def probe(
    out: Out,
    lang: Annotated[
        str,
        option(
            "Language; Japanese and Chinese have our own sentences and the stereotypes of NLI-CoAL.", choices=LANGUAGES
        ),
    ] = "en",
    *,
    settings: ProbeSettings,
    as_json: shared.Json = False,
) -> None:
    """Build an entailment-probe set from any corpus.

    Every occupation gets as many gender-free premises.
    """
    from evenli.audit.suites.probe.build import write_probe

    written = write_probe(out, lang, settings)
    report, card = written.report, written.pairs.card()
    if as_json:
        told = report.to_dict() if report else {"corpus": None}
        terminal.print_json({**card.to_dict(), "file": str(out), "report": told})
        return
    terminal.say(
        f"{out}: {card.rows} pairs, {card.rows // 2} premises, {card.occupations} occupations, "
        f"sha256 {card.sha256[:16]}"
    )
    if report is not None and report.corpus is not None:
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in (report.dropped or {}).items())
        terminal.say(f"{report.sentences:,} sentences, {report.matched:,} with an occupation, {report.kept:,} kept")
        terminal.say(f"dropped: {dropped or 'none'}")
        direct, filled = (sum(counts[key] for counts in report.occupations.values()) for key in ("direct", "filled"))
        terminal.say(f"{direct:,} premises as they stand in the corpus, {filled:,} with the occupation replaced")
    for note in written.pairs.notes:
        terminal.warn(note)


def dev2020(
    out: Annotated[Path, output("File to write: .csv or .jsonl.")],
    words: Annotated[str, option("Subjects of the hypotheses, or all six: all.", choices=WORDS, names="WORD")] = "all",
    determiner: Annotated[
        str, option("As in the papers, or as in the released generator.", choices=("the", "a"))
    ] = "the",
    as_json: shared.Json = False,
) -> None:
    """Write the template pairs of Dev et al. 2020 as a stream."""
    from evenli.audit.suites.dev2020 import write_dev_file
    from evenli.core.terminal import Progress

    chosen = None if words == "all" else split_names(words)
    with terminal.progress_bar(as_json) as bar:

        def progress(done: int, total: int) -> None:
            bar(Progress(done, total, "writing"))

        lists = write_dev_file(out, chosen, determiner=determiner, on_progress=progress)
    content = {"file": str(out), "templates": len(lists.templates), "pairs": lists.pairs}
    terminal.answer(as_json, content, f"{out}: {lists.pairs} pairs from {len(lists.templates)} templates")


def new(
    name: Annotated[str, typer.Argument(help="Name of the axis, such as region.", show_default=False)],
    out: Annotated[Path, output("Folder to write to.")] = Path(),
    as_json: shared.Json = False,
) -> None:
    """Write a commented axis file and a table of words to begin with."""
    from evenli.audit.suites.groups.axis_file import new_axis

    files = [str(file) for file in new_axis(name, out)]
    lines = f"written: {', '.join(files)}", f"edit them, then: evenli axis check {files[0]}"
    terminal.answer(as_json, {"files": files}, *lines)


def check(
    axis: Annotated[str, typer.Argument(help="A shipped name or the path of a TOML file.", show_default=False)],
    as_json: shared.Json = False,
) -> None:
    """Check an axis file.

    Says what is missing or wrong; exit code 2 if an audit could not use it.
    """
    from evenli.audit.suites.groups.axis_file import check_axis
    from evenli.words import load_axis

    loaded, problems = load_axis(axis), check_axis(axis)
    errors = [problem for problem in problems if problem.kind == "error"]
    words, languages = len(loaded.typed_words), ", ".join(loaded.languages)
    terminal.answer(
        as_json,
        {"axis": loaded.id, "problems": [{"kind": problem.kind, "text": problem.text} for problem in problems]},
        f"{loaded.title}: {len(loaded.groups)} groups, {words} words, {languages}",
        *([f"{problem.kind}: {problem.text}" for problem in problems] or ["nothing is missing"]),
    )
    if errors:
        raise InputError(f"axis '{loaded.id}' has {len(errors)} error(s), first: {errors[0].text}")


def models(as_json: shared.Json = False) -> None:
    """List the embedded models and how to name others."""
    from evenli.audit.models import embedded_models
    from evenli.audit.models.callables import KINDS
    from evenli.core.registry import MODELS

    embedded = embedded_models()
    if as_json:
        entries = [{"name": m.name, "lang": m.lang, "path": str(m.path), "card": m.card} for m in embedded]
        terminal.print_json({"embedded": entries, "fakes": KINDS, "backends": [*MODELS]})
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
        from evenli.audit.suites.coal.pairs import check_file

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
