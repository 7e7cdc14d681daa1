"""What an encoder is, how its spec is read, the check of what it returns, ``py:module:function`` and a cache."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.audit.models.callables import fingerprint_of
from evenli.core.binary import read_array
from evenli.core.errors import InputError, ModelError, foreign_code, translated
from evenli.core.io import hash_files, hash_text, write_atomic
from evenli.core.registry import ENCODERS
from evenli.core.settings import internal
from evenli.encoders.settings import LoadSettings

Embeddings = NDArray[np.float32]
MITIGATED = "mitigated.json"  # the file that makes a directory a mitigated encoder
_KEYS = ".hashes.npy"  # of the texts of a batch in the cache, then of keys and embeddings
_EXPECTED = "return one row of finite numbers per text"
_NO_NUMBERS = {"c": "complex numbers", "O": "objects", "S": "bytes", "U": "strings"}


class Pooled(NamedTuple):
    """From which token each dimension of a max-pooled sentence comes."""

    tokens: Sequence[str]  # the encoder's tokens; it may leave words out and may list its markers
    counts: Sequence[int]  # dimensions in which a token has the maximum
    dimension: int


class Encoder(Protocol):
    """Texts to vectors, one row each; a row does not depend on its neighbours.

    Encoders of ``load_encoder`` also have an ``identity``, a text that changes when their outputs could. One with a
    ``spec`` is called by it in messages; a ``note`` is shown to the user.
    """

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]."""
        ...


@dataclass(frozen=True, kw_only=True)
class EncoderRequest(LoadSettings):
    """What a caller of ``load_encoder`` asks for; each backend uses what concerns it."""

    device: str | None = internal(None, "Where to compute; a backend refuses a device that it does not have.")

    def keep_pooling(self, name: str, own: str = "") -> None:
        """Refuse to be asked for another pooling than an encoder's ``own``; empty where nobody knows which it is."""
        if self.pooling not in {None, own}:
            raise PoolingError(
                f"{name} has {own or 'its own'} pooling and takes no other; a choice (--pooling {self.pooling}) is for "
                "hf and onnx encoders"
            )


class PoolingError(InputError):
    """The encoder cannot pool as it was asked to."""


DATA_BACKENDS = tuple(name for name in ENCODERS.builtin if name != "py")
"""Backends that read files; the others run code, and a spec that stands in a file may not name them."""


def load_encoder(spec: str, *, pooling: str | None = None, device: str | None = None, online: bool = False) -> Encoder:
    """Load an encoder from its spec.

    Other packages add kinds through entry points of the group ``evenli.encoders``: a function
    ``load(target, request) -> Encoder`` that gets what stands behind the colon and an ``EncoderRequest``.

    Args:
        spec: ``st:NAME`` or ``st:FOLDER`` (sentence-transformers), ``hf:ID`` or a checkpoint folder,
            ``infersent:FOLDER[,VECTORS]``, ``onnx:FOLDER``, ``vectors:FILE`` (mean of words), ``mitigated:FOLDER`` or
            the folder itself, ``py:module:function`` or ``py:module:object`` with ``encode(texts)``. Names on the hub
            may have a revision, ``NAME@REVISION``.
        pooling: For ``hf`` and ``onnx``: mean, cls or max; None takes what the sentence-transformers files beside the
            weights say, else mean. Others refuse one that is not their own; that of a mitigated encoder is the one it
            was fitted with.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        online: Download from the hub what its local cache lacks; nothing is asked otherwise.
    """
    kind, target = parse_spec(spec)
    request = EncoderRequest(pooling=pooling, device=device, online=online)
    encoder: Encoder = ENCODERS.get(kind)(target, request)
    if not callable(getattr(encoder, "encode", None)):
        raise ModelError(f"the encoder backend '{kind}' gave {type(encoder).__name__}, which has no encode(texts)")
    return encoder


def load_with_own_pooling(spec: str, *, pooling: str | None, device: str | None, online: bool) -> tuple[Encoder, str]:
    """``load_encoder``, but one that cannot pool as asked pools as it does; the text says so then."""
    try:
        return load_encoder(spec, pooling=pooling, device=device, online=online), ""
    except PoolingError as error:
        return load_encoder(spec, device=device, online=online), str(error)


