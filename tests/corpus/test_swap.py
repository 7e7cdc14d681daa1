"""The gender swap: words, pronouns, names, the published ways, and augmentation."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenli.core.errors import InputError
from evenli.core.io import read_rows
from evenli.corpus.mitigation import swap_file
from evenli.corpus.mitigation.swap_file import SwapCounts, SwapSettings, swap_corpus
from evenli.words import read_table
from evenli.words.lists import probe_occupations
from evenli.words.swap.pronoun_case import her_is_possessive
from evenli.words.swap.swapper import Swapper

HER_HIS = Path(__file__).parents[1] / "data" / "her_his.csv"
PRINTED = (
    "James=Mary John=Patricia Robert=Elizabeth Michael=Jennifer William=Linda David=Barbara Richard=Margaret "
    "Joseph=Susan Charles=Dorothy Thomas=Jessica Christopher=Sarah Daniel=Nancy Matthew=Betty Anthony=Karen "
    "Donald=Lisa Paul=Helen Mark=Sandra George=Ashley Steven=Emily Andrew=Kimberly Kenneth=Donna Edward=Carol "
    "Joshua=Michelle Kevin=Amanda Brian=Melissa Ronald=Laura Timothy=Anna Jason=Stephanie Jeffrey=Rebecca "
    "Ryan=Deborah"
)
swap = Swapper()
rename = Swapper(names=True)


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("A man and a woman", "A woman and a man"),
        ("The man's hat and the girls' bags", "The woman's hat and the boys' bags"),
        ("A policeman-like figure and a six-year-old girl.", "A policewoman-like figure and a six-year-old boy."),
        ("MEN AT WORK, Women at rest, girl asleep", "WOMEN AT WORK, Men at rest, boy asleep"),
        ("HE SAW HER DOG AND HER.", "SHE SAW HIS DOG AND HIM."),
        ("She's his wife, isn't she?", "He's her husband, isn't he?"),
        ("My brother-in-law and her ex-husband", "My sister-in-law and his ex-wife"),
        ("His fiancée met a widower, a monk and the bride.", "Her fiancé met a widow, a nun and the groom."),
        ("Mr. Hill, Mrs Gray and Mrs. Lund", "Mrs. Hill, Mr Gray and Mr. Lund"),
        ("Ms. Hill and Ms Gray saw Miss Lund.", "Mr. Hill and Mr Gray saw Mr Lund."),
        ("Yes, sir. No, ma'am. No, ma’am.", "Yes, madam. No, sir. No, sir."),
        ("The king and queen of PA, eating M&Ms", "The queen and king of PA, eating M&Ms"),
        ("The human woke from a trance; the manager shed a hermit.", None),
        ("They miss the manners of the shepherd, 5 ms ago.", None),
    ],
)
def test_words_change_sides_at_once(text: str, swapped: str | None) -> None:
    assert swap(text) == (swapped or text)
    assert swap.swap_document([text]).changed is (swapped is not None)


@pytest.mark.parametrize(
    "text", ["  a\tman \n\n and…a «girl»  ", "man\u2028woman\xa0boy 🙂 he", "", " ", "<b>man</b>_man_"]
)
def test_everything_else_stays_byte_for_byte(text: str) -> None:
    changed = swap(text)
    assert re.sub(r"\w+", "", changed) == re.sub(r"\w+", "", text)
    assert swap(changed) == text


def test_explain_rebuilds_the_swap() -> None:
    text = "Mary told her son that his dog bit her."
    changes = rename.swap_document([text]).changes[0]
    assert [(c.start, c.word, c.replacement) for c in changes] == [
        (0, "Mary", "James"),
        (10, "her", "his"),
        (14, "son", "daughter"),
        (23, "his", "her"),
        (35, "her", "him"),
    ]
    for change in reversed(changes):
        assert text[change.start :].startswith(change.word)
        text = text[: change.start] + change.replacement + text[change.start + len(change.word) :]
    assert text == "James told his daughter that her dog bit him."


# --- her and his -----------------------------------------------------------------------------------------------


def test_her_and_his_on_the_labelled_sentences() -> None:
    with HER_HIS.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) >= 220 and len({row["text"] for row in rows}) == len(rows)
    assert all(re.search(r"\b(her|hers|his|him)\b", row["text"].lower()) for row in rows)
    right = sum(swap(row["text"]) == row["swapped"] for row in rows)
    assert right / len(rows) >= 0.97
    # Control: always "his" and always "him" are both far off, so the sentences do test the decision.
    for mode in ("paper", "released"):
        one = Swapper(mode)  # type: ignore[arg-type]
        assert sum(one(row["text"]).lower() == row["swapped"].lower() for row in rows) / len(rows) < 0.75


def test_her_on_real_sentences_with_known_answer(shared_data: Path) -> None:
    """Every his and him of the SNLI test sentences becomes her; the rules must tell which it was."""
    rows = read_rows(shared_data / "snli" / "snli_1.0_test.jsonl.xz")
    right = {"his": 0, "him": 0}
    total = {"his": 0, "him": 0}
    for text in sorted({str(row[key]) for row in rows for key in ("sentence1", "sentence2")}):
        parts = re.split(r"(\w+)", text)
        blind = ["her" if part.lower() in total else part for part in parts]
        for index, part in enumerate(parts):
            if (word := part.lower()) in total:
                total[word] += 1
                right[word] += her_is_possessive(blind, index) == (word == "his")
    assert total["his"] > 800 and total["him"] > 60
    assert right["his"] / total["his"] > 0.98
    assert right["him"] / total["him"] > 0.95


# --- twice is once ----------------------------------------------------------------------------------------------

CONTEXT = {"his", "her", "hers", "him"}
TABLE = read_table("swap_words_en.csv")
ONE_TO_ONE = [row for row in TABLE if row["ways"] == "both" and not {row["male"], row["female"]} & CONTEXT]
GENDERED = [row[side] for row in ONE_TO_ONE for side in ("male", "female")]
FILLERS = ["the", "reads", "a", "book", "near", "old", "and", "blue", "42", "runs", "slowly", "with", "friends"]
CASES = (str.lower, str.upper)  # a capital inside a sentence is a name: Warner Brothers, King Street
GAPS = [" ", ", ", " - ", "! ", "\n", "; ", " (", "'s ", "-"]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(GENDERED + FILLERS), st.sampled_from(CASES), st.sampled_from(GAPS)),
        min_size=1,
        max_size=12,
    ),
    st.booleans(),
)
def test_twice_gives_the_original(words: list[tuple[str, object, str]], capital: bool) -> None:
    text = "".join(case(word) + gap for word, case, gap in words)  # type: ignore[operator]
    text = re.sub(r"\b(PA|MA|SIS|BRO)\b", "pa", text)
    text = text[:1].upper() + text[1:] if capital else text
    # "and man the", "and groom a": verbs. "ladies's" is no English, and "gentlemen's" needs a noun to come back.
    assume(not re.search(r"\b(man|grooms?|brides?) (the|a)\b|(ladies|men|maids)'", text.lower()))
    once = swap(text)
    assert swap(once) == text
    if any(word in GENDERED for word, _, _ in words):
        assert once != text


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_goes_through(text: str) -> None:
    for mode in ("default", "paper", "released"):
        assert isinstance(Swapper(mode)(text), str)  # type: ignore[arg-type]
    assert "".join(re.findall(r"\W", swap(text))) == "".join(re.findall(r"\W", text))


@pytest.mark.parametrize(
    "text",
    [
        "The girl lost her red hat.",
        "We saw him.",
        "He gave her the book.",
        "It is hers.",
        "Let him go.",
        "a pal of his",
    ],
)
def test_pronouns_come_back_where_context_decides_alike(text: str) -> None:
    assert swap(text) != text
    assert swap(swap(text)) == text


# --- names ------------------------------------------------------------------------------------------------------


def test_first_thirty_ranks_are_the_printed_ones() -> None:
    rows = read_table("swap_names.csv")
    assert [f"{row['male']}={row['female']}" for row in rows[:30]] == PRINTED.split()
    male, female = [row["male"] for row in rows], [row["female"] for row in rows]
    assert [int(row["rank"]) for row in rows] == list(range(1, 2501))
    assert len(set(male)) == len(set(female)) == 2500 and not set(male) & set(female)
    # Both-gender names stand where more births are; words of the swap list and placeholders are out.
    assert "Ashley" in female and "Jordan" in male and "Taylor" in female
    assert not {"King", "Prince", "Princess", "Guy", "Baby", "Unknown", "Infant"} & {*male, *female}


def test_name_ranks_follow_from_the_births(shared_data: Path, tmp_path: Path) -> None:
    tool = Path(__file__).parents[2] / "tools" / "make_swap_names.py"
    code = (
        "import runpy, pathlib, sys\n"
        f"tool = runpy.run_path({str(tool)!r})\n"
        "from collections import Counter\n"
        "own, other = Counter(Ann=5, Kim=9, Lee=3, Zoe=5), Counter(Lee=4, Kim=8)\n"
        "print(tool['ranked'](own, other, {'Kim'}), tool['YEARS'][0], tool['YEARS'][-1])\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "['Ann', 'Zoe'] 1910 2019"


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("James met Mary's aunt.", "Mary met James's uncle."),
        ("john and MARY", None),
        ("Then Will and Mark left.", "Then Mattie and Sandra left."),
        ("Will you mark it? Mark it now. Rose petals fell.", None),
        ("We met Rose in May.", "We met Jacob in May."),
        ("May I go? He came in May, on May 5 and since April.", "May I go? She came in May, on May 5 and since April."),
        ("He flew from Jordan to Georgia and China.", "She flew from Jordan to Georgia and China."),
        ("Michael Jordan praised Serena Williams.", "Jennifer Jordan praised Leonardo Williams."),
        ("Mr. Thomas and Dr. James Taylor", "Mrs. Thomas and Dr. Mary Taylor"),
        ("St. Mary's, San Jose, Jackson Street, the Star", None),
        ("Stephen King met King Charles.", "Theresa King met Queen Dorothy."),
        ("Don't go!", None),
    ],
)
def test_names_in_context(text: str, swapped: str | None) -> None:
    pairs = {row["male"]: row["female"] for row in read_table("swap_names.csv")}
    pairs |= {female: male for male, female in pairs.items()}
    if swapped:  # the partners below rank 30 are looked up, the decision is what is tested
        for ours, name in (("Mattie", "Will"), ("Jacob", "Rose"), ("Leonardo", "Serena"), ("Theresa", "Stephen")):
            swapped = swapped.replace(ours, pairs[name])
    assert rename(text) == (swapped or text)


def test_names_stay_unless_asked_for() -> None:
    assert swap("James loves her and Mary.") == "James loves him and Mary."
    assert rename("James loves her and Mary.") == "Mary loves him and James."


@pytest.mark.parametrize(
    "text",
    [
        "Clinton spoke and Israel answered.",
        "the Rocky Mountains, Judge Newton and O'Brien",
        "a Case Study in North Dakota",
        "The Madonna and Madison were in Virginia Beach.",
        "They shop at Macy and fly from Austin to Charlotte.",
        "Louis XIV and Jean-Claude",
    ],
)
def test_what_is_no_first_name_stays(text: str) -> None:
    assert rename(text) == text


# --- pairs ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pair", "swapped"),
    [
        (("Florence Nightingale was a nurse.", "Nightingale nursed."), None),
        (("John McCain left.", "john and JOHN slept."), ("Patricia McCain left.", "patricia and PATRICIA slept.")),
        (("Scott spoke.", "Scott Brown spoke."), ("Kelly spoke.", "Kelly Brown spoke.")),
        (("Scott Brown spoke.", "Mr. Scott spoke."), ("Scott Brown spoke.", "Mrs. Scott spoke.")),
    ],
)
def test_a_name_is_decided_once_for_a_pair(pair: tuple[str, str], swapped: tuple[str, str] | None) -> None:
    table = {row["male"]: row["female"] for row in read_table("swap_names.csv")}
    expected = tuple(text.replace("Kelly", table["Scott"]) for text in swapped or pair)
    assert rename.swap_document(pair).texts == expected


@pytest.mark.parametrize(
    ("pair", "reason"),
    [
        (("A man with a beard smiles.", "A man smiles."), "body"),
        (("A pregnant woman sits.", "She sits."), "body"),
        (("A bearded person meets a woman.", "A woman meets someone."), ""),
        (("Queen Victoria lost her hat.", "She lost a hat."), "title"),
        (("Sir Edmund climbs.", "A man climbs."), "title"),
        (("Jane left.", "A woman left."), "name"),
        (("Jane lost her hat.", "Jane has no hat."), ""),
        (("Ms. Hill left.", "Mrs. Hill left."), "collapse"),
        (("Ms. Hill left.", "Mrs. Gray left."), ""),
        (("The actress sang.", "The actor sang."), "collapse"),
        (("She won the Best Actress prize.", "The actress won."), "uneven"),
        (("Jane Hill wrote it.", "Jane Hill is a woman."), "name"),
        (("Jane Hill wrote it.", "Jane Hill wrote it when she was ten."), ""),
        (("She is giving birth.", "She is in hospital."), "body"),
        (("A man fishes in a man-made lake.", "The man fishes."), ""),
        (("after Miss Hill left", "after miss Hill left"), ""),
    ],
)
def test_no_copy_where_it_would_say_something_else(pair: tuple[str, str], reason: str) -> None:
    done = swap.swap_document(pair)
    assert done.conflict == reason and done.changed is (reason == "")
    assert (done.texts == pair) is (reason != "")
    assert Swapper(conflicts="swap").swap_document(pair).texts != pair


def test_conflicts_are_counted_and_listed_with_their_reason(tmp_path: Path) -> None:
    corpus, out, review = tmp_path / "a.csv", tmp_path / "b.csv", tmp_path / "review.csv"
    corpus.write_text("premise,hypothesis,label\nA bearded man sits.,He sits.,0\nA man is in the park.,He is out.,0\n")
    counts = swap_corpus(corpus, out, review=review)
    assert (counts.conflicts, counts.added, counts.written) == (1, 1, 3)
    rows = list(csv.DictReader(review.read_text(encoding="utf-8").splitlines()))
    assert [(row["row"], row["copied"], bool(row["reason"])) for row in rows] == [
        ("1", "no", True),
        ("2", "yes", False),
    ]
    assert rows[1]["premise_swapped"] == "A woman is in the park."
    with pytest.raises(InputError, match="exists"):
        swap_corpus(corpus, tmp_path / "c.csv", review=review)
    assert not (tmp_path / "c.csv").exists()


# --- small errors of the past -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("the ladies' room and the gentlemen's club", "the gentlemen's room and the ladies' club"),
        ("s/he or (s)he", None),
        ("a cowboy in a cowboy hat", "a cowgirl in a cowboy hat"),
        ("Man the lifeboats! They man the ship.", None),
        ("The man the police saw", "The woman the police saw"),
        ("a man-made lake and a queen-size bed", None),
        ("Monsieur, a fella and mademoiselle", "Madame, a gal and monsieur"),
        ("his mistress, the mistress of the house, a goddess", "her lover, the master of the house, a god"),
        ("He works for Warner Brothers and the Boy Scouts.", "She works for Warner Brothers and the Boy Scouts."),
        ("the boy scouts", "the girl scouts"),
        ("the Valley of the Kings", None),
        ("They met on King Street at Queen's University.", None),
        ("Man With Knife Arrested Near Royal House", "Woman With Knife Arrested Near Royal House"),
    ],
)
def test_words_that_are_something_else(text: str, swapped: str | None) -> None:
    assert swap(text) == (swapped or text)


# --- languages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lang", "text", "swapped"),
    [
        ("ja", "男の子と女性が彼女の父と母国で会った。", "女の子と男性が彼の母と母国で会った。"),
        ("ja", "大丈夫です。彼らは夫婦です。", None),
        ("ja", "ひげの男性", None),
        ("zh", "其他男孩和他的妈妈弹吉他。", "其他女孩和她的爸爸弹吉他。"),
        ("zh", "他们是男女同学。", None),
        ("zh", "怀孕的女人", None),
    ],
)
def test_japanese_and_chinese(lang: Any, text: str, swapped: str | None) -> None:
    one = Swapper(lang=lang)
    assert one(text) == (swapped or text)
    if swapped:
        assert one(swapped) == text


def test_other_languages_are_refused_and_mixed_files_reported(tmp_path: Path) -> None:
    def write(*pairs: tuple[str, str]) -> Path:
        file = tmp_path / "corpus.jsonl"
        file.write_text(
            "".join(json.dumps({"premise": a, "hypothesis": b, "label": "neutral"}) + "\n" for a, b in pairs)
        )
        return file

    german = ("Der Mann ist auf dem Berg.", "Die Frau und das Kind sind nicht da.")
    english, chinese = ("A man is in the park.", "He is out."), ("一个男人在公园。", "他在外面。")
    out = tmp_path / "out.jsonl"
    with pytest.raises(InputError, match="cannot be swapped"):
        swap_corpus(write(german, german), out)
    with pytest.raises(InputError, match="mixes languages"):
        swap_corpus(write(english, chinese), out)
    with pytest.raises(InputError, match="no Japanese"):
        swap_corpus(write(english), out, SwapSettings(lang="ja"))
    with pytest.raises(InputError, match="'de'"):
        swap_corpus(write(german), out, SwapSettings(lang="de"))
    with pytest.raises(InputError, match="English only"):
        swap_corpus(write(chinese), out, SwapSettings(mode="paper"))
    assert not out.exists()
    counts = swap_corpus(write(*[english] * 9, chinese), out)
    assert (counts.other_language, counts.without_gender, counts.unlabelled) == (1, 0, 0)
    assert sum("一个女人" in row["premise"] for row in read_rows(out)) == 0
    review = tmp_path / "review.csv"
    counts = swap_corpus(write(english, chinese), out, SwapSettings(lang="zh"), review=review, overwrite=True)
    assert (counts.added, counts.other_language, counts.conflicts) == (1, 1, 0)
    rows = list(csv.DictReader(review.read_text(encoding="utf-8").splitlines()))
    assert [(row["row"], row["copied"]) for row in rows] == [("1", "no"), ("2", "yes")]
    assert [row["premise"] for row in read_rows(out)][-1] == "一个女人在公园。"


@pytest.mark.parametrize("options", [{"mode": "paper", "conflicts": "swap"}, {"mode": "released", "names": True}])
def test_options_that_contradict_each_other_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="mode"):
        SwapSettings(**options)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("only", [False, True])
def test_a_file_is_swapped_row_by_row(tmp_path: Path, ending: str, only: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also across the parts that become Parquet, with duplicates before and behind them."""
    monkeypatch.setattr(swap_file, "_PART", 4)
    texts = ["A man sleeps.", "A woman sleeps.", "A dog sleeps.", "A bearded man sits.", "A man sleeps.", "He is out."]
    rows = [{"id": n, "premise": text, "hypothesis": "She waits.", "label": 1} for n, text in enumerate(texts)]
    rows[1]["hypothesis"] = "He waits."  # the copy of the first row, and its own copy is that row
    corpus, out = tmp_path / "in.jsonl", tmp_path / f"out{ending}"
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    counts = swap_corpus(corpus, out, SwapSettings(only_swapped=only))
    # The first two rows are copies of each other, the fourth would say something else, the fifth is the first.
    copies = [
        {**rows[2], "id": "2-swapped", "hypothesis": "He waits."},
        {**rows[5], "id": "5-swapped", "premise": "She is out.", "hypothesis": "He waits."},
    ]
    assert (counts.rows_given, counts.considered, counts.swapped, counts.conflicts) == (6, 6, 5, 1)
    assert (counts.duplicates, counts.added, counts.rows) == (4, 2, 7)
    expected = copies if only else [*rows[:4], rows[5], *copies]
    assert counts.written == len(expected)
    written = [{**row, "id": str(row["id"]), "label": int(row["label"])} for row in read_rows(out)]
    assert written == [{**row, "id": str(row["id"])} for row in expected]
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted(["in.jsonl", out.name])


