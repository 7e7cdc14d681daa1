"""The command line: one file per command, heavy imports only inside the command that needs them."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

import typer

from evenli._version import __version__
from evenli.cli import (
    audit,
    build,
    card,
    compare,
    data,
    doctor,
    encoder_report,
    erase,
    export,
    gate,
    measure,
    meta,
    mitigate,
    models,
    predict,
    report,
    reproduce,
    score,
    seat,
    senteval,
    table,
    train,
)
from evenli.cli._shared import SeedCommand
from evenli.errors import EvenliError

app = typer.Typer(
    name="evenli",
    help="Assess and mitigate gender bias in language-inference models.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("audit")(audit.audit)
app.command("predict")(predict.predict)
app.command("measure")(measure.measure)
app.command("report")(report.report)
app.command("compare")(compare.compare)
app.command("gate")(gate.gate)
app.command("card")(card.card)
app.command("table")(table.table)
app.command("export")(export.export)
app.command("models")(models.models)
app.command("data")(data.data)
app.command("doctor")(doctor.doctor)
app.command("reproduce")(reproduce.reproduce)
app.command("meta")(meta.meta)
app.command("score")(score.score)
app.command("direction")(score.direction)
app.command("seat")(seat.seat)
app.command("senteval")(senteval.senteval)
app.command("encoder-report")(encoder_report.encoder_report)
_build = typer.Typer(help="Build pair sets.", no_args_is_help=True, rich_markup_mode=None)
_build.command("coal")(build.coal)
_build.command("probe")(build.probe)
_build.command("dev2020")(build.dev2020)
_build.command("dev", hidden=True)(build.dev2020)
_build.command("controlled")(build.controlled)
app.add_typer(_build, name="build")
_mitigate = typer.Typer(
    cls=erase.MitigateGroup,
    help="Mitigate bias in corpora, word vectors and encoders.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_mitigate.command("swap")(mitigate.swap)
_mitigate.command("subtract")(mitigate.subtract)
_mitigate.command("augment")(mitigate.augment)
_mitigate.command("hard-debias")(erase.hard_debias)
_mitigate.command("hard", hidden=True)(erase.hard_debias)
app.add_typer(_mitigate, name="mitigate")
_train = typer.Typer(help="Train models.", no_args_is_help=True, rich_markup_mode=None)
_train.command("nli", cls=SeedCommand)(train.train_nli)
_train.command("encoder")(train.train_encoder)
app.add_typer(_train, name="train")


@app.callback(invoke_without_command=True)
def _root(
    version: bool = typer.Option(False, "--version", help="Print the version and exit.", is_eager=True),
) -> None:
    if version:
        typer.echo(f"evenli {__version__}")
        raise typer.Exit


_INTERRUPTED = 130


def main() -> None:
    """Run the command line; an expected failure is one line and exit code 2."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # here, where a full disk can still be told
    except EvenliError as error:
        _fail(str(error))
    except (KeyboardInterrupt, SystemExit) as stop:
        # Typer turns an interrupt into an exit of its own, without a word.
        if isinstance(stop, SystemExit) and stop.code != _INTERRUPTED:
            raise
        print("evenli: interrupted; what a folder holds is kept, and the same command continues", file=sys.stderr)
        raise SystemExit(_INTERRUPTED) from None
    except BrokenPipeError as error:
        # Whoever reads the output has enough of it; what a gate found stands.
        _drop_output()
        ended = error.__context__
        raise SystemExit(ended.code if isinstance(ended, SystemExit) else 0) from None
    except OSError as error:
        reason = error.strerror or str(error)
        _drop_output()
        _fail(f"{error.filename}: {reason}" if error.filename else f"cannot write the output: {reason}")


def _fail(message: str) -> NoReturn:
    print(f"evenli: {' '.join(message.split())}", file=sys.stderr)
    raise SystemExit(2) from None


def _drop_output() -> None:
    """Let what is still buffered go nowhere, or the interpreter fails on it once more when it ends."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
