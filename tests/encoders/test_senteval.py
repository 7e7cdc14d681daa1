"""SentEval: the readers, the trainer against plain torch, the tasks, the cache, the command."""

from __future__ import annotations

import csv
import gzip
import json
import lzma
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from evenli.core.errors import InputError, ModelError, ResourceError, RunError
from evenli.encoders.base import EmbeddingCache
from evenli.encoders.senteval import SentEvalResult, SentEvalSettings, TaskResult, senteval
from evenli.encoders.senteval.data import TASKS, Task, read_task
from evenli.encoders.senteval.tables import PUBLISHED, PUBLISHED_OVERALL
from evenli.encoders.vectors import VectorMean, WordVectors

torch = pytest.importorskip("torch")

from evenli.encoders.senteval.fitting import (  # noqa: E402
    DECAYS,
    SklearnFitter,
    TorchFitter,
    cosines,
    evaluate,
    graded,
    pearson,
    seed_of,
    soft_grades,
    spearman,
    stratified_folds,
)
from evenli.encoders.senteval.lockstep import FitRecipe, Objective, train_together  # noqa: E402

SIZES = {
    "MR": 10662,
    "CR": 3775,
    "SUBJ": 10000,
    "MPQA": 10606,
    "TREC": 5952,
    "SST2": 9613,
    "SST5": 11855,
    "STSB": 8628,
    "SICKR": 9927,
    "SICKE": 9927,
    "STS14": 3750,
    "MRPC": 5801,
}
WIDE = 400
"""Few rows make few steps; many features let the outputs get somewhere in them."""
NOUNS = ("tree", "car", "house", "river", "cloud", "stone", "bird", "road", "lamp", "door")


class Words:
    """Random vectors for words; a text is their sum."""

    identity = "random words"

    def __init__(self, dimension: int = WIDE, blind: bool = False) -> None:
        self._made: dict[str, np.ndarray] = {}
        self._dimension, self._blind, self.asked = dimension, blind, 0

    def encode(self, texts):
        self.asked += len(texts)
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> np.ndarray:
        words = [text] if self._blind else text.split()
        return np.sum([self._vector(word) for word in words], axis=0)

    def _vector(self, word: str) -> np.ndarray:
        if word not in self._made:
            seed = int.from_bytes(word.encode()[-6:], "big")
            self._made[word] = np.random.default_rng(seed).standard_normal(self._dimension).astype(np.float32)
        return self._made[word]


def run_senteval(encoder, data, *, on_step=lambda task, line: None, out=None, cache=None, **settings) -> SentEvalResult:
    return senteval(encoder, data, SentEvalSettings(**settings), out=out, cache=cache, on_step=on_step)


