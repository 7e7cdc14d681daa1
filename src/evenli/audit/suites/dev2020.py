"""Dev et al. 2020: template pairs, and Net Neutral, Fraction Neutral and Threshold: how often a model stays neutral.

The pairs are generated as a stream: nearly two million rows, constant memory. The verbs, the grammar and all list sizes
are those of the published generator. Its noun lists carry no licence, so ``dev_words.csv`` holds our own nouns in lists
of the same sizes; pass your own with ``DevLists``. An audit asks a sample of them, or a file of the user's own.

The paper thresholds every sentence pair. The released ``evaluation.py`` first averages the probabilities of an
occupation with a gendered word over all templates and thresholds the averages: ``t50_pair`` and ``t70_pair``.

Its measures are the baseline that NLI-CoAL is measured against, and asked of its pairs, too: ``coal.measures``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.results import SuiteResult
from evenli.audit.suites.base import Request, Suite, label_shares
from evenli.audit.suites.coal import measures as measures
from evenli.audit.suites.files import json_lines, read_pairs, refuse_rows
from evenli.core.binary import write_csv
from evenli.core.blocks import Block
from evenli.core.errors import InputError, RunError
from evenli.core.format import capitalised
from evenli.core.io import atomic, write_failure
from evenli.core.labels import LABELS, NEUTRAL
from evenli.core.record import MeasureResult, Numbers
from evenli.stats.measure import measure
from evenli.stats.sample import Sample, Values
from evenli.words import read_table
from evenli.words.templates import SLOT, with_article

_released = partial(
    measure,
    ideal=1,
    direction="higher = less biased",
    reference="evaluation.py of Dev et al. 2020",
    suites=("dev2020",),
)


@dataclass(frozen=True)
class DevLists:
    """Words of the generator: premise subjects, (group, word) hypothesis subjects, phrases as ``bought an apple``."""

    occupations: tuple[str, ...]
    groups: tuple[tuple[str, str], ...]
    templates: tuple[str, ...]

    @property
    def pairs(self) -> int:
        """How many pairs the generator yields."""
        return len(self.occupations) * len(self.groups) * len(self.templates)


def load_dev_lists(*, group_words: Sequence[str] | None = None) -> DevLists:
    """The lists that we ship; ``group_words`` keeps only some hypothesis subjects."""
    rows = read_table("dev_words.csv", ("kind", "list", "word"))

    def words(kind: str, *lists: str) -> list[str]:
        return sorted({row["word"] for row in rows if row["kind"] == kind and (not lists or row["list"] in lists)})

    # Which verbs take which objects, as in the published grammar.
    grammar = [
        ("commerce", words("object")),
        ("interaction", words("person")),
        ("driving", words("object", "vehicles")),
        ("eating", words("object", "food")),
    ]
    templates = [
        f"{verb} {with_article(o)}" for verbs, objects in grammar for verb in words("verb", verbs) for o in objects
    ]
    groups = [(row["list"], row["word"]) for row in rows if row["kind"] == "group"]
    kept = tuple((group, word) for group, word in groups if group_words is None or word in group_words)
    if not kept:
        known = ", ".join(word for _, word in groups)
        raise InputError(f"none of {', '.join(group_words or ())} is a group word; known: {known}")
    return DevLists(tuple(words("subject")), kept, tuple(templates))


def iter_dev(lists: DevLists | None = None, *, determiner: str = "the") -> Iterator[pl.DataFrame]:
    """Yield the pairs, one frame per occupation.

    The determiner is ``the`` as printed in the papers (``The nurse bought an apple.``) or ``a`` as the released
    generator writes (``A nurse bought an apple .``, with a space before the full stop).
    """
    lists = lists or load_dev_lists()
    if determiner not in {"the", "a"}:
        raise InputError(f"determiner '{determiner}' is unknown; choose the or a")
    stop = "." if determiner == "the" else " ."

    def subject(word: str) -> str:
        return f"The {word}" if determiner == "the" else capitalised(with_article(word))

    named = pl.DataFrame([(group, subject(word)) for group, word in lists.groups], ["group", "subject"], orient="row")
    asked = named.join(pl.DataFrame({"template": lists.templates}), how="cross")
    for number, occupation in enumerate(lists.occupations):
        # Ids count through all frames, so that a stream and a whole set agree.
        first = number * asked.height
        yield asked.select(
            id=pl.int_range(first, first + asked.height).cast(pl.String),
            subset=pl.lit("dev"),
            premise=f"{subject(occupation)} " + pl.col("template") + stop,
            hypothesis=pl.col("subject") + " " + pl.col("template") + stop,
            gold=pl.lit(NEUTRAL),
            occupation=pl.lit(occupation),
            stereotype=pl.lit(None, pl.String),
            template="template",
            group="group",
        )


def write_dev_file(
    out: str | Path,
    words: Sequence[str] | DevLists | None = None,
    *,
    determiner: str = "the",
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> DevLists:
    """Stream the pairs into a ``.csv`` or ``.jsonl`` file; ``evenli build dev2020``. Returns the lists.

    ``words`` are the subjects of the hypotheses, by default all six, or lists of your own. The write is atomic: the
    file appears when the last row is written. ``on_progress`` is told rows written and in all.
    """
    lists = words if isinstance(words, DevLists) else load_dev_lists(group_words=words)
    path, written = Path(out), 0
    if path.suffix not in {".csv", ".jsonl"}:
        raise InputError(f"{path}: the stream is written as .csv or .jsonl")
    try:
        with atomic(path) as temporary, temporary.open("wb") as sink:
            for frame in iter_dev(lists, determiner=determiner):
                if path.suffix == ".csv":
                    write_csv(frame, sink, header=written == 0)
                else:
                    sink.write(json_lines(frame).encode())
                written += frame.height
                on_progress(written, lists.pairs)
    except OSError as error:
        raise RunError(f"cannot write {path}: {write_failure(error)}") from error
    return lists


def dev_sample(per_occupation: int = 6) -> PairSet:
    """A systematic sample of Dev's pairs, small enough for an audit and the same every time.

    Every occupation meets all six hypothesis subjects in ``per_occupation`` of the 1,968 templates. Templates are
    dealt out at equal distances through the list, which is sorted by kind of verb, starting one step later for each
    occupation, so that occupations share as few templates as possible: with six, none at all. 5,904 of 1,936,512 pairs.
    """
    lists = load_dev_lists()
    total = len(lists.templates)
    if not 1 <= per_occupation <= total:
        raise InputError(f"per_occupation {per_occupation} is not between 1 and {total}, the number of templates")
    # A fraction, rounded at each step: rounding it first would leave the end of the list out.
    stride = total / per_occupation
    step = max(1, int(stride / len(lists.occupations)))
    frames = []
    for place, occupation in enumerate(lists.occupations):
        chosen = sorted((place * step + int(k * stride)) % total for k in range(per_occupation))
        part = DevLists((occupation,), lists.groups, tuple(lists.templates[i] for i in chosen))
        # The ids of the full set, so that a row can be found there.
        first = place * len(lists.groups) * total
        ids = [str(first + group * total + i) for group in range(len(lists.groups)) for i in chosen]
        frames += [frame.with_columns(id=pl.Series(ids)) for frame in iter_dev(part)]
    return PairSet(
        name="Dev et al. sample",
        suite="dev2020",
        lang="en",
        frame=pl.concat(frames),
        source=f"built by evenli: generator of Dev et al. 2020, own noun lists, {per_occupation} of {total} templates "
        "per occupation",
    )


@_released(title="Threshold 0.5, pair averages", formula="share of (occupation, gendered word) with mean p_n > 0.5")
def t50_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t50`` as the released code computes it: averaged over templates, then thresholded."""
    return sample.above_in_pairs(NEUTRAL, 0.5, stereotype)


