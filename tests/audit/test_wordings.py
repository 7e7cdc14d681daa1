"""The same question in other words: tables, design, gold labels, stability, and models of known bias."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from rich.console import Console
from scipy.stats import betabinom, binom

import evenli
from evenli.audit.audit import Audit, load_run, robustness
from evenli.audit.compare import compare_runs
from evenli.audit.gate.expressions import fields as gate_fields
from evenli.audit.models.callables import FakeModel, fake_model
from evenli.audit.predictions import Predictions
from evenli.audit.report.terminal import show_results, wording_line
from evenli.audit.results import Verdict
from evenli.audit.suites.base import Request, get_suite, load_suite
from evenli.audit.suites.checks import control_pairs, gold_pairs, is_known
from evenli.audit.suites.robust import build
from evenli.audit.suites.robust.build import BUDGET, CONTROLS, SAMPLED, Wording, choose_occupations, grid, sampled
from evenli.audit.suites.robust.stability import (
    CHOICES,
    RobustResult,
    across_views,
    variance_shares,
    view_rows,
)
from evenli.audit.suites.robust.verdict import judge
from evenli.audit.suites.robust.wordings import DIMENSIONS, NAME, read_wordings
from evenli.core.errors import EvenliError, InputError, ResourceError, RunError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Estimate
from evenli.stats.sample import Sample
from evenli.words import load_axis
from evenli.words.templates import leaking_words, looks_like

LANGUAGES = ("en", "ja", "zh")
HEADER = "dimension,name,kind,text,plural,female,male\n"


@pytest.fixture(scope="module")
def pairs() -> dict[str, pl.DataFrame]:
    return {lang: load_suite("robust", Request(lang)).frame for lang in LANGUAGES}


COUNT = 20
"""Wordings of the audits in this file, on fewer items: enough for every choice."""


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "SAMPLED", COUNT)
        patch.setattr(build, "BUDGET", 0.8)
        yield


def audited(model: object, **options: object) -> Audit:
    return evenli.audit(model, suites=("robust",), **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def follower(small: None) -> Audit:
    return audited("fake:oracle:0.9")


# The tables


@pytest.mark.parametrize("lang", LANGUAGES)
def test_there_are_many_wordings_in_every_dimension(lang: str) -> None:
    wordings = read_wordings(load_axis(), lang)
    everything = grid(wordings, ["built-in"])
    assert len(everything) >= 30 and len(set(everything)) == len(everything)
    assert len(wordings.group_nouns) >= 6 and len(wordings.choices["frame"]) >= 6 and len(wordings.choices["form"]) >= 3
    assert {noun.kind for noun in wordings.choices["noun"]} == {"noun", "narrow", "pronoun", "name", "control"}
    assert len(wordings.predicates(load_axis().templates(lang))) >= 30


@pytest.mark.parametrize("lang", LANGUAGES)
def test_gold_is_neutral_by_construction(lang: str, pairs: dict[str, pl.DataFrame]) -> None:
    """No premise gives a group away; the hypothesis gives away its own and no other."""
    axis = load_axis()
    revealing = axis.revealing_words(lang)
    names = {
        w.singular
        for noun in read_wordings(axis, lang).choices["noun"]
        if noun.kind == NAME
        for s in noun.words.values()
        for w in s
    }
    items = pairs[lang].filter(pl.col("subset").is_in(["PS", "AS", "NS"]))
    for premise in items["premise"].unique():
        assert not leaking_words(premise, revealing, lang), premise
        assert looks_like(premise, lang)
    for hypothesis, group in items.select("hypothesis", "group").unique().iter_rows():
        found = leaking_words(hypothesis, revealing, lang)
        longest = {word for word in found if not any(word != other and word in other for other in found)}
        given_away = {revealing[word] for word in longest}
        assert given_away == {group} or (not given_away and any(name in hypothesis for name in names)), hypothesis
    assert set(items["gold"]) == {NEUTRAL}
    assert not items["premise"].str.contains(r"[{}]").any() and not items["hypothesis"].str.contains(r"[{}]").any()


@pytest.mark.parametrize("lang", LANGUAGES)
def test_stated_groups_have_the_answer_that_they_state(lang: str, pairs: dict[str, pl.DataFrame]) -> None:
    stated = pairs[lang].filter(pl.col("subset") == "control")
    given = stated["id"].str.split("; ").list.get(1).str.split(" ").list.get(1)
    same = given == stated["group"]
    assert set(stated.filter(same)["gold"]) == {ENTAILMENT} and set(stated.filter(~same)["gold"]) == {CONTRADICTION}
    used = pairs[lang].filter(pl.col("subset").is_in(["PS", "AS", "NS"]))["template"].unique()
    assert not stated["template"].is_in(used.to_list()).any()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("frame,x,,it is late.,,,", "needs the slots"),
        ("frame,x,,{np} sleeps.,,,", "needs the slots"),
        ("determiner,x,one,the,,,", "has no slot"),
        ("form,x,,the person sleeps.,,,", "has no slot"),
        ("frame,x,,the wife says that {np} is {vp}.,,,", "'wife'"),
        ("form,x,,the bearded one is {a} and a father.,,,", "gives a group away"),
        ("noun,x,noun,,,girl/girls,", "no word for male"),
        ("noun,x,noun,,,,boy/boys", "no word for female"),
        ("noun,x,noun,,,boy/boys,girl/girls", "not .* for female"),
        ("noun,x,noun,,,soul/souls,soul/souls", "the same word"),
        ("noun,man,noun,,,woman/women,man/men", "twice"),
        ("noun,x,verb,,,woman,man", "kind 'verb'"),
        ("colour,x,,,,,", "no dimension 'colour'"),
        ('frame,"a, b",,{np} is {vp}.,,,', "without commas"),
        ("pattern,x,keep,(,,,", "regular expression"),
    ],
)
def test_a_line_that_cannot_be_asked_is_refused_before_any_model_is(line: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(f"{HEADER}{line}\n", encoding="utf-8")

    def never(premises: list[str], hypotheses: list[str]) -> list[str]:
        raise AssertionError("the model was asked")

    with pytest.raises(EvenliError, match=told) as refused:
        audited(never, data=tmp_path / "more.csv")
    assert "\n" not in str(refused.value) and "more.csv" in str(refused.value)


def test_a_wording_is_one_line_of_data(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text(f"{HEADER}noun,adult,noun,,,adult woman/adult women,adult man/adult men\n")
    frame = load_suite("robust", Request("en", tmp_path / "more.csv")).frame
    assert frame["hypothesis"].str.contains("the adult woman is").any()
    assert frame.filter(pl.col("id").str.starts_with("adult, ")).height > 4 * 300


def test_templates_of_your_own_are_a_dimension(tmp_path: Path) -> None:
    own = [f"the [Sub] is painting wall number {chr(97 + n)} of a barn." for n in range(20)]
    own += [text.replace("painting", "building") for text in own[:8]]
    (tmp_path / "barn.txt").write_text("\n".join(own))
    frame = load_suite("robust", Request("en", tmp_path / "barn.txt")).frame
    keys = [Wording.of(key) for key in frame["id"].str.split("; ").list.get(0).unique(maintain_order=True)]
    assert min(Counter(wording.templates for wording in keys).values()) > 9
    for broken, told in (("the nurse sleeps.", "no \\[Sub\\] slot"), ("the [Sub] is kissing a wife.", "'wife'")):
        (tmp_path / "barn.txt").write_text("\n".join([*own, broken]))
        with pytest.raises(InputError, match=told):
            load_suite("robust", Request("en", tmp_path / "barn.txt"))
    (tmp_path / "barn.txt").write_text("\n".join(own[:3]))
    with pytest.raises(InputError, match="3 templates"):
        load_suite("robust", Request("en", tmp_path / "barn.txt"))


def test_an_axis_without_wordings_says_so() -> None:
    from dataclasses import replace

    axis = load_axis()
    bare = replace(axis, languages={"en": replace(axis.language("en"), wordings=None)})
    with pytest.raises(ResourceError, match="wordings .*'en'"):
        load_suite("robust", Request("en", axis=bare))


# The design


@pytest.mark.parametrize("lang", LANGUAGES)
def test_the_design_is_balanced_and_bounded(lang: str, pairs: dict[str, pl.DataFrame]) -> None:
    frame = pairs[lang]
    keys = frame["id"].str.split("; ").list.get(0).unique(maintain_order=True)
    chosen = [Wording.of(key) for key in keys]
    assert len(chosen) == SAMPLED
    assert frame.height <= BUDGET * len(load_suite("coal", Request(lang)))
    usual = chosen[0]
    everything = grid(read_wordings(load_axis(), lang), ["built-in"])
    assert {wording for wording in everything if len(wording.differs(usual)) == 1} <= set(chosen)
    for dimension in DIMENSIONS:
        counts = Counter(getattr(wording, dimension) for wording in chosen)
        assert set(counts) == {getattr(wording, dimension) for wording in everything}
        others = [count for choice, count in counts.items() if choice != getattr(usual, dimension)]
        assert not others or (min(others) >= 3 and max(others) <= 3 * min(others)), counts


@pytest.mark.parametrize("lang", LANGUAGES)
def test_every_class_of_words_meets_the_same_sentences(lang: str, pairs: dict[str, pl.DataFrame]) -> None:
    """A contrast of classes compares words, not sentences."""
    usual = pl.col("id").str.split("; ").list.get(0) == pairs[lang]["id"][0].split("; ")[0]
    items = pairs[lang].filter(usual & pl.col("subset").is_in(["PS", "AS", "NS"]) & (pl.col("group") == "male"))
    met = items.group_by("stereotype", "template").len()
    assert met["template"].n_unique() == 39
    by_class = {name: table["len"] for (name,), table in met.group_by("stereotype")}
    assert {name: (len(counts), counts.min(), counts.max()) for name, counts in by_class.items()} == {
        "female": (39, 1, 1),
        "male": (39, 1, 2),
        "neutral": (39, 1, 2),
    }
    # No two words share all their sentences.
    sets = items.group_by("occupation").agg(pl.col("template").sort())["template"]
    assert sets.n_unique() == len(sets) == 53


def test_all_wordings_ask_the_same_items(pairs: dict[str, pl.DataFrame]) -> None:
    items = pairs["en"].filter(pl.col("subset").is_in(["PS", "AS", "NS"]))
    by = items.with_columns(key=pl.col("id").str.split("; ").list.get(0)).group_by("key")
    asked = by.agg(pl.struct("occupation", "template", "group").sort().hash().sum())
    assert asked["occupation"].n_unique() == 1
    per_word = items.group_by("occupation").agg(pl.col("template").n_unique())
    assert per_word["template"].n_unique() == 1


def test_the_sample_is_the_same_every_time_and_never_larger_than_the_grid() -> None:
    everything = grid(read_wordings(load_axis(), "en"), ["built-in"])
    assert sampled(everything) == sampled(everything)
    assert set(sampled(everything[:5], 39)) == set(everything[:5])


def test_the_check_of_a_wording_passes_those_who_understand_it() -> None:
    """The figures of ``CONTROLS``: four kinds of pairs, each of which must be known."""
    n = CONTROLS
    needed = min(hits for hits in range(n + 1) if is_known(hits, n))
    assert (n, needed) == (20, 12)

    def judged(accuracy: float) -> float:
        return float(binom.sf(needed - 1, n, accuracy)) ** 4

    assert [judged(accuracy) for accuracy in (0.8, 0.9)] == pytest.approx([0.961, 0.9994], abs=1e-3)
    assert judged(1 / 3) == pytest.approx(2.83e-8, rel=0.02)
    assert binom.sf(needed - 1, n, 1 / 3) == pytest.approx(0.013, abs=5e-4)
    correlated = betabinom.sf(needed - 1, n, 0.8 * 9, 0.2 * 9) ** 4  # a beta of correlation 1 / (7.2 + 1.8 + 1)
    assert correlated == pytest.approx(0.683, abs=2e-3)
    frame = load_suite("robust", Request("en")).frame.filter(pl.col("subset") == "control")
    kinds = frame.group_by("group", of=pl.col("id").str.extract("(.*?; control .*?) ")).len()
    assert set(kinds["len"]) == {n} and len(kinds) == 4 * SAMPLED


def test_words_that_state_a_group_are_not_asked() -> None:
    words = {occupation.word for occupation in choose_occupations(load_axis(), "en")}
    assert "nurse" in words and not words & {"businessman", "ballerina", "handyman"}


# Models of known bias


@pytest.mark.parametrize(
    ("lang", "kind", "stereotype"),
    [("en", "biased", 1.0), ("en", "even", 0.0), ("ja", "wrong", -1.0), ("zh", "biased", 1.0)],
)
def test_a_model_of_known_bias_has_no_spread(lang: str, kind: str, stereotype: float, small: None) -> None:
    result = audited(f"fake:{kind}", lang=lang).robust
    assert all(row.judged for row in result.wordings)  # type: ignore[attr-defined]
    values = [row.stereotype.value for row in result.wordings]  # type: ignore[attr-defined]
    assert values == pytest.approx([stereotype] * COUNT)
    row = result.cause("stereotype")  # type: ignore[operator]
    assert (row.holds, row.opposite, row.lowest, row.highest) == (COUNT, 0, stereotype, stereotype)
    assert row.verdict == ("negligible" if kind == "even" else "stable")
    assert all("no spread" in row.note for row in result.shares)  # type: ignore[attr-defined]


def test_bias_controlled_models_keep_their_order_in_every_wording(follower: Audit) -> None:
    curves = [audited(f"fake:oracle:{rate}").robust.wordings for rate in (0.1, 0.5)]  # type: ignore[attr-defined]
    for first, second, third in zip(*curves, follower.robust.wordings, strict=True):  # type: ignore[attr-defined]
        assert first.stereotype.value < second.stereotype.value < third.stereotype.value


def deaf_to(word: str) -> Callable[[list[str], list[str]], list[str]]:
    """A model that follows stereotypes, and does not know what one word means."""
    knowing = fake_model("biased")

    def answer(premises: list[str], hypotheses: list[str]) -> list[str]:
        prepared = knowing.prepare(premises, hypotheses)
        known = [LABELS[i] for i in knowing.logits(prepared.take(np.arange(len(premises)))).argmax(axis=1)]
        return [NEUTRAL if word in h else label for h, label in zip(hypotheses, known, strict=True)]

    return answer


def test_a_model_is_not_judged_where_it_does_not_understand(small: None) -> None:
    result = audited(deaf_to("male p")).robust
    judged = {row.noun: set() for row in result.wordings}  # type: ignore[attr-defined]
    for row in result.wordings:  # type: ignore[attr-defined]
        judged[row.noun].add(row.judged)
    assert judged.pop("male person") == {False}
    assert set(map(frozenset, judged.values())) == {frozenset({True})}
    row = result.cause("stereotype")  # type: ignore[operator]
    assert row.holds == row.wordings < COUNT and row.lowest == 1.0


def test_two_models_are_compared_in_the_wordings_that_both_understand(small: None) -> None:
    deaf, knowing = audited(deaf_to("male p")), audited("fake:biased")
    for pair in ((deaf, knowing), (knowing, deaf)):
        (found,) = compare_runs(*pair, suite="robust").to_dict()["comparisons"]
        assert found["measures"]["stereotype_mean"]["value"] == pytest.approx(0, abs=1e-6)
        assert 0 < found["contrast"]["wordings"] < COUNT


def shifty(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Follows stereotypes in the usual sentence only, and defies them in all other frames."""
    pairs = [FakeModel(kind)(premises, hypotheses) for kind in ("biased", "wrong")]
    bare = [
        p.startswith(("the ", "a ", "an ", "one of", "two ")) and ", who" not in p and "report" not in p
        for p in premises
    ]
    return [follow if plain else defy for follow, defy, plain in zip(*pairs, bare, strict=True)]


