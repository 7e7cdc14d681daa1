"""The first page of an evidence pack: an auditor's questions with answers, and where each part of a standard is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from evenli.audit.audit import Audit
from evenli.audit.gate import SKIPPED, UNDECIDED, GateResult
from evenli.audit.report.card import command, limits
from evenli.audit.report.export import pipe_table
from evenli.audit.suites.about import about_axis
from evenli.audit.suites.base import get_suite
from evenli.core.format import capitalised, percent, prose
from evenli.core.record import Estimate


class Part(NamedTuple):
    """A part of a pack, and the headings under which a reader of three documents would look for it."""

    file: str
    holds: str
    ai_act_annex_iv: str
    pren_18283: str  # topics: the draft may still number its clauses otherwise
    nist_ai_rmf: str


PARTS = (
    Part(
        "report.html",
        "the report for people; it needs no network and prints as PDF",
        "2(g) metrics, test reports; 3 performance for groups of persons",
        "measuring and evaluating bias",
        "MEASURE 2.11",
    ),
    Part(
        "runs/*/card.md",
        "question, numbers, limits, and the command that measures again",
        "2(g) validation and testing procedures; 3 capabilities and limitations",
        "bias profile: scope and limits",
        "MAP 2.2, MEASURE 2.5",
    ),
    Part(
        "runs/*/model.cdx.json",
        "model identity, groups at risk, harms, metrics with intervals (CycloneDX 1.6 ML-BOM)",
        "1(a) version; 3 sources of risks of discrimination",
        "relevant groups; hazards; mitigation",
        "MAP 5.1, MEASURE 2.11",
    ),
    Part(
        "runs/*/results.json",
        "every measure with its interval, competence, verdict",
        "2(g) metrics used to measure potentially discriminatory impacts",
        "measuring and evaluating bias",
        "MEASURE 2.11, MEASURE 2.13",
    ),
    Part(
        "runs/*/predictions.parquet",
        "every sentence pair that was asked, and the model's answer",
        "2(g) test logs",
        "measuring bias: data of the test",
        "MEASURE 2.1",
    ),
    Part(
        "runs/*/run.json",
        "who was asked what, when, with which settings; hashes of the two files above (of a file's name, a zero byte "
        "and its content; the manifest of this pack has plain SHA-256)",
        "2(g) test logs, dated",
        "measuring bias: records of the test",
        "MEASURE 2.1",
    ),
    Part(
        "runs/*/gate.json",
        "the policy with its reasons, and the decision on every clause",
        "5 risk management (an input to it)",
        "evaluation against thresholds",
        "MANAGE 1.1",
    ),
    Part(
        "data.json",
        "cards of the pair sets and of evenli's word lists: source, licence, limits, hash",
        "2(g) testing data and their main characteristics",
        "data of the test",
        "MEASURE 2.1",
    ),
    Part(
        "sbom.cdx.json",
        "Python, platform and software where the pack was made (CycloneDX 1.6)",
        "2(g) testing procedures: tools",
        "–",
        "MEASURE 2.1, MAP 4.1",
    ),
    Part(
        "manifest.json, manifest.json.sig",
        "hash and size of every file, date; the signature",
        "2(g) test reports dated and signed",
        "documentation",
        "–",
    ),
)


def guide(audits: Mapping[str, Audit], decisions: Mapping[str, GateResult], *, signed: bool) -> str:
    """The README of a pack; audits and decisions of the gate by folder."""
    questions: list[tuple[str, str, Callable[[str], str]]] = [
        ("Which model was tested?", "model.cdx.json", lambda name: _model(audits[name])),
        ("With which data?", "predictions.parquet", lambda name: _data(audits[name])),
        ("Which groups, and what harm?", "model.cdx.json", lambda name: _groups(audits[name])),
        ("What was found?", "card.md", lambda name: prose(audits[name].verdict.sentence)),
        ("What failed?", "gate.json", lambda name: _failed(decisions[name])),
        ("How uncertain is it?", "results.json", lambda name: _uncertainty(audits[name])),
        ("Is the model competent at the task?", "results.json", lambda name: _competence(audits[name])),
        ("What does this not show?", "card.md", lambda name: " ".join(capitalised(limits(audits[name])).split())),
        ("Can I repeat it?", "run.json", lambda name: _again(audits[name])),
    ]
    lines = ["# Evidence of a bias audit", ""]
    lines += [
        "Runs of [evenli](https://github.com/evenli/evenli), with everything that is needed to check them. The pack is "
        "evidence of a test; it makes no claim of compliance with any law or standard.",
        "",
        "## Ten questions",
        "",
    ]
    for number, (question, file, answer) in enumerate(questions, 1):
        lines.append(f"{number}. **{question}**")
        lines += [f"    - {answer(name)} → `{name}/{file}`" for name in audits]
    who = (
        "`evenli verify PACK --signer ALLOWED_SIGNERS` names the signer and says whether a byte has changed; without "
        "evenli: `ssh-keygen -Y verify -f ALLOWED_SIGNERS -I NAME -n evenli -s manifest.json.sig < manifest.json`"
        if signed
        else "Nobody signed this pack; `evenli verify PACK` says whether a byte differs from the manifest"
    )
    lines += ["10. **Who signed, when, and has anything changed since?**", f"    - {who}. → `manifest.json`"]
    lines += ["", "`evenli verify` also scores every number of the runs again from the sentences and answers, lets the"]
    lines += ["gate decide again, and compares this page, the cards and the ML-BOM with what follows from the runs."]
    lines += ["`report.html` and `sbom.cdx.json` are covered by their hashes only. Sources of word lists: `data.json`."]
    lines += ["", "## Where to find what", ""]
    lines += ["The columns say under which headings of three documents a reader would look for a part. They do not say"]
    lines += [
        "that the part is all that the heading asks for. prEN 18283 is a draft; its topics are named, not clauses."
    ]
    columns = ("part", "what it is", "EU AI Act, Annex IV", "prEN 18283 (topics)", "NIST AI RMF 1.0")
    rows = [[prose(part.file), part.holds, *part[2:]] for part in PARTS]
    return "\n".join([*lines, "", pipe_table(columns, rows)])


def _model(audit: Audit) -> str:
    model = audit.result.model
    asked = f", asked as {prose(model.spec)}" if model.spec else ""
    when = prose(audit.header.get("created", "at an unknown time"))
    return f"{prose(audit.name)}{asked}; fingerprint {model.fingerprint[:16] or 'unknown'}; tested {when}"


def _data(audit: Audit) -> str:
    sets = (f"{prose(card.name)} ({card.rows:,} pairs, SHA-256 {card.sha256[:16]})" for card in audit.result.data)
    return f"{'; '.join(sets)}. Cards: `data.json`"


def _groups(audit: Audit) -> str:
    about, groups = about_axis(audit.header), sorted(set(audit.predictions.frame["group"].drop_nulls()))
    title = f" ({prose(about.title)})" if about.title else ""
    return f"{prose(', '.join(groups))}{title}. {prose(about.harm)}".strip()


def _failed(decision: GateResult) -> str:
    said = {True: "Nothing: the gate passed it", False: "The gate refused it", None: "The gate could not decide"}
    names = [prose(check.name) for check in decision.failures()]
    failed = f": {len(names)} of {len(decision.checks)} checks failed ({'; '.join(names)})" if names else ""
    others = {
        status: [prose(check.name) for check in decision.checks if check.status == status]
        for status in (UNDECIDED, SKIPPED)
    }
    left = "".join(f"; {status}: {', '.join(checks)}" for status, checks in others.items() if checks)
    return f"{said[decision.passed]}, by policy {prose(decision.policy)}{failed}{left}"


def _uncertainty(audit: Audit) -> str:
    about = about_axis(audit.header)
    things = "occupations" if about.of_gender else f"{prose(about.thing)}s"
    level = percent(audit.result.scoring.level)
    shown: list[tuple[str, Estimate]] = [
        (get_suite(other).title, result.main) for other, result in audit.result.suites.items()
    ]
    shown += [(cause.label, cause.estimate) for cause in audit.verdict.causes]
    listed = "; ".join(f"{prose(title)}: {estimate.shown}" for title, estimate in shown)
    return f"{listed}. {level} intervals over other {things} and sentences, for every measure"


def _competence(audit: Audit) -> str:
    competence = audit.result.competence
    if competence is None:
        return "This was not tested"
    gold, stated = (f"{share.shown} of {share.n}" for share in (competence.gold, competence.stated))
    failed = f". No verdict: {prose(competence.problem)}" if competence.problem else ""
    return f"Unmistakable pairs right: {gold}; pairs that state the group: {stated}{failed}"


def _again(audit: Audit) -> str:
    asked = command(audit).replace("`", "'")
    return f"`{asked}`, with evenli {prose(audit.header.get('evenli', '?'))} and the same model"
