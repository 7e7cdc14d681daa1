"""Everything follows the axis: terminal, report, card and gate of every shipped axis, and products of two axes."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import evenli
from evenli.audit.audit import Audit, load_run
from evenli.audit.gate import FAILED, PASSED, SKIPPED, gate
from evenli.audit.predictions import Predictions
from evenli.audit.report.card import card
from evenli.audit.report.export import tables, write_table
from evenli.audit.report.html import render
from evenli.audit.report.terminal import show_results, summarise
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.groups.build import build_groups
from evenli.audit.suites.groups.results import interactions
from evenli.core.errors import InputError, ResourceError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Scoring
from evenli.stats.sample import Sample
from evenli.words import load_axis
from evenli.words.axes import SHIPPED, TIMES, crossing, shipped_names

Predict = Callable[[Sequence[str], Sequence[str]], list[list[float]]]
Answers = dict[tuple[str, str], str]
OTHERS = [name for name in shipped_names() if name != "gender"]
SUBJECTS = {
    "gender": {"gender", "genders", "nurse", "pronoun", "pronouns"},
    "nationality": {"nationality", "nationalities", "traits", "trait"},
    "religion": {"religion", "religions", "religious"},
    "ethnicity": {"ethnicity", "ethnicities"},
    "age": {"age", "ages"},
}
"""Words of an axis beside its groups."""
JOBS = {"job", "jobs", "occupation", "occupations"}
FAMILY = {name: name for name in SUBJECTS} | dict.fromkeys(
    ("gender3", "gender3_they", "gender3_neo", "pronouns"), "gender"
)


def model(axis: str, lang: str = "en", answers: Answers | None = None) -> Predict:
    """Knows the gold and the control pairs, gives the planted answers, and is neutral elsewhere."""
    known = dict(answers or {})
    for pairs in (gold_pairs(lang, axis=axis), control_pairs(lang, axis=axis)):
        known |= {(p, h): gold for p, h, gold in pairs.frame.select("premise", "hypothesis", "gold").iter_rows()}

    def predict(premises: Sequence[str], hypotheses: Sequence[str]) -> list[list[float]]:
        asked = (known.get(pair, NEUTRAL) for pair in zip(premises, hypotheses, strict=True))
        return [[9.0 if label == answer else 0.0 for label in LABELS] for answer in asked]

    return predict


def planted(axis: str, rule: Callable[[str, int], str]) -> Answers:
    """Answers by group and number of the word."""
    frame = build_groups(axis=axis).frame
    numbers = {word: at for at, word in enumerate(dict.fromkeys(frame["occupation"]))}
    rows = frame.select("premise", "hypothesis", "group", "occupation").iter_rows()
    return {(premise, hypothesis): rule(group, numbers[word]) for premise, hypothesis, group, word in rows}


def own_words(axis: str) -> set[str]:
    """Its subject, what its words are, its groups, and what its file says about itself."""
    loaded = load_axis(axis)
    families = {FAMILY[name] for name in (loaded.parts or (axis,))}
    about = (loaded.title, loaded.construct, loaded.harm, loaded.population, *loaded.assumptions)
    words = {word for name in families for word in SUBJECTS[name]}
    words |= set(re.findall(r"[\w-]+", " ".join((*about, *loaded.language("en").group_words.values())).lower()))
    return words | ({"trait", "traits"} if loaded.thing == "trait" else JOBS)


def foreign_words(axis: str) -> set[str]:
    """Subjects, things and group words of all axes, less those of this one."""
    every = {word for words in SUBJECTS.values() for word in words} | JOBS
    for name in shipped_names():
        every |= set(re.findall(r"[\w-]+", " ".join(load_axis(name).language("en").group_words.values()).lower()))
    # Words of any sentence tell nothing about an axis: an old bicycle, a white wall.
    common = set(re.findall(r"[\w-]+", " ".join(load_axis(axis).templates("en")).lower()))
    return every - own_words(axis) - common - {"person", "who", "uses", "they", "them", "he", "him", "her", "she"}


@cache
def audited(axis: str) -> Audit:
    """One group is ruled out in every sentence, so that groups are named everywhere."""
    last = load_axis(axis).group_names[-1]
    rule = planted(axis, lambda group, _: CONTRADICTION if group == last else NEUTRAL)
    return evenli.audit(model(axis, answers=rule), axis=axis, limit=600)


def shown(audit: Audit, *, verbose: bool) -> str:
    console = Console(file=io.StringIO(), width=140)
    show_results(audit, console, verbose=verbose)
    return console.file.getvalue()  # type: ignore[attr-defined]


def visible(page: str) -> str:
    """The text of a page; the settings at its end are the keys of run.json."""
    page = re.sub(r"<style.*?</style>|<script.*?</script>|<dl>.*?</dl>", " ", page, flags=re.S)
    labels = " ".join(re.findall(r'aria-label="([^"]*)"', page))
    return re.sub(r"<[^>]+>", " ", page) + labels


@pytest.mark.parametrize("axis", OTHERS)
def test_no_word_of_another_axis(axis: str) -> None:
    audit = audited(axis)
    texts = {
        "terminal": shown(audit, verbose=False),
        "tables": shown(audit, verbose=True),
        "page": visible(render([audit])),
        "card": card(audit),
        "gate": repr(gate(audit, policy="standard")),
    }
    foreign = foreign_words(axis)
    assert len(foreign) > 20
    for name, text in texts.items():
        # Names of fields and files are no prose: the path of a run, data[0].occupations.
        found = set(re.findall(r"[\w-]+", text.lower())) & foreign
        assert not found, (name, sorted(found))
        noun = next(reversed(load_axis(axis).language("en").group_words.values()))
        assert noun in text or name == "gate", name


@pytest.mark.parametrize("axis", OTHERS)
def test_the_first_screen_and_the_gate_name_what_was_planted(axis: str) -> None:
    audit = audited(axis)
    last, noun = load_axis(axis).group_names[-1], list(load_axis(axis).language("en").group_words.values())[-1]
    assert next((cause.name, cause.direction) for cause in audit.verdict.causes) == ("ruled_out", last)
    # Nobody is inferred: that the others stand above one who is ruled out is no default.
    assert not any(cause.name == "default" for cause in audit.verdict.causes)
    summary = summarise(audit)
    assert noun in summary.sentence and len(summary.bars) == len(load_axis(axis).groups)
    ruled_out = {bar.name: bar.shares[1].value for bar in summary.bars}
    assert ruled_out.pop(noun) == pytest.approx(1) and max(ruled_out.values()) == pytest.approx(0)
    result = gate(audit, policy="standard")
    statuses = {check.name: check.status for check in result.checks}
    assert result.passed is False and statuses["no group strongly ruled out"] == FAILED
    assert statuses["competent"] == PASSED
    product = bool(load_axis(axis).parts)
    assert (statuses["no strong interaction"] == SKIPPED) is not product


def test_a_stored_run_of_the_users_own_axis_speaks_its_words(tmp_path: Path) -> None:
    from evenli.audit.suites.groups.axis_file import new_axis

    file, _ = new_axis("region", tmp_path)
    evenli.audit(model(str(file)), axis=str(file), out=tmp_path / "run")
    file.unlink()
    audit = load_run(tmp_path / "run")
    for text in (visible(render([audit])), card(audit)):
        assert "Regions and traits" in text and not re.search(r"\b(gender|occupations?|jobs?)\b", text, flags=re.I)


def test_an_even_model_passes_the_standard_policy() -> None:
    audit = evenli.audit(model("age"), axis="age")
    result = gate(audit, policy="standard")
    assert result.passed is True
    assert {check.status for check in result.checks} == {PASSED, SKIPPED}  # no ratings, no product


# ---- two axes at once


def additive(first: dict[str, float], second: dict[str, float], words: int, seed: int = 0) -> Callable[[str, int], str]:
    """A model in which each part adds its share of words from which its groups are inferred."""
    order = np.random.default_rng(seed).permutation(words)

    def rule(group: str, word: int) -> str:
        one, other = group.split(TIMES)
        return ENTAILMENT if order[word] < words * (first[one] + second[other]) else NEUTRAL

    return rule


FIRST = {"female": 0.1, "male": 0.4}
SECOND = {"american": 0.4, "chinese": 0.1, "german": 0.3, "indian": 0.0, "nigerian": 0.05}
WORDS = 115


def test_parts_that_add_up_have_no_interaction() -> None:
    answers = planted("gender_nationality", additive(FIRST, SECOND, WORDS))
    audit = evenli.audit(model("gender_nationality", answers=answers), axis="gender_nationality")
    rows = audit.groups.interactions  # type: ignore[attr-defined]
    assert len(rows) == 10
    # Shares are whole numbers of words.
    assert max(abs(row.interaction.value) for row in rows) < 1.5 / WORDS
    assert all(row.interaction.low <= 0 <= row.interaction.high for row in rows)
    assert not any(cause.name == "interaction" for cause in audit.verdict.causes)
    assert any(cause.name == "default" for cause in audit.verdict.causes)  # the control: it is a biased model


@pytest.mark.parametrize(("answer", "sign"), [(CONTRADICTION, -1), (ENTAILMENT, 1)])
def test_a_planted_interaction_is_found_with_sign_and_group(answer: str, sign: int) -> None:
    rule = additive(FIRST, SECOND, WORDS)

    def more(group: str, word: int) -> str:
        return answer if group == "female__nigerian" and word % 5 < 3 else rule(group, word)

    answers = planted("gender_nationality", more)
    audit = evenli.audit(model("gender_nationality", answers=answers), axis="gender_nationality")
    rows = {row.group: row.interaction for row in audit.groups.interactions}  # type: ignore[attr-defined]
    largest = max(rows, key=lambda group: abs(rows[group].value))
    # Of two genders the other one mirrors it; the verdict takes the first.
    assert largest in {"female__nigerian", "male__nigerian"}
    assert np.sign(rows["female__nigerian"].value) == sign == -np.sign(rows["male__nigerian"].value)
    one = rows["female__nigerian"]
    assert one.low > 0 or one.high < 0
    (cause,) = [cause for cause in audit.verdict.causes if cause.name == "interaction"]
    assert cause.direction in {"female__nigerian", "male__nigerian"}
    # Everywhere: terminal, page, card, JSON, gate.
    for text in (shown(audit, verbose=True), visible(render([audit])), card(audit)):
        assert "Nigerian woman" in text and "Beyond the sum of the two" in text
    stored = json.loads(json.dumps(audit.result.to_dict()))["groups"]["interactions"]
    assert {row["group"] for row in stored} == set(rows)
    check = next(one for one in gate(audit, policy="standard").checks if one.name == "no strong interaction")
    assert check.values["verdict.interaction"] is True


def sample_of(rows: list[dict[str, str]], logits: np.ndarray) -> Sample:
    columns = [pl.Series(label, logits[:, at].astype(np.float32)) for at, label in enumerate(LABELS)]
    return Sample(Predictions(pl.DataFrame(rows).with_columns(columns)))


def test_noise_makes_no_interaction() -> None:
    """Intervals hold for all combinations together: at most a few of forty noisy additive models show one."""
    groups = [f"{a}{TIMES}{b}" for a in "ab" for b in "xyz"]
    rows = [
        {
            "id": f"{word}-{template}-{group}",
            "subset": "NS",
            "premise": f"the w{word} waits {template}.",
            "hypothesis": f"the {group} waits {template}.",
            "gold": NEUTRAL,
            "occupation": f"w{word}",
            "stereotype": "neutral",
            "template": f"the [Sub] waits {template}.",
            "group": group,
        }
        for word in range(30)
        for template in range(3)
        for group in groups
    ]
    shift = np.array([[0.8 * (row["group"][0] == "a"), 0, 0.5 * (row["group"][-1] == "x")] for row in rows])
    generator = np.random.default_rng(5)
    found = 0
    for _ in range(40):
        sample = sample_of(rows, generator.normal(size=(len(rows), 3)) + shift)
        estimates = [row.expected for row in interactions(sample, groups, Scoring())]
        found += any(one.low > 0 or one.high < 0 for one in estimates)
    # A softmax is not quite additive; 2 are expected of chance, and 9 or more have a chance below 0.0005.
    assert found <= 8


@pytest.mark.parametrize(
    ("product", "wanted"),
    [
        ('axes = ["gender", "mars"]', "no axis 'mars'"),
        ('axes = ["gender"]', "two axes"),
        ('axes = ["gender", "gender"]', "two axes"),
        ('axes = ["nationality", "gender"]', "other way round"),
        ('axes = ["gender", "nationality"]\nwords = "age"', "one of gender, nationality"),
        ('axes = ["gender", "nationality"]\ngroups = { nationality = ["martian"] }', "no group 'martian'"),
        ('axes = ["gender", "gender_nationality"]', "a product itself"),
        ('words = "gender"', "axes"),
    ],
)
def test_a_product_needs_two_axes_that_fit(tmp_path: Path, product: str, wanted: str) -> None:
    text = (SHIPPED / "gender_nationality.toml").read_text()
    file = tmp_path / "mine.toml"
    file.write_text(f"{text[: text.index('[product]')]}[product]\n{product}\n")
    with pytest.raises(ResourceError, match=wanted) as caught:
        load_axis(file)
    assert "mine.toml" in str(caught.value) and "\n" not in str(caught.value)


def test_the_walk_through_can_be_crossed(tmp_path: Path) -> None:
    """A product names a file beside it, as docs/studies/axes.md shows."""
    from evenli.audit.suites.groups.axis_file import check_axis, new_axis

    new_axis("region", tmp_path)
    text = (SHIPPED / "gender_nationality.toml").read_text()
    product = 'axes = ["gender", "region.toml"]\nwords = "region.toml"\ngroups = { "region.toml" = ["north", "south"] }'
    file = tmp_path / "both.toml"
    file.write_text(f"{text[: text.index('[product]')]}[product]\n{product}\n")
    assert load_axis(file).language("en").group_words["female__south"] == "southern woman"
    said = load_axis(file).paraphrases("en")["female__south"]
    assert {("southern mother", "southern woman"), ("woman from the south", "southern woman")} <= set(said)
    assert len(said) == 20 + 1  # a southerner may be a man
    assert [one for one in check_axis(file) if one.kind == "error"] == []
    audit = evenli.audit(model(str(file)), axis=str(file), limit=300)
    assert len(audit.groups.interactions) == 4  # type: ignore[attr-defined]


def test_only_full_crossings_are_products() -> None:
    assert crossing(["a__x", "a__y", "b__x", "b__y"]) is not None
    for groups in (["a__x", "a__y"], ["a", "b"], ["a__x", "b__y"], ["a__x__z", "b__x__z"], []):
        assert crossing(groups) is None


def test_a_product_keeps_the_stereotypes_of_its_part() -> None:
    product, part = load_axis("gender_nationality"), dict(load_axis("nationality").typed_words)
    kept = {group.split(TIMES)[1] for group in product.group_names}
    for word, stereotype in product.typed_words:
        lifted = {name.split(TIMES)[1] for name in stereotype.split("|") if TIMES in name}
        assert lifted == set(part[word].split("|")) & kept
        assert part[word] == "neutral" or lifted


# ---- whose stereotypes


def test_one_run_is_scored_by_both_pools_of_raters() -> None:
    """The first row is the run's own score; the other one is what an audit with that list gives on the same pairs."""
    typed = {one.word: one.groups for one in load_axis("nationality").read_list("en", "north_america")}
    frame = build_groups(axis="nationality").frame
    rows = frame.select("premise", "hypothesis", "group", "occupation").iter_rows()
    answers = {(p, h): ENTAILMENT if group in typed[word] else NEUTRAL for p, h, group, word in rows}
    audit = evenli.audit(model("nationality", answers=answers), axis="nationality")
    own, other = audit.groups.pools  # type: ignore[attr-defined]
    assert (own.pool, other.pool) == ("published", "north_america")
    assert own.stereotype.value == pytest.approx(audit.groups.stereotype_n.value, abs=1e-6)
    assert own.coal.value == pytest.approx(audit.groups.coal_n.value, abs=1e-6)
    # It follows the ratings of North America to the letter, which people of the region share in part.
    assert other.stereotype.value == pytest.approx(1) and other.coal.value == pytest.approx(1 / 3)
    assert 0 < own.stereotype.value < 0.9


def test_another_list_is_called_by_its_name() -> None:
    audit = evenli.audit(model("religion"), axis="religion", occupations="activities", limit=600)
    assert audit.groups.thing == "description" and audit.groups.words["all"] == 50  # type: ignore[attr-defined]
    assert not re.search(r"\bjobs?\b", summarise(audit).question)
    with pytest.raises(InputError, match="activities"):
        build_groups("en", axis="religion", words="mars")


def test_tables_of_groups_are_flat(tmp_path: Path) -> None:
    written = tables(audited("age").result)["groups"]
    write_table(written, tmp_path / "groups.csv")
    assert {"group", "default", "default_low", "answers_entailment", "ruled_out_high"} <= set(written.columns)
    assert (tmp_path / "groups.csv").read_text().count("\n") == 4


def test_runs_without_ratings_are_compared_by_distance() -> None:
    before, after = evenli.audit(model("age"), axis="age", limit=600), audited("age")
    assert "distance between groups" in repr(evenli.compare(before, after))
    check = gate(after, baseline=before).checks[-1]
    assert check.status == FAILED and "distance" in check.detail
