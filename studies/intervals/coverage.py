"""Do 95 % intervals hold the truth in 95 % of cases? Simulation on the design of NLI-CoAL.

Every simulation draws words, sentences and their effects anew, lets a made-up model answer the pairs, and asks the
estimators of evenli for intervals. The truth is what the measure gives at the means over all simulations. Usage::

    python -m studies.intervals.coverage --simulations 400 --seed 81 --json > rows.jsonl
    python -m studies.intervals.coverage --stored rows.jsonl
    python -m studies.intervals.coverage --simulations 200 --only female --scenarios
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from evenli.audit.suites.coal.results import by_occupation
from evenli.core.io import to_plain
from evenli.stats.intervals import estimate_difference, estimate_measures
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from studies.intervals.scenarios import Scenario, fresh, known
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
            rows.append(_row(entry.name, tally, truth))
    return rows


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
        "measure": "share of biased answers",
        "truth": None,
        "coverage": float(np.mean(covered)),
        "se_ratio": None,
        "rejected": None,
        "zero_width": zero_width,
        "simulations": simulations,
    }


def _row(measure: str, tally: Tally, truth: float) -> dict[str, Any]:
    low, high = np.array(tally.ends).T
    return {
        "measure": measure,
        "truth": truth,
        "coverage": float(np.mean((low <= truth) & (truth <= high))),
        "se_ratio": float(np.mean(tally.errors) / np.std(tally.values)),
        "rejected": float(np.mean(np.array(tally.p) < 0.05)) if tally.p else None,
        "zero_width": int((low == high).sum()),
        "simulations": len(low),
    }


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--measures", default="", help="with commas; default: all")
    parser.add_argument("--scenarios", action="store_true", help="one line per scenario, not per kind of scenario")
    parser.add_argument("--json", action="store_true", help="a line of JSON per coverage, as soon as it is known")
    parser.add_argument("--stored", type=Path, help="print what --json gave before; simulate nothing")
    options = parser.parse_args()
    if options.stored:
        rows = [json.loads(line) for line in options.stored.read_text(encoding="utf-8").splitlines()]
    else:
        names = tuple(filter(None, options.measures.split(",")))
        offered = [(one, "known") for one in known()] + [(one, "fresh") for one in fresh()]
        chosen = [(replace(one, names=names), made) for one, made in offered if options.only in one.name]
        if not chosen or options.simulations < 2:
            parser.error("no scenario with that name, or fewer than 2 simulations")
        rows = _run(chosen, options)
    if not options.json:
        _print(rows, "scenario" if options.scenarios else "kind")


def _run(chosen: Sequence[tuple[Scenario, str]], options: argparse.Namespace) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    with Progress(disable=options.json, console=Console(stderr=True)) as progress:
        task = progress.add_task("simulating", total=options.simulations * len(chosen))
        for scenario, made in chosen:
            named = {"made": made, "kind": scenario.kind, "scenario": scenario.name}
            found = simulate(scenario, options.simulations, options.seed, lambda: progress.advance(task))
            rows += [named | row for row in found]
            for row in rows[-len(found) :] if options.json else ():
                print(json.dumps(to_plain(row)), flush=True)
    return rows


def _print(rows: Sequence[dict[str, Any]], by: str) -> None:
    print(f"| made | {by} | cells | mean | lowest | highest | below 93 % | above 97 % | true null rejected |")
    print("|---|---|---|---|---|---|---|---|---|")
    parts: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        parts.setdefault((row["made"], row[by]), []).append(row)
    for (made, name), part in [*parts.items(), (("", "all"), list(rows))]:
        shares = [row["coverage"] for row in part]
        ends = (
            f"{row['coverage']:.1%} ({row['measure']})" for row in (min(part, key=_covered), max(part, key=_covered))
        )
        outside = sum(share < 0.93 for share in shares), sum(share > 0.97 for share in shares)
        null = [row["rejected"] for row in part if row["rejected"] is not None and "null" in row["scenario"]]
        rejected = f"{np.mean(null):.1%}" if null and name != "all" else ""
        cells = (len(part), f"{np.mean(shares):.1%}", *ends, *outside, rejected)
        print(f"| {made} | {name} | {' | '.join(map(str, cells))} |")


def _covered(row: dict[str, Any]) -> float:
    return float(row["coverage"])


if __name__ == "__main__":
    main()
