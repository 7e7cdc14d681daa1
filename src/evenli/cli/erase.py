"""``evenli mitigate``: hard debiasing of word vectors, and a command for every registered method for encoders."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from evenli.cli import _shared as shared
from evenli.errors import EvenliError
from evenli.registry import MITIGATIONS

if TYPE_CHECKING:
    from evenli.mitigate.methods import Method

_AFTER = "fit"
"""Options of a method stand behind this one."""
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder to write; mitigated:FOLDER is the encoder then.")]
FitOn = Annotated[
    str,
    typer.Option(
        help="Sentences to fit on: built-in, or an English corpus (.txt with a sentence a line, or .jsonl, .csv, .tsv, "
        ".parquet with a column text, sentence, premise or hypothesis; .xz may follow)."
    ),
]
Seed = Annotated[int, shared.seed_option("Seed of the fit and of the probes.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a mitigated encoder in the folder.")]


class MitigateGroup(TyperGroup):
    """The commands of ``evenli mitigate``, with one for every method; methods are loaded when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return [*super().list_commands(ctx), *MITIGATIONS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name; that of a method comes from the registry."""
        command = super().get_command(ctx, cmd_name)
        return method_command(cmd_name) if command is None and cmd_name in MITIGATIONS else command


def method_command(name: str) -> Any:
    """The command of a method. One of a broken package says so when it is run, and does not disturb the others."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    try:
        run = _runner(MITIGATIONS.get(name))
    except EvenliError as error:
        failure = error

        def run() -> None:
            raise failure

        run.__doc__ = str(error)
    app.command(name)(run)
    return get_command(app)


def _runner(method: Method) -> Any:
    """A function with the common options and those of the method, from which typer makes the command."""
    common = list(inspect.signature(_mitigate, eval_str=True).parameters.values())[1:]
    own = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=option.default,
            annotation=Annotated[type(option.default), typer.Option(help=option.help, min=option.minimum)],
        )
        for option in method.options
    ]
    # Typer reads a signature, so one is put together: the common options with those of the method behind --fit.
    place = 1 + [parameter.name for parameter in common].index(_AFTER)
    parameters = [parameter for parameter in (*common[:place], *own, *common[place:]) if parameter.name != "options"]

    def run(**given: Any) -> None:
        options = {option.name: given.pop(option.name) for option in method.options}
        _mitigate(method, **given, options=options)

    run.__doc__ = f"{method.title} ({method.reference})."
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def _mitigate(
    method: Any,
    encoder: shared.Encoder,
    out: Out,
    fit: FitOn = "built-in",
    seed: Seed = 0,
    pooling: shared.Pooling = "mean",
    device: shared.Device = None,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
    options: Any = None,
) -> None:
    from evenli.mitigate.encoder import MitigationSettings, mitigate_encoder

    settings = MitigationSettings(method.name, fit, seed, options or {})
    about = mitigate_encoder(encoder, out, settings, pooling=pooling, device=device, overwrite=overwrite)
    if about["note"]:
        shared.warn(about["note"])
    if as_json:
        shared.print_json({"folder": str(out), **about})
        return
    from evenli.report.encoder import print_leakage

    used, eraser = about["fit"], about["eraser"]
    typer.echo(
        f"{out}: {about['method']} on {used['pairs']:,} sentence pairs ({used['source']}), {eraser['rank']} of "
        f"{eraser['dimension']} dimensions removed; use it as mitigated:{out}"
    )
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in used["skipped"].items() if count)
    if left_out:
        typer.echo(f"left out of the fit: {left_out.replace('with without', 'without')}")
    print_leakage(about["leakage"]["before"], about["leakage"]["after"], shared.console())


def hard_debias(
    ctx: typer.Context,
    vectors: Annotated[str, typer.Argument(help="Word vectors: FILE or vectors:FILE; GloVe, word2vec or fastText.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="A folder, an encoder as mitigated:FOLDER then, or a file of vectors that ends in .npz."
        ),
    ],
    pairs: Annotated[str, typer.Option(help="Pairs of the direction: ten, long or a file.")] = "ten",
    control: Annotated[
        bool, typer.Option("--control", help="Only bring the vectors to length 1: the control for the side effect.")
    ] = False,
    seed: Annotated[int, shared.seed_option("Seed of the probes that look for what is left.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Hard-debias word vectors (Bolukbasi et al. 2016): neutralise, equalise, length 1."""
    from evenli.mitigate.debiased import HardDebiasSettings, hard_debias_file

    if ctx.info_name == "hard":
        shared.warn("'mitigate hard' is called 'mitigate hard-debias' now; the old name goes with the next release")
    result = hard_debias_file(vectors, out, HardDebiasSettings(pairs, control, seed), overwrite=overwrite)
    if as_json:
        shared.print_json(result.to_dict())
        return
    typer.echo(f"{out}: {result.words:,} words" + "".join(f"; {note}" for note in result.notes))
    typer.echo(f"use it as {result.spec}")
    if result.leakage is None:
        typer.echo(f"what is left was not measured: {result.not_measured}")
        return
    from evenli.report.encoder import print_leakage

    before, after = (one.to_dict() for one in result.leakage)
    print_leakage(before, after, shared.console(), words=True)
