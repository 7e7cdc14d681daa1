"""What an encoder is, and the one place where an encoder string is understood."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli._extras import need
from evenli.encoders.vectors.base import WordVectors
from evenli.encoders.vectors.files import load_vectors
from evenli.errors import EvenliError, InputError, ModelError
from evenli.io import checkpoint_files, hash_files, hash_text
from evenli.models.positions import longest_input
from evenli.resources.words import split_words

Embeddings = NDArray[np.float32]
POOLINGS = ("mean", "cls", "max")
MITIGATED = "mitigated.json"
"""The file that makes a folder a mitigated encoder."""
_KINDS = ("st", "hf", "infersent", "onnx", "vectors", "mitigated", "py")
_EXPECTED = "return one row of finite numbers per text"
_NO_NUMBERS = {"c": "complex numbers", "O": "objects", "S": "bytes", "U": "strings"}


class Pooled(NamedTuple):
    """Which token wins how many dimensions of a max-pooled sentence.

    Attributes:
        tokens: The encoder's tokens; it may leave words out and may list its markers.
        counts: Dimensions won, one number per token.
        dimension: Dimensions of the sentence embedding.
    """

    tokens: Sequence[str]
    counts: Sequence[int]
    dimension: int


class Encoder(Protocol):
    """Texts to vectors, one row each; a row does not depend on its neighbours.

    Encoders of ``load_encoder`` also have an ``identity``, a text that changes when their outputs could. One with a
    ``spec`` is called by it in messages.
    """

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        ...


class VectorMean:
    """The mean of the vectors of a text's words; words without a vector are left out."""

    def __init__(self, vectors: WordVectors) -> None:
        self.vectors = vectors
        self.identity = f"mean:{vectors.identity}"

    def unknown(self, words: Sequence[str]) -> list[str]:
        """Words or phrases of which no part has a vector."""
        return [word for word in words if not (self.vectors.rows(split_words(word)) >= 0).any()]

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; a text without a known word is a row of zeros."""
        made = np.zeros((len(texts), self.vectors.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            known = self.vectors.rows(split_words(text))
            known = known[known >= 0]
            if known.size:
                made[row] = self.vectors.matrix[known].mean(axis=0)
        return made


class TransformerEncoder:
    """A Hugging Face encoder with mean, first-token or max pooling over its real tokens.

    Args:
        spec: Checkpoint folder or ``id[@revision]``; safetensors only, no code from the hub.
        pooling: One of POOLINGS.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        batch_size: Texts at a time, of similar length.
    """

    def __init__(self, spec: str, pooling: str = "mean", *, device: str | None = None, batch_size: int = 64) -> None:
        from evenli.models.loading import check_folder, one_line, pick_device

        self.spec = f"hf:{spec}"
        if pooling not in POOLINGS:
            raise InputError(f"no pooling '{pooling}'; choose {', '.join(POOLINGS)}")
        self._torch = need("torch", extra="hf", purpose="a transformer encoder")
        transformers = need("transformers", extra="hf", purpose="a transformer encoder")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        local = Path(spec).is_dir()
        name, _, revision = (spec, "", "") if local else spec.partition("@")
        if local:
            check_folder(Path(name))
        source: dict[str, Any] = {"revision": revision or None, "trust_remote_code": False}
        with one_line(name, local=local, revision=revision):
            self._tokenizer = transformers.AutoTokenizer.from_pretrained(name, **source)
            model = transformers.AutoModel.from_pretrained(
                name, dtype=self._torch.float32, use_safetensors=True, **source
            )
        self._device = pick_device(self._torch, device)
        self._model = model.eval().to(self._device)
        self._limit = longest_input(model.config, 512, tokenizer_limit=self._tokenizer.model_max_length)
        self._pooling, self._batch = pooling, batch_size
        # Of a checkpoint on the hub the commit says which one it is, of a folder its files do.
        self._source = "" if local else f"{name}@{getattr(model.config, '_commit_hash', None) or revision}"
        self._folder = Path(name).resolve() if local else None

    @cached_property
    def identity(self) -> str:
        """Hash of checkpoint and pooling."""
        weights = self._source if self._folder is None else hash_files(checkpoint_files(self._folder, nested=True))
        return f"hf:{hash_text(f'{weights}|{self._pooling}')[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        torch = self._torch
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        made: Embeddings | None = None
        for start in range(0, len(order), self._batch):
            rows = order[start : start + self._batch]
            batch = self._tokenizer(
                [texts[row] for row in rows], padding=True, truncation=True, max_length=self._limit, return_tensors="pt"
            ).to(self._device)
            with torch.inference_mode():
                hidden = self._model(**batch).last_hidden_state
                pooled = _pool(torch, hidden, batch["attention_mask"].bool(), self._pooling).float().cpu().numpy()
            if made is None:
                made = np.empty((len(texts), pooled.shape[1]), dtype=np.float32)
            made[rows] = pooled
        return np.empty((0, 0), dtype=np.float32) if made is None else made


class CallableEncoder:
    """Any function on a list of texts.

    Args:
        function: The function.
        spec: What it is called; by default the function's module and name.
        files: What its outputs depend on, such as the file of its code.
    """

    def __init__(self, function: Callable[[list[str]], Any], spec: str = "", files: Iterable[Path] = ()) -> None:
        self._function = function
        self.spec = spec or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__name__)}"
        self._files = tuple(files)

    @cached_property
    def identity(self) -> str:
        """Hash of spec, files and the identity of an object behind it; code that the file imports is not in it."""
        own = getattr(getattr(self._function, "__self__", None), "identity", None)
        content = f"{self.spec}|{hash_files(self._files)}" + (f"|{own}" if own else "")
        return f"callable:{hash_text(content)[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; whatever the function does wrong is a ModelError."""
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        try:
            made = self._function(list(texts))
        except EvenliError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(f"{self.spec} raised {reason}") from error
        return _rows_of(made, texts, self.spec)


