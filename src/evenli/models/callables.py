"""Any Python callable on lists of premises and hypotheses."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evenli._hashing import hash_files, hash_text
from evenli.errors import ModelError
from evenli.labels import LABELS, canonical_label, label_columns
from evenli.models.base import ModelInfo, Prepared

if TYPE_CHECKING:
    from evenli.models.spec import ModelOptions

_CERTAIN = 20.0


class CallableModel:
    """Wrap ``function(premises, hypotheses)``.

    The function may return one row per pair as

    * three numbers, logits or probabilities, in the order of ``labels`` (rows that are non-negative and sum to one are
      read as probabilities and turned into log-probabilities);
    * a dictionary ``{label name: number}``;
    * a label name.

    Args:
        function: The callable.
        labels: Order of the three numbers; default the callable's ``labels`` attribute, else LABELS.
        name: Display name.
        fingerprint: Change it when the answers may change; default a hash of the source file.
        batch_size: Pairs per call.
    """

    def __init__(
        self,
        function: Callable[[list[str], list[str]], Any],
        *,
        labels: Sequence[str] | None = None,
        name: str | None = None,
        fingerprint: str | None = None,
        batch_size: int = 64,
        spec: str = "",
    ) -> None:
        self._function = function
        order: tuple[str, ...] = tuple(labels or getattr(function, "labels", None) or LABELS)
        self._columns = list(label_columns(order, origin="the callable"))
        shown = str(name or getattr(function, "__qualname__", type(function).__name__))
        self.info = ModelInfo(
            spec=spec or f"py:{shown}",
            backend="py",
            name=shown,
            fingerprint=fingerprint or _source_hash(function),
            labels=order,
            dtype="unknown",
        )
        self.bucket = 1_000_000
        self.token_budget = batch_size * self.bucket

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Keep the texts; every pair costs the same."""
        items = list(zip(premises, hypotheses, strict=True))
        return Prepared(items, np.ones(len(items), dtype=np.int32))

    def logits(self, items: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Call the function and read whatever form its answer has."""
        premises, hypotheses = (list(column) for column in zip(*items, strict=True))
        answer = self._function(premises, hypotheses)
        return _as_logits(answer, len(items), self._columns, self.info.name)


def load_callable(target: str, options: ModelOptions, *, spec: str) -> CallableModel:
    """Import ``module:function``; the current folder is on the path."""
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        raise ModelError(f"'{spec}' must read py:module:function, for example py:mypkg.mymodule:predict")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        function: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            function = getattr(function, part)
    except (ImportError, AttributeError) as error:
        raise ModelError(f"cannot import {target}: {error}") from error
    if not callable(function):
        raise ModelError(f"{target} is not callable")
    return CallableModel(function, labels=options.labels, name=target, spec=spec)


def _as_logits(answer: Any, count: int, columns: list[int], name: str) -> NDArray[np.float32]:
    shape = f"{name} must return {count} rows of three numbers, label dictionaries or label names"
    if isinstance(answer, list | tuple) and answer and isinstance(answer[0], str | dict):
        if len(answer) != count:
            raise ModelError(f"{shape}; it returned {len(answer)} rows")
        rows = [{row: _CERTAIN} if isinstance(row, str) else row for row in answer]
        named = [{canonical_label(str(key)): value for key, value in row.items()} for row in rows]
        for row in named:
            if not set(row) <= set(LABELS) or (len(row) == 2):
                raise ModelError(f"{shape}; it returned {row}")
        values = np.array([[row.get(label, 0.0) for label in LABELS] for row in named], dtype=np.float64)
    else:
        try:
            values = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(f"{shape}; it returned {type(answer).__name__}") from error
        if values.shape != (count, 3):
            raise ModelError(f"{shape}; it returned an array of shape {values.shape}")
        values = values[:, columns]
    if (values >= 0).all() and np.allclose(values.sum(axis=1), 1, atol=1e-4):
        values = np.log(np.maximum(values, 1e-30))
    return values.astype(np.float32)


def _source_hash(function: Any) -> str:
    module = sys.modules.get(getattr(function, "__module__", "") or type(function).__module__)
    file = getattr(module, "__file__", None)
    return hash_files([Path(file)]) if file and Path(file).is_file() else hash_text(repr(function))