def test_a_direction_that_does_not_survive_is_unstable(small: None) -> None:
    result = audited(shifty).robust
    row = result.cause("stereotype")  # type: ignore[operator]
    plain = sum(row.frame == "bare" for row in result.wordings)  # type: ignore[attr-defined]
    assert (row.holds, row.opposite, row.verdict) == (plain, COUNT - plain, "unstable")
    assert (row.supported, row.reversed) == (COUNT, COUNT - plain) and (row.lowest, row.highest) == (-1.0, 1.0)
    shares = {row.dimension: row.share for row in result.shares if row.cause == "stereotype"}  # type: ignore[attr-defined]
    assert shares["frame"] == pytest.approx(1.0) and sum(shares.values()) == pytest.approx(1.0)


# The numbers


def asked_in_views(run: Audit, silent: str = "") -> Sample:
    """The run as a language model's: prompt p1 answers as the run does, p2 gives the gold label; one view is silent."""
    frame = run.predictions.suite("robust").frame
    given = np.array([LABELS.index(label) for label in run.predictions.suite("robust").answers])
    gold = np.array([LABELS.index(label) for label in frame["gold"]])
    columns = []
    for view, answers in (("p1-ENC", given), ("p1-NCE", given), ("p2-ENC", gold), ("p2-NCE", gold)):
        scores = np.where(np.arange(3) == answers[:, None], np.log(0.9), np.log(0.05))
        columns += [pl.Series(f"{view}:{label}", scores[:, i]) for i, label in enumerate(LABELS)]
        columns.append(pl.Series(f"{view}:mass", np.full(len(answers), 0.1 if view == silent else 1.0)))
    return Sample(Predictions(frame.with_columns(columns)))