def write_flat(folder: Path, rows: int = 120) -> Path:
    """A small folder in the flat layout; every task can be solved from one word."""
    draw = np.random.default_rng(0)

    def noun() -> str:
        return " ".join(draw.choice(NOUNS, 3))

    def both(good: bool) -> list[str]:
        return [f"{'fine' if good else 'awful'} {noun()} {number}" for number in range(rows)]

    folder.mkdir(parents=True, exist_ok=True)
    for task, names in (
        ("MR", ("neg", "pos")),
        ("CR", ("neg", "pos")),
        ("SUBJ", ("subjective", "objective")),
        ("MPQA", ("neg", "pos")),
    ):
        for label, name in enumerate(names):
            (folder / f"{task}.{name}.txt").write_text("\n".join(both(bool(label))) + "\n", encoding="utf-8")
    kinds = ("NUM", "LOC", "HUM")
    for split in ("train", "test"):
        lines = [f"{kinds[row % 3]}:x {kinds[row % 3].lower()} {noun()} ?" for row in range(rows)]
        (folder / f"TREC.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        pairs = [
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String",
            *(f"{row % 2}\t1\t2\t{(text := noun())}\t{text if row % 2 else 'other ' + noun()}" for row in range(rows)),
        ]
        (folder / f"msr-para-{split}.tsv").write_text("\n".join(pairs) + "\n", encoding="utf-8")
    for kind, classes in (("binary", 2), ("fine", 5)):
        for split in ("train", "dev", "test"):
            lines = [f"{row % classes} grade{row % classes} {noun()}" for row in range(rows)]
            (folder / f"SST.{kind}.{split}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for split in ("train", "dev", "test"):
        lines = [
            f'"{(text := noun())}, so","{text if row % 2 else noun()}, so",{5.0 if row % 2 else 1.5}'
            for row in range(rows)
        ]
        (folder / f"stsb-en-{split}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    judgements = ("CONTRADICTION", "NEUTRAL", "ENTAILMENT")
    for part in ("train", "trial", "test_annotated"):
        lines = ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]
        for row in range(rows):
            text = noun()
            other = (f"no {noun()}", noun(), text)[row % 3]
            lines.append(f"{row}\t{text}\t{other}\t{1 + 2 * (row % 3)}\t{judgements[row % 3]}")
        (folder / f"SICK_{part}.txt").write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    lines = ["dataset\tscore\tsentence1\tsentence2"]
    for subset in ("headlines", "images"):
        for row in range(rows // (1 if subset == "images" else 2)):
            text = noun()
            lines.append(f"{subset}.test\t{5 * (row % 2)}\t{text}\t{text if row % 2 else noun()}")
    (folder / "STS14.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flat(tmp_path_factory.mktemp("senteval"))


# Readers


def test_the_public_files_have_the_published_sizes(shared_data: Path) -> None:
    folder = shared_data / "senteval"
    tasks = {name: read_task(name, folder) for name in TASKS}
    assert {name: len(task) for name, task in tasks.items()} == SIZES
    assert {name: len(set(task.labels)) for name, task in tasks.items() if task.labels is not None} == {
        **dict.fromkeys(("MR", "CR", "SUBJ", "MPQA", "SST2", "MRPC"), 2),
        "TREC": 6,
        "SST5": 5,
        "SICKE": 3,
    }
    assert {part: len(rows) for part, rows in tasks["MRPC"].splits.items()} == {"train": 4076, "test": 1725}
    assert {part: len(rows) for part, rows in tasks["STS14"].subsets.items()} == {
        "deft-forum": 450,
        "deft-news": 300,
        "headlines": 750,
        "images": 750,
        "OnWN": 750,
        "tweet-news": 750,
    }
    assert tasks["SICKR"].others[0] == "A group of boys in a yard is playing and a man is standing in the background"
    assert tasks["SICKR"].scores is not None and tasks["SICKR"].scores[0] == 4.5
    assert tasks["SICKE"].labels is not None and np.bincount(tasks["SICKE"].labels).tolist() == [1459, 5611, 2857]
    assert all(text.strip() for task in tasks.values() for text in task.texts + task.others)


def test_senteval_layout_and_packings_give_the_same(flat: Path, tmp_path: Path) -> None:
    base = tmp_path / "downstream"
    for folder in ("MR", "TREC", "SST/binary", "SST/fine", "SICK", "MRPC", "STS/STSBenchmark", "STS/STS14-en-test"):
        (base / folder).mkdir(parents=True)

    def text(name: str) -> str:
        return (flat / name).read_text(encoding="utf-8")

    with gzip.open(base / "MR" / "rt-polarity.neg.gz", "wt", encoding="utf-8") as stream:
        stream.write(text("MR.neg.txt"))
    with lzma.open(base / "MR" / "rt-polarity.pos.xz", "wt", encoding="utf-8") as stream:
        stream.write(text("MR.pos.txt"))
    (base / "TREC" / "train_5500.label").write_text(text("TREC.train.txt"), encoding="utf-8")
    (base / "TREC" / "TREC_10.label").write_text(text("TREC.test.txt"), encoding="utf-8")
    for split in ("train", "dev", "test"):
        turned = [
            " ".join(line.split(" ")[1:]) + "\t" + line[0] for line in text(f"SST.binary.{split}.txt").splitlines()
        ]
        (base / "SST/binary" / f"sentiment-{split}").write_text("\n".join(turned) + "\n", encoding="utf-8")
        (base / "SST/fine" / f"sentiment-{split}").write_text(text(f"SST.fine.{split}.txt"), encoding="utf-8")
        task = read_task("STSB", flat)
        assert task.scores is not None
        lines = [
            f"g\tf\ty\t{row}\t{task.scores[row]}\t{task.texts[row]}\t{task.others[row]}" for row in task.splits[split]
        ]
        (base / "STS/STSBenchmark" / f"sts-{split}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for part in ("train", "trial", "test_annotated"):
        (base / "SICK" / f"SICK_{part}.txt").write_text(text(f"SICK_{part}.txt"), encoding="utf-8")
    for split in ("train", "test"):
        (base / "MRPC" / f"msr_paraphrase_{split}.txt").write_text(text(f"msr-para-{split}.tsv"), encoding="utf-8-sig")
    for name in ("MR", "TREC", "SST2", "SST5", "STSB", "SICKR", "SICKE", "MRPC"):
        ours, theirs = read_task(name, flat), read_task(name, tmp_path)
        assert ours.texts == theirs.texts and ours.others == theirs.others
        for mine, other in ((ours.labels, theirs.labels), (ours.scores, theirs.scores)):
            assert (mine is None) == (other is None)
            assert mine is None or other is None or mine.tolist() == other.tolist()


def test_sts14_pairs_without_a_score_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "STS" / "STS14-en-test"
    folder.mkdir(parents=True)
    for subset in ("deft-forum", "deft-news", "headlines", "images", "OnWN", "tweet-news"):
        (folder / f"STS.input.{subset}.txt").write_text("a b\tc d\ne f\tg h\ni j\tk l\n", encoding="utf-8")
        (folder / f"STS.gs.{subset}.txt").write_text("1.5\n\n4\n", encoding="utf-8")
    task = read_task("STS14", tmp_path)
    assert task.texts[:2] == ("a b", "i j") and task.scores is not None and task.scores[:2].tolist() == [1.5, 4.0]
    assert {part: len(rows) for part, rows in task.subsets.items()}["OnWN"] == 2
    assert task.unscored == 6
    (folder / "STS.gs.images.txt").write_text("1.5\n", encoding="utf-8")
    with pytest.raises(InputError, match="STS.gs.images.txt"):
        read_task("STS14", tmp_path)


def test_other_years_of_sts(tmp_path: Path) -> None:
    lines = ["dataset\tscore\tsentence1\tsentence2"]
    rows = [("MSRpar.test", 1), ("MSRpar.test", ""), ("MSRpar.test", 4), ("MSRpar.train", 5), ("OnWN.test", 2.5)]
    lines += [f"{subset}\t{score}\ta b {at}\tc d" for at, (subset, score) in enumerate(rows)]
    (tmp_path / "STS12.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    task = read_task("STS12", tmp_path)
    assert task.texts == ("a b 0", "a b 2", "a b 4") and task.scores is not None
    assert task.scores.tolist() == [1.0, 4.0, 2.5]
    assert {part: rows.tolist() for part, rows in task.subsets.items()} == {"MSRpar": [0, 1], "OnWN": [2]}
    assert task.unscored == 1  # that of the training part is none
    (tmp_path / "STS13.tsv").write_text("\n".join([lines[0], "FNWN.test\t\ta\tb"]) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match="STS13.*score"):
        read_task("STS13", tmp_path)


def test_other_years_are_run_when_named_and_leave_the_mean_alone(flat: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(flat, tmp_path / "flat")
    (folder / "STS16.tsv").write_text((flat / "STS14.tsv").read_text(encoding="utf-8"), encoding="utf-8")
    result = run_senteval(Words(), folder, tasks=["STS16", "STS14"])
    assert list(result.tasks) == ["STS14", "STS16"]
    assert result.tasks["STS16"].score == pytest.approx(result.tasks["STS14"].score)
    assert result.tasks["STS16"].note == ""
    with (folder / "STS16.tsv").open("a", encoding="utf-8") as stream:
        stream.write("images\t\tnobody\tscored this\nimages\t \tnor\tthat\n")
    more = run_senteval(Words(), folder, tasks=["STS16"])
    assert more.tasks["STS16"].metrics == pytest.approx(result.tasks["STS16"].metrics)
    assert more.tasks["STS16"].note.startswith("2 of 182 pairs have no human score")
    assert "STS16" not in SentEvalSettings().names and len(SentEvalSettings().names) == 12


def test_latin_1_and_empty_lines(tmp_path: Path) -> None:
    (tmp_path / "MR.neg.txt").write_bytes(b"clich\xe9 film\n\n")
    (tmp_path / "MR.pos.txt").write_bytes(b"good\x85 film\n")
    task = read_task("MR", tmp_path)
    assert task.texts == ("cliché film", ".", "good\x85 film") and task.labels is not None
    assert task.labels.tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("task", "file", "content", "message"),
    [
        (
            "TREC",
            "TREC.train.txt",
            "NUM:x how far ?\nHOW far ?",
            "line 2.*HOW",
        ),
        ("TREC", "TREC.train.txt", "ZZZ:x how far ?", "line 1.*ZZZ"),
        ("SST2", "SST.binary.train.txt", "1 good\n3 bad", "line 2.*'3'"),
        ("STSB", "stsb-en-train.csv", "a,b,1\na,b", "line 2.*fields"),
        ("STSB", "stsb-en-train.csv", "a,b,high", "high"),
        ("SICKE", "SICK_train.txt", "head\n1\ta\tb\t3\tMAYBE", "line 2.*MAYBE"),
        ("SICKR", "SICK_train.txt", "head\n1\ta\tb", "3 fields"),
        ("SICKR", "SICK_train.txt", "head\n1\ta\tb\tnan\tNEUTRAL", "nan"),
        ("MRPC", "msr-para-train.tsv", "head\n7\t1\t2\ta\tb", "'7'"),
        ("MR", "MR.neg.txt", "\n\n", "MR.neg.txt"),
        ("MRPC", "msr-para-test.tsv", "junk\n", "msr-para-test.tsv"),
        ("SICKR", "SICK_trial.txt", "head\n\n", "SICK_trial.txt"),
        ("STSB", "stsb-en-dev.csv", "", "stsb-en-dev.csv"),
        ("STSB", "stsb-en-dev.csv", '"' + "a" * 140_000, "stsb-en-dev.csv, line 1"),
        ("STS14", "STS14.tsv", "head\n", "STS14.tsv"),
        ("TREC", "TREC.train.txt", "NUM:x how far ?\nNUM:x how old ?", "one class"),
    ],
)
def test_a_broken_line_is_named(flat: Path, tmp_path: Path, task: str, file: str, content: str, message: str) -> None:
    for path in flat.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / file).write_text(content, encoding="utf-8")
    limit = csv.field_size_limit(131_072)  # other readers raise it for the whole process
    try:
        with pytest.raises(InputError, match=message):
            read_task(task, tmp_path)
    finally:
        csv.field_size_limit(limit)


def test_missing_and_unreadable_files_are_named(flat: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="SICK_train.txt"):
        read_task("SICKR", tmp_path)
    with pytest.raises(ResourceError, match="nowhere"):
        read_task("MR", tmp_path / "nowhere")
    with pytest.raises(InputError, match="SNLI"):
        read_task("SNLI", flat)
    (tmp_path / "MR.neg.txt.xz").write_bytes(b"no archive")
    with pytest.raises(InputError, match="MR.neg.txt.xz"):
        read_task("MR", tmp_path)


# Folds and measures


def test_folds_are_balanced_and_repeatable() -> None:
    labels = np.repeat([0, 1, 2], [53, 31, 11])
    folds = stratified_folds(labels, 5, np.random.default_rng(seed_of(1, "MR", "outer")))
    assert np.ptp(np.bincount(folds)) <= 1
    for label in range(3):
        assert np.ptp(np.bincount(folds[labels == label], minlength=5)) <= 1
    again = stratified_folds(labels, 5, np.random.default_rng(seed_of(1, "MR", "outer")))
    other = stratified_folds(labels, 5, np.random.default_rng(seed_of(1, "CR", "outer")))
    assert (folds == again).all() and (folds != other).any()
    with pytest.raises(InputError, match="12 folds"):
        stratified_folds(labels, 12, np.random.default_rng(seed_of(1)))


def test_correlations_match_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    draw = np.random.default_rng(3)
    x, y = draw.standard_normal(200), draw.integers(0, 6, 200).astype(float)
    assert pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0], abs=1e-12)
    assert spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0], abs=1e-12)
    assert pearson(2 * x - 1, -x) == pytest.approx(-1) and math.isnan(pearson(np.ones(200), x))


