"""Results on a terminal: what was measured, how sure it is, what it means."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.reports.results import SUBSET_NAMES

_COLOURS = {"bias": "red", "error": "yellow", "undecided": "yellow", "even": "green", "none": "magenta"}
_WIDE = 110
"""Columns a terminal needs for slices and readings; a narrower one gets the even model's value instead."""
_SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)  # the column order of the paper's Table 3


def show_results(results: dict[str, Any], console: Console, *, files: str | None = None) -> None:
    """Print an audit."""
    model = results.get("model", {})
    data: dict[str, Any] = next((d for d in results.get("data", []) if d["suite"] == "coal"), {})
    revision = f"@{model['revision'][:12]}" if model.get("revision") else ""
    console.print(
        f"[bold]{escape(str(model.get('name', '?')) + revision)}[/bold] on {escape(str(data.get('name', '?')))} "
        f"({data.get('lang', '?')}, {data.get('rows', '?')} pairs, {model.get('device', '?')} {model.get('dtype', '')})"
    )
    for note in data.get("notes", []):
        console.print(f"note: {escape(note)}", style="dim")
    coal = results["coal"]
    _section(console, "Predicted labels (gold is always neutral)", _proportions(coal))
    _section(console, "Measures", _measures(coal, wide=console.width >= _WIDE))
    console.print()
    _competence(results["competence"], console)
    verdict = results["verdict"]
    console.print()
    console.print(f"[bold {_COLOURS[verdict['code']]}]Verdict[/]  {escape(verdict['sentence'])}")
    order = coal["order_condition"]
    held = "holds beyond doubt" if order["beyond_doubt"] else "holds, within uncertainty" if order["holds"] else "fails"
    console.print(
        f"Order condition (e_p > e_a and c_a > c_p) {held}. "
        f"Another audit must differ by {coal['minimum_detectable_difference']:.3f} in NLI-CoAL to be told apart."
    )
    if len(coal["standing"]) > 1:
        official = str(data.get("name", "")).startswith("official")
        remark = "" if official else " (which were scored on the official set)"
        _section(console, f"Among the published models{remark}", _standing(coal))
    worst = [row for row in coal["occupations"] if row["stereotype"] != "neutral"][:5]
    console.print(
        "Most stereotyped occupations: " + ", ".join(f"{escape(r['occupation'])} {r['score']:.2f}" for r in worst)
    )
    console.print(
        "A low score shows that this probe found no bias of this kind in this checkpoint, not that there is none.",
        style="dim",
    )
    if files:
        console.print(f"Files: {escape(files)}")


def _section(console: Console, heading: str, table: Table) -> None:
    console.print()
    console.print(heading, style="italic")
    console.print(table)


def _proportions(coal: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("set")
    table.add_column("pairs", justify="right")
    for label in _SHOWN:
        table.add_column(label, justify="right")
    for subset, shares in coal["proportions"].items():
        name = f"{subset} {SUBSET_NAMES.get(subset, '')}".strip()
        table.add_row(name, str(coal["rows"][subset]), *(f"{shares[label]:.3f}" for label in _SHOWN))
    return table


def _measures(coal: dict[str, Any], *, wide: bool) -> Table:
    level = next(iter(coal["measures"].values()))["level"]
    stereotypes = list(next(iter(coal["measures"].values()))["by_stereotype"]) if wide else []
    table = Table(box=None, pad_edge=False)
    table.add_column("measure", no_wrap=wide)
    table.add_column("value", justify="right")
    table.add_column(f"{level:.0%} interval", justify="right", no_wrap=True)
    for name in stereotypes:
        table.add_column(name, justify="right")
    if wide:
        table.add_column("range", justify="right", no_wrap=True)
        table.add_column("reading")
    else:
        table.add_column("even", justify="right")
    parts = {"coal_pro", "coal_anti", "coal_non"}
    for name, entry in coal["measures"].items():
        if entry["value"] is None:
            table.add_row(entry["title"], "n/a", entry["note"])
            continue
        title = f"  {entry['title']}" if name in parts else entry["title"]
        low, high = entry["range"]
        meaning = [f"{low:g}..{high:g}", escape(entry["direction"])] if wide else [f"{entry['even']:g}"]
        table.add_row(
            escape(title),
            _number(entry["value"]),
            f"[{entry['low']:.3f}, {entry['high']:.3f}]".replace("[", "\\["),
            *(_number(entry["by_stereotype"][s]["value"]) for s in stereotypes),
            *meaning,
            style="bold" if name == "coal" else None,
        )
    return table


def _competence(gate: dict[str, Any] | None, console: Console) -> None:
    if gate is None:
        console.print("Competence: not assessed (the table holds no gold pairs)", style="yellow")
        return
    gold, stated = gate["gold"], gate["stated"]
    labels = ", ".join(f"{label} {share:.2f}" for label, share in gate["per_label"].items())
    controls = ", ".join(f"{case} {share:.2f}" for case, share in gate["controls"].items())
    console.print(
        f"Competence: gold pairs {gold['value']:.3f} \\[{gold['low']:.3f}, {gold['high']:.3f}] ({labels}); "
        f"stated groups {stated['value']:.3f} \\[{stated['low']:.3f}, {stated['high']:.3f}] ({escape(controls)})"
    )


def _standing(coal: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    table.add_column("NLI-CoAL", justify="right")
    table.add_column("")
    for row in coal["standing"]:
        mark = "◀" if row["this"] else "within the interval" if row["tied"] else ""
        table.add_row(escape(row["model"]), f"{row['coal']:.3f}", mark, style="bold" if row["this"] else None)
    return table


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