def test_a_swapped_file_is_not_held_in_memory(tmp_path: Path) -> None:
    """Of every distinct pair a hash is held, whatever its length."""
    corpus = tmp_path / "in.jsonl"
    with corpus.open("w", encoding="utf-8") as stream:
        for n in range(400):
            stream.write(json.dumps({"premise": f"A man saw {n} {'x' * 20_000}", "hypothesis": "He sat."}) + "\n")
    tracemalloc.start()
    try:
        counts = swap_corpus(corpus, tmp_path / "out.jsonl", review=tmp_path / "review.csv")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert counts.added == 400 and (tmp_path / "out.jsonl").stat().st_size > 16_000_000
    assert peak < 5_000_000


def test_rows_without_a_label_are_counted(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"premise": "A man runs.", "hypothesis": "He moves."}\n')
    assert swap_corpus(corpus, tmp_path / "out.jsonl").unlabelled == 1
    odd = {"premise": "A man sleeps.", "hypothesis": "He rests.", "label": ["entailment"]}
    corpus.write_text(json.dumps(odd) + "\n")
    assert swap_corpus(corpus, tmp_path / "odd.jsonl").unlabelled == 0


# --- the published ways -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("A man and a woman", "a woman and a woman"),
        ("a girl and a boy", "a boy and a boy"),
        ("a lady and a man", "a lady and a woman"),
        ("She gave him her book.", "he gave him his book."),
        ("her hand in his", "his hand in his"),
        ("The guys saw a lady.", "the boys saw a man."),
        ("A guy saw a lady.", "a girl saw a man."),
        ("He's a man's man.", "she's a woman's woman."),
        ("A human mother and Mary", "a human mother and mary"),
        ("him and his dog", "her and her dog"),
    ],
)
def test_released_mode_collapses_as_released(text: str, swapped: str) -> None:
    assert Swapper("released")(text) == swapped


