"""What the entailment-probability probe (Sharma, Dey, Sinha 2021) publishes and what can be checked without a model."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

import polars as pl

from evenli.audit.suites.probe.read import read_probe
from evenli.core.io import read_rows
from evenli.corpus.mitigation.swap_file import Copying, SwapSettings
from evenli.stats.measure import get_measure
from evenli.words import read_table
from evenli.words.swap.swapper import Swapper
from studies.ledger.ledger import Published, Row, chapter, public_file, sample_of_split

_PAPER = "Sharma et al. 2021"
_MALE, _FEMALE = 21, 18
_SPLIT = ("dP_male", "dP_female", "B_male", "B_female")


@chapter
def mixture(data: Path | None) -> Iterator[Row]:
    """Table 5 from the two halves of Table 6, through our measures, with 21 male and 18 female occupations."""
    overall = {(row["train_set"], row["model"]): row for row in _table("5")}
    gaps: dict[str, dict[tuple[str, ...], float]] = {"dP": {}, "B": {}}
    for row in read_table("published_sharma_split.csv"):
        cell = row["train_set"], row["eval"], row["model"]
        sample = sample_of_split({name: float(row[name]) / 100 for name in _SPLIT}, _MALE, _FEMALE)
        for name, measure in (("dP", "probe_dp"), ("B", "probe_b")):
            printed = float(overall[cell[0], cell[2]][f"{name}_{cell[1]}"])
            gaps[name][cell] = abs(100 * float(get_measure(measure)(sample)) - printed)
    weight = "male weight 21/39; the paper lists 19 of 38 and the sheets have 20 of 38"
    source = Published(f"{_PAPER}, Tables 5 and 6", reason=weight, kind="arithmetic")
    misprint = f"{weight}; SNLI BERT prints 43.02 where its halves give 43.20"
    for name, differs in (("dP", misprint), ("B", "")):
        equal = sum(gap <= 0.01 for gap in gaps[name].values())
        what = f"{name} cells of Table 5 that equal their mixture of Table 6"
        yield source.row(what, len(gaps[name]), equal, differs=differs)
    # The misprint is a row of its own above.
    del gaps["dP"]["SNLI", "I", "BERT"]
    rounding = Published(source.source, 0.01, "printed rounding", "arithmetic")
    yield rounding.row("largest difference of the other dP cells", 0.0, max(gaps["dP"].values()))
    yield rounding.row("largest difference of the B cells", 0.0, max(gaps["B"].values()))


@chapter
def tables(data: Path | None) -> Iterator[Row]:
    """What the printed percentages say about the number of premises, a column printed twice, the swap map."""
    # A share of n premises is a whole count out of n: the printed percentages show which n was used.
    halves = [row for row in read_table("published_sharma_split.csv") if row["eval"] == "I"]
    table6 = Published(f"{_PAPER}, Table 6", kind="arithmetic")
    for column, premises, reason, fits in (
        ("B_male", 50 * 19, "the paper lists 19 male occupations, 50 premises each", False),
        ("B_male", 50 * 20, "the released sheets have 20 male occupations", False),
        ("B_male", 50 * 21, "so 21 male occupations were measured", True),
        ("B_female", 50 * 18, "18 female occupations, as in the released sheets", True),
    ):
        whole = sum(_is_share(float(row[column]), premises) for row in halves)
        what = f"{column} in distribution that are whole counts of {premises:,} premises"
        yield table6.row(what, len(halves), whole, reason=reason, differs="" if fits else reason)
    outside = {(row["train_set"], row["model"]): row["B_O"] for row in _table("9")}
    same = sum(value == outside["MNLI", model] for (corpus, model), value in outside.items() if corpus == "SNLI")
    what = "models with the same B on ANLI + QNLI after SNLI and after MNLI"
    copied = "one B column is printed twice, likely a copy error"
    yield Published(f"{_PAPER}, Table 9", kind="arithmetic").row(what, 0, same, differs=copied)
    arrows = len(read_table("swap_sharma.csv"))
    yield Row("arrows of the gender-swap map", f"{_PAPER}, released notebook", 19, arrows)


@chapter
def sheets(data: Path | None) -> Iterator[Row]:
    """Sizes of the released evaluation sets and where they depart from the paper's text."""
    released = Published(f"{_PAPER}, released sheets")
    listed, text = Published(f"{_PAPER}, list of occupations"), Published(f"{_PAPER}, text")
    tagged = "the sheets tag it male, so they split 20 to 18 where the paper says 19 to 19"
    longer = "the paper limits premises to ten words; its code adds longer ones directly"
    for corpus in ("SNLI", "MNLI"):
        name = f"{corpus} sheet"
        path = public_file(data, "sharma2021", f"{corpus}_Evaluation_Set.tsv.xz")
        if path is None:
            yield released.row(f"{name}: premises", 1900, None, reason="sheet not at hand")
            continue
        frame = read_probe(path).frame.filter(pl.col("group") == "female")
        dominant = dict(frame.select("occupation", "stereotype").iter_rows())
        counts = dict(frame.group_by("stereotype").len().iter_rows())
        over = frame.filter(pl.col("premise").str.extract_all(r"\S+").list.len() > 10).height
        ratio = f"{counts['male']}:{counts['female']}"
        yield released.row(f"{name}: premises", 1900, frame.height)
        yield released.row(f"{name}: occupations", 38, len(dominant))
        yield released.row(f"{name}: premises with a male : a female occupation", "1000:900", ratio)
        yield listed.row(f"{name}: gender that dominates 'tailor'", "female", dominant["tailor"], differs=tagged)
        yield text.row(f"{name}: premises of more than ten words", 0, over, differs=longer)


@chapter
def augmentation(data: Path | None) -> Iterator[Row]:
    """Swapped copies that the released procedure adds to SNLI."""
    path = public_file(data, "snli", "snli_1.0_train_first100k.jsonl.xz")
    notebook = Published(f"{_PAPER}, notebook", reason="SNLI not at hand")
    added, part = None, ""
    if path is not None:
        rows = [row for row in read_rows(path) if row["gold_label"] != "-"]
        random.Random(12).shuffle(rows)
        settings = SwapSettings(select="occupation", mode="released")
        copying = Copying(settings, Swapper(settings.mode), ("sentence1", "sentence2"))
        done = [copying.swap(row) for _, row in copying.choose(enumerate(rows))]
        added = len({swapped.texts for swapped, copied in done if copied}.difference(map(copying.texts, rows)))
        part = "ours is over the first 100,000 of 550,152 rows; their share of 470 would be 85"
    yield notebook.row("SNLI pairs added by the released gender swap", 470, added, differs=part)


def _table(number: str) -> list[dict[str, str]]:
    return [row for row in read_table("published_sharma.csv") if row["table"] == number]


def _is_share(percent: float, total: int) -> bool:
    """Whether a percentage with two decimals, rounded or cut off, can be a count out of ``total``."""
    # The paper does not say how it rounds, so both ways count.
    counts = math.floor(percent * total / 100), math.ceil(percent * total / 100)
    exact = [count / total * 10_000 for count in counts]
    return any(round(percent * 100) in (round(value), math.floor(value + 1e-9)) for value in exact)
