"""A comparison for people and machines."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.errors import InputError
from evenli.measures import get_measure
from evenli.measures.comparison import Comparison, Difference, align, compare
from evenli.reports.stored import StoredRun

MOVED = 10
"""Occupations shown on a terminal; JSON has all of them."""


def compare_runs(runs: Sequence[StoredRun], *, resamples: int = 2000, seed: int = 0) -> list[Comparison]:
    """Compare every further run with the first; runs on different data are refused by name."""
    first, *others = runs
    for other in others:
        try:
            align(first.predictions.suite("coal"), other.predictions.suite("coal"))
        except InputError as error:
            raise InputError(f"cannot compare {first.path} with {other.path}: {error}") from error
    second, *more = (other.predictions for other in others)
    return compare(first.predictions, second, *more, resamples=resamples, seed=seed)


def comparison_json(runs: Sequence[StoredRun], found: Sequence[Comparison]) -> dict[str, Any]:
    """Plain values; undefined numbers are null."""
    first, *others = runs
    return {
        "first": _label(first),
        "data": first.data,
        "comparisons": [
            {
                **_label(run),
                "conclusion": conclude(first, run, one),
                "n": one.n,
                "clusters": one.clusters,
                "measures": {name: _plain(asdict(d)) for name, d in one.measures.items()},
                "mcnemar": _plain(asdict(one.mcnemar)),
                "occupations": [_plain(row) for row in one.occupations.to_dicts()],
            }
            for run, one in zip(others, found, strict=True)
        ],
    }


def conclude(first: StoredRun, second: StoredRun, found: Comparison) -> str:
    """One sentence that the interval of NLI-CoAL allows."""
    mute = [run for run in (first, second) if run.results["verdict"]["code"] == "none"]
    if mute:
        who = " and ".join(f"{run.model} ({run.path})" for run in mute)
        verb = "are" if len(mute) > 1 else "is"
        return f"No conclusion: {who} {verb} not competent at this task, so the score does not speak of bias."
    coal = found.measures["coal"]
    if math.isnan(coal.value):
        return f"No conclusion: NLI-CoAL is {coal.note}."
    numbers = (
        f"NLI-CoAL {coal.first:.3f} -> {coal.second:.3f}, difference {coal.value:+.3f} "
        f"[{coal.low:+.3f}, {coal.high:+.3f}], {_p(coal)}"
    )
    if not coal.is_clear:
        return f"The two cannot be told apart: {numbers}."
    direction = "higher" if coal.value > 0 else "lower"
    return f"The second scores {direction} ({'more' if coal.value > 0 else 'less'} biased): {numbers}."


def show_comparison(runs: Sequence[StoredRun], found: Sequence[Comparison], console: Console) -> None:
    """Print every further run against the first."""
    first, *others = runs
    for number, (run, one) in enumerate(zip(others, found, strict=True)):
        if number:
            console.print()
        console.print(f"first   [bold]{escape(first.model)}[/bold] ({escape(str(first.path))})")
        console.print(f"second  [bold]{escape(run.model)}[/bold] ({escape(str(run.path))})")
        console.print(
            f"{one.n:,} shared items of {escape(str(first.data.get('name', '?')))} "
            f"({escape(str(first.data.get('lang', '?')))}), {one.clusters['occupations']} occupations, "
            f"{one.clusters['templates']} templates"
        )
        console.print()
        console.print(_measures(one, corrected=len(others) > 1))
        console.print()
        test = one.mcnemar
        corrected = f", Holm {_small(test.p_holm)}" if len(others) > 1 else ""
        console.print(
            f"Biased answers: {test.both:,} items in both, {test.only_first:,} only in the first, {test.only_second:,} "
            f"only in the second, {test.neither:,} in neither (exact McNemar p {_small(test.p)}{corrected}; takes "
            "items as independent)"
        )
        _moved(one, console)
        console.print(f"[bold]Conclusion[/bold]  {escape(conclude(first, run, one))}")
    console.print("A lower score shows that this probe finds less, not that the model is fair.", style="dim")


def _measures(found: Comparison, *, corrected: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    level = next(iter(found.measures.values())).level
    table.add_column("measure")
    for name in ("first", "second", "difference", f"{level:.0%} interval", "p", *(["p (Holm)"] if corrected else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reading")
    for name, d in found.measures.items():
        entry = get_measure(name)
        if d.note:
            table.add_row(escape(entry.title), "n/a", "n/a", "n/a", "", "", *([""] if corrected else []), d.note)
            continue
        table.add_row(
            escape(entry.title),
            f"{d.first:.3f}",
            f"{d.second:.3f}",
            f"{d.value:+.3f}",
            escape(f"[{d.low:+.3f}, {d.high:+.3f}]"),
            _small(d.p),
            *([_small(d.p_holm)] if corrected else []),
            escape(entry.direction),
            style="bold" if name == "coal" else None,
        )
    return table


def _moved(found: Comparison, console: Console) -> None:
    moved = found.occupations.filter(found.occupations["difference"] != 0)
    if not moved.height:
        console.print("No occupation moved.")
        return
    shown = ", ".join(
        f"{escape(str(row['occupation']))} {row['first']:.2f} -> {row['second']:.2f}"
        for row in moved.head(MOVED).iter_rows(named=True)
    )
    more = f", and {moved.height - MOVED} more" if moved.height > MOVED else ""
    console.print(f"Occupations that moved ({moved.height} of {found.occupations.height}): {shown}{more}")


def _label(run: StoredRun) -> dict[str, Any]:
    return {"run": str(run.path), "model": run.model, "verdict": run.results["verdict"]["code"]}


def _p(difference: Difference) -> str:
    if difference.p == difference.p_holm:
        return f"p {_small(difference.p)}"
    return f"p {_small(difference.p)}, corrected {_small(difference.p_holm)}"


def _small(p: float) -> str:
    return f"{p:.4f}" if p >= 0.0001 else "< 0.0001"


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    # p-values keep their digits: a McNemar p of 1e-30 is not 0.
    return {
        key: (None if math.isnan(v) else v if key in {"p", "p_holm"} else round(v, 6)) if isinstance(v, float) else v
        for key, v in row.items()
    }
