"""``evenli seat``, ``senteval`` and ``encoder-report``: sentence encoders."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, with_settings
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.format import drawn_on, printable
from evenli.core.mitigation import Method
from evenli.core.registry import Command
from evenli.core.settings import Settings, split_names
from evenli.encoders.settings import (
    HardDebiasSettings,
    LoadSettings,
    MitigationSettings,
    ReportSettings,
    SeatSettings,
    SentEvalSettings,
)

if TYPE_CHECKING:
    from evenli.core.blocks import Block
    from evenli.encoders.senteval import SentEvalResult

# Named here so that the help reads no file; a test compares them with what is shipped.
TESTS = ("C1", "C2", "C6", "C6b", "C7", "C7b", "C8", "C8b")


@with_settings(settings=("level", "permutations", "seed"), after={"level": ["pooling"]})
def seat(
    encoder: shared.Encoder,
    tests: Annotated[
        str | None,
        option("Tests, or .json or .jsonl files of your own; default: all eight.", choices=TESTS, names="TEST"),
    ] = None,
    *,
    settings: SeatSettings,
    loading: LoadSettings,
    html: shared.Html = None,
    as_json: shared.Json = False,
) -> None:
    """Run association tests (SEAT, WEAT) on an encoder.

    Effect sizes with p-values and intervals, corrected for the number of tests (Holm).
    """
    from evenli.core.page import write_page
    from evenli.encoders.seat import choose_tests
    from evenli.encoders.seat import seat as run_seat
    from evenli.encoders.seat.tables import associations, seat_page

    # A comma may be part of a file's name.
    names = (tests,) if tests and Path(tests).is_file() else split_names(tests)
    chosen = choose_tests(names, settings.level)  # a wrong name is found before the encoder is loaded
    loaded = _load(encoder, loading)
    with terminal.heartbeat(as_json) as step:
        result = run_seat(loaded, chosen, settings, step)
    if html is not None:
        write_page(seat_page(result, encoder), html)
    content = result.to_dict()
    content["settings"]["pooling"] = getattr(loaded, "pooling", loading.pooling)
    _answer(as_json, {"encoder": encoder, **content}, associations(result))


@with_settings(after={"tasks": ["pooling"]})
def senteval(
    encoder: shared.Encoder,
    data: Annotated[Path | None, option("Directory with the task files, flat or SentEval's own layout.")] = None,
    *,
    settings: SentEvalSettings,
    cache: Annotated[Path | None, option("Directory that keeps embeddings between runs.")] = None,
    loading: LoadSettings,
    out: Annotated[Path | None, output("JSON file for the result; tasks in it are not run again.")] = None,
    overwrite: Annotated[bool, option("Begin anew in a file that is there.", "--overwrite")] = False,
    html: shared.Html = None,
    as_json: shared.Json = False,
) -> None:
    """Evaluate an encoder on twelve SentEval tasks.

    The tasks are those of Dolci et al. 2023.
    """
    from evenli.core.page import write_page
    from evenli.core.store import check_writable
    from evenli.encoders.senteval import UnsavedResultError
    from evenli.encoders.senteval import senteval as run_senteval
    from evenli.encoders.senteval.tables import senteval_page

    if data is None:
        raise InputError("--data: where are the SentEval files? A flat directory, or SentEval's downstream directory")
    check_extra("hf", "SentEval", "torch")
    if settings.classifier == "sklearn":
        check_extra("encoders", "the classifier of SentEval", "sklearn")
    settings = replace(settings, device=loading.device)
    if out is not None:  # checked before the encoder is loaded
        check_writable(out)
    loaded = _load(encoder, loading)
    try:
        with terminal.heartbeat(as_json) as step:

            def on_step(task: str, line: str) -> None:
                step("" if line else f"task {task}")
                if line:
                    terminal.warn(line)
                elif sys.stderr.isatty():  # the line of the result will replace it
                    print(f"evenli: {printable(task)} …", end="\r", file=drawn_on(sys.stderr), flush=True)

            result = run_senteval(
                loaded, data, settings, out=out, overwrite=overwrite, cache=cache, name=encoder, on_step=on_step
            )
    except UnsavedResultError as error:
        _print(error.result, as_json)
        raise
    if not result.tasks:
        raise InputError(f"no task could run: {next(iter(result.missing.values()))}")
    _print(result, as_json)
    if html is not None:
        write_page(senteval_page(result, encoder), html)


def _print(result: SentEvalResult, as_json: bool) -> None:
    from evenli.encoders.senteval.tables import scores

    for reason in result.missing.values() if as_json else ():  # people find them below the table
        terminal.warn(f"not run: {reason}")
    _answer(as_json, result.to_dict(), scores(result))


@with_settings(
    settings=("pooling", "probe", "device", "online"),
    tests=("permutations", "seed"),
    evaluation=("tasks",),
    after={"tasks": ["out"], "probe": ["permutations", "seed"]},
    texts={
        "tasks": "SentEval tasks; default: all there is data for.",
        "permutations": "Permutations of SEAT; fewer if all can be tried.",
        "seed": "Seed of permutations, bootstrap and probes.",
    },
)
def encoder_report(
    base: Annotated[str, argument("The encoder before mitigation: st:NAME, hf:ID, a folder, vectors:FILE, …")],
    mitigated: Annotated[list[str] | None, argument("Encoders to compare with it, such as mitigated:FOLDER.")] = None,
    data: Annotated[Path | None, option("Folder of the SentEval data; default: without SentEval.")] = None,
    *,
    evaluation: SentEvalSettings,
    out: Annotated[Path | None, output("Folder for report.json and the chart; results are kept.")] = None,
    settings: ReportSettings,
    tests: SeatSettings,
    as_json: shared.Json = False,
) -> None:
    """Put mitigated encoders beside their base.

    SEAT, what leaks of gender, and SentEval.
    """
    from evenli.encoders.comparison import encoder_report as run_report
    from evenli.encoders.comparison.chart import write_encoder_report
    from evenli.encoders.comparison.tables import report_blocks

    settings = replace(settings, seat=tests, senteval=evaluation)
    check_extra("encoders", "an encoder report", "sklearn")
    with terminal.heartbeat(as_json) as step_of:

        def step(name: str, figure: str) -> None:
            step_of(f"{name}: {figure}")
            if sys.stderr.isatty():
                terminal.warn(f"{name}: {figure}")

        report = run_report([base, *(mitigated or [])], settings, data=data, out=out, on_step=step)
    files = [] if out is None else [out / "report.json", *write_encoder_report(report, out, terminal.warn)]
    written = [f"written: {', '.join(map(str, files))}"] if files else []
    _answer(as_json, report.to_dict(), *report_blocks(report), *written)


def _load(spec: str, settings: LoadSettings) -> Any:
    """Load an encoder, and say what should be known of it."""
    from evenli.encoders.base import load_encoder

    loaded = load_encoder(spec, **settings.to_dict())
    if note := getattr(loaded, "note", ""):
        terminal.warn(note)
    return loaded


@with_settings()
def hard_debias(
    vectors: Annotated[str, argument("Word vectors: FILE or vectors:FILE; GloVe, word2vec or fastText.")],
    out: Annotated[Path, output("A folder (use it as mitigated:FOLDER), or a file of vectors (.npz).")],
    *,
    settings: HardDebiasSettings,
    overwrite: Annotated[bool, option("Replace what is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Hard-debias word vectors (Bolukbasi et al. 2016).

    Neutralise, equalise, bring to length 1.
    """
    from evenli.encoders.comparison.tables import leakage_block
    from evenli.encoders.hard_debias import hard_debias_file

    with terminal.heartbeat(as_json, "debiasing the vectors"):
        result = hard_debias_file(vectors, out, settings, overwrite=overwrite)
    measured: Block | str = f"what is left was not measured: {result.not_measured}"
    if result.leakage is not None:
        measured = leakage_block(result.leakage.before, result.leakage.after, words=True)
    written = f"{out}: {result.words:,} words" + "".join(f"; {note}" for note in result.notes)
    _answer(as_json, result.to_dict(), written, f"use it as {result.spec}", measured)


