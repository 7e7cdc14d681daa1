"""Every word list has a source, and the templates are what they claim."""

from __future__ import annotations

import csv
import dataclasses
import re
import unicodedata
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from evenli.audit.pairs import PairSet
from evenli.audit.suites.checks import (
    CONTROL_TEMPLATES,
    CONTROLS,
    check_pairs,
    control_pairs,
    gold_pairs,
    validate,
)
from evenli.audit.suites.coal.pairs import build_coal, read_release
from evenli.core.errors import InputError, ResourceError
from evenli.core.labels import LABELS
from evenli.words import cards, load_axis, read_lines, read_table
from evenli.words.axes import shipped_names
from evenli.words.swap.swapper import Swapper
from evenli.words.tables import DATA
from evenli.words.templates import SLOT, leaking_words, looks_like, slot_word
from studies.ledger.official import recover_lists

LANGS = ("en", "ja", "zh")
RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}


@pytest.mark.parametrize("card", cards(), ids=lambda card: card.name)
def test_every_resource_states_its_source_and_is_intact(card) -> None:
    assert card.title and card.source and card.licence and len(card.limits) > 20
    assert re.fullmatch(r"\d{4}-\d{2}-\d{2}", card.date)
    assert card.verify(), f"{card.name} changed: run tools/seal_resources.py if that was intended"


def test_files_of_the_current_folder_shadow_no_shipped_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = read_table("probe_occupations.csv")
    (tmp_path / "probe_occupations.csv").write_text("occupation,gender,plural\nwizard,male,wizards\n")
    (tmp_path / "swap_words_en.csv").write_text("male,female,ways,list\nman,wizard,both,x\n")
    (tmp_path / "own.txt").write_bytes(b"\xef\xbb\xbfa\xe2\x80\xa8b\r\n# no\r\nc\r\n")
    monkeypatch.chdir(tmp_path)
    assert read_table("probe_occupations.csv") == shipped
    assert Swapper()("A man waits.") == "A woman waits."
    for own in (Path("probe_occupations.csv"), "./probe_occupations.csv", tmp_path / "probe_occupations.csv"):
        assert [row["occupation"] for row in read_table(own)] == ["wizard"]
    assert read_lines(Path("own.txt")) == ["a\u2028b", "c"]
    with pytest.raises(ResourceError, match="own.txt"):
        read_lines("own.txt")
    with pytest.raises(InputError, match="professions.csv"):
        read_table(Path("professions.csv"))


