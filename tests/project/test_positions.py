"""The longest input a model takes, at every place where a text is cut to it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from conftest import make_checkpoint
from evenli.audit.models import ModelOptions, load_model
from evenli.audit.models.loading import _FROM_PADDING, first_position, longest_input, position_limit
from evenli.corpus.transformer import TransformerArgmax
from evenli.encoders.base import load_encoder

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
LONG = " ".join(["the nurse walks"] * 100)
SIZES = {
    "vocab_size": 99,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 20,
    "pad_token_id": 1,
}
OWN: dict[str, dict[str, Any]] = {
    "layoutlmv3": {"visual_embed": False, "coordinate_size": 2, "shape_size": 4},
    "lilt": {"hidden_size": 24},
    "longformer": {"attention_window": 4},
    "luke": {"entity_vocab_size": 5},
    "xmod": {"default_language": "en_XX"},
}
FAMILIES = sorted(set(_FROM_PADDING.split()) - {"altclip_text_model"})  # that one is a part of another model


@pytest.fixture(scope="module")
def roberta(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small RoBERTa classifier with 130 positions, of which a text may take 128, and a tokenizer without a limit."""
    folder = tmp_path_factory.mktemp("roberta")
    tokenizer = transformers.AutoTokenizer.from_pretrained(make_checkpoint(tmp_path_factory.mktemp("bert")))
    tokenizer.model_max_length = int(1e30)
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    torch.manual_seed(0)
    config = transformers.RobertaConfig(
        **{**SIZES, "vocab_size": len(tokenizer), "max_position_embeddings": 130},
        type_vocab_size=1,
        id2label={0: "entailment", 1: "neutral", 2: "contradiction"},
    )
    transformers.RobertaForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_limits_by_hand() -> None:
    roberta = SimpleNamespace(model_type="roberta", pad_token_id=1, max_position_embeddings=514)
    bert = SimpleNamespace(model_type="bert", pad_token_id=0, max_position_embeddings=512)
    without = SimpleNamespace(model_type="xlnet", max_position_embeddings=-1)
    assert (position_limit(roberta), position_limit(bert), position_limit(without), position_limit(None)) == (
        512,
        512,
        None,
        None,
    )
    assert longest_input(roberta, 600) == longest_input(bert, 600) == 512
    assert longest_input(roberta, 600, tokenizer_limit=int(1e30)) == 512
    assert longest_input(roberta, 600, tokenizer_limit=128) == 128
    assert longest_input(roberta, 64, tokenizer_limit=128) == 64
    assert longest_input(without, 600, tokenizer_limit=None) == 600
    assert first_position(SimpleNamespace(model_type="mpnet", pad_token_id=0)) == 2, "MPNet has it in its code"
    assert first_position(SimpleNamespace(model_type="roberta", pad_token_id=0)) == 1
    assert first_position(SimpleNamespace(model_type="roberta")) == 2, "a stored configuration without the default"


@pytest.mark.parametrize("family", [*FAMILIES, "bert", "electra", "bart", "nystromformer"])
def test_every_family_takes_its_longest_input_and_none_longer(family: str) -> None:
    config = transformers.AutoConfig.for_model(family, **{**SIZES, **OWN.get(family, {})})
    model = transformers.AutoModel.from_config(config).eval()
    limit = position_limit(config)
    assert limit == (18 if family in FAMILIES else 20)

    def encode(length: int) -> Any:
        ids = torch.full((1, length), 7)
        with torch.inference_mode():
            return model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state

    assert encode(limit).shape == (1, limit, model.config.hidden_size)
    with pytest.raises((IndexError, RuntimeError)):
        encode(limit + 1)


@pytest.mark.parametrize("kind", ["hf", "st"])
def test_encoders_cut_long_texts(roberta: Path, kind: str) -> None:
    if kind == "st":
        pytest.importorskip("sentence_transformers")
    encoder = load_encoder(f"{kind}:{roberta}", device="cpu")
    made = encoder.encode([LONG, "the nurse"])
    assert made.shape == (2, 16) and np.isfinite(made).all()
    kept = " ".join(LONG.split()[:126])  # and two markers
    np.testing.assert_allclose(made[0], encoder.encode([kept])[0], atol=1e-5)
    shorter = " ".join(LONG.split()[:125])
    assert np.abs(made[0] - encoder.encode([shorter])[0]).max() > 1e-5, "the control: the last word counts"


def test_classifiers_cut_long_pairs(roberta: Path) -> None:
    model = load_model(str(roberta), options=ModelOptions(max_length=512, device="cpu"))
    assert model.info.max_length == 128
    prepared = model.prepare([LONG], ["a nurse walks"])
    assert (prepared.lengths.max(), prepared.truncated) == (128, 1)
    assert np.isfinite(model.logits(prepared.items)).all()


def test_word_importance_cuts_long_texts(roberta: Path) -> None:
    counts, lengths = TransformerArgmax(roberta, device="cpu", max_length=512).argmax_counts([LONG])
    assert lengths.tolist() == [300]
    assert counts[:126].sum() > 0 and counts[126:].sum() == 0


def test_the_limit_of_the_tokenizer_counts(checkpoint: Path) -> None:
    # 160 positions, but a tokenizer that says 128.
    assert load_model(str(checkpoint), options=ModelOptions(max_length=512, device="cpu")).info.max_length == 128
