"""Third stage: every measure on every model, and how well its scores follow what is known about the models."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenli.errors import InputError, RunError
from evenli.labels import LABELS
from evenli.meta.folder import Cell, MetaFolder
from evenli.pairs import PAIR_COLUMNS
from evenli.predictions import Predictions
from evenli.resources import read_table
from evenli.stats.measure import Measure, measures
from evenli.stats.sample import Sample
from evenli.stats.sweep import STATISTICS, Curve, associate, rank_measures, separation, slope


def score_sweep(
    folder: MetaFolder, own: Sequence[str] = (), *, permutations: int = 9_999, seed: int = 0
) -> dict[str, Any]:
    """Score all stored models with all registered measures and the user's own.

    Args:
        folder: A folder with trained models.
        own: Own measures as ``module:function``; the function takes a ``Sample`` and returns a number.
        permutations: Samples of the permutation test.
        seed: Its seed.

    Returns:
        Results for machines; ``evenli.report.meta`` shows them.
    """
    header, seeds = folder.header, folder.seeds()
    if not seeds:
        raise RunError(f"{folder.path} has no complete sweep yet; run evenli meta {folder.path} --base MODEL")
    chosen = [*measures("coal"), *measures("probe"), *(load_measure(spec) for spec in own)]
    samples = {cell: _samples(folder, cell) for cell in folder.cells(seeds)}
    curves = {
        axis: {
            measure.name: Curve(
                measure=measure.name,
                axis=axis,
                seeds=tuple(seeds),
                levels=np.array(levels),
                scores=np.array(
                    [[_value(measure, samples[Cell(seed, axis, level)]) for level in levels] for seed in seeds]
                ),
            )
            for measure in chosen
        }
        for axis, levels in header["levels"].items()
    }
    spans = {measure.name: measure.high - measure.low for measure in chosen}

    def told(measure: Measure, axis: str) -> dict[str, Any]:
        curve = curves[axis][measure.name]
        generator = np.random.default_rng(seed)
        found = {name: associate(curve, name, generator=generator, permutations=permutations) for name in STATISTICS}
        return {
            "scores": curve.scores.tolist(),
            **{name: asdict(one) for name, one in found.items()},
            "separation": asdict(separation(curve)),
            "slope": slope(curve, span=spans[measure.name]),
        }

    results = {
        "schema": 1,
        "lang": header["lang"],
        "base": Path(folder.training().get("name", "")).name,
        "seeds": seeds,
        "levels": header["levels"],
        "held_out_accuracy": _accuracies(folder, seeds),
        "measures": [
            {"name": m.name, "title": m.title.strip(), "axis": {axis: told(m, axis) for axis in curves}} for m in chosen
        ],
        "ranking": [asdict(one) for one in rank_measures(curves["bias"], curves.get("noise"), spans)],
        "published": [row for row in read_table("published_meta.csv") if row["lang"] == header["lang"]],
    }
    return dict(_without_nan(results))


def load_measure(spec: str) -> Measure:
    """A measure of the user's own from ``module:function``."""
    name, _, attribute = spec.partition(":")
    if not attribute:
        raise InputError(f"--measure {spec}: expected module:function")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"--measure {spec}: {error}") from error
    if not callable(function):
        raise InputError(f"--measure {spec} is not a function")
    if isinstance(function, Measure):
        return function
    title = (function.__doc__ or attribute).strip().splitlines()[0]

    def call(sample: Sample, stereotype: str | None = None) -> Any:
        return function(sample)

    return Measure(spec, title, "", 0, 1, 0, "", spec, ("coal",), "extrinsic", call)


def _without_nan(content: Any) -> Any:
    """The same content with None for NaN, which JSON does not know."""
    if isinstance(content, dict):
        return {key: _without_nan(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_without_nan(value) for value in content]
    return None if isinstance(content, float) and np.isnan(content) else content


def _value(measure: Measure, samples: dict[str, Sample]) -> float:
    suite = "probe" if "probe" in measure.suites else "coal"
    try:
        return float(measure(samples[suite]))
    except (TypeError, ValueError, KeyError, IndexError, ZeroDivisionError) as error:
        raise InputError(f"the measure {measure.name} failed: {error}") from error


def _samples(folder: MetaFolder, cell: Cell) -> dict[str, Sample]:
    """The answers of a model as NLI-CoAL sees them and as the entailment-probability probe does."""
    rows = folder.evaluation_pairs()
    logits = folder.logits(cell)
    if logits.shape != (len(rows), len(LABELS)) or not np.isfinite(logits).all():
        raise RunError(f"the logits of {cell.name} in {folder.path} do not fit its {len(rows)} pairs; delete them")
    frame = pl.DataFrame(rows, schema=dict.fromkeys(PAIR_COLUMNS, pl.String)).with_columns(
        pl.lit("coal").alias("suite"), *(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS))
    )
    return {"coal": Sample(Predictions(frame)), "probe": Sample(Predictions(as_probe(frame)))}


def as_probe(frame: pl.DataFrame) -> pl.DataFrame:
    """PS and AS rows as the probe's pairs: one premise, the same hypothesis for either group."""
    return frame.filter(pl.col("subset").is_in(["PS", "AS"])).with_columns(
        pl.lit("probe").alias("suite"),
        pl.lit("probe").alias("subset"),
        pl.concat_str("occupation", pl.lit("|"), "template", pl.lit("-"), "group").alias("id"),
    )


def _accuracies(folder: MetaFolder, seeds: Sequence[int]) -> dict[str, float]:
    """Lowest and mean accuracy on held-out pairs with the labels each model of the bias axis was trained for."""
    known = folder.models().items()
    values = [facts["dev_accuracy"] for cell, facts in known if cell.seed in seeds and cell.axis == "bias"]
    return {"lowest": min(values), "mean": sum(values) / len(values)} if values else {}