def test_sharma_map_is_the_published_one() -> None:
    rows = read_table("swap_sharma.csv")
    assert len(rows) == 19
    assert [(r["word"], r["replacement"]) for r in rows[:3]] == [("her", "his"), ("him", "her"), ("his", "her")]
    assert (rows[13]["word"], rows[13]["replacement"]) == ("lady", "man")


@pytest.mark.parametrize(
    ("text", "swapped"),
    [
        ("She lost her hat; his is hers.", "He lost him hat; her is his."),
        ("The man's wife saw him.", "The woman's husband saw her."),
        ("MAN", "MAN"),
        ("Mr. Hill and Mr Hill", "Mr. Hill and Mrs Hill"),
        ("a man-made six-year-old girl", "a man-made six-year-old boy"),
        ("Mark met Sandra in a policeman.", "Sandra met Mark in a policeman."),
        ("James and Deborah", "Mary and Ryan"),
    ],
)
def test_paper_mode(text: str, swapped: str) -> None:
    assert Swapper("paper")(text) == swapped


def test_paper_list_has_122_words() -> None:
    dolci = [row for row in TABLE if row["list"] == "dolci"]
    both = [row for row in dolci if row["ways"] == "both"]
    assert len(both) == 61
    assert len({row[side] for row in both for side in ("male", "female")}) == 122
    assert [(r["male"], r["female"], r["ways"]) for r in dolci if r not in both] == [("his", "her", "to_female")]
    # Words of which one form is used for all genders go one way only; animals stay.
    for text in ("an actor", "the host", "a hero", "a cow and a bull"):
        assert swap(text) == text
    assert swap("an actress and her hostess") == "an actor and his host"


