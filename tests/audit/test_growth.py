"""Tokenizers that make much of little are refused before they are used: the library would end the process."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenli
from conftest import tiny_tokenizer
from evenli.audit.models import growth as limits
from evenli.audit.models import load_model
from evenli.audit.models.growth import growth, portions
from evenli.audit.models.onnx import embedded_models
from evenli.core.errors import ModelError
from evenli.encoders.base import load_encoder

LONG = {"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 1000}
ANYWHERE = {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 20}
PIECES = [{"Sequence": {"id": name, "type_id": 0}} for name in ("A", "B")]
MARKER = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}}


def sequence(kind: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", kind: list(parts)}


def template(single: list[Any], pair: list[Any], **markers: Any) -> dict[str, Any]:
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {**MARKER, **markers}}


MANY = {"id": "[X]", "ids": [2] * 1000, "tokens": ["[CLS]"] * 1000}
BOMBS = {
    "replaced": ("normalizer", sequence("normalizers", LONG, LONG, LONG)),
    "anywhere": ("normalizer", sequence("normalizers", ANYWHERE, ANYWHERE)),
    "prepended": ("normalizer", sequence("normalizers", *[{"type": "Prepend", "prepend": "a"}] * 40)),
    "bytes": (
        "pre_tokenizer",
        sequence("pretokenizers", *[{"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}] * 40),
    ),
    "repeated": ("post_processor", template(PIECES[:1], [*PIECES[:1] * 1000, PIECES[1]])),
    "markers": (
        "post_processor",
        template(PIECES[:1], [*PIECES, {"SpecialToken": {"id": "[X]", "type_id": 0}}], **{"[X]": MANY}),
    ),
}


def bomb(name: str) -> Callable[[Path], None]:
    def place(file: Path) -> None:
        part, content = BOMBS[name]
        file.write_text(json.dumps({**json.loads(file.read_text()), part: content}))

    return place


@pytest.mark.parametrize("name", BOMBS)
def test_an_onnx_model_with_such_a_tokenizer_is_one_line(name: str, tmp_path: Path, run_cli: Any) -> None:
    folder = shutil.copytree(embedded_models()[0].path, tmp_path / "model")
    bomb(name)(folder / "tokenizer.json")
    done = run_cli("audit", f"onnx:{folder}", "--limit", "20", "--out", tmp_path / "run")
    assert done.returncode == 2, done.stderr[-500:]
    assert len(done.stderr.strip().splitlines()) == 1 and "tokenizer" in done.stderr


@pytest.mark.parametrize("name", BOMBS)
def test_no_backend_uses_such_a_tokenizer(name: str, tmp_path: Path, checkpoint: Path) -> None:
    folder = shutil.copytree(checkpoint, tmp_path / "model")
    bomb(name)(folder / "tokenizer.json")
    loaders = [lambda: load_model(str(folder)), lambda: load_encoder(f"hf:{folder}")]
    loaders.append(lambda: load_model(f"causal:{folder}"))
    for load in loaders:
        with pytest.raises(ModelError, match="tokenizer can make"):
            load()


def test_growth_is_that_of_the_parts() -> None:
    from tokenizers import normalizers, pre_tokenizers, processors

    tokenizer = tiny_tokenizer()
    assert growth(tokenizer) == (1, 3)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("__"), normalizers.Replace("ab", "12345")])
    assert growth(tokenizer) == (3 * 3, 3)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert growth(tokenizer) == (4 * 3 * 3, 3)
    tokenizer.post_processor = processors.TemplateProcessing("[SEP] $A", "$A $B $A [SEP]", [("[SEP]", 3)])
    assert growth(tokenizer) == (2 * 4 * 3 * 3, 1)
    # No growth is larger than what the library really makes of a character.
    for normaliser in (normalizers.Replace("a", "bcd"), normalizers.Prepend("xyz"), normalizers.ByteLevel()):
        tokenizer.normalizer, tokenizer.pre_tokenizer = normaliser, None
        tokenizer.post_processor = None
        factor, _ = growth(tokenizer)
        assert max(len(normaliser.normalize_str(text)) for text in ("a", "é", "東", "🙂")) <= factor


def test_a_table_of_sentencepiece_grows_by_its_longest_text() -> None:
    trie = b"\0" * 8
    table = len(trie).to_bytes(4, "little") + trie + "ab\0é東c\0".encode() + b"x" * 300 + b"\0"
    state = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}
    assert limits._factor(state) == 300
    assert limits._factor(sequence("normalizers", state, state)) == 90_000


def test_texts_that_can_grow_are_tokenised_in_smaller_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    from tokenizers import normalizers

    tokenizer = tiny_tokenizer()
    monkeypatch.setattr(limits, "_AT_ONCE", 1000)
    lengths = np.random.default_rng(0).integers(1, 60, 200).tolist()
    counts = []
    for factor in (1, 8):
        tokenizer.normalizer = normalizers.Replace("a", "b" * factor)
        parts = list(portions(tokenizer, lengths))
        assert [at for part in parts for at in range(200)[part]] == list(range(200))
        for part in parts:
            _, *rest = lengths[part]
            assert sum(factor * length + 3 for length in rest) <= 1000
        counts.append(len(parts))
    assert counts[1] > 5 * counts[0]
    assert list(portions(tokenizer, [])) == []
    assert list(portions(tokenizer, [1, 10**6])) == [slice(0, 1), slice(1, 2)]


def test_portions_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = evenli.audit("evenli:en", suites="coal", limit=20)
    monkeypatch.setattr(limits, "_AT_ONCE", 500)
    np.testing.assert_array_equal(
        evenli.audit("evenli:en", suites="coal", limit=20).predictions.logits, whole.predictions.logits
    )
