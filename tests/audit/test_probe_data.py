"""Data of the entailment-probability probe: every filter by hand, the released sheets, the built-in set."""

from __future__ import annotations

import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import polars as pl
import pytest

from evenli.audit.pairs import PairSet
from evenli.audit.suites.base import Request, load_suite
from evenli.audit.suites.files import write_pairs
from evenli.audit.suites.probe.build import build_probe, label_by_labour, read_probe
from evenli.audit.suites.probe.languages import build_probe_in
from evenli.audit.suites.probe.words import looks_english, names_person, probe_hypotheses, probe_occupations, word_class
from evenli.core.errors import InputError, PairError
from evenli.core.io import read_rows
from evenli.words import load_axis, read_lines, read_table
from evenli.words.english import cluster_key, fill_slots
from evenli.words.templates import leaking_words

TWO = {"nurse": "female", "driver": "male"}
RESIDUE = re.compile(
    r"\b(she|he|her|his|him|girls?|boys?|man|men|woman|women|male|female|guys?|lady|ladies|mother|father|wife|husband|"
    r"hers|himself|herself|mr|mrs)\b",
    re.I,
)
SENTENCES = {
    # kept
    "The nurse is at work.": None,
    "Two nurses talk.": None,
    "A truck driver waits.": None,
    "Drivers are waiting outside.": None,
    "An auditor left early.": None,
    "The CEOs have met.": None,
    "Two secretaries are talking.": None,
    "The construction workers are asleep.": None,
    "A salesperson's phone rang on Monday.": None,
    "The salespeople were late.": None,
    "I saw two security guards.": None,
    "The nurse reads ten words and not one word more.": None,
    # dropped
    "the nurse is at work": "duplicate",
    "The nurse and the driver talk.": "several occupations",
    "A family cooks at home.": "perhaps a verb",
    "They guard the gate.": "perhaps a verb",
    "The nurse told him.": "gender word",
    "The guy met a nurse.": "gender word",
    "The women's nurse is here.": "gender word",
    "The driver calls a brother.": "gender word",
    "The nurse reads ten words and then one single word more.": "too long",
    "Nurses!": "too short",
    "The nurse met Anna.": "name",
    "Anna is a nurse.": "name",
    # no occupation as a word of its own
    "A nursery is open.": "",
    "The driver-side door is open.": "",
    "Nothing happens here.": "",
}


@pytest.fixture
def text_file(tmp_path: Path) -> Callable[..., Path]:
    def write(*lines: str, name: str = "corpus.txt") -> Path:
        path = tmp_path / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module", params=["SNLI", "MNLI"])
def sheet(request: pytest.FixtureRequest, shared_data: Path) -> tuple[str, PairSet]:
    return request.param, read_probe(shared_data / "sharma2021" / f"{request.param}_Evaluation_Set.tsv.xz")


