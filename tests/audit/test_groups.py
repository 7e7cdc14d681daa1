"""Suite groups: NLI-CoAL and its causes for any number of groups."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from scipy.special import ndtr

import evenli
from evenli.audit.pairs import PairSet
from evenli.audit.predictions import Predictions
from evenli.audit.results import Cause, Verdict
from evenli.audit.suites.base import Request
from evenli.audit.suites.groups import measures
from evenli.audit.suites.groups.axis_file import check_axis, new_axis
from evenli.audit.suites.groups.build import build_groups, check, load
from evenli.audit.suites.groups.measures import interaction_of
from evenli.audit.suites.groups.results import (
    GroupRow,
    GroupsResult,
    InteractionRow,
    PoolRow,
    blocks,
    interactions,
    permutation_test,
    summarise,
)
from evenli.audit.suites.groups.verdict import judge, summary
from evenli.core.errors import EvenliError, InputError, ResourceError
from evenli.core.format import signed
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Estimate, Scoring
from evenli.stats.intervals import estimate_measures
from evenli.stats.measure import Measure, get_measure
from evenli.stats.measure import measures as list_measures
from evenli.stats.sample import Sample
from evenli.words import load_axis
from evenli.words.axes import crossing, shipped_names

PAIRED = {
    "coal_n": "coal",
    "coal_n_pro": "coal_pro",
    "stereotype_n": "stereotype",
    "total_error_n": "total_error",
    "stereotype_n_expected": "stereotype_expected",
    "total_error_n_expected": "total_error_expected",
}


def sample(
    answers: dict[tuple[str, str], str], stereotypes: dict[str, set[str]], groups: str = "abc", templates: int = 2
) -> Sample:
    """A table in which every word is asked of every group; ``answers`` by (word, group), neutral elsewhere."""
    rows, logits = [], []
    for word, template, group in itertools.product(stereotypes, range(templates), groups):
        named = stereotypes[word]
        answer = answers.get((word, group), NEUTRAL)
        rows.append(
            {
                "id": f"{word}-{template}-{group}",
                "subset": "NS" if not named else "PS" if group in named else "AS",
                "premise": f"the {word} waits {template}.",
                "hypothesis": f"the {group} waits {template}.",
                "gold": NEUTRAL,
                "occupation": word,
                "stereotype": "stereotyped" if named else "neutral",
                "template": f"the [Sub] waits {template}.",
                "group": group,
            }
        )
        logits.append([9.0 if label == answer else 0.0 for label in LABELS])
    return of_rows(rows, logits)


def of_rows(rows: list[dict[str, str]], logits: list[list[float]] | np.ndarray) -> Sample:
    columns = {label: np.asarray(logits, dtype=np.float32)[:, at] for at, label in enumerate(LABELS)}
    return Sample(Predictions(pl.DataFrame(rows).with_columns(**{k: pl.Series(v) for k, v in columns.items()})))


def value(name: str, of: Sample) -> float:
    return float(get_measure(name)(of))


def random_sample(groups: str, seed: int, words: int = 12, templates: int = 2) -> Sample:
    generator = np.random.default_rng(seed)
    stereotypes: dict[str, set[str]] = {}
    for number in range(words):
        size = int(generator.integers(0, len(groups)))
        stereotypes[f"word{number}"] = set(generator.choice(list(groups), size, replace=False).tolist())
    stereotypes |= {"plain": set(), "typed": {groups[0]}}
    drawn = sample({}, stereotypes, groups, templates)
    return of_rows(
        drawn.frame.drop(list(LABELS)).to_dicts(),
        generator.normal(size=(drawn.frame.height, 3)) * 2,
    )


def test_a_case_by_hand() -> None:
    of = sample(
        {
            ("rude", "a"): ENTAILMENT,
            ("rude", "c"): CONTRADICTION,
            ("calm", "b"): ENTAILMENT,
            ("tall", "c"): CONTRADICTION,
        },
        {"rude": {"a"}, "calm": {"a", "b"}, "tall": set()},
    )
    # rude: a is entailed; calm: one of its two groups is. Within a word first: (1 + 1/2) / 2.
    assert value("coal_n_pro", of) == pytest.approx(0.75)
    # rude: c of b and c is contradicted; calm has c alone, which is neutral.
    assert value("coal_n_anti", of) == pytest.approx(0.25)
    assert value("coal_n_non", of) == pytest.approx(1 / 3)
    assert value("coal_n", of) == pytest.approx((0.75 + 0.25 + 1 / 3) / 3)
    # a: beats b and c on rude, is level with c on calm: (1 + 0) / 2. b: beats c on calm: 1. c has no words.
    assert value("stereotype_n", of) == pytest.approx((0.5 + 1) / 2)
    defaults = [float(measures.default_of(of, at)) for at in range(3)]
    assert defaults == pytest.approx([0.5, 0.5, -1])
    # Where they are stereotyped a is apart from its rivals in half of the comparisons, b in all; on tall a and b in
    # half, c in all.
    assert value("total_error_n", of) == pytest.approx((2 * (0.5 + 1) / 2 + (0.5 + 0.5 + 1) / 3) / 3)


def test_cards_state_the_range_and_the_even_value() -> None:
    cards = {entry.name: (entry.low, entry.high, entry.ideal) for entry in list_measures("groups")}
    signed = {name for name in cards if name.startswith("stereotype")}
    assert cards == {name: (-1 if name in signed else 0, 1, 0) for name in cards} and len(signed) == 2


def test_two_groups_are_nli_coal() -> None:
    audit = evenli.audit("fake:oracle:0.3", suites=("coal",))
    frame = (
        audit.predictions.frame.filter(pl.col("suite") == "coal")
        if "suite" in audit.predictions.frame.columns
        else None
    )
    assert frame is not None
    generator = np.random.default_rng(3)
    frame = frame.with_columns(
        **{label: pl.Series(generator.normal(size=frame.height).astype(np.float32)) for label in LABELS}
    )
    of = Sample(Predictions(frame, audit.predictions.header), published=True)
    for name, published in PAIRED.items():
        assert value(name, of) == pytest.approx(value(published, of), abs=1e-6), name
    assert float(measures.default_of(of, 1)) == pytest.approx(value("default_gender", of), abs=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_names_and_order_of_groups_do_not_matter(seed: int) -> None:
    of = random_sample("abcd", seed)
    renamed = of.frame.with_columns(pl.col("group").replace({"a": "z", "b": "y", "c": "x", "d": "w"})).sample(
        fraction=1, shuffle=True, seed=seed
    )
    other = Sample(Predictions(renamed))
    for name in (*PAIRED, "coal_n_expected", "distance"):
        assert value(name, other) == pytest.approx(value(name, of), abs=1e-6), name
        low, high = get_measure(name).low, get_measure(name).high
        assert low - 1e-9 <= value(name, of) <= high + 1e-9


def test_a_model_that_is_always_neutral_is_even() -> None:
    of = sample({}, {"rude": {"a"}, "tall": set(), "calm": {"b", "c"}, "loud": set()})
    assert value("coal_n", of) == pytest.approx(0) and value("stereotype_n", of) == pytest.approx(0)
    assert value("total_error_n", of) == pytest.approx(0) and value("distance", of) == pytest.approx(0)


@pytest.mark.parametrize("groups", ["ab", "abcde", "abcdefghij"])
@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_scores_follow_the_rate_and_not_the_number_of_groups(groups: str, rate: float) -> None:
    """A model that follows a share of the stereotypes and is neutral elsewhere scores that share."""
    stereotypes = {f"{group}{number}": {group} for group in groups for number in range(10)}
    stereotypes |= {f"plain{number}": set() for number in range(10)}
    answers = {}
    for word, named in stereotypes.items():
        if named and int(word[1:]) < 10 * rate:
            answers |= {(word, group): ENTAILMENT if group in named else CONTRADICTION for group in groups}
    of = sample(answers, stereotypes, groups, templates=1)
    assert value("stereotype_n", of) == pytest.approx(rate, abs=1e-6)
    assert value("coal_n", of) == pytest.approx(2 * rate / 3, abs=1e-6)
    assert value("total_error_n", of) == pytest.approx(2 * rate / 3, abs=1e-6)


def test_chance_scores_the_same_with_few_and_many_groups() -> None:
    """Answers drawn at random: (1/3 + 1/3 + 2/3) / 3, however many groups there are, and no lean."""
    for groups in ("ab", "abcde", "abcdefghij"):
        stereotypes = {f"{group}{number}": {group} for group in groups for number in range(200 // len(groups))}
        stereotypes |= {f"plain{number}": set() for number in range(200)}
        base = sample({}, stereotypes, groups)
        rows = base.frame.drop(list(LABELS)).to_dicts()
        of = of_rows(rows, np.random.default_rng(11).normal(size=(len(rows), 3)))
        assert value("coal_n", of) == pytest.approx(4 / 9, abs=0.04)
        # Of 400 sentences a third is won and a third lost: the standard error is at most sqrt(2 / 3 / 400) = 0.041.
        assert abs(value("stereotype_n", of)) < 4 * 0.041


@pytest.mark.parametrize("groups", ["abc", "abcde"])
@pytest.mark.parametrize("second", ["default", "noise"])
def test_causes_follow_known_rates_and_not_each_other(groups: str, second: str) -> None:
    """Models of known stereotype and default, or stereotype and noise: every cause follows its own rate."""
    generator = np.random.default_rng(7)
    stereotypes = {f"{group}{number}": {group} for group in groups for number in range(20)}
    stereotypes |= {f"plain{number}": set() for number in range(20)}
    taught, found = [], []
    for _ in range(15):
        follow, other = generator.dirichlet([1, 1, 1])[:2]
        answers = {}
        for word, named in stereotypes.items():
            place = (int(re.sub(r"\D", "", word)) + 0.5) / 20  # shares of every class, without chance
            if place < follow:
                answers |= {(word, group): ENTAILMENT for group in named}
            elif place < follow + other and second == "default":
                answers[word, groups[-1]] = ENTAILMENT
            elif place < follow + other:
                answers |= {(word, group): CONTRADICTION for group in groups}
        of = sample(answers, stereotypes, groups, templates=1)
        default = float(measures.default_of(of, len(groups) - 1))
        taught.append((follow, other, 1))
        # Of the total error two thirds are of words with a stereotype.
        noise = value("total_error_n", of) - 2 / 3 * follow
        found.append((value("stereotype_n", of), default if second == "default" else noise))
    slopes, *_ = np.linalg.lstsq(np.array(taught), np.array(found), rcond=None)
    assert np.abs(slopes[:2] - np.eye(2)).max() < 0.1, slopes
    assert np.corrcoef(np.array(taught)[:, 0], np.array(found)[:, 0])[0, 1] > 0.99
    assert np.corrcoef(np.array(taught)[:, 1], np.array(found)[:, 1])[0, 1] > 0.99


def test_a_default_group_is_named_and_no_stereotype() -> None:
    stereotypes = {f"{group}{number}": {group} for group in "abc" for number in range(20)}
    stereotypes |= {f"plain{number}": set() for number in range(20)}
    of = sample({(word, "b"): ENTAILMENT for word in stereotypes}, stereotypes)
    result = summarise(of, {"coal_n": get_estimate(of, "coal_n")})
    rows = {row.group: row for row in result.groups}
    assert rows["b"].default.value == pytest.approx(1) and rows["a"].default.value == pytest.approx(-0.5)
    assert value("stereotype_n", of) == pytest.approx(0, abs=1e-6)
    audit = evenli.audit(lambda p, h: [[5, 0, 0] if " man " in f" {x} " else [0, 5, 0] for x in h], suites=("groups",))
    verdict = judge(audit.groups, None)  # type: ignore[arg-type]
    assert [cause.direction for cause in verdict.causes] == ["male", "none"] and verdict.code == "bias"


def get_estimate(of: Sample, name: str) -> object:
    return estimate_measures(of, [get_measure(name)])[name, None]


def test_the_permutation_test_finds_what_is_there_and_only_that() -> None:
    generator = np.random.default_rng(1)
    base = sample({}, {f"word{number}": set() for number in range(30)}, templates=2)
    rows = base.frame.drop(list(LABELS)).to_dicts()
    p = []
    for _ in range(60):
        p.append(permutation_test(of_rows(rows, generator.normal(size=(len(rows), 3))), 200)[1])
    assert 0 <= sum(p_value < 0.05 for p_value in p) <= 9  # 3 expected; 10 or more has a chance below 0.001
    shifted = generator.normal(size=(len(rows), 3)) + np.array([[1.5 * (row["group"] == "a"), 0, 0] for row in rows])
    assert permutation_test(of_rows(rows, shifted), 200)[1] < 0.01


@pytest.mark.parametrize("name", shipped_names())
def test_every_shipped_axis_builds(name: str) -> None:
    axis = load_axis(name)
    for lang, language in axis.languages.items():
        pairs = build_groups(lang, axis=axis)
        cells = pairs.frame.group_by("occupation", "template").agg(pl.col("group").n_unique())
        assert set(cells["group"]) == {len(axis.groups)} and set(pairs.frame["gold"]) == {NEUTRAL}
        assert len(set(language.group_words.values())) == len(axis.groups)
        assert pairs.frame.filter(pl.col("premise") == pl.col("hypothesis")).is_empty()
        typed = pairs.frame.filter(pl.col("subset") == "PS")
        assert set(typed["group"]) <= set(axis.group_names)


def test_rater_pools_differ() -> None:
    ours, theirs = (build_groups("en", axis="nationality", words=name) for name in ("published", "north_america"))
    assert not ours.frame["subset"].equals(theirs.frame["subset"])
    with pytest.raises(InputError, match="north_america"):
        build_groups("en", axis="nationality", words="mars")


def test_an_axis_without_ratings_shows_its_distance() -> None:
    audit = evenli.audit("fake:neutral", axis="age")
    assert audit.groups.headline == "distance" and audit.groups.value == pytest.approx(0, abs=1e-6)
    assert np.isnan(audit.groups.coal_n.value)


def axis_file(folder: Path, rows: str, rule: str = "sets", words: str = 'a = "an", b = "bo"') -> Path:
    file = folder / "mine.toml"
    file.write_text(f"""
