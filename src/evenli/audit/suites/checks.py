"""Checks of the model, pairs whose answer is beyond doubt, and of a pair set: is it what it claims to be?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import polars as pl
from scipy.stats import binomtest

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import PS, subset_of
from evenli.core.errors import InputError, ResourceError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.stats.intervals import too_few
from evenli.stats.sample import CrossedDesign
from evenli.words import Axis, load_axis
from evenli.words.templates import SLOT, UNSPACED, fill, leaking_words

CONTROL_TEMPLATES = 20
"""The last templates of a list are for control pairs; no other pairs use them."""
CONTROLS = 40
"""Control pairs of a kind: two sentences for each of twenty nouns, as answers to the same noun mostly agree."""
TOGETHER = 3
"""Of more groups than this, control pairs are judged by the group in the premise, not by each pair of groups."""
COMPETENT = 0.6
"""Accuracy below this gives no verdict: on the gold pairs of each label, and on each kind of control pair.

Chance is one third. docs/explanation/methods.md says how often a guesser gets there and how often a good model misses.
"""
BY_CHANCE = 0.05
"""With few pairs, so many must be right that guessing gets there in less than this share of cases."""
FEW_TEMPLATES = 10
"""With fewer templates for all occupations nobody can see whether their effects are skewed: an interval of a share may
hold the truth in 85 % of cases only (docs/explanation/intervals.md)."""
OVERLAP = 0.5
"""Share of common rows below which two classes of words are said to meet different sentences."""
_NOTED = {"leak": "hold a word that gives the group away", "slots": "have the occupation in more than one place"}
"""Findings that do not stop an audit, and what is noted of them."""


def gold_pairs(lang: str, *, axis: Axis | str = "gender") -> PairSet:
    """Hand-written unmistakable pairs, at least twenty per label, without groups or occupations."""
    table = load_axis(axis).language(lang).gold
    rows = table.rows("label", "premise", "hypothesis")
    for number, row in enumerate(rows, 1):
        if row["label"] not in LABELS:
            raise ResourceError(f"{table.name}, row {number}: label '{row['label']}' is not one of {', '.join(LABELS)}")
    pairs = ({**row, "subset": "gold", "gold": row["label"]} for row in rows)
    source = f"evenli resource {table.name}"
    return PairSet.from_rows(pairs, name=f"gold pairs ({lang})", suite="check", lang=lang, source=source)


def control_pairs(lang: str, *, axis: Axis | str = "gender") -> PairSet:
    """Pairs in which both sentences name a group: a competent model knows that a mother is a woman, and no man.

    From the last CONTROL_TEMPLATES templates and the paraphrases of the axis, CONTROLS pairs of each kind: group →
    same group is entailment, group → other group is contradiction. Both kinds have the same premises, and no
    hypothesis repeats its premise. Of a group without paraphrases only the second kind can be asked.
    """
    axis = load_axis(axis)
    words, said = axis.language(lang).group_words, axis.paraphrases(lang)
    templates = axis.templates(lang)[-CONTROL_TEMPLATES:]
    if not templates:
        raise ResourceError(f"axis '{axis.id}' has no templates in language '{lang}'")
    kinds: dict[str, list[tuple[str, str]]] = {}
    for given, asked in product(words, repeat=2):
        if given == asked and not said[given]:
            continue
        # Which of them must pass together: of many groups a single pair of them has too few.
        name = f"{given}-{asked}" if len(words) <= TOGETHER else "same-same" if given == asked else f"{given}-other"
        kinds.setdefault(name, []).append((given, asked))
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for (kind, groups), number in product(kinds.items(), range(CONTROLS)):
        given, asked = groups[number % len(groups)]
        template = templates[number % len(templates)]
        # Another noun whenever the templates begin anew.
        turn = sum(divmod(number, len(templates)))
        first, second = (said[group] or [(words[group], words[group])] for group in (given, asked))
        premise, hypothesis = fill(template, first[turn % len(first)][0]), fill(template, second[turn % len(second)][1])
        row = {"subset": "control", "premise": premise, "hypothesis": hypothesis, "template": template, "group": asked}
        gold = ENTAILMENT if given == asked else CONTRADICTION
        # With few templates and nouns a pair comes again.
        rows.setdefault((premise, hypothesis), {"id": f"control-{len(rows):03d}-{kind}", "gold": gold, **row})
    silent = ", ".join(group for group in words if not said[group])
    return PairSet.from_rows(
        rows.values(),
        name=f"control pairs ({lang})",
        suite="check",
        lang=lang,
        source=f"built by evenli: axis {axis.id}",
        notes=(f"no control pairs of the same group for {silent}: the axis has no paraphrases",) if silent else (),
    )


def is_known(hits: int, n: int) -> bool:
    """Whether so many right answers to pairs of one kind show that a model knows what they mean.

    >>> is_known(24, 40), is_known(23, 40), is_known(5, 8), is_known(6, 8)
    (True, False, False, True)
    """
    return n > 0 and hits / n >= COMPETENT and bool(binomtest(hits, n, 1 / 3, alternative="greater").pvalue < BY_CHANCE)


def usable_templates(axis: Axis, lang: str, fewest: int) -> list[str]:
    """Templates of the pairs: none that gives a group away, and not the last ones, which are for control pairs.

    Where fewer than ``fewest`` would be left, they are for both.
    """
    revealing = axis.revealing_words(lang)
    clean = [template for template in axis.templates(lang) if not leaking_words(template, revealing, lang)]
    control = set(axis.templates(lang)[-CONTROL_TEMPLATES:])
    kept = [template for template in clean if template not in control]
    return kept if len(kept) >= fewest else clean


@dataclass(frozen=True)
class Finding:
    """One rule broken by one row."""

    id: str
    rule: str
    detail: str

    @property
    def noted(self) -> bool:
        """Whether an audit notes it and goes on."""
        return self.rule in _NOTED


def validate(pairs: PairSet, *, axis: Axis | str = "gender") -> Iterator[Finding]:
    """Check every row of a CoAL set, and yield its findings: every row of a large file may have one.

    Rules: ``slot`` the template has a slot; ``slots`` it has only one; ``difference`` filling it with occupation and
    group word gives premise and hypothesis; ``leak`` no group-revealing word beside the slot; ``gold`` the gold
    label is neutral; ``subset`` agrees with stereotype and group; ``stereotype`` an occupation has one only.
    """
    axis = load_axis(axis)
    words = axis.language(pairs.lang).group_words
    revealing = axis.revealing_words(pairs.lang)
    leaks = {template: leaking_words(template, revealing, pairs.lang) for template in pairs.frame["template"].unique()}
    # Segmented Japanese has spaces within occupations, which the word list writes without.
    spaced = pairs.lang not in UNSPACED

    def bare(text: str) -> str:
        return text if spaced else text.replace(" ", "")

    types: dict[str, str] = {}
    for row in pairs.frame.iter_rows(named=True):
        word, kind = row["occupation"], row["stereotype"]
        first = types.setdefault(word, kind)
        template, slots = row["template"], row["template"].count(SLOT)
        expected = [bare(fill(template, noun)) for noun in (word, words[row["group"]])]
        given = [bare(row["premise"]), bare(row["hypothesis"])]
        subset = subset_of(row["group"], () if kind == "neutral" else (kind,))
        broken = {
            "slot": "" if slots else f"no slot in '{template}'",
            "slots": f"{slots} slots in '{template}'" if slots > 1 else "",
            "difference": "" if expected == given else f"'{row['premise']}' / '{row['hypothesis']}'",
            "leak": f"{', '.join(leaks[template])} in '{template}'" if leaks[template] else "",
            "gold": "" if row["gold"] == "neutral" else f"gold label is {row['gold']}",
            "subset": "" if row["subset"] == subset else f"tagged {row['subset']}, is {subset}",
            "stereotype": "" if kind == first else f"'{word}' is {first} and {kind}",
        }
        yield from (Finding(row["id"], rule, detail) for rule, detail in broken.items() if detail)


@dataclass(frozen=True)
class CheckedPairs:
    """Pairs and every rule that a row of them breaks; ``path`` is the file that they were written to."""

    pairs: PairSet
    findings: tuple[Finding, ...]
    path: Path | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Findings by rule."""
        return dict(Counter(finding.rule for finding in self.findings))

    @property
    def problem(self) -> str:
        """Why an audit refuses the pairs; empty if it takes them."""
        refused = [finding for finding in self.findings if not finding.noted]
        if not refused:
            return ""
        reason = f"{refused[0].rule} of pair '{refused[0].id}'"
        return f"{self.pairs.name}: an audit refuses {len(refused)} finding(s), first: {reason}"

    def lines(self) -> list[str]:
        """What there is, and the first finding of every rule, for people."""
        pairs, first = self.pairs, {finding.rule: finding for finding in reversed(self.findings)}
        lines = [f"{pairs.name}: {len(pairs)} pairs, " + ", ".join(f"{k} {v}" for k, v in pairs.counts.items())]
        lines += [f"note: {note}" for note in pairs.notes]
        for rule, count in self.counts.items():
            lines.append(f"{rule}: {count} rows, first pair {first[rule].id}: {first[rule].detail}")
        return lines if self.findings else [*lines, "no findings"]