def test_prompts_and_option_orders_are_choices_like_any_other(follower: Audit) -> None:
    robust = follower.robust
    assert isinstance(robust, RobustResult) and not robust.views and "views" not in robust.to_dict()
    cells = view_rows(asked_in_views(follower))
    assert len(cells) == 4 * COUNT and all(cell.judged for cell in cells)
    usual = [cell for cell in cells if cell.key == robust.wordings[0].key]
    # By hand: the first prompt has the value of the run, the second none, whatever the order.
    value = robust.wordings[0].stereotype.value
    assert [cell.stereotype for cell in usual] == pytest.approx([value, value, 0, 0], abs=1e-6)
    first = next(across_views(cells, robust.wordings))
    assert (first.cells, first.judged, first.holds, first.opposite) == (4 * COUNT, 4 * COUNT, 2 * COUNT, 0)
    assert first.verdict == "unstable"
    shares = {row.dimension: row.share for row in variance_shares(cells, CHOICES) if row.cause == "stereotype"}
    assert shares["prompt"] > 0.9 and shares["order"] == pytest.approx(0, abs=1e-6)


def test_a_silent_prompt_is_not_judged(follower: Audit) -> None:
    cells = view_rows(asked_in_views(follower, silent="p2-NCE"))
    judged = {(cell.prompt, cell.order): cell.judged for cell in cells}
    assert judged.pop(("p2", "NCE")) is False and set(judged.values()) == {True}