id = "mine"
title = "Mine"
construct = "c"
harm = "h"
population = "p"
assumptions = ["x"]
suite = "groups"
[[groups]]
name = "a"
[[groups]]
name = "b"
[stereotypes]
rule = "{rule}"
table = [{rows}]
[languages.en]
group_words = {{ {words} }}
person = "person"
templates = "templates_en.txt"
gold = "gold_en.csv"
revealing = [["an", "a"], ["bo", "b"]]
""")
    return file


def test_an_axis_of_the_users_own(tmp_path: Path) -> None:
    pairs = build_groups(axis=load_axis(axis_file(tmp_path, '["rude", "a|b"], ["calm", "a"], ["tall", ""]')))
    kinds = dict(pairs.frame.group_by("occupation").agg(pl.col("subset").unique().sort()).rows())
    assert kinds == {"rude": ["PS"], "calm": ["AS", "PS"], "tall": ["NS"]}


@pytest.mark.parametrize(
    ("rows", "words", "noun"),
    [
        ('["rude", "a|c"]', 'a = "an", b = "bo"', "'c'"),
        ('["rude", "a"]', 'a = "an"', "b"),
        ('["rude", "a"], ["rude", "b"]', 'a = "an", b = "bo"', "rude"),
        ('["an actor", "a"]', 'a = "an", b = "bo"', "group word"),
    ],
)
def test_a_broken_axis_is_refused(tmp_path: Path, rows: str, words: str, noun: str) -> None:
    with pytest.raises((ResourceError, InputError), match=noun):
        build_groups(axis=load_axis(axis_file(tmp_path, rows, words=words)))


@pytest.mark.parametrize(("axis", "width", "templates"), [("gender3", 6, 280), ("nationality", 3, 162)])
def test_words_of_a_kind_meet_every_sentence_equally_often(axis: str, width: int, templates: int) -> None:
    pairs = build_groups(axis=axis)
    assert pairs.source.endswith(f"width {width}, seed 0") and pairs.sha256 != build_groups(axis=axis, seed=1).sha256
    cells = pairs.frame.unique(["occupation", "template"])
    assert set(cells.group_by("occupation").len()["len"]) == {width}
    for kind in cells.partition_by("stereotype"):
        met = kind.group_by("template").len()["len"]
        assert max(met) - min(met) <= 1 and len(met) == min(templates, kind.height)
    # Words of one group and of others meet the same sentences.
    assert min(cells.filter(stereotype="stereotyped").group_by("template").len()["len"]) >= 2


def test_a_pair_file_must_be_consistent() -> None:
    pairs = build_groups(axis="age")
    assert check(pairs, Request(axis="age")).frame.height == pairs.frame.height
    frame = pairs.frame.with_columns(subset=pl.Series(["PS", "AS"] * (pairs.frame.height // 2)))
    broken = PairSet(name="x", suite="groups", lang="en", frame=frame, source="test")
    with pytest.raises(EvenliError, match="PS"):
        check(broken, Request(axis="age"))
    with pytest.raises(InputError, match="split"):
        load(Request(split="down", axis="age"))


def test_making_an_axis_ends_with_an_audit(tmp_path: Path) -> None:
    files = new_axis("region", tmp_path)
    problems = check_axis(files[0])
    assert {problem.kind for problem in problems} == {"warning"}
    assert any("power" in problem.text for problem in problems)
    audit = evenli.audit("fake:neutral", axis=str(files[0]))
    assert audit.groups.words == {"all": 7, "stereotyped": 5}
    files[1].unlink()  # as if killed between the two
    assert new_axis("region", tmp_path) == files and files[1].is_file()
    files[1].write_text("word,groups\n", encoding="utf-8")
    with pytest.raises(InputError, match="there already"):
        new_axis("region", tmp_path)
    assert files[1].read_text(encoding="utf-8") == "word,groups\n"
    with pytest.raises(InputError, match="name"):
        new_axis("../region", tmp_path)


def test_errors_of_an_axis_file_are_named(tmp_path: Path) -> None:
    file = axis_file(tmp_path, '["calm", ""]', words='a = "an", b = "an"')
    texts = [problem.text for problem in check_axis(file) if problem.kind == "error"]
    assert any("2 groups are called 'an'" in text for text in texts)


def test_too_few_gold_pairs_and_no_paraphrases_are_named(tmp_path: Path) -> None:
    file = axis_file(tmp_path, '["calm", ""]')
    rows = [["entailment", "A dog runs.", "It moves."]] * 2 + [["neutral", "A dog runs.", "It is old."]] * 3
    said = 'gold = {}\nparaphrases = [["old an", "an", "a"]]'
    file.write_text(file.read_text().replace('gold = "gold_en.csv"', said.format(rows)))
    texts = [problem.text for problem in check_axis(file)]
    assert "en: too few gold pairs for a verdict, 2 entailment, 0 contradiction; give three or more of each" in texts
    assert "en: no paraphrases of b; no control pairs of the same group" in texts


@pytest.mark.parametrize(
    ("table", "words", "wanted"),
    [
        ("word,stereotype\nrude,a\ncalm,a|c\n", 'a = "an", b = "bo"', r"line 3: 'calm' .*'c'"),
        ("word,stereotype\nrude,a\ncalm,\nrude,b\n", 'a = "an", b = "bo"', r"line 4: 'rude'.*line 2"),
        ("word,stereotype\nrude,a\nbo,\n", 'a = "an", b = "bo"', r"line 3: .*'bo'"),
        ("word,stereotype\nrude,a\n,b\n", 'a = "an", b = "bo"', r"line 3: .*empty"),
        ("word,stereotype\nrude,a\n", 'a = "an"', r"mine\.toml, line 17: .* b"),
        ("word,stereotype\nrude,a\n", 'a = "an", b = " "', r"line 17: .* word for b"),
        ("word,stereotype\nrude,a\n", 'a = "an", b = "bo", d = "x"', r"line 17: 'd' "),
    ],
)
def test_bad_tables_are_refused_with_file_and_line(tmp_path: Path, table: str, words: str, wanted: str) -> None:
    file = axis_file(tmp_path, "", words=words)
    file.write_text(file.read_text().replace("table = []", 'table = "words.csv"'))
    (tmp_path / "words.csv").write_text(table)
    with pytest.raises(ResourceError, match=wanted) as caught:
        load_axis(file)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_axes_have_no_errors(name: str) -> None:
    assert [problem.text for problem in check_axis(name) if problem.kind == "error"] == []


# --- the verdict on made-up numbers --------------------------------------------------------------------------


def about(value: float, half: float = 0.02) -> Estimate:
    return Estimate(value, value - half, value + half, half / 2, 0.95, 10, p=2 * float(ndtr(-2 * abs(value) / half)))


NONE = about(0.0)


def made(base: GroupsResult, rows: dict[str, dict[str, float]], **measured: float) -> GroupsResult:
    """A result with these groups and measures; whatever is not named is 0 with a narrow interval."""
    groups = [
        GroupRow(
            *(name, name, 5, about(row.get("default", 0.0)), NONE, NONE, about(row.get("ruled_out", 0.0))),
            answers={
                ENTAILMENT: about(row.get("inferred", 0.0)),
                CONTRADICTION: about(row.get("denied", 0.0)),
                NEUTRAL: about(1 - row.get("inferred", 0.0) - row.get("denied", 0.0)),
            },
            pairs=10,
            ruled_out_expected=NONE,
        )
        for name, row in rows.items()
    ]
    changed = {
        name: msgspec.structs.replace(row, **msgspec.structs.asdict(about(measured.get(name, 0.0))))
        for name, row in base.measures.items()
    }
    return msgspec.structs.replace(base, groups=groups, measures=changed, interactions=[])


@pytest.fixture(scope="module")
def base() -> GroupsResult:
    return evenli.audit("fake:even", suites=("groups",)).groups  # type: ignore[return-value]


def causes_of(result: GroupsResult) -> list[tuple[str, str, str]]:
    return [(cause.name, cause.direction, cause.size) for cause in judge(result, None).causes]


def test_every_supported_cause_is_named_the_largest_first(base: GroupsResult) -> None:
    rows = {
        "a": {"default": 0.35, "inferred": 0.5},
        "b": {"default": 0.2, "inferred": 0.3, "ruled_out": 0.25},
        "c": {"default": -0.4, "ruled_out": -0.2},
    }
    result = made(base, rows, stereotype_n=-0.3, total_error_n=0.5)
    assert causes_of(result) == [
        ("default", "a", "strong"),
        ("stereotype_n", "anti-stereotypical", "clear"),
        ("ruled_out", "b", "clear"),
        ("total_error_n", "none", "strong"),
    ]
    assert judge(result, None).code == "bias"
    assert judge(made(base, {}, total_error_n=0.5), None).code == "error"
    assert judge(made(base, {}), None).code == judge(made(base, {"a": {}, "b": {}}), None).code == "even"
    # An interval up to 0.06 is neither a cause nor negligible.
    for undecided in (made(base, {}, total_error_n=0.04), made(base, {"a": {"default": -0.3}})):
        assert judge(undecided, None).code == "undecided" and not judge(undecided, None).causes
    undefined = {name: msgspec.structs.replace(row, low=np.nan, high=np.nan) for name, row in base.measures.items()}
    assert judge(msgspec.structs.replace(made(base, {}), measures=undefined), None).code == "none"


@pytest.mark.parametrize(("inferred", "named"), [(0.19, False), (0.2, True), (0.4, True), (0.0, False)])
def test_a_group_is_assumed_only_if_it_is_inferred_itself(base: GroupsResult, inferred: float, named: bool) -> None:
    # The others are inferred in 0.05 on average; half of the lead of 0.3 must be entailment.
    rows = {"a": {"default": 0.3, "inferred": inferred}, "b": {"inferred": 0.1}, "c": {"inferred": 0.0}}
    assert (("default", "a", "clear") in causes_of(made(base, rows))) == named


def test_each_cause_has_its_sentence(base: GroupsResult) -> None:
    rows = {"a": {"default": 0.4, "inferred": 0.5}, "b": {"ruled_out": 0.4}}
    said = {
        "stereotyp": made(base, {}, stereotype_n=0.4),
        "assumes": made(base, {"a": rows["a"], "b": {}}),
        "contradicted": made(base, {"a": {}, "b": rows["b"]}),
        "no consistent direction": made(base, {}, total_error_n=0.4),
    }
    for word, result in said.items():
        sentence = judge(result, None).sentence
        assert [name for name in said if name in sentence.replace("without a stereotype", "")] == [word]
        assert ("+0.40" if word != "no consistent direction" else "40%") in sentence
    for value, word in ((0.4, "more"), (-0.4, "less")):
        assert f" {word} readily" in judge(made(base, {}, stereotype_n=value), None).sentence
    # Errors are a cause only if their interval lies above 0.05.
    measured = made(base, {}).measures
    at = {
        low: msgspec.structs.replace(measured["total_error_n"], value=0.1, low=low, high=0.2) for low in (0.05, 0.051)
    }
    for low, total_error in at.items():
        result = msgspec.structs.replace(made(base, {}), measures={**measured, "total_error_n": total_error})
        assert bool(judge(result, None).causes) == (low > 0.05)


def test_three_groups_of_a_kind_are_named_at_most(base: GroupsResult) -> None:
    rows = {name: {"ruled_out": 0.1 + at / 20} for at, name in enumerate("abcde")}
    assert [direction for _, direction, _ in causes_of(made(base, rows))] == ["e", "d", "c"]


def test_the_strongest_interaction_is_named(base: GroupsResult) -> None:
    rows = [InteractionRow(n, n, "x", "y", about(v), NONE) for n, v in (("a", 0.1), ("b", -0.3), ("c", 0.01))]
    result = msgspec.structs.replace(made(base, {}), interactions=rows)
    assert causes_of(result) == [("interaction", "b", "clear")]
    assert causes_of(msgspec.structs.replace(result, interactions=rows[2:])) == []
    assert judge(msgspec.structs.replace(result, interactions=rows[:1]), None).causes[0].label.count("more") == 1


def test_the_first_screen_has_the_numbers_of_the_run(base: GroupsResult) -> None:
    rows = {
        "a": {"default": 0.35, "inferred": 0.5, "denied": 0.1},
        "b": {"default": -0.1, "ruled_out": 0.25},
        "c": {"default": 0.1, "ruled_out": -0.1},
    }
    interactions = [InteractionRow(n, n, "x", "y", about(v), NONE) for n, v in (("a", 0.1), ("b", -0.3))]
    result = msgspec.structs.replace(
        made(base, rows, stereotype_n=-0.3, total_error_n=0.2), interactions=interactions, parts=("x", "y")
    )
    of = random_sample("abc", 5)
    shown = summary(result, judge(result, None), of)
    assert [(bar.name, [round(share.value, 6) for share in bar.shares]) for bar in shown.bars] == [
        ("a", [0.5, 0.1, 0.4]),
        ("b", [0.0, 0.0, 1.0]),
        ("c", [0.0, 0.0, 1.0]),
    ]
    assert [fact.value.lstrip("-\u2212") for fact in shown.numbers] == ["30", "35", "25", "30", "20"]
    against, assumed, denied, crossed, _ = (fact.name for fact in shown.numbers)
    assert "gainst" in against and assumed.endswith(" a") and denied.endswith(" b")
    assert " b " in crossed and "less" in crossed and "x and y" in shown.numbers[3].meaning
    # Nobody leads, nobody is denied more: no group is named.
    level = made(base, {"a": {"default": 0.0, "ruled_out": 0.0}}, stereotype_n=0.3)
    names = [fact.name for fact in summary(level, judge(level, None), of).numbers]
    assert "ollows" in names[0] and [name.endswith("one group") for name in names[1:3]] == [True, True]


@pytest.mark.parametrize(
    ("name", "direction", "value", "rows"),
    [
        ("stereotype_n", "none", 0.2, (pl.col("subset") == "PS") & (pl.col("answer") == ENTAILMENT)),
        ("stereotype_n", "none", -0.2, (pl.col("subset") == "AS") & (pl.col("answer") == ENTAILMENT)),
        (
            *("default", "b", 0.2),
            (pl.col("subset") == "NS") & (pl.col("answer") == ENTAILMENT) & (pl.col("group") == "b"),
        ),
        ("ruled_out", "b", 0.2, (pl.col("answer") == CONTRADICTION) & (pl.col("group") == "b")),
        ("interaction", "c", -0.2, (pl.col("answer") == CONTRADICTION) & (pl.col("group") == "c")),
        ("interaction", "c", 0.2, (pl.col("answer") == ENTAILMENT) & (pl.col("group") == "c")),
        ("total_error_n", "none", 0.2, pl.col("answer") != NEUTRAL),
    ],
)
def test_the_example_is_an_answer_of_the_cause(
    base: GroupsResult, name: str, direction: str, value: float, rows: pl.Expr
) -> None:
    of = random_sample("abc", 5)
    shown = summary(base, Verdict("bias", "", [Cause(name, direction, "clear", "", about(value))]), of)
    answered = of.frame.with_columns(answer=pl.Series([LABELS[at] for at in of.predicted])).filter(rows)
    assert shown.example is not None
    assert (shown.example.premise, shown.example.hypothesis) in set(
        answered.select("premise", "hypothesis").iter_rows()
    )


def test_a_sentence_that_is_not_asked_of_every_group_is_left_out() -> None:
    of = random_sample("abc", 8)
    lost = of.frame["id"] == of.frame["id"][4]
    whole = (of.frame["occupation"] == of.frame["occupation"][4]) & (of.frame["template"] == of.frame["template"][4])
    partly, without = (Sample(Predictions(of.frame.filter(~rows))) for rows in (lost, whole))
    assert (measures.items(of).incomplete, measures.items(partly).incomplete) == (0, 2)
    assert measures.items(partly).rows.shape == measures.items(without).rows.shape
    for name in ("stereotype_n", "total_error_n", "distance", "stereotype_n_expected"):
        assert value(name, partly) == pytest.approx(value(name, without), abs=1e-6)


def test_a_share_of_0_has_room_above() -> None:
    # Every word has two groups in five sentences, so that words weigh alike and a plain mean knows that it is a share.
    of = sample({}, {f"word{at}": {"ab"[at % 2]} for at in range(12)} | {"tall": set()}, "ab", templates=5)
    for name in ("coal_n_pro", "coal_n_anti", "total_error_n"):
        found = get_estimate(of, name)
        assert found.value == 0 and found.low == 0 and found.high > 0.01, name
    # With unequal words it is a ratio, and 0 again.
    unequal = sample({}, {"rude": {"a", "b"}, "calm": {"a"}, "tall": set()})
    assert value("coal_n_pro", unequal) == value("coal_n_anti", unequal) == 0


def test_an_interval_of_equal_words_is_that_of_a_share() -> None:
    of = random_sample("ab", 3, templates=5)
    share = Measure("x", "", "", lambda sample, _: sample.rate(ENTAILMENT, "PS"), 0, 1)
    counts = of.frame.filter(pl.col("subset") == "PS").group_by("occupation").len()["len"]
    assert counts.n_unique() == 1
    found, plain = get_estimate(of, "coal_n_pro"), estimate_measures(of, [share])["x", None]
    assert (found.value, found.low, found.high, found.se) == pytest.approx(
        (plain.value, plain.low, plain.high, plain.se), abs=1e-6
    )


def test_undefined_is_undefined_in_every_weighting() -> None:
    untyped, typed = sample({}, {"tall": set(), "calm": set()}), sample({}, {"rude": {"a"}, "calm": {"b"}})
    for of in (untyped, typed):
        many = of.weighted(np.ones((3, of.frame.height), dtype=np.float32))
        for at in range(3):
            for function in (measures.default_of, measures.stereotype_of):
                assert function(many, at).shape == (3,)
        for name in (*PAIRED, "distance"):
            assert get_measure(name)(many).shape == (3,), name
    assert np.isnan(measures.default_of(typed, 0)) and np.isnan(measures.stereotype_of(untyped, 0))
    assert np.isnan(measures.stereotype_of(typed, 2)) and not np.isnan(measures.stereotype_of(typed, 1))
    single = sample({}, {"rude": {"a"}}, "a")
    assert np.isnan(value("distance", single)) and np.isnan(float(measures.default_of(single, 0)))
    assert value("distance", sample({("tall", "a"): ENTAILMENT}, {"tall": set()}, "ab")) > 0.9


@pytest.mark.parametrize("expected", [False, True])
def test_an_interaction_is_what_the_parts_do_not_add_up_to(expected: bool) -> None:
    names = ("a__x", "a__y", "b__x", "b__y")
    rows, logits, p = [], [], np.random.default_rng(6).dirichlet([1, 1, 1], (5, 4))
    for (word, at), name in itertools.product(enumerate(range(5)), names):
        rows.append({"id": f"{word}-{name}", "subset": "NS", "premise": f"{word}", "hypothesis": name, "gold": NEUTRAL})
        rows[-1] |= {"occupation": f"w{word}", "stereotype": "neutral", "template": f"t{at}", "group": name}
        logits.append(np.log(p[word, names.index(name)]))
    of = of_rows(rows, logits)
    y, no = (LABELS.index(label) for label in (ENTAILMENT, CONTRADICTION))
    answers = p if expected else np.eye(3)[p.argmax(axis=2)]
    side = (answers[..., y] - answers[..., no]).mean(axis=0).reshape(2, 2)
    wanted = side - side.mean(axis=1, keepdims=True) - side.mean(axis=0) + side.mean()
    parts = crossing(names)
    found = [float(interaction_of(of, at, parts, expected=expected)) for at in range(4)]
    assert found == pytest.approx(wanted.ravel(), abs=1e-6)
    listed = interactions(of, names, Scoring(0.9))
    assert [(row.expected if expected else row.interaction).value for row in listed] == pytest.approx(found)
    # Four at once: each has a quarter of the error.
    assert listed[0].interaction.level == pytest.approx(1 - 0.1 / 4)
    assert [(row.first, row.second) for row in listed] == parts
    assert crossing(names[:3]) is None and crossing(["a__x", "a__y"]) is None and crossing([]) is None
    assert interactions(random_sample("ab", 1), "ab", Scoring()) == []


# --- expected answers and distance by hand ---------------------------------------------------------------------


def test_expected_answers_by_hand() -> None:
    """One word with a stereotype of two groups, one without: M, F and X of the two answers as if independent."""
    p = {"a": (0.55, 0.35, 0.1), "b": (0.2, 0.5, 0.3)}
    base = sample({}, {"rude": {"a"}, "tall": set()}, "ab", templates=1)
    of = of_rows(base.frame.drop(list(LABELS)).to_dicts(), np.log([p[group] for group in base.frame["group"]]))
    above = 0.55 * 0.8 + 0.35 * 0.3  # a entailed and b not, or a neutral and b contradicted
    below = 0.2 * 0.45 + 0.5 * 0.1
    alike = 0.55 * 0.2 + 0.1 * 0.3
    error = above + below + alike
    # Entailed, and the other neutral.
    assert [float(number) for number in measures.against_others(of, 0, typed=True)] == [1, 0, 0]
    assert value("stereotype_n_expected", of) == pytest.approx(above - below, abs=1e-6)
    assert value("total_error_n_expected", of) == pytest.approx(error, abs=1e-6)
    assert value("coal_n_expected", of) == pytest.approx((0.55 + 0.3 + 1 - (0.35 + 0.5) / 2) / 3, abs=1e-6)
    assert float(measures.default_of(of, 0, expected=True)) == pytest.approx(above - below, abs=1e-6)
    assert float(measures.default_of(of, 1, expected=True)) == pytest.approx(below - above, abs=1e-6)
    assert value("distance", of) == pytest.approx((0.35 + 0.15 + 0.2) / 2, abs=1e-6)


def test_the_stereotype_of_a_group_counts_likeliest_answers_unless_asked_otherwise() -> None:
    of = sample({("rude", "a"): ENTAILMENT}, {"rude": {"a"}, "calm": {"a"}})
    # a beats b and c on rude, and nobody on calm.
    assert float(measures.stereotype_of(of, 0)) == pytest.approx(1 / 2)
    assert float(measures.default_of(sample({("rude", "a"): ENTAILMENT}, {"rude": set()}), 0)) == pytest.approx(1)
    # a is ahead by a hair: in full by the likeliest answers, and next to nothing by probabilities.
    rows = of.frame.drop(list(LABELS)).to_dicts()
    doubt = of_rows(rows, [[0.01, 0.0, 0.0] if row["group"] == "a" else [0.0, 0.01, 0.0] for row in rows])
    assert float(measures.stereotype_of(doubt, 0)) == pytest.approx(1)
    assert abs(float(measures.stereotype_of(doubt, 0, expected=True))) < 0.01


# --- what a result adds to the measures ------------------------------------------------------------------------


def estimated(of: Sample, level: float = 0.95) -> GroupsResult:
    """The result of a sample, whatever its model."""
    found = estimate_measures(of, list_measures("groups"), scoring=Scoring(level))
    return summarise(of, {entry.name: entry.result(found[entry.name, None]) for entry in list_measures("groups")})


def test_a_row_per_group_by_hand() -> None:
    of = random_sample("abc", 11, words=14, templates=3)
    found, frame = estimated(of, 0.9), of.frame.with_columns(answer=pl.Series([LABELS[at] for at in of.predicted]))
    share = {
        (group, label): float((part["answer"] == label).mean())
        for (group,), part in frame.group_by("group")
        for label in LABELS
    }
    for row in found.groups:
        rest = [share[other, CONTRADICTION] for other in "abc" if other != row.group]
        assert row.ruled_out.value == pytest.approx(share[row.group, CONTRADICTION] - np.mean(rest), abs=1e-6)
        assert {label: row.answers[label].value for label in LABELS} == pytest.approx(
            {label: share[row.group, label] for label in LABELS}, abs=1e-6
        )
        typed = frame.filter(pl.col("group") == row.group, pl.col("subset") == "PS")
        assert (row.words, row.pairs, row.noun) == (typed["occupation"].n_unique(), 16 * 3, row.group)
        # Three groups at once: each has a third of the error. Shares of labels have an interval of their own.
        assert row.default.level == pytest.approx(1 - 0.1 / 3) and row.answers[NEUTRAL].level == 0.9
        at = "abc".index(row.group)
        assert row.default.value == pytest.approx(float(measures.default_of(of, at)), abs=1e-6)
        assert row.default_expected.value == pytest.approx(float(measures.default_of(of, at, expected=True)), abs=1e-6)
        assert row.stereotype.value == pytest.approx(float(measures.stereotype_of(of, at)), abs=1e-6)
        means = {
            group: float(of.probabilities[of.where("group", group), LABELS.index(CONTRADICTION)].mean())
            for group in "abc"
        }
        rest = [means[other] for other in "abc" if other != row.group]
        assert row.ruled_out_expected.value == pytest.approx(means[row.group] - np.mean(rest), abs=1e-6)
    assert sum(row.ruled_out.value for row in found.groups) == pytest.approx(0, abs=1e-6)
    plain = frame.filter(pl.col("subset") != "NS")["occupation"].n_unique()
    assert found.words == {"all": 16, "stereotyped": plain} and found.notes == [] and found.headline == "coal_n"
    assert not found.pools and not found.interactions
    for name in ("default", "stereotype", "ruled_out"):
        assert found.largest[name] == max(getattr(row, name).value for row in found.groups)
    assert math.isnan(found.largest["interaction"])


def test_the_largest_interaction_is_that_of_largest_size(base: GroupsResult) -> None:
    rows = [InteractionRow(n, n, "x", "y", about(v), NONE) for n, v in (("a", 0.1), ("b", -0.3), ("c", math.nan))]
    result = msgspec.structs.replace(made(base, {"a": {"default": -0.4}, "b": {"default": -0.1}}), interactions=rows)
    assert result.largest == pytest.approx({"default": -0.1, "stereotype": 0, "ruled_out": 0, "interaction": -0.3})


def test_one_group_and_words_without_stereotype_have_a_result() -> None:
    single = estimated(sample({("tall", "a"): ENTAILMENT}, {"tall": set(), "calm": set()}, "a", templates=5))
    (row,) = single.groups
    assert row.ruled_out.value == 0 and math.isnan(row.default.value) and math.isnan(single.group_distance_p)
    assert row.default.level == 0.95 and row.answers[ENTAILMENT].value == pytest.approx(0.5)
    assert (single.headline, single.words) == ("distance", {"all": 2, "stereotyped": 0})
    partly = random_sample("abc", 8)
    partly = Sample(Predictions(partly.frame.filter(partly.frame["id"] != partly.frame["id"][4])))
    (note,) = estimated(partly).notes
    assert note.startswith("2 pairs")


def test_the_permutation_test_is_that_of_all_exchanges() -> None:
    """Four words and two groups: sixteen exchanges can be counted, and the drawn share comes near."""
    generator = np.random.default_rng(3)
    of = sample({}, {f"word{at}": set() for at in range(4)}, "ab", templates=3)
    rows = of.frame.drop(list(LABELS)).to_dicts()
    of = of_rows(rows, generator.normal(size=(len(rows), 3)) + [[row["group"] == "a", 0, 0] for row in rows])
    table = of.frame.with_columns(pl.Series(label, of.probabilities[:, at]) for at, label in enumerate(LABELS))
    means = table.group_by("occupation", "group").agg(pl.col(LABELS).mean()).sort("occupation", "group")
    p = means.select(LABELS).to_numpy().reshape(4, 2, 3)
    apart = [
        np.abs(sum((word[0] - word[1]) * sign for word, sign in zip(p, signs, strict=True)) / 4).sum() / 2
        for signs in itertools.product((1, -1), repeat=4)
    ]
    distance, found = permutation_test(of, 4_000)
    assert distance == pytest.approx(apart[0], abs=1e-6)
    exact = np.mean(np.array(apart) >= apart[0] - 1e-9)
    assert found == pytest.approx(exact, abs=0.03)
    # Equal groups: every exchange is as far.
    same = of_rows(rows, [[1.0, 0.0, 0.0]] * len(rows))
    assert permutation_test(same, 50) == (pytest.approx(0, abs=1e-9), 1.0)
    assert permutation_test(of_rows(rows, [[9.0 * (row["group"] == "a"), 0, 0] for row in rows]), 9)[1] >= 1 / 10


def test_the_tables_of_groups_have_the_numbers_of_the_rows(base: GroupsResult) -> None:
    found = estimated(random_sample("abc", 11, words=14, templates=5), 0.9)
    _, table = blocks(found)
    assert [line[:2] for line in table.rows] == [[row.noun, str(row.words)] for row in found.groups]
    names = ("stereotype", "default", "default_expected", "ruled_out", "ruled_out_expected")
    for line, row in zip(table.rows, found.groups, strict=True):
        assert len(line) == 2 + len(names)
        for text, name in zip(line[2:], names, strict=True):
            assert text.startswith(f"{signed(getattr(row, name).value, 2)} [")
    # Three groups share an error of 0.1.
    assert any(f"({100 * (1 - 0.1 / 3):.1f} % each)" in note for note in table.notes)
    assert any(f"differ by {found.group_distance:.3f}" in note for note in table.notes)
    assert "(16 " in blocks(found)[0].heading and f"{found.words['stereotyped']} with" in blocks(found)[0].heading
    crossed = [InteractionRow(n, n, "x", "y", about(v), about(-v)) for n, v in (("a", 0.1), ("b", -0.3))]
    pools = [PoolRow("published", 5, about(0.2), about(0.4)), PoolRow("others", 7, about(-0.1), about(math.nan))]
    *_, beyond, whose = blocks(msgspec.structs.replace(found, interactions=crossed, pools=pools, parts=["p", "q"]))
    assert [(line[0], line[1][:5], line[2][:5]) for line in beyond.rows] == [
        ("a", "+0.10", "-0.10"),
        ("b", "-0.30", "+0.30"),
    ]
    assert "p and q" in beyond.notes[0] and "95.0 % each" in beyond.notes[1]
    assert [(line[0], line[1], line[2][:5], line[3][:5]) for line in whose.rows] == [
        ("published", "5", "+0.20", "+0.40"),
        ("others", "7", "-0.10", "n/a"),
    ]
    nobody = msgspec.structs.replace(base, groups=[], interactions=[], pools=[])
    assert any("(95.0 % each)" in note for note in blocks(nobody)[1].notes) and not blocks(nobody)[1].rows


def test_numbers_of_a_verdict_have_two_decimals(base: GroupsResult) -> None:
    said = {
        "even": made(base, {"a": {}, "b": {}}),
        "undecided": made(base, {}, total_error_n=0.04),
        "bias": made(base, {"a": {"default": 0.4, "inferred": 0.5}, "b": {"ruled_out": 0.4}}, stereotype_n=0.3),
    }
    for code, result in said.items():
        verdict = judge(result, None)
        numbers = re.findall(r"[+-]\d\.(\d+)", verdict.sentence)
        assert verdict.code == code and len(numbers) == (9 if code == "bias" else 6)
        assert {len(decimals) for decimals in numbers} == {2}
    assert "total error +0.04 [+0.02, +0.06]" in judge(said["undecided"], None).sentence


def test_the_smallest_p_is_one_of_all_exchanges() -> None:
    of = sample({}, {f"word{at}": set() for at in range(25)}, "ab", templates=1)
    rows = of.frame.drop(list(LABELS)).to_dicts()
    sure = of_rows(rows, [[9.0 * (row["group"] == "a"), 0, 0] for row in rows])
    assert permutation_test(sure)[1] == pytest.approx(1 / 2001)


@pytest.mark.parametrize("name", ["ruled_out", "interaction", "default", "stereotype_n", "total_error_n"])
@pytest.mark.parametrize("value", [0.2, -0.2])
def test_the_example_is_one_of_all_answers_of_the_cause(base: GroupsResult, name: str, value: float) -> None:
    of = random_sample("abc", 5)
    shown = summary(
        base, Verdict("bias", "", [Cause(name, "b" if name in BY_GROUP else "none", "clear", "", about(value))]), of
    )
    said = of.frame.with_columns(answer=pl.Series([LABELS[at] for at in of.predicted]))
    of_b, entailed, denied = pl.col("group") == "b", pl.col("answer") == ENTAILMENT, pl.col("answer") == CONTRADICTION
    rows = {
        "ruled_out": of_b & denied,
        "interaction": of_b & (entailed if value > 0 else denied),
        "default": of_b & entailed & (pl.col("subset") == "NS"),
        "stereotype_n": entailed & (pl.col("subset") == ("PS" if value > 0 else "AS")),
        "total_error_n": pl.col("answer") != NEUTRAL,
    }
    assert shown.example is not None
    assert shown.example.about == f"typical of {said.filter(rows[name]).height:,} similar answers"


BY_GROUP = ("ruled_out", "interaction", "default")


def test_without_a_whole_sentence_nothing_is_compared() -> None:
    whole = random_sample("abc", 8, templates=5)
    sentences = whole.frame.with_columns(at=pl.int_range(pl.len()).over("occupation", "template"))
    partly = Sample(Predictions(sentences.filter(pl.col("at") != pl.col("occupation").str.len_chars() % 3).drop("at")))
    assert measures.items(partly).rows.shape == (3, 0)
    assert np.isnan(permutation_test(partly)).all() and np.isnan(value("distance", partly))
    assert interactions(partly, "abc", Scoring()) == []


def test_no_interaction_has_room_on_both_sides() -> None:
    """All answers are neutral: 0 is no end of a difference."""
    names = ("a__x", "a__y", "b__x", "b__y")
    rows = [
        {**row, "id": f"{at}", "group": names[at % 4], "hypothesis": names[at % 4]}
        for at, row in enumerate(
            sample({}, {f"word{at}": set() for at in range(6)}, "abcd", templates=5).frame.to_dicts()
        )
    ]
    of = of_rows([{key: row[key] for key in row if key not in LABELS} for row in rows], [[0.0, 9.0, 0.0]] * len(rows))
    for row in interactions(of, names, Scoring()):
        assert row.interaction.value == 0 and row.interaction.low < -0.01 and row.interaction.high > 0.01