def check_pairs(pairs: PairSet, *, axis: Axis | str = "gender") -> PairSet:
    """The door of an audit, for files, tables, releases and pair sets: pairs that are not what they claim are refused.

    The same rules as ``evenli data --check``, which lists every finding. Two of them are faults of a template and not
    of a claim, and the published releases have some: these are noted.
    """
    counts: Counter[str] = Counter()
    first: dict[str, Finding] = {}
    for finding in validate(pairs, axis=axis):
        kind = finding.rule if finding.noted else "broken"
        counts[kind] += 1
        first.setdefault(kind, finding)
    if counts["broken"]:
        broken = first["broken"]
        raise InputError(
            f"{pairs.name}, pair '{broken.id}': {broken.rule}: {broken.detail}; {counts['broken']} finding(s) in all, "
            "see 'evenli data --check'"
        )
    notes = [f"{counts[rule]} pairs {_NOTED[rule]}, first: {first[rule].detail}" for rule in _NOTED if counts[rule]]
    return note_design(replace(pairs, notes=(*pairs.notes, *notes)) if notes else pairs, axis=axis)


def note_design(pairs: PairSet, *, axis: Axis | str = "gender") -> PairSet:
    """The pairs with notes on their design, where intervals or contrasts of words rest on few sentences."""
    notes, design = [], CrossedDesign.of(pairs.frame)
    count = int(design.templates.max()) + 1
    # Intervals that rest on a few sentences.
    if count < FEW_TEMPLATES and len(design.stratum) > count and design.is_crossed:
        few = too_few(design) or (
            f"intervals rest on {count} sentences, and are too narrow if few of them move the answers "
            "far more than the others do"
        )
        sentences = "sentence" if count == 1 else f"{count} sentences"
        notes.append(f"all words are asked in the same {sentences}: {few} ({FEW_TEMPLATES} are better)")
    notes += filter(None, [different_sentences(pairs, load_axis(axis).thing)])
    # A set that is checked twice has them already.
    notes = [note for note in notes if note not in pairs.notes]
    return replace(pairs, notes=(*pairs.notes, *notes)) if notes else pairs