def load_encoder(spec: str, *, pooling: str = "mean", device: str | None = None) -> Encoder:
    """Load an encoder from its spec.

    Args:
        spec: ``st:NAME`` or ``st:FOLDER`` (sentence-transformers), ``hf:ID`` or a checkpoint folder,
            ``infersent:FOLDER[,VECTORS]``, ``onnx:FOLDER``, ``vectors:FILE`` (mean of words), ``mitigated:FOLDER`` or
            the folder itself, ``py:module:function`` or ``py:module:object`` with ``encode(texts)``. Names on the hub
            may have a revision, ``NAME@REVISION``.
        pooling: For ``hf`` and ``onnx``: mean, cls or max. A mitigated encoder keeps the one it was fitted with.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
    """
    if pooling not in POOLINGS:
        raise InputError(f"no pooling '{pooling}'; choose {', '.join(POOLINGS)}")
    kind, target = _parsed(spec)
    if kind == "mitigated":
        # By name: the folder of mitigations lies to the right of this one.
        loaded: Encoder = import_module("evenli.mitigate.encoder").load_mitigated(target, device=device)
        return loaded
    if kind == "vectors":
        return VectorMean(load_vectors(target))
    if kind == "hf":
        return TransformerEncoder(target, pooling, device=device)
    if kind == "infersent":
        from evenli.encoders.bilstm import load_trained

        return load_trained(target, device=device)
    if kind == "onnx":
        from evenli.encoders.onnx import OnnxEncoder

        return OnnxEncoder(target, pooling)
    if kind == "st":
        from evenli.encoders.st import load_sentence_transformer

        return load_sentence_transformer(target, device=device)
    function = _function(target)
    code = getattr(sys.modules[target.partition(":")[0]], "__file__", None)
    return CallableEncoder(function, spec, [Path(code)] if code else [])


def resolved_spec(spec: str) -> str:
    """The spec with its kind and, where it names a file or folder, the whole path: it means the same everywhere."""
    kind, target = _parsed(spec)
    if kind == "py":
        return spec
    parts = (str(Path(part).resolve()) if Path(part).exists() else part for part in parts_of(f"{kind}:{target}"))
    return f"{kind}:{','.join(parts)}"


