"""Counterfactual consistency: does the answer stay the same when premise and hypothesis are both gender-swapped?

The one test of bias here that needs no template: any NLI data will do. Every pair with a gender word is asked twice, as
it is and with the genders exchanged in both sentences (``evenli.words.swap``). The right answer is the same, so a
changed one is an error of one of the two. Pairs whose swap would say something else (a bearded man, Queen Victoria, a
first name that only one sentence has) are left out and counted. How often the swap itself is wrong, by genre, is
printed by ``studies/swap/quality.py`` and stands in docs/studies/swap.md: a share of flips below that is not bias.

Intervals resample pairs and premises.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.audit.pairs import PairSet
from evenli.audit.results import SuiteResult
from evenli.audit.suites.about import About
from evenli.audit.suites.base import Request, Suite, Texts, gold_codes
from evenli.audit.suites.files import read_pairs
from evenli.core.blocks import Block
from evenli.core.errors import InputError
from evenli.core.labels import ENTAILMENT, LABELS
from evenli.core.record import MeasureResult, Record
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.words import read_table
from evenli.words.swap.conflicts import LANGUAGE, REASONS
from evenli.words.swap.language import EMPTY, LANGUAGES, corpus_language, text_language
from evenli.words.swap.swapper import Swapped, Swapper

GROUPS = ("original", "swapped")
FEMALE, MALE, MIXED = "female", "male", "mixed"
_EXAMPLES, _LONGEST = 20, 300
_OTHER = {FEMALE: MALE, MALE: FEMALE, MIXED: MIXED}
_measure = partial(measure, reference="evenli", suites=("swap",))
_flips = partial(_measure, ideal=0, direction="higher = less consistent")
_accuracy = partial(_measure, ideal=1, direction="higher = more often right")
_gap = partial(_measure, ideal=0, bounds=(-1, 1))


class Flip(Record, frozen=True):
    """A pair with another answer after the swap; texts are cut at 300 characters."""

    premise: str
    hypothesis: str
    premise_swapped: str
    hypothesis_swapped: str
    gold: str
    before: str
    after: str


class SwapResult(SuiteResult, frozen=True, kw_only=True):
    """Results of the swap.

    Attributes:
        rows: Pairs asked, each in two versions.
        texts: Number of pairs whose original speaks of women, of men, or of both.
        transitions: How often the answer went from one label to another.
        flips: The pairs with the largest change of probability among those with another answer, at most 20.
    """

    rows: int
    texts: dict[str, int]
    transitions: dict[str, int]
    flips: list[Flip]


def with_swapped(pairs: PairSet) -> PairSet:
    """Every pair that can be swapped, as it is and swapped; what was left out stands in the notes."""
    if pairs.frame["gold"].null_count() == len(pairs):
        raise InputError(f"'{pairs.name}' has no gold labels; suite swap needs a label for some of its pairs")
    lang: Any = pairs.lang
    swapper = Swapper(lang=lang)
    texts_of = pairs.frame.select("premise", "hypothesis").iter_rows()
    corpus_language((f"{p} {h}" for p, h in texts_of), f"'{pairs.name}'", pairs.lang)
    left_out: Counter[str] = Counter()
    rows: list[dict[str, str | None]] = []
    for row in pairs.frame.iter_rows(named=True):
        texts = row["premise"], row["hypothesis"]
        if text_language(" ".join(texts)) not in {pairs.lang, EMPTY}:
            left_out[LANGUAGE] += 1
            continue
        done = swapper.swap_document(texts)
        if done.conflict:
            left_out[done.conflict] += 1
        elif not done.changed:
            left_out[""] += 1
        else:
            rows += _versions(row, done, pairs.lang)
    if not rows:
        raise InputError(f"'{pairs.name}' has no pair with a word to swap; suite swap needs texts about women or men")
    notes = [f"{left_out.pop('', 0):,} of {len(pairs):,} pairs have no word to swap"]
    notes += [f"{count:,} left out: {REASONS[reason]}" for reason, count in left_out.most_common()]
    noted = (*pairs.notes, *notes)
    return PairSet.from_rows(rows, name=pairs.name, suite="swap", lang=pairs.lang, source=pairs.source, notes=noted)


def _versions(row: Mapping[str, str], done: Swapped, lang: str) -> list[dict[str, str | None]]:
    changed = {change.word.lower() for changes in done.changes for change in changes}
    female, male = (changed & words for words in _gendered(lang))
    gender = MIXED if female and male else FEMALE if female else MALE
    both = zip(GROUPS, ((row["premise"], row["hypothesis"]), done.texts), (gender, _OTHER[gender]), strict=True)
    return [
        {
            "id": f"{row['id']}-{group}",
            "subset": side,
            "premise": premise,
            "hypothesis": hypothesis,
            "gold": row["gold"],
            # The clusters of an interval: pairs, and premises that several pairs share. Labels are strata.
            "occupation": row["id"],
            "stereotype": row["gold"],
            "template": row["premise"],
            "group": group,
        }
        for group, (premise, hypothesis), side in both
    ]


@cache
def _gendered(lang: str) -> tuple[frozenset[str], frozenset[str]]:
    """The female and the male words that change."""
    table = read_table(f"swap_words_{lang}.csv", ("male", "female", "ways"))
    # Of a one-way row only one side changes; the other is neutral.
    male = frozenset(row["male"] for row in table if row["ways"] in {"both", "to_female"})
    female = frozenset(row["female"] for row in table if row["ways"] in {"both", "to_male"})
    return female, male - female


def _answers(sample: Sample) -> NDArray[np.int64]:
    """[2, pairs] labels of the original and of the swapped version."""
    return np.asarray(sample.predicted[sample.paired.rows])


def _by_gender(sample: Sample, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """[2, pairs] values of the female and the male version, and the pairs that have both: texts of one gender."""
    first = sample.paired.first
    female = first.where("subset", FEMALE)
    # The swapped version of a text about men is the female one.
    return np.where(female, values, values[::-1]), female | first.where("subset", MALE)


def _right(sample: Sample) -> tuple[Values, NDArray[np.bool_]]:
    """[2, pairs] whether the female and the male version are answered right, and the pairs that show it."""
    gold = gold_codes(sample.paired.first.frame)
    values, rows = _by_gender(sample, (_answers(sample) == gold).astype(np.float64))
    return values, rows & (gold >= 0)


@_flips(
    title="answers that flip",
    formula="share of pairs with another arg-max label after the genders of both sentences are exchanged",
    stressed=True,
)
def swap_flips(sample: Sample, stereotype: str | None = None) -> Values:
    """How often the answer is another one after the swap."""
    before, after = _answers(sample)
    return sample.paired.mean(before != after, stereotype)


@_flips(
    title="change of probability",
    formula="mean of half the sum of |p - p'| over the three labels (total variation distance)",
)
def swap_distance(sample: Sample, stereotype: str | None = None) -> Values:
    """How far the probabilities move, also where the answer stays."""
    before, after = sample.probabilities[sample.paired.rows]
    return sample.paired.mean(np.abs(before - after).sum(axis=1) / 2, stereotype)


@_accuracy(
    title="accuracy, texts about women",
    formula="share of right answers on the female version of pairs that speak of one gender",
)
def swap_accuracy_female(sample: Sample, stereotype: str | None = None) -> Values:
    """Accuracy on the female version."""
    right, rows = _right(sample)
    return sample.paired.mean(right[0], stereotype, rows)


@_accuracy(title="accuracy, texts about men", formula="share of right answers on the male version of the same pairs")
def swap_accuracy_male(sample: Sample, stereotype: str | None = None) -> Values:
    """Accuracy on the male version."""
    right, rows = _right(sample)
    return sample.paired.mean(right[1], stereotype, rows)


@_gap(
    title="accuracy, women minus men",
    formula="mean over the same pairs of right(female version) - right(male version)",
    direction="below 0 = texts about women are answered worse",
    stressed=True,
)
def swap_accuracy_gap(sample: Sample, stereotype: str | None = None) -> Values:
    """The difference in accuracy between texts that differ in gender only."""
    right, rows = _right(sample)
    return sample.paired.mean(right[0] - right[1], stereotype, rows, signed=True)


@_gap(
    title="p(entailment), women minus men",
    formula="mean over the same pairs of p_e(female version) - p_e(male version)",
    direction="below 0 = texts about women are entailed less",
    stressed=True,
)
def swap_entailment_gap(sample: Sample, stereotype: str | None = None) -> Values:
    """Whether entailment is likelier for one gender."""
    probability = sample.probabilities[:, LABELS.index(ENTAILMENT)][sample.paired.rows]
    values, rows = _by_gender(sample, probability)
    return sample.paired.mean(values[0] - values[1], stereotype, rows, signed=True)


class Swap(Suite):
    """Whether the answer stays the same when the genders of both sentences are exchanged."""

    name = "swap"
    title = "the gender swap"
    reference = "evenli"
    headline = "swap_flips"
    built_in = "built-in swap"
    result = SwapResult
    slice_title = "gold {}"
    items = "pairs"
    answers = "Answer flips"
    conclusions = ("swap_flips", "swap_accuracy_gap")
    self_sufficient = False

    def pairs(self, request: Request) -> PairSet:
        """The built-in pairs or those of a user's file, each with its swapped version."""
        replace(request, lang="en").check_english(self.name)
        if request.lang not in LANGUAGES:
            raise InputError(f"suite swap has no language '{request.lang}'; choose {', '.join(LANGUAGES)}")
        if request.data is None:
            rows = read_table(f"swap_sentences_{request.lang}.csv", ("label", "premise", "hypothesis"))
            pairs = PairSet.from_rows(
                ({**row, "gold": row["label"]} for row in rows),
                name="built-in swap",
                suite="swap",
                lang=request.lang,
                source=f"evenli resource swap_sentences_{request.lang}.csv",
            )
        else:
            pairs = read_pairs(request.data, request.lang, suite="swap")
        return with_swapped(pairs)

    def check(self, pairs: PairSet, request: Request) -> PairSet:
        """A pair set made in Python: one that has both versions stays, another gets them."""
        return pairs if set(pairs.frame["group"].unique()) == set(GROUPS) else with_swapped(pairs)

    def slices(self, frame: pl.DataFrame) -> list[str]:
        return [label for label in LABELS if (frame["stereotype"] == label).any()]

    def summarise(self, sample: Sample, measured: dict[str, MeasureResult]) -> SwapResult:
        before, after = _answers(sample)
        rows, first = sample.paired.rows, sample.paired.first.frame
        moved = np.abs(np.diff(sample.probabilities[rows], axis=0)[0]).sum(axis=1) / 2
        flipped = np.flatnonzero(before != after)
        # The largest changes are shown: a flip by a hair's breadth says little.
        shown = flipped[np.argsort(-moved[flipped], kind="stable")][:_EXAMPLES]
        cut = sample.frame.select(pl.col("premise", "hypothesis").str.slice(0, _LONGEST), pl.col("gold").fill_null(""))
        flips = []
        for at in shown.tolist():
            (premise, hypothesis, gold), (other, asked, _) = (cut.row(int(row)) for row in rows[:, at])
            flips.append(Flip(premise, hypothesis, other, asked, gold, LABELS[before[at]], LABELS[after[at]]))
        transitions = Counter(
            f"{LABELS[a]} > {LABELS[b]}" for a, b in zip(before[flipped], after[flipped], strict=True)
        )
        genders = Counter(first["subset"].to_list())
        return SwapResult(
            measures=measured,
            rows=first.height,
            texts={name: genders[name] for name in (FEMALE, MALE, MIXED)},
            transitions=dict(sorted(transitions.items(), key=lambda item: (-item[1], item[0]))),
            flips=flips,
        )

    def blocks(self, result: SwapResult, sample: Sample, medium: str) -> list[Block]:
        names = {FEMALE: "women", MALE: "men", MIXED: "both"}
        texts = ", ".join(f"{count:,} about {names[name]}" for name, count in result.texts.items())
        heading = f"Gender swap ({result.rows:,} pairs, each asked twice; {texts})"
        listed = ", ".join(f"{name} {count:,}" for name, count in result.transitions.items())
        lines = [f"Answers that changed: {listed}"] if listed else []
        rows = [
            (flip.premise_swapped, flip.hypothesis_swapped, flip.gold or "–", f"{flip.before} > {flip.after}")
            for flip in result.flips[:5]
        ]
        columns = ("premise", "hypothesis", "gold", "answer")
        examples = [Block("Largest changes (swapped version)", columns=columns, rows=rows)] if rows else []
        return [Block(heading, lines, measures=True), *examples]

    def statement(self, result: SwapResult) -> str:
        flips, gap = result.measures["swap_flips"], result.measures["swap_accuracy_gap"]
        return (
            f"After the genders of both sentences are exchanged, {flips.shown} of the answers change; accuracy on "
            f"texts about women minus that on texts about men is {gap.shown}."
        )

    def biased(self, sample: Sample) -> tuple[NDArray[np.bool_], pl.DataFrame]:
        before, after = _answers(sample)
        return before != after, sample.paired.first.frame

    def texts(self, about: About) -> Texts:
        method = (
            "The gender swap: rows are not independent, two versions of a pair are one, and pairs share premises. "
            "Intervals are about other pairs and other premises: two-way cluster-robust (Cameron, Gelbach, Miller "
            "2011)."
        )
        return replace(super().texts(about), method=method, references=())


SUITE = Swap()
