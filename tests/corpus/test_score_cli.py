"""``evenli score``, ``direction`` and ``mitigate subtract|augment`` as a user runs them."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import make_checkpoint
from evenli.cli import app
from evenli.core.errors import InputError
from evenli.corpus.bias import SentenceBias
from evenli.corpus.contextual import describe_contextual
from evenli.corpus.mitigation.corpora import fairer_corpus
from evenli.corpus.mitigation.selection import CorpusSettings
from evenli.corpus.run import corpus_texts, score_corpus
from evenli.corpus.scored import ScoredDir, is_scored, top_sentences
from evenli.corpus.scoring import ScoreSettings, is_corpus, score, summarise
from evenli.corpus.texts import print_corpus
from evenli.corpus.transformer import TransformerArgmax

PAIRS = [("she", "he"), ("woman", "man"), ("her", "his"), ("girl", "boy"), ("mother", "father")]
WORDS = ["dress", "football", "the", "likes", "walks", "new", "pink"]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GloVe file in which dress and pink lean to the female side and football to the male one."""
    generator = np.random.default_rng(0)
    side = np.zeros(8)
    side[0] = 1.0
    lines = []
    for female, male in PAIRS:
        middle = generator.normal(0, 0.3, 8)
        lines += [(female, middle + side), (male, middle - side)]
    lean = {"dress": 0.8, "pink": 0.5, "football": -0.9}
    lines += [(word, generator.normal(0, 0.2, 8) * (np.arange(8) > 0) + lean.get(word, 0.0) * side) for word in WORDS]
    path = tmp_path_factory.mktemp("vectors") / "toy.txt"
    path.write_text("".join(f"{word} {' '.join(f'{x:.5f}' for x in row)}\n" for word, row in lines), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = [
        {"premise": "the woman likes the pink dress", "hypothesis": "pink dress", "label": "entailment", "id": "a"},
        {"premise": "the man likes football", "hypothesis": "football", "label": "entailment", "id": "b"},
        {"premise": "the new walks", "hypothesis": "the walks", "label": "neutral", "id": "c"},
        {"premise": "the new", "hypothesis": "likes", "label": "-", "id": "d"},
    ]
    path = tmp_path_factory.mktemp("corpus") / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def draw(*words: object) -> Any:
    """Run a command that draws in this process: in each of its own the drawing library would start anew."""
    return CliRunner().invoke(app, [str(word) for word in words])


def test_direction(vectors: Path, tmp_path: Path) -> None:
    done = draw("direction", "--vectors", vectors, "-o", tmp_path / "out", "--json", "--count", 2)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["explained"] > 0.9
    assert {word for word, _ in told["female"]} == {"dress", "pink"}
    assert told["male"][0][0] == "football"
    assert {"direction.npz", "direction.svg", "direction.png"} == {file.name for file in (tmp_path / "out").iterdir()}


def test_one_sentence(run_cli, vectors: Path) -> None:
    done = run_cli("score", "She likes the pink dress", "--vectors", vectors, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    notes = {word["token"]: (word["bias"], word["note"]) for word in told["words"]}
    assert notes["She"] == (0.0, "gender word")
    assert notes["dress"][0] > 0.5
    assert told["female"] == pytest.approx(sum(w["weighted"] for w in told["words"] if w["weighted"] > 0))
    assert told["absolute"] == pytest.approx(told["female"] - told["male"])


@pytest.mark.parametrize("sentence", ["Does she like the pink dress?", "the pink dress " * 30])
def test_questions_and_long_sentences_are_sentences(vectors: Path, tmp_path: Path, sentence: str) -> None:
    assert not is_corpus(sentence) and not is_scored(sentence)
    assert score(sentence, settings=ScoreSettings(vectors)).female > 0
    (tmp_path / "my file.txt").touch()
    assert is_corpus(f"{tmp_path}/my *.txt") and is_corpus(f"{tmp_path}/absent*.txt") and is_corpus(str(tmp_path))


def test_corpus_then_fairer_corpora(run_cli, vectors: Path, corpus: Path, tmp_path: Path) -> None:
    scored = tmp_path / "scored"
    done = run_cli("score", corpus, "--vectors", vectors, "-o", scored, "--top", 1)
    assert done.returncode == 0, done.stderr
    assert "4 rows" in done.stdout and "pink dress" in done.stdout and "football" in done.stdout
    done = run_cli(
        "mitigate", "subtract", scored, "--percentile", 50, "-o", tmp_path / "sub", "--split", "none", "--json"
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["counts"]
    assert (counts["rows"], counts["no_gold"], counts["removed"], counts["result"]) == (4, 1, 1, 2)
    done = run_cli("mitigate", "augment", scored, "--percentile", 30, "-o", tmp_path / "aug", "--split", "none")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "aug" / "corpus.jsonl").read_text().splitlines()]
    swapped = {row["id"]: row["premise"] for row in rows if row["id"].endswith("-swapped")}
    assert swapped == {"a-swapped": "the man likes the pink dress", "b-swapped": "the woman likes football"}
    done = run_cli(
        "mitigate",
        "subtract",
        scored,
        "--percentile",
        50,
        "-o",
        tmp_path / "rnd",
        "--split",
        "none",
        "--random",
        "--json",
    )
    assert json.loads(done.stdout)["counts"]["result"] == 2


def test_what_a_cleaning_takes_out_is_said(run_cli, vectors: Path, corpus: Path, tmp_path: Path) -> None:
    scored, out = tmp_path / "scored", tmp_path / "sub"
    score(corpus, scored, ScoreSettings(vectors))
    half = CorpusSettings(50, split=None)
    card = fairer_corpus("subtract", scored, out, half).card
    before, after = card.balance.before, card.balance.after
    assert before.labels == {"entailment": 66.67, "neutral": 33.33} and after.labels["entailment"] == 50.0
    assert any("entailment" in line for line in card.warnings)
    with (out / "removed.csv").open(encoding="utf-8", newline="") as stream:
        (row,) = csv.DictReader(stream)
    words = [part.split()[0] for part in row["driving_words"].split(", ")]
    assert words and set(words) <= {"pink", "dress", "football"}
    again = (
        "mitigate",
        "subtract",
        scored,
        "--percentile",
        50,
        "-o",
        out,
        "--overwrite",
        "--split",
        "none",
        "--random",
    )
    control = run_cli(*again)
    assert "RANDOM CONTROL" in control.stdout and "lean female" in control.stdout
    # Vectors that are gone take the words along, and it is said.
    scores = ScoredDir(scored)
    header = scores.header()
    assert header is not None
    scores.write_manifest({**header, "made_with": {**header["made_with"], "vectors": str(tmp_path / "gone.txt")}})
    blind = fairer_corpus("subtract", scored, out, half, overwrite=True)
    assert "gone.txt" in blind.card.driving_words
    assert "driving_words" not in (out / "removed.csv").read_text(encoding="utf-8")


def test_a_shift_of_more_than_two_points_is_a_warning(run_cli, vectors: Path, tmp_path: Path) -> None:
    """The most biased hundredth is of one label; without it that label loses 1 or, of a smaller corpus, 3.9 points."""
    for rows, said in ((1_000, False), (250, True)):
        file, scored = tmp_path / f"{rows}.jsonl", tmp_path / f"scored{rows}"
        texts = ["football"] * 20 + ["the new walks"] * (rows - 20)
        labels = ["entailment" if at < 20 or at % 2 else "neutral" for at in range(rows)]
        pairs = zip(texts, labels, strict=True)
        lines = [json.dumps({"premise": "the walks", "hypothesis": text, "label": label}) for text, label in pairs]
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        score(file, scored, ScoreSettings(vectors))
        cut = 100 - 100 * 20 / rows
        done = run_cli(
            "mitigate", "subtract", scored, "--percentile", cut, "--split", "none", "-o", tmp_path / f"{rows}"
        )
        assert done.returncode == 0, done.stderr
        card = json.loads((tmp_path / f"{rows}/card.json").read_text(encoding="utf-8"))
        assert card["counts"]["removed"] == 20
        moved = card["balance"]["before"]["labels"]["neutral"] - card["balance"]["after"]["labels"]["neutral"]
        assert (abs(moved) > 2) is said
        assert bool(card["warnings"]) is said and ("labelled neutral" in done.stderr) is said
        # Several shares move together, and one line says so.
        assert done.stderr.count("shifts the corpus") == said and (len(card["warnings"]) > 1) is said


def test_the_card_scores_the_copies(run_cli, vectors: Path, tmp_path: Path) -> None:
    """Its percentiles are those that one finds when the fairer corpus is scored again."""
    file, scored = tmp_path / "text.txt", tmp_path / "scored"
    words = ["the man likes the pink dress", "she likes football", "the boy walks", "new football", "her pink dress"]
    file.write_text("".join(f"{text} {'the ' * n}\n" for n in range(8) for text in words), encoding="utf-8")
    score(file, scored, ScoreSettings(vectors, centre="none"))
    done = run_cli("mitigate", "augment", scored, "--percentile", 40, "-o", tmp_path / "aug")
    assert done.returncode == 0, done.stderr
    card = json.loads((tmp_path / "aug/card.json").read_text(encoding="utf-8"))
    assert card["counts"]["added"] > 10 and card["pair_max"]["after_covers"] == "all rows"
    again = score(tmp_path / "aug/corpus.jsonl", tmp_path / "again", ScoreSettings(vectors, centre="none"))
    values = np.concatenate([frame["pair_max"].to_numpy() for frame in again.frames()])
    for name in ("p50", "p90", "mean"):
        expected = values.mean() if name == "mean" else np.percentile(values, int(name[1:]))
        assert card["pair_max"]["after"][name] == pytest.approx(expected)


def test_centre_and_published(run_cli, vectors: Path) -> None:
    def found(**settings: Any) -> SentenceBias:
        return score("the new football", settings=ScoreSettings(vectors, **settings))

    published, ours = found(centre="none"), found()
    assert ours == found(centre="length") != published
    assert published.added == 0 and ours.added == pytest.approx(5 / 8)
    assert ours.male == pytest.approx(found(centre="function-words").male * 3 / 8)
    told = run_cli("score", "the new football", "--vectors", vectors, "--json", "--published")
    assert json.loads(told.stdout)["male"] == pytest.approx(published.male)
    refused = run_cli("score", "the new football", "--vectors", vectors, "--published", "--centre", "mean")
    assert refused.returncode == 2 and "centre mean" in refused.stderr


def test_long_lines_are_cut_in_the_terminal(vectors: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "long.txt"
    file.write_text("pink dress " * 5_000 + "\nfootball\n", encoding="utf-8")
    score(file, tmp_path / "scored", ScoreSettings(vectors))
    print_corpus(summarise(tmp_path / "scored"))
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) < 400 and "55,000 characters" in shown


def test_an_encoder_alone_scores_and_has_a_direction(run_cli, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = make_checkpoint(tmp_path / "encoder")
    text = "A woman isn't at the zebra house"
    done = run_cli("score", text, "--encoder", f"hf:{folder}", "--device", "cpu", "--json")
    assert done.returncode == 0, done.stderr
    words = json.loads(done.stdout)["words"]
    assert "".join(word["token"] for word in words) == text.replace(" ", "")  # nothing was left out
    assert next(word["note"] for word in words if word["token"] == "woman") == "gender word"
    told = describe_contextual(TransformerArgmax(folder, device="cpu"))
    assert told.sentences == 119 and "My mother is a nurse" in told.sentence_cosines
    with pytest.raises(InputError, match="word vectors"):
        ScoreSettings(None, encoder=f"hf:{folder}", centre="mean")
    with pytest.raises(InputError, match="--encoder"):
        score("A nurse.", settings=ScoreSettings(None))


def test_the_command_is_one_call_in_python(run_cli, vectors: Path, corpus: Path, tmp_path: Path) -> None:
    settings = ScoreSettings(vectors, weights="idf", pairs="long", punctuation=True)
    progress: list[int] = []
    scored = score(corpus, tmp_path / "python", settings, on_progress=progress.append)
    options = ("--weights", "idf", "--pairs", "long", "--punctuation", "-o", tmp_path / "command")
    assert run_cli("score", corpus, "--vectors", vectors, *options).returncode == 0
    shard = "shards/000000.parquet"
    assert (tmp_path / "python" / shard).read_bytes() == (tmp_path / "command" / shard).read_bytes()
    assert (scored.rows, progress) == (4, [4])
    assert score("the pink dress", vectors=vectors).female > 0
    with pytest.raises(InputError, match="spark"):
        ScoreSettings(vectors, engine="spark")  # type: ignore[arg-type]


def test_chart_with_and_without_scoring(vectors: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    scored = tmp_path / "scored"
    done = draw("score", corpus, "--vectors", vectors, "-o", scored, "--chart", tmp_path / "first.svg", "--json")
    assert done.exit_code == 0, done.stderr
    first = json.loads(done.stdout)
    assert first["charts"] == [str(tmp_path / "first.svg"), str(tmp_path / "first.png")]
    before = {file: file.stat().st_mtime_ns for file in scored.rglob("*")}
    done = draw("score", scored, "--chart", tmp_path / "again.png", "--json")  # needs neither vectors nor the source
    assert done.exit_code == 0, done.stderr
    again = json.loads(done.stdout)
    assert again["percentiles"] == first["percentiles"] and again["top"] == first["top"]
    assert {file: file.stat().st_mtime_ns for file in scored.rglob("*")} == before
    assert (tmp_path / "again.svg").read_text() == (tmp_path / "first.svg").read_text()
    shown = draw("score", scored).stdout
    assert "4 rows" in shown and "charts" not in shown


def test_weights_from_counts(run_cli, vectors: Path, corpus: Path, tmp_path: Path) -> None:
    assert list(corpus_texts(corpus))[:2] == ["the woman likes the pink dress", "pink dress"]
    for weights in ("idf", "sif"):
        done = run_cli("score", corpus, "--vectors", vectors, "--weights", weights, "-o", tmp_path / weights, "--json")
        assert done.returncode == 0, done.stderr
    done = run_cli("score", "the pink dress", "--vectors", vectors, "--weights", "sif", "--counts", corpus, "--json")
    shares = {word["token"]: word["importance"] for word in json.loads(done.stdout)["words"]}
    assert shares["the"] < shares["dress"]


def test_encoder_from_training_to_importance(run_cli, vectors: Path, corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    rows = [json.loads(line) for line in corpus.read_text(encoding="utf-8").splitlines()][:3] * 20
    folder = tmp_path / "fairer"
    folder.mkdir()
    for name in ("train", "dev"):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    made = tmp_path / "encoder"
    small = ("--hidden", 8, "--epochs", 1, "--batch-size", 8, "--device", "cpu")
    done = run_cli("train", "encoder", "--data", folder, "--vectors", vectors, "-o", made, *small, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["history"][0]["epoch"] == 1
    done = run_cli("score", "the pink dress", "--vectors", vectors, "--encoder", f"infersent:{made}", "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert sum(word["count"] for word in told["words"]) + round(told["markers"] * 16) == 16
    done = run_cli("train", "encoder", "--data", folder / "train.jsonl", "--vectors", vectors, "-o", made)
    assert done.returncode == 2 and "--dev" in done.stderr


def test_top_sentences_are_distinct_and_ordered(tmp_path: Path) -> None:
    class Lengths:
        identity = "lengths"

        def score_many(self, texts: list[str]) -> np.ndarray:
            size = np.array([len(text) for text in texts], dtype=float)
            return np.stack([size, -size, 2 * size], axis=1)

    source = tmp_path / "lines.txt"
    source.write_text("aaa\nb\ncc\naaa\n", encoding="utf-8")
    found = top_sentences(score_corpus(source, tmp_path / "out", Lengths()), 2)
    assert found == {"female": [(3.0, "aaa"), (2.0, "cc")], "male": [(-3.0, "aaa"), (-2.0, "cc")]}
    # A line that fills the top of the corpus hides no other; ties are told apart by the text.
    source.write_text("aaaa\n" * 150 + "cc\nbb\na\ndd\n", encoding="utf-8")
    found = top_sentences(score_corpus(source, tmp_path / "many", Lengths()), 3)
    assert found["female"] == [(4.0, "aaaa"), (2.0, "bb"), (2.0, "cc")]
    assert [text for _, text in top_sentences(tmp_path / "many", 9)["male"]] == ["aaaa", "bb", "cc", "dd", "a"]
    pairs = [("aaaaa", "-"), ("aaa", "neutral"), ("aa", "entailment")]
    rows = [{"premise": text, "hypothesis": "b", "gold": gold} for text, gold in pairs]
    source = tmp_path / "pairs.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    found = top_sentences(score_corpus(source, tmp_path / "pairs", Lengths()), 5)
    assert found["female"] == [(3.0, "aaa"), (2.0, "aa"), (1.0, "b")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "a sentence"], "--vectors"),
        (["score", "a sentence", "--vectors", "absent.txt"], "absent.txt"),
        (["score", "CORPUS", "--vectors", "VECTORS"], "-o"),
        (["score", "a", "--vectors", "VECTORS", "--weights", "idf"], "--counts"),
        (["score", "a", "--vectors", "VECTORS", "--weights", "best"], "uniform, idf"),
        (["score", "CORPUS", "--vectors", "VECTORS", "-o", "out", "--columns", "text"], "text"),
        (["score", "CORPUS", "--vectors", "VECTORS", "-o", "out", "--engine", "spark"], "local or ray"),
        (["score", "CORPUS", "--vectors", "VECTORS", "-o", "out", "--chart", "c.pdf"], ".svg"),
        (["score", "a sentence", "--vectors", "VECTORS", "--chart", "c.svg"], "distribution"),
        (["score", "nonsense://bucket/a.txt", "--vectors", "VECTORS", "-o", "out"], "nonsense"),
        (["direction"], "--vectors"),
        (["mitigate", "subtract", "absent", "-o", "out"], "absent"),
        (["mitigate", "augment", "absent", "-o", "out", "--mode", "best"], "default, paper"),
        (["mitigate", "subtract", "absent", "-o", "out", "--split", "half"], "auto, none"),
    ],
)
def test_bad_input_is_one_line(run_cli, vectors: Path, corpus: Path, tmp_path: Path, arguments, message) -> None:
    real = {"VECTORS": str(vectors), "CORPUS": str(corpus)}
    done = run_cli(*(real.get(argument, argument) for argument in arguments), cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("text", ["", "  "])
def test_a_text_of_nothing_is_refused(run_cli, text: str) -> None:
    done = run_cli("score", text, "--vectors", "vectors.txt")
    assert done.returncode == 2 and "nothing to score" in done.stderr