def test_grades_share_a_score_between_neighbours() -> None:
    expected = [[0, 0, 0.4, 0.6, 0], [0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0.5, 0, 0, 0, 0]]
    assert soft_grades(np.array([3.6, 5.0, 1.0, 0.5])) == pytest.approx(np.array(expected), abs=1e-6)
    u = np.array([[1, 0], [1, 1], [0, 0]], dtype=np.float32)
    v = np.array([[1, 1], [-2, -2], [1, 0]], dtype=np.float32)
    assert cosines(u, v) == pytest.approx([math.sqrt(0.5), -1, 0])


# The trainer


def problem_of(rows: int = 300, inputs: int = 11, classes: int = 3, folds: int = 2):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, inputs)).astype(np.float32)
    labels = np.argmax(x @ draw.standard_normal((inputs, classes)) + draw.standard_normal((rows, classes)), axis=1)
    train = np.stack([draw.permutation(rows) < 0.8 * rows for _ in range(folds)])
    return torch.from_numpy(x), labels.astype(np.int64), train


def trained(train: np.ndarray, decays: list[float], recipe: FitRecipe, score=None):
    """Models of ``problem_of``: their outputs on all rows, their scores, and the rows of every step."""
    x, labels, _ = problem_of(train.shape[1])
    target, steps = torch.from_numpy(labels), []

    def loss(outputs, rows):
        steps.append(len(rows))
        each = target[rows][:, None].expand(-1, outputs.shape[2])
        return torch.nn.functional.cross_entropy(outputs, each, reduction="none")

    def right(outputs, models):
        return (outputs.argmax(dim=1) == target[:, None]).double().mean(dim=0).numpy()

    every = np.arange(len(labels))
    objective = Objective(3, loss, every, score or right)
    outputs, scores = train_together(
        x, objective, train, np.array(decays), recipe, torch.Generator().manual_seed(seed_of(5, "T"))
    )
    return outputs(every), scores, steps