def _answer(as_json: bool, content: Any, *parts: Block | str) -> None:
    """JSON, or else lines and tables for people."""
    from evenli.encoders.seat.tables import print_block

    if as_json:
        terminal.print_json(content)
        return
    for part in parts:
        if isinstance(part, str):
            terminal.say(part)
        else:
            print_block(part, terminal.console())


def mitigate_with(
    method: Method,
    encoder: shared.Encoder,
    out: Annotated[Path, output("Folder to write; mitigated:FOLDER is the encoder then.")],
    *,
    settings: MitigationSettings,
    options: Settings,
    overwrite: Annotated[bool, option("Replace a mitigated encoder in the folder.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Fit a method, write the mitigated encoder and print what is left of gender."""
    from evenli.encoders.comparison.tables import leakage_block
    from evenli.encoders.mitigation import mitigate_encoder

    check_extra("encoders", "a mitigated encoder and its probes", "sklearn")
    settings = replace(settings, method=method.name, options=options)
    with terminal.heartbeat(as_json) as step:
        result = mitigate_encoder(encoder, out, settings, overwrite=overwrite, on_step=step)
    if result.note:
        terminal.warn(result.note)
    used, eraser, left = result.fit, result.eraser, result.leakage
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in used.skipped.items() if count)
    fitted = (
        f"{out}: {result.method} on {used.pairs:,} sentence pairs ({used.source}), {eraser.rank} of "
        f"{eraser.dimension} dimensions removed; use it as mitigated:{out}"
    )
    remarks = [f"left out of the fit: {left_out.replace('with without', 'without')}"] if left_out else []
    content = {"folder": str(out), **result.to_dict()}
    _answer(as_json, content, fitted, *remarks, leakage_block(left.before, left.after))


COMMANDS = (
    *(Command(run, "Audit a sentence encoder") for run in (seat, senteval, encoder_report)),
    Command(hard_debias, "mitigate"),
)
