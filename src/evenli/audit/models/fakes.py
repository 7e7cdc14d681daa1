"""Models whose bias is known exactly, for tests, documentation and anyone checking a measure.

They read the sentences like any model does: occupation and group are found in the text. Except for
``neutral`` and ``random`` they answer the shipped gold and control pairs correctly, so the gate lets them pass.
On the probe ("This text mentions a female profession") the gender that dominates an occupation is its stereotype.

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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec import structs

from evenli._version import __version__
from evenli.audit.models.base import ModelRequest
from evenli.audit.models.callables import CallableModel
from evenli.core.errors import ModelError
from evenli.core.io import hash_text
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL, label_columns
from evenli.words import Occupation, load_axis
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.english import forms
from evenli.words.templates import any_of

_PROFESSION = re.compile(r"\ba (female|male) (?:profession|occupation)\b", re.IGNORECASE)
KINDS = ("neutral", "random", "even", "biased", "wrong", "oracle")


@dataclass(frozen=True)
class FakeModel:
    """A rule that answers pairs about occupations and groups."""

    kind: str  # one of KINDS
    lang: str = "en"  # of the axis
    rate: float = 1.0  # share of stereotyped occupations that are followed, for ``oracle``
    occupations: tuple[Occupation, ...] | None = None  # stereotyped ones in role order; default those of the axis

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
        listed = [(o.word, o.stereotype) for o in self.occupations or load_axis().occupations(self.lang)]
        neutral = {word: (NO_STEREOTYPE, False) for word, stereotype in listed if stereotype == NO_STEREOTYPE}
        return neutral | self._share(entry for entry in listed if entry[1] != NO_STEREOTYPE)

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
        from evenli.audit.suites.probe.words import probe_occupations

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
    kind: str, *, lang: str = "en", rate: float = 1.0, occupations: Sequence[Occupation] | None = None
) -> CallableModel:
    """Make one of the fakes; ``rate`` and ``occupations`` are for ``oracle``."""
    if kind not in KINDS:
        raise ModelError(f"no fake model '{kind}'; choose {', '.join(KINDS)} (oracle:0.3 sets its rate)")
    if not 0 <= rate <= 1:
        raise ModelError(f"the oracle's rate must lie in 0..1, not {rate}")
    fake = FakeModel(kind, lang, rate, tuple(occupations) if occupations else None)
    name = f"{kind}:{rate:g}" if kind == "oracle" else kind
    model = CallableModel(
        fake, name=f"fake {name}", spec=f"fake:{name}", fingerprint=hash_text(f"{fake}{__version__}"), batch_size=512
    )
    model.info = structs.replace(model.info, backend="fake", dtype="exact")
    return model


def load(target: str, request: ModelRequest) -> CallableModel:
    """The backend ``fake:KIND`` or ``fake:oracle:RATE``."""
    if request.options.labels:  # fakes answer by name, so an order changes nothing; unknown names are a mistake
        label_columns(request.options.labels, origin="the list of labels (--labels)")
    kind, _, rate = target.partition(":")
    try:
        rated = float(rate) if rate else 1.0
        return fake_model(kind, lang=request.lang, rate=rated, occupations=request.occupations)
    except ValueError as error:
        raise ModelError(f"the oracle's rate '{rate}' is not a number") from error
