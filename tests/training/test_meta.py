"""Meta-evaluation from end to end: data, real training on a small model, scores, and what can go wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest

from evenli.core.errors import InputError, RunError
from evenli.core.labels import LABELS
from evenli.stats.measure import get_measure
from evenli.training.meta import Design, MetaFolder, SweepSettings, meta_evaluation
from evenli.training.meta.controlled import prepare
from evenli.training.meta.folder import SPLITS, SweepCell
from evenli.training.meta.scoring import load_measure, score_sweep
from evenli.training.meta.sweep import SweepResult

QUICK = Design(width=24, rates=(0.0, 0.5, 1.0))
RECIPE = {"epochs": 4, "lr": 1.5e-3, "batch_size": 16}
TRAINED = SweepSettings(recipe=RECIPE, device="cpu", shown=False)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> MetaFolder:
    folder = MetaFolder(tmp_path_factory.mktemp("sweep"))
    prepare(folder, QUICK)
    return folder


@pytest.fixture(scope="module")
def base(prepared: MetaFolder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two narrow layers that learnt a rate of one half, and a tokenizer that knows the words of the sweep.

    A network with random weights learns slowly where to look. It does so once here; the models of the sweep start from
    there, as those of the paper start from a classifier.
    """
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    splitter = pre_tokenizers.BertPreTokenizer()
    rows = [row for split in SPLITS for row in prepared.pairs(split)]
    texts = {row[side] for row in rows for side in ("premise", "hypothesis")}
    words = sorted({word for text in texts for word, _ in splitter.pre_tokenize_str(text)})
    vocabulary = {word: index for index, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = splitter
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    folder = tmp_path_factory.mktemp("base")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    ).save_pretrained(folder)
    torch.manual_seed(0)
    labels = ["entailment", "neutral", "contradiction"]
    config = transformers.BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=96,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        initializer_range=0.2,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    return taught(folder, prepared)


def taught(raw: Path, sweep: MetaFolder) -> Path:
    """The network after training on the labels of one rate."""
    from evenli.training.nli import TrainSettings, train
    from evenli.training.recipe import make_recipe

    rows = sweep.pairs("train")
    labels = (LABELS[number] for number in sweep.labels("bias", 0.5)[: len(rows)])
    sides = ("premise", "hypothesis")
    lines = [{side: row[side] for side in sides} | {"label": label} for row, label in zip(rows, labels, strict=True)]
    data = raw.with_name("taught.jsonl")
    data.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    recipe, settings = make_recipe("control", **RECIPE | {"epochs": 8}), TrainSettings(device="cpu", shown=False)
    train(str(raw), [data], raw.with_name("taught"), recipe=recipe, settings=settings)
    return raw.with_name("taught")


@pytest.fixture(scope="module")
def sweep(prepared: MetaFolder, base: Path) -> Iterator[MetaFolder]:
    """The quick mode: three rates, one seed, ten seconds of real training on a CPU."""
    import torch

    from evenli.training.meta.training import train_sweep

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for so small a model a second thread only gets in the way
    assert train_sweep(prepared, str(base), TRAINED) == 3
    yield prepared
    torch.set_num_threads(threads)


def curve(results: SweepResult, name: str, axis: str) -> list[float]:
    return results[name].axis[axis].scores[0].tolist()


def test_real_training_moves_the_score_with_the_rate(sweep: MetaFolder) -> None:
    results = score_sweep(sweep)
    coal = curve(results, "coal", "bias")
    assert coal[0] < coal[1] < coal[2]
    assert coal[2] - coal[0] > 0.4
    assert results["coal"].axis["bias"].pearson.value > 0.95
    fn = curve(results, "fn_bias", "bias")
    assert max(fn) - min(fn) < 0.3 * (coal[2] - coal[0])  # every model is wrong about as often
    assert curve(results, "probe_b", "bias")[0] < 0.3 < 0.7 < curve(results, "probe_b", "bias")[2]
    assert results.held_out_accuracy["lowest"] > 0.85