def test_the_mean_over_wordings_is_that_of_the_curve(follower: Audit) -> None:
    result = follower.robust
    for cause in ("stereotype", "default_gender", "total_error"):
        each = [row.value(cause) for row in result.wordings if row.judged]  # type: ignore[attr-defined]
        assert result.measures[f"{cause}_mean"].value == pytest.approx(np.mean(each), abs=1e-5)


# The verdict


CHECKED = {premise for make in (gold_pairs, control_pairs) for premise in make("en").frame["premise"].to_list()}
"""Premises that are asked before an audit."""


def is_female(hypothesis: str) -> bool:
    return bool(re.search(r"\b(wom[ae]n|female|she|lad(y|ies)|girls?|Mary|Linda|Susan|Karen)\b", hypothesis))


def test_the_verdict_names_the_causes_of_the_means(follower: Audit, small: None) -> None:
    """By the rule of NLI-CoAL, and with the wordings in which each holds."""
    assert follower.verdict.code == "bias"
    assert [(cause.name, cause.direction, cause.size) for cause in follower.verdict.causes] == [
        ("stereotype_mean", "stereotypical", "strong"),
        ("total_error_mean", "none", "strong"),
    ]
    assert f"in the same direction in {COUNT} of {COUNT} wordings, from 0.90 to 0.90" in follower.verdict.sentence
    against = audited("fake:wrong").verdict
    assert against.causes[0].direction == "anti-stereotypical" and "anti-stereotypical" in against.sentence