@pytest.mark.parametrize(("decay", "hidden"), [(0.0, 0), (1e-2, 0), (1e-2, 7)])
def test_one_model_learns_as_torch_would_teach_it(decay: float, hidden: int) -> None:
    x, labels, _ = problem_of()
    outputs, scores, steps = trained(np.ones((1, 300), dtype=bool), [decay], FitRecipe(most=3, hidden=hidden))
    assert steps == 4 * [64, 64, 64, 64, 44]

    generator, target = torch.Generator().manual_seed(seed_of(5, "T")), torch.from_numpy(labels)
    layers = [torch.nn.Linear(11, hidden), torch.nn.Linear(hidden, 3)] if hidden else [torch.nn.Linear(11, 3)]
    for layer in layers:
        start = torch.rand(layer.out_features, layer.in_features + 1, generator=generator).mul_(2).sub_(1)
        start /= layer.in_features**0.5
        layer.weight.data, layer.bias.data = start[:, :-1].clone(), start[:, -1].clone()
    model = torch.nn.Sequential(*layers[:1], *([torch.nn.Sigmoid(), layers[1]] if hidden else []))
    adam = torch.optim.Adam(model.parameters(), weight_decay=decay)
    for _ in range(4):
        for batch in torch.randperm(300, generator=generator).split(64):
            adam.zero_grad()
            torch.nn.functional.cross_entropy(model(x[batch]), target[batch]).backward()
            adam.step()
    expected = model(x).detach()
    assert outputs[:, :, 0].numpy() == pytest.approx(expected.numpy(), abs=2e-5)
    assert scores[0] == pytest.approx((expected.argmax(dim=1) == target).double().mean())


@pytest.mark.parametrize("hidden", [0, 7])
def test_models_that_train_together_do_not_touch_each_other(hidden: int) -> None:
    train, recipe = problem_of()[2], FitRecipe(passes=1, most=3, tenacity=0, hidden=hidden)

    def outputs(decay: float, other: float) -> tuple[np.ndarray, np.ndarray]:
        """With the decay and the later scores of the first model."""
        looks = iter([0.5, other, other, other])
        found = trained(train, [decay, 1e-2], recipe, lambda _, models: np.array([next(looks), 0])[models] + models)[0]
        return found[..., 0].numpy(), found[..., 1].numpy()

    first, second = outputs(0.0, 0.6)
    for decay, other in ((1.0, 0.6), (0.0, 0.1)):
        changed, same = outputs(decay, other)
        assert same == pytest.approx(second, abs=1e-5)
        assert not np.allclose(changed, first if decay else second, atol=1e-4)


def test_early_stop_counts_all_misses_and_keeps_the_best() -> None:
    """Scores as written, one row of them per look."""

    def run(script: list[list[float]], recipe: FitRecipe):
        asked = []

        def score(outputs, models):
            asked.append(models.tolist())
            return np.array(script[min(len(asked), len(script)) - 1])[models]

        models = len(script[0])
        outputs, scores, _ = trained(np.ones((models, 64), dtype=bool), [0.0] * models, recipe, score)
        return outputs[:, :, 0].numpy(), scores.tolist(), asked

    # Model 0 misses at looks 2, 4, 5: the gain at look 3 does not forgive the first miss.
    script = [[0.5, 0.1], [0.4, 0.2], [0.6, 0.3], [0.6, 0.4], [0.6, 0.5], [0.6, 0.6], [0.6, 0.7], [0.6, 0.7]]
    outputs, scores, asked = run(script, FitRecipe(tenacity=2, passes=1, most=1000))
    assert asked == [[0, 1]] * 5 + [[1]] * 5  # model 1: best at look 7, then three misses
    assert scores == [0.6, 0.7]
    third, *_ = run(script[:3], FitRecipe(passes=1, most=2))
    assert outputs == pytest.approx(third, abs=1e-6)
    assert run([[0.5, 0.1], [0.4, 0.2]], FitRecipe(tenacity=0, passes=1, most=1))[1] == [0.5, 0.2]
    assert len(run([[row / 1000] for row in range(100)], FitRecipe(passes=4, most=200))[2]) == 51


def test_shared_batches_hold_as_many_rows_of_a_fold_as_published() -> None:
    train = problem_of(2000)[2]
    steps = trained(train, [0.0, 0.0], FitRecipe(most=3))[2]
    assert steps[0] * train.sum() / (2 * train.any(axis=0).sum()) == pytest.approx(64, abs=0.5)


