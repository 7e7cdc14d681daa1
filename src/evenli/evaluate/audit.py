"""The audit: pairs, model, predictions, measures, in that order."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from evenli.errors import InputError
from evenli.evaluate.assess import Scoring, assess
from evenli.evaluate.competence import check_label_order
from evenli.evaluate.predict import PredictSettings, Progress, predict
from evenli.evaluate.run_dir import RunFolder
from evenli.models import CallableModel, ModelOptions, NLIModel, load_model
from evenli.pairs import PairSet
from evenli.predictions import Predictions
from evenli.suites.checks import control_pairs, gold_pairs
from evenli.suites.load import check_suites, load_suite

Data = str | Path | PairSet | None
"""What an audit can be asked on: None for the built-in set, a release, a file or a pair set."""


@dataclass(frozen=True)
class Audit:
    """What an audit gives back: results for machines, the table behind them, and the folder both are in."""

    results: dict[str, Any]
    predictions: Predictions
    folder: Path | None

    @property
    def verdict(self) -> str:
        """The verdict in one sentence."""
        return str(self.results["verdict"]["sentence"])


def audit(
    model: str | NLIModel | Callable[..., Any] | None = None,
    lang: str = "en",
    data: Data | Mapping[str, Data] = None,
    *,
    suites: Sequence[str] = ("coal",),
    axis: str = "gender",
    split: str = "full",
    tokenised: bool = False,
    out: str | Path | None = None,
    options: ModelOptions | None = None,
    scoring: Scoring | None = None,
    overwrite: bool = False,
    on_progress: Callable[[Progress], None] = lambda progress: None,
    on_warning: Callable[[str], None] = lambda message: None,
) -> Audit:
    """Audit a model with NLI-CoAL, or with several suites in one run.

    Gold pairs are asked first: a wrong label order stops the run before anything else is scored.

    Args:
        model: A spec as on the command line, a model, any callable on (premises, hypotheses), or None for
            the embedded model of the language.
        lang: Language of the audit.
        data: None for the built-in set, an official release, a pair file, or a pair set; with several suites a
            mapping from suite to one of these.
        suites: ``coal``, ``probe``, ``dev``, one or more.
        axis: Social axis, by name or path of its TOML file.
        split: ``full`` or ``down``, for official releases.
        tokenised: Use the pre-segmented Japanese files of a release.
        out: Run folder; None keeps everything in memory.
        options: How to load the model.
        scoring: Bootstrap settings.
        overwrite: Replace another run in ``out``.
        on_progress: Called after each batch.
        on_warning: Called with each remark.

    >>> audit("fake:biased").results["coal"]["measures"]["coal"]["value"]
    1.0
    """
    sets = _pair_sets(check_suites(suites), lang, data, split=split, tokenised=tokenised, axis=axis)
    asked = resolve_model(model, lang, options)
    scoring = scoring or Scoring()
    folder = RunFolder(out) if out is not None else None
    settings = {"lang": lang, "axis": axis, "split": split, "tokenised": tokenised, "scoring": scoring.__dict__}
    if options is not None and (model is None or isinstance(model, str)):
        settings["options"] = asdict(options)
    # Held until the results are there: another audit of this folder must not get in between.
    with folder.locked() if folder is not None else nullcontext():
        predictions = predict(
            asked,
            [gold_pairs(lang, axis=axis), control_pairs(lang, axis=axis), *sets],
            folder,
            PredictSettings(
                seed=scoring.seed,
                details=settings,
                overwrite=overwrite,
                check_first=lambda gold: check_label_order(gold, asked.info.labels),
            ),
            on_progress=on_progress,
            on_warning=on_warning,
        )
        results = assess(predictions, scoring)
        if folder is not None:
            folder.write_results(results)
    return Audit(results, predictions, folder.path if folder else None)


def resolve_model(
    model: str | NLIModel | Callable[..., Any] | None, lang: str, options: ModelOptions | None = None
) -> NLIModel:
    """A spec, a model or a callable becomes a model."""
    if model is None or isinstance(model, str):
        return load_model(model, lang=lang, options=options)
    if hasattr(model, "prepare") and hasattr(model, "logits"):
        return cast(NLIModel, model)
    return CallableModel(model)


def default_folder(
    spec: str | None,
    lang: str,
    data: str | Path | Mapping[str, str] | None,
    split: str,
    tokenised: bool,
    suites: Sequence[str] = ("coal",),
) -> Path:
    """A run folder that the same command finds again: ``runs/MODEL-LANG-DATA``, or ``runs/MODEL-LANG-SUITES-DATA``."""
    files = data.values() if isinstance(data, Mapping) else [] if data is None else [data]
    source = "-".join(re.sub(r"\.tar\.xz$|\.xz$", "", Path(str(file)).name) for file in files) or "built-in"
    asked = "" if tuple(suites) == ("coal",) else "-".join(suites)
    kind = [split if split != "full" else "", "tokenised" if tokenised else ""]
    parts = [spec or f"evenli:{lang}", lang, asked, source, *kind]
    return Path("runs") / re.sub(r"[^\w.@-]+", "-", "-".join(part for part in parts if part)).strip("-.")


def _pair_sets(
    suites: Sequence[str], lang: str, data: Data | Mapping[str, Data], *, split: str, tokenised: bool, axis: str
) -> list[PairSet]:
    """The pairs of every suite; data that belongs to no suite is refused before anything is loaded."""
    if not isinstance(data, Mapping):
        if data is not None and len(suites) > 1:
            raise InputError(
                f"one data set for the suites {', '.join(suites)}; say which it is for, as in "
                f"data={{'{suites[-1]}': ...}}"
            )
        data = {suites[0]: data}
    unasked = [name for name in data if name not in suites]
    if unasked:
        raise InputError(f"data is given for {', '.join(unasked)}; the suites of this audit are {', '.join(suites)}")
    sets = []
    for suite in suites:
        given = data.get(suite)
        if not isinstance(given, PairSet):
            given = load_suite(suite, lang, given, split=split, tokenised=tokenised, axis=axis)
        if given.suite != suite:
            raise InputError(f"the pair set '{given.name}' is of suite {given.suite}; pass suites=('{given.suite}',)")
        sets.append(given)
    return sets
