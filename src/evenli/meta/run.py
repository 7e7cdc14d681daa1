"""A whole meta-evaluation in one call: prepare, train, score. Each stage is imported only when it runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from evenli.errors import InputError
from evenli.meta.design import Design, SweepSettings
from evenli.meta.folder import MetaFolder

if TYPE_CHECKING:
    from evenli.meta.scoring import Own
    from evenli.stats.sweep import SweepResult

STAGES = ("prepare", "train", "score")


def meta_evaluation(
    folder: MetaFolder | str | Path,
    base: str | None = None,
    *,
    design: Design | None = None,
    settings: SweepSettings | None = None,
    measures: Sequence[Own] = (),
    stage: str = "score",
) -> SweepResult | None:
    """Train models whose bias is known and see which measures rank them; a killed sweep continues.

    Writes ``results.json``, ``meta.svg`` and ``meta.png`` into the directory and returns the results, None
    if the last stage is not ``score``.

    Args:
        folder: Directory of the sweep.
        base: NLI classifier to start from; None scores the models that are there.
        design: Data of a new sweep; None for a directory that is prepared.
        settings: Seeds, recipe and device.
        measures: Own measures beside the registered ones.
        stage: Last stage to run: ``prepare``, ``train`` or ``score``.
    """
    folder = folder if isinstance(folder, MetaFolder) else MetaFolder(folder)
    settings = settings or SweepSettings()
    if stage not in STAGES:
        raise InputError(f"--stage {stage} is unknown; choose prepare, train or score")
    if folder.read_header() is not None or design is None:
        # The machine that trains has no polars, so a prepared directory is checked without the first stage.
        folder.check_design(design or folder.design)
    else:
        if base is None and stage != "prepare":
            raise InputError("--base: which NLI classifier should the models start from?")
        from evenli.meta.preparation import prepare

        prepare(folder, design)
    folder.check_recipe(settings.recipe)
    if stage != "prepare" and base is not None:
        from evenli.meta.training import train_sweep

        train_sweep(folder, base, settings)
    if stage != "score":
        return None
    from evenli.meta.scoring import score_sweep
    from evenli.report.meta import write_meta_charts

    results = score_sweep(folder, measures)
    folder.write_results(results.to_dict())
    write_meta_charts(results, folder.path)
    return results