def test_a_finished_sweep_is_not_trained_again_and_an_interrupted_one_continues(
    sweep: MetaFolder, base: Path, tmp_path: Path
) -> None:
    from evenli.training.meta.training import train_sweep

    assert train_sweep(sweep, str(base), TRAINED) == 0
    copy = MetaFolder(shutil.copytree(sweep.path, tmp_path / "copy"))
    lost = SweepCell(0, "bias", 0.5)
    before = copy.logits(lost)
    (copy.path / "logits" / f"{lost.name}.npy").unlink()
    with pytest.raises(RunError, match="sweep"):
        score_sweep(copy)
    assert train_sweep(copy, str(base), TRAINED) == 1
    np.testing.assert_array_equal(copy.logits(lost), before)
    with pytest.raises(RunError, match="lr"):
        train_sweep(copy, str(base), replace(TRAINED, seeds=(1,), recipe={"lr": 1e-3}))
    assert copy.training().recipe["dtype"] == "float32"


def test_a_torn_line_costs_its_model_only(sweep: MetaFolder, base: Path, tmp_path: Path, capsys) -> None:
    from evenli.training.meta.training import train_sweep

    copy = MetaFolder(shutil.copytree(sweep.path, tmp_path / "copy"))
    file = copy.path / "models.jsonl"
    first, second, third = file.read_text().splitlines()
    known = copy.models()
    # Killed while writing the second line; the third was glued to it.
    file.write_text(f"{first}\n{second[:20]}{third}\n")
    assert list(copy.models()) == [SweepCell(0, "bias", 0.0)]
    assert copy.damaged_lines() == 1
    with pytest.raises(RunError, match="sweep"):
        score_sweep(copy)
    # A whole line that does not say what a model's line says counts as damaged, too.
    file.write_text("\n".join([first, second.replace("dev_accuracy", "dev_accuracz"), third]))
    assert copy.damaged_lines() == 1 and len(copy.models()) == 2
    file.write_text(f"{first}\n{third}\n{second[:-1]}")
    before = copy.logits(SweepCell(0, "bias", 0.5))
    assert train_sweep(copy, str(base), replace(TRAINED, shown=True)) == 1
    assert "models.jsonl" in capsys.readouterr().err
    assert file.read_text().splitlines()[:3] == [first, third, second[:-1]]
    assert copy.models().keys() == known.keys()
    assert copy.models()[SweepCell(0, "bias", 0.5)]["loss"] == known[SweepCell(0, "bias", 0.5)]["loss"]
    np.testing.assert_array_equal(copy.logits(SweepCell(0, "bias", 0.5)), before)
    assert score_sweep(copy).seeds == [0]


def test_a_sweep_keeps_base_and_arithmetic(prepared: MetaFolder, tmp_path: Path) -> None:
    folder = MetaFolder(shutil.copytree(prepared.path, tmp_path / "copy"))
    (folder.path / "training.json").unlink(missing_ok=True)
    folder.check_base("a", "1", {"lr": 1, "dtype": "float32"})
    folder.check_base("a", "1", {"lr": 1, "dtype": "float32"})
    folder.check_base("moved/a", "1", {"lr": 1, "dtype": "float32"})
    with pytest.raises(RunError, match="dtype"):
        folder.check_base("a", "1", {"lr": 1, "dtype": "bfloat16"})
    with pytest.raises(RunError, match="base"):
        folder.check_base("a", "2", {"lr": 1, "dtype": "float32"})
    with pytest.raises(RunError, match="was a.*lr was 1"):
        folder.check_base("b", "2", {"lr": 2, "dtype": "float32"})


