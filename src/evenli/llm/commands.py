"""``evenli batch``: ask a language model through files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from evenli.audit.settings import AuditSettings, ModelOptions, Prompting
from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, suites, with_settings
from evenli.core.registry import Command

_PAIRS = ("limit", "seed", "split", "tokenised", "axis", "occupations", "dominance", "full")
_ASKING = ("prompts", "orders", "samples", "calibrate", "price")
Data = Annotated[
    list[str] | None,
    option("Release, probe sheet or pair file; may be repeated. Default: the built-in sets.", metavar="[SUITE=]FILE"),
]
Suite = Annotated[str | None, suites("Suites, with commas; default: that of the axis.")]


def _chosen(
    lang: str, data: Sequence[str] | None, suite: str | None, settings: AuditSettings, prompting: Prompting
) -> tuple[dict[str, str], Sequence[str], AuditSettings]:
    """Files by suite, suites, and all settings."""
    from evenli.audit.suites.base import check_suites, data_by_suite, usual_suites

    named = usual_suites(lang, settings, data) if suite is None else list(map(str.strip, suite.split(",")))
    chosen = check_suites(named)
    whole = replace(settings, options=ModelOptions(prompting=prompting), on_warning=terminal.warn)
    return dict(data_by_suite(chosen, list(data or []))), chosen, whole


@with_settings(settings=_PAIRS, prompting=(*_ASKING, "max_cost"))
def write(
    model: Annotated[str, argument("Name of the model where it is served.")],
    out: Annotated[Path, output("File of the requests.")] = Path("requests.jsonl"),
    lang: shared.Lang = "en",
    data: Data = None,
    suite: Suite = None,
    *,
    settings: AuditSettings,
    prompting: Prompting,
    generated: Annotated[
        bool, option("Ask for whole answers; for a service that gives no log-probabilities.", "--generated")
    ] = False,
    answered: Annotated[
        Path | None, option("Answers that are there; only the other requests are written.", metavar="FILE")
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Write the questions of an audit as a batch of requests.

    OpenAI's format: 'vllm run-batch' and hosted services take it. Nothing is sent.
    """
    from evenli.llm.batch import write_requests

    files, chosen, whole = _chosen(lang, data, suite, settings, prompting)
    written = write_requests(
        model, out, lang, files, suites=chosen, settings=whole, generated=generated, answered=answered
    )
    cost = "" if written.cost is None else f", cost about {written.cost:.2f}"
    line = f"{out}: {written.requests:,} requests, about {written.tokens:,} tokens{cost}"
    terminal.answer(as_json, {"file": str(out), **vars(written)}, line)


@with_settings(settings=(*_PAIRS, "scoring", "measures", "overwrite"), prompting=_ASKING)
def read(
    answers: Annotated[Path, argument("File of the answers.")],
    out: shared.RunFolder = None,
    lang: shared.Lang = "en",
    data: Data = None,
    suite: Suite = None,
    *,
    settings: AuditSettings,
    prompting: Prompting,
    verbose: shared.Verbose = False,
    as_json: shared.Json = False,
) -> None:
    """Audit a language model by the answers to a batch.

    The options are those with which it was written. The run is that of 'evenli audit chat:'.
    """
    from evenli.audit.audit import audit, default_folder
    from evenli.audit.report.terminal import show_results

    files, chosen, whole = _chosen(lang, data, suite, settings, prompting)
    spec = f"batch:{answers}"
    result = audit(
        spec, lang, files, suites=chosen, out=out or default_folder(spec, lang, files, chosen, whole), settings=whole
    )
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.to_dict()})
    else:
        show_results(result, terminal.console(), files=f"{result.path}/", verbose=verbose)


COMMANDS = (Command(write, "batch", "write"), Command(read, "batch", "read"))