def _parsed(spec: str) -> tuple[str, str]:
    """Kind and target; a bare path is a mitigated encoder, a checkpoint, or a file of word vectors."""
    kind, colon, target = spec.partition(":")
    if colon and kind in _KINDS:
        return kind, target
    if Path(spec).is_dir():
        return ("mitigated" if (Path(spec) / MITIGATED).is_file() else "hf"), spec
    if Path(spec).is_file():
        return "vectors", spec
    raise ModelError(f"'{spec}' is no encoder; give {', '.join(f'{one}:…' for one in _KINDS)}, a folder or a file")


def parts_of(spec: str) -> list[str]:
    """What a spec with a kind names: one thing, or a folder and its vectors.

    A folder may have commas in its name: one that is there is taken whole, else the last comma divides.

    >>> parts_of("infersent:encoder,glove.txt"), parts_of("vectors:a,b.txt")
    (['encoder', 'glove.txt'], ['a,b.txt'])
    """
    kind, _, target = spec.partition(":")
    if kind != "infersent" or Path(target).is_dir():
        return [target]
    folder, _, vectors = target.rpartition(",")
    return [folder, vectors] if folder and vectors else [target.rstrip(",")]


def encode_checked(encoder: Encoder, texts: Sequence[str]) -> Embeddings:
    """Encode, and refuse what is no row of finite numbers per text."""
    return _rows_of(encoder.encode(texts), texts, name_of(encoder))


def name_of(encoder: Encoder) -> str:
    """What to call an encoder in a message: its ``spec``, if it has one."""
    spec = getattr(encoder, "spec", None)
    return spec if spec and isinstance(spec, str) else "the encoder"


def _rows_of(made: Any, texts: Sequence[str], name: str) -> Embeddings:
    """What an encoder gave as float32 [n, d]; anything else is refused."""
    try:
        rows = np.asarray(_untied(made))
    except (ValueError, TypeError, RuntimeError) as error:
        what = "rows of unequal length" if "inhomogeneous" in str(error) else f"what is no array ({error})"
        raise ModelError(f"{name} gave {what}; {_EXPECTED}") from error
    if rows.dtype.kind not in "biuf" and rows.dtype.name != "bfloat16":
        what = _NO_NUMBERS.get(rows.dtype.kind, rows.dtype.name) if rows.ndim else type(made).__name__
        raise ModelError(f"{name} gave {what}; {_EXPECTED}")
    if rows.ndim != 2 or len(rows) != len(texts):
        raise ModelError(f"{name} gave an array of shape {rows.shape} for {len(texts)} texts; {_EXPECTED}")
    if len(texts) and not rows.shape[1]:
        raise ModelError(f"{name} gave no numbers (shape {rows.shape}); {_EXPECTED}")
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite, and refused as such
        rows = rows.astype(np.float32, copy=False)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if wrong.size:
        raise ModelError(f"{name} gave a vector that is not finite for '{texts[int(wrong[0])][:60]}'; {_EXPECTED}")
    return rows


def _untied(made: Any) -> Any:
    """Tensors of torch as arrays: without gradient, off the GPU, in a type that numpy has."""
    if isinstance(made, list | tuple):
        return [_untied(one) if hasattr(one, "detach") else one for one in made]
    if not hasattr(made, "detach"):
        return made
    plain = made.detach().cpu()
    return (plain.float() if plain.is_floating_point() else plain).numpy()


def _pool(torch: Any, hidden: Any, keep: Any, pooling: str) -> Any:
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "max":
        return hidden.masked_fill(~keep[..., None], -torch.inf).amax(dim=1)
    shares = keep[..., None].to(hidden.dtype)
    return (hidden * shares).sum(dim=1) / shares.sum(dim=1)


def _function(target: str) -> Callable[[list[str]], Any]:
    name, _, attribute = target.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(f"py:{target}: {error}; expected py:module:function") from error
    except Exception as error:  # the module's own code
        raise ModelError(f"py:{target}: importing {name} raised {type(error).__name__}: {error}") from error
    # An object with both, such as a model of sentence-transformers, takes texts by encode.
    encode = None if isinstance(found, str) else getattr(found, "encode", None)
    if encode is not None and isinstance(found, type):
        raise ModelError(f"py:{target} is a class; make an object of it in {name} and name that")
    function = encode if callable(encode) else found
    if not callable(function):
        raise ModelError(f"py:{target} is neither a function nor an object with encode(texts)")
    return function  # type: ignore[no-any-return]