def test_unknown_mode() -> None:
    with pytest.raises(InputError, match="mode 'both'"):
        Swapper("both")  # type: ignore[arg-type]


# --- real sentences ---------------------------------------------------------------------------------------------


def test_swapping_twice_on_real_sentences(shared_data: Path) -> None:
    rows = read_rows(shared_data / "snli" / "snli_1.0_test.jsonl.xz")
    texts = [str(row[key]) for row in rows for key in ("sentence1", "sentence2")]
    swapped = [swap(text) for text in texts]
    back = [swap(text) for text in swapped]
    assert sum(a == b for a, b in zip(texts, back, strict=True)) / len(texts) > 0.995
    assert 0.5 < sum(a != b for a, b in zip(texts, swapped, strict=True)) / len(texts) < 0.7


def test_needs_no_numerics() -> None:
    code = "import sys, evenli._mitigate; print([m for m in ('polars', 'numpy', 'torch') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


# --- augmentation -----------------------------------------------------------------------------------------------

ROWS = [
    {"id": "a", "premise": "The nurse sees a man.", "hypothesis": "He waits.", "gold": "entailment", "n": 1},
    {"id": "b", "premise": "The nurse sees a man.", "hypothesis": "It rains.", "gold": "neutral", "n": 2},
    {"id": "c", "premise": "Two lawyers talk.", "hypothesis": "A woman sleeps.", "gold": "contradiction", "n": 3},
    {"id": "d", "premise": "A farmer works.", "hypothesis": "Someone works.", "gold": "entailment", "n": 4},
    {"id": "e", "premise": "A man runs.", "hypothesis": "A person runs.", "gold": "entailment", "n": 5},
    {"id": "f", "premise": "A woman runs.", "hypothesis": "A person runs.", "gold": "entailment", "n": 6},
    {"id": "g", "premise": "A dog runs.", "hypothesis": "An animal runs.", "gold": "entailment", "n": 7},
]


