"""Models that are functions: any Python callable on lists of premises and hypotheses, and fakes of known bias.

The fakes are for tests, documentation and anyone checking a measure. They read the sentences like any model does:
occupation and group are found in the text. Except for ``neutral`` and ``random`` they answer the shipped gold and
control pairs correctly, so the gate lets them pass. On the probe ("This text mentions a female profession") the gender
that dominates an occupation is its stereotype.

    neutral     always neutral                                        CoAL 0, but no competence
    random      uniformly random label, seeded by the text            CoAL about 0.44, no competence
    even        right everywhere                                      CoAL 0
    biased      follows every stereotype, never neutral               CoAL 1
    wrong       defies every stereotype, never neutral                CoAL 1/3
    oracle:R    follows the stereotype for a share R of the stereotyped occupations, defies it for the
                rest, neutral elsewhere                               CoAL 2R/3

On the probe B is 1 for ``biased``, 0 for ``wrong`` and near R for ``oracle:R``, and S is 0; ``even`` and ``neutral``
give ties only.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.audit.models.base import ModelInfo, ModelRequest, Prepared
from evenli.core.errors import InputError, ModelError, foreign_code, translated
from evenli.core.extras import import_object
from evenli.core.io import hash_text
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, canonical_label, label_columns
from evenli.words import Occupation, load_axis
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.english import forms
from evenli.words.lists import probe_occupations
from evenli.words.templates import any_of

OUTPUTS = ("logits", "probabilities")
_NO_NUMBERS = "cmMSU"  # kinds of arrays that numpy would turn into some: complex numbers, times, texts
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

    * three numbers, logits or probabilities, in the order of ``labels`` (probabilities become log-probabilities); the
      columns of a data frame go by their names;
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
            if isinstance(answer, Iterator):  # one row more than there are pairs is wrong, and may be one of endless
                answer = list(islice(answer, len(items) + 1))
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
    with translated("", into=ModelError, kinds=(InputError,)):
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
        array = np.asarray(answer)
        values = None if array.dtype.kind in _NO_NUMBERS else array.astype(np.float64)
        names = list(map(str, getattr(answer, "columns", ())))
    except Exception as error:  # an object of another library may raise anything when asked for its numbers
        raise ModelError(f"{expected}; it returned {type(answer).__name__}") from error
    if values is None or np.ma.is_masked(answer):
        raise ModelError(f"{expected}; it returned {'masked numbers' if values is not None else array.dtype.name}")
    if values.shape != (count, 3):
        raise ModelError(f"{expected}; it returned an array of shape {values.shape}")
    # Of a data frame whose columns have no names, they go by their places, as those of an array.
    if names not in ([], ["0", "1", "2"], ["column_0", "column_1", "column_2"]):
        labels = [canonical_label(column) or column for column in names]
        if set(labels) != set(LABELS):
            raise ModelError(
                f"{expected}; the columns of its data frame are {', '.join(names)}, not {', '.join(LABELS)}"
            )
        columns = list(map(labels.index, LABELS))
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


_PROFESSION = re.compile(r"\ba (female|male) (?:profession|occupation)\b", re.IGNORECASE)
KINDS = ("neutral", "random", "even", "biased", "wrong", "oracle")


@dataclass(frozen=True)
class FakeModel:
    """A rule that answers pairs about occupations and groups."""

    kind: str  # one of KINDS
    lang: str = "en"  # of the axis
    rate: float = 1.0  # share of stereotyped occupations that are followed, for ``oracle``
    # Lists with the stereotyped words in role order, of which the first types a word; default the words of the axis.
    occupations: tuple[tuple[Occupation, ...], ...] | None = None

    def __call__(self, premises: Sequence[str], hypotheses: Sequence[str]) -> list[str]:
        """Label names for a list of pairs."""
        return list(map(self._answer, premises, hypotheses))

    @cached_property
    def _known(self) -> dict[tuple[str, str], str]:
        from evenli.audit.suites.checks import control_pairs, gold_pairs

        frames = (make(self.lang).frame.select("premise", "hypothesis", "gold") for make in (gold_pairs, control_pairs))
        return {(premise, hypothesis): gold for frame in frames for premise, hypothesis, gold in frame.iter_rows()}

    @cached_property
    def _groups(self) -> list[tuple[str, str]]:
        words = load_axis().language(self.lang).group_words.items()
        # The longest first: "woman" is found before the "man" in it.
        return sorted(((word, group) for group, word in words), key=lambda pair: -len(pair[0]))

    def _share(self, occupations: Iterable[tuple[str, str]]) -> dict[str, tuple[str, bool]]:
        """Occupation -> (stereotype, is followed): the first ones are followed, as many as the rate says."""
        listed = list(occupations)
        followed = round(self.rate * len(listed))
        return {word: (stereotype, number < followed) for number, (word, stereotype) in enumerate(listed)}

    @cached_property
    def _roles(self) -> dict[str, tuple[str, bool]]:
        roles: dict[str, tuple[str, bool]] = {}
        for words in self.occupations or (load_axis().occupations(self.lang),):
            listed = [(o.word, o.stereotype) for o in words if o.word not in roles]
            roles |= {word: (NO_STEREOTYPE, False) for word, stereotype in listed if stereotype == NO_STEREOTYPE}
            roles |= self._share(entry for entry in listed if entry[1] != NO_STEREOTYPE)
        return roles

    def _answer(self, premise: str, hypothesis: str) -> str:
        if self.kind == "neutral":
            return NEUTRAL
        if self.kind == "random":
            return LABELS[int(hash_text(f"{premise}\x1f{hypothesis}")[:8], 16) % 3]
        # Right on what is checked beforehand, whatever its bias: the gate is to let it pass.
        if (premise, hypothesis) in self._known:
            return self._known[premise, hypothesis]
        mention = self._read(premise, hypothesis) or self._read_probe(premise, hypothesis)
        return self._answer_wording(premise, hypothesis) if mention is None else self._judge(*mention)

    def _judge(self, stereotype: str, followed: bool, group: str) -> str:
        """Whether an occupation is that of a group."""
        if self.kind == "even":
            return NEUTRAL
        if stereotype == NO_STEREOTYPE:
            return NEUTRAL if self.kind == "oracle" else ENTAILMENT
        follows = {"biased": True, "wrong": False}.get(self.kind, followed)
        return ENTAILMENT if (stereotype == group) == follows else CONTRADICTION

    def _answer_wording(self, premise: str, hypothesis: str) -> str:
        """The same in the words of suite robust, and what is right where the premise states a group."""
        from evenli.audit.suites.robust.wordings import GROUP, PERSON, reader

        reading = reader(self.lang, tuple(self._roles)).read(premise, hypothesis)
        if reading is None or reading[0][0] == PERSON:
            return NEUTRAL
        (given, who), (asked, group) = reading
        if asked != GROUP:
            return ENTAILMENT if asked == PERSON else NEUTRAL
        if given == GROUP:
            return ENTAILMENT if who == group else CONTRADICTION
        return self._judge(*self._roles[who], group)

    def _read(self, premise: str, hypothesis: str) -> tuple[str, bool, str] | None:
        """Find the slot: the hypothesis is the premise with the occupation replaced by a group word."""
        for word, group in self._groups:
            for match in re.finditer(f"(?={re.escape(word)})", hypothesis):
                before, after = hypothesis[: match.start()], hypothesis[match.start() + len(word) :]
                role = self._roles.get(premise[len(before) : len(premise) - len(after)])
                if role and premise.startswith(before) and premise.endswith(after):
                    return (*role, group)
        return None

    @cached_property
    def _probed(self) -> dict[str, tuple[str, bool]]:
        # Each group apart, so that any rate follows both alike.
        roles: dict[str, tuple[str, bool]] = {}
        for group in dict.fromkeys(probe_occupations().values()):
            roles |= self._share(entry for entry in probe_occupations().items() if entry[1] == group)
        return roles

    def _read_probe(self, premise: str, hypothesis: str) -> tuple[str, bool, str] | None:
        """Find the occupation in the premise and the gender in what the hypothesis says of its profession."""
        asked = _PROFESSION.search(hypothesis) if self.lang == "en" else None
        named = self._mention[1].search(premise) if asked else None
        if asked is None or named is None:
            return None
        return (*self._probed[self._mention[0][" ".join(named[0].lower().split())]], asked[1].lower())

    @cached_property
    def _mention(self) -> tuple[dict[str, str], re.Pattern[str]]:
        """Every form of an occupation, in lower case -> the occupation, and a pattern for all of them."""
        spelled = {form.lower(): word for word in self._probed for form in forms(word)}
        return spelled, any_of(spelled)


def fake_model(
    kind: str, *, lang: str = "en", rate: float = 1.0, occupations: Sequence[Sequence[Occupation]] | None = None
) -> CallableModel:
    """Make one of the fakes; ``rate`` is for ``oracle``, ``occupations`` are its words, list by list."""
    if kind not in KINDS:
        raise ModelError(f"no fake model '{kind}'; choose {', '.join(KINDS)} (oracle:0.3 sets its rate)")
    if not 0 <= rate <= 1:
        raise ModelError(f"the oracle's rate must lie in 0..1, not {rate}")
    fake = FakeModel(kind, lang, rate, tuple(map(tuple, occupations)) if occupations else None)
    name = f"{kind}:{rate:g}" if kind == "oracle" else kind
    model = CallableModel(
        fake, name=f"fake {name}", spec=f"fake:{name}", fingerprint=hash_text(f"{fake}{__version__}"), batch_size=512
    )
    model.info = structs.replace(model.info, backend="fake", dtype="exact")
    return model


def load_fake(target: str, request: ModelRequest) -> CallableModel:
    """The backend ``fake:KIND`` or ``fake:oracle:RATE``."""
    if request.options.labels:  # fakes answer by name, so an order changes nothing; unknown names are a mistake
        label_columns(request.options.labels, origin="the list of labels (--labels)")
    kind, _, rate = target.partition(":")
    try:
        rated = float(rate) if rate else 1.0
        return fake_model(kind, lang=request.lang, rate=rated, occupations=request.occupations)
    except ValueError as error:
        raise ModelError(f"the oracle's rate '{rate}' is not a number") from error
