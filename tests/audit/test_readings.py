"""What NLI-CoAL adds to its measures: readings, labels, occupations, published models, what a verdict says."""

from __future__ import annotations

import itertools
import math
from statistics import median

import msgspec
import numpy as np
import polars as pl
import pytest

from evenli.audit.predictions import Predictions
from evenli.audit.results import Cause, Verdict
from evenli.audit.suites.base import measure_results
from evenli.audit.suites.coal.measures import items
from evenli.audit.suites.coal.results import (
    CoalResult,
    detectable_difference,
    label_shares,
    left_out,
    published,
    readings,
    readings_blocks,
    summarise,
    terminal_blocks,
)
from evenli.audit.suites.coal.screen import summary
from evenli.audit.suites.coal.single_jobs import SingleJobs, _spread, single_jobs
from evenli.audit.suites.coal.verdict import LEANS, judge, supported
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
    # By hand: the spread of templates within an occupation, against that of independent answers, held within its ends.
    table = sample.frame.with_columns(biased=pl.Series(sample.biased).cast(pl.Float64))
    n, clusters, squares, alone = 2 * TEMPLATES, TEMPLATES, 0.0, 0.0
    for _, part in table.group_by("occupation"):
        share = part["biased"].mean()
        sums = part.group_by("template").agg(pl.col("biased").sum())["biased"].to_numpy()
        squares += float(((sums - 2 * share) ** 2).sum()) * clusters / (clusters - 1) / n**2
        alone += share * (1 - share) / n
    effect = np.clip(squares / alone / (1 + squares / alone / n), clusters / n, n / clusters)
    assert sizes[0] == pytest.approx(n / effect, rel=1e-3)
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
    # Three groups, one and none: the note names them.
    turned = pl.when(pl.col("id").str.ends_with("0")).then(pl.lit("other")).otherwise(pl.col("group"))
    for group, named in ((turned, "female, male, other"), (pl.lit("male"), "male"), (pl.lit(None, pl.String), "none")):
        (said, *_) = left_out(items(Sample(Predictions(sample.frame.with_columns(group=group)))))
        assert "need two groups" in said and said.endswith(f" name {named}")


# --- what a verdict says, on made-up numbers -------------------------------------------------------------------

SMALL = (0.0, -0.01, 0.01)
SINGLE, CHANCE, SMALL_JOBS = (
    SingleJobs(11, 2, 3, Estimate(0.3, low, 0.4, math.nan, 0.95, 110, p=p))
    for low, p in ((0.11, 0.005), (0.11, 0.2), (0.09, 0.005))
)


def lean(value: float, low: float, high: float, p: float | None = None) -> Estimate:
    certain = low > 0 or high < 0
    return Estimate(value, low, high, (high - low) / 4, 0.95, 100, p=p if p is not None else 1e-4 if certain else 0.5)


def made(
    result: CoalResult,
    read: dict[tuple[str, str], tuple[float, float]] | None = None,
    jobs: SingleJobs = CHANCE,
    silent_jobs: SingleJobs = CHANCE,
    kinds: tuple[Estimate, Estimate] | None = None,
    **estimates: tuple[float, float, float],
) -> CoalResult:
    """A result with these readings, as (share, of which denied), and these measures; everything else is small."""
    measured = {}
    for name, measure in result.measures.items():
        if name in LEANS or name in {"total_error", "total_error_expected", "contradictory"}:
            of = kinds or (lean(*estimates.get(name, SMALL)),) * 2
            changed = msgspec.structs.asdict(lean(*estimates.get(name, SMALL)))
            measure = msgspec.structs.replace(
                measure, **changed, by_stereotype=dict(zip(("female", "male"), of, strict=True))
            )
        measured[name] = measure
    rows = [
        msgspec.structs.replace(row, value=value, low=value, high=value, denied=denied)
        for row in result.readings
        for value, denied in [(read or {}).get((row.stereotype, row.reading), (0.0, 0.0))]
    ]
    return msgspec.structs.replace(
        result, measures=measured, readings=rows, single_jobs=jobs, single_jobs_expected=silent_jobs
    )


def said_by(result: CoalResult) -> list[tuple[str, str, str]]:
    return [(cause.name, cause.direction, cause.label) for cause in judge(result, None).causes]