def augmented(
    folder: Path, rows: list[dict[str, Any]], choice: SwapSettings | None = None
) -> tuple[list[dict[str, Any]], SwapCounts]:
    """Rows with their copies, and the counts."""
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    counts = swap_corpus(folder / "in.jsonl", folder / "out.jsonl", choice, overwrite=True)
    return read_rows(folder / "out.jsonl"), counts


def test_augment_all(tmp_path: Path) -> None:
    rows, counts = augmented(tmp_path, ROWS)
    # a, b, c, e, f have a gender word; e and f become each other and are dropped.
    assert counts.to_dict() == {
        "rows_given": 7,
        "considered": 7,
        "without_gender": 2,
        "other_language": 0,
        "conflicts": 0,
        "swapped": 5,
        "duplicates": 2,
        "added": 3,
        "rows": 10,
        "unlabelled": 0,
        "written": 10,
    }
    assert rows[:7] == ROWS
    assert rows[7] == {
        "id": "a-swapped",
        "premise": "The nurse sees a woman.",
        "hypothesis": "She waits.",
        "gold": "entailment",
        "n": 1,
    }
    assert [row["id"] for row in rows[7:]] == ["a-swapped", "b-swapped", "c-swapped"]


def test_augment_occupations(tmp_path: Path) -> None:
    rows, counts = augmented(tmp_path, ROWS, SwapSettings(select="occupation"))
    # a and b share a premise: a stays; d has no gender word.
    assert (counts.matched, counts.considered, counts.without_gender, counts.added) == (4, 3, 1, 2)
    assert [row["id"] for row in rows[7:]] == ["a-swapped", "c-swapped"]
    assert (rows[8]["premise"], rows[8]["hypothesis"]) == ("Two lawyers talk.", "A man sleeps.")
    only, _ = augmented(tmp_path, ROWS, SwapSettings(select="occupation", occupations=("lawyer",)))
    assert [row["premise"] for row in only[7:]] == ["Two lawyers talk."]
    assert only[7]["hypothesis"] == "A man sleeps."


