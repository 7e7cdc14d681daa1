"""Meta-evaluation: train models whose bias is known, and see which measures rank them.

Three stages share one directory and can run on three machines: ``controlled.prepare`` writes pairs and labels,
``training.train_sweep`` trains one model per seed and level and stores its logits, ``scoring.score_sweep`` computes
every measure from those. ``meta_evaluation`` does all three; each is imported when it begins, because preparing needs
no torch and training no polars.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.training.meta.folder import MetaFolder as MetaFolder
from evenli.training.recipe import Design as Design
from evenli.training.recipe import SweepSettings as SweepSettings
from evenli.training.recipe import complete_design

if TYPE_CHECKING:
    from evenli.training.meta.scoring import Own
    from evenli.training.meta.sweep import SweepResult


def meta_evaluation(
    folder: MetaFolder | str | Path,
    base: str | None = None,
    *,
    design: Design | Mapping[str, Any] | None = None,
    settings: SweepSettings | None = None,
    measures: Sequence[Own] = (),
    stage: str = "score",
    on_step: Callable[[str], None] = lambda _: None,
) -> SweepResult | None:
    """Train models whose bias is known and see which measures rank them; a killed sweep continues.

    Writes ``results.json``, ``report.html`` and charts into the directory, with mixtures of causes also
    ``response.csv``. Returns the results, None if the last stage is not ``score``.

    Args:
        folder: Directory of the sweep.
        base: NLI classifier to start from; None scores the models that are there.
        design: Data of a new sweep; None for a directory that is prepared. Some fields by name where the others are
            as in an earlier sweep of the directory, or the default; with ``quick`` as true for a first look.
        settings: Seeds, recipe and device.
        measures: Own measures beside the registered ones.
        stage: Last stage to run: ``prepare``, ``train`` or ``score``.
        on_step: Told what is done next; empty while training, which tells of itself.
    """
    folder = folder if isinstance(folder, MetaFolder) else MetaFolder(folder)
    settings = settings or SweepSettings()
    if stage not in ("prepare", "train", "score"):
        raise InputError(f"stage {stage} is unknown; choose prepare, train or score")
    # What a later stage lacks is said before hours of training.
    if stage == "score":
        check_extra("report", "the charts of a meta-evaluation")
    if stage != "prepare" and base is not None:
        check_extra("hf", "training")
    if isinstance(design, Mapping):
        given = {name: value for name, value in design.items() if name != "quick"}
        earlier = None if folder.read_header() is None else folder.design
        design = complete_design(given, earlier, quick=bool(design.get("quick")))
    if folder.read_header() is not None or design is None:
        # The machine that trains has no polars, so a prepared directory is checked without the first stage.
        folder.check_design(design or folder.design)
    else:
        if base is None and stage != "prepare":
            raise InputError("which NLI classifier should the models start from? evenli meta MODEL -o DIRECTORY")
        from evenli.training.meta.controlled import prepare

        on_step("preparing the pairs")
        prepare(folder, design)
    folder.check_recipe(settings.recipe)
    if stage != "prepare" and base is not None:
        from evenli.training.meta.training import train_sweep

        on_step("")
        train_sweep(folder, base, settings)
    if stage != "score":
        return None
    from evenli.core.page import write_page
    from evenli.training.meta.charts import meta_page, write_meta_charts
    from evenli.training.meta.scoring import score_sweep

    on_step("scoring the trained models")
    results = score_sweep(folder, measures)
    folder.write_results(results)
    on_step("drawing the charts")
    write_meta_charts(results, folder.path)
    write_page(meta_page(results), folder.path / "report.html")
    return results