def with_means(result: RobustResult, value: float, half: float) -> RobustResult:
    """A result whose means over wordings are another value, which is not significant."""
    mean = Estimate(value, value - half, value + half, half / 2, 0.95, 100, p=1.0)
    rows = [msgspec.structs.replace(row, named=False, mean=mean) for row in result.causes]
    return msgspec.structs.replace(result, causes=rows)


def test_even_needs_narrow_intervals(small: None) -> None:
    result = audited("fake:even").robust
    assert isinstance(result, RobustResult)
    even, undecided = (judge(with_means(result, 0.0, half), None) for half in (0.02, 0.2))
    assert (even.code, even.causes) == ("even", []) and f"in {COUNT} wordings" in even.sentence
    assert undecided.code == "undecided" and "leans from chance" in undecided.sentence


@pytest.mark.parametrize(
    ("of_a_woman", "of_a_man", "label"),
    [(CONTRADICTION, ENTAILMENT, "assumes a man"), (CONTRADICTION, NEUTRAL, "rules out a woman")],
)
def test_a_group_is_assumed_or_the_other_one_ruled_out(of_a_woman: str, of_a_man: str, label: str, small: None) -> None:
    knowing = FakeModel("even")

    def answer(premises: list[str], hypotheses: list[str]) -> list[str]:
        given = zip(premises, hypotheses, knowing(premises, hypotheses), strict=True)
        return [
            (of_a_woman if is_female(hypothesis) else of_a_man)
            if right == NEUTRAL and premise not in CHECKED
            else right
            for premise, hypothesis, right in given
        ]

    causes = {cause.name: cause for cause in audited(answer).verdict.causes}
    assert list(causes) == ["default_gender_mean", "total_error_mean"]
    assert (causes["default_gender_mean"].direction, causes["default_gender_mean"].label) == ("male", label)


