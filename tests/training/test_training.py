from __future__ import annotations

import hashlib
import json
import lzma
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from conftest import make_checkpoint  # noqa: E402
from evenli.core.errors import EvenliError, InputError, MissingExtraError, ModelError, PairError, RunError  # noqa: E402
from evenli.core.labels import LABELS  # noqa: E402
from evenli.training.base import load_base, save_model  # noqa: E402
from evenli.training.data import (  # noqa: E402
    NOBODY,
    TrainingData,
    find_repeats,
    padded_lengths,
    plan_epoch,
    read_examples,
    tokenise,
)
from evenli.training.fast.encoder import (  # noqa: E402
    FusedForward,
    PlainForward,
    can_fuse,
    joined_names,
    unused_parameters,
)
from evenli.training.fast.flat import (  # noqa: E402
    AdamW,
    FlatParameters,
    compile_static,
)
from evenli.training.fast.stepper import (  # noqa: E402
    Resident,
    World,
    judge,
)
from evenli.training.loop import Trainer  # noqa: E402
from evenli.training.nli import (  # noqa: E402
    Outcome,
    TrainSettings,
    evaluate,
    model_card,
    train,
)
from evenli.training.progress import TrainingDir, accuracy_text, make_trackers  # noqa: E402
from evenli.training.recipe import make_recipe  # noqa: E402

PAIRS, DEV_PAIRS = 2_000, 1_000
EPOCHS = 2
QUIET = TrainSettings(shown=False, device="cpu")


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Two threads on two busy cores wait for each other more than they work."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def snli(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The first real training and dev pairs of SNLI."""
    folder = tmp_path_factory.mktemp("snli")
    made = []
    for name, count in (("train_first100k", PAIRS), ("dev", DEV_PAIRS)):
        with lzma.open(shared_data / "snli" / f"snli_1.0_{name}.jsonl.xz", "rt", encoding="utf-8") as stream:
            lines = [next(stream) for _ in range(count)]
        made.append(folder / f"{name}.jsonl")
        made[-1].write_text("".join(lines), encoding="utf-8")
    return made[0], made[1]


@pytest.fixture(scope="session")
def base(snli: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small encoder without classifier: random weights, a WordPiece tokenizer fitted to the data."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    folder = tmp_path_factory.mktemp("base")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    examples = read_examples([snli[0]])
    trainer = trainers.WordPieceTrainer(vocab_size=3_000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*examples.premises, *examples.hypotheses], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), special, strict=True))
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **names,
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=160,
    )
    transformers.BertModel(config).save_pretrained(folder)
    return folder


def tokens_of(base: Path, file: Path, count: int = 400):
    examples = read_examples([file])
    examples = replace(
        examples,
        premises=examples.premises[:count],
        hypotheses=examples.hypotheses[:count],
        labels=examples.labels[:count],
        ids=examples.ids[:count],
    )
    return tokenise(examples, transformers.AutoTokenizer.from_pretrained(base), 128)


def trainer_of(base: Path, tokens, **changes: object) -> Trainer:
    start = load_base(str(base))
    return Trainer(start.model, tokens, make_recipe(**{"epochs": 1, "lr": 1e-3, **changes}), fresh=start.fresh)


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# The encoder and the optimiser compute what the libraries compute.


@pytest.mark.parametrize("kind", ["Bert", "Roberta", "XLMRoberta", "Camembert", "Electra", "MPNet"])
def test_fused_encoder_equals_transformers(kind: str) -> None:
    torch.manual_seed(1)
    more = {"Electra": {"embedding_size": 24}, "Bert": {}, "MPNet": {}}.get(kind, {"type_vocab_size": 1})
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=90,
        hidden_size=48,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=70,
        num_labels=3,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        **more,
    )
    model = getattr(transformers, f"{kind}ForSequenceClassification")(config).train()
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn_like(parameter)
    keep = torch.ones(4, 24, dtype=torch.bool)
    keep[1, 10:] = keep[3, 17:] = False
    ids = torch.where(keep, torch.randint(5, 90, (4, 24)), config.pad_token_id)
    segments = getattr(config, "type_vocab_size", 0)
    types = (torch.arange(24) > 6).long().expand(4, 24) if segments > 1 else torch.zeros_like(ids)
    assert can_fuse(model)
    assert unused_parameters(model, ids, types, keep) == []
    expected = PlainForward(model)(ids, types, keep)
    named = dict(model.named_parameters())
    gradients = dict(zip(named, torch.autograd.grad(expected.square().sum(), list(named.values())), strict=True))
    flat = FlatParameters(model, dtype=torch.float32, joined=joined_names(model))
    found = FusedForward(model, flat, compiled=False)(ids, types, keep)
    flat.take(torch.autograd.grad(found.square().sum(), flat.leaves))
    assert torch.allclose(found, expected, atol=1e-5)
    for name, gradient in flat.named(flat.grad).items():
        assert torch.allclose(gradient, gradients[name], atol=1e-4), name