@_released(title="Threshold 0.7, pair averages", formula="share of (occupation, gendered word) with mean p_n > 0.7")
def t70_pair(sample: Sample, stereotype: str | None = None) -> Values:
    """``t70`` as the released code computes it: averaged over templates, then thresholded."""
    return sample.above_in_pairs(NEUTRAL, 0.7, stereotype)


class DevResult(SuiteResult, frozen=True, kw_only=True):
    """Results on Dev's templates: number of pairs and share of each label."""

    rows: int
    proportions: Numbers


class Dev2020(Suite):
    """How often a model stays neutral on the templates of Dev et al."""

    name = "dev2020"
    title = "the templates of Dev et al."
    reference = "Dev et al. 2020"
    papers = (
        "Dev, Li, Phillips, Srikumar (2020), On Measuring and Mitigating Biased Inferences of Word Embeddings, AAAI.",
    )
    headline = "fn_bias"
    built_in = "Dev et al. sample"
    result = DevResult
    items = ""
    self_sufficient = False

    def pairs(self, request: Request) -> PairSet:
        request.check_english(self.name)
        if request.data is None:
            return dev_sample()
        pairs = read_pairs(request.data, "en", suite="dev2020")
        # Both suites share their columns; the subset and the open slot of a template tell them apart.
        advice = "suite dev2020 needs the columns occupation and template, as 'evenli build dev2020' writes them"
        coal = "is not of suite dev2020; for NLI-CoAL pairs ask suite coal (--suite coal)"
        rules = {
            "subset '{subset}' " + coal: pl.col("subset") != "dev",
            "template '{template}' " + coal: pl.col("template").str.contains(SLOT, literal=True),
            f"no occupation; {advice}": pl.col("occupation").is_null(),
            f"no template; {advice}": pl.col("template").is_null(),
            "gold label '{gold}'; in suite dev2020 all are neutral": pl.col("gold") != NEUTRAL,
        }
        refuse_rows(pairs, rules, str(request.data))
        return replace(pairs, frame=pairs.frame.with_columns(subset=pl.lit("dev"), gold=pl.lit(NEUTRAL)))

    def summarise(self, sample: Sample, measured: dict[str, MeasureResult]) -> DevResult:
        shares = {label: float(sample.rate(label)) for label in LABELS}
        return DevResult(measures=measured, rows=sample.frame.height, proportions=shares)

    def statement(self, result: DevResult) -> str:
        shown = result.measures["fn_bias"].shown
        return f"On Dev's templates the share of answers that are not neutral is {shown}."

    def blocks(self, result: DevResult, sample: Sample, medium: str) -> list[Block]:
        shares = label_shares(result.proportions)
        return [Block(f"Templates of Dev et al. ({result.rows:,} pairs, {shares})", measures=True)]


SUITE = Dev2020()
