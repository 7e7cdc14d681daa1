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
from evenli.evaluate.compare import Comparison, Difference, align, compare
from evenli.evaluate.stored import StoredRun, audited_data
from evenli.stats.measure import get_measure

MOVED = 10
"""Occupations shown on a terminal; JSON has all of them."""
COMPARED = ("coal", "probe")
"""Suites that can be compared: those whose items have an answer that a biased model gives."""
_ITEMS = {"coal": ("items", "Biased answers"), "probe": ("premises", "Dominant gender more likely")}


def shared_suites(runs: Sequence[StoredRun]) -> list[str]:
    """The suites that all runs hold and that can be compared; runs without one are refused."""
    held = [set(run.suites) for run in runs]
    shared = [suite for suite in COMPARED if all(suite in suites for suites in held)]
    if not shared:
        listed = "; ".join(f"{run.path} holds {', '.join(run.suites)}" for run in runs)
        raise InputError(f"the runs share no suite that can be compared ({', '.join(COMPARED)}): {listed}")
    return shared


def compare_runs(
    runs: Sequence[StoredRun], *, suite: str = "coal", resamples: int = 2000, seed: int = 0
) -> list[Comparison]:
    """Compare every further run with the first; runs on different data are refused by name."""
    first, *others = runs
    for other in others:
        try:
            align(first.predictions.suite(suite), other.predictions.suite(suite), suite)
        except InputError as error:
            raise InputError(f"cannot compare {first.path} with {other.path}: {error}") from error
    second, *more = (other.predictions for other in others)
    return compare(first.predictions, second, *more, suite=suite, resamples=resamples, seed=seed)


def comparison_json(
    runs: Sequence[StoredRun], found: Sequence[Comparison], probe: Sequence[Comparison] = ()
) -> dict[str, Any]:
    """Plain values; undefined numbers are null.

    NLI-CoAL stands at the top, without entries if it was not compared; the probe, if compared, under ``probe``.
    """
    first, *_ = runs
    content = {"first": _label(first), "data": first.data, "comparisons": _entries(runs, found, "coal")}
    if probe:
        content["probe"] = {
            "data": audited_data(first.header, "probe"),
            "comparisons": _entries(runs, probe, "probe"),
        }
    return content


def conclude(first: StoredRun, second: StoredRun, found: Comparison, suite: str = "coal") -> str:
    """One sentence that the intervals allow: of NLI-CoAL, or of dP and B."""
    mute = [run for run in (first, second) if (run.results["competence"] or {}).get("problem")]
    if mute:
        who = " and ".join(f"{run.model} ({run.path})" for run in mute)
        verb = "are" if len(mute) > 1 else "is"
        not_shown = "not shown to be competent at this task, so the score does not speak of bias"
        return f"No conclusion: {who} {verb} {not_shown}."
    if suite == "probe":
        return _conclude_probe(found)
    coal = found.measures["coal"]
    if math.isnan(coal.value) or math.isnan(coal.low):
        return f"No conclusion about NLI-CoAL: {coal.note}."
    numbers = _numbers("NLI-CoAL", coal)
    if not coal.is_clear:
        return f"The two cannot be told apart: {numbers}."
    direction = "higher" if coal.value > 0 else "lower"
    return f"The second scores {direction} ({'more' if coal.value > 0 else 'less'} biased): {numbers}."


def show_comparison(
    runs: Sequence[StoredRun], found: Sequence[Comparison], console: Console, *, suite: str = "coal"
) -> None:
    """Print every further run against the first, on one suite."""
    first, *others = runs
    data = audited_data(first.header, suite)
    items, answers = _ITEMS[suite]
    for number, (run, one) in enumerate(zip(others, found, strict=True)):
        if number:
            console.print()
        console.print(f"first   [bold]{escape(first.model)}[/bold] ({escape(str(first.path))})")
        console.print(f"second  [bold]{escape(run.model)}[/bold] ({escape(str(run.path))})")
        console.print(
            f"{one.n:,} shared {items} of {escape(str(data.get('name', '?')))} "
            f"({escape(str(data.get('lang', '?')))}), {one.clusters['occupations']} occupations, "
            f"{one.clusters['templates']} templates"
        )
        console.print()
        console.print(_measures(one, corrected=len(others) > 1))
        console.print()
        test = one.mcnemar
        corrected = f", Holm {_small(test.p_holm)}" if len(others) > 1 else ""
        console.print(
            f"{answers}: {test.both:,} {items} in both, {test.only_first:,} only in the first, {test.only_second:,} "
            f"only in the second, {test.neither:,} in neither (exact McNemar p {_small(test.p)}{corrected}; takes "
            f"{items} as independent)"
        )
        _moved(one, console)
        console.print(f"[bold]Conclusion[/bold]  {escape(conclude(first, run, one, suite))}")
    console.print("A lower score shows that this probe finds less, not that the model is fair.", style="dim")


def _entries(runs: Sequence[StoredRun], found: Sequence[Comparison], suite: str) -> list[dict[str, Any]]:
    first, *others = runs
    return [
        {
            **_label(run),
            "conclusion": conclude(first, run, one, suite),
            "n": one.n,
            "clusters": one.clusters,
            "measures": {name: _plain(asdict(d)) for name, d in one.measures.items()},
            "mcnemar": _plain(asdict(one.mcnemar)),
            "occupations": [_plain(row) for row in one.occupations.to_dicts()],
        }
        for run, one in zip(others, found, strict=False)  # nothing found: not compared
    ]


def _conclude_probe(found: Comparison) -> str:
    """DP says whether the genders are told apart less; B, which falls with ties too, in which direction."""
    gap, lean = found.measures["probe_dp"], found.measures["probe_b"]
    if gap.is_clear:
        said = f"The second makes a {'larger' if gap.value > 0 else 'smaller'} difference between the genders"
    else:
        said = "The difference between the genders cannot be told apart"
    if lean.is_clear:
        side = f"follows the dominant gender {'more' if lean.value > 0 else 'less'} often"
        side = f"{'and' if gap.is_clear else 'but the second'} {side}"
    else:
        side = "how often the dominant gender is followed cannot be told apart"
        side = f"but {side}" if gap.is_clear else f"and {side}"
    return f"{said}, {side}: {_numbers('dP', gap)}; {_numbers('B', lean)}."


def _numbers(name: str, d: Difference) -> str:
    return f"{name} {d.first:.3f} -> {d.second:.3f}, difference {d.value:+.3f} [{d.low:+.3f}, {d.high:+.3f}], {_p(d)}"


def _measures(found: Comparison, *, corrected: bool) -> Table:
    table = Table(box=None, pad_edge=False)
    level = next(iter(found.measures.values())).level
    table.add_column("measure")
    for name in ("first", "second", "difference", f"{level:.0%} interval", "p", *(["p (Holm)"] if corrected else [])):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("reading")
    for name, d in found.measures.items():
        entry = get_measure(name)
        table.add_row(
            escape(entry.title),
            *("n/a" if math.isnan(one) else f"{one:.3f}" for one in (d.first, d.second)),
            "n/a" if math.isnan(d.value) else f"{d.value:+.3f}",
            "" if math.isnan(d.low) else escape(f"[{d.low:+.3f}, {d.high:+.3f}]"),
            "" if math.isnan(d.p) else _small(d.p),
            *(["" if math.isnan(d.p_holm) else _small(d.p_holm)] if corrected else []),
            escape(d.note or entry.direction),
            style="bold" if name in {"coal", "probe_s", "probe_dp", "probe_b"} else None,
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