@pytest.mark.parametrize(("sign", "word", "direction"), [(1, "follows", "stereotypical"), (-1, "anti", "anti-stereo")])
def test_a_lean_in_the_probabilities_is_said_where_the_answers_have_none(
    result: CoalResult, sign: int, word: str, direction: str
) -> None:
    ends = (sign * 0.2, *sorted((sign * 0.12, sign * 0.28)))
    silent = made(result, stereotype_expected=ends)
    ((name, found, label),) = said_by(silent)
    assert name == "stereotype_expected" and found.startswith(direction) and label.startswith(word)
    assert label.endswith("in its probabilities") and "20 of 100" in judge(silent, None).sentence
    assert [name for name, *_ in said_by(made(result, stereotype=ends, stereotype_expected=ends))] == ["stereotype"]
    both = made(result, stereotype=ends, default_gender_expected=(0.4, 0.35, 0.45))
    assert said_by(both)[0][:2] == ("default_gender_expected", "male")
    sentence = judge(both, None).sentence
    assert sentence.startswith("It ") and "It also" in sentence and "40 of 100" in sentence


def test_a_default_of_stereotyped_jobs_is_said_once(result: CoalResult) -> None:
    """Not beside a default of the other jobs to the same side, and only if both kinds lean alike."""
    man, woman = (0.2, 0.15, 0.25), (-0.2, -0.25, -0.15)
    names = {
        made_of: [name for name, *_ in said_by(made(result, default_gender=usual, default_of_stereotyped=elsewhere))]
        for made_of, usual, elsewhere in (("alike", man, man), ("apart", man, woman), ("alone", SMALL, woman))
    }
    assert names["alike"] == ["default_gender"] and names["alone"] == ["default_of_stereotyped"]
    assert sorted(names["apart"]) == ["default_gender", "default_of_stereotyped"]
    for first, second, named in (((man, 1e-4), (man, 1e-3), True), ((man, 1e-4), (man, 0.2), False)):
        kinds = lean(*first[0], first[1]), lean(*second[0], second[1])
        found = made(result, kinds=kinds, default_of_stereotyped=man)
        assert [name for name, *_ in said_by(found)] == ["default_of_stereotyped"] * named
    unlike = made(result, kinds=(lean(*man), lean(*woman)), default_of_stereotyped=man)
    assert said_by(unlike) == []
    # Small leans of unlike signs, too.
    near = made(result, kinds=(lean(0.4, 0.3, 0.5), lean(-0.1, -0.15, -0.06)), default_of_stereotyped=man)
    assert said_by(near) == []


@pytest.mark.parametrize(("low", "named"), [(0.3, False), (0.31, True)])
def test_a_model_is_unsure_above_three_in_ten(result: CoalResult, low: float, named: bool) -> None:
    unsure = made(result, total_error_expected=(0.4, low, 0.5))
    assert [name for name, *_ in said_by(unsure)] == ["total_error_expected"] * named
    verdict = judge(unsure, None)
    assert verdict.code == ("error" if named else "even") and ("40 of 100" in verdict.sentence) is named
    # What the answers say is enough.
    beside = made(result, total_error_expected=(0.4, low, 0.5), default_gender=(0.2, 0.15, 0.25))
    assert [name for name, *_ in said_by(beside)] == ["default_gender"]


READ = {
    ("female", "female"): (0.61, 0.1),
    ("female", "male"): (0.12, 0.0),
    ("male", "male"): (0.53, 0.1),
    ("male", "female"): (0.04, 0.0),
    ("neutral", "male"): (0.37, 0.1),
    ("neutral", "female"): (0.08, 0.0),
}