def shifted(rows: int):
    """Noise, the same noise with the classes moved apart along all axes, and the classes."""
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 2, rows)
    noise = draw.standard_normal((rows, WIDE)).astype(np.float32)
    return noise, noise + 0.2 * (2 * labels[:, None] - 1).astype(np.float32), labels


def folded(labels: np.ndarray) -> Task:
    """A task that is cross-validated."""
    return Task("MR", (), (), {"all": np.arange(len(labels))}, labels)


def test_nested_folds_find_a_signal_and_nothing_where_there_is_none() -> None:
    noise, signal, labels = shifted(300)

    def accuracy(features, seed: int = 1):
        fitter = TorchFitter(torch.from_numpy(features), labels, FitRecipe(), seed, "MR")
        return evaluate(fitter, folded(labels), 3, seed)

    found = accuracy(signal)
    assert found.accuracy > 94 and found.answers.shape == (300,)
    assert 40 < accuracy(noise).accuracy < 60
    again, other = accuracy(signal), accuracy(signal, seed=2)
    assert (found.answers == again.answers).all() and found.dev == again.dev
    assert abs(found.accuracy - other.accuracy) < 4


def test_both_classifiers_agree(flat: Path) -> None:
    pytest.importorskip("sklearn")
    _, x, labels = shifted(400)
    ours = TorchFitter(torch.from_numpy(x), labels, FitRecipe(), 1, "MR")
    theirs = SklearnFitter(x, labels, 1)
    assert theirs.grids["nested"] == (0.25, 0.5, 1, 2, 4, 8) and theirs.grids["cross_validated"][-1] == 32
    first, second = (evaluate(fitter, folded(labels), 4, 1) for fitter in (ours, theirs))
    assert (first.answers == second.answers).mean() > 0.93
    assert abs(first.accuracy - second.accuracy) < 3
    result = run_senteval(Words(), flat, tasks=["SST2", "MRPC"], classifier="sklearn", kfold=3)
    assert result.tasks["SST2"].score == 100 and result.settings["classifier"] == "sklearn"


def test_graded_pairs_are_learned() -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((300, 6)).astype(np.float32)
    scores = np.clip(3 + x[:, 0] + 0.2 * draw.standard_normal(300), 1, 5)
    splits = {"train": np.arange(150), "dev": np.arange(150, 200), "test": np.arange(200, 300)}
    found, dev = graded(torch.from_numpy(x), scores, splits, 1, "SICKR")
    assert dev > 0.9 and pearson(found, scores[200:]) > 0.9
    assert found.min() >= 1 and found.max() <= 5


# Whole runs


def test_all_twelve_tasks_run_and_only_a_useful_encoder_solves_them(flat: Path) -> None:
    seen: list[tuple[str, bool]] = []
    result = run_senteval(Words(), flat, kfold=3, on_step=lambda task, line: seen.append((task, bool(line))))
    assert tuple(result.tasks) == TASKS and not result.missing
    assert seen == [(name, done) for name in TASKS for done in (False, True)]
    for name in ("MR", "CR", "SUBJ", "MPQA", "SST2"):
        assert result.tasks[name].score > 97, name
    assert result.tasks["MR"].n == 240 and result.tasks["STS14"].n == 180 and math.isnan(result.tasks["STS14"].dev)
    assert result.tasks["SICKR"].score > 60 and result.tasks["STS14"].score > 60
    assert set(result.tasks["MRPC"].metrics) == {"accuracy", "f1"}
    scores = [task.score for task in result.tasks.values()]
    assert result.overall == pytest.approx(np.mean(scores))
    blind = run_senteval(Words(blind=True), flat, kfold=3, tasks=["MR", "STS14"])
    assert 30 < blind.tasks["MR"].score < 70 and blind.overall is None
    assert blind.tasks["STS14"].score > 60  # the same text twice is still the same vector


def test_sts14_weighs_subsets_by_their_pairs(flat: Path) -> None:
    metrics = run_senteval(Words(), flat, tasks=["STS14"]).tasks["STS14"].metrics
    parts = metrics["pearson_headlines"], metrics["pearson_images"]
    assert metrics["pearson"] == pytest.approx((60 * parts[0] + 120 * parts[1]) / 180)
    assert metrics["pearson_mean"] == pytest.approx(sum(parts) / 2)
    assert abs(metrics["pearson"] - metrics["pearson_mean"]) > 1e-6


def test_a_result_does_not_depend_on_the_tasks_beside_it(flat: Path) -> None:
    single = run_senteval(Words(), flat, tasks=["SICKE"], seed=3).tasks["SICKE"]
    beside = run_senteval(Words(), flat, tasks=["SICKE", "TREC"], seed=3, kfold=3).tasks["SICKE"]
    assert single == beside