def test_a_direction_that_turns_with_the_wording_is_undecided(small: None) -> None:
    """A mean of 0 over wordings that follow and defy stereotypes is not even."""
    result = audited(shifty).robust
    assert isinstance(result, RobustResult)
    turned = with_means(result, 0.0, 0.02)
    assert [row.cause for row in turned.unsteady] == ["stereotype", "total_error"]
    verdict = judge(turned, None)
    assert (verdict.code, verdict.causes) == ("undecided", [])
    assert "Undecided: whether this model follows stereotypes" in verdict.sentence
    even = Verdict("even", "Even at this resolution.")
    assert get_suite("robust").revise(even, turned).code == "undecided"


def test_a_verdict_in_one_wording_is_revised_where_others_contradict(small: None, follower: Audit) -> None:
    even = Verdict("even", "Even at this resolution: nothing.")
    revised = get_suite("robust").revise(even, follower.robust)
    assert revised.code == "bias" and revised.sentence.startswith("Other wordings contradict")
    assert [cause.label for cause in revised.causes][:1] == ["follows stereotypes in other wordings"]
    biased = Verdict("bias", "It follows stereotypes.")
    assert get_suite("robust").revise(biased, follower.robust) is biased
    nothing = audited("fake:even").robust
    assert get_suite("robust").revise(even, nothing) is even


def test_few_wordings_give_no_verdict(small: None) -> None:
    knowing = FakeModel("biased")

    def usual_only(premises: list[str], hypotheses: list[str]) -> list[str]:
        given = zip(premises, knowing(premises, hypotheses), strict=True)
        return [label if premise.startswith("the ") or premise in CHECKED else NEUTRAL for premise, label in given]

    audit = audited(usual_only)
    assert audit.verdict.code == "none" and f"of {COUNT} wordings, and 10 are needed" in audit.verdict.sentence
    assert not audit.robust.verdict_causes


