"""The model protocol: prepare texts once, then score items in any grouping; tokenised pairs; the reader of specs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models.growth import growth, portions
from evenli.audit.results import ModelInfo as ModelInfo
from evenli.audit.settings import ModelOptions as ModelOptions
from evenli.audit.settings import Prompting as Prompting
from evenli.core.errors import InputError, ModelError
from evenli.core.errors import OutOfMemory as OutOfMemory
from evenli.core.registry import MODELS
from evenli.words import Occupation

IntArray = NDArray[np.int64]
ONNX_FILE = "model.onnx"  # name of the model in a directory that is given as a whole


@dataclass(frozen=True)
class ModelRequest:
    """What a backend is told beside the target: ``load(target, request) -> NLIModel``; ``ModelInfo`` keeps ``spec``."""

    spec: str
    lang: str = "en"
    options: ModelOptions = field(default_factory=ModelOptions)
    occupations: Sequence[Sequence[Occupation]] | None = None


@dataclass(frozen=True)
class Tokens:
    """Token ids and segment ids of many pairs end to end; rows are taken by slice or index array.

    Padded only as a batch: one long pair would make a matrix of a million rows as wide as itself. The last entry is
    that of padding.
    """

    ids: NDArray[np.int32]
    types: NDArray[np.uint8]
    starts: NDArray[np.int64]
    lengths: NDArray[np.int32]

    @classmethod
    def from_lists(cls, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]], pad_id: int) -> Tokens:
        """Join ragged lists."""
        lengths = np.fromiter(map(len, ids), dtype=np.int32, count=len(ids))
        size = int(lengths.sum()) + 1
        flat = np.fromiter(chain(chain.from_iterable(ids), [pad_id]), np.int32, size)
        kinds = np.fromiter(chain(chain.from_iterable(types), [0]), np.uint8, size)
        return cls(flat, kinds, np.cumsum(lengths, dtype=np.int64) - lengths, lengths)

    @classmethod
    def join(cls, blocks: Sequence[Tokens]) -> Tokens:
        """One after the other."""
        lengths = np.concatenate([block.lengths for block in blocks])
        # The padding of the last stands for that of all.
        ids = np.concatenate([*(block.ids[:-1] for block in blocks), blocks[-1].ids[-1:]])
        types = np.concatenate([*(block.types[:-1] for block in blocks), blocks[-1].types[-1:]])
        return cls(ids, types, np.cumsum(lengths, dtype=np.int64) - lengths, lengths)

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.lengths)

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Tokens:
        """The chosen rows."""
        return Tokens(self.ids, self.types, self.starts[rows], self.lengths[rows])

    def batch(self) -> tuple[IntArray, IntArray, IntArray | None]:
        """Ids, segment ids and mask, padded to the longest row; the mask is None if nothing is padded."""
        places = np.arange(int(self.lengths.max()))
        inside = places < self.lengths[:, None]
        where = np.where(inside, self.starts[:, None] + places, len(self.ids) - 1)
        mask = None if inside.all() else inside.astype(np.int64)
        return self.ids[where].astype(np.int64), self.types[where].astype(np.int64), mask


Items = Tokens | list[Any]
"""What a backend scores: a token matrix, or whatever a backend without tokenizer keeps per pair."""


@dataclass(frozen=True)
class Prepared:
    """Inputs ready to score: item ``i`` costs ``lengths[i]`` tokens."""

    items: Items
    lengths: NDArray[np.int32]
    truncated: int = 0

    def take(self, rows: NDArray[np.int64]) -> Items:
        """The chosen items, in order."""
        return self.items[rows] if isinstance(self.items, Tokens) else [self.items[i] for i in rows]


class NLIModel(Protocol):
    """What the prediction loop needs of a model.

    ``bucket``: lengths are grouped up to multiples of this; 1 means that no batch contains padding.
    ``token_budget``: largest number of tokens, padding included, in one batch.
    ``note``, where there is one: a line that people who store predictions should read.

    Language models have more: ``details`` names further columns, which ``logits`` gives after the three; ``prompting``
    goes into run.json; ``stream(items)`` scores many items and gives them as they are done; ``plan(items)`` gives the
    positions of those that belong into one batch; ``begin(prepared, scores, warn)`` is called before the first;
    ``usage()`` is asked at the end, ``status`` during the run.
    """

    info: ModelInfo
    bucket: int
    token_budget: int

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Tokenise all pairs at once."""

    def logits(self, items: Any) -> NDArray[np.float32]:
        """Score one batch: float32 [n, 3] in LABELS order. Raises OutOfMemory if it does not fit."""