def test_missing_tasks_are_named_and_the_others_run(flat: Path, tmp_path: Path) -> None:
    for path in flat.glob("SST*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    result = run_senteval(Words(), tmp_path)
    assert set(result.tasks) == {"SST2", "SST5"} and len(result.missing) == 10
    assert "msr-para-train.tsv" in result.missing["MRPC"]
    assert result.overall is None
    again = SentEvalResult.from_dict(json.loads(json.dumps(result.to_dict(), allow_nan=False)))
    assert again.to_dict() == result.to_dict()
    with pytest.raises(RunError, match="SentEval"):
        SentEvalResult.from_dict({"tasks": {"MR": 3}})


def test_broken_tasks_are_named_and_the_others_run(flat: Path, tmp_path: Path) -> None:
    for path in flat.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "msr-para-test.tsv").write_text("junk\n", encoding="utf-8")
    (tmp_path / "MR.pos.txt").write_text("", encoding="utf-8")
    (tmp_path / "CR.neg.txt").unlink()
    packed = lzma.compress((flat / "CR.neg.txt").read_bytes())
    (tmp_path / "CR.neg.txt.xz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "SUBJ.objective.txt").write_text("fine tree\n" * 5, encoding="utf-8")
    chosen = ["MR", "CR", "SUBJ", "SST2", "MRPC"]
    seen = []
    result = run_senteval(
        Words(), tmp_path, tasks=chosen, on_step=lambda task, line: seen.append(task) if line else None
    )
    assert seen == list(result.tasks) == ["SST2"]
    assert result.tasks["SST2"] == run_senteval(Words(), flat, tasks=["SST2"]).tasks["SST2"]
    assert result.missing["MR"] == f"MR: {tmp_path / 'MR.pos.txt'} holds no text; get the file again"
    assert result.missing["CR"].startswith(f"CR: cannot read {tmp_path / 'CR.neg.txt.xz'}: ")
    assert result.missing["SUBJ"] == "SUBJ: 10 folds: the smallest class has 5 rows; choose 2 to 5 folds"
    assert result.missing["MRPC"] == f"MRPC: {tmp_path / 'msr-para-test.tsv'} holds no rows; get the file again"

    class Broken(Words):
        def encode(self, texts):
            return super().encode(texts) * np.nan

    with pytest.raises(ModelError, match="finite"):  # no fault of a task
        run_senteval(Broken(), flat, tasks=["SST2", "SST5"])


def test_stored_results_are_not_computed_again(flat: Path, tmp_path: Path) -> None:
    encoder, seen, out = Words(), [], tmp_path / "result.json"
    first = run_senteval(Words(), flat, tasks=("SST5",), out=out)
    result = run_senteval(encoder, flat, tasks=("SST2",), out=out, on_step=lambda task, line: seen.append(line or task))
    assert list(result.tasks) == ["SST2", "SST5"] and result["SST5"].to_dict() == first["SST5"].to_dict()
    assert seen[0] == f"SST5: kept from {out}" and seen[1] == "SST2" and seen[2].startswith("SST2 100.00 (")
    assert encoder.asked == len(set(read_task("SST2", flat).texts))
    assert json.loads(out.read_text(encoding="utf-8")) == result.to_dict()
    assert repr(result) == "SentEvalResult(2 tasks, 0 missing)"


def test_a_task_has_one_hash_in_every_packing(flat: Path, tmp_path: Path) -> None:
    for path in flat.glob("SST.*"):
        (tmp_path / f"{path.name}.xz").write_bytes(lzma.compress(path.read_bytes()))
    names = ("SST2", "SST5")
    hashes = [read_task(name, folder).sha256 for folder in (flat, tmp_path) for name in names]
    assert hashes[:2] == hashes[2:] and hashes[0] != hashes[1]
    assert run_senteval(Words(), flat, tasks=["SST2"]).tasks["SST2"].data == hashes[0]
    lines = (flat / "SST.binary.test.txt").read_text(encoding="utf-8").replace("0 grade0", "1 grade0", 1)
    (tmp_path / "SST.binary.test.txt").write_text(lines, encoding="utf-8")
    changed = [read_task(name, tmp_path).sha256 for name in names]
    assert changed[0] != hashes[0] and changed[1] == hashes[1]


def test_no_variation_gives_no_number_but_a_reason(flat: Path) -> None:
    class Same:
        def encode(self, texts):
            return np.ones((len(texts), 3), dtype=np.float32)

    result = run_senteval(Same(), flat, tasks=["STS14", "SICKR"])
    for name in ("STS14", "SICKR"):
        task = result.tasks[name]
        assert math.isnan(task.score) and "do not vary" in task.note
        assert task.to_dict()["score"] is None
    json.dumps(result.to_dict(), allow_nan=False)
    full = {name: TaskResult(name, 50.0, {}, math.nan, 1) for name in TASKS}
    assert SentEvalResult(full).overall == 50
    assert SentEvalResult({**full, "MR": TaskResult("MR", math.nan, {}, math.nan, 1)}).overall is None


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tasks": ["MR", "SNLI"]}, "SNLI"),
        ({"tasks": []}, "MR"),
        ({"classifier": "svm"}, "svm"),
        ({"classifier": "sklearn", "hidden": 5}, "hidden.*sklearn"),
        ({"kfold": 1}, "kfold"),
    ],
)
def test_wrong_settings(flat: Path, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_senteval(Words(), flat, **settings)


def test_hidden_units_solve_what_a_line_cannot() -> None:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((600, 2)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] > 0).astype(np.int64)

    def accuracy(hidden: int) -> float:
        fitter = TorchFitter(torch.from_numpy(20 * x), labels, FitRecipe(hidden=hidden, rate=1e-2), 1, "MR")
        rows = np.arange(600)
        train = (rows < 400)[None]
        return float(fitter.fit(train, ~train, np.array(DECAYS[:1]), "search").scores[0])

    assert accuracy(0) < 0.65 and accuracy(20) > 0.85


def test_published_scores_give_the_published_mean() -> None:
    assert sum(PUBLISHED.values()) / 12 == pytest.approx(PUBLISHED_OVERALL, abs=0.04)


# Cache


def test_texts_are_encoded_once_over_all_tasks(flat: Path) -> None:
    encoder = Words()
    task = read_task("SICKR", flat)
    texts = set(task.texts + task.others)
    run_senteval(encoder, flat, tasks=["SICKR", "SICKE"])
    assert encoder.asked == len(texts)


