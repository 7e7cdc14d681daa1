"""What NLI-CoAL adds to its measures: readings, shares of labels, occupations, published models, tables by hand."""

from __future__ import annotations

import itertools
import math
from statistics import median

import msgspec
import numpy as np
import polars as pl
import pytest

from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import measure_results
from evenli.audit.suites.coal.measures import items
from evenli.audit.suites.coal.results import (
    CoalResult,
    detectable_difference,
    label_shares,
    published,
    readings,
    readings_blocks,
    summarise,
    terminal_blocks,
)
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Estimate, Scoring
from evenli.stats.measure import measures
from evenli.stats.sample import Sample
from evenli.words import read_table

WORDS = {"female": "nurse", "male": "boxer", "neutral": "clerk"}
TEMPLATES = 6


def drawn(seed: int, words: int = 4) -> Sample:
    """Random answers; the first word of the male class states a group itself."""
    generator, rows = np.random.default_rng(seed), []
    for kind, at, template, group in itertools.product(WORDS, range(words), range(TEMPLATES), ("female", "male")):
        word = "businessman" if (kind, at) == ("male", 0) else f"{WORDS[kind]} {at}"
        rows.append(
            {
                "suite": "coal",
                "id": str(len(rows)),
                "subset": "NS" if kind == "neutral" else "PS" if kind == group else "AS",
                "premise": f"the {word} waits {template}.",
                "hypothesis": f"the {'woman' if group == 'female' else 'man'} waits {template}.",
                "gold": NEUTRAL,
                "occupation": word,
                "stereotype": kind,
                "template": f"the [Sub] waits {template}.",
                "group": group,
            }
        )
    logits = generator.normal(size=(len(rows), 3)) * 2
    columns = {label: pl.Series(logits[:, at], dtype=pl.Float32) for at, label in enumerate(LABELS)}
    return Sample(Predictions(pl.DataFrame(rows).with_columns(**columns)))


def summarised(sample: Sample, level: float = 0.95) -> CoalResult:
    return summarise(sample, measure_results(sample, measures("coal"), ("female", "male"), Scoring(level)))


@pytest.fixture(scope="module")
def sample() -> Sample:
    return drawn(4)


@pytest.fixture(scope="module")
def result(sample: Sample) -> CoalResult:
    return summarised(sample)


def answered(sample: Sample) -> pl.DataFrame:
    return sample.frame.with_columns(answer=pl.Series([LABELS[at] for at in sample.predicted]))


def pairs_of(sample: Sample) -> dict[str, list[tuple[str, str]]]:
    """(answer to woman, answer to man) of each sentence, by class; a word that states a group is its own."""
    wide = answered(sample).pivot("group", index=["occupation", "stereotype", "template"], values="answer")
    found: dict[str, list[tuple[str, str]]] = {}
    for row in wide.iter_rows(named=True):
        kind = "defining" if row["occupation"] == "businessman" else row["stereotype"]
        found.setdefault(kind, []).append((row["female"], row["male"]))
    return found


HEIGHT = {ENTAILMENT: 1, NEUTRAL: 0, CONTRADICTION: -1}


def test_readings_are_shares_of_the_answers_to_a_sentence(sample: Sample, result: CoalResult) -> None:
    rows = {(row.stereotype, row.reading): row for row in result.readings}
    for kind, pairs in pairs_of(sample).items():
        heights = [(HEIGHT[woman], HEIGHT[man]) for woman, man in pairs]
        share = {
            "female": np.mean([woman > man for woman, man in heights]),
            "male": np.mean([woman < man for woman, man in heights]),
            "even": np.mean([woman == man == 0 for woman, man in heights]),
            "incoherent": np.mean([woman == man != 0 for woman, man in heights]),
        }
        denied = {
            "female": np.mean([pair == (0, -1) for pair in heights]),
            "male": np.mean([pair == (-1, 0) for pair in heights]),
            "even": 0,
            "incoherent": 0,
        }
        for reading, expected in share.items():
            row = rows[kind, reading]
            assert (row.value, row.denied) == pytest.approx((expected, denied[reading]), abs=1e-6)
            assert row.items == len(pairs) and (row.low <= row.value <= row.high or math.isnan(row.low))
    assert len(rows) == 16 and {row.noun for row in result.readings} == {"woman", "man", ""}
    one_group = Sample(Predictions(sample.frame.filter(pl.col("group") == "male")))
    assert readings(one_group, Scoring()) == []


def test_shares_of_labels_are_counted_by_set_and_group(sample: Sample, result: CoalResult) -> None:
    table = answered(sample)
    sets = [("PS", ""), ("PS", "female"), ("PS", "male"), ("AS", ""), ("NS", ""), ("NS", "female"), ("NS", "male")]
    rows = {(row.set, row.group, row.label): row for row in result.shares}
    for subset, group in sets:
        part = table.filter(pl.col("subset") == subset, (pl.col("group") == group) | (group == ""))
        for label in LABELS:
            row = rows[subset, group, label]
            assert row.value == pytest.approx((part["answer"] == label).mean(), abs=1e-6)
            assert row.pairs == part.height and row.low <= row.value <= row.high
    assert len(rows) == 3 * 3 * 3
    wide = {(row.set, row.group, row.label): row for row in label_shares(sample, Scoring(0.99))}
    row, wider = rows["NS", "", NEUTRAL], wide["NS", "", NEUTRAL]
    assert wider.low < row.low < row.high < wider.high
    for subset, of in result.proportions.items():
        assert of == pytest.approx({label: rows[subset, "", label].value for label in LABELS}, abs=1e-6)
    assert result.rows == {"PS": 48, "AS": 48, "NS": 48}