def as_encoder(encoder: Encoder | Callable[[list[str]], Any] | str) -> Encoder:
    """The encoder: loaded where it is given by its spec, and a function on a list of texts made into one."""
    if isinstance(encoder, str):
        return load_encoder(encoder)
    if callable(getattr(encoder, "encode", None)):
        return cast(Encoder, encoder)
    if callable(encoder):
        return CallableEncoder(encoder)
    raise InputError(f"{type(encoder).__name__} is no encoder: give a spec, encode(texts), or a function on texts")


def parse_spec(spec: str) -> tuple[str, str]:
    """Kind and target; a bare path is a mitigated encoder, a checkpoint, or a file of word vectors."""
    if not isinstance(spec, str):
        raise InputError(f"an encoder is named by a text such as hf:ID, not by {type(spec).__name__}")
    kind, colon, target = spec.partition(":")
    # The registry is asked before the disk, so that a folder called "hf:x" cannot hide a backend.
    if colon and kind in ENCODERS:
        return kind, target
    if Path(spec).is_dir():
        return ("mitigated" if (Path(spec) / MITIGATED).is_file() else "hf"), spec
    if Path(spec).is_file():
        return "vectors", spec
    raise ModelError(f"'{spec}' is no encoder; give {', '.join(f'{kind}:…' for kind in ENCODERS)}, a folder or a file")


def resolved_spec(spec: str) -> str:
    """The spec with its kind and absolute paths, so that it means the same in every working directory."""
    kind, target = parse_spec(spec)
    parts = (str(Path(part).resolve()) if Path(part).exists() else part for part in parts_of(f"{kind}:{target}"))
    return f"{kind}:{','.join(parts)}"


def parts_of(spec: str) -> list[str]:
    """The paths in a spec: one, or a folder and the file of its vectors.

    A folder may have commas in its name: one that exists is taken whole, else the last comma divides.

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
    # A checkpoint whose parts do not fit each other fails in any way its library likes.
    with foreign_code(f"{name_of(encoder)} cannot encode the texts: "):
        rows = encoder.encode(texts)
    return check_rows(rows, texts, name_of(encoder))


def check_reusable(encoder: Encoder, what: str) -> None:
    """Refuse to use again what an encoder gave earlier, where nothing tells it from a changed one."""
    for layer in layers(encoder):
        if not getattr(layer, "reusable", True):
            raise InputError(
                f"cannot detect changes to {name_of(layer)}, so {what}; add an attribute 'fingerprint' that changes "
                "when its embeddings may"
            )


def layers(encoder: Any) -> Iterator[Any]:
    """An encoder, and what stands before its eraser or behind its cache, from the outside in."""
    while encoder is not None:
        yield encoder
        encoder = getattr(encoder, "encoder", None)


def name_of(encoder: Encoder) -> str:
    """What to call an encoder in a message: its ``spec``, if it has one."""
    spec = getattr(encoder, "spec", None)
    return spec if spec and isinstance(spec, str) else "the encoder"


def check_rows(output: Any, texts: Sequence[str], name: str) -> Embeddings:
    """What an encoder returned, an array, a tensor or lists of either, as float32 [n, d]; all else is refused."""
    # A function of the user may return anything, and a wrong shape would pass silently into every figure.
    problem = ""
    try:
        rows = np.asarray(detached(output))
    except (ValueError, TypeError, RuntimeError) as error:
        what = "rows of unequal length" if "inhomogeneous" in str(error) else f"what is no array ({error})"
        raise ModelError(f"{name} gave {what}; {_EXPECTED}") from error
    if rows.dtype.kind not in "biuf" and rows.dtype.name != "bfloat16":
        problem = _NO_NUMBERS.get(rows.dtype.kind, rows.dtype.name) if rows.ndim else type(output).__name__
    elif np.ma.is_masked(output):
        problem = "masked numbers"
    elif rows.ndim != 2 or len(rows) != len(texts):
        problem = f"an array of shape {rows.shape} for {len(texts)} texts"
    elif len(texts) and not rows.shape[1]:
        problem = f"no numbers (shape {rows.shape})"
    else:
        with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused as such
            rows = rows.astype(np.float32, copy=False)
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        if wrong.size:
            problem = f"a vector that is not finite for '{texts[int(wrong[0])][:60]}'"
    if problem:
        raise ModelError(f"{name} gave {problem}; {_EXPECTED}")
    return rows


def table(values: ArrayLike, what: str) -> NDArray[np.float64]:
    """A copy of embeddings as float64 [n, d]; what is empty, of another shape or not finite is refused."""
    with translated(f"{what} are not a table of numbers (", ")", kinds=(TypeError, ValueError)):
        rows = np.array(values, dtype=np.float64)
    if rows.ndim != 2 or not rows.shape[1]:
        raise InputError(f"{what} should be a table [n, d], found shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise InputError(f"{what} hold numbers that are not finite")
    return rows


def write_npz(path: str | Path, what: str, **arrays: Any) -> Path:
    """Write arrays as ``.npz``, an ending that numpy would else add by itself."""
    path = Path(path)
    if path.suffix != ".npz":
        raise InputError(f"{what} stored as .npz, not as {path.name}")
    write_atomic(path, lambda file: np.savez(file, **arrays))
    return path


def paired(female: ArrayLike, male: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Embeddings of texts in a female and a male version, two or more, in the same order."""
    f, m = table(female, "the embeddings"), table(male, "the embeddings")
    if f.shape != m.shape or len(f) < 2:
        raise InputError(f"expected two tables of the same shape with 2 or more rows, not {f.shape} and {m.shape}")
    return f, m