def test_cache_on_disk(tmp_path: Path) -> None:
    first = EmbeddingCache(encoder := Words(), tmp_path)
    made = first.encode(["a b", "c", "a b"])
    more = first.encode(["d", "c"])
    assert encoder.asked == first.encoded == 3 and (made[0] == made[2]).all()
    again = EmbeddingCache(other := Words(), tmp_path)
    assert len(again) == 3
    assert (again.encode(["c", "d", "a b"]) == np.stack([more[1], more[0], made[0]])).all() and other.asked == 0
    assert (Words().encode(["c"]) == again.encode(["c"])).all()
    named = EmbeddingCache(Words(), tmp_path, identity="another")
    assert len(named) == 0 and first.encode([]).shape == (0, 0)
    assert not list(tmp_path.rglob("*.part"))


def test_cache_refuses_what_it_cannot_tell_apart(tmp_path: Path) -> None:
    class Nameless:
        def encode(self, texts):
            return np.ones((len(texts), 3), dtype=np.float32)

    with pytest.raises(InputError, match="Nameless"):
        EmbeddingCache(Nameless(), tmp_path)
    EmbeddingCache(Words(dimension=24), tmp_path).encode(["a"])
    with pytest.raises(InputError, match="24"):
        EmbeddingCache(Words(dimension=8), tmp_path).encode(["b"])
    broken = next(path for path in tmp_path.rglob("*.npy") if ".keys" not in path.name)
    broken.write_bytes(b"nothing")
    with pytest.raises(InputError, match="read"):
        EmbeddingCache(Words(), tmp_path)


# Command line


