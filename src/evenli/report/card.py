"""A model-card section: results in the hub's ``model-index`` format, then the same for people."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any

from evenli.report.export import markdown, tables
from evenli.report.markup import prose, yaml_text
from evenli.report.runs import Run, audited_data

PARTS = ("all", "yaml", "markdown")
_URL = "https://github.com/evenli/evenli"
_PUBLISHED = ("coal", "follow", "defy", "dominance", "fn_bias")
"""Measures for the model index; the Markdown table has all of them."""
_BUILT_IN = {"coal": "built-in", "probe": "built-in probe", "dev2020": "Dev et al. sample"}
"""Names of the pair sets that an audit asks without ``--data``."""


def card(run: Run, part: str = "all") -> str:
    """The section as text; ``part`` is ``all``, ``yaml`` (front matter only) or ``markdown``."""
    pieces = {"yaml": front_matter(run), "markdown": section(run)}
    return "\n".join(pieces.values()) if part == "all" else pieces[part]


def front_matter(run: Run) -> str:
    """YAML front matter with one ``model-index`` entry."""
    results, data = run.results, run.data
    lines = [
        "---",
        "model-index:",
        f"- name: {yaml_text(run.header['model']['name'])}",
        "  results:",
        "  - task:",
        "      type: text-classification",
        '      name: "Natural Language Inference"',
        "    dataset:",
        "      type: nli-coal",
        f"      name: {yaml_text('NLI-CoAL (' + data['name'] + ')')}",
        f"      config: {yaml_text(data['lang'])}",
        f"      split: {yaml_text(run.header.get('settings', {}).get('split', 'full'))}",
        f"      revision: {yaml_text(data['sha256'])}",
        "    metrics:",
    ]
    # A model without a verdict scores 0 by being mute; the hub must not rank that as fair.
    bias = {} if results["verdict"]["code"] == "none" else results["coal"]["measures"]
    metrics = [(name, f"{e['title']}, {e['direction']}", e) for name, e in bias.items() if name in _PUBLISHED]
    if results["competence"]:
        metrics.append(("accuracy", "competence on gold pairs", results["competence"]["gold"]))
    for name, title, entry in metrics:
        if entry["value"] is None:
            continue
        lines += [
            f"    - type: {yaml_text(name)}",
            f"      name: {yaml_text(title)}",
            f"      value: {entry['value']!r}",
            "      args:",
            *(f"        {key}: {json.dumps(entry[key])}" for key in ("low", "high", "level", "n")),
        ]
    lines += [
        "    source:",
        f'      name: "evenli {results.get("evenli", "?")}"',
        f"      url: {yaml_text(_URL)}",
        "---",
        "",
    ]
    return "\n".join(lines)


def section(run: Run) -> str:
    """What was measured, the verdict, the measures, what they do not show, and how to measure again."""
    results, data = run.results, run.data
    coal = results["coal"]
    sets = ", ".join(f"{count:,} {subset}" for subset, count in coal["rows"].items())
    notes = "".join(f"\n- {prose(note)}" for note in data.get("notes", []))
    scoring = results["scoring"]
    table = tables(results)["measures"]
    shown = table.filter(table["slice"] == "all").select("measure", "value", "low", "high", "range", "reading")
    return f"""## Gender bias in inference (NLI-CoAL)

**{prose(results["verdict"]["sentence"])}**

What was measured: whether {prose(run.model)} infers a gender from an occupation. {data["rows"]:,} pairs
({prose(data["lang"])}, {prose(data["name"])}: {sets}) whose correct label is always neutral;
{data["occupations"]} occupations, {data["templates"]} templates.{notes}

{markdown(shown)}
Intervals: {scoring["level"]:.0%}, {scoring["bootstrap"]} bootstrap, {scoring["resamples"]:,} resamples. Another audit
must differ by {_number(coal["minimum_detectable_difference"])} in NLI-CoAL to be told apart.

{_competence(results["competence"])}

What it does not show: it is about this checkpoint, these occupations, these sentences, two genders, and stereotypes
collected in the United States. A low score means that this probe found nothing, not that nothing is there. It does not
predict harm in an application.

To measure again (evenli {prose(results.get("evenli", "?"))}, data SHA-256 `{data["sha256"][:16]}`):

    {command(run)}

Measure: Anantaprayoon, Kaneko, Okazaki (2024), LREC-COLING. Tool: [evenli]({_URL}).
"""


def command(run: Run) -> str:
    """The audit command that asks the same again; a data file is a placeholder, its path is not stored.

    Every option that is not at its default is there, but for ``--offline``, which is about a machine and not the audit.
    """
    model, settings = run.header["model"], run.header.get("settings", {})
    options, scoring = settings.get("options", {}), run.results["scoring"]
    words = ["evenli", "audit", str(model.get("spec") or "MODEL"), "--lang", str(settings.get("lang", "en"))]
    if model.get("backend") == "hf" and model.get("revision") and "@" not in words[2]:
        words[2] += f"@{model['revision']}"
    if run.suites != ["coal"]:
        words += ["--suite", ",".join(run.suites)]
    for suite in run.suites:
        if audited_data(run.header, suite).get("name") != _BUILT_IN[suite]:
            words += ["--data", "DATA" if len(run.suites) == 1 else f"{suite}=DATA"]
    defaults = (("axis", "gender"), ("split", "full"))
    for name, default in defaults:
        if settings.get(name, default) != default:
            words += [f"--{name}", str(settings[name])]
    if settings.get("tokenised"):
        words.append("--tokenised")
    if options.get("labels"):
        words += ["--labels", ",".join(options["labels"])]
    for name, standard in (("device", None), ("dtype", None), ("max_length", 128), ("token_budget", None)):
        if options.get(name, standard) != standard:
            words += [f"--{name.replace('_', '-')}", str(options[name])]
    if options.get("allow_pickle"):
        words.append("--allow-pickle")
    for name, usual in (("resamples", 2000), ("seed", 0), ("bootstrap", "cluster")):
        if scoring[name] != usual:
            words += [f"--{name}", str(scoring[name])]
    return " ".join(map(_quoted, words))


def _quoted(word: str) -> str:
    """One word of a shell, in one line of text: a line break is spelled out outside of the quotes."""

    def spelled(match: re.Match[str]) -> str:
        code = ord(match[0])
        return f"'$'\\x{code:02x}''" if code < 0x80 else f"'$'\\u{code:04x}''"

    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", spelled, shlex.quote(word))


def _competence(gate: dict[str, Any] | None) -> str:
    if gate is None:
        return "Competence at the task was not assessed."
    gold, stated = gate["gold"], gate["stated"]
    return (
        f"Competence: {_estimate(gold)} of {gold['n']} unmistakable pairs right, {_estimate(stated)} of {stated['n']} "
        "pairs that state the group."
    )


def _estimate(entry: dict[str, Any]) -> str:
    return f"{_number(entry['value'])} [{_number(entry['low'])}, {_number(entry['high'])}]"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.3f}"
