"""The entailment-probability probe: a sentence with an occupation, and "This text mentions a female profession".

Nothing in the premise states a gender, so a model should give both genders the same probability. Premises
come from a corpus, filtered and brought to the same number per occupation, or from our own sentences.
Sharma, Dey, Sinha 2021, Evaluating Gender Bias in Natural Language Inference.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.settings import ProbeSettings
from evenli.audit.suites.files import read_pairs
from evenli.audit.suites.probe import words
from evenli.core.errors import InputError, PairError
from evenli.core.io import file_kind, iter_rows, read_text
from evenli.core.labels import NEUTRAL
from evenli.core.parse import csv_reader, unescape_cell
from evenli.core.record import Record
from evenli.core.settings import settings_of
from evenli.words import load_axis, read_lines, read_table
from evenli.words.english import cluster_key, fill_slots, forms, open_slots
from evenli.words.templates import any_of


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
    """A probe set, two rows per premise, and how it was built."""

    pairs: PairSet
    report: ProbeReport


Premises = dict[str, list[tuple[str, str]]]
"""Text and cluster key of the premises of every occupation."""


def build_probe(settings: ProbeSettings | None = None, **options: Any) -> ProbeBuild:
    """Build a probe set with the same number of premises for every occupation.

    From a corpus: sentences with exactly one listed occupation are kept if they are short enough and hold neither a
    gender word nor a name. Occupations with too few of them get sentences about another occupation in which the word
    is replaced. Without a corpus, every occupation goes into the same seeded sample of our own sentences.

    The released sets break their own rules; here the word limit holds for every premise, "him" and "guy" are filtered,
    plurals and "construction worker" are found, articles are repaired, and verbs ("cooks a meal"), compounds ("guard
    dog") and sentences about several listed occupations are not used.

    ``options`` are fields of ``ProbeSettings``, in place of ``settings``.
    """
    settings = settings_of(ProbeSettings, settings, options, "build_probe")
    genders = _dominating(settings.occupations)
    generator = np.random.default_rng(settings.seed)
    premises, report = (_from_own_sentences if settings.corpus is None else _from_corpus)(settings, genders, generator)
    pairs = probe_pairs(premises, genders, settings, generator, notes=report.notes)
    return ProbeBuild(pairs if settings.dominance is None else label_by_labour(pairs, settings.dominance), report)


def probe_pairs(
    premises: Premises,
    stereotypes: Mapping[str, str],
    settings: ProbeSettings,
    generator: np.random.Generator,
    lang: str = "en",
    notes: Iterable[str] = (),
) -> PairSet:
    """Two rows for every premise, with a hypothesis drawn for each."""
    hypotheses = words.probe_hypotheses(settings.family, lang)
    listed = [(name, *premise) for name in premises for premise in premises[name]]
    picks = generator.integers(len(hypotheses), size=len(listed)).tolist()
    rows: list[dict[str, str]] = []
    for number, ((name, premise, template), pick) in enumerate(zip(listed, picks, strict=True)):
        texts = words.fill_hypotheses(hypotheses[pick], premise, name, lang)
        rows += words.probe_rows(number, premise, texts, name, stereotypes[name], template)
    corpus = None if settings.corpus is None else Path(settings.corpus).name
    return PairSet.from_rows(
        rows,
        name=f"probe from {corpus}" if corpus else "built-in probe",
        suite="probe",
        lang=lang,
        source=f"built by evenli from {corpus or 'its own sentences'}: {len(premises)} occupations, "
        f"{settings.per_occupation} premises each, hypotheses '{settings.family}', seed {settings.seed}",
        notes=tuple(notes),
    )


def _dominating(occupations: str | Path | Mapping[str, str] | None) -> Mapping[str, str]:
    """Occupations with the gender that dominates them: a mapping or a table; default the paper's 38."""
    if occupations is None:
        return words.probe_occupations()
    given = occupations
    if isinstance(given, str | Path):
        rows = read_table(Path(given), ("occupation", "gender"))
        if not rows:
            raise InputError(f"{given} lists no occupation; the columns are occupation and gender")
        if len({row["occupation"].lower() for row in rows}) < len(rows):
            raise InputError(f"{given} lists an occupation twice; case makes no difference")
        given = {row["occupation"].strip(): row["gender"].strip() for row in rows}
    groups = load_axis().group_names
    for name, gender in given.items():
        if not name.strip() or gender not in groups:
            raise InputError(f"occupation '{name}' is tagged '{gender}', not one of {', '.join(groups)}")
    if len({name.lower() for name in given}) < len(given):
        raise InputError("an occupation is listed twice; case makes no difference")
    words.check_balance(given.values(), "the list of occupations")
    return given


def _card(settings: ProbeSettings) -> dict[str, Any]:
    """The settings as they stand in the report."""
    card = {name: value for name, value in vars(settings).items() if name not in {"occupations", "dominance"}}
    card["corpus"] = None if settings.corpus is None else Path(settings.corpus).name
    if not isinstance(settings.name_filter, str):
        card["name_filter"] = getattr(settings.name_filter, "__name__", "custom")
    return card


def _from_own_sentences(
    settings: ProbeSettings, occupations: Mapping[str, str], generator: np.random.Generator
) -> tuple[Premises, ProbeReport]:
    """The same seeded sample of our templates for every occupation, and the report."""
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
    return premises, ProbeReport(**_card(settings), occupations=counts)


def _from_corpus(
    settings: ProbeSettings, occupations: Mapping[str, str], generator: np.random.Generator
) -> tuple[Premises, ProbeReport]:
    """Premises from a corpus, and the report."""
    corpus = Path(str(settings.corpus))
    pool = words.collect(corpus, occupations, settings.max_words, settings.name_filter)
    premises, counts = _equalise(pool.kept, settings, occupations, generator)
    empty = [name for name, texts in premises.items() if not texts]
    if empty:
        raise InputError(
            f"{corpus} has no usable sentence for {len(empty)} of {len(premises)} occupations "
            f"({', '.join(empty)}) and none to put them into; of {pool.matched} sentences with an occupation "
            f"{len(pool.kept)} passed the filters ({_listed(pool.dropped)}); give a larger corpus"
        )
    short = {name: len(texts) for name, texts in premises.items() if len(texts) < settings.per_occupation}
    only_filled = [name for name, count in counts.items() if not count["found"]]
    notes = [f"only by substitution: {', '.join(only_filled)}"] if only_filled else []
    if short:
        notes.append(f"fewer than {settings.per_occupation} premises: {_listed(short)}")
    if settings.name_filter == "lists" and not pool.has_capitals:
        notes.append("the corpus has no capital letters, so only listed first names are seen; spacy or nltk see more")
    return premises, ProbeReport(
        **_card(settings),
        sentences=pool.sentences,
        matched=pool.matched,
        dropped=dict(pool.dropped),
        kept=len(pool.kept),
        placeholders=len({sentence.template for sentence in pool.kept if sentence.movable}),
        occupations=counts,
        only_filled=only_filled,
        short=short,
        notes=notes,
    )


def _equalise(
    kept: Sequence[words.Sentence],
    settings: ProbeSettings,
    occupations: Mapping[str, str],
    generator: np.random.Generator,
) -> tuple[Premises, dict[str, dict[str, int]]]:
    """Draw premises for every occupation: its own sentences first, then those of others with the word replaced."""
    placeholders = list(dict.fromkeys(sentence.template for sentence in kept if sentence.movable))
    premises: Premises = {}
    counts: dict[str, dict[str, int]] = {}
    for name in occupations:
        own = [sentence for sentence in kept if sentence.occupation == name]
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
    return premises, counts


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def label_by_labour(pairs: PairSet, dominance: float) -> PairSet:
    """The pairs of occupations in which at least ``dominance`` percent are of one gender, labelled by that gender.

    The published labels come from other sources; two of 38 contradict the labour statistics (attendant, baker).
    Occupations between the limits, and those without a percentage, are left out.
    """
    women = words.women_percent()
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


_SHEET = ("sentence1", "occupation", "gender")
_SHEET_GROUPS = {"F": "female", "M": "male"}


def read_probe(path: str | Path) -> PairSet:
    """Read a probe set: a released sheet, a sheet of the user's own, or a file written by ``write_pairs``.

    A sheet is tab- or comma-separated with the columns sentence1, occupation, gender (F or M, the gender that
    dominates the occupation), hypothesis_f and hypothesis_m. The header may stand on any line: the released ones
    have it after 1,450 rows. The tags of the sheet are kept (the released ones call ``tailor`` male). Without the
    hypothesis columns, as in the released out-of-distribution sheet, templates are drawn with seed 0.
    """
    path = Path(path)
    if file_kind(path) in {".tsv", ".csv", ".txt"}:
        reader = csv_reader(io.StringIO(read_text(path), newline=""), commas=file_kind(path) == ".csv")
        try:
            filled = (row for row in reader if any(cell.strip() for cell in row))
            cells = [(reader.line_num, list(map(unescape_cell, row))) for row in filled]
        except csv.Error as error:
            raise PairError(f"{path.name}, line {reader.line_num}: {error}") from error
        header = next((row for _, row in cells if set(_SHEET) <= set(row)), None)
        if header is not None:
            return _from_sheet(path, header, [(line, row) for line, row in cells if row != header])
        if not cells or "premise" not in cells[0][1]:
            raise InputError(f"{path}: no line holds the column names {', '.join(_SHEET)} of a probe sheet")
    return _from_pairs(path)


def _from_sheet(path: Path, header: Sequence[str], cells: Sequence[tuple[int, list[str]]]) -> PairSet:
    given = [name for name in ("hypothesis_f", "hypothesis_m") if name in header]
    if len(given) == 1:
        raise InputError(f"{path}: the sheet has {given[0]} only; hypotheses for both genders are needed")
    templates = words.probe_hypotheses()
    picks = np.random.default_rng(0).integers(len(templates), size=len(cells)).tolist()
    rows: list[dict[str, str]] = []
    absent = 0
    for number, ((line, values), pick) in enumerate(zip(cells, picks, strict=True)):
        where = f"{path.name}, line {line}"
        if len(values) != len(header):
            raise PairError(f"{where}: {len(values)} cells, the header has {len(header)}")
        row = {name: value.strip() for name, value in zip(header, values, strict=True)}
        premise, occupation = row["sentence1"], row["occupation"]
        if row["gender"] not in _SHEET_GROUPS:
            raise PairError(f"{where}: gender '{row['gender']}' is not F or M")
        for column in (*_SHEET, *given):
            if not row[column]:
                raise PairError(f"{where}: {column} is empty")
        if given:
            hypotheses = dict(zip(_SHEET_GROUPS.values(), (row[name] for name in given), strict=True))
            if len(set(hypotheses.values())) == 1:
                raise PairError(f"{where}: hypothesis_f and hypothesis_m are the same")
        else:
            hypotheses = words.fill_hypotheses(templates[pick], premise, occupation)
        template = open_slots(premise, occupation)
        absent += template == premise
        dominant, key = _SHEET_GROUPS[row["gender"]], cluster_key(template)
        rows += words.probe_rows(number, premise, hypotheses, occupation, dominant, key)
    if not rows:
        raise InputError(f"{path} has a header and no rows")
    words.check_balance((row["stereotype"] for row in rows), str(path))
    notes = [f"{absent} premises do not hold their occupation"] if absent else []
    notes += [] if given else ["the sheet has no hypotheses; templates were drawn with seed 0"]
    source = f"sheet {path.name}"
    return PairSet.from_rows(rows, name=path.name, suite="probe", lang="en", source=source, notes=tuple(notes))


def _from_pairs(path: Path) -> PairSet:
    pairs = read_pairs(path, "en", suite="probe")
    lines = [line for line, _ in iter_rows(path)]
    groups = load_axis().group_names
    rows: list[dict[str, str]] = []
    premises: dict[str, dict[str, tuple[str, str, str]]] = {}
    for line, row in zip(lines, pairs.frame.iter_rows(named=True), strict=True):
        where = f"{path.name}, line {line}"
        for column in ("group", "stereotype"):
            if row[column] not in groups:
                raise PairError(f"{where}: {column} '{row[column]}' is not one of {', '.join(groups)}")
        if not row["occupation"]:
            raise PairError(f"{where}: no occupation")
        if row["gold"] not in {None, NEUTRAL}:
            raise PairError(f"{where}: gold label '{row['gold']}'; every pair of the probe is neutral")
        number, _, group = row["id"].rpartition("-")
        if not number or group != row["group"]:
            raise PairError(f"{where}: id '{row['id']}' is not <number>-{row['group']}")
        premises.setdefault(number, {})[group] = (row["premise"], row["occupation"], row["stereotype"])
        template = row["template"] or cluster_key(open_slots(row["premise"], row["occupation"]))
        rows.append({**row, "subset": "probe", "gold": NEUTRAL, "template": template})
    # A premise is compared across the genders, so the rest of its pairs must be the same.
    for number, by_group in premises.items():
        missing = ", ".join(group for group in groups if group not in by_group)
        if missing:
            raise InputError(f"{path}: premise '{number}' has no pair for {missing}; both genders are needed")
        if len(set(by_group.values())) > 1:
            raise InputError(f"{path}: the pairs of '{number}' differ in premise, occupation or stereotype")
    words.check_balance((row["stereotype"] for row in rows), str(path))
    return PairSet.from_rows(rows, name=pairs.name, suite="probe", lang="en", source=pairs.source)