def test_command(flat: Path, tmp_path: Path) -> None:
    typer = pytest.importorskip("typer")
    from typer.testing import CliRunner

    from evenli.encoders.commands import senteval

    app = typer.Typer()
    app.command()(senteval)
    vectors = tmp_path / "v.txt"
    words = ["fine", "awful", *NOUNS, *(f"grade{number}" for number in range(5))]
    draw = np.random.default_rng(0)
    vectors.write_text(
        "".join(f"{word} {' '.join(f'{x:.4f}' for x in draw.standard_normal(WIDE))}\n" for word in words)
    )
    for path in flat.glob("SST*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    common = [f"vectors:{vectors}", "--data", str(tmp_path), "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    out = tmp_path / "made" / "result.json"
    done = CliRunner().invoke(app, [*common, "--tasks", "SST2,MR", "--json", "-o", str(out)])
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert printed == json.loads(out.read_text(encoding="utf-8"))
    assert printed["tasks"]["SST2"]["score"] > 95 and "MR" in printed["missing"]
    assert f"SST2 {printed['tasks']['SST2']['score']:.2f} (" in done.stderr and "MR.neg.txt" in done.stderr
    again = CliRunner().invoke(app, [*common, "--tasks", "SST2,SST5", "--batch-size", "16"])
    assert again.exit_code == 0 and "0 texts encoded" in again.stderr
    assert "12 tasks" in " ".join(again.stdout.split()) and "published" in again.stdout
    failed = CliRunner().invoke(app, [*common, "--tasks", "MR"])
    assert isinstance(failed.exception, InputError) and "no task" in str(failed.exception)
    missing = CliRunner().invoke(app, [f"vectors:{vectors}"])
    assert isinstance(missing.exception, InputError) and "--data" in str(missing.exception)


MINE = """
import os, zlib
def _row(text):
    if text.startswith(os.environ.get("STOP_AT", "nothing")):
        raise KeyboardInterrupt
    return [zlib.crc32(f"{text.split()[0]} {number}".encode()) / 2**31 - 1 for number in range(40)]
def encode(texts): return [_row(text) for text in texts]
def other(texts): return [_row(text) for text in texts]
def ragged(texts): return [[1.0] * len(text) for text in texts]
def wide(texts): return [[1.0] * len(texts[0]) for text in texts]
def unmarked(texts): return [_row(text) for text in texts]
encode.fingerprint = "1"
"""


@pytest.fixture
def command(flat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Run the command on one encoder; the output and, with it, the error that a user would see as one line."""
    typer = pytest.importorskip("typer")
    from typer.testing import CliRunner

    from evenli.encoders.commands import senteval

    app = typer.Typer()
    app.command()(senteval)
    (tmp_path / "evenli_senteval_mine.py").write_text(MINE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    data = tmp_path / "data"
    data.mkdir()
    for pattern in ("SST*", "STS14*"):
        for path in flat.glob(pattern):
            (data / path.name).write_bytes(path.read_bytes())

    def run(*arguments: object, spec: str = "py:evenli_senteval_mine:encode"):
        return CliRunner().invoke(app, [spec, "--data", str(data), "--device", "cpu", *map(str, arguments)])

    run.data = data
    return run


def test_a_stopped_run_continues(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "new" / "result.json"
    monkeypatch.setenv("STOP_AT", "grade4")  # only SST5 has it
    stopped = command("--tasks", "SST2,SST5,STS14", "-o", out)
    assert stopped.exit_code != 0 and stopped.stdout == ""
    kept = json.loads(out.read_text(encoding="utf-8"))
    assert list(kept["tasks"]) == ["SST2"] and kept["tasks"]["SST2"]["score"] == 100
    monkeypatch.delenv("STOP_AT")
    again = command("--tasks", "SST5", "-o", out, "--json")
    assert again.exit_code == 0, again.output
    assert f"SST2: kept from {out}" in again.stderr and "SST2 100.00" not in again.stderr
    assert "evenli: SST5 " in again.stderr and "kept from" not in again.stderr.partition("SST5 ")[2]
    printed = json.loads(again.stdout)
    assert printed == json.loads(out.read_text(encoding="utf-8"))
    assert list(printed["tasks"]) == ["SST2", "SST5"] and printed["tasks"]["SST2"] == kept["tasks"]["SST2"]
    assert not list(out.parent.glob("*.partial"))
    whole = command("-o", out, "--json")
    fresh = command("-o", tmp_path / "fresh.json", "--json")
    assert json.loads(whole.stdout) == json.loads(fresh.stdout)
    assert list(json.loads(whole.stdout)["tasks"]) == ["SST2", "SST5", "STS14"]


def test_what_nothing_tells_from_a_changed_encoder_is_not_used_again(command, tmp_path: Path) -> None:
    """Its code may read weights that are others by now."""
    out, spec = tmp_path / "result.json", "py:evenli_senteval_mine:unmarked"
    kept = command("--tasks", "STS14", "--cache", tmp_path / "kept", spec=spec)
    assert isinstance(kept.exception, InputError) and "fingerprint" in str(kept.exception)
    assert command("--tasks", "STS14", "-o", out, spec=spec).exit_code == 0
    again = command("--tasks", "STS14", "-o", out, spec=spec)
    assert isinstance(again.exception, InputError) and "fingerprint" in str(again.exception)
    assert command("--tasks", "STS14", "-o", out, "--overwrite", spec=spec).exit_code == 0
    assert command("--tasks", "STS14", "--cache", tmp_path / "kept").exit_code == 0


def test_a_file_of_something_else_is_refused(command, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    assert command("--tasks", "SST2", "-o", out).exit_code == 0
    before = out.read_bytes()
    test = command.data / "SST.binary.test.txt"
    content = test.read_text(encoding="utf-8")
    for arguments, message in (
        (["--seed", 2], "seed 1111"),
        (["--kfold", 4], "kfold 10"),
        (["--hidden", 3], "hidden 0"),
        (["--classifier", "sklearn"], "classifier torch"),
        ([], "encoder"),
    ):
        spec = "py:evenli_senteval_mine:encode" if arguments else "py:evenli_senteval_mine:other"
        refused = command("--tasks", "STS14", "-o", out, *arguments, spec=spec)
        assert isinstance(refused.exception, InputError) and message in str(refused.exception)
        assert "--overwrite" in str(refused.exception)
    for change, message in (
        (lambda: test.write_text(content.replace("0 grade0", "1 grade0", 1)), "SST2"),
        (test.unlink, "SST.binary.test.txt"),
    ):
        change()
        refused = command("--tasks", "STS14", "-o", out)
        assert isinstance(refused.exception, InputError) and message in str(refused.exception)
    assert out.read_bytes() == before
    anew = command("--tasks", "STS14", "-o", out, "--overwrite")
    assert anew.exit_code == 0, anew.output
    assert list(json.loads(out.read_text(encoding="utf-8"))["tasks"]) == ["STS14"]
    for wrong in ("", "[]", '{"tasks": {}}', '{"format": "evenli senteval 1", "tasks": {"MR": 3}}'):
        out.write_text(wrong, encoding="utf-8")
        refused = command("--tasks", "STS14", "-o", out)
        assert isinstance(refused.exception, InputError) and "SentEval" in str(refused.exception)
        assert out.read_text(encoding="utf-8") == wrong


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_loaded(command, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("", encoding="utf-8")
    for out, message in ((tmp_path, "folder"), (plain / "in" / "it.json", "it.json")):
        refused = command("-o", out, spec="nothing")
        assert isinstance(refused.exception, RunError) and message in str(refused.exception)


def test_a_table_is_printed_even_if_it_cannot_be_written(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import evenli.encoders.senteval as module

    def full(file: Path, content: object) -> None:
        raise RunError(f"cannot write {file}: No space left on device")

    monkeypatch.setattr(module, "write_json", full)
    done = command("--tasks", "SST2,STS14", "-o", tmp_path / "result.json")
    assert isinstance(done.exception, RunError) and "space" in str(done.exception)
    assert "SST2" in done.stdout and "STS14" in done.stdout and "100.00" in done.stdout


def test_parts_of_a_batch_are_checked(command) -> None:
    for name, message in (
        ("ragged", "evenli_senteval_mine:ragged"),
        ("wide", "evenli_senteval_mine:wide"),
    ):
        done = command("--tasks", "SST2", "--batch-size", 50, spec=f"py:evenli_senteval_mine:{name}")
        assert isinstance(done.exception, ModelError) and message in str(done.exception)


def test_a_broken_task_does_not_fail_the_command(command) -> None:
    (command.data / "SST.fine.dev.txt").write_text("junk\n", encoding="utf-8")
    done = command("--tasks", "SST2,SST5")
    assert done.exit_code == 0, done.output
    assert done.stdout.count("not run: SST5: SST.fine.dev.txt, line 1: ") == 1 and "not run" not in done.stderr


def test_mean_of_word_vectors_fits(flat: Path) -> None:
    words = ["fine", "awful", *NOUNS]
    vectors = WordVectors.of(words, np.random.default_rng(0).standard_normal((len(words), WIDE)))
    result = run_senteval(VectorMean(vectors), flat, tasks=["CR"], kfold=3)
    assert result.tasks["CR"].score > 97 and result.settings["encoder"].startswith("mean:")


def test_tasks_run_without_scikit_learn_and_typer(flat: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('sklearn', 'typer'): sys.modules[name] = None\n"
        "import numpy as np\n"
        "from evenli.encoders.senteval import SentEvalSettings, senteval\n"
        "class Same:\n"
        "    def encode(self, texts): return np.array([[len(text), 1.0] for text in texts])\n"
        "settings = SentEvalSettings(tasks=('SICKR', 'SST2', 'STS14'))\n"
        "print(sorted(senteval(Same(), sys.argv[1], settings).tasks))\n"
    )
    out = subprocess.run([sys.executable, "-c", code, str(flat)], capture_output=True, text=True)
    assert out.stdout.strip() == "['SICKR', 'SST2', 'STS14']", out.stderr