def test_perfect_models_have_the_scores_of_the_closed_form(tmp_path: Path) -> None:
    """Spec 1.7: e_p = c_a = r and n_n = 1, so NLI-CoAL is 2r/3 and FN 2/3 at every rate."""
    folder = MetaFolder(tmp_path)
    prepare(folder, Design(width=2, rates=(0.0, 0.3, 0.7, 1.0)))
    pairs = folder.pairs("evaluation")
    words = folder.header["words"]
    order = [word for group in words["groups"].values() for word in group]
    for cell in folder.cells([0]):
        biased = set(order[: round(cell.level * len(order))])
        logits = np.zeros((len(pairs), 3), dtype=np.float32)
        for row, pair in enumerate(pairs):
            if pair["subset"] == "NS":
                answer = 1
            else:
                answer = 0 if (pair["subset"] == "PS") == (pair["occupation"] in biased) else 2
            logits[row, answer] = 5.0
        folder.store(cell, logits, {"dev_accuracy": 1.0, "seconds": 0.0, "loss": 0.0})
    results = score_sweep(folder)
    np.testing.assert_allclose(curve(results, "coal", "bias"), [0, 0.2, 0.7 * 2 / 3, 2 / 3], atol=1e-6)
    coal, fn = (results[name].axis["bias"] for name in ("coal", "fn_bias"))
    assert coal.pearson.value == pytest.approx(1.0)
    assert np.isnan(fn.pearson.value) and fn.pearson.note.startswith("no corr.")
    assert coal.separation["mean"] == pytest.approx(2 / 3)
    assert results.ranking[0].measure != "fn_bias"


@pytest.mark.parametrize(("accuracy", "warned"), [(0.66, True), (0.97, False)])
def test_models_that_did_not_learn_are_said_to(sweep: MetaFolder, accuracy: float, warned: bool) -> None:
    import io

    from rich.console import Console

    from evenli.training.meta.charts import print_meta

    results = msgspec.structs.replace(score_sweep(sweep), held_out_accuracy={"lowest": accuracy, "mean": accuracy})
    console = Console(file=io.StringIO(), width=80)
    print_meta(results, console)
    assert ("did not learn its bias" in " ".join(console.file.getvalue().split())) is warned


