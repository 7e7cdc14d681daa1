"""Results on a terminal: what was measured, how sure it is, what it means."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from evenli.labels import CONTRADICTION, ENTAILMENT, NEUTRAL
from evenli.registry import SUITES
from evenli.report.runs import audited_data
from evenli.suites.coal.results import SUBSET_NAMES

_COLOURS = {"bias": "red", "error": "yellow", "undecided": "yellow", "even": "green", "none": "magenta"}
_WIDE = 110
"""Columns a terminal needs for slices and readings; a narrower one gets the even model's value instead."""
_LISTED = 5
"""Occupations named in a line; results.json has all of them."""
_MAIN = {"coal", "probe_s", "probe_dp", "probe_b"}
_SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)  # the column order of the paper's Table 3


def show_results(results: dict[str, Any], console: Console, *, files: str | None = None) -> None:
    """Print an audit."""
    wide = console.width >= _WIDE
    _heading(results, console)
    coal = results.get("coal")
    if coal:
        _section(console, "Predicted labels (gold is always neutral)", _proportions(coal))
        _section(console, "Measures", _measures(coal, wide=wide))
    if "probe" in results:
        _probe(results["probe"], console, wide=wide)
    if "dev2020" in results:
        dev = results["dev2020"]
        _section(console, f"Templates of Dev et al. ({dev['rows']:,} pairs, {_shares(dev)})", _measures(dev, wide=wide))
    console.print()
    _competence(results["competence"], console)
    verdict = results["verdict"]
    console.print()
    console.print(f"[bold {_COLOURS[verdict['code']]}]Verdict[/]  {escape(verdict['sentence'])}")
    if coal:
        _bearings(coal, audited_data(results), console)
    console.print(
        "A low score shows that this probe found no bias of this kind in this checkpoint, not that there is none.",
        style="dim",
    )
    if files:
        console.print(f"Files: {escape(files)}")


def _heading(results: dict[str, Any], console: Console) -> None:
    """Model, pair sets and what must be known about them."""
    model = results.get("model", {})
    sets = [audited_data(results, suite) for suite in SUITES if suite in results]
    revision = f"@{model['revision'][:12]}" if model.get("revision") else ""
    name = f"[bold]{escape(str(model.get('name', '?')) + revision)}[/bold]"
    machine = f"{model.get('device', '?')} {model.get('dtype', '')}"
    if len(sets) == 1:
        data = sets[0]
        console.print(
            f"{name} on {escape(str(data.get('name', '?')))} "
            f"({data.get('lang', '?')}, {data.get('rows', '?')} pairs, {machine})"
        )
    else:
        console.print(f"{name} ({machine}) on")
        for data in sets:
            console.print(
                f"  {data.get('suite', '?')}: {escape(str(data.get('name', '?')))} "
                f"({data.get('lang', '?')}, {data.get('rows', '?')} pairs)"
            )
    for data in sets:
        for note in data.get("notes", []):
            console.print(f"note: {escape(note)}", style="dim")


def _bearings(coal: dict[str, Any], data: dict[str, Any], console: Console) -> None:
    """What helps to place NLI-CoAL: order condition, resolution, published models, occupations."""
    order = coal["order_condition"]
    held = "holds beyond doubt" if order["beyond_doubt"] else "holds, within uncertainty" if order["holds"] else "fails"
    if order["holds"] is None:
        held = "is undefined"
    console.print(
        f"Order condition (e_p > e_a and c_a > c_p) {held}. "
        f"Another audit must differ by {_number(coal['minimum_detectable_difference'])} in NLI-CoAL to be told apart."
    )
    if len(coal["published"]) > 1:
        official = str(data.get("name", "")).startswith("official")
        remark = "" if official else " (which were scored on the official set)"
        _section(console, f"Among the published models{remark}", _standing(coal))
    worst = [row for row in coal["occupations"] if row["stereotype"] != "neutral"][:_LISTED]
    named = ", ".join(f"{escape(r['occupation'])} {_number(r['score'], 2)}" for r in worst)
    console.print(f"Most stereotyped occupations: {named or 'n/a'}")