def detached(output: Any) -> Any:
    """Tensors of torch as arrays: without gradient, off the GPU, in a type that numpy has."""
    if isinstance(output, list | tuple):
        return [detached(row) if hasattr(row, "detach") else row for row in output]
    if not hasattr(output, "detach"):
        return output
    plain = output.detach().cpu()
    return (plain.float() if plain.is_floating_point() else plain).numpy()


class CallableEncoder:
    """Any function on a list of texts; ``content`` is a hash of the files that its outputs depend on.

    ``reusable`` says that spec and content tell it from every other, so that what it gave earlier may be used again. By
    default it is what the function, or the object it belongs to, says by an attribute ``fingerprint`` or ``identity``.
    """

    def __init__(
        self, function: Callable[[list[str]], Any], spec: str = "", content: str = "", reusable: bool = False
    ) -> None:
        self._function, self._fingerprint = function, fingerprint_of(function)
        self.spec = spec or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__name__)}"
        self._content, self.reusable = content, reusable or bool(self._fingerprint)

    @cached_property
    def identity(self) -> str:
        """Hash of spec, content and what the function says of itself."""
        content = f"{self.spec}|{self._content}" + (f"|{self._fingerprint}" if self._fingerprint else "")
        return f"callable:{hash_text(content)[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; whatever the function does wrong is a ModelError."""
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        with foreign_code(f"{self.spec} raised "):
            output = self._function(list(texts))
        return check_rows(output, texts, self.spec)


def load_callable(target: str, request: EncoderRequest) -> CallableEncoder:
    """The encoder of ``module:attribute``; modules are also looked for in the working directory."""
    request.keep_pooling(f"py:{target}")
    name, _, attribute = target.partition(":")
    # A command that is installed as a script does not have the working directory on its path.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    with foreign_code(f"py:{target} cannot be imported (expected py:module:function): "):
        named = getattr(importlib.import_module(name), attribute)
    # An object that is callable too, such as a model of sentence-transformers, takes texts by encode.
    encode = None if isinstance(named, str) else getattr(named, "encode", None)
    if encode is not None and isinstance(named, type):
        raise ModelError(f"py:{target} is a class; make an object of it in {name} and name that")
    function = encode if callable(encode) else named
    if not callable(function):
        raise ModelError(f"py:{target} is neither a function nor an object with encode(texts)")
    code = getattr(sys.modules[name], "__file__", None)
    # Code that the file imports is not in it.
    return CallableEncoder(function, f"py:{target}", hash_files([Path(code)]) if code else "")