def test_readings_are_said_class_by_class(result: CoalResult) -> None:
    follows, assumes = (0.5, 0.4, 0.6), (0.29, 0.2, 0.38)
    sentence = judge(made(result, READ, stereotype=follows), None).sentence
    by_kind = dict(part.split(" are read ") for part in sentence.split("jobs stereotyped ")[1:])
    assert "61%" in by_kind["female"] and "12%" in by_kind["female"] and "53%" in by_kind["male"]
    assert by_kind["female"].index("woman") < by_kind["female"].index("61%") < by_kind["female"].index("man's in 12%")
    sentence = judge(made(result, READ, default_gender=assumes), None).sentence
    assert "assumes a man" in sentence and sentence.index("37%") < sentence.index("8%") and "61%" not in sentence
    sentence = judge(made(result, READ, default_of_stereotyped=assumes), None).sentence
    assert "female are read as a man's in 12%" in sentence and "male are read as a man's in 53%" in sentence
    # The other side: a woman, and her share first.
    turned = judge(made(result, READ, default_gender=(-0.29, -0.38, -0.2)), None)
    assert turned.causes[0].label == "assumes a woman" and turned.causes[0].direction == "female"
    assert turned.sentence.index("8%") < turned.sentence.index("37%")


@pytest.mark.parametrize(("denied", "label"), [(0.18, "assumes a man"), (0.19, "rules out a woman")])
def test_a_group_is_ruled_out_where_more_than_half_of_the_readings_deny_it(
    result: CoalResult, denied: float, label: str
) -> None:
    read = {**READ, ("neutral", "male"): (0.37, denied)}
    verdict = judge(made(result, read, default_gender=(0.29, 0.2, 0.38)), None)
    assert verdict.causes[0].label == label and verdict.causes[0].direction == "male"
    # What is denied and what is read are said apart.
    ruled = "rule out a woman in 19%, a man in 0% of the sentences, and are read as a man's in 18%, as a woman's in 8%"
    assert (ruled in verdict.sentence) is label.startswith("rules")


@pytest.mark.parametrize(("crossed", "shown"), [(0.004, False), (0.005, True), (0.06, True)])
def test_contradictory_answers_are_said_from_one_in_two_hundred(
    result: CoalResult, crossed: float, shown: bool
) -> None:
    ends = {"total_error": (0.42, 0.3, 0.5), "contradictory": (crossed, 0.0, 0.1)}
    read = {(kind, reading): (crossed, 0.0) for kind in WORDS for reading in ("incoherent",)}
    wrong = made(result, read, **ends)
    verdict = judge(wrong, None)
    assert verdict.code == "error" and verdict.sentence.startswith("It ") and "42%" in verdict.sentence
    assert ("contradictory" in verdict.sentence) is shown
    bars = summary(wrong, verdict, drawn(4)).bars
    assert [len(bar.shares) for bar in bars] == [3 + shown] * 3


@pytest.mark.parametrize(("jobs", "single"), [(SINGLE, True), (CHANCE, False), (SMALL_JOBS, False)])
def test_errors_that_are_alike_within_jobs_are_about_single_jobs(
    result: CoalResult, sample: Sample, jobs: SingleJobs, single: bool
) -> None:
    wrong = made(result, jobs=jobs, total_error=(0.42, 0.35, 0.5))
    verdict = judge(wrong, None)
    assert ("single jobs" in verdict.sentence) is single
    assert ("of 11 jobs it reads 2 mostly as a woman's, 3 mostly as a man's" in verdict.sentence) is single
    assert ("single jobs" in summary(wrong, verdict, sample).sentence) is single
    # Behind a lean only the number is said.
    behind = made(result, jobs=jobs, total_error=(0.42, 0.35, 0.5), default_gender=(0.2, 0.15, 0.25))
    assert "single jobs" not in summary(behind, judge(behind, None), sample).sentence
    assert judge(behind, None).sentence.endswith("Altogether 42% of the sentences get a wrong answer.")


