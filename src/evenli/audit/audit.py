"""The audit: pairs, model, predictions, measures, in that order."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeGuard, cast

from evenli.audit.assess import Audit as Audit
from evenli.audit.assess import OwnMeasure, assess, check_label_order, check_stored, keep_own
from evenli.audit.models import CallableModel, ModelOptions, NLIModel, load_model
from evenli.audit.pairs import PairSet, few_checks, subsample
from evenli.audit.predict import predict
from evenli.audit.predictions import Predictions, PredictionSummary, RunFolder, read_header, summarise
from evenli.audit.results import AuditResult
from evenli.audit.settings import AuditSettings, FileSettings, PairSettings
from evenli.audit.suites.about import GENDER, record
from evenli.audit.suites.base import Request, check_suites, get_suite, load_suite, usual_suites
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.files import read_pairs
from evenli.core.errors import InputError, RunError
from evenli.core.format import file_name
from evenli.core.io import read_json
from evenli.core.parse import path_of
from evenli.core.record import Scoring
from evenli.core.registry import DEFAULT_SUITE, SUITES
from evenli.core.settings import settings_of
from evenli.words import Occupation
from evenli.words.occupations import PUBLISHED

Model = str | NLIModel | Callable[..., Any] | None
"""A spec as on the command line, a model, any callable on (premises, hypotheses), or None for the embedded one."""


def audit(
    model: Model = None,
    lang: str = "en",
    data: Any = None,
    *,
    suites: str | Sequence[str] | None = None,
    out: str | Path | None = None,
    settings: AuditSettings | None = None,
    **options: Any,
) -> Audit:
    """Audit a model with NLI-CoAL, or with several suites in one run.

    Gold pairs are asked first: a wrong label order stops the run before anything else is scored.

    Args:
        model: A spec as on the command line, a model, any callable on (premises, hypotheses), or None for
            the embedded model of the language.
        lang: Language of the audit.
        data: None for the built-in set, an official release, a pair file, a pair set, or a table of polars, pandas or
            datasets; with several suites a mapping from suite to one of these.
        suites: One or more suites; default that of the axis, which is coal for gender, and in English labour and coal.
        out: Run folder; None keeps everything in memory.
        settings: Everything else.
        options: Fields of ``AuditSettings``, ``ModelOptions`` or ``Prompting``.

    >>> audit("fake:biased").coal.value
    1.0
    """
    given = {name: value for name, value in options.items() if value is not None}
    settings = settings_of(AuditSettings, settings, given, "audit")
    if isinstance(suites, str):
        suites = suites.split(",")  # as on the command line
    suites = check_suites(suites if suites is not None else usual_suites(lang, settings, data))
    sets = questions(suites, lang, data, settings)
    asked = resolve_model(model, lang, asking(settings), _listed(sets))
    for pairs in sets:
        if pairs.suite in suites:
            for said in get_suite(pairs.suite).announce(pairs):
                settings.on_warning(said)
    # A language model is asked for labels by name: they have no order, and what was asked is kept at once.
    named = getattr(asked, "named_labels", False)
    folder = RunFolder(out) if out is not None else None
    with folder.locked() if folder else nullcontext():
        # Held until the results are there: another audit of this folder must not get in between.
        predictions = predict(
            asked,
            sets,
            folder,
            settings,
            seed=settings.seed or 0,
            details=_recorded(settings, lang, loaded=model is None or isinstance(model, str)),
            check_first=None if named else lambda gold: check_label_order(gold, asked.info.labels),
        )
        result = assess(predictions, settings.scoring, settings.measures)
        if folder is not None:
            _store(folder, result, predictions.header, settings.on_warning)
    return Audit(result, predictions, folder.path if folder else None)


def questions(suites: Sequence[str], lang: str, data: Any, settings: AuditSettings) -> list[PairSet]:
    """Everything that an audit asks, in order: gold pairs, control pairs, and the pairs of every suite."""
    sets = pair_sets(suites, lang, data, settings)
    checks = [gold_pairs(lang, axis=settings.axis), control_pairs(lang, axis=settings.axis)]
    return [*(checks if settings.limit is None else few_checks(checks, settings.limit)), *sets]


def asking(settings: AuditSettings) -> ModelOptions | None:
    """With a limit a language model is asked in one wording, unless the settings say in how many."""
    options = settings.options or ModelOptions()
    if settings.limit is None or options.prompting.prompts is not None:
        return settings.options
    return replace(options, prompting=replace(options.prompting, prompts=1))


def _recorded(settings: AuditSettings, lang: str, *, loaded: bool) -> dict[str, Any]:
    """What run.json remembers of the settings; ``loaded`` says whether the model was named by a spec."""
    recorded: dict[str, Any] = {"lang": lang, "axis": settings.axis, "split": settings.split}
    recorded |= {"tokenised": settings.tokenised, "scoring": settings.scoring.to_dict()}
    recorded |= settings.changed("limit", "dominance", "full")
    # Reports of a stored run speak the words of its axis; they never read a path that is stored.
    words = str(settings.occupations or PUBLISHED)
    recorded |= {} if settings.axis == GENDER else {"about": record(settings.axis, words)}
    return recorded | ({"options": settings.options.to_dict()} if settings.options is not None and loaded else {})


def _listed(sets: Sequence[PairSet]) -> list[list[Occupation]] | None:
    """The words of every list that is asked, published ones first; None where those are the only ones."""
    if not any(part.occupation_list for part in sets):
        return None
    parts = [part for part in sets if part.occupation_list or part.suite == DEFAULT_SUITE]
    # The published list has no name.
    typed = (
        part.frame.select("occupation", "stereotype").unique(maintain_order=True)
        for part in sorted(parts, key=lambda part: part.occupation_list)
    )
    return [[Occupation(word, stereotype, word) for word, stereotype in words.iter_rows()] for words in typed]


def resolve_model(
    model: Model,
    lang: str,
    options: ModelOptions | None = None,
    occupations: Sequence[Sequence[Occupation]] | None = None,
) -> NLIModel:
    """A spec, a model or a callable becomes a model; the occupations, list by list, are for the fakes."""
    if model is None or isinstance(model, str):
        return load_model(model, lang=lang, options=options, occupations=occupations)
    if hasattr(model, "prepare") and hasattr(model, "logits"):
        return cast(NLIModel, model)
    if not callable(model):
        kind = type(model).__name__
        raise InputError(f"{kind} is no model: give a spec as text, a model, or a function on (premises, hypotheses)")
    return CallableModel(model)


def default_folder(
    spec: str | None, lang: str, files: Mapping[str, str], suites: Sequence[str], settings: AuditSettings
) -> Path:
    """A run folder that the same command finds again: ``runs/MODEL-LANG-DATA``, or ``runs/MODEL-LANG-SUITES-DATA``."""
    axis, words = Path(str(settings.axis)).stem, settings.occupations
    names = (re.sub(r"\.tar\.xz$|\.xz$", "", Path(file).name) for file in files.values())
    source = "-".join(names) or "built-in"
    asked = "" if tuple(suites) == usual_suites(lang, settings, files) else "-".join(suites)
    kind = [settings.split if settings.split != "full" else "", "tokenised" if settings.tokenised else ""]
    kind += [Path(words).name if words is not None else "", "all" if settings.full else ""]
    kind += [f"dominance{settings.dominance:g}" if settings.dominance is not None else ""]
    kind += [axis if settings.axis != GENDER else ""]
    part = f"limit-{settings.limit}" if settings.limit else ""
    part += f"-seed-{settings.seed}" if part and settings.seed else ""
    parts = [spec or f"evenli:{lang}", lang, asked, source, *kind, part]
    return Path("runs") / file_name(re.sub(r"[^\w.@-]+", "-", "-".join(part for part in parts if part)).strip("-."))


def pair_sets(suites: Sequence[str], lang: str, data: Any, settings: AuditSettings) -> list[PairSet]:
    """The pairs of every suite; data that belongs to no suite is refused before anything is loaded."""
    named, kinds = ", ".join(suites), {name: get_suite(name) for name in suites}
    if not isinstance(data, Mapping):
        if data is not None and len(suites) > 1:
            raise InputError(
                f"one data set for the suites {named}; say which it is for, as in data={{'{suites[-1]}': ...}}"
            )
        data = {suites[0]: data}
    if others := [name for name in data if name not in suites]:
        raise InputError(
            f"data is given for {', '.join(map(str, others))}; the suites of this audit are {named}. Of a data set "
            "with several splits give one"
        )
    # A setting that none of the suites reads would be ignored without a word.
    taken = {setting for kind in kinds.values() for setting in kind.takes}
    if settings.full and "full" not in taken:
        raise InputError(f"suite {named} asks all of its pairs; full is for suite robust")
    if settings.occupations is not None and "occupations" not in taken:
        raise InputError(f"suite {named} has its own occupations; a list (--occupations) is for suite coal")
    if settings.dominance is not None and "dominance" not in taken:
        able = ", ".join(name for name in SUITES.builtin if "dominance" in get_suite(name).takes)
        raise InputError(f"dominance applies only to suite {able} (got {named})")
    whole = [name for name, kind in kinds.items() if "full" in kind.takes]
    if settings.limit is not None and whole:
        raise InputError(f"the pairs of suite {whole[0]} belong together and cannot be limited; leave the limit out")
    chosen = {field.name: getattr(settings, field.name) for field in fields(PairSettings)}
    lists = {name: settings.occupations if "occupations" in kind.takes else None for name, kind in kinds.items()}
    sets = [
        load_suite(name, Request(lang, data.get(name), **chosen | {"occupations": own})) for name, own in lists.items()
    ]
    return sets if settings.limit is None else [subsample(pairs, settings.limit, settings.seed or 0) for pairs in sets]


@dataclass(frozen=True)
class FilePredictions:
    """A pair file with the answers of a model."""

    predictions: Predictions  # every pair with the columns of the file and three logits
    summary: PredictionSummary
    notes: tuple[str, ...]  # what should be known of the file
    folder: Path | None


def predict_file(
    model: Model, data: Any, lang: str = "en", *, out: str | Path | None = None, settings: FileSettings | None = None
) -> FilePredictions:
    """Score any pair file with a model; ``evenli predict``. Model, language and run folder are those of ``audit``.

    ``data`` is a .jsonl, .csv, .tsv or .parquet file, or a table.
    """
    settings = settings or FileSettings()
    pairs = read_pairs(data, lang, suite="user", gold_labels=settings.gold_labels, extra=True)
    folder = None if out is None else RunFolder(out)
    predictions = predict(resolve_model(model, lang, settings.options), [pairs], folder, settings)
    return FilePredictions(predictions, summarise(predictions), pairs.notes, folder.path if folder else None)


def robustness(
    target: Audit | Path | Model = None,
    lang: str = "en",
    data: Any = None,
    *,
    out: str | Path | None = None,
    settings: AuditSettings | None = None,
) -> Audit:
    """Audit a model in many wordings; of a run that has them, read what it says.

    Args:
        target: A run folder or an audit, or a model as ``audit`` takes it.
        lang: Language of the audit.
        data: None, a CSV file of further wordings, a text file of templates, or an official release.
        out: Run folder; None keeps everything in memory.
        settings: Everything else. A finished run takes none of data, out and ``full``.

    Returns:
        An audit with the suite ``robust``: every wording, and in how many of them each cause keeps its sign.
    """
    settings = settings or AuditSettings()
    run = load_run(target) if is_run(target) else target
    if not isinstance(run, Audit):
        asked = str(run) if isinstance(run, Path) else run
        return audit(asked, lang, data, suites=("robust",), out=out, settings=settings)
    if settings.full or data is not None or out is not None:
        raise InputError(f"{run.path} is a finished run; full, data and out (--full, --data, --out) need a model")
    if "robust" not in run.result.suites:
        spec = shlex.quote(run.result.model.spec or run.result.model.name)
        raise RunError(
            f"the run in {run.path} asked one wording; ask others with 'evenli robustness {spec} --lang "
            f"{run.result.lang}'"
        )
    return run


def is_run(target: object) -> TypeGuard[str | Path]:
    """Whether this names a run folder rather than a model."""
    return isinstance(target, str | Path) and (Path(target) / "run.json").is_file()


def load_run(path: str | Path, *, needs: str | None = None) -> Audit:
    """Read the folder that an audit wrote; no model is asked.

    Args:
        path: The run folder.
        needs: A suite that it must hold.

    Returns:
        The same object that ``audit`` gave back.

    Raises:
        InputError: The folder is incomplete or holds no such suite; the message says what to do.
    """
    folder = path_of(path, "a run")
    predictions = _predictions(folder)
    asked = [card.get("suite") for card in predictions.header.get("data", [])]
    held = [name for name in SUITES if name in asked]
    if not held:
        names = ", ".join(map(str, asked)) or "nothing"
        raise RunError(f"{folder} is not an audit: it holds predictions on {names}; make one with 'evenli audit'")
    if needs is not None and needs not in held:
        wanted = ",".join(name for name in SUITES if name in {needs, *held})
        raise RunError(
            f"the run in {folder} holds suite {', '.join(held)} only, and this needs {get_suite(needs).title}; audit "
            f"the model with all of them (--suite {wanted})"
        )
    return Audit(_read_results(folder, predictions.header, held), predictions, folder)


def measure_run(
    path: str | Path,
    scoring: Scoring | None = None,
    measures: Sequence[OwnMeasure] = (),
    on_warning: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Score a stored run again, without the model, and replace its results.json.

    Measures of your own that were computed before stay, with a note, where they are not given again. ``on_warning``
    hears where results that counted other words are replaced.
    """
    folder = RunFolder(path)
    _check_run(folder.path)
    with folder.locked():
        predictions = _predictions(folder.path)
        check_stored(predictions, folder.predictions_file)
        result = assess(predictions, scoring, measures)
        with suppress(InputError, ValueError, RunError):  # missing or damaged: this call makes it anew
            result = keep_own(result, folder.read_results(predictions.header))
        _store(folder, result, predictions.header, on_warning)
    return Audit(result, predictions, folder.path)