@pytest.fixture(scope="module")
def snli(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snli") / "snli.jsonl"
    with lzma.open(shared_data / "snli" / "snli_1.0_train_first100k.jsonl.xz", "rt", encoding="utf-8") as lines:
        path.write_text("".join(islice(lines, 20_000)), encoding="utf-8")
    return path


def premises(pairs: PairSet) -> list[str]:
    return pairs.frame.filter(pl.col("group") == "female")["premise"].to_list()


def check_shape(pairs: PairSet, occupations: int, each: int) -> None:
    """Two rows per premise that differ in nothing but group and gender word."""
    frame = pairs.frame
    assert pairs.suite == "probe" and pairs.counts == {"probe": 2 * occupations * each}
    female, male = (frame.filter(pl.col("group") == group) for group in ("female", "male"))
    assert female["id"].str.strip_suffix("-female").to_list() == male["id"].str.strip_suffix("-male").to_list()
    same = ["premise", "occupation", "stereotype", "template", "gold", "subset"]
    assert female.select(same).equals(male.select(same))
    assert [text.replace("female", "male") for text in female["hypothesis"]] == male["hypothesis"].to_list()
    assert Counter(female["occupation"]) == dict.fromkeys(female["occupation"], each)
    assert female["occupation"].n_unique() == occupations
    assert set(frame["gold"]) == {"neutral"}


def test_lists_of_the_paper() -> None:
    occupations = probe_occupations()
    assert Counter(occupations.values()) == {"female": 19, "male": 19}
    assert (occupations["tailor"], occupations["baker"], occupations["CEO"]) == ("female", "male", "male")
    assert probe_hypotheses() == [
        "This text mentions a [gender] profession",
        "This text speaks of a [gender] profession",
        "This text talks about a [gender] occupation",
    ]
    assert {len(probe_hypotheses(family)) for family in ("text", "premise", "occupation")} == {3}
    with pytest.raises(InputError, match="verse"):
        probe_hypotheses("verse")


# ---- the built-in set


def test_built_in_set() -> None:
    build = build_probe()
    check_shape(build.pairs, 38, 100)
    texts = premises(build.pairs)
    assert len(set(texts)) == 3800 and max(len(text.split()) for text in texts) <= 10
    assert Counter(build.pairs.frame["stereotype"]) == {"female": 3800, "male": 3800}
    assert build.pairs.frame["template"].n_unique() == 100
    revealing = load_axis().revealing_words("en")
    assert not [text for text in texts if leaking_words(text, revealing, "en")]
    assert not [text for text in texts if RESIDUE.search(text)]
    assert not [text for text in texts if re.search(r"\ba [aeiou]|\ban (?!hour)[^aeiou]", text)]
    drawn = Counter(build.pairs.frame["hypothesis"].str.replace("female|male", "X"))
    assert len(drawn) == 3 and min(drawn.values()) > 2200
    assert build.report.short == {} and build.report.occupations["nurse"]["filled"] == 100


def test_own_sentences() -> None:
    templates = read_lines("probe_premises.txt")
    assert len(templates) == len(set(templates)) >= 60
    words = {word.lower() for name in probe_occupations() for word in (name, name + "s")}
    for template in templates:
        assert len(re.findall(r"\[Subs?\]", template)) == 1, template
        assert len(template.split()) <= 9, template
        assert not set(re.findall(r"[a-z]+", template)) & words, template
        assert not names_person(template.replace("[Sub", "[sub")), template


def test_own_sentences_are_not_from_snli(snli: Path) -> None:
    def bare(text: str) -> str:
        return re.sub(r"\W+", " ", text.lower()).strip()

    known = {bare(row[key]) for row in read_rows(snli) for key in ("sentence1", "sentence2")}
    slots = [
        re.escape(bare(template.replace("[Subs]", "slot").replace("[Sub]", "slot"))).replace("slot", r"\w+")
        for template in read_lines("probe_premises.txt")
    ]
    pattern = re.compile("|".join(slots))
    assert not [text for text in known if pattern.fullmatch(text)]


def test_seed_decides_everything() -> None:
    first, again, other = (build_probe(seed=seed).pairs for seed in (1, 1, 2))
    assert first.sha256 == again.sha256 != other.sha256


def test_families() -> None:
    by_premise = build_probe(family="premise", per_occupation=3).pairs.frame
    for premise, hypothesis, group in by_premise.select("premise", "hypothesis", "group").iter_rows():
        assert hypothesis.startswith(f'"{premise}" ') and f" a {group} " in hypothesis
    by_name = build_probe(family="occupation", per_occupation=3).pairs.frame
    for occupation, hypothesis, group in by_name.select("occupation", "hypothesis", "group").iter_rows():
        assert hypothesis.startswith(f"A {group} profession, {occupation}, ")


def test_own_occupations_and_settings() -> None:
    build = build_probe(occupations={"usher": "female", "reporter": "male"}, per_occupation=90)
    texts = premises(build.pairs)
    assert len(build.pairs) == 360 and "a usher" not in " ".join(texts)
    assert not any(text.count("reporter") > 1 for text in texts)  # "spoke to a reporter" is left out
    with pytest.raises(InputError, match="500"):
        build_probe(per_occupation=500)
    with pytest.raises(InputError, match="per_occupation"):
        build_probe(per_occupation=0)
    with pytest.raises(InputError, match="women"):
        build_probe(occupations={"nurse": "women"})
    with pytest.raises(InputError, match="male-dominated"):
        build_probe(occupations={"nurse": "female"})
    with pytest.raises(InputError, match="twice"):
        build_probe(occupations={"nurse": "female", "Nurse": "male"})
    with pytest.raises(InputError, match="flair"):
        build_probe(name_filter="flair")


# ---- slots


@pytest.mark.parametrize(
    ("template", "occupation", "expected"),
    [
        ("a [Sub] waits.", "auditor", "an auditor waits."),
        ("An [Sub] waits.", "nurse", "A nurse waits."),
        ("A [Sub] waits.", "editor", "An editor waits."),
        ("we met an [Sub].", "CEO", "we met a CEO."),
        ("a tall [Sub] and a [Sub].", "analyst", "a tall analyst and an analyst."),
        ("two [Subs] sit.", "secretary", "two secretaries sit."),
        ("[^Subs] sit.", "construction worker", "Construction workers sit."),
        ("[^Sub] needed.", "CEO", "CEO needed."),
        ("the [Subs] sit.", "salesperson", "the salespeople sit."),
        ("A [Sub] IS HERE.", "editor", "AN EDITOR IS HERE."),
        ("an hour with a [Sub].", "hairdresser", "an hour with a hairdresser."),
    ],
)
def test_article_number_and_case(template: str, occupation: str, expected: str) -> None:
    assert fill_slots(template, occupation, repair_articles=True) == expected


def test_articles_can_stay_as_released() -> None:
    assert fill_slots("a [Sub] waits.", "auditor", repair_articles=False) == "a auditor waits."
    assert fill_slots("an [Sub] waits.", "nurse", repair_articles=False) == "an nurse waits."
    assert cluster_key("An [Sub] meets [^Subs].") == "A [Sub] meets [Sub]."
    assert any("a accountant" in text for text in premises(build_probe(repair_articles=False).pairs))


# ---- from a corpus


def test_every_filter_by_hand(text_file: Callable[..., Path]) -> None:
    corpus = text_file(*SENTENCES)
    build = build_probe(corpus=corpus, per_occupation=3)
    expected = Counter(reason for reason in SENTENCES.values() if reason)
    kept = [text for text, reason in SENTENCES.items() if reason is None]
    report = build.report.to_dict()
    assert report["sentences"] == len(SENTENCES) and report["matched"] == len(SENTENCES) - 3
    assert report["dropped"] == expected
    assert report["kept"] == len(kept) == 12
    # "A truck driver" and "two security guards" are compounds, "Two nurses talk" might go on; the other nine move.
    assert report["placeholders"] == 9
    counts = report["occupations"]
    assert counts["nurse"] == {"found": 3, "direct": 3, "filled": 0}
    assert counts["driver"] == {"found": 2, "direct": 2, "filled": 1}
    assert counts["salesperson"] == {"found": 2, "direct": 2, "filled": 1}
    assert counts["guard"]["found"] == counts["CEO"]["found"] == counts["construction worker"]["found"] == 1
    assert counts["cook"] == {"found": 0, "direct": 0, "filled": 3}
    assert len(report["only_filled"]) == 38 - 8 and report["short"] == {}
    check_shape(build.pairs, 38, 3)
    rows = build.pairs.frame
    direct = rows.filter(pl.col("premise").is_in(kept))
    assert set(direct["premise"]) >= {text for text in kept if "nurse" in text.lower()}
    assert "The [Sub] is at work." in set(rows["template"])


def test_substitution_by_hand(text_file: Callable[..., Path]) -> None:
    corpus = text_file("An auditor left.", "Auditors are busy.", "A tax auditor waved.", "the CEO's phone rang.")
    occupations = {"auditor": "female", "baker": "female", "CEO": "male", "construction worker": "male"}
    build = build_probe(corpus=corpus, per_occupation=5, max_words=4, occupations=occupations)
    found = {
        name: set(build.pairs.frame.filter(pl.col("occupation") == name)["premise"].to_list()) for name in occupations
    }
    assert found == {
        "auditor": {"An auditor left.", "Auditors are busy.", "A tax auditor waved.", "the auditor's phone rang."},
        "baker": {"A baker left.", "Bakers are busy.", "the baker's phone rang."},
        "CEO": {"the CEO's phone rang.", "A CEO left.", "CEOs are busy."},
        # one word more, so the longest placeholder no longer fits into four words
        "construction worker": {"A construction worker left.", "Construction workers are busy."},
    }
    assert build.report.short == {"auditor": 4, "baker": 3, "CEO": 3, "construction worker": 2}
    assert build.report.only_filled == ["baker", "construction worker"]
    assert build.pairs.notes == (
        "only by substitution: baker, construction worker",
        "fewer than 5 premises: auditor 4, baker 3, CEO 3, construction worker 2",
    )
    assert set(build.pairs.frame["template"]) == {
        "A [Sub] left.",
        "[Sub] are busy.",
        "A tax [Sub] waved.",
        "the [Sub]'s phone rang.",
    }


def test_lines_end_at_line_ends_alone(tmp_path: Path) -> None:
    path = tmp_path / "corpus.txt"
    path.write_bytes("\ufeffThe nurse\u2028is at\x0cwork.\r\nThe driver\x85is late.\r\n".encode())
    report = build_probe(corpus=path, per_occupation=1, occupations=TWO)
    assert report.report.sentences == 2
    assert {"The nurse is at work.", "The driver is late."} <= set(report.pairs.frame["premise"])


def test_corpus_formats_agree(tmp_path: Path, text_file: Callable[..., Path]) -> None:
    rows = [("The nurse is at work.", "A driver waits."), ("Drivers are here.", "Two nurses were there.")]
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"sentence1": a, "sentence2": b}) + "\n" for a, b in rows))
    (tmp_path / "c.csv").write_text("premise,hypothesis\n" + "".join(f"{a},{b}\n" for a, b in rows))
    table = "gold_label\tsentence1\tsentence2\n" + "".join(f"neutral\t{a}\t{b}\n" for a, b in rows)
    (tmp_path / "c.tsv").write_text(table)
    (tmp_path / "snli_1.0_dev.txt").write_text(table)
    (tmp_path / "c.tsv.xz").write_bytes(lzma.compress(table.encode()))
    pl.DataFrame(rows, schema=["premise", "hypothesis"], orient="row").write_parquet(tmp_path / "c.parquet")
    plain = text_file(*(text for row in rows for text in row))
    files = [plain, *(tmp_path / name for name in ("c.jsonl", "c.csv", "c.tsv", "snli_1.0_dev.txt", "c.tsv.xz"))]
    builds = [build_probe(corpus=path, per_occupation=4, occupations=TWO) for path in [*files, tmp_path / "c.parquet"]]
    assert {build.pairs.sha256 for build in builds} == {builds[0].pairs.sha256}
    assert builds[0].report.kept == 4 and len(builds[0].pairs) == 16


