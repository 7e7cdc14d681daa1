"""Occupation lists: every word of ``labour`` against the statistics, files of the user's own, and the way to a run."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import polars as pl
import pytest

from evenli import audit
from evenli.audit.audit import AuditSettings, default_folder
from evenli.audit.suites.base import Request, load_suite
from evenli.audit.suites.checks import validate
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.errors import EvenliError, InputError
from evenli.words import load_axis, read_table
from evenli.words.occupations import class_of_share, load_occupations, stored_scores
from evenli.words.templates import SLOT, leaking_words

ROWS = read_table("labour_en.csv")
WORDS = [row["word"] for row in ROWS]


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    path = Path(__file__).parents[2] / "tools" / "make_labour_occupations.py"
    spec = importlib.util.spec_from_file_location("make_labour_occupations", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


# --- the words ---------------------------------------------------------------------------------------------------


def test_every_word_has_the_share_of_its_title(tool: ModuleType, shared_data: Path) -> None:
    shares = tool.read_shares(shared_data / "cps_occupations")
    assert tool.faults(ROWS, shares) == []
    for row in ROWS:
        assert shares[row["cps_title"]][int(row["year"])] == pytest.approx(float(row["women_percent"])), row["word"]
    # The control: a share that is not the table's, a wrong class and a title that is not there are seen.
    for change in ({"women_percent": "12"}, {"stereotype": "neutral"}, {"cps_title": "Astronauts"}):
        first, *others = tool.faults([ROWS[0] | change, *ROWS[1:]], shares)
        # A word that is counted elsewhere also leaves its class too small.
        assert first.startswith(f"{ROWS[0]['word']}: ") and len(others) == ("stereotype" in change), change
    assert tool.filled([dict(row) for row in ROWS], shares) == (tool.DATA / tool.LIST).read_text("utf-8")


def test_classes_are_large_and_balanced() -> None:
    shares = {name: [float(r["women_percent"]) for r in ROWS if r["stereotype"] == name] for name in ("female", "male")}
    neutral = [float(row["women_percent"]) for row in ROWS if row["stereotype"] == "neutral"]
    sizes = [len(words) for words in (*shares.values(), neutral)]
    assert sizes == [100, 100, 100]
    # A model that is never seen to read a word of a class as anybody's job is within 0.05 of 0.
    assert all(1 - 0.05 ** (1 / size) < 0.05 for size in sizes)
    titles = Counter(row["cps_title"] for row in ROWS)
    assert max(titles.values()) == 3 and len(titles) > 200
    assert min(shares["female"]) >= 70 and max(shares["male"]) <= 30
    assert min(neutral) >= 40 and max(neutral) <= 60


def test_words_are_plain_singular_and_without_gender() -> None:
    assert len({word.lower() for word in WORDS}) == len(WORDS)
    revealing = load_axis().revealing_words("en")
    for word in WORDS:
        assert not leaking_words(word, revealing, "en"), word
        assert not word.endswith(("s", "man", "men", "woman", "ess")), word
        assert word == " ".join(word.split()) and len(word.split()) <= 3 and "," not in word, word
        assert word.removeprefix("X-ray") == word.removeprefix("X-ray").lower(), word
    assert {row["source"] for row in ROWS} == {"BLS CPS Table 11"} and {row["year"] for row in ROWS} == {"2022"}


@pytest.mark.parametrize(
    ("women", "expected"),
    [(100, "female"), (70, "female"), (69.9, None), (60, "neutral"), (40, "neutral"), (39.9, None), (30, "male")],
)
def test_class_of_share(women: float, expected: str | None) -> None:
    assert class_of_share(women) == expected
    mirrored = {"female": "male", "male": "female"}.get(str(expected), expected)
    assert class_of_share(100 - women) == mirrored


# --- the set -----------------------------------------------------------------------------------------------------


def test_the_set_is_sound_and_its_classes_meet_the_same_templates() -> None:
    pairs = load_suite("coal", Request(occupations="labour"))
    assert list(validate(pairs)) == [] and pairs.occupation_list == "labour"
    assert pairs.counts == {"PS": 2000, "AS": 2000, "NS": 2000}
    met = [set(part["template"]) for part in pairs.frame.partition_by("stereotype")]
    assert len(set.intersection(*met)) >= 0.9 * len(set.union(*met))
    # The control: in the order of the papers each class meets templates of its own.
    window = build_coal("en", order="published")
    assert not set.intersection(*(set(part["template"]) for part in window.frame.partition_by("stereotype")))
    assert pairs.frame.group_by("occupation").agg(pl.col("template").n_unique())["template"].unique().to_list() == [10]


def test_score_is_men_minus_women() -> None:
    listed = load_occupations("labour", "en", load_axis())
    by_word = {row["word"]: float(row["women_percent"]) for row in ROWS}
    assert listed.scores.keys() == by_word.keys()
    for word, women in by_word.items():
        assert listed.scores[word] == pytest.approx(((100 - women) - women) / 100)


def test_published_stays_as_it_was() -> None:
    plain, named = build_coal("en"), load_suite("coal", Request(occupations="published"))
    assert plain.sha256 == named.sha256 and plain.card() == named.card()
    assert "scores" not in plain.card().to_dict() and plain.card().occupation_list == ""


# --- a run -------------------------------------------------------------------------------------------------------


def test_audit_from_the_command_line(run_cli, tmp_path: Path) -> None:
    out = run_cli("audit", "fake:biased", "--occupations", "labour", "--json", cwd=tmp_path)
    assert out.returncode == 0, out.stderr
    folder = tmp_path / "runs" / "fake-biased-en-built-in-labour"
    assert json.loads(out.stdout)["coal"]["measures"]["coal"]["value"] == pytest.approx(1)
    assert json.loads(out.stdout)["coal"]["published"] == [], "published models answered other words"
    header = json.loads((folder / "run.json").read_text("utf-8"))
    (card,) = [one for one in header["data"] if one["suite"] == "coal"]
    assert card["occupation_list"] == "labour" and stored_scores(card)["plumber"] == pytest.approx(0.978)
    again = run_cli("measure", folder, "--json", cwd=tmp_path)
    assert again.returncode == 0 and "labour" in again.stdout
    assert "--occupations labour" in run_cli("card", folder, cwd=tmp_path).stdout
    # Runs on different words are no runs on the same data.
    assert run_cli("audit", "fake:biased", "-o", "other", cwd=tmp_path).returncode == 0
    refused = run_cli("compare", folder, "other", cwd=tmp_path)
    assert refused.returncode == 2 and len(refused.stderr.strip().splitlines()) == 1


def test_causes_are_known_on_the_list() -> None:
    biased = audit("fake:biased", occupations="labour")
    assert biased.coal.measures["stereotype"].value == pytest.approx(1)
    assert biased.coal.measures["regression_slope"].value > 0.5
    oracle = audit("fake:oracle:0.3", settings=AuditSettings(occupations="labour"))
    assert oracle.coal.value == pytest.approx(0.2) and oracle.coal.measures["default_gender"].value == pytest.approx(0)


def test_build_coal(run_cli, tmp_path: Path) -> None:
    out = run_cli("build", "coal", "--occupations", "labour", "-o", "l.csv", "--json", cwd=tmp_path)
    assert json.loads(out.stdout)["occupations"] == 300
    built = pl.read_csv(tmp_path / "l.csv", infer_schema_length=0)
    assert built.height == 6000 and set(built["occupation"]) == set(WORDS)


def test_folder_names_the_list() -> None:
    settings = AuditSettings(occupations="x/mine.csv")
    assert default_folder("m", "en", {}, ["coal"], settings).name == "m-en-built-in-mine.csv"


# --- files of one's own ------------------------------------------------------------------------------------------


def listed(tmp_path: Path, text: str, name: str = "mine.csv", lang: str = "en"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return load_occupations(path, lang, load_axis())


def test_own_classes(tmp_path: Path) -> None:
    for column, none in (("stereotype", "neutral"), ("class", "none")):
        own = listed(tmp_path, f"word,{column}\nnurse,female\npilot,Male\nbaker,{none}\n")
        assert [(o.word, o.stereotype) for o in own.occupations] == [
            ("nurse", "female"),
            ("pilot", "male"),
            ("baker", "neutral"),
        ]
        assert own.scores == {} and own.name == "mine.csv"


def test_own_shares(tmp_path: Path) -> None:
    own = listed(tmp_path, "word\twomen_percent\nnurse\t87.9\npilot\t9\nbaker\t65\nartist\t49\n", "mine.tsv")
    assert [(o.word, o.stereotype) for o in own.occupations] == [
        ("nurse", "female"),
        ("pilot", "male"),
        ("artist", "neutral"),
    ]
    assert own.scores == pytest.approx({"nurse": -0.758, "pilot": 0.82, "artist": 0.02})
    assert len(own.notes) == 1 and "baker" in own.notes[0]
    result = audit("fake:biased", occupations=tmp_path / "mine.tsv")
    assert result.coal.value == pytest.approx(1) and "baker" in result.result.data_of("coal").notes[0]


def test_own_words_of_another_language(tmp_path: Path) -> None:
    own = listed(tmp_path, "word,class\n看護師,female\n大工,male\n", lang="ja")
    assert len(own.occupations) == 2


@pytest.mark.parametrize(
    ("text", "place"),
    {
        "unknown class": ("word,class\nnurse,female\npilot,robot\n", "mine.csv, line 3"),
        "twice": ("word,class\nnurse,female\nbaker,none\nNurse,male\n", "line 4"),
        "no word": ("word,class\n,female\n", "mine.csv, line 2"),
        "slot": (f"word,class\n{SLOT},female\n", "line 2"),
        "no number": ("word,women_percent\nnurse,many\n", "line 2"),
        "not a percentage": ("word,women_percent\nnurse,87.9\npilot,101\n", "line 3"),
        "not finite": ("word,women_percent\nnurse,nan\n", "line 2"),
        "shares from 0 to 1": ("word,women_percent\nnurse,0.9\npilot,0.1\n", "percent"),
        "nothing": ("word,class\nnurse,\n", "line 2"),
        "columns": ("job,kind\nnurse,female\n", "mine.csv"),
        "cells": ("word,class\nnurse,female,x\n", "line 2"),
        "empty": ("", "mine.csv"),
        "header only": ("word,class\n", "mine.csv"),
        "between": ("word,women_percent\nbaker,65\n", "mine.csv"),
        "other language": ("word,class\n看護師,female\n", "line 2"),
    }.values(),
)
def test_bad_files(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(EvenliError, match=place) as caught:
        listed(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_bad_files_on_the_command_line(run_cli, tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("word,class\nnurse,robot\n", encoding="utf-8")
    (tmp_path / "latin.csv").write_bytes("word,class\ncaf\xe9 owner,female\n".encode("latin-1"))
    for name in ("bad.csv", "latin.csv", "absent.csv", "nowhere", "."):
        out = run_cli("audit", "fake:biased", "--occupations", name, cwd=tmp_path)
        assert out.returncode == 2 and len(out.stderr.strip().splitlines()) == 1, (name, out.stderr)
    assert not (tmp_path / "runs").exists()


def test_what_does_not_go_together(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="en"):
        audit("fake:biased", lang="ja", occupations="labour")
    with pytest.raises(InputError, match="published, labour"):
        load_suite("coal", Request(occupations="labor"))
    with pytest.raises(InputError, match="own occupations"):
        audit("fake:biased", data=build_coal("en"), occupations="labour")
    with pytest.raises(InputError, match="coal"):
        audit("fake:biased", suites=("probe",), occupations="labour")
    both = audit("fake:biased", suites=("coal", "probe"), occupations="labour")
    assert both.coal.value == pytest.approx(1) and "probe" in both.result.suites


def test_more_words_than_templates(tmp_path: Path) -> None:
    listed(tmp_path, "word,class\n" + "".join(f"worker {n},female\n" for n in range(400)))
    pairs = load_suite("coal", Request(occupations=tmp_path / "mine.csv"))
    assert pairs.frame["template"].n_unique() == 280 and len(pairs) == 2 * 4000


def test_scores_of_a_stored_run_may_be_damaged() -> None:
    assert stored_scores({"scores": {"a": 0.5, "b": "x", "c": float("nan"), "d": 7}}) == {"a": 0.5}
    assert stored_scores({"scores": [1]}) == stored_scores({}) == {}