def test_occupations_are_sorted_by_kind_and_score(sample: Sample, result: CoalResult) -> None:
    table = sample.frame.with_columns(biased=pl.Series(sample.biased))
    scores = dict(table.group_by("occupation").agg(pl.col("biased").mean()).iter_rows())
    rows = result.occupations
    assert {row.occupation: row.score for row in rows} == pytest.approx(scores)
    assert [row.states_group for row in rows] == [False] * 11 + [True]
    assert [row.stereotype == "neutral" for row in rows] == [False] * 7 + [True] * 4 + [False]
    for part in (rows[:7], rows[7:11]):
        assert [row.score for row in part] == sorted((row.score for row in part), reverse=True)
    assert {(row.n, row.templates) for row in rows} == {(2 * TEMPLATES, TEMPLATES)}
    assert all(row.low < row.high and row.low <= row.score <= row.high for row in rows)


def test_the_interval_of_an_occupation_is_wilsons_with_fewer_answers(sample: Sample, result: CoalResult) -> None:
    """One design effect for all: the number of answers that the interval stands for is the same share of the rows."""
    z, sizes = 1.959964, []
    for row in result.occupations:
        # Wilson's interval has the centre (p + z²/2n) / (1 + z²/n).
        middle = (row.low + row.high) / 2
        if abs(row.score - 0.5) > 0.01:
            sizes.append(z**2 * (0.5 - middle) / (middle - row.score))
    assert len(sizes) > 5 and sizes == pytest.approx([sizes[0]] * len(sizes), rel=1e-3)
    assert TEMPLATES - 1e-6 <= sizes[0] <= 4 * TEMPLATES


def test_the_order_of_errors(sample: Sample, result: CoalResult) -> None:
    table = answered(sample)

    def share(label: str, subset: str) -> float:
        return float((table.filter(pl.col("subset") == subset)["answer"] == label).mean())

    gaps = share(ENTAILMENT, "PS") - share(ENTAILMENT, "AS"), share(CONTRADICTION, "AS") - share(CONTRADICTION, "PS")
    assert result.order_condition.holds is (min(gaps) > 0)
    assert result.order_condition.beyond_doubt is False
    # All answers by the stereotype: holds. All against it: does not.
    for follow in (True, False):
        said = pl.when(pl.col("subset") == ("PS" if follow else "AS"))
        frame = sample.frame.with_columns(
            said.then(5.0).otherwise(0.0).alias(ENTAILMENT), said.then(0.0).otherwise(5.0).alias(CONTRADICTION)
        ).with_columns(pl.lit(-5.0).alias(NEUTRAL))
        order = summarised(Sample(Predictions(frame))).order_condition
        assert (order.holds, order.beyond_doubt) == (follow, follow)