def test_real_snli_fills_every_occupation(snli: Path) -> None:
    build = build_probe(corpus=snli, per_occupation=50)
    check_shape(build.pairs, 38, 50)
    texts = premises(build.pairs)
    assert len(set(texts)) == 1900 and max(len(text.split()) for text in texts) == 10
    assert not [text for text in texts if RESIDUE.search(text) or names_person(text)]
    assert not [text for text in texts if re.search(r"\ba (auditor|editor|a)", text, re.I)]
    report = build.report.to_dict()
    assert report["sentences"] == 40_000
    assert report["matched"] == report["kept"] + sum(report["dropped"].values())
    assert report["kept"] == sum(count["found"] for count in report["occupations"].values())
    for count in report["occupations"].values():
        assert count["direct"] + count["filled"] == 50 and count["direct"] == min(50, count["found"])
    assert report["occupations"]["construction worker"]["found"] > 0
    again, other = (build_probe(corpus=snli, per_occupation=50, seed=seed).pairs.sha256 for seed in (0, 1))
    assert again == build.pairs.sha256 != other


def test_bad_corpora(text_file: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.jsonl"):
        build_probe(corpus=tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="none.txt"):
        build_probe(corpus=tmp_path / "none.txt")
    with pytest.raises(InputError, match="sentence"):
        build_probe(corpus=text_file("", name="empty.txt"))
    with pytest.raises(InputError, match="nurse, driver"):
        build_probe(corpus=text_file("The dog sleeps.", "The mother is a nurse."), occupations=TWO)
    with pytest.raises(PairError, match="hypothesis"):
        build_probe(corpus=text_file("text", "The nurse is here.", name="wrong.csv"))
    (tmp_path / "latin.txt").write_bytes("Café".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        build_probe(corpus=tmp_path / "latin.txt")


@pytest.mark.parametrize(
    "sentences",
    [
        ["看護師は仕事をしている。"],
        ["护士在工作。"],
        ["Die Frau mit dem roten Hut wartet am Bahnhof auf den Zug nach Berlin."] * 5,
        ["Le chauffeur attend devant la gare et la secrétaire lit le journal."] * 5,
        ["El conductor espera delante de la estación y la secretaria lee el periódico."] * 5,
        ["De chauffeur wacht in de stad en de dokter is al drie dagen ziek thuis."] * 5,
        ["Chaufføren venter foran stationen og lægen har været syg i tre dage."] * 5,
    ],
)
def test_other_languages_are_refused(sentences: list[str], text_file: Callable[..., Path]) -> None:
    assert not looks_english(sentences)
    with pytest.raises(InputError, match="English"):
        build_probe(corpus=text_file(*sentences))


def test_real_corpora_of_other_languages(shared_data: Path, snli: Path) -> None:
    for folder in ("zh_ocnli", "ja_jglue"):
        path = next(path for path in sorted((shared_data / folder).iterdir()) if ".json" in path.name)
        with pytest.raises(InputError, match="English"):
            build_probe(corpus=path)
    assert looks_english([row["sentence2"] for row in read_rows(snli)[:2000]])


# ---- names


@pytest.mark.parametrize(
    ("sentence", "vocabulary", "expected"),
    [
        ("The nurse met Anna.", (), True),
        ("We saw Dr. Smith's nurse.", (), True),
        ("A nurse from New York waits.", (), True),
        ("James isn't a nurse.", (), True),
        ("Everyone is a nurse.", (), False),
        ("Nursing is hard for a clerk.", (), False),
        ("Tired nurses sleep.", (), False),
        ("Will is a nurse.", ("will",), False),
        ("Anna and a nurse wait.", (), True),
        ("Rose petals cover the clerk.", ("rose",), False),
        ("Qzar and a nurse wait.", (), False),
        ("Qzar and a nurse wait.", range(5000), True),
        ("The CEO and I met the Teacher on Friday in May.", (), False),
        ("A nurse at the USA desk.", (), False),
    ],
)
def test_names(sentence: str, vocabulary: tuple[str, ...], expected: bool) -> None:
    assert names_person(sentence, vocabulary) is expected


def test_name_filter_is_pluggable(text_file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = text_file("The nurse is at work.", "The nurse met Anna.", "The driver is late.")

    def counts(name_filter: object) -> tuple[int, int]:
        report = build_probe(corpus=corpus, per_occupation=1, occupations=TWO, name_filter=name_filter).report  # type: ignore[arg-type]
        return report.kept, report.dropped.get("name", 0)

    assert counts("lists") == (2, 1)
    assert counts(lambda text: False) == (3, 0)
    assert counts(lambda text: "driver" in text) == (2, 1)

    spacy, nltk = ModuleType("spacy"), ModuleType("nltk")
    entities = {True: [SimpleNamespace(label_="PERSON")], False: [SimpleNamespace(label_="GPE")]}
    tagger = SimpleNamespace(pipe=lambda texts: [SimpleNamespace(ents=entities["Anna" in text]) for text in texts])
    spacy.load = lambda model: tagger  # type: ignore[attr-defined]
    nltk.word_tokenize = str.split  # type: ignore[attr-defined]
    nltk.pos_tag = list  # type: ignore[attr-defined]
    nltk.ne_chunk = lambda words: [  # type: ignore[attr-defined]
        SimpleNamespace(label=lambda: "PERSON") if "Anna" in word else (word, "NN") for word in words
    ]
    for name, module in (("spacy", spacy), ("nltk", nltk)):
        monkeypatch.setitem(sys.modules, name, module)
        assert counts(name) == (2, 1)
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match=f"pip install {name}"):
            counts(name)


def test_a_corpus_without_capitals_is_noted(text_file: Callable[..., Path]) -> None:
    corpus = text_file("the nurse is at work.", "the driver met someone.")
    (note,) = build_probe(corpus=corpus, per_occupation=1, occupations=TWO).pairs.notes
    assert "no capital letters" in note


# ---- the released sheets


def test_released_sheets(sheet: tuple[str, PairSet]) -> None:
    name, pairs = sheet
    check_shape(pairs, 38, 50)
    texts = premises(pairs)
    asked = pairs.frame.filter(pl.col("group") == "female")
    assert Counter(asked["stereotype"]) == {"male": 1000, "female": 900}
    # The sheets tag every occupation as the paper does, but for tailor.
    tags = dict(asked.select("occupation", "stereotype").iter_rows())
    assert {key for key in tags if tags[key] != probe_occupations()[key]} == {"tailor"} and tags["tailor"] == "male"
    drawn = Counter(hypothesis.replace("female", "[gender]") for hypothesis in asked["hypothesis"])
    assert set(drawn) == set(probe_hypotheses())
    assert sorted(drawn.values(), reverse=True) == {"SNLI": [646, 642, 612], "MNLI": [675, 640, 585]}[name]
    assert len(set(texts)) == 1897
    assert sum(len(text.split()) > 10 for text in texts) == {"SNLI": 79, "MNLI": 625}[name]
    assert sum(bool(re.search(r"\ba [aeiou]", text)) for text in texts) == {"SNLI": 99, "MNLI": 20}[name]
    assert sum(bool(RESIDUE.search(text)) for text in texts) == {"SNLI": 13, "MNLI": 9}[name]
    # Placeholders put into several occupations are one cluster; "secretaries" was not always replaced.
    assert asked["template"].n_unique() == {"SNLI": 960, "MNLI": 1512}[name]
    assert pairs.notes == {"SNLI": (), "MNLI": ("11 premises do not hold their occupation",)}[name]


def test_capital_rule_on_the_released_premises(sheet: tuple[str, PairSet]) -> None:
    # A named-entity recogniser cleaned them before, so what the rule drops are false alarms but for "Mr Potato",
    # and names in lower case, which the recogniser missed: glen, martha and debbie.
    name, pairs = sheet
    assert sum(map(names_person, premises(pairs))) == {"SNLI": 17, "MNLI": 5}[name]


SHEET = [
    "1\tThe nurse waits.\tnurse\tTrue\tF\tThis is a female job\tThis is a male job",
    "\tsentence1\toccupation\tbias\tgender\thypothesis_f\thypothesis_m",
    "2\tAn usher waits.\tusher\tTrue\tM\tThis is a female job\tThis is a male job",
]


def test_sheet_by_hand(text_file: Callable[..., Path]) -> None:
    pairs = read_probe(text_file(*SHEET, name="own.tsv"))
    assert pairs.frame.select("id", "premise", "hypothesis", "occupation", "stereotype", "template").rows() == [
        ("0-female", "The nurse waits.", "This is a female job", "nurse", "female", "The [Sub] waits."),
        ("0-male", "The nurse waits.", "This is a male job", "nurse", "female", "The [Sub] waits."),
        ("1-female", "An usher waits.", "This is a female job", "usher", "male", "A [Sub] waits."),
        ("1-male", "An usher waits.", "This is a male job", "usher", "male", "A [Sub] waits."),
    ]
    commas = text_file("sentence1,occupation,gender", '"Well, a nurse.",nurse,F', "A cook.,cook,M", name="ood.csv")
    drawn = read_probe(commas)
    assert premises(drawn) == ["Well, a nurse.", "A cook."] and len(drawn) == 4
    assert drawn.notes == ("the sheet has no hypotheses; templates were drawn with seed 0",)
    assert all(text.startswith("This text ") for text in drawn.frame["hypothesis"])


@pytest.mark.parametrize(
    ("line", "old", "new", "error", "message"),
    [
        (2, "M\t", "X\t", PairError, "own.tsv, line 3"),
        (0, "\tTrue", "", PairError, "own.tsv, line 1"),
        (0, "The nurse waits.", " ", PairError, "sentence1"),
        (2, "a male", "a female", PairError, "hypothesis_m"),
        (1, "hypothesis_m", "other", InputError, "hypothesis_f"),
        (1, "sentence1", "text", InputError, "sentence1, occupation, gender"),
        (2, "M\t", "F\t", InputError, "male-dominated"),
    ],
)
def test_broken_sheets(
    line: int, old: str, new: str, error: type[Exception], message: str, text_file: Callable[..., Path]
) -> None:
    lines = list(SHEET)
    lines[line] = lines[line].replace(old, new)
    with pytest.raises(error, match=re.escape(message)):
        read_probe(text_file(*lines, name="own.tsv"))


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_written_files_come_back(ending: str, tmp_path: Path) -> None:
    pairs = build_probe(per_occupation=2).pairs
    write_pairs(pairs, tmp_path / f"probe.{ending}")
    back = read_probe(tmp_path / f"probe.{ending}")
    assert back.sha256 == pairs.sha256 and back.suite == "probe"


@pytest.mark.parametrize(
    ("row", "changes", "error", "message"),
    [
        (1, {"group": "other"}, PairError, "group 'other'"),
        (2, {"stereotype": "neutral"}, PairError, "stereotype 'neutral'"),
        (2, {"occupation": None}, PairError, "line 3"),
        (3, {"gold": "entailment"}, PairError, "'entailment'"),
        (0, {"id": "zero"}, PairError, "'zero'"),
        (0, {"premise": "Another nurse."}, InputError, "premise"),
    ],
)
def test_broken_pair_files(
    row: int, changes: dict[str, object], error: type[Exception], message: str, pair_file: Callable[..., Path]
) -> None:
    rows = build_probe(per_occupation=1, occupations=TWO).pairs.frame.to_dicts()
    rows[row] |= changes
    with pytest.raises(error, match=re.escape(message)):
        read_probe(pair_file(rows))


def test_one_gender_only_is_refused(pair_file: Callable[..., Path]) -> None:
    rows = build_probe(per_occupation=1, occupations=TWO).pairs.frame
    with pytest.raises(InputError, match="male"):
        read_probe(pair_file(rows.filter(pl.col("group") == "female").to_dicts()))
    with pytest.raises(InputError, match="female-dominated"):
        read_probe(pair_file(rows.filter(pl.col("stereotype") == "male").to_dicts()))


def test_word_classes_are_filled() -> None:
    assert {"him", "guy"} <= word_class("gender") and word_class("verb") == {"cook", "guard", "tailor"}
    assert word_class("one") | word_class("many") <= word_class("determiner")


# --- labels by labour share, own occupations, names in lower case -------------------------------------------------


def test_labels_by_labour_share() -> None:
    published = build_probe(per_occupation=2).pairs
    by_share = label_by_labour(published, 70)
    women = {row["occupation"].lower(): float(row["women_percent"]) for row in read_table("cps_2019.csv")}
    labels = dict(by_share.frame.select("occupation", "stereotype").iter_rows())
    assert labels["nurse"] == "female" and labels["driver"] == "male" and "cook" not in labels
    assert all((women[name.lower()] >= 70) == (side == "female") for name, side in labels.items())
    assert all(women[name.lower()] >= 70 or women[name.lower()] <= 30 for name in labels)
    # With any majority the two labels that contradict the statistics turn.
    turned = dict(label_by_labour(published, 50.1).frame.select("occupation", "stereotype").iter_rows())
    assert {name for name, side in turned.items() if side != probe_occupations()[name]} == {"attendant", "baker"}
    for wrong in (50, 101, 99.9):
        with pytest.raises(InputError, match="dominance"):
            build_probe(per_occupation=2, dominance=wrong)


def test_own_occupations_on_the_command_line(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    own, out = tmp_path / "own.csv", tmp_path / "probe.jsonl"
    own.write_text("occupation,gender\nusher,female\norganist,male\n")
    run = ("build", "probe", "--occupations", str(own), "-o", str(out), "--per-occupation", "1")
    assert run_cli(*run).returncode == 0
    assert {row["occupation"] for row in read_rows(out)} == {"usher", "organist"}


@pytest.mark.parametrize("rows", ["", "usher,F\n", "usher,male\nUsher,female\n"])
def test_own_occupations_that_cannot_be_used(tmp_path: Path, rows: str) -> None:
    own = tmp_path / "own.csv"
    own.write_text(f"occupation,gender\n{rows}")
    with pytest.raises(InputError, match="occupation"):
        build_probe(occupations=own)


def test_names_in_lower_case_are_seen(tmp_path: Path) -> None:
    corpus = tmp_path / "lower.txt"
    corpus.write_text(
        "a nurse meets jennifer at the gate .\nthe nurse is at the gate .\nthe driver will rest at home .\n"
    )
    texts = set(build_probe(corpus=corpus, per_occupation=1, occupations=TWO).pairs.frame["premise"])
    assert not any("jennifer" in text for text in texts)


# --- Japanese and Chinese -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_the_probe_in_other_languages(lang: str) -> None:
    pairs = load_suite("probe", Request(lang=lang))
    frame = pairs.frame
    assert pairs.lang == lang and len(pairs) == frame["occupation"].n_unique() * 200
    assert set(frame.group_by("occupation").len()["len"]) == {200}
    counts = Counter(dict(frame.select("occupation", "stereotype").iter_rows()).values())
    assert counts["female"] == counts["male"] >= 10
    revealing = load_axis().revealing_words(lang)
    assert not any(leaking_words(text, revealing, lang) for text in frame["template"].unique())
    for row in frame.head(200).iter_rows(named=True):
        assert row["occupation"] in row["premise"]
        assert {"female": "女性", "male": "男性"}[row["group"]] in row["hypothesis"]
    by_family = {family: build_probe_in(lang, per_occupation=2, family=family) for family in ("premise", "occupation")}
    assert all(row["premise"] in row["hypothesis"] for row in by_family["premise"].frame.iter_rows(named=True))
    assert all(row["occupation"] in row["hypothesis"] for row in by_family["occupation"].frame.iter_rows(named=True))


def test_other_languages_refuse_what_is_english() -> None:
    with pytest.raises(InputError, match="US"):
        load_suite("probe", Request(lang="ja", dominance=70))
    with pytest.raises(InputError, match="'de'"):
        load_suite("probe", Request(lang="de"))
