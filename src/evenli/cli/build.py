"""``evenli build``: pair sets as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from evenli.cli import _shared as shared
from evenli.cli._shared import SEEDS, choice, option, output, several

if TYPE_CHECKING:
    from evenli.suites.probe.languages import ProbeFile

_LANGS = ("en", "ja", "zh")
WORDS = ("woman", "lady", "girl", "man", "gentleman", "guy")
Out = Annotated[Path, output("File to write: .jsonl, .csv or .parquet.")]


def coal(
    out: Out,
    lang: shared.Lang = "en",
    axis: shared.Axis = "gender",
    templates: Annotated[Path | None, option("Own templates, one a line with a [Sub] slot.")] = None,
    occupations: shared.Occupations = "published",
    width: Annotated[int, option("Templates per occupation.", min=1)] = 10,
    seed: Annotated[int | None, option("Shuffle words and templates.", **SEEDS)] = None,
    as_json: shared.Json = False,
) -> None:
    """Build an NLI-CoAL set (PS, AS, NS) and check it."""
    from evenli.suites.coal.build import CoalSettings, write_coal

    written = write_coal(out, lang, CoalSettings(axis, occupations, templates, width, seed))
    card, findings = written.pairs.card(), written.findings
    for note in written.pairs.notes:
        shared.warn(note)
    if as_json:
        shared.print_json({**card.to_dict(), "findings": len(findings), "file": str(out)})
        return
    shared.say(f"{out}: {card.rows} pairs, " + ", ".join(f"{k} {v}" for k, v in card.subsets.items()))
    shared.say(f"{card.occupations} occupations, {card.templates} templates, sha256 {card.sha256[:16]}")
    for finding in findings[:5]:
        shared.warn(f"pair {finding.id}: {finding.rule}: {finding.detail}")
    if len(findings) > 5:
        shared.warn(f"… {len(findings)} findings in all")


def probe(
    out: Out,
    lang: Annotated[
        str, choice("Language; Japanese and Chinese have our own sentences and the stereotypes of NLI-CoAL.", _LANGS)
    ] = "en",
    corpus: Annotated[Path | None, option("English NLI file or text, a sentence a line; default: ours.")] = None,
    per_occupation: Annotated[int, option("Premises per occupation.", min=1)] = 100,
    max_words: Annotated[int, option("Most words in a premise.", min=2)] = 10,
    family: Annotated[str, choice("Wording of the hypotheses.", ("text", "premise", "occupation"))] = "text",
    seed: Annotated[int, option("Seed of sentences and hypotheses.", **SEEDS)] = 0,
    names: Annotated[
        str, choice("How sentences with names are found; lists need no model.", ("lists", "spacy", "nltk"))
    ] = "lists",
    occupations: Annotated[
        Path | None, option("Your own occupations: .csv or .tsv with the columns occupation and gender (female, male).")
    ] = None,
    dominance: Annotated[
        float | None, option("Label by US labour share: keep occupations with at least this percentage of one gender.")
    ] = None,
    repair_articles: Annotated[
        bool, option("Choose a or an anew where an occupation is put in.", "--repair-articles/--no-repair-articles")
    ] = True,
    as_json: shared.Json = False,
) -> None:
    """Build an entailment-probe set from any corpus.

    Every occupation gets as many gender-free premises.
    """
    from evenli.suites.probe.build import ProbeSettings
    from evenli.suites.probe.languages import write_probe

    settings = ProbeSettings(corpus, per_occupation, max_words, family, seed, names, repair_articles)
    written = write_probe(out, lang, settings, occupations=occupations, dominance=dominance)
    if as_json:
        report = written.report.to_dict() if written.report else {"corpus": None}
        shared.print_json({**written.pairs.card().to_dict(), "file": str(out), "report": report})
    else:
        _print_probe(written)


def _print_probe(written: ProbeFile) -> None:
    """What was built, and for a corpus what became of its sentences."""
    pairs, report, card = written.pairs, written.report, written.pairs.card()
    shared.say(
        f"{written.path}: {card.rows} pairs, {card.rows // 2} premises, {card.occupations} occupations, "
        f"sha256 {card.sha256[:16]}"
    )
    if report is not None and report.corpus is not None:
        dropped = ", ".join(f"{reason} {count:,}" for reason, count in (report.dropped or {}).items())
        shared.say(f"{report.sentences:,} sentences, {report.matched:,} with an occupation, {report.kept:,} kept")
        shared.say(f"dropped: {dropped or 'none'}")
        direct, filled = (sum(one[key] for one in report.occupations.values()) for key in ("direct", "filled"))
        shared.say(f"{direct:,} premises as they stand in the corpus, {filled:,} with the occupation replaced")
    for note in pairs.notes:
        shared.warn(note)


def dev2020(
    out: Annotated[Path, output("File to write: .csv or .jsonl.")],
    words: Annotated[str, several("Subjects of the hypotheses, or all six: all.", WORDS, of="WORD")] = "all",
    determiner: Annotated[str, choice("As in the papers, or as in the released generator.", ("the", "a"))] = "the",
    as_json: shared.Json = False,
) -> None:
    """Write the template pairs of Dev et al. 2020 as a stream."""
    from evenli.evaluate.predict import Progress
    from evenli.suites.dev2020 import write_dev_file

    chosen = None if words == "all" else shared.split_names(words)
    with shared.progress_bar(as_json) as bar:

        def progress(done: int, total: int) -> None:
            bar(Progress(done, total, "writing"))

        lists = write_dev_file(out, chosen, determiner=determiner, on_progress=progress)
    content = {"file": str(out), "templates": len(lists.templates), "pairs": lists.pairs}
    shared.answer(as_json, content, f"{out}: {lists.pairs} pairs from {len(lists.templates)} templates")


def controlled(
    out: Annotated[Path, output("Directory to write.")],
    lang: shared.Lang = "en",
    rates: Annotated[str, option("Bias rates.", metavar="START:STOP:STEP or NUMBER,NUMBER")] = "0:1:0.1",
    balanced: Annotated[bool, option("Roles to female and male words in turn.", "--balanced")] = False,
    captions: Annotated[
        str | None, option("Captions to make templates of; default: composed ones.", metavar="FILE")
    ] = None,
    width: Annotated[int, option("Training templates per word.", min=1)] = 500,
    seed: Annotated[int, option("Seed of the order of templates.", **SEEDS)] = 0,
    axis: shared.Axis = "gender",
    as_json: shared.Json = False,
) -> None:
    """Write training, dev and test sets of known bias."""
    from evenli.meta.controlled import write_controlled
    from evenli.meta.design import Design, parse_rates

    chosen = parse_rates(rates)
    design = Design(lang, rates=chosen, balanced=balanced, captions=captions, width=width, seed=seed, axis=axis)
    content = {"folder": str(out), **write_controlled(out, design).to_dict()}
    shared.answer(as_json, content, f"{out}: {len(design.rates)} training and dev sets, two test sets; see card.json")
