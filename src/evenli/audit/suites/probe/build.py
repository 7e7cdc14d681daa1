"""The entailment-probability probe: a sentence with an occupation, and "This text mentions a female profession".

Nothing in the premise states a gender, so a model should give both genders the same probability. Premises
come from a corpus, filtered and brought to the same number per occupation, or from our own sentences.
Sharma, Dey, Sinha 2021, Evaluating Gender Bias in Natural Language Inference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.settings import ProbeSettings
from evenli.audit.suites.files import write_pairs
from evenli.audit.suites.probe import words
from evenli.core.errors import InputError
from evenli.core.record import Record
from evenli.core.settings import settings_of
from evenli.words import load_axis, read_lines, read_table
from evenli.words.english import cluster_key, fill_slots, forms
from evenli.words.lists import probe_occupations, women_percent
from evenli.words.scenes import compose_templates
from evenli.words.templates import any_of, fill

LANGUAGES = ("ja", "zh")
"""Languages of the probe beside English."""


class ProbeReport(Record, frozen=True, kw_only=True):
    """The settings of a probe set, and what became of the sentences of a corpus.

    Attributes:
        corpus: Name of its file; None for our own sentences, which are not counted.
        sentences: Read.
        matched: With an occupation.
        dropped: Of these, by reason.
        kept: The others.
        placeholders: Of these, those into which another occupation fits.
        occupations: Sentences by occupation: ``found``, used as they are (``direct``), ``filled`` by substitution.
        only_filled: Occupations without a sentence of their own.
        short: Premises of occupations that have fewer than wanted.
        notes: What a reader must know.
    """

    optional: ClassVar[tuple[str, ...]] = ("sentences", "matched", "dropped", "kept", "placeholders")

    corpus: str | None
    per_occupation: int
    max_words: int
    family: str
    seed: int
    name_filter: str
    repair_articles: bool
    sentences: int | None = None
    matched: int | None = None
    dropped: dict[str, int] | None = None
    kept: int | None = None
    placeholders: int | None = None
    occupations: dict[str, dict[str, int]]
    only_filled: list[str] = msgspec.field(default_factory=list)
    short: dict[str, int] = msgspec.field(default_factory=dict)
    notes: list[str] = msgspec.field(default_factory=list)

    def stored_fields(self) -> dict[str, Any]:
        """What is written; that nothing of a corpus was dropped is said, too."""
        return super().stored_fields() | ({} if self.dropped is None else {"dropped": self.dropped})


@dataclass(frozen=True)
class ProbeBuild:
    """A probe set, two rows per premise, and how it was built: the report of an English one, None for others."""

    pairs: PairSet
    report: ProbeReport | None


Premises = dict[str, list[tuple[str, str]]]
"""Text and cluster key of the premises of every occupation."""
OCCUPATIONS = 19
"""Occupations of each gender at most in other languages, as many as in the English probe."""


def build_probe(settings: ProbeSettings | None = None, lang: str = "en", **options: Any) -> ProbeBuild:
    """Build a probe set with the same number of premises for every occupation.

    From a corpus: sentences with exactly one listed occupation are kept if they are short enough and hold neither a
    gender word nor a name. Occupations with too few of them get sentences about another occupation in which the word
    is replaced. Without a corpus, every occupation goes into the same seeded sample of our own sentences.

    The released sets break their own rules; here the word limit holds for every premise, "him" and "guy" are filtered,
    plurals and "construction worker" are found, articles are repaired, and verbs ("cooks a meal"), compounds ("guard
    dog") and sentences about several listed occupations are not used.

    In Japanese and Chinese the sentences are ours and the occupations those of NLI-CoAL; premises, hypotheses and seed
    count there. No labour statistics by occupation ship for Japan and China, so the labels are the published stereotype
    classes, and nothing is compared.

    ``options`` are fields of ``ProbeSettings``, in place of ``settings``.
    """
    settings = settings_of(ProbeSettings, settings, options, "build_probe")
    generator = np.random.default_rng(settings.seed)
    corpus = None if settings.corpus is None else Path(settings.corpus).name
    report = None
    if lang != "en":
        genders, premises = _translated(settings, lang)
        notes = ["labels are the stereotype classes of NLI-CoAL; no labour statistics are compared"]
    else:
        genders = _dominating(settings.occupations)
        choose = _from_own_sentences if corpus is None else _from_corpus
        premises, found = choose(settings, genders, generator)
        asked = {name: value for name, value in vars(settings).items() if name not in {"occupations", "dominance"}}
        if not isinstance(settings.name_filter, str):
            asked["name_filter"] = getattr(settings.name_filter, "__name__", "custom")
        report = ProbeReport(**{**asked, "corpus": corpus, **found})
        notes = report.notes
    hypotheses = words.probe_hypotheses(settings.family, lang)
    listed = [(name, *premise) for name in premises for premise in premises[name]]
    picks = generator.integers(len(hypotheses), size=len(listed)).tolist()
    rows: list[dict[str, str]] = []
    for number, ((name, premise, template), pick) in enumerate(zip(listed, picks, strict=True)):
        texts = words.fill_hypotheses(hypotheses[pick], premise, name, lang)
        same = {"premise": premise, "occupation": name, "stereotype": genders[name], "template": template}
        rows += words.probe_rows(number, texts, **same)
    pairs = PairSet.from_rows(
        rows,
        name=f"probe from {corpus}" if corpus else "built-in probe",
        suite="probe",
        lang=lang,
        source=f"built by evenli from {corpus or 'its own sentences'}: {len(premises)} occupations, "
        f"{settings.per_occupation} premises each, hypotheses '{settings.family}', seed {settings.seed}",
        notes=tuple(notes),
    )
    return ProbeBuild(pairs if settings.dominance is None else label_by_labour(pairs, settings.dominance), report)


def write_probe(out: str | Path, lang: str = "en", settings: ProbeSettings | None = None, **options: Any) -> ProbeBuild:
    """Build a probe set and write it as .jsonl, .csv or .parquet; ``evenli build probe``.

    Args:
        out: File to write.
        lang: Language; Japanese and Chinese have our own sentences and the stereotypes of NLI-CoAL.
        settings: How it is built; of other languages than English premises, hypotheses and seed count.
        options: Fields of ``ProbeSettings``.
    """
    built = build_probe(settings_of(ProbeSettings, settings, options, "write_probe"), lang)
    write_pairs(built.pairs, out)
    return built


def _translated(settings: ProbeSettings, lang: str) -> tuple[Mapping[str, str], Premises]:
    """As many occupations of either stereotype, spread evenly over the published list, and the same sentences each."""
    if lang not in LANGUAGES:
        raise InputError(f"there is no probe in language '{lang}'; choose en, {', '.join(LANGUAGES)}")
    # The sentences are ours there: what chooses them from a corpus would have no effect.
    if english := list(settings.changed("corpus", "occupations", "dominance")):
        given = ", ".join(f"--{name}" for name in english)
        raise InputError(f"{given}: for English only, the language is '{lang}'; leave it out")
    listed = {
        group: [job.word for job in load_axis().occupations(lang) if job.stereotype == group]
        for group in load_axis().group_names
    }
    count = min(OCCUPATIONS, *map(len, listed.values()))
    chosen = {names[i * len(names) // count]: group for group, names in listed.items() for i in range(count)}
    templates = compose_templates(lang, settings.per_occupation, seed=settings.seed)
    return chosen, {name: [(fill(template, name), template) for template in templates] for name in chosen}


def _dominating(occupations: str | Path | Mapping[str, str] | None) -> Mapping[str, str]:
    """Occupations with the gender that dominates them: a mapping or a table; default the paper's 38."""
    if occupations is None:
        return probe_occupations()
    if isinstance(occupations, Mapping):
        where, listed = "the list of occupations", list(occupations.items())
    else:
        where, rows = str(occupations), read_table(Path(occupations), ("occupation", "gender"))
        listed = [(row["occupation"].strip(), row["gender"].strip()) for row in rows]
        if not listed:
            raise InputError(f"{where} lists no occupation; the columns are occupation and gender")
    if len({name.lower() for name, _ in listed}) < len(listed):
        raise InputError(f"{where} lists an occupation twice; case makes no difference")
    groups = load_axis().group_names
    for name, gender in listed:
        if not name.strip() or gender not in groups:
            raise InputError(f"occupation '{name}' is tagged '{gender}', not one of {', '.join(groups)}")
    words.check_balance((gender for _, gender in listed), "the list of occupations")
    return dict(listed)


def _from_own_sentences(
    settings: ProbeSettings, occupations: Mapping[str, str], generator: np.random.Generator
) -> tuple[Premises, dict[str, Any]]:
    """The same seeded sample of our templates for every occupation, and what a report says of it."""
    per_occupation = settings.per_occupation
    # A template that names an occupation itself would be about two.
    finder = any_of(form for name in occupations for form in forms(name))
    longest = max(len(name.split()) for name in occupations) - 1
    own = (text for text in read_lines("probe_premises.txt") if not finder.search(text))
    templates = [text for text in own if len(text.split()) + longest <= settings.max_words]
    if len(templates) < per_occupation:
        raise InputError(f"per_occupation {per_occupation}: evenli has {len(templates)} own sentences; give a corpus")
    sample = [templates[i] for i in generator.permutation(len(templates))[:per_occupation]]
    repaired = settings.repair_articles
    premises = {
        name: [(fill_slots(text, name, repair_articles=repaired), cluster_key(text)) for text in sample]
        for name in occupations
    }
    counts = {name: {"found": 0, "direct": 0, "filled": per_occupation} for name in occupations}
    return premises, {"occupations": counts}


def _from_corpus(
    settings: ProbeSettings, occupations: Mapping[str, str], generator: np.random.Generator
) -> tuple[Premises, dict[str, Any]]:
    """Premises from a corpus, and what a report says of them.

    Every occupation gets its own sentences first, then those of others with the word replaced.
    """
    corpus = Path(str(settings.corpus))
    pool = words.collect(corpus, occupations, settings.max_words, settings.name_filter)
    placeholders = list(dict.fromkeys(sentence.template for sentence in pool.kept if sentence.movable))
    premises: Premises = {}
    counts: dict[str, dict[str, int]] = {}
    for name in occupations:
        own = [sentence for sentence in pool.kept if sentence.occupation == name]
        chosen = [own[i] for i in generator.permutation(len(own))[: settings.per_occupation]]
        drawn = [(sentence.text, cluster_key(sentence.template)) for sentence in chosen]
        # No premise twice: another occupation may have the same sentence, but for the word.
        used = {words.same_words(text) for text, _ in drawn}
        for i in generator.permutation(len(placeholders)):
            if len(drawn) == settings.per_occupation:
                break
            text = fill_slots(placeholders[i], name, repair_articles=settings.repair_articles)
            if len(text.split()) <= settings.max_words and words.same_words(text) not in used:
                used.add(words.same_words(text))
                drawn.append((text, cluster_key(placeholders[i])))
        premises[name] = drawn
        counts[name] = {"found": len(own), "direct": len(chosen), "filled": len(drawn) - len(chosen)}
    empty = [name for name, texts in premises.items() if not texts]
    if empty:
        raise InputError(
            f"{corpus} has no usable sentence for {len(empty)} of {len(premises)} occupations "
            f"({', '.join(empty)}) and none to put them into; of {pool.counts['matched']} sentences with an occupation "
            f"{len(pool.kept)} passed the filters ({_listed(pool.counts['dropped'])}); give a larger corpus"
        )
    short = {name: len(texts) for name, texts in premises.items() if len(texts) < settings.per_occupation}
    only_filled = [name for name, count in counts.items() if not count["found"]]
    notes = [f"only by substitution: {', '.join(only_filled)}"] if only_filled else []
    if short:
        notes.append(f"fewer than {settings.per_occupation} premises: {_listed(short)}")
    if settings.name_filter == "lists" and not pool.has_capitals:
        notes.append("the corpus has no capital letters, so only listed first names are seen; spacy or nltk see more")
    filled = {"placeholders": len(placeholders), "occupations": counts, "only_filled": only_filled}
    return premises, {**pool.counts, **filled, "short": short, "notes": notes}


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def label_by_labour(pairs: PairSet, dominance: float) -> PairSet:
    """The pairs of occupations in which at least ``dominance`` percent are of one gender, labelled by that gender.

    The published labels come from other sources; two of 38 contradict the labour statistics (attendant, baker).
    Occupations between the limits, and those without a percentage, are left out.
    """
    women = women_percent()
    sides = {
        name: "female" if share > 50 else "male" for name, share in women.items() if abs(share - 50) >= dominance - 50
    }
    named = pairs.frame["occupation"].str.to_lowercase()
    labels = named.replace_strict(sides, default=None, return_dtype=pl.String)
    kept = pairs.frame.with_columns(stereotype=labels).drop_nulls("stereotype")
    groups = sorted(kept["stereotype"].unique())
    if len(groups) < 2:
        known = sum(name in women for name in named.unique())
        left = f"only {groups[0]} occupations" if groups else "no occupation"
        raise InputError(
            f"dominance {dominance:g} leaves {left}; {known} of {named.n_unique()} have a labour share; lower it, or "
            "leave it out to use your labels"
        )
    # Named, because the numbers are about fewer occupations than the published ones.
    left_out = sorted(set(pairs.frame["occupation"]) - set(kept["occupation"]))
    note = f"labels by the share of women in US occupations (CPS 2019), {dominance:g} % or more of one gender"
    note += f"; left out: {', '.join(left_out)}" if left_out else ""
    name = f"{pairs.name}, dominance {dominance:g}"
    return replace(pairs, name=name, frame=kept, notes=(*pairs.notes, note))