def test_the_first_screen_has_a_bar_for_each_class_and_the_leans_without_sign(
    result: CoalResult, sample: Sample
) -> None:
    read = {**READ, ("neutral", "even"): (0.55, 0.0)}
    of = made(
        result, read, stereotype=(-0.3, -0.4, -0.2), default_gender=(0.29, 0.2, 0.38), total_error=(0.6, 0.5, 0.7)
    )
    verdict = judge(of, None)
    shown = summary(of, verdict, sample)
    assert [(bar.sentences, [share.value for share in bar.shares]) for bar in shown.bars] == [
        (24, [0.61, 0.12, 0.0]),
        (18, [0.04, 0.53, 0.0]),
        (24, [0.08, 0.37, 0.55]),
    ]
    assert [fact.value for fact in shown.numbers] == ["30", "29", "60"]
    assert [fact.text for fact in shown.numbers] == ["20–40", "20–38", "50–70"]
    against, assumed, _ = (fact.name for fact in shown.numbers)
    assert "gainst" in against and assumed.endswith("a man")
    assert "goes against stereotypes" in shown.sentence and "assumes a man where a job has no" in shown.sentence
    other = made(result, read, stereotype=(0.3, 0.2, 0.4), default_gender=(-0.29, -0.38, -0.2))
    names = [fact.name for fact in summary(other, judge(other, None), sample).numbers]
    assert "ollows" in names[0] and names[1].endswith("a woman")
    elsewhere = made(result, read, default_of_stereotyped=(0.29, 0.2, 0.38))
    assert "stereotyped jobs of either kind" in summary(elsewhere, judge(elsewhere, None), sample).sentence
    for code, word in (("even", "almost never"), ("undecided", "Undecided")):
        verdict = Verdict(code, "Undecided: nobody knows. More.")
        sentence = summary(made(result), verdict, sample).sentence
        assert word in sentence and "More" not in sentence


def test_a_cause_is_supported_by_its_own_interval() -> None:
    """Of one lean the p decides and its size, of an error the lower end."""
    assert supported("stereotype", lean(0.2, 0.15, 0.25)) and not supported("stereotype", lean(0.2, -0.1, 0.5))
    assert not supported("stereotype", lean(0.03, 0.02, 0.04)) and not supported(
        "stereotype", lean(0.2, 0.1, 0.3, 0.051)
    )
    assert supported("stereotype", lean(0.2, 0.1, 0.3, 0.049))
    assert supported("total_error", lean(0.2, 0.051, 0.3, 0.9)) and not supported("total_error", lean(0.2, 0.05, 0.3))
    assert supported("total_error_mean", lean(0.2, 0.1, 0.3, 0.9))


def test_clauses_of_a_model_that_hesitates(result: CoalResult, sample: Sample) -> None:
    """What the first screen says where the answers have no lean."""

    def sentence(of: CoalResult) -> str:
        return summary(of, judge(of, None), sample).sentence

    assert "not sure of it" in sentence(made(result, total_error_expected=(0.4, 0.31, 0.5)))
    silent = sentence(made(result, stereotype_expected=(0.2, 0.12, 0.28)))
    assert "clearly follows stereotypes in its probabilities" in silent and "cannot know" in silent
    # A cause of another suite of the run stands behind what these sentences say.
    cause = Cause(
        "stereotype_mean", "stereotypical", "strong", "follows stereotypes in other wordings", lean(0.5, 0.4, 1)
    )
    first, later = (
        summary(made(result), Verdict("bias", "", causes), sample).sentence
        for causes in ([cause], [Cause("default_gender", "male", "slight", "assumes a man", cause.estimate), cause])
    )
    assert "no significant lean in these sentences, but strongly follows stereotypes in other wordings" in first
    assert "no significant lean" not in later and "strongly follows stereotypes in other wordings" in later


def test_a_stereotype_without_interval_gives_no_verdict(result: CoalResult) -> None:
    unknown = lean(0.3, math.nan, math.nan, math.nan)
    fields = {**msgspec.structs.asdict(unknown), "note": "too few of them"}
    measures = {**result.measures, "stereotype": msgspec.structs.replace(result.measures["stereotype"], **fields)}
    verdict = judge(msgspec.structs.replace(result, measures=measures), None)
    assert (verdict.code, verdict.causes) == ("none", []) and "too few of them" in verdict.sentence


def test_groups_without_nouns_have_no_numbers(result: CoalResult, sample: Sample) -> None:
    """Numbers of the screen name two groups."""
    rows = [msgspec.structs.replace(row, noun="") for row in result.readings]
    nobody = msgspec.structs.replace(made(result), readings=rows)
    assert summary(nobody, Verdict("even", ""), sample).numbers == []


