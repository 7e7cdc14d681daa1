"""``evenli seat``, ``senteval`` and ``encoder-report``: sentence encoders."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evenli._extras import check_extra
from evenli.cli import _shared as shared
from evenli.cli._shared import SEEDS, argument, choice, option, output, several
from evenli.errors import InputError
from evenli.format import drawn_on, printable

if TYPE_CHECKING:
    from evenli.evaluate.senteval import SentEvalResult, TaskProgress

# Named here so that the help needs no numerics; a test compares them with the library.
TESTS = ("C1", "C2", "C6", "C6b", "C7", "C7b", "C8", "C8b")
TASKS = (
    *("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5", "STSB", "SICKR", "SICKE", "STS14", "MRPC"),
    *("STS12", "STS13", "STS15", "STS16"),
)


def seat(
    encoder: shared.Encoder,
    tests: Annotated[
        str | None, several("Tests, or .json or .jsonl files of your own; default: all eight.", TESTS, of="TEST")
    ] = None,
    level: Annotated[str, choice("SEAT or WEAT; a file of yours has its own.", ("sentence", "word"))] = "sentence",
    pooling: shared.Pooling = None,
    permutations: Annotated[int, option("Permutations; fewer if all can be tried.", min=100)] = 100_000,
    seed: Annotated[int, option("Seed of permutations and bootstrap.", **SEEDS)] = 0,
    device: shared.Device = None,
    online: shared.Online = False,
    html: shared.Html = None,
    as_json: shared.Json = False,
) -> None:
    """Run association tests (SEAT, WEAT) on an encoder.

    Effect sizes with p-values and intervals, corrected for the number of tests (Holm).
    """
    from evenli.evaluate.seat import SeatSettings, choose_tests
    from evenli.evaluate.seat import seat as run_seat

    settings = SeatSettings(level=level, seed=seed, permutations=permutations)  # type: ignore[arg-type]  # checked there
    # A comma may be part of a file's name.
    names = (tests,) if tests and Path(tests).is_file() else shared.split_names(tests)
    chosen = choose_tests(names, settings.level)  # a wrong name is found before the encoder is loaded
    loaded = shared.load_encoder(encoder, pooling, device, online)
    with shared.heartbeat(as_json) as step:
        result = run_seat(loaded, chosen, settings, step)
    if html is not None:
        from evenli.report.pages import seat_page, write_page

        write_page(seat_page(result, encoder), html)
    if as_json:
        content = result.to_dict()
        content["settings"]["pooling"] = getattr(loaded, "pooling", pooling)
        shared.print_json({"encoder": encoder, **content})
        return
    from evenli.report.encoder import print_associations

    print_associations(result, shared.console())


def senteval(
    encoder: shared.Encoder,
    data: Annotated[Path | None, option("Directory with the task files, flat or SentEval's own layout.")] = None,
    tasks: Annotated[str | None, several("Tasks; default: the first twelve.", TASKS, of="TASK")] = None,
    pooling: shared.Pooling = None,
    seed: Annotated[int, option("Seed of folds, shuffles and initial weights.", **SEEDS)] = 1111,
    kfold: Annotated[int, option("Folds of cross-validated tasks, outer and inner.", min=2)] = 10,
    classifier: Annotated[str, choice("torch is a softmax layer with Adam.", ("torch", "sklearn"))] = "torch",
    hidden: Annotated[int, option("Units of a sigmoid layer before the softmax; 0: none.", min=0)] = 0,
    batch_size: Annotated[int | None, option("Texts the encoder takes at a time.", min=1)] = None,
    cache: Annotated[Path | None, option("Directory that keeps embeddings between runs.")] = None,
    device: shared.Device = None,
    online: shared.Online = False,
    out: Annotated[Path | None, output("JSON file for the result; tasks in it are not run again.")] = None,
    overwrite: Annotated[bool, option("Begin anew in a file that is there.", "--overwrite")] = False,
    html: shared.Html = None,
    as_json: shared.Json = False,
) -> None:
    """Evaluate an encoder on twelve SentEval tasks.

    The tasks are those of Dolci et al. 2023.
    """
    from evenli.evaluate.senteval import ResultFile, SentEvalSettings, UnsavedResultError
    from evenli.evaluate.senteval import senteval as run_senteval

    if data is None:
        raise InputError("--data: where are the SentEval files? A flat directory, or SentEval's downstream directory")
    check_extra("hf", "SentEval", "torch")
    if classifier == "sklearn":
        check_extra("encoders", "the classifier of SentEval", "sklearn")
    settings = SentEvalSettings(shared.split_names(tasks), seed, kfold, hidden, classifier, device, batch_size)
    file = None if out is None else ResultFile(out, overwrite=overwrite)  # checked before the encoder is loaded
    loaded = shared.load_encoder(encoder, pooling, device, online)
    try:
        with shared.heartbeat(as_json) as step:

            def on_progress(progress: TaskProgress) -> None:
                step(f"task {progress.task}" if progress.result is None else "")
                _print_progress(progress)

            result = run_senteval(loaded, data, settings, out=file, cache=cache, name=encoder, on_progress=on_progress)
    except UnsavedResultError as error:
        _print(error.result, as_json)
        raise
    if not result.tasks:
        raise InputError(f"no task could run: {next(iter(result.missing.values()))}")
    _print(result, as_json)
    if html is not None:
        from evenli.report.pages import senteval_page, write_page

        write_page(senteval_page(result, encoder), html)


def _print(result: SentEvalResult, as_json: bool) -> None:
    from evenli.report.encoder import print_senteval

    if not as_json:
        print_senteval(result, shared.console())
        return
    for reason in result.missing.values():
        shared.warn(f"not run: {reason}")
    shared.print_json(result.to_dict())


def _print_progress(progress: TaskProgress) -> None:
    if progress.result is not None:
        shared.warn(str(progress))
    elif sys.stderr.isatty():  # the line of the result will replace it
        print(f"evenli: {printable(str(progress))}", end="\r", file=drawn_on(sys.stderr), flush=True)


def encoder_report(
    base: Annotated[str, argument("The encoder before mitigation: st:NAME, hf:ID, a folder, vectors:FILE, …")],
    mitigated: Annotated[list[str] | None, argument("Encoders to compare with it, such as mitigated:FOLDER.")] = None,
    data: Annotated[Path | None, option("Folder of the SentEval data; default: without SentEval.")] = None,
    tasks: Annotated[str | None, several("SentEval tasks; default: all there is data for.", TASKS, of="TASK")] = None,
    out: Annotated[Path | None, output("Folder for report.json and the chart; results are kept.")] = None,
    pooling: shared.Pooling = None,
    probe: Annotated[
        str | None, option("English text to look for gender in; default: sentences of ours.", metavar="FILE")
    ] = None,
    permutations: Annotated[int, option("Permutations of SEAT; fewer if all can be tried.", min=100)] = 100_000,
    seed: Annotated[int, option("Seed of permutations, bootstrap and probes.", **SEEDS)] = 0,
    device: shared.Device = None,
    online: shared.Online = False,
    as_json: shared.Json = False,
) -> None:
    """Put mitigated encoders beside their base.

    SEAT, what leaks of gender, and SentEval.
    """
    from evenli.evaluate.encoder_report import ReportSettings
    from evenli.evaluate.encoder_report import encoder_report as run_report
    from evenli.evaluate.seat import SeatSettings
    from evenli.evaluate.senteval import SentEvalSettings
    from evenli.report.encoder import print_encoders, write_encoder_report

    # Settings first: a wrong one is refused before an encoder is loaded.
    tests = SeatSettings(seed=seed, permutations=permutations)
    settings = ReportSettings(tests, SentEvalSettings(shared.split_names(tasks)), pooling, device, online, probe)
    check_extra("encoders", "an encoder report", "sklearn")
    with shared.heartbeat(as_json) as step_of:

        def step(name: str, figure: str) -> None:
            step_of(f"{name}: {figure}")
            if sys.stderr.isatty():
                shared.warn(f"{name}: {figure}")

        report = run_report([base, *(mitigated or [])], settings, data=data, out=out, on_step=step)
    files = []
    if out is not None:
        files = [out / "report.json", *write_encoder_report(report, out, shared.warn)]
    if as_json:
        shared.print_json(report.to_dict())
        return
    print_encoders(report, shared.console())
    if files:
        shared.say(f"written: {', '.join(map(str, files))}")
