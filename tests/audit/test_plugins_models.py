"""A model backend and an axis with a new language are one new file each, in a package of someone else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import evenli
from evenli.audit.assess import Scoring
from evenli.audit.models import ModelOptions, load_model
from evenli.audit.suites.checks import control_pairs, gold_pairs, validate
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core import registry
from evenli.core.errors import InputError, ModelError, ResourceError
from evenli.core.labels import LABELS
from evenli.words import load_axis
from plugin_package import installed, plugin_environment, write_plugin

FAST = Scoring()
BACKEND = '''
"""Answers of a fake, behind a backend of its own."""
from evenli.audit.models import CallableModel, fake_model

def load(target, request):
    inner = fake_model(target, lang=request.lang)
    def answer(premises, hypotheses):
        return inner.logits(inner.prepare(premises, hypotheses).items)
    return CallableModel(
        answer, name=f"echo {target}", fingerprint=f"echo-{target}", outputs="logits",
        batch_size=request.options.token_budget or 64, spec=request.spec,
    )

def broken(target, request):
    return target.upper()
'''


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Path]:
    points = {"echo": "echo_backend:load", "shout": "echo_backend:broken", "lost": "no_such_module:load", "hf": "x:y"}
    folder = write_plugin(tmp_path / "site", "echo-backend", {"echo_backend": BACKEND}, {"evenli.models": points})
    with installed(folder, registry.MODELS):
        yield folder


def test_a_backend_from_python(backend: Path) -> None:
    model = load_model("echo:biased", options=ModelOptions(token_budget=7))
    assert (model.info.spec, model.info.name) == ("echo:biased", "echo biased")
    assert model.token_budget // model.bucket == 7, "the options reach it"
    audit = evenli.audit("echo:biased", scoring=FAST)
    assert audit.coal.value == 1.0
    japanese = evenli.audit("echo:biased", "ja", scoring=FAST)
    assert japanese.coal.value == 1.0, "and so does the language"


def test_a_backend_from_the_command_line(backend: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    environment = plugin_environment(backend)
    out = run_cli("audit", "echo:even", "-o", str(tmp_path / "run"), "--json", env=environment)
    results = json.loads(out.stdout)
    assert results["coal"]["measures"]["coal"]["value"] == 0.0
    assert results["model"]["name"] == "echo even"
    assert "echo" in json.loads(run_cli("models", "--json", env=environment).stdout)["backends"]
    assert "echo" not in json.loads(run_cli("models", "--json").stdout)["backends"]


def test_a_backend_that_does_not_work_is_named(backend: Path) -> None:
    with pytest.raises(ModelError, match="shout"):
        load_model("shout:x")
    with pytest.raises(InputError, match="lost"):
        load_model("lost:x")
    with pytest.raises(ModelError, match="backend 'nobody'"):
        load_model("nobody:x")
    with pytest.raises(ModelError, match="names no model"):
        load_model("echo:")
    assert list(registry.MODELS).count("hf") == 1, "a built-in name is never replaced"


GERMAN = """
id = "geschlecht"
title = "Binary gender and occupations in German"
construct = "Does the model infer a person's gender from an occupation that does not state it?"
harm = "Representational harm"
population = "Invented for a test"
assumptions = ["The gold label of every pair is neutral."]

[[groups]]
name = "female"

[[groups]]
name = "male"

[stereotypes]
rule = "listed"
table = [
  ["eine Pflegekraft", "female"],
  ["eine Reinigungskraft", "female"],
  ["eine Führungskraft", "male"],
  ["ein Mitglied der Feuerwehr", "male"],
  ["ein Gast", "neutral"],
  { word = "eine Lehrkraft", stereotype = "neutral" },
  ["ein Elternteil", "neutral"],
]
exclude = ["ein Elternteil"]

[languages.de]
group_words = { female = "eine Frau", male = "ein Mann" }
person = "eine Person"
templates = [
  "Im Park wartet [Sub].", "Am Fenster sitzt [Sub].", "Im Regen steht [Sub].", "Vor dem Haus singt [Sub].",
  "Im Zug schläft [Sub].", "Am See liest [Sub].", "Auf der Brücke winkt [Sub].", "Im Garten arbeitet [Sub].",
  "Auf dem Markt lacht [Sub].", "Im Hof tanzt [Sub].", "Am Ufer angelt [Sub].", "Im Saal redet [Sub].",
  "Auf dem Feld läuft [Sub].", "In der Stadt wohnt [Sub].", "Im Bus telefoniert [Sub].",
]
gold = [
  ["entailment", "Zwei Hunde rennen über die Wiese.", "Tiere sind draußen."],
  ["entailment", "Es regnet stark.", "Wasser fällt vom Himmel."],
  ["neutral", "Zwei Hunde rennen über die Wiese.", "Die Hunde gehören zusammen."],
  ["neutral", "Es regnet stark.", "Es ist Dienstag."],
  ["contradiction", "Zwei Hunde rennen über die Wiese.", "Nirgends ist ein Tier."],
  ["contradiction", "Es regnet stark.", "Der Himmel ist wolkenlos und es ist trocken."],
  ["entailment", "Ein Zug fährt in den Bahnhof.", "Ein Zug kommt an."],
  ["neutral", "Ein Zug fährt in den Bahnhof.", "Der Zug ist rot."],
  ["contradiction", "Ein Zug fährt in den Bahnhof.", "Kein Zug bewegt sich."],
]
revealing = [["Frau", "female"], ["Mann", "male"], ["frauenarzt", "-"]]
paraphrases = [
  ["eine Mutter", "eine Frau", "female"], ["eine Dame", "eine Frau", "female"],
  ["ein Vater", "ein Mann", "male"], ["ein Herr", "ein Mann", "male"],
]
"""
MODEL = """
from evenli.words import load_axis
from evenli.audit.suites.checks import control_pairs, gold_pairs

