"""A model-card section: results in the hub's ``model-index`` format, then the same for people.

It is text of its own, or goes into a card that exists. Reading, merging and writing the metadata of the hub is left to
``huggingface_hub``.
"""

from __future__ import annotations

import logging
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenli.audit.audit import Audit, load_run
from evenli.audit.report.export import markdown, pipe_table, tables
from evenli.audit.report.terminal import summarise
from evenli.audit.results import DataCard
from evenli.audit.settings import AuditSettings, PairSettings
from evenli.audit.suites.about import about_axis
from evenli.audit.suites.base import get_suite, judging, usual_suites
from evenli.core.blocks import CARD, Block, Summary, range_of
from evenli.core.errors import EvenliError, InputError, RunError, message_of, translated
from evenli.core.format import percent, prose
from evenli.core.io import read_text, write_atomic
from evenli.core.record import Estimate
from evenli.core.registry import DEFAULT_SUITE, SUITES
from evenli.core.settings import offered_fields
from evenli.words.axes import shipped_names

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

LIMIT = 16 << 20
"""Largest card that is read, in bytes."""
PARTS = ("all", "yaml", "markdown")
SOURCE = "https://github.com/evenli/evenli"
_OPTIONS = (
    *("axis", "split", "tokenised", "limit", "dominance", "full", "seed"),
    *("labels", "device", "dtype", "max_length", "token_budget", "allow_pickle", "published"),
)
"""Settings that a command names where they are not at their defaults, in its order."""


def card(run: Audit | str | Path, part: str = "all") -> str:
    """The section as text; ``part`` is ``all``, ``yaml`` (front matter only) or ``markdown``."""
    if part not in PARTS:
        raise InputError(f"no part '{part}'; choose {', '.join(PARTS)}")
    run = run if isinstance(run, Audit) else load_run(run)
    pieces = {"yaml": front_matter(run), "markdown": section(run)}
    return "\n".join(pieces.values()) if part == "all" else pieces[part]


def front_matter(audit: Audit) -> str:
    """YAML front matter with one ``model-index`` entry."""
    from huggingface_hub import ModelCardData

    results = eval_results(audit)
    about = ModelCardData(model_name=audit.result.model.name, eval_results=results) if results else ModelCardData()
    return f"---\n{about.to_yaml()}\n---\n"


def eval_results(audit: Audit) -> list[EvalResult]:
    """What the hub lists of an audit: one result per measure, with its interval."""
    about = suite_of(audit)
    # Both lists of jobs: the published score is what others have.
    suites = [name for name in audit.result.suites if name == about or get_suite(name).reworded]
    return [result for suite in suites for result in _results_of(suite, audit)]


def _results_of(suite: str, audit: Audit) -> list[EvalResult]:
    from huggingface_hub import EvalResult

    data = audit.result.data_of(suite) or DataCard("unknown data", suite)
    asked, result, competence = get_suite(suite), audit.result.suites[suite], audit.result.competence
    # A model without a verdict scores 0 by being mute; the hub must not rank that as fair. Where a suite gives none,
    # the model must at least do the task.
    is_mute = audit.verdict.code == "none" if asked.judges else competence is None or bool(result.problem)
    listed = asked.listed or (result.headline or asked.headline,)
    metrics: list[tuple[str, str, Estimate]] = [
        (name, f"{measure.title}, {measure.direction}", measure)
        for name, measure in result.measures.items()
        if name in listed and not is_mute
    ]
    if competence and suite == suite_of(audit):
        metrics.append(("accuracy", "competence on gold pairs", competence.gold))
    return [
        EvalResult(
            task_type="text-classification",
            task_name="Natural Language Inference",
            dataset_type=asked.hub[0] or f"evenli-{suite}",
            dataset_name=f"{asked.hub[1] or asked.title} ({data.name})",
            dataset_config=data.lang,
            dataset_split=str(audit.header.get("settings", {}).get("split", "full")),
            dataset_revision=data.sha256,
            metric_type=name,
            metric_name=title,
            metric_value=plain["value"],
            metric_args={key: plain[key] for key in ("low", "high", "level", "n")},
            source_name=f"evenli {audit.header.get('evenli', '?')}",
            source_url=SOURCE,
        )
        for name, title, plain in ((name, title, estimate.to_dict()) for name, title, estimate in metrics)
        if plain["value"] is not None
    ]