def test_published_models_stand_beside_this_one() -> None:
    table = [row for row in read_table("published_coal.csv") if row["lang"] == "en"]
    scores = [float(row["coal_pub"]) for row in table]
    middle = sorted(scores)[len(scores) // 2]
    rows, medians = published("en", Estimate(middle, middle - 0.05, middle + 0.05, 0.02, 0.95, 9))
    assert len(rows) == len(table) + 1 and [row.coal for row in rows] == sorted(
        (row.coal for row in rows), reverse=True
    )
    (at,) = (at for at, row in enumerate(rows) if row.this)
    # Last among equals.
    assert rows[at - 1].coal == middle and (at + 1 == len(rows) or rows[at + 1].coal < middle)
    assert [row.tied for row in rows if not row.this] == [
        abs(row.coal - middle) <= 0.05 + 1e-12 for row in rows if not row.this
    ]
    assert not rows[at].tied and math.isnan(rows[at].fn)
    assert {row.model: row.fn for row in rows if not row.this} == {row["model"]: float(row["fn_pub"]) for row in table}
    assert medians == pytest.approx(
        {
            "coal": median(scores),
            "fn_bias": median(float(row["fn_pub"]) for row in table),
            "coal_pro": median(float(row["ps_e"]) for row in table),
            "coal_anti": median(float(row["as_c"]) for row in table),
            "coal_non": median(1 - float(row["ns_n"]) for row in table),
        }
    )
    unknown = Estimate(math.nan, math.nan, math.nan, math.nan, 0.95, 9)
    assert published("en", unknown)[0][-1].this
    for lang in (None, "xx"):
        rows, medians = published(lang, unknown)
        assert [row.this for row in rows] == ([] if lang is None else [True])
        assert all(map(math.isnan, medians.values())) and set(medians) == {
            *("coal", "fn_bias", "coal_pro", "coal_anti", "coal_non")
        }


def test_a_difference_between_models_that_are_alike_is_seen_sooner() -> None:
    """The variance of a difference of two scores with correlation r is 2 (1 - r): 1 for 0.5, 0.2 for 0.9."""
    said = detectable_difference(0.1)
    assert "0.100 in NLI-CoAL" in said and f"{0.1 * math.sqrt(0.2):.3f} if they are alike" in said
    assert "less than 0.001" in detectable_difference(0.001) and "of 0.001 in" in detectable_difference(0.001)
    assert detectable_difference(0.0004).count("less than 0.001") == 2 and "unknown" in detectable_difference(math.nan)


def test_the_smallest_difference_is_of_the_standard_error(result: CoalResult) -> None:
    assert result.minimum_detectable_difference == pytest.approx(2.801585 * result.measures["coal"].se, rel=1e-6)


def test_the_table_of_readings(result: CoalResult) -> None:
    (block,) = readings_blocks(result)
    rows = {(row.stereotype, row.reading): row for row in result.readings}
    assert block.columns == ("job", ">sentences", ">woman's", ">man's", ">incoherent", ">neither")
    names = {"female stereotype": "female", "male stereotype": "male"}
    names |= {"no stereotype": "neutral", "word states it": "defining"}
    assert [line[0] for line in block.rows] == list(names)
    for title, sentences, *shares in block.rows:
        kind = names[title]
        assert int(sentences) == rows[kind, "even"].items
        expected = [rows[kind, reading] for reading in ("female", "male", "incoherent", "even")]
        for text, row in zip(shares, expected, strict=True):
            assert text.startswith(f"{row.value:.2f} ")
    assert not block.grey and readings_blocks(msgspec.structs.replace(result, problem="it is deaf"))[0].grey
    assert readings_blocks(msgspec.structs.replace(result, readings=[])) == []


def test_the_tables_of_a_run(result: CoalResult) -> None:
    blocks = terminal_blocks(result, official=True)
    labels = next(block for block in blocks if block.columns[:2] == ("set", ">pairs"))
    rows = {(row.set, row.group, row.label): row for row in result.shares}
    assert [(line[0].split()[-1], int(line[1])) for line in labels.rows] == [
        ("pro-stereotypical", 48),
        ("anti-stereotypical", 48),
        ("non-stereotypical", 48),
        ("female", 24),
        ("male", 24),
    ]
    for line, key in zip(labels.rows[2:], ("", "female", "male"), strict=True):
        for title, text in zip(labels.columns[2:], line[2:], strict=True):
            assert text.startswith(f"{rows['NS', key, title[1:]].value:.3f} ")
    (last,) = blocks[-1].lines
    worst = [row for row in result.occupations if row.stereotype != "neutral" and not row.states_group][:5]
    places = [last.index(f"{row.occupation} {row.score:.2f}") for row in worst]
    assert places == sorted(places) and "businessman" not in last and last.count("[") == 5


def test_the_table_of_published_models(result: CoalResult) -> None:
    rows, _ = published("en", result.measures["coal"])
    beside = msgspec.structs.replace(result, published=rows)
    shown, other = (terminal_blocks(beside, official=official)[-1] for official in (True, False))
    assert [line[0] for line in shown.rows] == [row.model for row in rows] and shown.heading != other.heading
    assert [line[1] for line in shown.rows] == [f"{row.coal:.3f}" for row in rows]
    (at,) = (at for at, row in enumerate(rows) if row.this)
    assert shown.stressed == {at} and shown.rows[at][2] == "◀"
    assert [bool(line[2]) for line in shown.rows] == [row.this or row.tied for row in rows]
    deaf = msgspec.structs.replace(beside, problem="it is deaf")
    assert not any(row.this for row in deaf.published) and not terminal_blocks(deaf, official=True)[-1].rows


@pytest.mark.parametrize(
    ("holds", "doubtless", "word"),
    [(None, None, "undefined"), (False, False, "fails"), (True, False, "within"), (True, True, "beyond doubt")],
)
def test_the_order_condition_in_words(
    result: CoalResult, holds: bool | None, doubtless: bool | None, word: str
) -> None:
    order = msgspec.structs.replace(result.order_condition, holds=holds, beyond_doubt=doubtless)
    lines = [
        line
        for block in terminal_blocks(msgspec.structs.replace(result, order_condition=order), official=True)
        for line in block.lines
        if "e_p > e_a" in line
    ]
    words = ("undefined", "fails", "within", "beyond doubt")
    assert len(lines) == 1 and [name for name in words if name in lines[0].split(".")[0]] == [word]


def test_what_is_left_out(sample: Sample, result: CoalResult) -> None:
    (note,) = result.notes
    assert note.startswith("1 words") and "businessman" in note
    partly = Sample(Predictions(sample.frame[3:]))
    assert items(partly).unmatched == 1
    first, *_ = summarised(partly).notes
    assert first.startswith("1 pairs")
    assert sample.frame["group"][2] == "female" and result.single_jobs.words == 11