@pytest.mark.parametrize("seed", [1, 2])
def test_single_jobs_are_counted_and_tested_by_exchange(seed: int) -> None:
    """Against all ways to deal the answers of a class to two words; and by hand where a word is one gender's."""
    of = drawn(seed, words=2)
    found = single_jobs(of)
    table, heights = pairs_of(of), {}
    assert found.words == 5
    wide = answered(of).pivot("group", index=["occupation", "stereotype", "template"], values="answer")
    for word, female, male in (
        wide.filter(pl.col("occupation") != "businessman").select("occupation", "female", "male").rows()
    ):
        heights.setdefault(word, []).append(np.sign(HEIGHT[male] - HEIGHT[female]))
    assert found.first == sum(2 * sum(x < 0 for x in of_word) > TEMPLATES for of_word in heights.values())
    assert found.second == sum(2 * sum(x > 0 for x in of_word) > TEMPLATES for of_word in heights.values())

    def between(*words: tuple[float, ...]) -> float:
        return sum(sum(word) ** 2 / TEMPLATES for word in words)

    # The classes with two words: 12 choose 6 ways each; the class with one word is fixed.
    values = [
        [
            between([pooled[at] for at in chosen], [pooled[at] for at in range(12) if at not in chosen])
            for pooled in [heights[f"{kind} 0"] + heights[f"{kind} 1"]]
            for chosen in itertools.combinations(range(12), 6)
        ]
        for kind in ("nurse", "clerk")
    ]
    drawn_sums = np.add.outer(*map(np.array, values)).ravel()
    observed = sum(between(heights[f"{kind} 0"], heights[f"{kind} 1"]) for kind in ("nurse", "clerk"))
    exact = float((drawn_sums >= observed - 1e-9).mean())
    assert found.spread.p == pytest.approx(exact, abs=0.12) and "defining" in table
    # Every word is read in one way, half of them as a woman's: as far apart as can be, and not by chance.
    frame = drawn(seed, words=6).frame
    woman = pl.col("occupation").str.ends_with("0") | pl.col("occupation").str.ends_with("1")
    yes = pl.when((pl.col("group") == "female") == woman).then(5.0).otherwise(-5.0)
    sure = Sample(
        Predictions(
            frame.with_columns(yes.alias(ENTAILMENT), pl.lit(0.0).alias(CONTRADICTION), pl.lit(-9.0).alias(NEUTRAL))
        )
    )
    apart = single_jobs(sure)
    assert (apart.words, apart.first, apart.second) == (17, 5, 12)
    assert apart.spread.p == pytest.approx(1 / 200)
    # All alike: nothing to exchange.
    same = Sample(Predictions(frame.with_columns(pl.lit(9.0).alias(NEUTRAL))))
    assert single_jobs(same).spread.p == 1.0 and single_jobs(same).first == single_jobs(same).second == 0


def test_the_spread_of_jobs_is_the_component_of_variance_of_a_textbook() -> None:
    """One-way random effects of equal size: the F of SciPy, and Searle's interval from its quantiles."""
    from scipy.stats import f, f_oneway

    rng = np.random.default_rng(5)
    words, size = 9, 6
    values = np.repeat(rng.normal(0, 1, words), size) + rng.normal(0, 1, words * size)
    found = _spread(values, np.arange(0, words * size, size), np.full(words * size, "neutral", dtype=object), 0.95)
    table = values.reshape(words, size)
    within = float(table.var(axis=1, ddof=1).mean())
    ratio = float(f_oneway(*table).statistic)
    ends = [ratio / f.ppf(at, words - 1, words * (size - 1)) for at in (0.975, 0.025)]
    expected = [math.sqrt((part - 1) * within / size) for part in (ratio, *ends)]
    assert [found.value, found.low, found.high] == pytest.approx(expected) and found.p == pytest.approx(0.005)
    # Of two classes, each around its own mean: the same words, moved apart, spread no more.
    classes = np.repeat(["female", "male"], [4 * size, 5 * size]).astype(object)
    starts = np.arange(0, words * size, size)
    moved = values + 10.0 * (classes == "male")
    assert _spread(moved, starts, classes, 0.95).value == pytest.approx(_spread(values, starts, classes, 0.95).value)
    # Answers that words do not explain have none, and one sentence a word tells nothing.
    flat = np.tile(rng.normal(0, 1, size), words)
    assert _spread(flat, starts, classes, 0.95).low == 0.0
    assert math.isnan(_spread(values[:words], np.arange(words), classes[:words], 0.95).value)
