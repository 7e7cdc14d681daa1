"""Causal language models on this machine: the fast way gives the numbers of the plain one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

import evenli
from evenli.audit.models import ModelOptions, Prompting, load_model
from evenli.audit.models.base import plan_batches
from evenli.audit.predict import predict
from evenli.audit.predictions import ABSTAINED, MASS, MINIMUM_MASS, RunFolder
from evenli.audit.settings import RunSettings
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.checks import gold_pairs
from evenli.core.errors import EvenliError, InputError, LabelError, ModelError, RunError
from evenli.core.labels import LABELS
from evenli.llm import causal, packing
from evenli.llm.causal import CausalModel
from evenli.llm.prompts import prompts

TEMPLATE = "{% for m in messages %}<s>{{ m['content'] }}</s>{% endfor %}{% if add_generation_prompt %}<s>{% endif %}"


def make_model(folder: Path, *, template: bool = True) -> Path:
    """A causal model of random weights whose tokenizer knows some words and falls back to bytes."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers
    from tokenizers.models import BPE

    symbols = {char: at for at, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    known = {**symbols, "<s>": len(symbols), "</s>": len(symbols) + 1}
    # " A" is one token, and "maybe" is two: both ways of scoring an answer are needed.
    merges = [("Ġ", "A"), ("m", "a"), ("ma", "y"), ("b", "e")]
    for pair in merges:
        known["".join(pair)] = len(known)
    tokenizer = Tokenizer(BPE(known, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>", additional_special_tokens=["<s>", "</s>"]
    )
    if template:
        fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(known),
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
    )
    model = transformers.LlamaForCausalLM(config)
    model.lm_head.weight.data *= 40  # opinions
    model.save_pretrained(folder, safe_serialization=True)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("causal"))


def load(folder: Path, lang: str = "en", **settings: Any) -> CausalModel:
    options = ModelOptions(device="cpu", prompting=Prompting(**settings))
    model = load_model(f"causal:{folder}", lang=lang, options=options)
    assert isinstance(model, CausalModel)
    return model


PAIRS = [
    ("A nurse waits.", "A woman waits."),
    ("The mechanic has slept in the tent.", "A person slept."),
    ("A nurse waits.", "A man waits."),
]


def plainly(model: CausalModel, text: str, answer: str) -> float:
    """Log-probability of an answer, one whole sequence at a time."""
    tokenizer, network = model._tokenizer, model._model
    question = [{"role": "user", "content": text}]
    shown = tokenizer.apply_chat_template(question, tokenize=False, add_generation_prompt=True)
    before = tokenizer.encode(shown, add_special_tokens=False)
    after = tokenizer.encode(answer, add_special_tokens=False)
    with torch.no_grad():
        logp = network(torch.tensor([before + after])).logits[0].double().log_softmax(-1)
    return sum(float(logp[len(before) + at - 1, token]) for at, token in enumerate(after))


def test_shared_beginnings_and_batches_change_no_number(folder: Path) -> None:
    model = load(folder, prompts=2)
    prepared = model.prepare(*map(list, zip(*PAIRS, strict=True)))
    assert all(len(shared) > 100 for shared in model._shared)
    scores = np.empty((len(PAIRS), len(LABELS) + len(model.details)))
    for batch in plan_batches(prepared.lengths, bucket=model.bucket, token_budget=model.token_budget):
        scores[batch] = model.logits(prepared.take(batch))
    views = scores[:, 5:].reshape(len(PAIRS), len(model.views), 4)
    for row, pair in enumerate(PAIRS):
        for at, view in enumerate(model.views):
            for column, label in enumerate(LABELS):
                forms = {
                    tuple(model._tokenizer.encode(form, add_special_tokens=False)): form
                    for form in view.spellings(label)
                }.values()
                expected = np.logaddexp.reduce([plainly(model, view.text(*pair), form) for form in forms])
                assert views[row, at, column] == pytest.approx(max(expected, -30), abs=2e-3)
    assert views[..., 3] == pytest.approx(np.exp(views[..., :3]).sum(axis=2), abs=1e-4)