def test_augment_as_released(tmp_path: Path) -> None:
    rows = [
        {"pairID": 1, "sentence1": "The Nurse sees a man and a woman", "sentence2": "Rain", "gold_label": "neutral"},
        {"pairID": 2, "sentence1": "A cook and him", "sentence2": "A guy", "gold_label": "neutral"},
        {"pairID": 3, "sentence1": "A man meets a nurse.", "sentence2": "A man", "gold_label": "neutral"},
        {"pairID": 4, "sentence1": "Three secretaries", "sentence2": "They are ladies here", "gold_label": "neutral"},
    ]
    released, counts = augmented(tmp_path, rows, SwapSettings(select="occupation", mode="released"))
    # Row 2: "him" and "guy" are not on the released list. Row 3: the full stop hides the nurse.
    assert (counts.matched, counts.without_gender, counts.added) == (3, 1, 2)
    assert released[4] == {
        "pairID": "1-swapped",
        "sentence1": "the nurse sees a woman and a woman",
        "sentence2": "rain",
        "gold_label": "neutral",
    }
    assert released[5]["sentence2"] == "they are men here"
    _, ours = augmented(tmp_path, rows, SwapSettings(select="occupation"))
    assert (ours.matched, ours.added) == (4, 4)


def test_augment_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="row 2 has no text in column 'hypothesis'"):
        augmented(tmp_path, [ROWS[0], {**ROWS[1], "hypothesis": None}])
    with pytest.raises(InputError, match="'some'"):
        SwapSettings(select="some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no pairs"):
        augmented(tmp_path, [])