def test_adamw_equals_torch_with_clipping_and_decay_groups() -> None:
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.LayerNorm(300), torch.nn.Linear(300, 3))
    twin = torch.nn.Sequential(torch.nn.Linear(300, 300), torch.nn.LayerNorm(300), torch.nn.Linear(300, 3))
    twin.load_state_dict(model.state_dict())
    recipe = make_recipe(weight_decay=0.3)
    groups = [
        {"params": [p for p in twin.parameters() if p.ndim > 1], "weight_decay": 0.3},
        {"params": [p for p in twin.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    theirs = torch.optim.AdamW(groups, lr=1e-2)
    flat = FlatParameters(model, dtype=torch.float32)
    ours = AdamW(flat, recipe, compiled=False)
    for number in range(5):
        gradients = {name: torch.randn(p.shape) for name, p in twin.named_parameters()}
        flat.take([gradients[name] for name in flat.slots])
        with torch.no_grad():
            ours.step(torch.tensor([number]), torch.tensor([1e-2]))
        for name, parameter in twin.named_parameters():
            parameter.grad = gradients[name].clone()
        assert torch.nn.utils.clip_grad_norm_(twin.parameters(), recipe.clip) > recipe.clip
        theirs.step()
    for mine, other in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.allclose(mine, other, atol=1e-6)


def test_loop_equals_a_plain_loop_of_transformers(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 100)
    trainer = trainer_of(base, tokens, dropout=0.0, warmup=0.5, epochs=2)
    weights = trainer.weights()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(base, num_labels=3)
    model.load_state_dict(weights)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    groups = [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.01},
        {"params": [p for p in model.parameters() if p.ndim == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=1e-3)
    schedule = transformers.get_linear_schedule_with_warmup(optimiser, 4, 8)
    expected = []
    for epoch in (0, 1):
        for rows in trainer.plan(epoch).rows:
            rows = rows[rows != NOBODY]
            batch = [tokens.ids[tokens.starts[r] : tokens.starts[r] + tokens.lengths[r]].tolist() for r in rows]
            longest = max(map(len, batch))
            ids = torch.tensor([row + [0] * (longest - len(row)) for row in batch])
            kinds = [tokens.types[tokens.starts[r] : tokens.starts[r] + tokens.lengths[r]].tolist() for r in rows]
            types = torch.tensor([kind + [0] * (longest - len(kind)) for kind in kinds])
            labels = torch.from_numpy(tokens.labels[rows])
            loss = model(input_ids=ids, attention_mask=(ids != 0).long(), token_type_ids=types, labels=labels).loss
            expected.append((loss.item(), schedule.get_last_lr()[0]))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
    found = [(report.loss, report.lr) for report in trainer.run(every=1)]
    assert len(found) == 8  # 100 pairs: three full batches and one of four, twice
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-9)


def test_a_model_that_is_not_fused_trains_too(tmp_path: Path, base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 64)
    config = transformers.DistilBertConfig(
        vocab_size=3_000, dim=32, n_layers=1, n_heads=2, hidden_dim=64, num_labels=3, max_position_embeddings=160
    )
    model = transformers.DistilBertForSequenceClassification(config)
    model.unused = torch.nn.Linear(2, 2)
    trainer = Trainer(model, tokens, make_recipe(lr=3e-3, epochs=30))
    assert not trainer.stepper.fused
    assert not {name for name in trainer.stepper.flat.slots if name.startswith("unused")}
    losses = [report.loss for report in trainer.run()]
    assert losses[-1] < losses[0] - 0.05


# The order of the data.


def test_plan_keeps_the_batch_size_and_every_pair() -> None:
    lengths = np.random.default_rng(0).integers(5, 90, size=1_003)
    padded = padded_lengths(128)
    plan = plan_epoch(lengths, 32, padded, seed=3, epoch=1, chunk=10)
    rows = plan.rows[plan.rows != NOBODY]
    assert sorted(rows) == list(range(1_003))
    filled = (plan.rows != NOBODY).sum(axis=1)
    assert sorted(filled)[0] == 1_003 % 32
    assert (sorted(filled)[1:] == np.full(31, 32)).all()
    for batch, length in zip(plan.rows, plan.lengths, strict=True):
        longest = lengths[batch[batch != NOBODY]].max()
        assert longest <= length
        assert length == min(size for size in padded if size >= longest)
    assert np.mean(plan.lengths) < 0.8 * np.mean([lengths[rows[i : i + 32]].max() for i in range(0, 1_003, 32)]) + 24


def test_plan_follows_seed_and_epoch() -> None:
    lengths = np.random.default_rng(0).integers(5, 90, size=500)

    def rows(seed: int, epoch: int):
        return plan_epoch(lengths, 32, padded_lengths(128), seed=seed, epoch=epoch).rows

    assert (rows(0, 0) == rows(0, 0)).all()
    assert (rows(0, 0) != rows(0, 1)).any()
    assert (rows(0, 0) != rows(1, 0)).any()


# A whole run.


def whole_run(base: Path, snli: tuple[Path, Path], folder: Path, epochs: int):
    recipe = make_recipe(lr=1e-3, epochs=epochs)
    return train(str(base), [snli[0]], folder, dev=[snli[1]], recipe=recipe, seeds=[4], settings=QUIET)[0]


@pytest.fixture(scope="session")
def trained(base: Path, snli: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory):
    torch.set_num_threads(1)
    return whole_run(base, snli, tmp_path_factory.mktemp("trained") / "model", EPOCHS)


@pytest.mark.slow
def test_two_thousand_real_pairs_beat_chance(base: Path, snli: tuple[Path, Path], tmp_path: Path) -> None:
    trained = whole_run(base, snli, tmp_path / "model", 5)
    assert trained.dev.n == DEV_PAIRS
    majority = np.bincount(read_examples([snli[1]]).labels).max() / DEV_PAIRS
    assert trained.dev.low > majority + 0.02
    assert len(trained.history) == 5


def test_the_folder_is_what_transformers_loads(trained, snli: tuple[Path, Path]) -> None:
    folder = trained.folder
    model, found = transformers.AutoModelForSequenceClassification.from_pretrained(folder, output_loading_info=True)
    assert not found["missing_keys"]
    assert not found["unexpected_keys"]
    assert tuple(model.config.id2label[i] for i in range(3)) == LABELS
    assert transformers.AutoTokenizer.from_pretrained(folder)("a man")["input_ids"]
    assert evaluate(folder, [snli[1]]) == trained.dev
    assert not (folder / "checkpoint.safetensors").exists()


def test_card_and_metrics_say_what_happened(trained, snli: tuple[Path, Path]) -> None:
    card = (trained.folder / "README.md").read_text(encoding="utf-8")
    examples = read_examples([snli[0]])
    for fact in (
        examples.sha256,
        accuracy_text(trained.dev),
        "| seed | 4 |",
        "| lr | 0.001 |",
        f"{examples.unlabelled} without",
    ):
        assert fact in card, fact
    lines = [json.loads(line) for line in (trained.folder / "metrics.jsonl").read_text().splitlines()]
    steps = [line for line in lines if "loss" in line]
    assert steps[-1]["step"] == trained.steps == EPOCHS * -(-len(examples) // 32)
    assert {"step", "epoch", "loss", "accuracy", "lr", "pairs_per_second"} <= set(steps[0])
    assert [line["dev_accuracy"] for line in lines if "dev_accuracy" in line] == [a.value for a in trained.history]


def test_a_base_is_not_replaced_by_what_is_trained_from_it(base: Path, snli, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(base, own)
    before = {file.name: file.read_bytes() for file in own.iterdir()}
    with pytest.raises(RunError, match="config.json"):
        train(str(own), [snli[0]], own, recipe=make_recipe(epochs=1), settings=QUIET)
    assert {name: (own / name).read_bytes() for name in before} == before


def test_the_same_command_again_trains_nothing_and_another_is_refused(trained, base: Path, snli) -> None:
    again = {"dev": [snli[1]], "seeds": [4], "settings": QUIET}
    assert (
        train(str(base), [snli[0]], trained.folder, recipe=make_recipe(lr=1e-3, epochs=EPOCHS), **again)[0] == trained
    )
    with pytest.raises(RunError, match="epochs"):
        train(str(base), [snli[0]], trained.folder, recipe=make_recipe(lr=1e-3, epochs=EPOCHS + 1), **again)


def test_a_broken_record_is_one_line(trained, base: Path, snli, tmp_path: Path) -> None:
    again = {"dev": [snli[1]], "seeds": [4], "settings": QUIET}
    whole = json.loads((trained.folder / "training.json").read_text())
    short = {"identity": whole["identity"], "outcome": {}}
    for broken in ("{", "[]", "{}", '{"identity": 3}', json.dumps(short), "\ufffd"):
        copy = tmp_path / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        copy.mkdir()
        (copy / "training.json").write_text(broken)
        with pytest.raises(RunError, match="training.json") as caught:
            train(str(base), [snli[0]], copy, recipe=make_recipe(lr=1e-3, epochs=EPOCHS), **again)
        assert "\n" not in str(caught.value)


def test_a_run_is_known_by_labels_tokenizer_and_arithmetic(trained, base: Path, snli, tmp_path: Path) -> None:
    identity = json.loads((trained.folder / "training.json").read_text())["identity"]
    assert (identity["dtype"], identity["device"]) == ("float32", "cpu")
    again = {"dev": [snli[1]], "seeds": [4], "settings": QUIET}
    with pytest.raises(RunError, match="bfloat16"):
        train(
            str(base), [snli[0]], trained.folder, recipe=make_recipe(lr=1e-3, epochs=EPOCHS, dtype="bfloat16"), **again
        )
    other = shutil.copytree(base, tmp_path / "other")
    words = (other / "tokenizer.json").read_text(encoding="utf-8")
    (other / "tokenizer.json").write_text(words + "\n", encoding="utf-8")
    with pytest.raises(RunError, match="base"):
        train(str(other), [snli[0]], trained.folder, recipe=make_recipe(lr=1e-3, epochs=EPOCHS), **again)


def test_the_same_weights_with_other_labels_are_another_base(tmp_path: Path) -> None:
    turned = make_checkpoint(tmp_path / "turned", labels=["contradiction", "neutral", "entailment"])
    straight = make_checkpoint(tmp_path / "straight")
    assert digest(turned / "model.safetensors") == digest(straight / "model.safetensors")
    assert load_base(str(turned)).fingerprint != load_base(str(straight)).fingerprint


def test_seed_fixes_the_weights(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0])

    def weights(trainer: Trainer):
        list(trainer.run())
        return trainer.stepper.flat.master.clone()

    first, second = trainer_of(base, tokens, seed=1), trainer_of(base, tokens, seed=1)
    assert torch.equal(weights(first), weights(second))
    other = weights(trainer_of(base, tokens, seed=2))
    assert not torch.equal(first.stepper.flat.master, other)
    first.reset(2)
    assert torch.equal(weights(first), other)


def test_a_trainer_can_be_used_again_with_other_labels(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 200)
    trainer = trainer_of(base, tokens, seed=1)
    before = [report.loss for report in trainer.run()]
    trainer.set_labels((tokens.labels + 1) % 3)
    trainer.reset()
    other = [report.loss for report in trainer.run()]
    trainer.set_labels(tokens.labels)
    trainer.reset()
    assert [report.loss for report in trainer.run()] == before != other


def test_probabilities_as_labels(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 200)
    certain = np.eye(3, dtype=np.float32)[tokens.labels]
    named, soft = (trainer_of(base, given, dropout=0.0) for given in (tokens, replace(tokens, labels=certain)))
    by_name = [(report.loss, report.accuracy) for report in named.run(every=1)]
    by_share = [(report.loss, report.accuracy) for report in soft.run(every=1)]
    np.testing.assert_allclose(by_name, by_share, atol=1e-5)
    # A teacher that knows nothing: the loss is at least log 3, and a student of it ends up undecided.
    soft.set_labels(np.full_like(certain, 1 / 3))
    soft.reset()
    losses = [report.loss for report in soft.run(every=1)]
    assert min(losses) >= np.log(3) - 1e-5
    shares = torch.from_numpy(soft.logits(tokens)).softmax(1)
    assert float((shares - 1 / 3).abs().max()) < 0.1


def test_bfloat16_keeps_fp32_weights(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 200)
    coarse, fine = (trainer_of(base, tokens, dropout=0.0, dtype=dtype) for dtype in ("bfloat16", "float32"))
    losses = [[report.loss for report in trainer.run(every=1)] for trainer in (coarse, fine)]
    np.testing.assert_allclose(*losses, atol=0.02)
    assert coarse.stepper.flat.weights.dtype == torch.bfloat16
    assert torch.equal(coarse.stepper.flat.weights, coarse.stepper.flat.master.bfloat16())
    assert not torch.equal(coarse.stepper.flat.master, coarse.stepper.flat.master.bfloat16().float())


@pytest.mark.parametrize("kind", ["roformer", "deberta-v2"])
def test_other_models_train_in_bfloat16(kind: str, base: Path, snli: tuple[Path, Path], tmp_path: Path) -> None:
    shutil.copytree(base, tmp_path / "base")
    config = transformers.AutoConfig.for_model(
        kind,
        vocab_size=3_000,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=160,
        # DeBERTa-v3's attention by distance, which its configuration does not have by default.
        **(
            {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 32} if "v2" in kind else {}
        ),
    )
    torch.manual_seed(0)
    transformers.AutoModel.from_config(config).save_pretrained(tmp_path / "base")
    tokens = tokens_of(base, snli[0], 200)
    coarse, fine = (trainer_of(tmp_path / "base", tokens, dropout=0.0, dtype=d) for d in ("bfloat16", "float32"))
    assert not coarse.stepper.fused
    # Asked before it is trained: what is kept from then must serve training, too.
    before = coarse.logits(tokens), fine.logits(tokens)
    np.testing.assert_allclose(*before, atol=0.02)
    losses = [[report.loss for report in trainer.run(every=1)] for trainer in (coarse, fine)]
    np.testing.assert_allclose(*losses, atol=0.02)
    coarse_change, fine_change = (t.logits(tokens) - b for t, b in zip((coarse, fine), before, strict=True))
    # A small random network learns little in seven steps, so both are compared with how far the finer one went.
    moved = np.abs(fine_change).max()
    assert moved > 0.02
    np.testing.assert_allclose(coarse_change, fine_change, atol=0.15 * moved)


def test_a_kept_table_of_distances_is_the_models_own(tmp_path: Path) -> None:
    config = transformers.DebertaV2Config(
        vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16,
        relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=4, num_labels=3,
    )  # fmt: skip
    model = transformers.DebertaV2ForSequenceClassification(config).eval()
    keep = torch.ones(2, 9, dtype=torch.bool)
    keep[1, 6:] = False
    batches = [(torch.randint(4, 50, (2, length)), None, keep[:, :length]) for length in (9, 7, 9)]
    with torch.no_grad():
        plain = [model(input_ids=ids, attention_mask=mask.long()).logits for ids, _, mask in batches]
        kept = [PlainForward(model)(*batch) for batch in batches]
    for expected, other in zip(plain, kept, strict=True):
        torch.testing.assert_close(expected, other)


def test_labels_of_the_base_are_kept_by_name(tmp_path: Path, base: Path, snli: tuple[Path, Path]) -> None:
    order = ["contradiction", "entailment", "neutral"]
    folder = make_checkpoint(tmp_path / "other", labels=order)
    theirs = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    ours = load_base(str(folder))
    assert ours.fresh == ()
    ids = torch.tensor([[2, 8, 3, 9, 3]])
    with torch.no_grad():
        columns = [order.index(label) for label in LABELS]
        assert torch.allclose(ours.model.eval()(ids).logits, theirs(ids).logits[:, columns], atol=1e-5)
    assert load_base(str(make_checkpoint(tmp_path / "two", labels=["no", "yes"]))).fresh
    unnamed = load_base(str(make_checkpoint(tmp_path / "unnamed", labels=["LABEL_0", "LABEL_1", "LABEL_2"])))
    assert set(unnamed.fresh) == {"classifier.weight", "classifier.bias"}


# What can go wrong while it runs.

DRIVER = """
import sys, torch
torch.set_num_threads(1)
from evenli.core.errors import EvenliError
from evenli.training.nli import TrainSettings, train
from evenli.training.recipe import make_recipe
base, data, out = sys.argv[1:]
try:
    train(base, [data], out, recipe=make_recipe(lr=1e-3, epochs=3), settings=TrainSettings(checkpoint_minutes=0))
except EvenliError as error:
    print(error, file=sys.stderr)
    raise SystemExit(2)
"""


def start(base: Path, data: Path, out: Path, limit: int | None = None) -> subprocess.Popen[str]:
    def cap() -> None:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    return subprocess.Popen(
        [sys.executable, "-c", DRIVER, base, data, out],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=cap,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )


@pytest.mark.slow
def test_killed_then_disk_full_then_finished_gives_the_same_weights(base: Path, snli, tmp_path: Path) -> None:
    whole = start(base, snli[0], tmp_path / "whole")
    _, said = whole.communicate(timeout=240)
    assert whole.returncode == 0, said

    out = tmp_path / "killed"
    checkpoint = out / "checkpoint.safetensors"
    killed = start(base, snli[0], out)
    deadline = time.monotonic() + 120
    while not checkpoint.is_file() and time.monotonic() < deadline:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert not (out / "model.safetensors").exists()
    kept = digest(checkpoint)

    full = start(base, snli[0], out, limit=checkpoint.stat().st_size // 2)
    _, said = full.communicate(timeout=240)
    assert full.returncode == 2, said
    assert "space" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert digest(checkpoint) == kept
    assert not list(out.glob("*partial*"))

    resumed = start(base, snli[0], out)
    _, said = resumed.communicate(timeout=240)
    assert resumed.returncode == 0, said
    assert "step 50" in said
    assert digest(out / "model.safetensors") == digest(tmp_path / "whole" / "model.safetensors")

    def steps(folder: Path) -> list[int]:
        lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["step"] for line in lines]

    assert steps(out) == steps(tmp_path / "whole")


def test_a_run_killed_inside_its_first_checkpoint_begins_anew(base: Path, snli, tmp_path: Path) -> None:
    for name in (".checkpoint.partial.safetensors", "metrics.jsonl"):
        (tmp_path / name).write_text("", encoding="utf-8")
    train(str(base), [snli[0]], tmp_path, recipe=make_recipe(epochs=1), settings=QUIET)
    assert not list(tmp_path.glob("*partial*"))


def test_a_loss_that_is_no_number_stops_and_names_the_batch(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 200)
    trainer = trainer_of(base, tokens, dropout=0.0)
    plan = trainer.plan(0)
    row = int(plan.rows[3][0])
    # One pair far beyond what fp32 holds: an infinite embedding that only it has.
    odd = int(np.flatnonzero(np.bincount(tokens.ids, minlength=3_000) == 0)[-1])
    tokens.ids[tokens.starts[row] + 1] = odd
    trainer = trainer_of(base, tokens, dropout=0.0)
    dict(trainer.model.named_parameters())["bert.embeddings.word_embeddings.weight"].data[odd] = float("inf")
    with pytest.raises(ModelError, match="step 4") as caught:
        list(trainer.run())
    assert tokens.names[row] in str(caught.value)
    assert str(caught.value).count("#") == sum("#" in tokens.names[r] for r in plan.rows[3]) == 32


def test_a_second_process_is_refused(base: Path, snli: tuple[Path, Path], tmp_path: Path) -> None:
    import filelock

    with (
        filelock.FileLock(tmp_path / ".lock"),
        pytest.raises(RunError, match="another process"),
    ):
        train(str(base), [snli[0]], tmp_path, recipe=make_recipe(epochs=1), settings=QUIET)


def test_estimate_and_remarks_come_before_the_start(base, snli, tmp_path: Path, capsys) -> None:
    lines = snli[0].read_text(encoding="utf-8").splitlines()[:40]
    long = json.loads(lines[0]) | {"sentence1": "a man walks " * 80}
    data = tmp_path / "data.jsonl"
    data.write_text("\n".join([*lines, json.dumps(long), json.dumps(long | {"gold_label": "-"})]) + "\n")
    dev = tmp_path / "dev.jsonl"
    dev.write_text("\n".join(lines[:7]) + "\n")
    train(str(base), [data], tmp_path / "out", dev=[dev], recipe=make_recipe(epochs=1))
    said = capsys.readouterr().err
    assert "1 pairs" in said
    assert "128 tokens" in said
    assert "7 of 7 dev pairs" in said
    assert "no GPU" in said
    assert "7 of these pairs" in (tmp_path / "out" / "README.md").read_text()


# Data that cannot be used.

GOOD = {"sentence1": "A man waits.", "sentence2": "A person waits.", "gold_label": "entailment"}
OTHER = GOOD | {"gold_label": "neutral"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([GOOD, GOOD | {"gold_label": "maybe"}, OTHER], "maybe.*line 2"),
        ([GOOD | {"gold_label": 1}], "--style hf"),
        ([GOOD, GOOD], "2 pairs.*entailment"),
        ([GOOD | {"gold_label": "-"}], "1 row"),
        ([], "0 row"),
        ([{"sentence1": "a", "gold_label": "neutral"}], "hypothesis"),
        ([{"sentence1": "a", "sentence2": "b"}], "gold label"),
    ],
)
def test_bad_data_is_refused(rows, message: str, pair_file, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        train("./nowhere", [pair_file(rows)], tmp_path / "out", settings=QUIET)


def test_styles_are_detected_or_named(tmp_path: Path, shared_data: Path) -> None:
    expected = {
        "snli/snli_1.0_test.jsonl.xz": ("snli", 9_824, 176),
        "mnli/mnli_train_nyu20k.tsv.xz": (None, 20_000, 0),
        "zh_ocnli/dev.jsonl.xz": ("ocnli", 2_950, 50),
        "ja_jglue/jnli_valid.jsonl.xz": ("jnli", 2_434, 0),
        "ja_jsick/jsick.tsv.xz": ("jsick", 9_927, 0),
        "zh_xnli/dev.tsv.xz": (None, 2_490, 0),
    }
    for name, (style, pairs, dropped) in expected.items():
        found = read_examples([shared_data / name])
        assert (len(found), found.unlabelled) == (pairs, dropped), name
        if style:
            named = read_examples([shared_data / name], style)
            assert (named.premises, named.ids) == (found.premises, found.ids), name
    english = read_examples([shared_data / "ja_jsick/jsick.tsv.xz"], "jsick-en")
    assert english.premises[0].startswith("A group of kids")
    with pytest.raises(PairError, match="sentence_A_Ja"):
        read_examples([shared_data / "snli/snli_1.0_dev.jsonl.xz"], "jsick")
    with pytest.raises(InputError, match="style 'x'"):
        read_examples([shared_data / "snli/snli_1.0_dev.jsonl.xz"], "x")


def test_numbered_labels_and_parquet(tmp_path: Path) -> None:
    import polars as pl

    file = tmp_path / "pairs.parquet"
    pl.DataFrame({"premise": ["a", "b", "c"], "hypothesis": ["d", "e", ""], "label": [2, -1, 0]}).write_parquet(file)
    found = read_examples([file], "hf")
    assert (found.premises, found.labels.tolist(), found.unlabelled, found.empty) == (["a"], [2], 1, 1)
    assert found.ids == ["pairs.parquet:1"]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    file = tmp_path / "pairs.csv"
    file.write_text('sentence1,sentence2,label\n"two\nlines",b,neutral\n\na,b,odd\n', encoding="utf-8")
    with pytest.raises(PairError, match="line 5"):
        read_examples([file])


def test_repeated_pairs_are_reported(base: Path, pair_file, tmp_path: Path, capsys) -> None:
    third = GOOD | {"sentence2": "A dog waits.", "gold_label": "contradiction"}
    found = find_repeats(read_examples([pair_file([GOOD, third, third, third, OTHER, GOOD])]))
    assert (found.same, found.contradicting) == (2, 3)
    assert "neutral" in found.example and "more than one way" in found.remark()
    assert find_repeats(read_examples([pair_file([GOOD, third])])).remark() == ""
    file = pair_file([GOOD, OTHER, third])
    train(str(base), [file], tmp_path / "out", recipe=make_recipe(epochs=1), settings=TrainSettings(device="cpu"))
    assert "warning: 2 rows" in capsys.readouterr().err
    assert "2 rows of pairs with more than one" in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("limit", [0, 2_000, 40_000], ids=["configuration", "tokenizer", "weights"])
def test_a_full_disk_at_the_final_save_keeps_the_checkpoint(
    base: Path, pair_file, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    file, out = pair_file([GOOD, OTHER]), tmp_path / "out"
    save, (soft, hard) = save_model, resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill_up(*given: object) -> None:
        # The libraries that write the model see a full disk, each with errors of its own.
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            save(*given)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with monkeypatch.context() as patch:
        patch.setattr("evenli.training.nli.save_model", fill_up)
        with pytest.raises(RunError, match="no space left") as caught:
            train(str(base), [file], out, recipe=make_recipe(epochs=1), settings=QUIET)
    assert "\n" not in str(caught.value)
    assert sorted(file.name for file in out.iterdir() if file.name != ".lock") == [
        "checkpoint.safetensors",
        "metrics.jsonl",
    ]
    train(str(base), [file], out, recipe=make_recipe(epochs=1), settings=QUIET)
    assert load_base(str(out)).fresh == () and not (out / "checkpoint.safetensors").exists()
    # A run that is killed between the record and its end leaves the checkpoint; the next one takes it away.
    (out / "checkpoint.safetensors").write_bytes(b"left")
    train(str(base), [file], out, recipe=make_recipe(epochs=1), settings=QUIET)
    assert not (out / "checkpoint.safetensors").exists()


NO_POLARS = """
import runpy, sys
sys.modules["polars"] = None  # every import of it fails
import evenli.training, evenli.training.bilstm
from evenli.training.data import read_examples
print(len(read_examples([sys.argv[1]])))
for script in sys.argv[2:]:
    sys.argv = [script, "--help"]
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        assert not end.code, end
"""


def test_training_and_its_benchmarks_need_no_polars(pair_file) -> None:
    benchmarks = Path(__file__).parents[2] / "benchmarks"
    scripts = [str(benchmarks / name) for name in ("train.py", "encoder.py")]
    command = [sys.executable, "-c", NO_POLARS, str(pair_file([GOOD, OTHER])), *scripts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("2\n")


@pytest.mark.parametrize("limit", ["many", [128]])
def test_a_tokenizer_limit_that_is_no_number_is_one_line(limit, base: Path, pair_file, run_cli, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(base, tmp_path / "base"))
    about = json.loads((folder / "tokenizer_config.json").read_text()) | {"model_max_length": limit}
    (folder / "tokenizer_config.json").write_text(json.dumps(about))
    out = run_cli("train", "nli", str(folder), "--data", str(pair_file([GOOD, OTHER])), "-o", str(tmp_path / "out"))
    assert out.returncode == 2 and "model_max_length" in out.stderr
    assert len(out.stderr.splitlines()) == 1 and not (tmp_path / "out").exists()


def test_bases_that_cannot_be_used(base: Path, tmp_path: Path) -> None:
    def copy(*names: str) -> Path:
        folder = tmp_path / f"copy{len(list(tmp_path.iterdir()))}"
        folder.mkdir()
        for name in names:
            (folder / name).write_bytes((base / name).read_bytes())
        return folder

    bare = copy("config.json", "model.safetensors")
    with pytest.raises(ModelError, match="tokenizer.json"):
        load_base(str(bare))
    with pytest.raises(ModelError, match="weights"):
        load_base(str(copy("config.json", "tokenizer.json")))
    with pytest.raises(ModelError, match="config.json"):
        load_base(str(copy("model.safetensors")))
    lengthy = copy("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
    about = json.loads((lengthy / "tokenizer_config.json").read_text()) | {"model_max_length": "many"}
    (lengthy / "tokenizer_config.json").write_text(json.dumps(about))
    with pytest.raises(ModelError, match="model_max_length"):
        load_base(str(lengthy))
    part = copy("config.json", "tokenizer.json", "tokenizer_config.json")
    torch_weights = transformers.BertModel.from_pretrained(base).embeddings.state_dict()
    from safetensors.torch import save_file

    save_file({f"embeddings.{k}": v for k, v in torch_weights.items()}, part / "model.safetensors")
    with pytest.raises(ModelError, match="bert"):
        load_base(str(part))


def test_recipes(tmp_path: Path) -> None:
    assert make_recipe("coal") == replace(make_recipe("sharma"), name="coal", epochs=5, max_length=128)
    with pytest.raises(InputError, match="recipe 'x'"):
        make_recipe("x")
    with pytest.raises(InputError, match="lr"):
        make_recipe(lr=-1)
    with pytest.raises(EvenliError, match="tpu"):
        train("x", [tmp_path], tmp_path, settings=TrainSettings(device="tpu"))


def test_missing_trackers_are_named(base: Path, snli: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    try:
        import mlflow  # noqa: F401
    except ModuleNotFoundError:
        with pytest.raises(MissingExtraError, match="mlflow"):
            settings = replace(QUIET, log=["mlflow"])
            train(str(base), [snli[0]], tmp_path / "out", recipe=make_recipe(epochs=1), settings=settings)


class FakeMlflow(SimpleNamespace):
    """Runs as mlflow has them: one that starts while another is open is its child."""

    def __init__(self) -> None:
        super().__init__(open=[], ended=[], logged=[])

    def start_run(self, *, run_name: str, nested: bool) -> FakeMlflow:
        self.open.append(run_name)
        return self

    def __enter__(self) -> FakeMlflow:
        return self

    def __exit__(self, kind: object, *rest: object) -> None:
        self.ended.append((self.open.pop(), "FAILED" if kind else "FINISHED"))

    def log_params(self, settings: dict[str, object]) -> None:
        self.logged.append((tuple(self.open), settings["seed"]))

    def log_metrics(self, figures: dict[str, float], step: int) -> None:
        assert len(self.open) == 1


def test_every_seed_has_a_tracked_run_of_its_own(base: Path, snli, tmp_path: Path, monkeypatch) -> None:
    mlflow = FakeMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", mlflow)
    few = tmp_path / "few.jsonl"
    few.write_text("".join(snli[0].read_text(encoding="utf-8").splitlines(keepends=True)[:120]), encoding="utf-8")
    recipe = make_recipe(epochs=1)
    settings = replace(QUIET, log=["mlflow"])
    train(str(base), [few], tmp_path / "out", seeds=[3, 5], recipe=recipe, settings=settings)
    assert mlflow.logged == [(("seed-3",), 3), (("seed-5",), 5)]
    assert mlflow.ended == [("seed-3", "FINISHED"), ("seed-5", "FINISHED")]
    with pytest.raises(RunError), make_trackers(["mlflow"], tmp_path / "bad", recipe.to_dict()):
        raise RunError("disk full")
    assert mlflow.ended[2:] == [("bad", "FAILED")]
    assert mlflow.open == []


def test_tensorboard_is_closed(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("tensorboard")
    from torch.utils import tensorboard

    closed = []
    monkeypatch.setattr(tensorboard.SummaryWriter, "close", lambda self: closed.append(self.log_dir))
    with make_trackers(["tensorboard"], tmp_path, {}) as trackers:
        trackers[0]({"loss": 1.0}, 1)
        assert closed == []
    assert closed == [str(tmp_path / "tensorboard")]


def test_nothing_in_a_name_leaves_its_place_in_the_card(pair_file) -> None:
    yaml = pytest.importorskip("yaml")
    label = {"entailment": 0, "neutral": 1, "contradiction": 2}
    rows = [{"premise": "a", "hypothesis": f"b{i}", "label": i} for i in label.values()]
    examples = replace(read_examples([pair_file(rows)], "hf"), sources=("a|b*c.jsonl",))
    name = 'x: [y] # "z"\n`tags`: <b>'
    base, data = SimpleNamespace(name=name, revision=""), TrainingData(examples, SimpleNamespace(truncated=0))
    trainer = SimpleNamespace(recipe=make_recipe(), device=torch.device("cpu"))
    card = model_card(base, data, trainer, Outcome(Path("#t|*"), 0, 1, 1.0, 1.0, None))
    front, text = card.split("---\n", 2)[1:]
    assert yaml.safe_load(front)["base_model"] == name
    assert r"""from x: \[y\] \# "z" \`tags\`: \<b\>.""" in text
    assert r"| files | a\|b\*c.jsonl |" in text
    assert r"# \#t\|\*" in text


# Several processes.


def test_the_leading_process_decides_for_all(monkeypatch) -> None:
    wishes = {0: False, 1: False}

    def all_reduce(tensor) -> None:
        assert float(tensor) == float(wishes[0] if rank == 0 else 0.0)  # others add nothing
        tensor.fill_(float(wishes[0]))

    monkeypatch.setattr(torch.distributed, "all_reduce", all_reduce)
    for wishes[0] in (False, True):
        for wishes[1] in (False, True):
            for rank in (0, 1):
                assert World(rank, 2, "cpu").agree(wishes[rank]) is wishes[0]
    assert World().agree(True)
    assert not World().agree(False)


@pytest.mark.parametrize(("agreed", "minutes", "saves"), [(True, 1_000.0, 2), (False, 0.0, 1)])
def test_a_timed_checkpoint_is_written_when_agreed(
    agreed: bool, minutes: float, saves: int, base: Path, snli, tmp_path: Path, monkeypatch
) -> None:
    asked, saved = [], []
    monkeypatch.setattr(World, "agree", lambda self, wanted: asked.append(wanted) or agreed)
    monkeypatch.setattr(TrainingDir, "save_checkpoint", lambda self, state, facts: saved.append(facts["step"]))
    recipe = make_recipe(epochs=1)
    settings = replace(QUIET, checkpoint_minutes=minutes)
    train(str(base), [snli[0]], tmp_path, recipe=recipe, settings=settings)
    assert asked == [minutes == 0]  # one report inside the epoch, after step 50
    assert len(saved) == saves


@pytest.mark.slow
def test_two_processes_train_what_one_trains(base: Path, snli: tuple[Path, Path], tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    code = """
import os, sys, torch
torch.set_num_threads(1)
from evenli.training.nli import TrainSettings, train
from evenli.training.recipe import make_recipe
base, data, out = sys.argv[1:]
recipe = make_recipe(lr=1e-4, epochs=1, dropout=0.0, batch_size=31)
# Clocks that never agree on when a checkpoint is due.
minutes = 0.0 if os.environ.get("RANK", "0") == "0" else 1_000.0
settings = TrainSettings(checkpoint_minutes=minutes, device="cpu", shown=False)
train(base, [data], out, recipe=recipe, settings=settings)
"""
    script = tmp_path / "script.py"
    script.write_text(code)
    for out, how in (("one", []), ("two", ["-m", "torch.distributed.run", "--nproc_per_node", "2"])):
        command = [sys.executable, *how, script, base, snli[0], tmp_path / out]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "two" / "training.json").read_text())["identity"]["processes"] == 2
    from safetensors.torch import load_file

    single, double = (load_file(tmp_path / out / "model.safetensors") for out in ("one", "two"))
    for name, tensor in single.items():
        assert torch.allclose(tensor, double[name], atol=2e-5), name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns about its own internals
def test_compiled_pieces_equal_plain_ones(base: Path, snli: tuple[Path, Path], monkeypatch) -> None:
    """What a GPU captures, compiled for the CPU: the same losses, and no graph breaks."""
    tokens = tokens_of(base, snli[0], 80)
    plain = trainer_of(base, tokens, dropout=0.0, dtype="bfloat16")
    compiled = trainer_of(base, tokens, dropout=0.0, dtype="bfloat16")
    compiled.stepper.tokens = Resident(tokens, "cpu", compiled=True)
    compiled.stepper.forward = FusedForward(compiled.model, compiled.stepper.flat, compiled=True)
    compiled.stepper.judge = compile_static(judge)
    compiled.stepper.optimiser = AdamW(compiled.stepper.flat, compiled.recipe, compiled=True)
    losses = [[report.loss for report in trainer.run(every=1)] for trainer in (plain, compiled)]
    np.testing.assert_allclose(*losses, atol=0.02)
    off = (plain.stepper.flat.master - compiled.stepper.flat.master).abs().mean()
    assert off < 0.1 * (plain.stepper.flat.master - plain._initial).abs().mean()


@pytest.mark.gpu
def test_captured_steps_equal_plain_ones(base: Path, snli: tuple[Path, Path]) -> None:
    tokens = tokens_of(base, snli[0], 320)
    start = [load_base(str(base)) for _ in range(2)]
    recipe = make_recipe(lr=1e-3, epochs=2, dropout=0.0)
    curves = []
    for model, graph in zip(start, (True, False), strict=True):
        trainer = Trainer(model.model, tokens, recipe, device="cuda", graph=graph, fresh=model.fresh)
        curves.append([report.loss for report in trainer.run(every=1)])
    np.testing.assert_allclose(*curves, atol=0.02)