def load_model(
    spec: str | None = None,
    *,
    lang: str = "en",
    options: ModelOptions | None = None,
    occupations: Sequence[Sequence[Occupation]] | None = None,
) -> NLIModel:
    """Load a model from its spec.

    Args:
        spec: ``hf:id[@revision]`` or a checkpoint directory, ``onnx:file.onnx`` or a directory with one,
            ``py:module:function``, ``chat:URL#model``, ``causal:directory`` or ``causal:file.gguf``, ``fake:kind``,
            ``evenli:name``, or ``NAME:target`` of an installed backend; a bare path or hub id is recognised. None is
            the embedded model of ``lang``.
        lang: Language of the audit; chooses the embedded model and the words of the fakes.
        options: Loading options.
        occupations: Words of the fakes, list by list; default the published ones.
    """
    spec = spec or f"evenli:{lang}"
    backend, target = split_spec(spec)
    model: NLIModel = MODELS.get(backend)(target, ModelRequest(spec, lang, options or ModelOptions(), occupations))
    missing = [name for name in ("info", "prepare", "logits", "bucket", "token_budget") if not hasattr(model, name)]
    if missing:
        raise ModelError(
            f"the backend '{backend}' gave a {type(model).__name__} without {', '.join(missing)}, no model"
        )
    return model


def split_spec(spec: str) -> tuple[str, str]:
    """Backend and target of a spec."""
    if not isinstance(spec, str):
        raise InputError(f"a model is named by a text such as hf:ID, not by {type(spec).__name__}")
    backend, colon, target = spec.partition(":")
    if colon and backend in MODELS:
        if not target:
            raise ModelError(f"'{spec}' names no model")
        return backend, target
    path = Path(spec)
    if path.suffix == ".onnx" or (path / ONNX_FILE).is_file():
        return "onnx", spec
    if path.is_dir():
        return "hf", spec
    if spec.startswith((".", "/", "~")) or spec.count("/") > 1 or path.is_file():
        raise ModelError(f"no checkpoint directory or .onnx file at {spec}")
    if colon:  # no hub id has one
        raise ModelError(f"no model backend '{backend}'; there are {', '.join(MODELS)}")
    return "hf", spec


def tokenise(tokenizer: Any, premises: Sequence[str], hypotheses: Sequence[str], limit: int) -> tuple[Tokens, int]:
    """Tokenise pairs; the longer sentence is cut where both do not fit.

    The tokenizer is one of ``tokenizers`` or ``transformers``. Returns the tokens and how many pairs were too long.
    """
    side, pad_id = getattr(tokenizer, "truncation_side", "right"), getattr(tokenizer, "pad_token_id", None) or 0
    if getattr(tokenizer, "is_fast", False):
        tokenizer = tokenizer.backend_tokenizer
    if limit <= (markers := growth(tokenizer)[1]):  # the library would cut nothing
        raise ModelError(
            f"a limit of {limit} tokens (max_length) leaves no room beside the {markers} markers of a pair"
        )
    pairs = list(zip(premises, hypotheses, strict=True))
    blocks, truncated = [Tokens.from_lists([], [], pad_id)], 0
    # In blocks, because what the libraries keep of a pair takes fifty times the memory of its ids.
    for part in portions(tokenizer, [len(premise) + len(hypothesis) for premise, hypothesis in pairs]):
        block = pairs[part]
        # Without a limit first: a cut pair could not be told from one that just fits.
        ids, types = _encode(tokenizer, block)
        if long := sum(len(row) > limit for row in ids):
            ids, types = _encode(tokenizer, block, limit, side)
        truncated += long
        blocks.append(Tokens.from_lists(ids, types, pad_id))
    return Tokens.join(blocks), truncated


def _encode(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], limit: int | None = None, side: str = "right"
) -> tuple[list[list[int]], list[list[int]]]:
    """Ids and segment ids."""
    if not hasattr(tokenizer, "encode_batch_fast"):  # one of transformers that is written in Python
        cut = {"truncation": True, "max_length": limit} if limit is not None else {}
        columns = (list(column) for column in zip(*pairs, strict=True))
        batch = tokenizer(*columns, return_attention_mask=False, return_token_type_ids=True, verbose=False, **cut)
        return batch["input_ids"], batch["token_type_ids"]
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if limit is not None:
        tokenizer.enable_truncation(limit, direction=side)
    # The fast call leaves out the offsets, which nobody reads here.
    encoded = tokenizer.encode_batch_fast(pairs)
    return [encoding.ids for encoding in encoded], [encoding.type_ids for encoding in encoded]


def plan_batches(lengths: NDArray[np.int32], *, bucket: int, token_budget: int) -> Iterator[NDArray[np.int64]]:
    """Group rows of like length; a batch never holds more than ``token_budget`` tokens, padding included.

    Rows are ordered by length, so a batch is padded at most to the next multiple of ``bucket``.

    >>> [batch.tolist() for batch in plan_batches(np.array([3, 2, 3, 2, 9]), bucket=1, token_budget=6)]
    [[1, 3], [0, 2], [4]]
    """
    if not len(lengths):
        return
    padded = -(-lengths // bucket) * bucket
    order = np.argsort(padded, kind="stable")
    ordered = padded[order]
    bounds = [0, *(np.flatnonzero(np.diff(ordered)) + 1).tolist(), len(ordered)]
    for start, stop in pairwise(bounds):
        size = max(1, token_budget // int(ordered[start]))
        # Even parts: a last batch of three rows costs nearly as much as a full one.
        yield from np.array_split(order[start:stop], -(-(stop - start) // size))
