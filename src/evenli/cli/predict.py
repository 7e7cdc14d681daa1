"""``evenli predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def predict(
    data: Annotated[Path, typer.Argument(help="Pair file: .jsonl, .csv, .tsv or .parquet (.xz may follow).")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Model spec; default: embedded.")] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Run folder.")] = Path("runs/predict"),
    lang: shared.Lang = "en",
    labels: shared.Labels = None,
    device: shared.Device = None,
    dtype: shared.Dtype = None,
    max_length: shared.MaxLength = 128,
    token_budget: shared.TokenBudget = None,
    offline: shared.Offline = False,
    allow_pickle: shared.AllowPickle = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another run in the folder.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Score any pair file with a model; resumable, one table with three logits per pair."""
    from evenli.evaluate.predict import PredictSettings, summarise
    from evenli.evaluate.predict import predict as run
    from evenli.evaluate.run_dir import RunFolder
    from evenli.models import load_model
    from evenli.suites.files import read_pairs

    pairs = read_pairs(data, lang, suite="user")
    options = shared.model_options(labels, device, dtype, max_length, token_budget, offline, allow_pickle)
    asked = load_model(model, lang=lang, options=options)
    settings = PredictSettings(overwrite=overwrite)
    with shared.progress_bar(not as_json) as progress:
        table = run(asked, [pairs], RunFolder(out), settings, on_progress=progress, on_warning=shared.warn)
    summary = {"folder": str(out), **summarise(table)}
    gold = summary.pop("gold")
    if as_json:
        shared.print_json(summary)
        return
    typer.echo(f"{summary['pairs']} pairs: " + ", ".join(f"{k} {v}" for k, v in summary["predicted"].items()))
    if gold:
        typer.echo(f"accuracy {summary['accuracy']:.4f} on {gold} pairs with a gold label")
    typer.echo(f"{out}/predictions.parquet")
