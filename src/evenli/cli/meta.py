"""``evenli meta``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.meta.folder import MetaFolder


def meta(
    context: typer.Context,
    folder: Annotated[
        Path | None,
        typer.Argument(help="Folder of an earlier sweep, to score again or go on with.", show_default=False),
    ] = None,
    base: Annotated[
        str | None, typer.Option(help="NLI classifier to start from: hub id or checkpoint folder.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of a new sweep.", show_default=False)] = None,
    lang: shared.Lang = "en",
    rates: Annotated[str, typer.Option(help="Bias rates: START:STOP:STEP or a list with commas.")] = "0:1:0.1",
    noise: Annotated[
        str | None, typer.Option(help="Levels of the noise axis, e.g. 0:1:0.5; none by default.", show_default=False)
    ] = None,
    seeds: Annotated[
        list[int] | None, shared.seed_option("Seeds; several, as in --seeds 0 1 2, one sweep each.")
    ] = None,
    more_seeds: shared.MoreSeeds = None,
    measure: Annotated[list[str] | None, typer.Option(help="Own measure as module:function; may be repeated.")] = None,
    balanced: Annotated[bool, typer.Option("--balanced", help="Roles to female and male words in turn.")] = False,
    ns_words: Annotated[str, typer.Option(help="NS words: train (as in the paper) or released.")] = "train",
    data: Annotated[
        str | None, typer.Option(help="Official release to evaluate on; default: own templates.", show_default=False)
    ] = None,
    captions: Annotated[
        str | None, typer.Option(help="Captions to make training templates of.", show_default=False)
    ] = None,
    width: Annotated[int, typer.Option(help="Training templates per word.", min=1)] = 500,
    quick: Annotated[
        bool, typer.Option("--quick", help="Three rates and a tenth of the pairs: a first look, also on a CPU.")
    ] = False,
    epochs: Annotated[int | None, typer.Option(help="Passes over the data.", min=1)] = None,
    lr: Annotated[float | None, typer.Option(help="Peak learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Pairs per step.", min=1)] = None,
    device: shared.Device = None,
    no_graph: Annotated[bool, typer.Option("--no-graph", help="No CUDA graphs and no compiler.")] = False,
    stage: Annotated[str, typer.Option(help="Stop after: prepare, train or score.")] = "score",
    offline: shared.Offline = False,
    as_json: shared.Json = False,
) -> None:
    """Train models whose bias is known and see which measures rank them; a killed sweep continues."""
    from evenli.errors import InputError

    folder, numbers = _folder_and_seeds(folder, seeds or [], more_seeds or [])
    place = _place(folder, out, stage)
    if out is not None:
        from evenli.meta.controlled import parse_rates
        from evenli.meta.prepare import Design, prepare

        if quick:
            given = [f"--{name}" for name in ("rates", "width") if _is_given(context, name)]
            if given:
                raise InputError(f"--quick chooses rates and width itself; leave out {' and '.join(given)}, or --quick")
            rates, width = "0,0.5,1", 50
        design = Design(
            lang=lang,
            rates=tuple(parse_rates(rates)),
            noise=tuple(parse_rates(noise)) if noise else (),
            balanced=balanced,
            ns_words=ns_words,
            data=data,
            captions=captions,
            width=width,
        )
        if base is None and stage != "prepare":
            raise InputError("--base: which NLI classifier should the models start from?")
        prepare(place, design)
    settings = {"epochs": epochs, "lr": lr, "batch_size": batch_size}
    place.check_given(
        {} if out is not None else _given_design(context),
        {name: value for name, value in settings.items() if value is not None},
    )
    if stage == "prepare":
        typer.echo(f"{place.path}: prepared; train with evenli meta {place.path} --base MODEL")
        return
    if base is not None:
        from evenli.meta.training import train_sweep
        from evenli.training import make_recipe

        # A sweep that is gone on with keeps its own settings where none are given.
        stored = place.training().get("recipe", {}) if folder is not None else {}
        chosen = {name: stored.get(name) if value is None else value for name, value in settings.items()}
        recipe = make_recipe("control", **chosen)
        train_sweep(
            place,
            base,
            seeds=numbers or [0],
            recipe=recipe,
            device=device,
            graph=not no_graph,
            offline=offline,
            shown=not as_json,
        )
    if stage == "score":
        _score(place, measure or [], as_json)


def _is_given(context: typer.Context, option: str) -> bool:
    """Whether an option stands in the command, also with the value it has anyway."""
    source = context.get_parameter_source(option)
    return source is not None and source.name not in {"DEFAULT", "DEFAULT_MAP"}


def _given_design(context: typer.Context) -> dict[str, Any]:
    """Settings of the preparation that stand in the command."""
    from evenli.meta.controlled import parse_rates

    names = ("lang", "rates", "noise", "balanced", "ns_words", "data", "captions", "width")
    given = {name: context.params[name] for name in names if _is_given(context, name)}
    return {name: parse_rates(value) if name in {"rates", "noise"} else value for name, value in given.items()}


def _folder_and_seeds(folder: Path | None, seeds: list[int], more_seeds: list[int]) -> tuple[Path | None, list[int]]:
    """Folder and seeds as meant: of "--seeds 0 1 2" the command line library takes the 1 for FOLDER."""
    numbers = [*seeds, *more_seeds]
    if folder is not None and seeds and not folder.exists() and folder.name.isdigit():
        numbers.insert(1, int(folder.name))
        folder = None
    return folder, numbers


def _place(folder: Path | None, out: Path | None, stage: str) -> MetaFolder:
    from evenli.errors import InputError
    from evenli.meta.folder import MetaFolder

    if (folder is None) == (out is None):
        raise InputError("give the folder of an earlier sweep, or -o for a new one")
    if stage not in {"prepare", "train", "score"}:
        raise InputError(f"--stage {stage} is unknown; choose prepare, train or score")
    return MetaFolder(folder or out or Path())


def _score(place: MetaFolder, own: list[str], as_json: bool) -> None:
    from evenli.meta.scoring import score_sweep
    from evenli.report.meta import print_meta, write_meta_charts

    results = score_sweep(place, own)
    place.write_results(results)
    files = write_meta_charts(results, place.path)
    if as_json:
        shared.print_json({"folder": str(place.path), **results})
        return
    print_meta(results, shared.console())
    typer.echo(f"files: {place.path}/ results.json, {', '.join(file.name for file in files)}")