def section(audit: Audit) -> str:
    """What was measured, the verdict, the measures, what they do not show, and how to measure again."""
    suite, scoring, about = suite_of(audit), audit.result.scoring, about_axis(audit.header)
    data = audit.result.data_of(suite) or DataCard("unknown data", suite)
    notes = "".join(f"\n- {prose(note)}" for note in data.notes)
    summary = summarise(audit)
    detail = "" if summary.detail in {"", summary.sentence} else f"{prose(summary.detail)}\n\n"
    table = tables(audit.result, suite)["measures"]
    shown = table.filter(table["slice"] == "all").select("measure", "value", "low", "high", "range", "reading")
    things = "occupations" if about.of_gender else f"{prose(about.thing)}s"
    asked, result = get_suite(suite), audit.result.suites[suite]
    text, blocks = asked.texts(about), asked.blocks(result, audit.sample(suite), CARD)
    extra = "".join(_plain_block(block) for block in blocks if block.rows)
    below = "".join(f"\n{line}" for block in blocks if not (block.rows or block.measures) for line in block.lines)
    # What was answered, where the result says so: a language model may abstain.
    rows = getattr(result, "rows", None)
    counts = rows if isinstance(rows, dict) else data.subsets
    sets = ", ".join(f"{count:,} {subset}" for subset, count in counts.items())
    return f"""## {text.heading}

{to_markdown(summary)}
{detail}What was measured: whether {prose(audit.name)} {text.asked} {data.rows:,} pairs
({prose(data.lang)}, {prose(data.name)}: {sets}){text.right};
{data.occupations} {things}, {data.templates} templates.{notes}

{markdown(shown)}
{extra}Intervals: {percent(scoring.level)}, two-way cluster-robust over {things} and templates.{below}

{_competence(audit)}

What it does not show: {limits(audit)}

To measure again (evenli {prose(audit.header.get("evenli", "?"))}, data SHA-256 `{data.sha256[:16]}`):

    {command(audit)}

Measure: {text.paper}. Tool: [evenli]({SOURCE}).
"""


def limits(audit: Audit) -> str:
    """What the numbers of a run do not show, after a colon."""
    about = about_axis(audit.header)
    things = "occupations" if about.of_gender else f"{prose(about.thing)}s"
    told = get_suite(suite_of(audit)).texts(about).limits
    ending = "It does not\npredict harm in an application."
    return f"it is about this checkpoint, these {things}, these sentences, {told} {ending}"


def _competence(audit: Audit) -> str:
    competence = audit.result.competence
    weak = "".join(f"\n{line}" for line in audit.result.evidence.lines)
    if not competence:
        return f"Competence at the task was not assessed.{weak}"
    gold, stated = (f"{share.shown} of {share.n}" for share in (competence.gold, competence.stated))
    return f"Competence: {gold} unmistakable pairs right, {stated} pairs that state the group.{weak}"


def _plain_block(block: Block) -> str:
    """A table that a suite shows, and its sentences, as Markdown."""
    columns = [">" * title.startswith(">") + prose(title.removeprefix(">")) for title in block.columns]
    table = pipe_table(columns, ([prose(cell) for cell in row] for row in block.rows))
    below = "\n".join(prose(line) for line in (*block.lines, *block.notes))
    return f"**{prose(block.heading)}**\n\n{table}\n{below}\n\n"


def to_markdown(summary: Summary) -> str:
    """The first screen as Markdown: sentence, table of the bars, numbers, example, limit."""
    parts = [f"**{prose(summary.sentence)}**", ""]
    if summary.problem:
        parts += [f"Greyed out, these numbers say nothing about bias: {prose(summary.problem)}.", ""]
    if summary.bars:
        columns = [summary.question, *(f">{prose(share.label)}" for share in summary.bars[0].shares)]
        rows = []
        for bar in summary.bars:
            cells = [f"{percent(reading.value)} ({range_of(reading.low, reading.high)})" for reading in bar.shares]
            rows.append([f"{prose(bar.name)}, {bar.sentences:,} sentences", *cells])
        parts.append(pipe_table(columns, rows))
    parts += [f"{summary.scale}", ""] if summary.scale else []
    for fact in summary.numbers:
        parts.append(f"- **{prose(fact.name)}: {fact.value}** ({prose(fact.text)}) {prose(fact.meaning)}")
    parts += ["", prose(summary.beside)] if summary.beside else []
    if summary.example is not None:
        answers = ", ".join(f"{word} {percent(share)}" for word, share, _, _ in summary.example.answers)
        said = f"“{prose(summary.example.premise)}” Does it follow: “{prose(summary.example.hypothesis)}”?"
        parts += ["", f"Example ({prose(summary.example.about)}): {said} The model: {answers}; *cannot know* is right."]
    return "\n".join(parts) + "\n"


def command(audit: Audit) -> str:
    """The audit command that asks the same again; a data file is a placeholder, its path is not stored.

    Every option that is not at its default is there, but for ``--offline``, which is about a machine and not the audit.
    """
    model, suites = audit.result.model, list(audit.result.suites)
    settings = audit.header.get("settings", {})
    spec = model.spec or "MODEL"
    if model.backend == "hf" and model.revision and "@" not in spec:
        spec += f"@{model.revision}"
    lang, axis = str(settings.get("lang", "en")), str(settings.get("axis", "gender"))
    words, data, listed = ["evenli", "audit", spec, "--lang", lang], list[str](), None
    for suite in suites:
        card = audit.result.data_of(suite)
        if card is not None and card.occupation_list:
            listed = card.occupation_list if "occupations" in get_suite(suite).takes else listed
        elif card is None or card.name.split(", ")[0] != get_suite(suite).built_in:
            data += ["--data", "DATA" if len(suites) == 1 else f"{suite}=DATA"]
    # What is asked by default needs no option.
    known = axis in shipped_names()
    usual = usual_suites(lang, PairSettings(axis=axis, occupations=listed), data) if known else (DEFAULT_SUITE,)
    words += ["--suite", ",".join(suites)] if tuple(suites) != usual else []
    words += [*(["--occupations", listed] if listed else []), *data]
    stored = {**settings, **settings.get("options", {}), "published": audit.result.scoring.published}
    stored["seed"] = (audit.header.get("seed") if "limit" in settings else None) or None
    defaults = {field.name: field.default for field in offered_fields(AuditSettings)}
    for name in _OPTIONS:
        value = stored.get(name)
        if value in (None, [], defaults[name]):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if not isinstance(value, bool):
            words.append(",".join(map(str, value)) if isinstance(value, list | tuple) else str(value))
    return " ".join(map(_quoted, words))


