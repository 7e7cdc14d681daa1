"""``evenli predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    from evenli.evaluate.predict import predict as run
    from evenli.evaluate.run_dir import RunFolder
    from evenli.labels import LABELS
    from evenli.models import load_model
    from evenli.suites.files import read_pairs

    pairs = read_pairs(data, lang, suite="user")
    options = shared.model_options(labels, device, dtype, max_length, token_budget, offline, allow_pickle)
    asked = load_model(model, lang=lang, options=options)
    with shared.progress_bar(not as_json) as progress:
        table = run(asked, [pairs], RunFolder(out), overwrite=overwrite, on_progress=progress, on_warning=shared.warn)
    answers = [LABELS[i] for i in table.logits.argmax(axis=1)]
    gold = table.frame["gold"].to_list()
    known = [(a, g) for a, g in zip(answers, gold, strict=True) if g]
    summary: dict[str, Any] = {
        "folder": str(out),
        "pairs": len(answers),
        "predicted": {label: answers.count(label) for label in LABELS},
        "accuracy": round(sum(a == g for a, g in known) / len(known), 6) if known else None,
        "timings": table.header.get("timings"),
    }
    if as_json:
        shared.print_json(summary)
        return
    typer.echo(f"{summary['pairs']} pairs: " + ", ".join(f"{k} {v}" for k, v in summary["predicted"].items()))
    if known:
        typer.echo(f"accuracy {summary['accuracy']:.4f} on {len(known)} pairs with a gold label")
    typer.echo(f"{out}/predictions.parquet")
