"""Do 95 % intervals hold the truth in 95 % of cases? Simulation on the real design of NLI-CoAL.

Every simulation draws occupation, template and cell effects anew, lets a made-up model answer the pairs of the built-in
English set (or a part of it), and asks the estimators of evenli for intervals. The truth is what the measure gives at
the means over all simulations. A coverage beyond or near a limit is simulated again, with other random numbers and more
of them, and only the second result counts. Usage::

    python tools/coverage.py --simulations 1000 --again 4000
    python tools/coverage.py --simulations 200 --only female --json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import Progress
from scipy.special import ndtr, ndtri

from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.predictions import Predictions
from evenli.stats.intervals import estimate_difference, estimate_measures
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from evenli.suites.base import load_suite
from evenli.suites.coal.breakdown import by_occupation
from evenli.suites.coal.causes import items

Values = NDArray[np.float64]
_SPREADS = {
    "independent": (0.0, 0.0, 0.0),
    "weak": (0.4, 0.3, 0.3),
    "occupation": (1.5, 0.2, 0.5),
    "template": (0.2, 1.2, 0.5),
    "both": (1.0, 0.8, 0.6),
}
"""Standard deviations of the effects of occupation, template and cell; that of a row is 1."""


@dataclass(frozen=True)
class Scenario:
    """A made-up model on a part of the design.

    Attributes:
        lean: Mean inclination to say "man" for female, male and other occupations.
        caution: How strong an inclination must be before the model leaves neutral.
        second: ``lean`` of a second model, whose difference to the first is estimated; None for one model.
        shared: Correlation of the effects of the two models.
        templates: Ask every occupation with the same so many templates instead of its own ten.
        on_caution: Effects on the caution of a model, relative to those on its inclination.
        slices: Stereotypes, None for all.
        names: Measures; default: see ``MEASURES``.
    """

    name: str
    spread: str = "both"
    lean: tuple[float, float, float] = (-1.0, 1.0, 0.3)
    caution: float = 1.5
    second: tuple[float, float, float] | None = None
    shared: float = 0.5
    templates: int = 0
    on_caution: float = 0.7
    slices: Sequence[str | None] = (None,)
    names: Sequence[str] = ()
    by_occupation: bool = False


NO_LEAN = (0.0, 0.0, 0.0)
LEAN = (-1.0, 1.0, 0.3)
MEASURES = ("coal", "coal_pro", "coal_anti", "coal_non", "order_entailment", "follow", "defy", "fn_bias", "nn")
CAUSES = ("stereotype", "default_gender", "undirected", "regression_slope", "stereotype_expected")


def scenarios() -> Iterator[Scenario]:
    """All of them."""
    for spread in _SPREADS:
        yield Scenario(f"all, {spread} effects", spread)
        yield Scenario(
            f"female, 13 words, {spread} effects",
            spread,
            slices=("female",),
            names=("coal", "coal_pro", "order_entailment", "fn_bias", "nn"),
        )
    yield Scenario("male", slices=("male",), names=("coal", "order_entailment", "follow", "defy"))
    yield Scenario(
        "small effects",
        "both",
        (-0.1, 0.1, 0.0),
        1.5,
        names=("coal", "order_entailment", "order_contradiction", "dominance"),
    )
    for spread in ("weak", "both"):
        yield Scenario(f"near 0, {spread} effects", spread, NO_LEAN, {"weak": 2.7, "both": 3.7}[spread])
        yield Scenario(
            f"near 1, {spread} effects", spread, _strong(spread), 0.1, names=("coal", "coal_pro", "coal_non", "fn_bias")
        )
        yield Scenario(
            f"female near 0, {spread} effects",
            spread,
            NO_LEAN,
            {"weak": 2.3, "both": 3.2}[spread],
            slices=("female",),
            names=("coal", "coal_pro", "fn_bias"),
        )
    for count in (2, 3, 5, 20):
        yield Scenario(
            f"{count} templates for all", "both", templates=count, names=("coal", "coal_pro", "order_entailment", "nn")
        )
    # Hard cases: a template that moves the lean of all words alike moves the share of neutral by its square, which is
    # skewed; 13 words of which few ever leave neutral.
    for count in (3, 10):
        name = f"{count} templates for all, effects on lean only"
        yield Scenario(name, templates=count, on_caution=0, names=("coal", "coal_pro", "order_entailment", "nn"))
    yield Scenario(
        "female near 0, occupation effects",
        "occupation",
        NO_LEAN,
        3.2,
        slices=("female",),
        names=("coal_pro", "fn_bias"),
    )
    for spread in _SPREADS:
        yield Scenario(f"difference, null, {spread} effects", spread, second=LEAN)
    yield Scenario("difference, null, near 0", "both", NO_LEAN, 3.5, second=NO_LEAN)
    yield Scenario("difference, null, alike models", "both", second=LEAN, shared=0.95)
    yield Scenario(
        "difference, null, 3 templates", "both", second=LEAN, templates=3, names=("coal", "order_entailment")
    )
    yield Scenario("difference, real", "both", second=(-1.4, 1.4, 0.3))
    for spread in ("weak", "occupation", "both"):
        yield Scenario(f"single occupations, {spread} effects", spread, by_occupation=True)


@dataclass
class Tally:
    """What the simulations of one scenario gave for one quantity."""

    values: list[float] = field(default_factory=list)
    ends: list[tuple[float, float]] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)
    p: list[float] = field(default_factory=list)
    means: list[list[float]] = field(default_factory=list)


class World:
    """The design, with answers drawn anew on demand."""

    def __init__(self, scenario: Scenario) -> None:
        frame = load_suite("coal").frame
        if scenario.templates:
            frame = _crossed(frame, scenario.templates)
        logits = [pl.lit(0.0).alias(label) for label in LABELS]
        self.sample = Sample(Predictions(frame.with_columns(*logits, suite=pl.lit("coal"))))
        self.scenario = scenario
        self.of_occupation: dict[int, Values] = {}
        design = self.sample.design
        self.codes = (design.occupations, design.templates, design.cells)
        self.sign = np.where(frame["group"] == "male", 1.0, -1.0)
        self.place = (
            frame["stereotype"].replace_strict({"female": 0, "male": 1, "neutral": 2}, return_dtype=pl.Int64).to_numpy()
        )

    def draw(self, generator: np.random.Generator) -> list[Sample]:
        """One model's answers, or two models'."""
        first, second = self.scenario.lean, self.scenario.second
        common = self._effects(generator)
        if second is None:
            return [self._answer(common, first, generator)]
        share = self.scenario.shared
        own = [np.sqrt(share) * common + np.sqrt(1 - share) * self._effects(generator) for _ in range(2)]
        return [self._answer(effects, lean, generator) for effects, lean in zip(own, (first, second), strict=True)]

    def _effects(self, generator: np.random.Generator) -> Values:
        """[2, rows]: on the inclination to say "man", and on the caution to say anything but neutral."""
        effects = np.zeros((2, len(self.place)))
        for kind, strength in enumerate((1.0, self.scenario.on_caution)):
            for way, (sd, codes) in enumerate(zip(_SPREADS[self.scenario.spread], self.codes, strict=True)):
                drawn = strength * sd * generator.standard_normal(codes.max() + 1)
                effects[kind] += drawn[codes]
                if way == 0:
                    self.of_occupation[kind] = drawn
        return effects

    def _answer(self, effects: Values, lean: Sequence[float], generator: np.random.Generator) -> Sample:
        inclined = self.sign * (np.array(lean)[self.place] + effects[0]) + generator.standard_normal(len(self.place))
        caution = self.scenario.caution + effects[1]
        logits = np.zeros((len(self.place), 3))
        logits[:, LABELS.index(ENTAILMENT)] = inclined - caution
        logits[:, LABELS.index(CONTRADICTION)] = -inclined - caution
        return answered(self.sample, logits)

    def occupation_shares(self) -> dict[str, float]:
        """The true share of biased answers of every occupation of the last draw, over all templates."""
        _, by_template, by_cell = _SPREADS[self.scenario.spread]
        within = by_template**2 + by_cell**2
        rows = np.unique(self.sample.design.occupations, return_index=True)[1]
        places, names = self.place[rows], self.sample.frame["occupation"].to_numpy()[rows]
        lean = np.array(self.scenario.lean)[places] + self.of_occupation[0]
        # Integrated over the caution of templates and cells, in steps of equal probability.
        steps = self.scenario.on_caution * np.sqrt(within) * ndtri((np.arange(200) + 0.5) / 200)
        caution = np.maximum(self.scenario.caution + self.of_occupation[1][:, None] + steps, 0)
        man, woman = (ndtr((sign * lean[:, None] - caution) / np.sqrt(within + 1)).mean(axis=1) for sign in (1, -1))
        return dict(zip(names, np.choose(places, [woman, man, man + woman]), strict=True))


def answered(sample: Sample, logits: Values) -> Sample:
    """The same rows with other answers."""
    other = copy(sample)
    other.predicted = logits.argmax(axis=1)
    odds = np.exp(logits)
    other.probabilities = odds / odds.sum(axis=1, keepdims=True)
    other.__dict__.pop("biased", None)
    # Which rows make an item stays; what was answered to them does not.
    other.kept = {"items": items(sample)}
    return other


def _crossed(frame: pl.DataFrame, count: int) -> pl.DataFrame:
    """Every occupation with the same templates."""
    rows = frame.unique(["occupation", "group"], keep="first", maintain_order=True).drop("template")
    crossed = rows.join(pl.DataFrame({"template": [f"t{k}" for k in range(count)]}), how="cross")
    return crossed.with_columns(id=pl.int_range(pl.len()).cast(pl.String))


class _Means(Sample):
    """A sample that writes down the means a measure asks for, or gives back means that were written down."""

    @classmethod
    def of(cls, sample: Sample, written: list[float], given: Sequence[float] | None = None) -> _Means:
        other = cls.__new__(cls)
        other.__dict__.update(sample.__dict__, written=written, given=None if given is None else iter(given))
        return other

    def mean(self, values: NDArray[np.floating], *where: Any, **which: Any) -> Values:
        if self.given is not None:
            return np.asarray(next(self.given))
        self.written.append(float(super().mean(values, *where, **which)))
        return np.asarray(self.written[-1])


def simulate(
    scenario: Scenario, simulations: int, seed: int, step: Callable[[], None] = lambda: None
) -> list[dict[str, Any]]:
    """Rows of the table for one scenario."""
    world, generator = World(scenario), np.random.default_rng([seed, *scenario.name.encode()])
    if scenario.by_occupation:
        return [_occupations(world, generator, simulations, step)]
    known = {entry.name: entry for entry in measures("coal")}
    wanted = [known[name] for name in (scenario.names or (*MEASURES, *CAUSES)) if name in known]
    tallies = {(entry, name): Tally() for entry in wanted for name in scenario.slices}
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
            replayed = _Means.of(world.sample, [], np.mean(tally.means, axis=0))
            truth = float(entry(replayed, name))
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
    for (name, part), found in estimate_measures(sample, wanted, slices).items():
        entry = next(one for one in wanted if one.name == name)
        tally = tallies[entry, part]
        tally.values.append(found.value)
        tally.ends.append((found.low, found.high))
        tally.errors.append(found.se)
        written: list[float] = []
        entry(_Means.of(sample, written), part)
        tally.means.append(written)


def _compare(first: Sample, second: Sample, tallies: dict) -> None:
    for (entry, _), tally in tallies.items():
        found = estimate_difference(entry, first, second)
        tally.values.append(float(entry(second)) - float(entry(first)))
        tally.ends.append((found.low, found.high))
        tally.errors.append(found.se)
        tally.p.append(found.p)


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


def _strong(spread: str) -> tuple[float, float, float]:
    lean = {"weak": 2.5, "both": 3.5}[spread]
    return -lean, lean, lean


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--again", type=int, default=0, help="simulations of a second round for doubtful coverage")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    parser.add_argument("--measures", default="", help="in scenarios without a list of their own, with commas")
    parser.add_argument("--summary", action="store_true", help="one line per scenario: smallest to largest")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    names = tuple(filter(None, options.measures.split(",")))
    chosen = [replace(one, names=one.names or names) for one in scenarios() if options.only in one.name]
    if not chosen or options.simulations < 2:
        parser.error("no scenario with that name, or fewer than 2 simulations")
    rows: list[dict[str, Any]] = []
    with Progress(disable=options.json, console=Console(stderr=True)) as progress:
        task = progress.add_task("simulating", total=options.simulations * len(chosen))
        for scenario in chosen:
            rows += judged(scenario, options.simulations, options.again, options.seed, lambda: progress.advance(task))
    if options.json:
        json.dump(rows, sys.stdout, indent=1)
        return
    if options.summary:
        _summarise(rows)
        return
    print("| scenario | measure | truth | coverage | se / true sd | null or 0 rejected |\n|---|---|---|---|---|---|")
    forms = {"truth": "{:.3f}", "coverage": "{:.1%}", "se_ratio": "{:.2f}", "rejected": "{:.1%}"}
    for row in rows:
        cells = ["" if row[key] is None else form.format(row[key]) for key, form in forms.items()]
        print(f"| {row['scenario']} | {row['measure']} | {' | '.join(cells)} |")


def _summarise(rows: Sequence[dict[str, Any]]) -> None:
    print("| scenario | measures | coverage | se / true sd | true null rejected | outside 93-97 % |")
    print("|---|---|---|---|---|---|")
    for name in dict.fromkeys(row["scenario"] for row in rows):
        part = [row for row in rows if row["scenario"] == name]
        outside = ", ".join(f"{row['measure']} {row['coverage']:.1%}" for row in part if not _fits(row))
        rejected = _span(part, "rejected", "{:.1%}") if "null" in name else ""
        ends = (_span(part, "coverage", "{:.1%}"), _span(part, "se_ratio", "{:.2f}"), rejected)
        print(f"| {name} | {len(part)} | {' | '.join(ends)} | {outside} |")
    print(f"\n{sum(map(_fits, rows))} of {len(rows)} between 93 and 97 %")


def _fits(row: dict[str, Any]) -> bool:
    return bool(0.93 <= row["coverage"] <= 0.97)


def _span(rows: Sequence[dict[str, Any]], key: str, form: str) -> str:
    values = [row[key] for row in rows if row[key] is not None]
    ends = dict.fromkeys(form.format(end) for end in (min(values), max(values))) if values else {}
    return " to ".join(ends)


if __name__ == "__main__":
    main()
