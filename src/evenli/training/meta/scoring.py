"""Third stage: every measure on every model, and how well its scores follow what is known about the models."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.audit.suites.coal import SUITE as COAL
from evenli.audit.suites.probe import SUITE as PROBE
from evenli.core.errors import InputError, ModelError, RunError, foreign_code, translated
from evenli.core.extras import import_object
from evenli.core.labels import LABELS
from evenli.stats.measure import Measure, as_measure
from evenli.stats.sample import Sample
from evenli.training.meta.folder import MetaFolder, SweepCell
from evenli.training.meta.mixture import CAUSES
from evenli.training.meta.sweep import Curve, MeasureCurves, Response, SweepResult, describe, rank_measures, respond
from evenli.words import read_table

Own = str | Measure | Callable[[Sample], float]
"""A measure of the user's own: ``module:function``, a function of a ``Sample``, or a ``Measure``."""


def score_sweep(folder: MetaFolder | str | Path, own: Sequence[Own] = ()) -> SweepResult:
    """Score all stored models with all registered measures and the user's own."""
    folder = folder if isinstance(folder, MetaFolder) else MetaFolder(folder)
    lang, levels, seeds = folder.header["lang"], folder.header["levels"], folder.seeds()
    if not seeds:
        raise RunError(f"{folder.path} has no complete sweep yet; run evenli meta MODEL -o {folder.path}")
    chosen = [*COAL.measures, *PROBE.measures, *(load_measure(function) for function in own)]
    # Every measure reads every sample, so samples are built once; 600 pairs a model fit any memory.
    rows = folder.pairs("evaluation")
    models = [{cell: _samples(folder, cell, rows) for cell in folder.cells([seed])} for seed in seeds]

    def scores(measure: Measure, axis: str) -> NDArray[np.float64]:
        """Of all seeds and levels, [seeds, levels]."""
        return np.array(
            [[_value(measure, sample) for cell, sample in own.items() if cell.axis == axis] for own in models]
        )

    results = []
    for measure in chosen:
        span = measure.high - measure.low
        # A measure whose range is not known is compared as if it were 0 to 1.
        span = span if math.isfinite(span) else 1.0
        curves = [
            Curve(measure.name, axis, seeds, np.array(rates), scores(measure, axis), span)
            for axis, rates in levels.items()
            if axis != "mix"
        ]
        described = {curve.axis: describe(curve) for curve in curves}
        results.append(MeasureCurves(measure.name, measure.title.strip(), described))
    known = folder.models()
    # Noise cannot be learnt.
    right = [facts["dev_accuracy"] for cell, facts in known.items() if cell.seed in seeds and cell.axis != "noise"]
    learnt_share: dict[str, float] = {}
    responses: list[Response] = []
    if "mix" in levels:
        taught = np.array(levels["mix"])  # [mixtures, causes]
        unknown = (math.nan,) * len(CAUSES)
        learnt = np.array(
            [[known[cell].get("learnt", unknown) for cell in own if cell.axis == "mix"] for own in models]
        )
        # Models that were taught nothing have no share of it.
        size = np.abs(taught).sum(axis=1)
        shares = np.abs(learnt).sum(axis=2)[:, size > 0] / size[size > 0]
        learnt_share = {"lowest": float(shares.min()), "mean": float(shares.mean())}
        responses = [
            respond(measure.name, measure.title.strip(), CAUSES, taught, learnt, scores(measure, "mix"))
            for measure in chosen
        ]
    return SweepResult(
        lang=lang,
        base=Path(trained.name).name if (trained := folder.training()) else "",
        seeds=seeds,
        levels=levels,
        held_out_accuracy={"lowest": min(right), "mean": sum(right) / len(right)} if right else {},
        measures=results,
        ranking=rank_measures(results),
        published=[row for row in read_table("published_meta.csv") if row["lang"] == lang],
        learnt_share=learnt_share,
        responses=responses,
    )


def load_measure(own: Own) -> Measure:
    """A measure of the user's own; its range is taken as 0 to 1 unless it is a ``Measure``."""
    function: Any = import_object(own, "the measure") if isinstance(own, str) else own
    name = own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)
    if not callable(function):
        raise InputError(f"the measure {name} is not a function")
    # A function under the decorator ``@measure`` has a card already, with its title and range.
    for card in (*COAL.measures, *PROBE.measures):
        if card.function is function:
            return card
    if isinstance(function, Measure):
        return function
    title = " ".join((getattr(function, "__doc__", None) or name).split("\n\n")[0].split())
    return replace(as_measure(function, name=name), title=title, formula="", low=0, high=1, reference=name)


def _value(measure: Measure, samples: Mapping[str, Sample]) -> float:
    sample = samples[PROBE.name if PROBE.name in measure.suites else COAL.name]
    # What a measure of the user's own prints goes to stderr: stdout may be read as JSON.
    with translated(f"the measure {measure.name} failed: ", kinds=(ModelError,)), foreign_code(""):
        values = np.asarray(measure(sample), dtype=np.float64)
    if values.size != 1 or np.isinf(values).any():
        given = f"{values.size} values" if values.size != 1 else "an infinite value"
        raise InputError(f"the measure {measure.name} returned {given}; expected one number, NaN where it is undefined")
    return float(values.reshape(()))


def _samples(folder: MetaFolder, cell: SweepCell, rows: Sequence[Mapping[str, str]]) -> dict[str, Sample]:
    """The answers of a model as NLI-CoAL sees them and as the entailment-probability probe does."""
    logits = folder.logits(cell)
    if logits.shape != (len(rows), len(LABELS)) or not np.isfinite(logits).all():
        raise RunError(f"the logits of {cell.name} in {folder.path} do not fit its {len(rows)} pairs; delete them")
    coal = pl.DataFrame(rows, schema=dict.fromkeys(PAIR_COLUMNS, pl.String)).with_columns(
        pl.lit(COAL.name).alias("suite"), *(pl.Series(label, logits[:, i]) for i, label in enumerate(LABELS))
    )
    # PS and AS rows as the probe's pairs: one premise, the same hypothesis for either group.
    probe = coal.filter(pl.col("subset").is_in(["PS", "AS"])).with_columns(
        pl.lit(PROBE.name).alias("suite"),
        pl.lit(PROBE.name).alias("subset"),
        pl.concat_str("occupation", pl.lit("|"), "template", pl.lit("-"), "group").alias("id"),
    )
    # Words that state a group count here: they were given a role like any other word.
    return {COAL.name: Sample(Predictions(coal), published=True), PROBE.name: Sample(Predictions(probe))}