def suite_of(audit: Audit) -> str:
    """The suite that the section is about: the one that judges; where none does, the first that says enough alone."""
    suites = [get_suite(name) for name in audit.result.suites]
    suite = judging(audit.result.suites) or next((candidate for candidate in suites if candidate.self_sufficient), None)
    if suite is None:
        judges = [name for name in SUITES if get_suite(name).judges]
        held, titles = ", ".join(audit.result.suites), " or ".join(get_suite(name).title for name in judges)
        names = ",".join(name for name in SUITES if name in {DEFAULT_SUITE, *audit.result.suites})
        raise RunError(
            f"the run in {audit.path} holds suite {held} only, and this needs {titles}; audit the model with "
            f"all of them (--suite {names})"
        )
    return suite.name


def _quoted(word: str) -> str:
    """One word of a shell, in one line of text: a line break is spelled out outside of the quotes."""

    def spelled(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"'$'\\x{code:02x}''" if code < 0x80 else f"'$'\\u{code:04x}''"

    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", spelled, shlex.quote(word))


def merge_card(run: Audit | str | Path, file: str | Path) -> None:
    """Write the results of a run into the card ``file``, which is made where it is missing.

    What evenli wrote about the same pairs earlier is replaced; everything else stays. Comments in the YAML part are
    lost, because the hub's library does not keep them.
    """
    audit, file = run if isinstance(run, Audit) else load_run(run), Path(file)
    text = read_text(file, limit=LIMIT) if file.exists() else ""
    write_atomic(file, merged(audit, text, str(file)))


def push_card(run: Audit | str | Path, repository: str) -> str:
    """Propose the results of a run for the card of a model on the hub, as a pull request; returns its address."""
    from huggingface_hub import ModelCard, hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError

    audit = run if isinstance(run, Audit) else load_run(run)
    message = f"Add the results of an evenli audit ({suite_of(audit)})"
    # No network, no token, no such repository: each has an error of its own.
    with _hub(f"cannot write to {repository} on the hub (", "); log in with `hf auth login`", RunError):
        try:
            text = read_text(Path(hf_hub_download(repository, "README.md")), limit=LIMIT)
        except EntryNotFoundError:
            text = ""
        card = ModelCard(merged(audit, text, f"the card of {repository}"), ignore_metadata_errors=True)
        return str(card.push_to_hub(repository, commit_message=message, create_pr=True))


def merged(audit: Audit, text: str, name: str) -> str:
    """The text of a card with the results of an audit in it."""
    from huggingface_hub import ModelCard

    # The YAML may be unreadable, or its model index none.
    with _hub(f"{name}: its metadata cannot be read (", "); mend the part between the --- lines"):
        card = ModelCard(text)
    # Results of others, and ours on other pairs, stay.
    about: Any = card.data
    ours = eval_results(audit)
    if ours:
        about.model_name = about.get("model_name") or audit.result.model.name
        place = attrgetter("source_url", "dataset_type", "dataset_name", "dataset_config", "dataset_split")
        replaced = set(map(place, ours))
        others = [old for old in about.get("eval_results") or [] if place(old) not in replaced]
        about.eval_results = others + ours
    card.text = _with_section(card.text, audit, name)
    return str(card)


@contextmanager
def _hub(before: str, after: str, into: type[EvenliError] = InputError) -> Iterator[None]:
    """Keep remarks of the hub's library off the terminal; what it raises becomes one line."""
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with translated(before, after, into=into, reason=lambda error: message_of(error)[:200]):
            yield
    finally:
        logger.setLevel(level)


def _with_section(text: str, audit: Audit, name: str) -> str:
    # The marks name the pairs, so that a later audit on the same ones replaces the section.
    suite = suite_of(audit)
    card = audit.result.data_of(suite)
    mark = re.sub(r"[^\w]+", "-", " ".join((suite, audit.result.lang or "", card.name if card else ""))).strip("-")
    begin, end = f"<!-- evenli {mark} begin -->", f"<!-- evenli {mark} end -->"
    block = f"{begin}\n{section(audit).strip()}\n{end}"
    if begin not in text:
        return f"{text.rstrip()}\n\n{block}\n".lstrip("\n")
    before, _, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not closing:
        raise InputError(f"{name}: '{begin}' has no '{end}' after it; take the old section out and try again")
    return f"{before}{block}{after}"
