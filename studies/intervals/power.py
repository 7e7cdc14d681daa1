"""Does a paired comparison find what an audit says that it finds? Simulation on the real design of NLI-CoAL.

Two made-up models answer the same pairs; the second leans more. The difference that an audit of the first states as
detectable assumes that the two scores correlate by one half; for any other correlation it is that times
``sqrt(2 (1 - correlation))``. At that true difference ``compare`` should reject in 80 % of cases, at none in 5 %.
Usage::

    python -m studies.intervals.power --simulations 500
    python -m studies.intervals.power --simulations 100 --lists    # how small a stereotype is found, on both lists
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from evenli.stats.intervals import (
    POWER_FACTOR,
    estimate_difference,
    estimate_measures,
    minimum_detectable_difference,
)
from evenli.stats.measure import get_measure
from studies.intervals.scenarios import LEAN, Scenario
from studies.intervals.world import World


@dataclass(frozen=True)
class Power:
    """What so many comparisons gave."""

    difference: float  # the true one
    stated: float  # by audits of the first model, for models that correlate by one half
    detectable: float  # the same for the correlation that the scores have
    correlation: float  # of the scores, from the standard errors of both and of their difference
    rejected: float


def power(more: float, shared: float, simulations: int, seed: int = 0) -> Power:
    """How often a difference is found; the second model leans by ``more``, effects correlate by ``shared``."""
    world = World(Scenario("power", second=(LEAN[0] - more, LEAN[1] + more, LEAN[2] + more), shared=shared))
    generator, entry = np.random.default_rng(seed), get_measure("coal")
    values, stated, errors, rejected = [], [], [], []
    for _ in range(simulations):
        one, two = world.draw(generator)
        values.append((float(entry(one)), float(entry(two))))
        stated.append(minimum_detectable_difference(estimate_measures(one, [entry])["coal", None]))
        interval = estimate_difference(entry, one, two)
        errors.append(interval.se)
        rejected.append(interval.p < 0.05)
    first, second = np.array(values).mean(axis=0)
    typical, detectable = float(np.mean(stated)), POWER_FACTOR * float(np.mean(errors))
    correlation = 1 - (detectable / typical) ** 2 / 2
    return Power(float(second - first), typical, detectable, correlation, float(np.mean(rejected)))


def stereotype_power(
    design: str, spread: str, apart: float, simulations: int, seed: int = 0
) -> tuple[float, float, float]:
    """A true stereotype, how often its interval excludes 0, and the mean width; classes lean by ``apart`` to theirs."""
    _, _, usual = LEAN
    world = World(Scenario("power", spread=spread, lean=(usual - apart, usual + apart, usual), design=design))
    generator, entry = np.random.default_rng(seed), get_measure("stereotype")
    found = [estimate_measures(*world.draw(generator), [entry])["stereotype", None] for _ in range(simulations)]
    excluded = [estimate.low > 0 or estimate.high < 0 for estimate in found]
    values, widths = zip(*((estimate.value, estimate.high - estimate.low) for estimate in found), strict=True)
    return float(np.mean(values)), float(np.mean(excluded)), float(np.mean(widths))


def _lists(simulations: int, seed: int) -> None:
    print("| list | effects | stereotype | found | width |\n|---|---|---|---|---|")
    for design in ("labour", "coal"):
        for spread in ("both", "occupation"):
            for apart in (0.22, 0.3, 0.4, 0.55, 0.75):
                value, found, width = stereotype_power(design, spread, apart, simulations, seed)
                print(f"| {design} | {spread} | {value:.3f} | {found:.0%} | {width:.3f} |", flush=True)


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lists", action="store_true", help="the power for a stereotype on both English lists instead")
    options = parser.parse_args()
    if options.lists:
        _lists(options.simulations, options.seed)
        return
    print("| scores correlate by | stated for 0.5 | detectable | true difference | rejected |\n|---|---|---|---|---|")
    for shared in (0.5, 0.8, 0.95):
        for share in (0.0, 0.5, 1.0, 1.5):
            # The difference that is detectable grows with what the models do not share; 0.42 is that of half.
            more = 0.42 * share * np.sqrt(2 * (1 - shared))
            one = power(more, shared, options.simulations, options.seed)
            print(
                f"| {one.correlation:.2f} | {one.stated:.3f} | {one.detectable:.3f} | {one.difference:.3f} | "
                f"{one.rejected:.1%} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
