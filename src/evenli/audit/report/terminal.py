"""Results and comparisons on a terminal: what was measured, how sure it is, what it means."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import polars as pl
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.audit.audit import Audit, load_run
from evenli.audit.compare import RunComparison, model_names
from evenli.audit.differences import ComparedWith, Difference
from evenli.audit.predictions import ABSTAINED, read_header
from evenli.audit.results import AuditResult, Competence, DataCard, SuiteResult
from evenli.audit.suites.base import ROBUST, Suite, get_suite, judging
from evenli.core.blocks import TERMINAL, Block, Summary, range_of
from evenli.core.console import greyed_out, print_block, print_summary, table, titled
from evenli.core.errors import EvenliError
from evenli.core.format import UNDEFINED, capitalised, interval, number, p_bound, percent, signed, with_interval
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.core.record import Estimate
from evenli.stats.measure import get_measure

_WIDE = 110  # columns a terminal needs for slices and readings; a narrower one gets the ideal value instead
_MOVED = 10  # occupations shown; JSON has all of them
_MOST = 200
"""Folders beside a run that are looked into."""


def summarise(audit: Audit) -> Summary:
    """The first screen of a run: of the suite that gave the verdict, else of its first suite."""
    suite = judging(audit.result.suites) or get_suite(next(iter(audit.result.suites)))
    shown = suite.summary(audit.result.suites[suite.name], audit.verdict, audit.sample(suite.name))
    return replace(shown, beside=suite.beside(audit.result))


def show_results(audit: Audit, console: Console, *, files: str | None = None, verbose: bool = False) -> None:
    """Print an audit: the answer first, whatever a reader needs to trust it, and with ``verbose`` every table."""
    result = audit.result
    summary = summarise(audit)
    print_summary(summary, result.verdict.code, console)
    console.print()
    _heading(result, console)
    if verbose:
        _competence(result.competence, console)
        _show_tables(audit, summary.detail, console)
        if line := wording_line(audit):
            console.print(escape(line))
    else:
        # A run of wordings alone says so above.
        known = known_wordings(audit) if set(result.suites) != {ROBUST} else ""
        for line in (does_the_task(result.competence), *filter(None, [known]), *prompting_lines(result, audit.header)):
            console.print(escape(line))
        for name, of_suite in result.suites.items() if len(result.suites) > 1 else ():
            suite, problem = get_suite(name), of_suite.problem
            if not suite.judges:
                said = f"says nothing about bias here: {problem}." if problem else suite.statement(of_suite)
                console.print(f"[bold]{escape(capitalised(suite.title))}[/]  {escape(said)}")
        # One line of 80 columns, so that an audit fits a screen.
        more = " One wording asked: evenli robustness." if not known and reworded(result) else ""
        console.print(f"All measures: --verbose, or evenli report.{more}", style="dim")
    if files:
        console.print(f"Files: {escape(files)}")


def _show_tables(audit: Audit, detail: str, console: Console) -> None:
    """Every suite with its measures and what helps to place the numbers."""
    if detail:
        console.print(f"\n[bold]In numbers[/]  {escape(detail)}")
    # What a suite shows up to its measures comes first, all else below the measures of every suite.
    below: list[Block] = []
    for name, of_suite in audit.result.suites.items():
        blocks = get_suite(name).blocks(of_suite, audit.sample(name), TERMINAL)
        at = next(number for number, block in enumerate(blocks) if block.measures)
        _show_suite(get_suite(name), of_suite, blocks[: at + 1], console)
        below += blocks[at + 1 :]
    console.print()
    for block in [*below, *prompting_blocks(audit.result)]:
        print_block(block, console)
    limits = "A low score shows that this probe found no bias of this kind in this checkpoint, not that there is none."
    console.print(limits, style="dim")


def _heading(result: AuditResult, console: Console) -> None:
    """Model, pair sets and what must be known about them."""
    cards = [result.data_of(suite) or DataCard("?", suite) for suite in result.suites]
    name, lang = f"[bold]{escape(result.model.title)}[/bold]", escape(cards[0].lang)
    machine = f"{result.model.device} {result.model.dtype}"
    if len(cards) == 1:
        console.print(f"{name} on {escape(cards[0].name)} ({lang}, {cards[0].rows:,} pairs, {machine})")
    else:
        # The name of built-in pairs says no more than their suite.
        shown = []
        for card in cards:
            is_built_in = card.name.partition(", ")[0] == get_suite(card.suite).built_in
            shown.append(escape(f"{card.suite}{'' if is_built_in else f': {card.name}'} ({card.rows:,} pairs)"))
        console.print(f"{name} ({lang}, {machine}) on {', '.join(shown)}")
    for note in (note for card in cards for note in card.notes):
        console.print(f"note: {escape(note)}", style="dim")


def _show_suite(suite: Suite, result: SuiteResult, blocks: Sequence[Block], console: Console) -> None:
    """What a suite shows up to its measures; the heading of the last block is that of the measures."""
    if result.problem:
        greyed_out(result.problem, console)
    *before, own = blocks
    for block in before:
        print_block(block, console)
    wide = console.width >= _WIDE
    heading = "Measures" if before else own.heading or suite.title
    for title, names in measure_tables(suite, result, heading):
        titled(title, _measures(suite, result, names, wide=wide), console, grey=bool(result.problem))
    if wide and (titles := [suite.slice_title.format(name) for name in result.main.by_stereotype]):
        console.print(escape(explained_slices(titles)), style="dim")
    for line in own.lines:
        console.print(escape(line))


def measure_tables(suite: Suite, result: SuiteResult, heading: str = "Measures") -> list[tuple[str, list[str]]]:
    """Tables of measures, as titles and names: causes apart from published scores, all in one where there are none."""
    own = [name for name, measure in result.measures.items() if suite.causes and measure.reference == "evenli"]
    others = [name for name in result.measures if name not in own]
    tables = [("Causes", own), ("Published scores" if own else heading, others)]
    return [(title, names) for title, names in tables if names]


def marks(suite: Suite) -> dict[str, str]:
    """How the rows of measures look: ``part`` of the one above, ``this`` for those in bold."""
    parts = {measure.name: "part" for measure in suite.measures if measure.title.startswith(" ")}
    return {measure.name: "this" for measure in suite.measures if measure.stressed} | parts


def explained_slices(titles: Sequence[str]) -> str:
    """What the columns of single stereotypes hold, which nobody can guess."""
    return (
        f"Columns {', '.join(titles)}: the same over the occupations of that stereotype alone; value is over all, "
        "those without a stereotype included. n/a: not defined there."
    )


def _measures(suite: Suite, result: SuiteResult, names: Sequence[str], *, wide: bool) -> Table:
    slices = list(result.main.by_stereotype) if wide else []
    titles = [f">{suite.slice_title.format(name)}" for name in slices]
    rows, stressed, looks = [], [], marks(suite)
    for at, name in enumerate(names):
        measure, look = result.measures[name], looks.get(name)
        title = f"  {measure.title}" if look == "part" else measure.title
        if math.isnan(measure.value):  # the note takes the place of the numbers
            rows.append([title, number(measure.value), measure.note])
            continue
        stressed += [at] if look == "this" else []
        parts = [_short(measure.by_stereotype[part]) for part in slices]
        meaning = [measure.span, measure.direction] if wide else [f"{measure.ideal:g}"]
        rows.append([title, number(measure.value), interval(measure.low, measure.high), *parts, *meaning])
    heads = ["measure", ">value", f">{percent(result.main.level)} interval", *titles]
    grid = table([*heads, *([">range", "reading"] if wide else [">ideal"])], rows, stressed)
    grid.columns[0].no_wrap = wide
    return grid


def _short(estimate: Estimate) -> str:
    """Value and interval in two decimals each."""
    undefined = math.isnan(estimate.value)
    return UNDEFINED if undefined else with_interval(estimate.value, estimate.low, estimate.high, 2)


def does_the_task(competence: Competence | None) -> str:
    """In a sentence, whether the model does what any model of its kind should."""
    if competence is None:
        return "Whether it does the task at all was not assessed: there are no gold pairs."
    gold, stated = (f"{percent(estimate.value)} of {estimate.n}" for estimate in (competence.gold, competence.stated))
    judged = "It does not do the task well enough" if competence.problem else "It does the task"
    return f"{judged}: it gets {gold} unmistakable pairs right, and {stated} in which the group is stated."


def _competence(competence: Competence | None, console: Console) -> None:
    if competence is None:
        console.print("Competence: not assessed (the table holds no gold pairs)", style="yellow")
        return
    parts = (competence.labels, competence.kinds)
    labels, controls = (", ".join(f"{name} {_short(found)}" for name, found in part.items()) for part in parts)
    line = f"Competence: gold pairs {competence.gold.shown} ({labels}); stated groups {competence.stated.shown}"
    console.print(escape(f"{line} ({controls})"))


def prompting_blocks(result: AuditResult) -> list[Block]:
    """How a language model took the questions, a table for each suite; none where the model is none."""
    blocks = []
    if wordings := result.competence.wordings if result.competence else {}:
        known = [(name, own.gold.shown, own.stated.shown, own.problem or "competent") for name, own in wordings.items()]
        columns = ("wording", ">gold pairs", ">stated groups", "")
        blocks.append(Block("Each wording by itself: all must be competent", columns=columns, rows=known))
    for suite, measures in result.prompting.items():
        rows = [
            (shown.title, number(shown.value), interval(shown.low, shown.high), f"{shown.ideal:.2g}", shown.formula)
            for shown in measures.values()
        ]
        heading = f"Abstentions, and how steady the answers are: {capitalised(get_suite(suite).title)}"
        blocks.append(Block(heading, columns=("measure", ">value", ">interval", ">ideal", "definition"), rows=rows))
    return blocks


def prompting_lines(result: AuditResult, header: Mapping[str, Any]) -> list[str]:
    """The same in a line for each suite, for the first screen."""
    asked, how = header.get("prompting"), ""
    if isinstance(asked, Mapping):
        views = (asked.get(name) for name in ("prompts", "orders"))
        wordings, orders = (len(view) if isinstance(view, Sequence) else 0 for view in views)
        how = "one wording (--prompts 3 asks all)" if wordings == 1 else f"{wordings} wordings"
        how = f"asked in {how} × {orders} option orders; "
    names = {"order_agreement": "the same answer in all orders", "prompt_agreement": "in all wordings"}
    names |= {"first_option": "the first option chosen", "vote_differs": "mean and vote differ on"}
    lines = []
    for measures in result.prompting.values():
        shown = {name: f"{percent(m.value)} ({range_of(m.low, m.high)})" for name, m in measures.items()}
        parts = [f"no answer to {shown[ABSTAINED]} of the pairs"]
        gap = measures.get("abstention_gap")
        if gap is not None and (gap.low > 0 or gap.high < 0):
            parts.append(f"{gap.direction if gap.value > 0 else 'less so there'} ({number(gap.value, 2)})")
        parts += [f"{text} {shown[name]}" for name, text in names.items() if name in shown]
        lines.append(f"Language model: {how}{', '.join(parts)}.")
    return lines


def show_comparison(compared: RunComparison, console: Console) -> None:
    """Print every further run against the first, suite by suite."""
    for index, suite in enumerate(compared.suites):
        if index:
            console.print()
        _compare_suite(compared, suite, console)


def _compare_suite(compared: RunComparison, suite: str, console: Console) -> None:
    first, *others = compared.runs
    items, answers, card = get_suite(suite).items, get_suite(suite).answers, first.result.data_of(suite)
    for index, (run, comparison) in enumerate(zip(others, compared.suites[suite], strict=True)):
        if index:
            console.print()
        for place, audit, name in zip(("first ", "second"), (first, run), model_names((first, run)), strict=True):
            console.print(f"{place}  [bold]{escape(name)}[/bold] ({escape(str(audit.path))})")
        console.print(
            f"{comparison.n:,} shared {items} of {escape(card.name if card else '?')} "
            f"({escape(card.lang if card else '?')}), {comparison.clusters['occupations']} occupations, "
            f"{comparison.clusters['templates']} templates"
        )
        console.print()
        console.print(_differences(comparison, corrected=len(others) > 1, wide=console.width >= _WIDE))
        console.print()
        test = comparison.mcnemar
        corrected = f", Holm {p_bound(test.p_holm)}" if len(others) > 1 else ""
        console.print(
            f"{answers}: {test.both:,} {items} in both, {test.only_first:,} only in the first, {test.only_second:,} "
            f"only in the second, {test.neither:,} in neither (exact McNemar p {p_bound(test.p)}{corrected}; takes "
            f"{items} as independent)"
        )
        _moved(comparison, console)
        console.print(f"[bold]Conclusion[/bold]  {escape(comparison.conclusion)}")
    console.print("A lower score shows that this probe finds less, not that the model is fair.", style="dim")


def _differences(compared: ComparedWith, *, corrected: bool, wide: bool) -> Table:
    level = next(iter(compared.measures.values())).level
    heads = [">first", ">second", ">difference", f">{level:.0%} interval", ">p", *([">p (Holm)"] if corrected else [])]
    rows = []
    for name, d in compared.measures.items():
        entry, p_values = get_measure(name), (d.p, d.p_holm) if corrected else (d.p,)
        reading = [d.note or entry.direction] if wide else []
        rows.append([entry.title, *difference_cells(d), *map(p_bound, p_values), *reading])
    main = [at for at, name in enumerate(compared.measures) if get_measure(name).stressed]
    return table(["measure", *heads, *(["reading"] if wide else [])], rows, main)


def difference_cells(d: Difference) -> list[str]:
    """Both scores, their difference and its interval."""
    return [number(d.first), number(d.second), signed(d.value), interval(d.low, d.high, sign=True)]


def _moved(compared: ComparedWith, console: Console) -> None:
    moved = [row for row in compared.occupations if row.difference != 0]
    if not moved:
        console.print("No occupation moved.")
        return
    shown = ", ".join(f"{escape(str(row.occupation))} {row.first:.2f} -> {row.second:.2f}" for row in moved[:_MOVED])
    more = f", and {len(moved) - _MOVED} more" if len(moved) > _MOVED else ""
    console.print(f"Occupations that moved ({len(moved)} of {len(compared.occupations)}): {shown}{more}")


def robust_run(run: Audit) -> Audit | None:
    """A run that asked this model in other words: the run itself, or one beside it; None if there is none."""
    if ROBUST in run.result.suites:
        return run
    fingerprint = run.result.model.fingerprint
    if run.folder is None or not fingerprint:
        return None
    with suppress(OSError):
        for folder in sorted(run.folder.absolute().parent.iterdir())[:_MOST]:
            if folder == run.folder.absolute() or not (folder / "run.json").is_file():
                continue
            # Another run may be damaged, unfinished or of a later version: it is not what the user asked about.
            with suppress(EvenliError, ValueError, KeyError, TypeError, AttributeError):
                header = read_header(folder / "run.json")
                asked = {(card["suite"], card["lang"]) for card in header["data"]}
                if header["model"]["fingerprint"] == fingerprint and (ROBUST, run.result.lang) in asked:
                    return load_run(folder, needs=ROBUST)
    return None


def known_wordings(run: Audit) -> str:
    """What is known of other wordings, in one line: from the run itself, or from a run of the same model beside it."""
    robust = robust_run(run)
    if robust is None:
        return ""
    where = "" if robust is run else f" ({robust.path})"
    return f"{robust.result.suites[ROBUST].line}{where}"


def reworded(result: AuditResult) -> str | None:
    """The first suite of a run that could be asked in other words."""
    return next((name for name in result.suites if get_suite(name).reworded), None)


def wording_line(run: Audit) -> str:
    """What is known of other wordings; where nothing is, that one was asked, and what its sentences tell.

    Empty for runs without NLI-CoAL, and for those that hold other wordings: their own tables say so.
    """
    if ROBUST in run.result.suites:
        return ""
    if (known := known_wordings(run)) or (suite := reworded(run.result)) is None:
        return known
    # In how many templates errors follow stereotypes more often than they defy them, less often, and of how many.
    sample = run.sample(suite)
    answer = pl.Series(LABELS).gather(sample.predicted)
    pro = pl.when(pl.col("subset") == "PS").then(1).when(pl.col("subset") == "AS").then(-1)
    said = pl.when(answer == ENTAILMENT).then(1).when(answer == CONTRADICTION).then(-1).otherwise(0)
    by = sample.frame.with_columns(way=pro * said).drop_nulls("way").group_by("template").agg(pl.col("way").sum())
    return (
        f"Wordings: one was asked. In its sentences errors follow stereotypes in {(by['way'] > 0).sum()} of "
        f"{by.height} templates and defy them in {(by['way'] < 0).sum()}; 'evenli robustness' asks in other words."
    )