def different_sentences(pairs: PairSet, thing: str = "word") -> str:
    """A note on classes of words that meet different sentences, so that words and sentences are confounded; or "".

    The overlap of two classes is the share of rows whose template the other class meets also: the larger one of the
    two shares, because a small class can meet only some of the templates of a large one. Below ``OVERLAP`` it is noted,
    first of words with different stereotypes, then of words with and without one.
    """
    # Numbers for the templates: a million texts as Python objects would take hundreds of megabytes.
    templates = pl.col("template").rank("dense")
    of_word = dict(pairs.frame.with_columns(templates).group_by("occupation").agg(pl.col("template").unique()).rows())
    named = pairs.frame.filter(pl.col("subset") == PS).group_by("group").agg(pl.col("occupation").unique()).rows()
    classes = {group: set(words) for group, words in sorted(named)}
    typed = set().union(*classes.values())
    contrasts = []
    for group, words in classes.items():
        others = [name for name in classes if name != group]
        against = others[0] if len(others) == 1 else "otherwise"
        contrasts.append((f"stereotyped {group} and {against}", words, typed - words))
    contrasts.append(("with and without a stereotype", typed, of_word.keys() - typed))
    for what, *sides in contrasts:
        first, second = (Counter(template for word in side for template in of_word[word]) for side in sides)
        both = first.keys() & second.keys()
        shares = [sum(met[template] for template in both) / max(1, met.total()) for met in (first, second)]
        if first and second and max(shares) < OVERLAP:
            return (
                f"{thing}s {what} meet different sentences ({len(first)} and {len(second)}, {len(both)} in common): "
                "a difference between them may come from the sentences"
            )
    return ""
