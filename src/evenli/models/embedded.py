"""The models that ship with the package: a directory each with model, tokenizer, config and card."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli.errors import ModelError
from evenli.models.base import ModelRequest
from evenli.models.onnx import OnnxModel
from evenli.resources.store import read_toml

FOLDER = Path(__file__).parent / "embedded"


@dataclass(frozen=True)
class EmbeddedModel:
    """One shipped model and its card."""

    name: str
    lang: str
    path: Path
    card: dict[str, Any]


def embedded_models() -> list[EmbeddedModel]:
    """All shipped models, sorted by language."""
    models = []
    for file in FOLDER.glob("*/card.toml"):
        card = read_toml(file)
        models.append(EmbeddedModel(file.parent.name, str(card["lang"]), file.parent, card))
    return sorted(models, key=lambda model: (model.lang, model.name))


def find_embedded(name_or_lang: str) -> EmbeddedModel:
    """The shipped model of that name, or of that language."""
    models = embedded_models()
    for model in models:
        if name_or_lang in {model.name, model.lang}:
            return model
    shipped = ", ".join(f"{model.name} ({model.lang})" for model in models) or "none"
    raise ModelError(f"no embedded model '{name_or_lang}'; shipped: {shipped}. Name a model of your own instead")


def load(target: str, request: ModelRequest) -> OnnxModel:
    """The backend ``evenli:NAME`` or ``evenli:LANG``."""
    return OnnxModel(str(find_embedded(target).path), request.options, spec=request.spec)