def test_questions_of_one_premise_in_one_row_do_not_see_each_other(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(folder, prompts=2)
    prepared = model.prepare(*map(list, zip(*PAIRS, strict=True)))
    assert model._packs
    assert [batch.tolist() for batch in model.plan(prepared.items)] == [[1], [0, 2]]
    with torch.inference_mode():
        for view in range(len(model.views)):
            alone = model._plain(view, prepared.items)
            assert model._packed(view, prepared.items) == pytest.approx(alone, abs=2e-3)
        # The control: rows in which every token sees all tokens before it get other numbers.
        packed = packing.pack
        monkeypatch.setattr(packing, "pack", lambda *words: _seeing_all(packed(*words)))
        assert np.abs(model._packed(0, prepared.items) - model._plain(0, prepared.items)).max() > 0.05
    # A network that does not keep the parts of a row from each other is noticed, and asked one question a row.
    model._packs = None
    again = model.prepare(*map(list, zip(*PAIRS, strict=True)))
    assert not model._packs
    with torch.inference_mode():
        alone = np.maximum(model._plain(0, again.items), -30)
    assert model.logits(again.items)[:, 5:8] == pytest.approx(alone, abs=2e-3)


def _seeing_all(pack: packing.Pack) -> packing.Pack:
    return replace(pack, seen=np.broadcast_to(np.tri(pack.ids.shape[1], dtype=bool), pack.seen.shape))


def test_every_question_is_in_one_batch_with_those_of_its_premise() -> None:
    rng = np.random.default_rng(0)
    premises = rng.integers(0, 60, 200).tolist()
    rows = [(premise, *rng.integers(100, 999, 5 + premise % 17).tolist()) for premise in premises]
    batches = [batch.tolist() for batch in packing.batches(premises, rows, 400)]
    assert sorted(at for batch in batches for at in batch) == list(range(200))
    assert all(sum(len(rows[at]) for at in batch) <= 400 for batch in batches)
    where = {at: number for number, batch in enumerate(batches) for at in batch}
    assert all(len({where[at] for at in range(200) if premises[at] == premise}) == 1 for premise in set(premises))


def test_calibration_divides_by_the_answers_to_sentences_that_say_nothing(folder: Path) -> None:
    plain, model = load(folder, prompts=2), load(folder, prompts=2, calibrate=True)
    assert "calibration" not in plain.prompting and plain.info.fingerprint != model.info.fingerprint
    pairs = [[first for first, _ in PAIRS], [second for _, second in PAIRS]]
    without, with_prior = (one.logits(one.prepare(*pairs).items).astype(np.float64) for one in (plain, model))
    assert with_prior[:, 5:] == pytest.approx(without[:, 5:], abs=1e-4)  # what the model said is stored as it is
    assert model._prior is not None
    card = model.prompting["calibration"]["prior"].values()
    shares = np.array([[row[label] for label in LABELS] for row in card])
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5) and shares == pytest.approx(model._prior)
    views = without[:, 5:].reshape(len(PAIRS), -1, 4)
    parts = np.exp(views[..., :3]) / model._prior
    parts /= parts.sum(axis=2, keepdims=True)
    answered = views[..., 3] >= MINIMUM_MASS
    answered |= ~answered.any(axis=1, keepdims=True)
    mean = (parts * answered[..., None]).sum(axis=1) / answered.sum(axis=1, keepdims=True)
    assert np.exp(with_prior[:, :3]) == pytest.approx(mean, abs=1e-3)
    # A model asked about nothing has no preference left.
    nothing = model.logits(model.prepare(["N/A"], ["N/A"]).items)[0, :3]
    before = plain.logits(plain.prepare(["N/A"], ["N/A"]).items)[0, :3]
    assert np.ptp(nothing) < np.ptp(before)


def test_answers_of_several_tokens_are_scored_whole(folder: Path) -> None:
    model = load(folder, prompts=2)
    lengths = {len(form) for forms in model._answers[3] for form in forms}
    assert max(lengths) > 1  # "maybe" and "yes" are more than one token


