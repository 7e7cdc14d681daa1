"""Any Python callable on lists of premises and hypotheses."""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models.base import ModelInfo, ModelRequest, Prepared
from evenli.core.errors import InputError, ModelError, foreign_code, translated
from evenli.core.extras import import_object
from evenli.core.labels import LABELS, canonical_label, label_columns

OUTPUTS = ("logits", "probabilities")
_CERTAIN = 20.0  # logit of a label that is given by its name alone
_SUM_TOLERANCE = 5e-3
"""How far from one a row of probabilities may add up: half precision and printed decimals are no logits."""
_NO_ACCIDENT = 8  # rows from which on a batch of logits that all look like probabilities is no accident
_NO_IDENTITY = (
    "nothing tells {} from another model of its kind, so its predictions are never reused or continued; give it an "
    "attribute 'fingerprint', or CallableModel(..., fingerprint='...'), that changes when its answers may"
)


class CallableModel:
    """Wrap ``function(premises, hypotheses)``.

    The function may return one row per pair as

    * three numbers, logits or probabilities, in the order of ``labels`` (probabilities become log-probabilities);
    * a dictionary ``{label name: number}``;
    * a label name.

    Args:
        function: The callable.
        labels: Order of the three numbers; default the callable's ``labels`` attribute, else LABELS.
        name: Display name; default the name of the callable.
        fingerprint: Change it when the answers may change; default the callable's ``fingerprint`` or ``identity``
            attribute. Without one it is new each time, so that no stored predictions are taken for its own; ``note``
            says so.
        batch_size: Pairs per call.
        outputs: ``logits`` or ``probabilities``; default the callable's ``outputs`` attribute, else the first batch
            decides for all (probabilities are non-negative and add up to one), and a batch that contradicts is refused.
    """

    def __init__(
        self,
        function: Callable[[list[str], list[str]], Any],
        *,
        labels: Sequence[str] | None = None,
        name: str | None = None,
        fingerprint: str | None = None,
        batch_size: int = 64,
        outputs: str | None = None,
        spec: str = "",
    ) -> None:
        self._function = function
        order: tuple[str, ...] = tuple(labels or getattr(function, "labels", None) or LABELS)
        self._columns = list(label_columns(order, origin="the callable"))
        shown = str(name or getattr(function, "__qualname__", type(function).__name__))
        declared = outputs or getattr(function, "outputs", None)
        if declared is not None and declared not in OUTPUTS:
            raise ModelError(f"outputs of {shown} are {' or '.join(OUTPUTS)}, not {declared!r}")
        self._outputs, self._declared = declared, declared is not None
        identity = fingerprint or fingerprint_of(function)
        self.note = "" if identity else _NO_IDENTITY.format(shown)
        identity = identity or f"once-{uuid.uuid4().hex}"
        self.info = ModelInfo(
            spec=spec or f"py:{shown}",
            backend="py",
            name=shown,
            # The same answers read another way are other predictions.
            fingerprint=f"{identity}:{declared}" if declared else identity,
            labels=order,
            device="cpu",
            dtype="unknown",
        )
        # Every pair counts as one full bucket, so that a batch holds batch_size of them.
        self.bucket = 1_000_000
        self.token_budget = batch_size * self.bucket

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Keep the texts; every pair costs the same."""
        items = list(zip(premises, hypotheses, strict=True))
        return Prepared(items, np.ones(len(items), dtype=np.int32))

    def logits(self, items: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """Call the function and read whatever form its answer has."""
        premises, hypotheses = (list(column) for column in zip(*items, strict=True))
        with foreign_code(f"{self.info.spec} raised "):
            answer = self._function(premises, hypotheses)
        values, named = _read(answer, len(items), self._columns, self.info.name)
        if not named and self._are_probabilities(values):
            with np.errstate(invalid="ignore"):
                values = np.log(np.maximum(values / values.sum(axis=1, keepdims=True), 1e-30))
        return values.astype(np.float32)

    def _are_probabilities(self, values: NDArray[np.float64]) -> bool:
        """Whether rows are probabilities: as declared, else as the first batch was; a contradiction is refused."""
        # Rows that are not finite say nothing here; the prediction loop refuses them with their pair.
        values = values[np.isfinite(values).all(axis=1)]
        if not values.size:
            return self._outputs == "probabilities"
        like = (values >= -1e-6).all(axis=1) & (np.abs(values.sum(axis=1) - 1) <= _SUM_TOLERANCE)
        mostly = bool(like.mean() > 0.5)
        outputs = self._outputs or ("probabilities" if mostly else "logits")
        if outputs == "probabilities":
            odd, problem = ~like, "no probabilities (0 or more, adding up to 1)"
        else:
            # A few rows of logits add up to one by chance.
            doubtful = mostly and len(like) >= _NO_ACCIDENT and not self._declared
            odd, problem = like & doubtful, "probabilities, no logits"
        if odd.any():
            row = [round(float(value), 6) for value in values[int(np.argmax(odd))]]
            expected = "as declared" if self._declared else "as its other answers are"
            raise ModelError(
                f"{self.info.name} returned {row}: {problem}, {expected}; say what it returns with outputs='logits' or "
                "outputs='probabilities'"
            )
        self._outputs = outputs
        return outputs == "probabilities"


def load(target: str, request: ModelRequest) -> CallableModel:
    """The backend ``py:module:function``."""
    with contextlib.redirect_stdout(sys.stderr), translated("", into=ModelError, kinds=(InputError,)):
        function = import_object(target, "py:module:function")
    if not callable(function):
        raise ModelError(f"{target} is not callable")
    return CallableModel(function, labels=request.options.labels, name=target, spec=request.spec)


def _read(answer: Any, count: int, columns: list[int], name: str) -> tuple[NDArray[np.float64], bool]:
    """The numbers in LABELS order, and whether they were label names, which leave nothing to interpret."""
    expected = f"{name} must return {count} rows of three numbers, label dictionaries or label names"
    if isinstance(answer, list | tuple) and answer and isinstance(answer[0], str | dict):
        if len(answer) != count:
            raise ModelError(f"{expected}; it returned {len(answer)} rows")
        return _read_labels(answer, expected), isinstance(answer[0], str)
    try:
        values = np.asarray(answer, dtype=np.float64)
    except Exception as error:  # an object of another library may raise anything when asked for its numbers
        raise ModelError(f"{expected}; it returned {type(answer).__name__}") from error
    if values.shape != (count, 3):
        raise ModelError(f"{expected}; it returned an array of shape {values.shape}")
    return values[:, columns], False


def _read_labels(answer: Sequence[Any], expected: str) -> NDArray[np.float64]:
    rows = []
    for given in answer:
        if not isinstance(given, str | dict) or isinstance(given, str) != isinstance(answer[0], str):
            raise ModelError(f"{expected}, one kind for all rows; it returned {given!r} beside {answer[0]!r}")
        row = {given: _CERTAIN} if isinstance(given, str) else given
        known = {canonical_label(str(key)): value for key, value in row.items()}
        if not set(known) <= set(LABELS) or len(known) != len(row) or len(known) not in (1, 3):
            raise ModelError(f"{expected}; it returned {given!r}, and the labels are {', '.join(LABELS)}")
        rows.append(known)
    try:
        return np.array([[float(row.get(label, 0.0)) for label in LABELS] for row in rows], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{expected}; it returned {answer[0]!r}") from error


def fingerprint_of(function: Any) -> str:
    """What the callable says of itself, else nothing: its code does not tell which weights it reads."""
    holders, names = (function, getattr(function, "__self__", None)), ("fingerprint", "identity")
    given = (getattr(holder, name, None) for holder in holders for name in names)
    return next((text for text in given if isinstance(text, str) and text), "")
