"""Training templates: composed scenes read as one sentence each."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from evenli.audit.suites.coal.pairs import read_release
from evenli.core.errors import InputError, ResourceError
from evenli.training.meta.captions import templates_from_captions
from evenli.words import load_axis, read_table
from evenli.words.scenes import compose_templates, read_scenes, template_key
from evenli.words.templates import SLOT, leaking_words, looks_like
from studies.ledger.official import recover_lists

LANGS = ("en", "ja", "zh")
RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}
NEEDED = 529 + 109
"""Train chain (30 words, width 500) and dev/test chain (two windows of 30 words, width 50)."""
PER_SCENE = 6 * 4 * 3 + 6 * 4 + 6 * 3
"""Activity with place and detail, with place, with detail."""


def everything(lang: str) -> list[str]:
    return [template for templates in read_scenes(lang).values() for template in templates]


def scene_of(lang: str) -> dict[str, str]:
    return {template: scene for scene, templates in read_scenes(lang).items() for template in templates}


def official(shared_data: Path, lang: str) -> list[str]:
    return recover_lists(read_release(shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz", lang))[1]


@pytest.mark.parametrize("lang", LANGS)
def test_there_are_enough_and_no_two_are_alike(lang: str) -> None:
    scenes = read_scenes(lang)
    assert len(scenes) == 16 and {len(templates) for templates in scenes.values()} == {PER_SCENE}
    assert len({template_key(template) for template in everything(lang)}) == 16 * PER_SCENE >= 700
    assert len(compose_templates(lang, NEEDED)) == NEEDED
    # None is an evaluation template, so nothing is lost.
    assert sorted(compose_templates(lang, 16 * PER_SCENE)) == sorted(everything(lang))


@pytest.mark.parametrize("lang", LANGS)
def test_form(lang: str) -> None:
    axis = load_axis()
    revealing = axis.revealing_words(lang)
    occupations = {o.word for o in axis.occupations(lang) if len(o.word) > 1}
    for template in everything(lang):
        assert template.count(SLOT) == 1, template
        assert not leaking_words(template, revealing, lang), template
        assert looks_like(template.replace(SLOT, ""), lang), template
        if lang == "en":
            assert template == template.lower().replace("[sub]", SLOT)
            assert re.search(r"(^|[, ])the \[Sub\] ", template), template
            assert re.fullmatch(r"[^.]+\.", template) and "  " not in template, template
            assert 7 <= len(template.split()) <= 23, template
            assert not set(re.findall(r"[a-z]+", template)) & occupations, template
        else:
            assert re.fullmatch(r"[^。\s]+。", template), template
            assert 15 <= len(template) <= 50, template
            assert not [word for word in occupations if word in template], template


@pytest.mark.parametrize("lang", LANGS)
def test_parts_meet_in_every_way(lang: str) -> None:
    rows = [row for row in read_table(f"scenes_{lang}.csv") if row["scene"] == "library"]
    parts = {part: [row["text"] for row in rows if row["part"] == part] for part in ("activity", "place", "detail")}
    templates = read_scenes(lang)["library"]
    for activity in parts["activity"]:
        mine = [template for template in templates if activity in template]
        # 3 details or none for each place; 4 places and none for each detail.
        assert [sum(place in template for template in mine) for place in parts["place"]] == [4] * 4
        assert [sum(detail in template for template in mine) for detail in parts["detail"]] == [5] * 3


@pytest.mark.parametrize("lang", LANGS)
def test_none_is_an_evaluation_template(lang: str, shared_data: Path) -> None:
    composed = {template_key(template) for template in everything(lang)}
    assert not composed & {template_key(template) for template in load_axis().templates(lang)}
    assert not composed & {template_key(template) for template in official(shared_data, lang)}


@pytest.mark.parametrize("lang", LANGS)
def test_neighbours_show_different_scenes(lang: str) -> None:
    scenes = scene_of(lang)
    chain = [scenes[template] for template in compose_templates(lang, NEEDED)]
    assert not [pair for pair in pairwise(chain) if pair[0] == pair[1]]
    counts = Counter(chain)  # 638 = 39 rounds of 16 and 14 more
    assert len(counts) == 16 and set(counts.values()) == {39, 40}


def test_neighbours_differ_when_one_scene_is_larger_than_the_others() -> None:
    # 114 boats and two others: 3 runs at most, so 111 equal neighbours cannot be avoided.
    scenes = scene_of("en")
    others = [t for t in everything("en") if scenes[t] != "boat"]
    chain = [scenes[t] for t in compose_templates("en", PER_SCENE + 2, exclude=others[2:])]
    assert sum(a == b for a, b in pairwise(chain)) == PER_SCENE - 3
    # With half as many others as boats and one more, there is always one to put between.
    chain = [scenes[t] for t in compose_templates("en", 2 * PER_SCENE - 1, exclude=others[PER_SCENE - 1 :])]
    assert not [pair for pair in pairwise(chain) if pair[0] == pair[1]]


@pytest.mark.parametrize("lang", LANGS)
def test_seed_decides(lang: str) -> None:
    first = compose_templates(lang, 200, seed=3)
    assert first == compose_templates(lang, 200, seed=3) == compose_templates(lang, NEEDED, seed=3)[:200]
    assert first != compose_templates(lang, 200, seed=4)


def test_excluded_templates_stay_away() -> None:
    first = compose_templates("en", NEEDED)
    rest = compose_templates("en", NEEDED, exclude=[template.upper() for template in first])
    assert not set(first) & set(rest)


def test_too_many_are_refused_with_both_numbers() -> None:
    with pytest.raises(InputError, match="1825"):
        compose_templates("en", 1825)
    with pytest.raises(InputError, match="1800"):
        compose_templates("zh", 1800, exclude=everything("zh")[:38])


def write_axis(folder: Path, lang: str) -> Path:
    (folder / "words.csv").write_text("word,group\nbeard,older\nbackpack,younger\n")
    (folder / "jobs.csv").write_text("word,stereotype\ncook,neutral\n")
    (folder / "templates.txt").write_text("the [Sub] waits.\n")
    path = folder / f"age_{lang}.toml"
    path.write_text(f"""
id = "age"
title = "Age"
construct = "c"
harm = "h"
population = "p"
assumptions = []
groups = [{{ name = "younger" }}, {{ name = "older" }}]
[stereotypes]
rule = "listed"
table = "jobs.csv"
[languages.{lang}]
group_words = {{ younger = "teenager", older = "pensioner" }}
person = "person"
templates = "templates.txt"
gold = "gold_en.csv"
revealing = "words.csv"
""")
    return path


def test_another_axis_brings_its_own_words(tmp_path: Path) -> None:
    axis = load_axis(write_axis(tmp_path, "en"))
    # A backpack is carried in one activity of the train and one of the mountain scene.
    assert len(compose_templates("en", 1824 - 2 * PER_SCENE // 6, axis=axis)) == 1786
    assert not [t for t in compose_templates("en", 1786, axis=axis) if "backpack" in t]
    captions = tmp_path / "captions.txt"
    captions.write_text("a teenager rides a very old bicycle home.\na man and a pensioner share a wooden bench.\n")
    found = templates_from_captions(captions, "en", axis=axis)
    assert sorted(found.templates) == [
        "a man and the [Sub] share a wooden bench.",
        "the [Sub] rides a very old bicycle home.",
    ]


def test_a_language_without_scenes_points_to_captions(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="language 'fr'"):
        compose_templates("fr", 1, axis=load_axis(write_axis(tmp_path, "fr")))
    with pytest.raises(ResourceError, match="language 'fr'"):
        compose_templates("fr", 1)