class EmbeddingCache:
    """An encoder that remembers what it has encoded, in memory and, with a ``folder``, between runs.

    On disk an encoder has a folder of its own, named by its identity, with two files for every batch of new texts: the
    hashes of the texts and their embeddings. A batch counts once its hashes are there, which are written last. The
    encoder gets ``batch`` texts at a time, or all that are new.
    """

    def __init__(
        self, encoder: Encoder, folder: str | Path | None = None, identity: str | None = None, batch: int | None = None
    ) -> None:
        if getattr(encoder, "v1_padding", False):
            raise InputError(
                "with v1_padding an embedding depends on its batch and cannot be kept; use v1_padding=False, which "
                "gives what sentences encoded one at a time have"
            )
        self.encoder, self._batch = encoder, batch
        known = identity or getattr(encoder, "identity", None)
        self.encoded = 0  # texts the encoder itself was asked for
        self._rows: dict[bytes, Embeddings] = {}  # of those on disk views of the files, which are mapped
        self._folder: Path | None = None
        if folder is not None:
            if known is None:
                raise InputError(
                    f"{type(encoder).__name__} has no identity, so its embeddings in {folder} could be confused with "
                    "those of others; pass EmbeddingCache(encoder, folder, identity=…)"
                )
            if identity is None:
                check_reusable(encoder, f"its embeddings cannot be kept in {folder}")
            self._folder = Path(folder) / hash_text(str(known))[:32]
            for path in sorted(self._folder.glob("*" + _KEYS)):
                values = path.with_name(path.name.removesuffix(_KEYS) + ".npy")
                with translated("", f"; the cache file is corrupt; delete {path.parent}", kinds=(InputError,)):
                    keys, block = read_array(path), read_array(values, mapped=True)
                whole = keys.ndim == 2 and block.ndim == 2 and len(keys) == len(block) + 1
                if not whole or _seal(keys[:-1].tobytes(), block) != keys[-1].tobytes():
                    raise InputError(f"{values}: the cache file is corrupt; delete {path.parent}")
                self._rows.update(zip(map(bytes, keys[:-1]), np.asarray(block), strict=True))
        self.identity = str(known) if known is not None else type(encoder).__name__
        self.note = str(getattr(encoder, "note", ""))

    def __len__(self) -> int:
        return len(self._rows)

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; only texts never seen before reach the encoder, each once."""
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._rows}
        if new:
            block = self._encode_new(list(new.values()))
            width = len(next(iter(self._rows.values()), block[0]))
            if width != block.shape[1]:
                raise InputError(
                    f"the encoder gives {block.shape[1]} numbers, the cache holds {width}; give another cache folder"
                )
            self.encoded += len(new)
            self._rows.update(zip(new, block, strict=True))
            if self._folder is not None:
                # The keys come last: a batch without them is not seen by a reader.
                joined = b"".join(new)
                table = np.frombuffer(joined + _seal(joined, block), dtype=np.uint8).reshape(-1, 32)
                name = hashlib.sha256(joined).hexdigest()[:32]
                write_atomic(self._folder / f"{name}.npy", lambda file: np.save(file, block))
                write_atomic(self._folder / f"{name}{_KEYS}", lambda file: np.save(file, table))
        if not keys:
            return np.empty((0, 0), dtype=np.float32)
        return np.stack([self._rows[key] for key in keys])

    def _encode_new(self, texts: list[str]) -> Embeddings:
        if self._batch is None:
            return encode_checked(self.encoder, texts)
        # Texts of similar length need little padding.
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        parts = [order[start : start + self._batch] for start in range(0, len(order), self._batch)]
        batches = [encode_checked(self.encoder, [texts[row] for row in part]) for part in parts]
        if len(widths := sorted({batch.shape[1] for batch in batches})) > 1:
            name = name_of(self.encoder)
            raise ModelError(f"{name} gave rows of {widths[0]} and of {widths[-1]} numbers; give all one length")
        return np.concatenate(batches)[np.argsort(order)]


def _seal(keys: bytes, embeddings: Embeddings) -> bytes:
    """A hash that finds a batch of which keys or numbers have changed."""
    return hashlib.sha256(hashlib.sha256(np.ascontiguousarray(embeddings).data).digest() + keys).digest()