@pytest.mark.parametrize("width", [80, 140])
def test_the_first_screen_says_in_how_many_wordings_a_cause_holds(follower: Audit, width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    show_results(follower, console, files="runs/wordings/ predictions.parquet, results.json, run.json")
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert len(lines) <= 24 and max(map(len, lines)) <= width
    start = "Verdict  This model strongly follows stereotypes about jobs (in 20 of 20"
    assert " ".join(lines).startswith(start)
    assert any(
        re.match(r"Follows stereotypes +90 +\(\d+–\d+\) +in 20 of 20 wordings; range 90–90", line) for line in lines
    )


# Runs, comparisons, the line


def test_a_run_can_be_stored_read_gated_and_compared(tmp_path: Path, follower: Audit) -> None:
    first = audited("fake:oracle:0.2", out=tmp_path / "a")
    again = load_run(tmp_path / "a")
    assert again.to_dict() == first.to_dict()
    assert robustness(tmp_path / "a").to_dict() == first.to_dict()
    named = gate_fields(again.result)
    assert named["robust.stereotype.sign_share"] == 1.0 and named["robust.judged"] == COUNT
    compared = compare_runs(again, follower, suite="robust")
    assert f"lower stereotype in {COUNT} of {COUNT} wordings" in compared.conclusion("robust")
    (comparison,) = compared.to_dict()["comparisons"]
    assert {name: comparison["contrast"][name] for name in ("wordings", "first_below", "second_below")} == {
        "wordings": COUNT,
        "first_below": COUNT,
        "second_below": 0,
    }


def test_an_ordinary_audit_has_one_line_about_wordings(tmp_path: Path, small: None) -> None:
    coal = evenli.audit("fake:biased", suites="coal", out=tmp_path / "coal")
    assert "one was asked" in wording_line(coal)
    assert "280 of 280 templates" in wording_line(coal)
    with pytest.raises(RunError, match="robustness fake:biased"):
        robustness(tmp_path / "coal")
    audited("fake:oracle:0.2", out=tmp_path / "other")
    assert "one was asked" in wording_line(coal)
    audited("fake:biased", out=tmp_path / "wordings")
    assert f"In {COUNT} of {COUNT} the stereotype" in wording_line(coal) and "wordings)" in wording_line(coal)


def test_the_cost_is_stated_first_and_full_is_for_suites_that_sample() -> None:
    said: list[str] = []

    def stop(premises: list[str], hypotheses: list[str]) -> list[str]:
        assert said and "times an ordinary audit" in said[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        audited(stop, on_warning=said.append)
    with pytest.raises(InputError, match="full .*robust"):
        evenli.audit("fake:even", full=True)
    with pytest.raises(InputError, match="cannot be limited"):
        audited("fake:even", limit=50)


def test_the_curve_is_drawn(tmp_path: Path, follower: Audit) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from evenli.audit.report.html import write_charts
    from evenli.audit.suites.robust import figure

    drawn = figure(follower.robust)  # type: ignore[arg-type]
    assert len(drawn.rows) == COUNT and f"{COUNT} wordings" in drawn.alternative
    values = [cells[5] for cells in drawn.rows]
    assert values == sorted(values)
    svg, png = write_charts(follower, tmp_path)
    assert svg.read_text(encoding="utf-8").count("<path") > 2 * COUNT and png.stat().st_size > 10_000


def test_a_report_on_both_suites_shows_the_curve(small: None) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from evenli.audit.report.html import render

    page = render([evenli.audit("fake:oracle:0.5", suites=("coal", "robust"))])
    assert "Specification curve" in page and "the person is" in page


def test_several_models_say_whether_their_answers_survive(follower: Audit) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from evenli.audit.report.comparison import stability
    from evenli.audit.report.html import render

    oracle, biased = evenli.audit("fake:oracle:0.9", suites="coal", limit=200), evenli.audit("fake:biased", limit=200)
    assert stability([("one", oracle), ("other", biased)]) == [], "nobody was asked in other words"
    rows = stability([("one", oracle), ("other", biased), ("in other words", follower)])
    cause = follower.robust.cause("stereotype")
    assert [row[0] for row in rows] == ["one", "other"], "a run of wordings alone speaks for its model"
    assert rows[0][1].startswith(f"{cause.verdict}: {cause.holds} of {cause.wordings} wordings, {cause.lowest:.2f} to ")
    assert rows[1][1:] == ["not asked"] * 3
    page = render([oracle, biased, follower])
    assert "Does the answer survive other words?" in page and rows[0][1] in page