def test_occupations_are_those_of_the_probe(tmp_path: Path) -> None:
    rows = [
        {"id": f"{n}", "premise": f"He saw a {name}.", "hypothesis": "x"} for n, name in enumerate(probe_occupations())
    ]
    rows.append({"premise": "He saw a surgeon.", "hypothesis": "x"})
    _, counts = augmented(tmp_path, rows, SwapSettings(select="occupation"))
    assert counts.added == 38


def test_augmented_snli(tmp_path: Path, shared_data: Path) -> None:
    rows = read_rows(shared_data / "snli" / "snli_1.0_train_first100k.jsonl.xz")
    columns = ("sentence1", "sentence2", "gold_label")
    rows = [{name: row[name] for name in columns} for row in rows if row["gold_label"] != "-"]
    _, released = augmented(tmp_path, rows, SwapSettings(select="occupation", mode="released"))
    # The full file gives 892 premises and 470 copies (shuffled); this is its first 18 %.
    assert (released.considered, released.without_gender, released.added) == (151, 71, 80)
    _, ours = augmented(tmp_path, rows, SwapSettings(select="occupation"))
    assert (ours.considered, ours.added) == (290, 128)
    everything, counts = augmented(tmp_path, rows[:6_000])
    assert counts.swapped / counts.considered == pytest.approx(0.68, abs=0.03)
    labels = [row["gold_label"] for row in everything]
    assert labels.count("neutral") / len(labels) == pytest.approx(1 / 3, abs=0.02)