def _store(
    folder: RunFolder, result: AuditResult, header: Mapping[str, Any], on_warning: Callable[[str], None]
) -> None:
    """Replace the results of the table with this header; say so if the old ones counted other words.

    For this reason alone the numbers differ.
    """
    now = before = result.scoring.published
    with suppress(InputError, AttributeError):  # there are none, or none that anyone could have read
        before = read_json(folder.results_file).get("scoring", {}).get("published", False)
    folder.write_results(result.to_dict(), header)
    if before != now:
        change = f"{'include' if now else 'exclude'} words that state a group"
        back = f"evenli measure {folder.path}{'' if now else ' --published'}"
        on_warning(f"{folder.results_file}: our own measures now {change}; to revert: '{back}'")


def _predictions(folder: Path) -> Predictions:
    """The table of a complete run, with run.json as its header."""
    _check_run(folder)
    header = read_header(folder / "run.json")
    if header.get("status") != "complete":
        raise RunError(f"the run in {folder} is not complete; run its audit command again to finish it")
    table = folder / "predictions.parquet"
    if not table.is_file():
        raise RunError(f"{table} is missing although the run is complete; delete {folder} and audit the model again")
    return RunFolder(folder).read_predictions(header)


def _check_run(folder: Path) -> None:
    if not folder.is_dir():
        raise RunError(f"there is no run folder {folder}; make one with 'evenli audit MODEL -o {folder}'")
    if not (folder / "run.json").is_file():
        raise RunError(f"{folder} is not a run folder: run.json is missing; give the folder that 'evenli audit' wrote")


def _read_results(folder: Path, header: Mapping[str, Any], suites: Sequence[str]) -> AuditResult:
    """What results.json says, if it is the file that run.json describes."""
    file = folder / "results.json"
    advice = f"recreate it with 'evenli measure {folder}'"
    if not file.is_file():
        raise RunError(f"{file} is missing; {advice}")
    result = RunFolder(folder).read_results(header)
    if missing := [name for name in suites if name not in result.suites]:
        raise RunError(f"{file} lacks {', '.join(missing)}; {advice}")
    return result