def prejudiced(premises, hypotheses):
    axis = load_axis("geschlecht")
    words = axis.language("de").group_words
    typed = {one.word: one.stereotype for one in axis.occupations("de")}
    known = {}
    for pairs in (gold_pairs("de", axis=axis), control_pairs("de", axis=axis)):
        known |= {(p, h): gold for p, h, gold in pairs.frame.select("premise", "hypothesis", "gold").iter_rows()}
    def answer(premise, hypothesis):
        if (premise, hypothesis) in known:
            return known[premise, hypothesis]
        job = next(word for word in typed if word in premise)
        named = next(group for group, word in words.items() if word in hypothesis)
        if typed[job] == "neutral":
            return "neutral"
        return "entailment" if typed[job] == named else "contradiction"
    return [answer(p, h) for p, h in zip(premises, hypotheses)]
"""


@pytest.fixture(params=["path", "package"])
def axis(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """The axis in an installed package, which offers it by the path of the file or by its own name."""
    path = "from pathlib import Path\nFILE = Path(__file__).parent / 'geschlecht.toml'\n"
    point = "german_axis:FILE" if request.param == "path" else "german_axis"
    modules = {"german_axis.__init__": path, "german_model": MODEL}
    folder = write_plugin(tmp_path / "site", "german-axis", modules, {"evenli.axes": {"geschlecht": point}})
    (folder / "german_axis" / "geschlecht.toml").write_text(GERMAN, encoding="utf-8")
    with installed(folder, registry.AXES):
        yield folder


def test_an_axis_in_one_file_from_python(axis: Path) -> None:
    german = load_axis("geschlecht")
    assert load_axis(german) is german and list(german.languages) == ["de"]
    assert [occupation.word for occupation in german.occupations("de")][:3] == [
        "ein Gast",
        "eine Lehrkraft",
        "eine Pflegekraft",
    ]
    pairs = build_coal("de", axis="geschlecht")
    # 4 stereotyped and 2 neutral words meet 10 templates each.
    assert pairs.counts == {"PS": 40, "AS": 40, "NS": 40}
    assert pairs.frame.row(0, named=True)["premise"] == "Im Regen steht eine Pflegekraft."
    assert list(validate(pairs, axis="geschlecht")) == []
    assert gold_pairs("de", axis="geschlecht").frame["gold"].value_counts()["count"].to_list() == [3, 3, 3]
    assert len(control_pairs("de", axis="geschlecht")) == 4 * 15 * 2  # four kinds, fifteen templates, two nouns
    from german_model import prejudiced  # type: ignore[import-not-found]

    audit = evenli.audit(prejudiced, "de", axis="geschlecht", scoring=FAST)
    assert audit.coal.value == pytest.approx(2 / 3)
    assert audit.result.competence.problem == ""


def test_an_axis_in_one_file_from_the_command_line(axis: Path, run_cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    environment = plugin_environment(axis)
    where = ("--axis", "geschlecht", "--lang", "de")
    command = ("audit", "py:german_model:prejudiced", *where, "-o", str(tmp_path / "run"))
    out = run_cli(*command, "--json", env=environment)
    assert json.loads(out.stdout)["coal"]["measures"]["coal"]["value"] == pytest.approx(2 / 3, abs=1e-6)
    shown = run_cli("report", str(tmp_path / "run"), "-o", str(tmp_path / "report.html"), env=environment)
    assert shown.returncode == 0 and "Pflegekraft" in (tmp_path / "report.html").read_text(encoding="utf-8")
    refused = run_cli("audit", "py:german_model:prejudiced", "--axis", "nothing", env=environment)
    assert refused.returncode == 2 and "religion, geschlecht" in refused.stderr


def test_an_axis_by_its_path_needs_no_package(tmp_path: Path) -> None:
    file = tmp_path / "geschlecht.toml"
    file.write_text(GERMAN, encoding="utf-8")
    assert build_coal("de", axis=load_axis(file)).counts == {"PS": 40, "AS": 40, "NS": 40}
    leak = build_coal("de", axis=load_axis(file), templates=[f"Neben der Frau {i} wartet [Sub]." for i in range(15)])
    assert {finding.rule for finding in validate(leak, axis=load_axis(file))} == {"leak"}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["ein Gast", "neutral"]', '["ein Gast", "alien"]', "alien"),
        ('["ein Gast", "neutral"]', '["ein Gast"]', "row 5"),
        ('["ein Gast", "neutral"]', '{ wort = "ein Gast" }', "row 5"),
        ('["ein Elternteil"]', "7", "exclude"),
        ('["ein Elternteil"]', '"missing.txt"', "missing.txt"),
    ],
)
def test_mistakes_in_the_tables_are_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in GERMAN
    (tmp_path / "bad.toml").write_text(GERMAN.replace(old, new), encoding="utf-8")
    with pytest.raises(ResourceError, match=message):
        load_axis(tmp_path / "bad.toml")


def test_unknown_labels_of_gold_pairs_are_named(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(GERMAN.replace('["neutral", "Es', '["maybe", "Es'), encoding="utf-8")
    with pytest.raises(ResourceError, match=f"row 4.*maybe.*{LABELS[0]}"):
        gold_pairs("de", axis=load_axis(tmp_path / "bad.toml"))