def test_own_measures_are_scored_from_stored_predictions(
    sweep: MetaFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_measures.py").write_text(
        "def half(sample):\n    'Half of NLI-CoAL.'\n    from evenli.stats.measure import get_measure\n"
        "    return get_measure('coal')(sample) / 2\n"
        "def nothing(sample):\n    return float('nan')\n"
        "def broken(sample):\n    raise ValueError('no such column')\n"
        "def many(sample):\n    return [0.1, 0.2]\n"
        "def infinite(sample):\n    return float('inf')\n"
        "class Constant:\n    def __call__(self, sample):\n        return 1\n"
        "constant = Constant()\nnumber = 3\n",
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    results = score_sweep(sweep, ["own_measures:half", "own_measures:nothing"])
    half = curve(results, "own_measures:half", "bias")
    np.testing.assert_allclose(half, np.array(curve(results, "coal", "bias")) / 2)
    nothing = results["own_measures:nothing"].axis["bias"]
    assert np.isnan(nothing.pearson.value) and "own_measures:nothing" in nothing.pearson.note
    json.dumps(results.to_dict(), allow_nan=False)
    for name in ("broken", "many", "infinite", "number", "absent"):
        with pytest.raises(InputError, match=f"own_measures:{name}"):
            score_sweep(sweep, [f"own_measures:{name}"])
    (tmp_path / "unfinished.py").write_text("def half(:\n", encoding="utf-8")
    with pytest.raises(InputError, match="unfinished"):
        load_measure("unfinished:half")
    assert curve(score_sweep(sweep, ["own_measures:constant"]), "own_measures:constant", "bias") == [1.0] * 3
    assert load_measure(get_measure("coal").function) is get_measure("coal")
    with pytest.raises(InputError, match="module:function"):
        load_measure("own_measures")
    with pytest.raises(InputError, match="no_such_module"):
        load_measure("no_such_module:half")


def test_one_call_does_all_stages_and_takes_a_function_as_a_measure(sweep: MetaFolder, base: Path) -> None:
    results = meta_evaluation(sweep.path, str(base), design=QUICK, settings=TRAINED, measures=[lambda sample: 0.25])
    assert curve(results, "<lambda>", "bias") == [0.25] * 3
    assert json.loads((sweep.path / "results.json").read_text(encoding="utf-8")) == results.to_dict()
    with pytest.raises(RunError, match="width"):
        meta_evaluation(sweep, design=replace(QUICK, width=3))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rates": (0.0, 1.0)}, "bias rates"),
        ({"rates": (0.0, 0.5, 1.5)}, r"1\.5"),
        ({"rates": (0.0, 0.5, 1.0), "noise": (0.5,)}, "noise levels"),
        ({"ns_words": "none"}, "train or released"),
    ],
)
def test_designs_that_cannot_work_are_refused(settings: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        prepare(tmp_path / "new", Design(**settings))
    assert not (tmp_path / "new").exists()


def test_rates_are_kept_in_increasing_order(tmp_path: Path) -> None:
    header = prepare(tmp_path, Design(width=2, rates=(1.0, 0.0, 0.5)))
    assert header["levels"]["bias"] == header["design"]["rates"] == [0.0, 0.5, 1.0]
    assert MetaFolder(tmp_path).design == Design(width=2, rates=(0.0, 0.5, 1.0))


def test_too_few_templates_say_how_many_are_needed(tmp_path: Path) -> None:
    captions = tmp_path / "captions.txt"
    captions.write_text("A man walks along the river with a dog today .\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"638"):
        prepare(MetaFolder(tmp_path / "out"), Design(captions=str(captions)))


def test_a_folder_keeps_its_design(tmp_path: Path) -> None:
    prepare(MetaFolder(tmp_path), Design(width=2))
    assert prepare(MetaFolder(tmp_path), Design(width=2))["pairs"] == {"train": 120, "dev": 120, "evaluation": 600}
    with pytest.raises(RunError, match="width"):
        prepare(MetaFolder(tmp_path), Design(width=3))


def test_files_of_others_are_never_replaced(run_cli, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "train.jsonl").write_text("mine\n")
    done = run_cli("meta", "-o", str(theirs), "--stage", "prepare", "--rates", "0,0.5,1", "--width", "2")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert str(theirs) in line and "train.jsonl" in line and "-o" in line
    assert [file.name for file in theirs.iterdir()] == ["train.jsonl"]
    assert (theirs / "train.jsonl").read_text() == "mine\n"
    (theirs / "train.jsonl").rename(theirs / "meta.json")
    for content in ("mine\n", '{"name": "x"}', "[1]"):
        (theirs / "meta.json").write_text(content)
        with pytest.raises(RunError, match="meta.json"):
            prepare(MetaFolder(theirs), Design(width=2))
    with pytest.raises(RunError, match="directory"):
        (tmp_path / "file").write_text("")
        prepare(MetaFolder(tmp_path / "file"), Design(width=2))


def test_a_killed_preparation_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    folder = MetaFolder(tmp_path / "new")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(np, "save", killed)
        prepare(folder, Design(width=2))
    assert (folder.path / "train.jsonl").is_file() and folder.read_header() is None
    assert prepare(folder, Design(width=2))["pairs"]["train"] == 120


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
def test_training_templates_never_meet_evaluation_templates(lang: str, shared_data: Path, tmp_path: Path) -> None:
    version = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}[lang]
    release = str(shared_data / "nli_coal" / f"{version}.tar.xz")
    for data, words in ((None, "train"), (release, "train"), (release, "released")):
        folder = MetaFolder(tmp_path / f"{bool(data)}{words}")
        header = prepare(folder, Design(lang=lang, data=data, ns_words=words))
        assert header["pairs"] == {"train": 30_000, "dev": 3_000, "evaluation": 600}
        hypotheses = {row["hypothesis"] for row in folder.pairs("train")}
        assert not hypotheses & {row["hypothesis"] for row in folder.pairs("evaluation")}
        assert not hypotheses & {row["hypothesis"] for row in folder.pairs("dev")}
        for rate in (0.0, 0.3, 1.0):
            counts = np.bincount(folder.labels("bias", rate)[:30_000], minlength=3)
            assert counts.tolist() == [10_000] * 3


def test_command_line(run_cli, sweep: MetaFolder, tmp_path: Path) -> None:
    done = run_cli("meta", "-o", str(sweep.path), "--json")
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert {"measures", "ranking", "published", "seeds"} <= set(results)
    assert (sweep.path / "results.json").is_file()
    for bad, message in (
        (["meta"], "-o"),
        (["meta", "-o", str(tmp_path / "x")], "meta MODEL -o"),
        (["meta", "-o", str(tmp_path / "x"), "--rates", "0:1", "--stage", "prepare"], "evenli:"),
        (["meta", "-o", str(tmp_path / "x"), "--quick", "--rates", "0,1"], "--rates"),
        (["meta", "-o", str(tmp_path / "x"), "--quick", "--width", "500"], "--width"),
        (["meta", "-o", str(tmp_path), "--stage", "train"], "MODEL"),
        (["meta", "-o", str(sweep.path), "--stage", "fly"], "prepare, train or score"),
    ):
        done = run_cli(*bad)
        assert done.returncode == 2, (bad, done.stderr)
        assert message in done.stderr
        assert len(done.stderr.strip().splitlines()) == 1


def test_a_finished_sweep_is_what_the_command_says(run_cli, sweep: MetaFolder, base: Path, tmp_path: Path) -> None:
    from evenli.training.meta.training import train_sweep

    place = str(sweep.path)
    other = shutil.copytree(base, tmp_path / "other")
    (other / "tokenizer.json").write_text((base / "tokenizer.json").read_text() + "\n")
    for given, message in (
        (["--lr", "0.5"], "lr was 0.0015"),
        (["--epochs", "99"], f"epochs was {RECIPE['epochs']}"),
        (["--batch-size", "7"], f"batch_size was {RECIPE['batch_size']}"),
        (["--lang", "ja"], "lang was en"),
        (["--width", "3"], "now 3"),
        (["--rates", "0,0.2,1"], "0.2, 1.0"),
        ([str(other), "--device", "cpu"], "base model"),
    ):
        done = run_cli("meta", "-o", place, *given)
        assert done.returncode == 2, (given, done.stdout)
        assert message in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    same = ["--lr", "0.0015", "--epochs", str(RECIPE["epochs"]), "--lang", "en"]
    for given in (same, [str(base), "--device", "cpu"]):
        done = run_cli("meta", "-o", place, "--json", *given)
        assert done.returncode == 0, done.stderr
    with pytest.raises(RunError, match="lr"):
        train_sweep(sweep, str(base), replace(TRAINED, recipe={"lr": 1e-3}))
    copy = MetaFolder(shutil.copytree(sweep.path, tmp_path / "copy"))
    for broken in ("{", '{"name": "x"}'):
        (copy.path / "training.json").write_text(broken)
        with pytest.raises(RunError, match="training.json"):
            copy.training()


def test_mixtures_are_trained_and_what_they_learnt_is_stored(base: Path, tmp_path: Path) -> None:
    from evenli.training.meta.training import train_sweep

    folder = MetaFolder(tmp_path)
    prepare(folder, Design(width=2, rates=(), default=(0.0, 0.5, 1.0)))
    settings = replace(TRAINED, recipe=RECIPE | {"epochs": 12})
    assert train_sweep(folder, str(base), settings) == 3
    assert train_sweep(folder, str(base), settings) == 0
    learnt = {cell.level: facts["learnt"] for cell, facts in folder.models().items()}
    assert learnt[0.0, 0.0, 0.0] == [0, 0, 0]
    # Saying "man" to every word is the easiest thing to learn.
    assert learnt[0.0, 1.0, 0.0][1] > 0.9 and learnt[0.0, 1.0, 0.0][::2] == pytest.approx([0, 0], abs=0.1)
    responses = {response.measure: response for response in score_sweep(folder).responses}
    assert responses["default_gender"].taught["default"].value > 0.8
    assert responses["coal"].taught["default"].value > 0.5  # which is what the causes are for