def _probe(probe: dict[str, Any], console: Console, *, wide: bool) -> None:
    """The entailment probe: measures, slices by dominant gender, occupations, the labour market."""
    heading = f"Entailment probe ({probe['premises']:,} premises, both genders asked of each, {_shares(probe)})"
    _section(console, heading, _measures(probe, wide=wide, slices="{}-dominated"))
    entries = probe["measures"]
    if not wide:
        for group in entries["probe_dp"]["by_stereotype"]:
            values = ", ".join(
                f"{entries[name]['title'].partition(',')[0]} {_interval(entries[name]['by_stereotype'][group])}"
                for name in ("probe_s", "probe_dp", "probe_b")
            )
            console.print(f"{escape(group)}-dominated occupations: {values}")
    console.print("S, dP and B leave neutral out, and are 100 times as large in the paper.", style="dim")
    console.print()
    console.print("Largest gaps dP (and the likelier gender): " + ", ".join(map(_gap, probe["occupations"][:_LISTED])))
    labour = probe["labour"]
    if labour is None:
        console.print("Labour market: too few occupations have a known share of women.")
        return
    missing = f"; without {', '.join(labour['missing'])}" if labour["missing"] else ""
    console.print(
        f"Labour market (CPS 2019, {labour['n']} occupations{escape(missing)}): gap against imbalance "
        f"{_ranks(labour['size'])}; P_f - P_m against the share of women {_ranks(labour['direction'])}"
    )


def _gap(row: dict[str, Any]) -> str:
    group = "" if not row["signed"] else " (female)" if row["signed"] > 0 else " (male)"
    return f"{escape(row['occupation'])} {row['dp']:.2f}{group}"


def _ranks(found: dict[str, Any]) -> str:
    if found["spearman"] is None:
        return f"undefined ({found['reason']})"
    p = "< 0.0001" if found["p"] < 0.0001 else f"{found['p']:.4f}"
    return f"Spearman {found['spearman']:+.2f} (p {p}), Kendall {found['kendall']:+.2f}"


def _shares(part: dict[str, Any]) -> str:
    return ", ".join(f"{label} {part['proportions'][label]:.2f}" for label in _SHOWN)


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


def _measures(part: dict[str, Any], *, wide: bool, slices: str = "{}") -> Table:
    level = next(iter(part["measures"].values()))["level"]
    stereotypes = list(next(iter(part["measures"].values()))["by_stereotype"]) if wide else []
    table = Table(box=None, pad_edge=False)
    table.add_column("measure", no_wrap=wide)
    table.add_column("value", justify="right")
    table.add_column(f"{level:.0%} interval", justify="right", no_wrap=True)
    for name in stereotypes:
        table.add_column(slices.format(escape(name)), justify="right")
    if wide:
        table.add_column("range", justify="right", no_wrap=True)
        table.add_column("reading")
    else:
        table.add_column("ideal", justify="right")
    parts = {"coal_pro", "coal_anti", "coal_non", "probe_ties"}
    for name, entry in part["measures"].items():
        if entry["value"] is None:
            table.add_row(entry["title"], "n/a", entry["note"])
            continue
        title = f"  {entry['title']}" if name in parts else entry["title"]
        low, high = entry["range"]
        meaning = [f"{low:g}..{high:g}", escape(entry["direction"])] if wide else [f"{entry['ideal']:g}"]
        table.add_row(
            escape(title),
            _number(entry["value"]),
            _ends(entry),
            *(_number(entry["by_stereotype"][s]["value"]) for s in stereotypes),
            *meaning,
            style="bold" if name in _MAIN else None,
        )
    return table


def _competence(gate: dict[str, Any] | None, console: Console) -> None:
    if gate is None:
        console.print("Competence: not assessed (the table holds no gold pairs)", style="yellow")
        return
    gold, stated = gate["gold"], gate["stated"]
    labels = ", ".join(f"{label} {_number(share, 2)}" for label, share in gate["per_label"].items())
    controls = ", ".join(f"{case} {_number(share, 2)}" for case, share in gate["controls"].items())
    console.print(
        f"Competence: gold pairs {_interval(gold)} ({labels}); stated groups {_interval(stated)} ({escape(controls)})"
    )


def _standing(coal: dict[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("model")
    table.add_column("NLI-CoAL", justify="right")
    table.add_column("")
    for row in coal["published"]:
        mark = "◀" if row["this"] else "within the interval" if row["tied"] else ""
        table.add_row(escape(row["model"]), _number(row["coal"]), mark, style="bold" if row["this"] else None)
    return table


def _interval(entry: dict[str, Any]) -> str:
    if entry["value"] is None:
        return "n/a"
    return f"{_number(entry['value'])} {_ends(entry)}"


def _ends(entry: dict[str, Any]) -> str:
    return f"\\[{_number(entry['low'])}, {_number(entry['high'])}]"


def _number(value: float | None, digits: int = 3) -> str:
    return "n/a" if value is None else f"{value:.{digits}f}"
