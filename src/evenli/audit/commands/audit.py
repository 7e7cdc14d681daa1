"""``evenli audit``, ``predict``, ``robustness``, ``measure``, ``verify`` and ``compare``: models and stored runs."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from evenli.audit.commands.flags import ModelFlags, own_measures
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import SEEDS, argument, option, output, suites
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.options import grouped


@dataclass(frozen=True)
class PairFlags:
    """Which pairs an audit asks, and which words count."""

    limit: Annotated[
        int | None,
        option("A first answer from at most so many pairs of every suite, balanced like all; wider intervals.", min=1),
    ] = None
    seed: Annotated[int | None, option("Which pairs --limit takes; default 0.", "--seed", **SEEDS)] = None
    split: shared.Split = "full"
    tokenised: shared.Tokenised = False
    axis: shared.Axis = "gender"
    occupations: shared.Occupations = "published"
    dominance: Annotated[
        float | None, option("Probe: label by US labour share, occupations with at least this percentage of a gender.")
    ] = None
    full: Annotated[bool, option("Ask all wordings of suite robust, not a sample of them.", "--full")] = False


_MODEL, _PAIRS = ModelFlags(), PairFlags()
_WRITTEN = ("predictions.parquet", "results.json", "run.json")


@grouped
def audit(
    model: shared.ModelArgument = None,
    lang: shared.Lang = "en",
    data: Annotated[
        list[str] | None,
        option(
            "Release, probe sheet or pair file; may be repeated. Default: the built-in sets.", metavar="[SUITE=]FILE"
        ),
    ] = None,
    suite: Annotated[str | None, suites("Suites, with commas; default: that of the axis.")] = None,
    pairs: PairFlags = _PAIRS,
    out: shared.RunFolder = None,
    flags: ModelFlags = _MODEL,
    published: shared.Published = False,
    overwrite: shared.ReplaceRun = False,
    report: Annotated[bool, option("Also write report.html, with every suite, into the folder.", "--report")] = False,
    measures: shared.OwnMeasures = None,
    verbose: shared.Verbose = False,
    as_json: shared.Json = False,
) -> None:
    """Audit a model: verdict, causes, scores with intervals.

    Gold pairs come first: a model that does not know them gets no verdict. An interrupted audit continues.
    """
    from evenli.audit.audit import AuditSettings, default_folder
    from evenli.audit.audit import audit as run_audit
    from evenli.audit.report.terminal import show_results
    from evenli.audit.suites.base import data_by_suite
    from evenli.core.estimate import Scoring

    if report:
        check_extra("report", "an HTML report")
    if pairs.seed is not None and pairs.limit is None:
        terminal.warn("--seed chooses the pairs of --limit; without a limit all are asked, and it has no effect")
    chosen = _suites(suite, pairs.axis)
    files = data_by_suite(chosen, data or [])
    with terminal.progress_bar(as_json) as progress:
        settings = AuditSettings(
            **{**asdict(pairs), "seed": pairs.seed or 0},
            options=flags.options(),
            scoring=Scoring(published=published),
            measures=own_measures(measures),
            overwrite=overwrite,
            on_progress=progress,
            on_warning=terminal.warn,
        )
        folder = out or default_folder(model, lang, files, chosen, settings)
        result = run_audit(model, lang, files, suites=chosen, out=folder, settings=settings)
    written = list(_WRITTEN)
    if report:
        from evenli.audit.report.html import write_reports

        written += [file.name for file in write_reports(result, result.path)]
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.to_dict()})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/ {', '.join(written)}", verbose=verbose)


def _suites(names: str | None, axis: str) -> tuple[str, ...]:
    """Suites with commas between them, or that of the axis; an unknown one is refused before the work."""
    from evenli.audit.suites.base import check_suites
    from evenli.words import load_axis

    return check_suites([load_axis(axis).suite] if names is None else [name.strip() for name in names.split(",")])


@grouped
def robustness(
    target: Annotated[
        str | None, argument("Run folder with wordings, or a model as 'audit' takes it; default: embedded.")
    ] = None,
    lang: shared.Lang = "en",
    data: Annotated[
        str | None, option("More wordings (.csv), templates of your own (.txt) or an official release.", metavar="FILE")
    ] = None,
    full: Annotated[bool, option("Ask all wordings, not a sample of them.", "--full")] = False,
    axis: shared.Axis = "gender",
    out: shared.RunFolder = None,
    flags: ModelFlags = _MODEL,
    overwrite: shared.ReplaceRun = False,
    charts: Annotated[bool, option("Also write the specification curve as wordings.svg and .png.", "--charts")] = False,
    as_json: shared.Json = False,
) -> None:
    """Ask a model in other words: does the answer survive?

    How far each number moves, in how many wordings its sign and its verdict hold, and which choice of words moves it.
    """
    from evenli.audit.audit import AuditSettings, default_folder
    from evenli.audit.report.terminal import show_results
    from evenli.audit.robustness import is_run
    from evenli.audit.robustness import robustness as ask_wordings

    if charts:
        check_extra("report", "the chart of the wordings")
    with terminal.progress_bar(as_json) as progress:
        settings = AuditSettings(
            axis,
            options=flags.options(),
            overwrite=overwrite,
            on_progress=progress,
            on_warning=terminal.warn,
            full=full,
        )
        if out is None and not is_run(target):
            out = default_folder(target, lang, {"robust": data} if data else {}, ("robust",), settings)
        result = ask_wordings(target, lang, data, out=out, settings=settings)
    written = list(_WRITTEN)
    if charts:
        from evenli.audit.report.html import write_charts

        written += [file.name for file in write_charts(result, result.path, "robust")]
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.to_dict()["robust"]})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/ {', '.join(written)}", verbose=True)


@grouped
def predict(
    model: shared.ModelArgument = None,
    data: Annotated[Path | None, option("Pair file: .jsonl, .csv, .tsv or .parquet (.xz may follow).")] = None,
    gold_labels: Annotated[
        str | None,
        option(
            "What the numbers 0, 1, 2 mean as gold labels; default entailment,neutral,contradiction.",
            metavar="LABEL,LABEL,LABEL",
        ),
    ] = None,
    out: Annotated[Path, output("Run folder.")] = Path("runs/predict"),
    lang: shared.Lang = "en",
    flags: ModelFlags = _MODEL,
    overwrite: shared.ReplaceRun = False,
    as_json: shared.Json = False,
) -> None:
    """Score any pair file with a model.

    One table with your columns and three logits per pair. An interrupted run continues.
    """
    from evenli.audit.prediction_summary import FileSettings, predict_file

    if data is None:
        asked = "" if model is None else f" should {model} be asked"
        raise InputError(f"--data: which pairs{asked}? A .jsonl, .csv, .tsv or .parquet file")
    with terminal.progress_bar(as_json) as progress:
        settings = FileSettings(
            gold_labels=shared.split_names(gold_labels),
            options=flags.options(),
            overwrite=overwrite,
            on_progress=progress,
            on_warning=terminal.warn,
        )
        scored = predict_file(model, data, lang, out=out, settings=settings)
    content = {"folder": str(out), **scored.summary.to_dict(), "notes": list(scored.notes)}
    notes = [f"note: {note}" for note in scored.notes]
    terminal.answer(as_json, content, *notes, *scored.summary.lines(), f"{out}/predictions.parquet")


def measure(
    run: shared.Run,
    published: shared.Published = False,
    measures: shared.OwnMeasures = None,
    verbose: shared.Verbose = False,
    as_json: shared.Json = False,
) -> None:
    """Score a stored run again, without its model."""
    from evenli.audit.audit import measure_run
    from evenli.audit.report.terminal import show_results
    from evenli.core.estimate import Scoring

    audit = measure_run(run, Scoring(published=published), own_measures(measures), terminal.warn)
    if as_json:
        terminal.print_json({"folder": str(run), **audit.to_dict()})
    else:
        show_results(audit, terminal.console(), files=f"{run}/ results.json", verbose=verbose)


def verify(run: shared.Run, as_json: shared.Json = False) -> None:
    """Check a run against its evidence.

    Hashes of its files, and every number scored again from the table.
    """
    from evenli.audit.audit import verify_run

    checked = verify_run(run)
    files = ", ".join(checked.files)
    terminal.answer(as_json, checked.to_dict(), f"verified {run}: {files}; {checked.numbers} numbers scored again")


def compare(
    first: Annotated[Path, argument("Run folder to compare with.")],
    others: Annotated[list[Path], argument("One or more run folders on the same data.")],
    suite: Annotated[str | None, suites("Suite; default: each that all runs hold.")] = None,
    published: shared.Published = False,
    out: Annotated[
        Path | None, output("Table of causes and score for a paper, too: a .tex, .md, .csv or .parquet file.")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Compare runs item by item with the first.

    Differences with intervals and p, and which occupations moved.
    """
    from evenli.audit.compare import compare_runs
    from evenli.audit.report.export import check_suffix
    from evenli.audit.report.terminal import show_comparison
    from evenli.core.estimate import Scoring

    if out is not None:
        check_suffix(out)  # before any work
    compared = compare_runs(first, *others, suite=suite, scoring=Scoring(published=published))
    if as_json:
        terminal.print_json(compared.to_dict())
    else:
        show_comparison(compared, terminal.console())
    if out is not None:
        from evenli.audit.report.paper import write_comparison

        rows = write_comparison(compared, out)
        if not as_json:
            terminal.say(f"{out}: {rows} rows")