def test_a_quoted_cell_may_hold_lines(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('word,note\na,"b\nc"\n', encoding="utf-8")
    assert read_table(tmp_path / "t.csv") == [{"word": "a", "note": "b\nc"}]


def test_a_line_that_ends_early_is_named(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("occupation,gender,note\nnurse,female\npilot\n", encoding="utf-8")
    assert read_table(file, ("occupation",))[0] == {"occupation": "nurse", "gender": "female", "note": None}
    with pytest.raises(ResourceError, match=r"jobs\.csv, line 3 .*gender"):
        read_table(file, ("occupation", "gender"))


def test_an_axis_finds_its_tables_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DATA.parent / "axes" / "gender.toml").read_text(encoding="utf-8")
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    name = load_axis().language("en").templates.name
    (tmp_path / name).write_text("the [Sub] waits.\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert load_axis("mine.toml").templates("en") == ["the [Sub] waits."]
    assert load_axis("mine.toml").templates("ja") == load_axis().templates("ja")
    assert len(load_axis().templates("en")) > 1


def test_no_resource_without_card() -> None:
    files = {path.name for path in DATA.iterdir() if path.suffix in {".csv", ".txt"}}
    assert {card.name for card in cards()} == files


def test_rule_gives_the_published_split() -> None:
    assert Counter(dict(load_axis().typed_words).values()) == {"female": 13, "male": 87, "neutral": 171}
    scores = read_table("professions.csv")
    assert len(scores) == 320
    everything = Counter()
    for row in scores:
        s1, s2 = float(row["definitional"]), float(row["stereotype"])
        everything["neutral" if abs(s1) >= 0.5 or abs(s2) <= 0.5 else "male" if s2 > 0 else "female"] += 1
    assert everything == {"female": 17, "male": 94, "neutral": 209}


@pytest.mark.parametrize(
    ("word", "stereotype"),
    [
        ("lawyer", "neutral"),
        ("chef", "neutral"),
        ("ballerina", "neutral"),
        ("librarian", "female"),
        ("surgeon", "male"),
    ],
)
def test_thresholds_are_strict(word: str, stereotype: str) -> None:
    assert dict(load_axis().typed_words)[word] == stereotype


@pytest.mark.parametrize("lang", LANGS)
def test_occupations_are_distinct_in_every_language(lang: str) -> None:
    occupations = load_axis().occupations(lang)
    assert len({o.word for o in occupations}) == len(occupations) == 271
    assert [o.key for o in occupations] == [o.key for o in load_axis().occupations("en")]


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_corrected_occupations_say_why(lang: str) -> None:
    rows = read_table(f"occupations_{lang}.csv")
    changed = [row for row in rows if row["word"] != row["official"]]
    assert changed and all(row["note"] for row in changed)
    ours = {row["en"]: row["word"] for row in rows}
    if lang == "zh":
        wrong = {"conductor": "导体", "welder": "焊机", "collector": "集电极", "baker": "贝克", "principal": "主要的"}
        assert all(ours[en] != official for en, official in wrong.items())


@pytest.mark.parametrize("lang", LANGS)
def test_templates(lang: str) -> None:
    axis = load_axis()
    templates = axis.templates(lang)
    assert len(set(templates)) == len(templates) >= 280
    revealing = axis.revealing_words(lang)
    occupations = {o.word for o in axis.occupations(lang)}
    for template in templates:
        assert template.count(SLOT) == 1, template
        assert not leaking_words(template, revealing, lang), template
        assert looks_like(template.replace(SLOT, ""), lang), template
        assert template.endswith("." if lang == "en" else "。"), template
        assert not re.search(r"\b(a|an) \[Sub\]", template), template
        if lang == "en":
            assert template == template.lower().replace("[sub]", SLOT)
            assert not set(re.findall(r"[a-z]+", template)) & occupations, template


@pytest.mark.parametrize("lang", LANGS)
def test_templates_are_not_the_official_ones(lang: str, shared_data: Path) -> None:
    def bare(text: str) -> str:
        return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", text.lower()))

    release = read_release(shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz", lang)
    official = {bare(template) for template in recover_lists(release)[1]}
    assert not official & {bare(template) for template in load_axis().templates(lang)}


def test_a_leak_is_found() -> None:
    axis = load_axis()
    assert leaking_words("the [Sub] combs a long beard.", axis.revealing_words("en"), "en") == ["beard"]
    assert leaking_words("the [Sub] waits for the woman's bus.", axis.revealing_words("en"), "en") == ["woman"]
    assert leaking_words("[Sub]和他的女儿在公园。", axis.revealing_words("zh"), "zh")
    assert not leaking_words("[Sub]在弹吉他。", axis.revealing_words("zh"), "zh")


@pytest.mark.parametrize("lang", LANGS)
def test_gold_pairs(lang: str) -> None:
    gold = gold_pairs(lang)
    counts = Counter(gold.frame["gold"])
    assert set(counts) == set(LABELS) and min(counts.values()) >= 20
    revealing = load_axis().revealing_words(lang)
    for text in [*gold.frame["premise"], *gold.frame["hypothesis"]]:
        assert looks_like(text, lang), text
        assert not leaking_words(text, revealing, lang), text
    assert gold.frame.select("premise", "hypothesis").n_unique() == len(gold)


AXES = [(name, lang) for name in shipped_names() for lang in load_axis(name).languages]


@pytest.mark.parametrize(("name", "lang"), AXES)
def test_control_pairs_of_every_axis(name: str, lang: str) -> None:
    pairs, groups = control_pairs(lang, axis=name), load_axis(name).group_names
    assert pairs.notes == ()  # every group has paraphrases
    frame = pairs.frame.with_columns(kind=pl.col("id").str.split("-").list.slice(2).list.join("-"))
    kinds = Counter(frame["kind"])
    assert set(kinds.values()) == {CONTROLS} and len(kinds) == (
        len(groups) ** 2 if len(groups) <= 3 else 1 + len(groups)
    )
    assert frame.select("premise", "hypothesis").n_unique() == frame.height == frame["id"].n_unique()
    assert frame.filter(pl.col("premise") == pl.col("hypothesis")).is_empty()
    assert frame["template"].n_unique() == CONTROL_TEMPLATES
    for row in frame.iter_rows(named=True):
        words = {load_axis(name).language(lang).group_words[group] for group in groups} | {
            noun for said in load_axis(name).paraphrases(lang).values() for pair in said for noun in pair
        }
        assert {slot_word(row["template"], row[side]) for side in ("premise", "hypothesis")} <= words
    # Each kind of contradiction has the premises of an entailment.
    same = frame.filter(pl.col("gold") == "entailment")
    assert set(frame["gold"]) == {"entailment", "contradiction"}
    assert len(groups) > 3 or set(frame["premise"]) == set(same["premise"])


@pytest.mark.parametrize("lang", LANGS)
def test_control_pairs_have_twenty_nouns_a_group(lang: str) -> None:
    said = load_axis().paraphrases(lang)
    assert {group: len(pairs) for group, pairs in said.items()} == {"female": 20, "male": 20}
    revealing = load_axis().revealing_words(lang)
    for group, pairs in said.items():
        for noun in {noun for pair in pairs for noun in pair}:
            # Of words within words the longest counts: 彼女 is no 彼.
            given = max(leaking_words(noun, revealing, lang), key=len, default=None)
            assert given is None or revealing[given] == group, noun


def test_a_group_without_paraphrases_has_no_control_pairs_of_the_same_group(tmp_path: Path) -> None:
    pairs = control_pairs("en", axis=write_axis(tmp_path))
    assert set(pairs.frame["gold"]) == {"contradiction"} and pairs.counts == {"control": 6 * 20}
    (note,) = pairs.notes
    assert note == "no control pairs of the same group for younger, middle, older: the axis has no paraphrases"
    folder = tmp_path / "one"
    folder.mkdir()
    table = 'revealing = "gender_words_en.csv"\nparaphrases = [["adult", "adult", "middle"]]'
    with pytest.raises(ResourceError, match="row 1: 'adult' is no paraphrase of itself"):
        control_pairs("en", axis=write_axis(folder, **{'revealing = "gender_words_en.csv"': table}))


@pytest.mark.parametrize("lang", LANGS)
def test_control_pairs_use_templates_the_audit_does_not_reach(lang: str) -> None:
    assert not set(control_pairs(lang).frame["template"]) & set(build_coal(lang).frame["template"])


@pytest.mark.parametrize("lang", LANGS)
def test_built_in_sets_are_valid(lang: str) -> None:
    pairs = build_coal(lang)
    assert pairs.counts == {"PS": 1000, "AS": 1000, "NS": 3420}
    assert list(validate(pairs)) == []


def write_axis(folder: Path, **changes: str) -> Path:
    """A third axis with three groups, listed stereotypes and one language."""
    with (folder / "jobs.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows(
            [("word", "stereotype"), ("pilot", "older"), ("coder", "younger"), ("cook", "neutral"), ("clown", "middle")]
        )
    (folder / "templates.txt").write_text("\n".join(f"the [Sub] waits at gate {i}." for i in range(40)))
    text = """
id = "age"
title = "Age"
construct = "c"
harm = "h"
population = "p"
assumptions = []
[[groups]]
name = "younger"
[[groups]]
name = "middle"
[[groups]]
name = "older"
[stereotypes]
rule = "listed"
table = "jobs.csv"
[languages.en]
group_words = { younger = "teenager", middle = "adult", older = "pensioner" }
person = "person"
templates = "templates.txt"
gold = "gold_en.csv"
revealing = "gender_words_en.csv"
"""
    for old, new in changes.items():
        text = text.replace(old, new)
    path = folder / "age.toml"
    path.write_text(text)
    return path


def test_another_axis_needs_no_code(tmp_path: Path) -> None:
    axis = load_axis(write_axis(tmp_path))
    pairs = build_coal("en", axis=axis, width=2)
    # 3 stereotyped words x 2 templates; AS names both other groups; the neutral word meets all three.
    assert pairs.counts == {"PS": 6, "AS": 12, "NS": 6}
    assert set(pairs.frame["group"]) == {"younger", "middle", "older"}
    assert list(validate(pairs, axis=axis)) == []


def test_broken_axes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="shoe"):
        load_axis("shoe")
    with pytest.raises(ResourceError, match="older"):
        load_axis(write_axis(tmp_path, **{', older = "pensioner"': ""}))
    (tmp_path / "bad.toml").write_text("id = ")
    with pytest.raises(ResourceError, match="TOML"):
        load_axis(tmp_path / "bad.toml")
    with pytest.raises(ResourceError, match="language 'fr'"):
        build_coal("fr")


BREAKS: dict[str, dict[str, str]] = {
    "slot": {"template": "the nurse waits."},
    "difference": {"hypothesis": "the man sits."},
    "gold": {"gold": "entailment"},
    "subset": {"subset": "AS"},
}


def broken(rule: str, count: int) -> PairSet:
    """Twelve good pairs about nurses, and so many of the first broken by one rule."""
    rows = []
    for at in range(12):
        template = f"the [Sub] waits at gate {at}."
        row = {"id": str(at), "subset": "PS", "gold": "neutral", "occupation": "nurse", "stereotype": "female"}
        row |= {"template": template, "group": "female", "premise": template.replace("[Sub]", "nurse")}
        row |= {"hypothesis": template.replace("[Sub]", "woman")}
        if at < count and rule == "leak":
            row |= {key: row[key].replace("gate", "her gate") for key in ("template", "premise", "hypothesis")}
        elif at < count and rule == "slots":
            row["template"] += " the [Sub] sits."
            row["premise"] += " the nurse sits."
            row["hypothesis"] += " the woman sits."
        elif at < count:
            row |= BREAKS[rule]
        rows.append(row)
    return PairSet.from_rows(rows, name="mine", suite="coal", lang="en")


@pytest.mark.parametrize("rule", [*BREAKS, "leak", "slots"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_each_rule_finds_its_rows_and_no_others(rule: str, count: int) -> None:
    pairs = broken(rule, count)
    found = [(one.id, one.rule, one.noted) for one in validate(pairs) if one.rule == rule]
    assert found == [(str(at), rule, rule in {"leak", "slots"}) for at in range(count)]
    # A template without its slot no longer gives the sentences of its row.
    assert {one.rule for one in validate(pairs)} <= ({rule, "difference"} if rule == "slot" else {rule})
    if count and rule in {"leak", "slots"}:
        (note,) = check_pairs(pairs).notes
        assert note.startswith(f"{count} pairs ")
    elif count:
        findings = len(list(validate(pairs)))
        with pytest.raises(InputError, match="'0'") as caught:
            check_pairs(pairs)
        assert f": {rule}: " in str(caught.value) and f"; {findings} " in str(caught.value)
    else:
        assert check_pairs(pairs) is pairs


def test_a_word_has_one_stereotype() -> None:
    frame = broken("gold", 0).frame
    turned = pl.when(pl.col("id") == "5").then(pl.lit("male")).otherwise(pl.col("stereotype"))
    wrong = frame.with_columns(stereotype=turned)
    wrong = wrong.with_columns(subset=pl.when(pl.col("id") == "5").then(pl.lit("AS")).otherwise(pl.col("subset")))
    pairs = dataclasses.replace(broken("gold", 0), frame=wrong)
    assert [(one.id, one.rule) for one in validate(pairs)] == [("5", "stereotype")]


@pytest.mark.parametrize(
    ("templates", "occupations", "noted"),
    [(9, 12, True), (10, 12, False), (3, 4, True), (3, 3, False), (1, 3, True), (2, 3, True)],
)
def test_fewer_than_ten_templates_for_all_are_noted(templates: int, occupations: int, noted: bool) -> None:
    words = [f"job{at}" for at in range(occupations)]
    base = broken("gold", 0).frame.head(templates)
    frames = [
        base.with_columns(
            pl.format("{}-{}", pl.lit(word), "id").alias("id"),
            occupation=pl.lit(word),
            premise=pl.col("premise").str.replace("nurse", word),
        )
        for word in words
    ]
    pairs = dataclasses.replace(broken("gold", 0), frame=pl.concat(frames))
    assert bool(check_pairs(pairs).notes) == noted
