"""How the authors of a sentence-transformers folder make one vector of the tokens: ``modules.json`` and its parts.

The base install reads what most models have: pooling by mean, first token or maximum, scaling to length 1, a default
prompt, lower case and the longest text. What is beyond that, such as a dense layer, is named, so that nobody takes
half a model for the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli.audit.models.loading import read_fields
from evenli.core.errors import InputError, ModelError, named_reason, translated
from evenli.core.io import read_text
from evenli.core.parse import check_regular, parse_json

MODULES = "modules.json"
_MODES = {"cls_token": "cls", "mean_tokens": "mean", "max_tokens": "max"}
_SIMPLE = ("cls", "mean", "max")


@dataclass(frozen=True)
class Configured:
    """What a folder says about its embeddings; all empty for a plain checkpoint."""

    pooling: str = ""  # mean, cls or max; empty where the folder says none of them
    normalise: bool = False  # scale embeddings to length 1
    prompt: str = ""  # put before every text
    lower: bool = False
    limit: int | None = None  # tokens of the longest text
    beyond: tuple[str, ...] = ()  # parts that only sentence-transformers itself can run

    @classmethod
    def read(cls, folder: Path) -> Configured:
        """The configuration in a folder; a broken one is a ModelError."""
        if not (folder / MODULES).is_file():
            return cls()
        modules = read_modules(folder / MODULES)
        kinds = [(kind.rpartition(".")[2], path) for kind, path in modules]
        poolings = []
        for file in (folder / path / "config.json" for kind, path in kinds if kind == "Pooling"):
            check_regular(file)
            if not file.is_file():  # nobody knows which pooling, and any other gives other numbers
                raise ModelError(f"no such file: {file}; {MODULES} refers to this missing pooling config")
            poolings.append(read_fields(file))
        modes = [mode for fields in poolings for mode in _modes(fields)]
        # The name has another middle for other architectures than BERT.
        files = sorted(folder.glob("sentence_*_config.json"))
        about = read_fields(files[0]) if files else {}
        whole = read_fields(folder / "config_sentence_transformers.json")
        prompts, name = whole.get("prompts"), whole.get("default_prompt_name")
        prompt = prompts.get(name) if isinstance(prompts, dict) and isinstance(name, str) else None
        beyond = [kind for kind, _ in kinds if kind not in {"Transformer", "Pooling", "Normalize"}]
        beyond += [f"{mode} pooling" for mode in modes if mode not in _SIMPLE]
        if len(modes) > 1:
            beyond.append(f"{len(modes)} poolings side by side")
        if prompt and any(fields.get("include_prompt") is False for fields in poolings):
            beyond.append("pooling without the prompt")
        limit = about.get("max_seq_length")
        return cls(
            pooling=modes[0] if len(modes) == 1 and modes[0] in _SIMPLE else "",
            normalise=any(kind == "Normalize" for kind, _ in kinds),
            prompt=prompt if isinstance(prompt, str) else "",
            lower=about.get("do_lower_case") is True,
            limit=limit if isinstance(limit, int) and limit > 0 else None,
            beyond=tuple(beyond),
        )

    def prepare(self, texts: Sequence[str]) -> list[str]:
        """The texts as the tokenizer gets them."""
        return [self.prompt + (text.lower() if self.lower else text) for text in texts]

    def choose(self, asked: str | None, name: str) -> tuple[str, str]:
        """The pooling to use and what to say about it; ``asked`` is None where the folder decides."""
        if asked is None:
            if self.beyond:
                raise ModelError(
                    f"{name} is configured with {', '.join(self.beyond)}, which is not supported here; load it as "
                    "st:…, or set the pooling (--pooling)"
                )
            return self.pooling or "mean", ""
        notes = []
        if self.pooling not in {"", asked}:
            notes.append(f"{name} is configured for {self.pooling} pooling, {asked} pooling was asked for")
        if self.beyond:
            notes.append(f"{name} is configured with {', '.join(self.beyond)}, which is left out here")
        return asked, "; ".join(notes)


def read_modules(file: Path) -> list[tuple[str, str]]:
    """Class and folder of every module in ``modules.json``."""
    kinds = (InputError, KeyError, TypeError)
    with translated(f"{file} is broken (", ")", into=ModelError, kinds=kinds, reason=named_reason):
        modules = parse_json(read_text(file), str(file))
        named = [(str(module["type"]), str(module["path"])) for module in modules]
    for _, path in named:
        # A NUL is in no path, and asking for one is an error of its own.
        if "\0" in path or not (file.parent / path).resolve().is_relative_to(file.parent.resolve()):
            raise ModelError(f"{file} names a module at '{path}', which is not inside {file.parent}")
    return named


def _modes(fields: dict[str, Any]) -> list[str]:
    """Poolings that are switched on: one name or a list since version 5.2, a switch for each before."""
    mode = fields.get("pooling_mode")
    if mode is not None:
        return list(map(str, mode)) if isinstance(mode, list) else [str(mode)]
    switches = (
        (key.removeprefix("pooling_mode_"), on) for key, on in fields.items() if key.startswith("pooling_mode_")
    )
    return [_MODES.get(name, name) for name, on in switches if on is True] or ["mean"]
