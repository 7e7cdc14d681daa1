"""``evenli meta``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from evenli.cli import _shared as shared
from evenli.cli._shared import argument, option


def _refuse_seeds(values: list[str] | None) -> None:
    """``--seeds 0 1 2`` was the way to give seeds up to version 0.1."""
    if values:
        from evenli.errors import InputError

        raise InputError("--seeds is gone; repeat --seed instead: --seed 0 --seed 1 --seed 2")


def meta(
    folder: Annotated[Path | None, argument("Directory of an earlier sweep, to score again or continue.")] = None,
    base: Annotated[str | None, option("NLI classifier to start from: hub id or checkpoint directory.")] = None,
    out: Annotated[Path | None, option("Directory of a new sweep.", "--out", "-o")] = None,
    lang: Annotated[str | None, option("Language: en (default), ja or zh.")] = None,
    rates: Annotated[str | None, option("Bias rates: START:STOP:STEP, default 0:1:0.1, or a list with commas.")] = None,
    noise: Annotated[str | None, option("Levels of the noise axis, e.g. 0:1:0.5; none by default.")] = None,
    stereotype: Annotated[str | None, option("Levels of the stereotype cause, -1 to 1, e.g. 0:1:0.5.")] = None,
    default: Annotated[
        str | None, option("Levels of the default gender, -1 to 1: share of words read as a man.")
    ] = None,
    undirected: Annotated[str | None, option("Levels of undirected error, 0 to 1; all mixtures are trained.")] = None,
    seed: Annotated[list[int] | None, option("Training seed, default 0; repeat for several sweeps.", min=0)] = None,
    measure: Annotated[list[str] | None, option("Own measure as module:function; may be repeated.")] = None,
    balanced: Annotated[bool | None, option("Roles to female and male words in turn.", "--balanced")] = None,
    ns_words: Annotated[str | None, option("NS words: train (default, as in the paper) or released.")] = None,
    data: Annotated[str | None, option("Official release to evaluate on; default: own templates.")] = None,
    captions: Annotated[str | None, option("Captions to make training templates of.")] = None,
    width: Annotated[int | None, option("Training templates per word, default 500.", min=1)] = None,
    quick: Annotated[bool, option("A first look: three rates and a tenth of the pairs.", "--quick")] = False,
    epochs: Annotated[int | None, option("Passes over the data.", min=1)] = None,
    lr: Annotated[float | None, option("Peak learning rate.")] = None,
    batch_size: Annotated[int | None, option("Pairs per step.", min=1)] = None,
    device: shared.Device = None,
    no_graph: Annotated[bool, option("No CUDA graphs and no compiler.", "--no-graph")] = False,
    stage: Annotated[str, option("Stop after: prepare, train or score.")] = "score",
    online: shared.Online = False,
    as_json: shared.Json = False,
    seeds: Annotated[list[str] | None, typer.Option(hidden=True, is_eager=True, callback=_refuse_seeds)] = None,
) -> None:
    """Train models whose bias is known and see which measures rank them; a killed sweep continues."""
    from evenli.errors import InputError
    from evenli.meta import MetaFolder, SweepSettings, meta_evaluation

    if (folder is None) == (out is None):
        raise InputError("give the directory of an earlier sweep, or -o for a new one")
    given: dict[str, Any] = {"lang": lang, "rates": rates, "noise": noise, "balanced": balanced, "ns_words": ns_words}
    given |= {"data": data, "captions": captions, "width": width}
    given |= {"stereotype": stereotype, "default": default, "undirected": undirected}
    place = MetaFolder(folder or out or Path())
    recipe = {"epochs": epochs, "lr": lr, "batch_size": batch_size}
    settings = SweepSettings(
        seeds=tuple(seed or [0]),
        recipe={name: value for name, value in recipe.items() if value is not None},
        device=device,
        graph=not no_graph,
        online=online,
        shown=not as_json,
    )
    design = _design(place, given, new=out is not None, quick=quick)
    results = meta_evaluation(place, base, design=design, settings=settings, measures=measure or [], stage=stage)
    if stage == "prepare":
        typer.echo(f"{place.path}: prepared; train with evenli meta {place.path} --base MODEL")
    elif as_json and results:
        shared.print_json({"folder": str(place.path), **results.to_dict()})
    elif results:
        from evenli.report.meta import print_meta

        print_meta(results, shared.console())
        charts = [*(["meta"] if "bias" in results.levels else []), *(["response"] if results.responses else [])]
        files = ["results.json", *(["response.csv"] if results.responses else []), *(f"{name}.svg" for name in charts)]
        typer.echo(f"files: {place.path}/ {', '.join(files)}")


def _design(place: Any, given: dict[str, Any], *, new: bool, quick: bool) -> Any:
    """The design of a new sweep, or of an earlier one with the options of the command; None if there are none."""
    from dataclasses import replace

    from evenli.errors import InputError
    from evenli.meta.design import Design, parse_rates
    from evenli.meta.mixture import CAUSES

    options = {name: value for name, value in given.items() if value is not None}
    if quick:
        double = [f"--{name}" for name in ("rates", "width") if name in options]
        if double:
            raise InputError(f"--quick chooses rates and width itself; leave out {' and '.join(double)}, or --quick")
        options |= {"width": 50} | ({} if set(CAUSES) & set(options) else {"rates": "0,0.5,1"})
    options |= {name: parse_rates(options[name]) for name in ("rates", "noise", "undirected") if name in options}
    options |= {name: parse_rates(options[name], low=-1) for name in ("stereotype", "default") if name in options}
    if new:
        # A sweep of mixtures needs no bias axis; --rates adds one.
        if set(CAUSES) & set(options):
            options.setdefault("rates", ())
        return Design(**options)
    # An earlier sweep keeps its design: options that differ from it are refused.
    return replace(place.design, **options) if options else None