def test_a_run_is_resumed(folder: Path, tmp_path: Path) -> None:
    model = load(folder, prompts=1)
    pairs = load_suite("coal").where(pl.col("occupation") == "nurse")
    whole = predict(model, [pairs])

    def stop(progress: Any) -> None:
        if progress.stage.startswith("scoring"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict(model, [pairs], RunFolder(tmp_path / "run"), RunSettings(on_progress=stop))
    table = predict(model, [pairs], RunFolder(tmp_path / "run"))
    columns = [*LABELS, ABSTAINED, MASS]
    assert table.frame.select(columns).to_numpy() == pytest.approx(whole.frame.select(columns).to_numpy(), abs=1e-4)
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert header["prompting"]["prompts"] == ["en1"] and header["prompting"]["orders"] == ["ENC", "NCE", "CEN"]


def test_noise_gets_no_verdict(folder: Path, tmp_path: Path) -> None:
    pairs = load_suite("coal").where(pl.col("occupation").is_in(["nurse", "mechanic", "artist"]))
    try:
        audit = evenli.audit(f"causal:{folder}", data=pairs, prompts=1, device="cpu", out=tmp_path / "run")
    except RunError as error:  # it may have no answer to anything
        assert "abstained" in str(error)
    else:
        assert audit.verdict.code == "none" and audit.result.competence is not None
        assert audit.result.competence.problem
    assert (tmp_path / "run" / "predictions.parquet").is_file()


def test_a_base_model_is_asked_in_plain_text(tmp_path: Path) -> None:
    model = load(make_model(tmp_path, template=False), prompts=1)
    assert "no chat template" in model.note
    prepared = model.prepare(["A nurse waits."], ["A woman waits."])
    assert np.isfinite(model.logits(prepared.items)).all()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_gguf_file_says_what_comes_first(tmp_path: Path, wanted: bool) -> None:
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_bos_token_id(2)
    writer.add_add_bos_token(wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert causal._first_tokens(tmp_path / "a.gguf") == ((2,) if wanted else ())


def test_plain_text_begins_with_it_once(tmp_path: Path) -> None:
    model = load(make_model(tmp_path, template=False), prompts=1)
    texts = ["A man waits."], ["A person waits."]
    model.prepare(*texts)
    before = list(model._shared)
    model._first = (7,)
    model.prepare(*texts)
    assert model._shared == [(7, *row) for row in before]
    model._first = before[0][:1]
    model.prepare(*texts)
    assert model._shared[0] == before[0]


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_other_languages_are_asked_in_their_own_words(folder: Path, lang: str) -> None:
    model = load(folder, lang, prompts=3)
    gold = gold_pairs(lang).frame.head(2)
    prepared = model.prepare(gold["premise"].to_list(), gold["hypothesis"].to_list())
    assert np.isfinite(model.logits(prepared.items)).all()
    assert {view.prompt["name"] for view in model.views} == {row["name"] for row in prompts(lang)}


def test_what_cannot_be_asked_is_one_line(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(LabelError, match="leave.*--labels.*out"):
        load_model(f"causal:{folder}", options=ModelOptions(labels=LABELS))
    with pytest.raises(ModelError, match="no GGUF file"):
        load_model(f"causal:{tmp_path}/none.gguf")
    for name in ("a.gguf", "b.gguf"):
        (tmp_path / name).write_bytes(b"GGUF")
    with pytest.raises(ModelError, match="holds 2 GGUF files"):
        load_model(f"causal:{tmp_path}")
    with pytest.raises(EvenliError):
        load_model(f"causal:{tmp_path}/a.gguf")
    with pytest.raises(InputError, match="no prompts for language"):
        load_model(f"causal:{folder}", lang="de")
    model = load(folder, prompts=1)
    with pytest.raises(ModelError, match="a question has"):
        model.prepare(["word " * 2000], ["word"])
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    try:
        with pytest.raises(ModelError, match="holds no weights"):
            load(folder)
    finally:
        (tmp_path / "model.safetensors").rename(folder / "model.safetensors")
