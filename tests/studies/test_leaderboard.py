"""The leaderboard: stored answers, seeds as a source of variance, rank groups, submissions, the page."""

from __future__ import annotations

import doctest
import importlib
import json
import math
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenli
from evenli.audit.pairs import PAIR_COLUMNS, subsample
from evenli.audit.suites.base import Request
from evenli.audit.suites.checks import control_pairs, gold_pairs
from evenli.audit.suites.coal.pairs import load
from evenli.core.errors import InputError, RunError
from evenli.core.labels import LABELS
from evenli.core.record import Estimate
from evenli.stats.measure import get_measure
from studies.leaderboard.__main__ import main
from studies.leaderboard.answers import Answers, expand, quantise, read_answers, sample_of, score_answers, write_answers
from studies.leaderboard.board import Board, BoardRow, rank_groups, read_board, submit_run, write_board
from studies.leaderboard.page import leaderboard_page, publish_board
from studies.leaderboard.rows import board_rows, published_rows, score_all
from studies.leaderboard.seeds import contrast, pool_seeds, seed_variance
from studies.leaderboard.stress import CUES, Stress

RELEASE = "nli_coal/en_v1.1.tar.xz"


def estimate(value: float, se: float = 0.01) -> Estimate:
    return Estimate(value, value - 1.96 * se, value + 1.96 * se, se, 0.95, 100, {"occupations": 10})


