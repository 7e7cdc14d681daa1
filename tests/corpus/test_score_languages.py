"""The bias score in Japanese and Chinese, and with gender words of one's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from conftest import make_checkpoint
from evenli.core.errors import InputError
from evenli.corpus.scored import CorpusScores
from evenli.corpus.scoring import ScoreSettings, make_scorer, score, stored_scorer
from evenli.corpus.segment import Segmenter
from evenli.encoders.direction import read_pairs


@pytest.fixture
def japanese(tmp_path: Path) -> Path:
    """Vectors whose first number is the gender; pair words have 0.8 there, the others what is said here."""
    leans = {"看護師": 0.6, "医者": -0.6, "です": 0.0, "は": 0.0}
    for female, male in read_pairs("ja"):
        leans |= {female: 0.8, male: -0.8}
    lines = []
    for at, (word, lean) in enumerate(leans.items()):
        rest = np.sqrt(1 - lean**2) * np.eye(len(leans))[at - (at % 2 if abs(lean) == 0.8 else 0)]
        lines.append(" ".join([word, *(f"{value:.6f}" for value in (lean, *rest))]))
    file = tmp_path / "ja.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_the_longest_known_word_is_cut_first() -> None:
    cut = Segmenter(["女の子", "女", "医者", "看護", "看護師"])
    assert cut("女の子は看護師と医者。OK") == "女の子 は 看護師 と 医者 。OK"
    assert cut.words("女の子は看護師と医者。OK")[-2:] == ["。", "OK"]
    assert cut("She is 25.") == "She is 25." and cut("") == ""
    assert cut(cut("女の子は看護師と医者")) == cut("女の子は看護師と医者"), "text with spaces stays as it is"


def test_a_japanese_sentence(japanese: Path) -> None:
    scorer = make_scorer(ScoreSettings(japanese, lang="ja", centre="none"))
    bias = scorer.score("彼女は看護師です。父は医者です。")
    leans = {word.token: (word.bias, word.note) for word in bias.words}
    assert leans["看護師"][0] == pytest.approx(0.6, abs=1e-4) and leans["医者"][0] == pytest.approx(-0.6, abs=1e-4)
    assert leans["彼女"] == leans["父"] == (0.0, "gender word")
    assert (bias.female, bias.male) == pytest.approx((0.6 / 8, -0.6 / 8), abs=1e-4)
    assert scorer.score_many([bias.text, None])[:, 2] == pytest.approx([1.2 / 8, 0], abs=1e-4)
    english = make_scorer(ScoreSettings(japanese, pairs="ja", centre="none"))
    assert english.identity != scorer.identity and english.score("彼女は看護師です").empty


def test_a_corpus_keeps_language_and_words(japanese: Path, tmp_path: Path, run_cli) -> None:
    corpus, own = tmp_path / "corpus.txt", tmp_path / "own.txt"
    corpus.write_text("彼女は看護師です。\n父は医者です。\n", encoding="utf-8")
    own.write_text("看護師\n", encoding="utf-8")
    options = ("--lang", "ja", "--gender-words", own, "--centre", "none")
    done = run_cli("score", corpus, "--vectors", japanese, "-o", tmp_path / "scored", *options, "--json")
    assert done.returncode == 0, done.stderr
    scored = CorpusScores.read(tmp_path / "scored")
    female = np.concatenate([frame["text_F"].to_numpy() for frame in scored.frames()])
    assert female == pytest.approx([0.8 / 4, 0], abs=1e-4), "own words take the place of ours"
    again, why = stored_scorer(scored)
    assert again is not None and not why and again.identity == scored.header["scorer"]
    assert json.loads(done.stdout)["rows"] == 2


def test_own_gender_words_in_english(tmp_path: Path) -> None:
    vectors = tmp_path / "vectors.txt"
    pairs = read_pairs("ten")
    rows = [
        f"{word} {side} {at + 1}" for at, pair in enumerate(pairs) for word, side in zip(pair, (1, -1), strict=True)
    ]
    vectors.write_text("\n".join([*rows, "dress 1 1", "pink 1 0"]) + "\n", encoding="utf-8")
    table = tmp_path / "own.csv"
    table.write_text("word,why\nDress,clothes\n", encoding="utf-8")
    plain, own = (score("she dress pink Mary", vectors=vectors, gender_words=file) for file in (None, table))
    assert [word.note for word in plain.words] == ["gender word", "", "", "gender word"]
    assert [word.note for word in own.words] == ["", "gender word", "", "gender word"], "names stay"
    (tmp_path / "none.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="no words"):
        score("she", vectors=vectors, gender_words=tmp_path / "none.txt")
    with pytest.raises(InputError, match="lang 'xx'"):
        ScoreSettings(vectors, lang="xx")


def test_an_encoder_alone_in_another_language(tmp_path: Path) -> None:
    folder = make_checkpoint(tmp_path / "encoder")
    with pytest.raises(InputError, match="--pairs"):
        make_scorer(ScoreSettings(None, encoder=f"hf:{folder}", lang="zh", device="cpu"))
    pairs = tmp_path / "pairs.csv"
    pairs.write_text(
        "female,male\nthe woman walks,the man walks\na woman,a man\nwoman here,man here\n", encoding="utf-8"
    )
    scorer = make_scorer(ScoreSettings(None, encoder=f"hf:{folder}", lang="zh", pairs=str(pairs), device="cpu"))
    notes = [(word.token, word.note) for word in scorer.score("a 女人 dog").words]
    assert ("a", "") in notes and all(note == "gender word" for token, note in notes if token in "女人")


def test_another_axis_has_its_own_ends(tmp_path: Path, run_cli) -> None:
    pairs = [("young", "old"), ("child", "adult"), ("kid", "grandfather")]
    rows = [
        f"{word} {side} {at + 1}" for at, pair in enumerate(pairs) for word, side in zip(pair, (1, -1), strict=True)
    ]
    vectors, ages, corpus = (tmp_path / name for name in ("vectors.txt", "ages.txt", "corpus.txt"))
    vectors.write_text("\n".join([*rows, "skateboard 1 0", "retired -1 0", "woman 1 1"]) + "\n", encoding="utf-8")
    ages.write_text("".join(f"{first} {second}\n" for first, second in pairs), encoding="utf-8")
    options = ("--vectors", vectors, "--pairs", ages, "--axis", "young,old", "--published")
    shown = run_cli("score", "child skateboard retired woman", *options).stdout
    rows = [line.split() for line in shown.splitlines()]
    assert ["child", "25.00%", "0", "0", "word", "of", "the", "axis"] in rows and "(old)" in shown
    assert next(row for row in rows if row and row[0] == "woman")[2] != "0", "gender is not this axis"
    corpus.write_text("skateboard\nretired\nretired\n", encoding="utf-8")
    done = run_cli("score", corpus, *options, "-o", tmp_path / "scored").stdout
    assert "33.3 % lean young, 66.7 % old" in done and "most old:" in done and "female" not in done
    assert "most old:" in run_cli("score", tmp_path / "scored").stdout
    refused = run_cli("score", "child", "--vectors", vectors, "--axis", "young,old")
    assert refused.returncode == 2 and "--pairs" in refused.stderr
    with pytest.raises(InputError, match="two ends"):
        ScoreSettings(vectors, pairs=str(ages), axis=("young",))
