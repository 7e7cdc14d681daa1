"""Do 95 % intervals hold the truth in 95 % of cases? Simulation on the real design of NLI-CoAL.

Every simulation draws occupation, template and cell effects anew, lets a made-up model answer the pairs of the built-in
English set (or a part of it), and asks the estimators of evenli for intervals. The truth is what the measure gives at
the means over all simulations. A coverage beyond or near a limit is simulated again, with other random numbers and more
of them, and only the second result counts. Usage::

    python -m studies.intervals.coverage --simulations 1000 --again 4000 --summary
    python -m studies.intervals.coverage --simulations 200 --only female --json > rows.jsonl
    python -m studies.intervals.coverage --stored rows.jsonl --summary
    python -m studies.intervals.coverage --fresh --simulations 1000 --summary
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from scipy.special import ndtr

from evenli.audit.suites.coal.results import by_occupation
from evenli.stats.intervals import estimate_difference, estimate_measures
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from studies.intervals.scenarios import Scenario, fresh, scenarios
from studies.intervals.world import Means, World


@dataclass
class Tally:
    """What the simulations of one scenario gave for one quantity."""

    values: list[float] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    means: list[list[float]] = field(default_factory=list)


def simulate(
    scenario: Scenario, simulations: int, seed: int, step: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """Rows of the table for one scenario."""
    world, generator = World(scenario), np.random.default_rng([seed, *scenario.name.encode()])
    if scenario.by_occupation:
        return [_occupations(world, generator, simulations, step)]
    # fn_dev is 1 - fn_bias: the same interval from the other side.
    wanted = [one for one in measures("coal") if one.name != "fn_dev" and one.name in (scenario.names or one.name)]
    tallies = {(entry, name): Tally() for entry in wanted for name in scenario.slices}
    (first, *_) = world.draw(np.random.default_rng(0))
    # Some measures are undefined on a slice.
    tallies = {key: tally for key, tally in tallies.items() if np.isfinite(key[0](first, key[1]))}
    wanted = [entry for entry in wanted if any(entry is one for one, _ in tallies)]
    for _ in range(simulations):
        drawn = world.draw(generator)
        if len(drawn) == 1:
            _estimate(drawn[0], wanted, scenario.slices, tallies)
        else:
            _compare(*drawn, tallies)
        step()
    rows = []
    for (entry, name), tally in tallies.items():
        truth = 0.0 if scenario.second == scenario.lean else float(np.mean(tally.values))
        if tally.means:
            replayed = Means.of(world.sample, [], np.mean(tally.means, axis=0))
            truth = float(entry(replayed, name))
        # A number that never varies in a scenario (no p above a threshold) has no coverage.
        if np.ptp(tally.values) > 0:
            rows.append(_row(scenario, entry.name, tally, truth))
    return rows


def doubtful(row: dict[str, Any], simulations: int) -> bool:
    """Whether a coverage lies beyond a limit, or within half a standard error of one."""
    slack = 0.5 * (0.95 * 0.05 / simulations) ** 0.5
    return not 0.93 + slack <= row["coverage"] <= 0.97 - slack


def judged(
    scenario: Scenario, simulations: int, again: int, seed: int, step: Callable[[], None]
) -> list[dict[str, Any]]:
    """Rows of the table, the doubtful ones from a second round."""
    rows = simulate(scenario, simulations, seed, step)
    names = [row["measure"] for row in rows if again and doubtful(row, simulations)]
    if not names or scenario.by_occupation:
        return rows
    anew = simulate(replace(scenario, names=tuple(names)), again, seed + 1)
    by_measure = {row["measure"]: row | {"simulations": again} for row in anew}
    return [by_measure.get(row["measure"], row) for row in rows]


def _estimate(sample: Sample, wanted: Sequence[Measure], slices: Sequence[str | None], tallies: dict) -> None:
    for (name, part), estimate in estimate_measures(sample, wanted, slices).items():
        entry = next(one for one in wanted if one.name == name)
        if (entry, part) not in tallies:
            continue
        tally = tallies[entry, part]
        tally.values.append(estimate.value)
        tally.ends.append((estimate.low, estimate.high))
        tally.errors.append(estimate.se)
        written: list[float] = []
        entry(Means.of(sample, written), part)
        tally.means.append(written)


def _compare(first: Sample, second: Sample, tallies: dict) -> None:
    for (entry, _), tally in tallies.items():
        interval = estimate_difference(entry, first, second)
        tally.values.append(float(entry(second)) - float(entry(first)))
        tally.ends.append((interval.low, interval.high))
        tally.errors.append(interval.se)
        tally.p.append(interval.p)


def _occupations(
    world: World, generator: np.random.Generator, simulations: int, step: Callable[[], None]
) -> dict[str, Any]:
    covered, zero_width = [], 0
    for _ in range(simulations):
        (sample,) = world.draw(generator)
        truth = world.occupation_shares()
        for name, low, high in by_occupation(sample).select("occupation", "low", "high").iter_rows():
            covered.append(low <= truth[name] <= high)
            zero_width += low == high
        step()
    return {
        "scenario": world.scenario.name,
        "measure": "share of biased answers",
        "truth": None,
        "coverage": float(np.mean(covered)),
        "se_ratio": None,
        "rejected": None,
        "zero_width": zero_width,
        "simulations": simulations,
    }


def _row(scenario: Scenario, measure: str, tally: Tally, truth: float) -> dict[str, Any]:
    low, high = np.array(tally.ends).T
    return {
        "scenario": scenario.name,
        "measure": measure,
        "truth": truth,
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
        "se_ratio": float(np.mean(tally.errors) / np.std(tally.values)) if np.std(tally.values) else None,
        "rejected": float(np.mean(np.array(tally.p) < 0.05)) if tally.p else None,
        "zero_width": int((low == high).sum()),
        "simulations": len(low),
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--again", type=int, default=0, help="simulations of a second round for doubtful coverage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--fresh", action="store_true", help="the scenarios for validation instead")
    parser.add_argument("--measures", default="", help="with commas; default: all")
    parser.add_argument("--summary", action="store_true", help="one line per scenario: smallest to largest")
    parser.add_argument("--json", action="store_true", help="a line of JSON per coverage, as soon as it is known")
    parser.add_argument("--stored", type=Path, action="append", help="print what --json gave before; simulate nothing")
    options = parser.parse_args()
    if options.stored:
        rows = stored(options.stored)
    else:
        names = tuple(filter(None, options.measures.split(",")))
        offered = fresh() if options.fresh else scenarios()
        chosen = [replace(one, names=names) for one in offered if options.only in one.name]
        if not chosen or options.simulations < 2:
            parser.error("no scenario with that name, or fewer than 2 simulations")
        rows = _run(chosen, options)
    if not options.json:
        _summarise(rows) if options.summary else _print(rows)


def _run(chosen: Sequence[Scenario], options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with Progress(disable=options.json, console=Console(stderr=True)) as progress:
        task = progress.add_task("simulating", total=options.simulations * len(chosen))
        for scenario in chosen:
            of_scenario = judged(
                scenario, options.simulations, options.again, options.seed, lambda: progress.advance(task)
            )
            rows += of_scenario
            for row in of_scenario if options.json else ():
                print(json.dumps(row), flush=True)
    return rows


def stored(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Rows of earlier runs; of two for the same coverage the one with more simulations."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for path in paths:
        for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
            key = row["scenario"], row["measure"]
            if key not in rows or row["simulations"] > rows[key]["simulations"]:
                rows[key] = row
    return list(rows.values())


def _print(rows: Sequence[dict[str, Any]]) -> None:
    print("| scenario | measure | truth | coverage | se / true sd | null or 0 rejected |\n|---|---|---|---|---|---|")
    forms = {"truth": "{:.3f}", "coverage": "{:.1%}", "se_ratio": "{:.2f}", "rejected": "{:.1%}"}
    for row in rows:
        cells = ["" if row[key] is None else form.format(row[key]) for key, form in forms.items()]
        print(f"| {row['scenario']} | {row['measure']} | {' | '.join(cells)} |")


def _summarise(rows: Sequence[dict[str, Any]]) -> None:
    print("| scenario | measures | coverage | se / true sd | true null rejected | clearly outside 93-97 % |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["scenario"] for row in rows):
        part = [row for row in rows if row["scenario"] == name]
        outside = ", ".join(f"{row['measure']} {row['coverage']:.1%}" for row in part if not _fits(row, 2))
        rejected = _span(part, "rejected", "{:.1%}") if "null" in name else ""
        ends = (_span(part, "coverage", "{:.1%}"), _span(part, "se_ratio", "{:.2f}"), rejected)
        print(f"| {name} | {len(part)} | {' | '.join(ends)} | {outside} |")
    # So many draws put even a true 95 % outside now and then.
    chance = sum(2 * float(ndtr(-0.02 / (0.95 * 0.05 / row["simulations"]) ** 0.5)) for row in rows)
    within, clearly = (sum(_fits(row, slack) for row in rows) for slack in (0, 2))
    print(f"\n{within} of {len(rows)} between 93 and 97 %; {chance:.0f} would be outside by chance if all had 95 %.")
    print(f"{len(rows) - clearly} are outside by more than two standard errors.")


def _fits(row: dict[str, Any], errors: float = 0) -> bool:
    """Whether a coverage lies between 93 and 97 %, or outside by no more than so many standard errors."""
    low, high = (errors * (limit * (1 - limit) / row["simulations"]) ** 0.5 for limit in (0.93, 0.97))
    return bool(0.93 - low <= row["coverage"] <= 0.97 + high)


def _span(rows: Sequence[dict[str, Any]], key: str, form: str) -> str:
    values = [row[key] for row in rows if row[key] is not None]
    ends = dict.fromkeys(form.format(end) for end in (min(values), max(values))) if values else {}
    return " to ".join(ends)


if __name__ == "__main__":
    main()