def row(name: str, value: float, se: float = 0.01, **changes: object) -> BoardRow:
    settings = {"lang": "en", "source": "ours", "measures": {"official.coal": estimate(value, se)}}
    return BoardRow(name=name, **{**settings, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["studies.leaderboard.answers", "studies.leaderboard.seeds"])
def test_examples(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted and not result.failed


# ---- codes


def test_codes_keep_every_label_and_nearly_every_probability() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (20_000, 3)).astype(np.float32)
    logits[:3000] = rng.integers(-2, 3, (3000, 3)) / 64  # ties and differences below a step
    logits[3000:4000] *= 20  # beyond the range
    again = expand(quantise(logits))
    assert (again.argmax(axis=1) == logits.argmax(axis=1)).all()
    assert (np.sign(again[:, 0] - again[:, 2]) == np.sign(logits[:, 0] - logits[:, 2])).all()

    def probabilities(values: np.ndarray) -> np.ndarray:
        odds = np.exp(values.astype(np.float64) - values.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)

    # A step is 1/16 and p changes by at most p(1 - p) per unit: a row moves by under 0.02 even where a tie was broken.
    assert abs(probabilities(again) - probabilities(logits)).max() < 0.02


def test_of_labelled_rows_the_label_alone_is_kept() -> None:
    logits = np.array([[5.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 9.0]])
    codes = quantise(logits, labels_only=np.array([True, True, True]))
    assert abs(codes).max() <= 1
    assert expand(codes).argmax(axis=1).tolist() == [0, 1, 2]


# ---- seeds


def test_a_mean_over_seeds_has_the_variance_of_items_and_seeds() -> None:
    pooled = pool_seeds([estimate(0.4, 0.03), estimate(0.6, 0.04)])
    items, seeds = (0.03**2 + 0.04**2) / 2, 0.02 / 2
    assert pooled.value == pytest.approx(0.5)
    assert pooled.se == pytest.approx(math.sqrt(items + seeds))
    # One degree of freedom for the seeds: Student's quantile is far above 1.96.
    assert pooled.high - pooled.value > 3 * pooled.se
    alike = pool_seeds([estimate(0.5, 0.04)] * 3)
    assert alike.se == pytest.approx(0.04)
    assert alike.high == pytest.approx(0.5 + 1.959964 * 0.04)
    assert pool_seeds([estimate(0.98, 0.04)] * 2, (0, 1)).high == 1


def test_the_interval_of_a_mean_covers_what_items_and_seeds_vary() -> None:
    rng = np.random.default_rng(1)
    hits, runs = 0, 2000
    for _ in range(runs):
        shared, own = rng.normal(0, 0.03), rng.normal(0, 0.05, 5)
        pooled = pool_seeds([estimate(float(0.5 + shared + one), 0.03) for one in own])
        hits += pooled.low <= 0.5 <= pooled.high
    assert 0.93 < hits / runs < 0.985


def test_one_seed_says_that_it_is_one() -> None:
    assert "one seed" in pool_seeds([estimate(0.5)]).note


def test_seed_variance_is_pooled_by_degrees_of_freedom() -> None:
    sd, low, high = seed_variance([[1.0, 3.0], [0.0, 2.0, 4.0], [7.0]])
    assert sd == pytest.approx(math.sqrt((2 * 1 + 4 * 2) / 3))
    assert low < sd < high
    assert all(math.isnan(one) for one in seed_variance([[1.0]]))


# ---- boards


def test_groups_hold_what_cannot_be_told_apart_from_their_first() -> None:
    rows = [row("c", 0.30), row("a", 0.10), row("b", 0.12), row("d", 0.31, problem="weak"), row("z", 0.2, lang="zh")]
    assert rank_groups(rows) == [2, 1, 1, None, 1]
    assert rank_groups(published_rows()) == [None] * len(published_rows())


def test_a_board_is_read_as_it_was_written(tmp_path: Path) -> None:
    board = Board(rows=[row("a", 0.1, seed_sd={"official.coal": 0.02}, accuracy={"snli": 0.9}), *published_rows()])
    files = write_board(board, tmp_path / "board.json")
    assert read_board(tmp_path / "board.json").to_dict() == board.to_dict()
    table = pl.read_parquet(files[2])
    assert table.height == len(board.rows) == pl.read_csv(files[1]).height
    assert table["official.coal.value"][0] == pytest.approx(0.1)
    assert table["rank_group"].to_list() == rank_groups(board.rows)
    (tmp_path / "board.json").write_text('{"kind": "other"}')
    with pytest.raises(InputError, match="no leaderboard"):
        read_board(tmp_path / "board.json")


# ---- answers


@pytest.fixture(scope="module")
def answers() -> Answers:
    sets = [("check", gold_pairs("en")), ("check", control_pairs("en"))]
    sets.append(("official", subsample(load(Request("en")), 300)))
    rows = [{"suite": name, **one} for name, pairs in sets for one in pairs.frame.rows(named=True)]
    rows += [{"suite": "test_snli", "premise": "p", "hypothesis": "h", "gold": label} for label in LABELS]
    asked = pl.DataFrame(rows, schema={"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)})
    right = np.array([LABELS.index(gold) if gold in LABELS else 1 for gold in asked["gold"]])
    rng = np.random.default_rng(0)
    models, codes = [], []
    for recipe, errors in (("good", 0.1), ("bad", 0.4)):
        for seed in range(2):
            said = np.where(rng.random(len(right)) < errors, rng.integers(0, 3, len(right)), right)
            said = np.where(asked["suite"] == "official", said, right)
            models.append({"base": "toy", "data": "d", "recipe": recipe, "seed": seed, "parameters": 1.0})
            codes.append(quantise(4 * np.eye(3)[said]))
    return Answers("en", asked, models, np.stack(codes))


def test_answers_are_read_as_they_were_written(answers: Answers, tmp_path: Path) -> None:
    write_answers(tmp_path / "a.tar.xz", [answers])
    (again,) = read_answers(tmp_path / "a.tar.xz")
    assert (again.codes == answers.codes).all()
    assert again.asked.equals(answers.asked)
    assert again.models == answers.models
    (tmp_path / "b.tar.xz").write_bytes((tmp_path / "a.tar.xz").read_bytes()[:200])
    with pytest.raises(InputError, match="no answers"):
        read_answers(tmp_path / "b.tar.xz")


def test_rows_are_means_over_seeds(answers: Answers) -> None:
    scored = score_all(answers)
    rows = board_rows(answers, scored)
    assert [one.recipe for one in rows] == ["good", "bad"]
    fn = [scored[number][0]["official.fn_bias"].value for number in range(4)]
    assert rows[0].value("official.fn_bias") == pytest.approx((fn[0] + fn[1]) / 2)
    assert rows[0].seed_sd["official.fn_bias"] == pytest.approx(np.std(fn[:2], ddof=1))
    assert rows[0].accuracy == {"snli": 1.0}
    assert not rows[0].problem
    # The control: a model that errs more has more of it.
    assert rows[1].value("official.fn_bias") > rows[0].value("official.fn_bias") + 0.1


def test_a_model_that_always_says_neutral_has_no_rank(answers: Answers) -> None:
    codes = quantise(np.tile([0.0, 4.0, 0.0], (answers.asked.height, 1)))
    silent = Answers("en", answers.asked, answers.models[:1], codes[None])
    (one,) = board_rows(silent, [score_answers(silent.table(0))])
    assert one.value("official.coal") == pytest.approx(0)
    assert "neutral" in one.problem
    assert rank_groups([one]) == [None]


def test_a_contrast_is_the_difference_of_means(answers: Answers) -> None:
    samples = [sample_of(answers.table(number), "official") for number in range(4)]
    measure = get_measure("fn_bias")
    found = contrast(measure, samples[:2], samples[2:])
    means = [np.mean([float(measure(one)) for one in part]) for part in (samples[:2], samples[2:])]
    assert found.value == pytest.approx(means[1] - means[0])
    assert found.low > 0
    same = contrast(measure, samples[:2], samples[:2])
    assert same.value == pytest.approx(0)
    assert same.low <= 0 <= same.high


# ---- submissions


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board") / "run"
    evenli.audit("fake:oracle:0.3", out=folder)
    return folder


def test_a_run_on_built_in_pairs_has_a_row_without_rank(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    board = tmp_path / "board.json"
    main(["submit", str(run), "--board", str(board), "--name", "mine"])
    assert "without rank" in capsys.readouterr().out
    (one,) = read_board(board).rows
    stored = json.loads((run / "results.json").read_text())["coal"]["measures"]["coal"]
    assert one.value("coal.coal") == pytest.approx(stored["value"])
    assert rank_groups([one]) == [None]
    with pytest.raises(RunError, match="already"):
        submit_run(run, board, name="again")
    with pytest.raises(SystemExit) as ended:
        main(["submit", str(run), "--board", str(board), "--name", "again"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "already" in said


def test_changed_numbers_and_other_pairs_are_refused(run: Path, tmp_path: Path) -> None:
    import shutil

    changed = shutil.copytree(run, tmp_path / "changed")
    text = (changed / "results.json").read_text()
    (changed / "results.json").write_text(re.sub(r'"value": 0\.\d+', '"value": 0.001', text, count=1))
    with pytest.raises(RunError):
        submit_run(changed, tmp_path / "board.json")
    evenli.audit("fake:oracle:0.3", out=tmp_path / "part", limit=200)
    with pytest.raises(RunError, match="official pairs"):
        submit_run(tmp_path / "part", tmp_path / "board.json")
    assert not (tmp_path / "board.json").exists()


def test_a_run_on_the_official_pairs_is_ranked(shared_data: Path, tmp_path: Path) -> None:
    evenli.audit("fake:oracle:0.3", data=shared_data / RELEASE, out=tmp_path / "run")
    one = submit_run(tmp_path / "run", tmp_path / "board.json")
    assert one.measures["official.coal"].se >= 0
    assert not one.problem
    assert rank_groups([one]) == [1]


# ---- page


def test_the_page_escapes_names_and_marks_published_rows(tmp_path: Path) -> None:
    rows = [row("<script>alert(1)</script>", 0.1, problem="<b>weak</b>"), row("ours", 0.2), *published_rows()]
    write_board(Board(rows=rows), tmp_path / "board.json")
    main(["page", str(tmp_path / "board.json")])
    text = (tmp_path / "index.html").read_text()
    assert "<script>alert" not in text
    assert "<b>weak" not in text
    assert "&lt;script&gt;alert(1)" in text
    assert "default-src &#39;none&#39;" in text or "default-src 'none'" in text
    assert text.count('data-source="published"') == len(published_rows())
    assert leaderboard_page(Board(rows=rows)) == text


def test_the_command_gives_what_the_call_gives(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = tmp_path / "board.json"
    write_board(Board(rows=[BoardRow(name="one", lang="en", source="ours")]), board)
    written = publish_board(board)
    page = written.page.read_bytes()
    main(["page", str(board), "--json"])
    assert json.loads(capsys.readouterr().out) == {
        "page": str(written.page),
        "rows": 1,
        "files": list(map(str, written.files)),
    }
    assert written.page.read_bytes() == page


def test_cues_that_mislead_are_found_in_real_wording() -> None:
    asked = [
        ("Nobody waits here.", "Someone isn't here.", "entailment"),  # the premise denies, too: no cue
        ("A man waits for two women.", "The man does not sleep.", "entailment"),
        ("A man waits for two women.", "The man is not there.", "contradiction"),
        ("A man waits for two women.", "Two women waits for a man.", "neutral"),
        ("A man waits for two women.", "He waits for three women.", "neutral"),
        ("A man waits for two women.", "Somebody sits still outside.", "neutral"),
        ("A man waits for two women.", "Everybody is outside today.", "entailment"),
    ]
    columns = {"suite": pl.String, **dict.fromkeys(PAIR_COLUMNS, pl.String)}
    rows = [{"suite": "test_snli", "premise": p, "hypothesis": h, "gold": g} for p, h, g in asked]
    frame = pl.DataFrame([*rows, {**rows[0], "suite": "coal"}], schema=columns)
    stress = Stress(Answers("en", frame, [], np.zeros((0, len(frame), 2), dtype=np.int8)))
    found = {name: (np.flatnonzero(stress.misled[name]), np.flatnonzero(stress.led[name])) for name in CUES}
    assert {name: tuple(part.tolist() for part in parts) for name, parts in found.items()} == {
        "a new negation": ([1], [2]),
        "many shared words": ([3], []),
        "few shared words": ([1, 6], [2, 5]),
        "other numbers": ([4], []),
    }
    assert np.flatnonzero(stress.all).tolist() == [1, 3, 4, 6]
    # Of the first four pairs one seed has four right, the other two.
    labels = np.array([[LABELS.index(g) for _, _, g in asked]] * 2)
    labels[1, :2] = (labels[1, :2] + 1) % 3
    assert stress.accuracy(labels, np.arange(7) < 4).startswith("75.0 ±")
    assert stress.accuracy(labels[:1], np.arange(7) < 4) == "100.0 ± 0.0"
