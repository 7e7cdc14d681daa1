"""Made-up models on the design of NLI-CoAL, for ``studies/intervals/coverage.py``.

``known`` scenarios were looked at while the rule for intervals was made; ``fresh`` ones were written afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

SPREADS = {
    "independent": (0.0, 0.0, 0.0),
    "weak": (0.4, 0.3, 0.3),
    "occupation": (1.5, 0.2, 0.5),
    "template": (0.2, 1.2, 0.5),
    "both": (1.0, 0.8, 0.6),
    "other": (0.7, 0.5, 0.8),
}
"""Standard deviations of the effects of occupation, template and cell; that of a row is 1."""
USUAL = ("independent", "weak", "occupation", "template", "both")
Shares = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scenario:
    """A made-up model on a part of the design.

    Attributes:
        lean: Mean inclination to say "man" for female, male and other occupations.
        caution: How strong an inclination must be before the model leaves neutral.
        second: ``lean`` of a second model, whose difference to the first is estimated; None for one model.
        shared: Correlation of the effects of the two models.
        design: ``coal`` or ``labour``, dealt; ``published``, the order of the releases; or words x templates, crossed.
        on_caution: Effects on the caution of a model, relative to those on its inclination.
        tails: Degrees of freedom of effects that are Student's t with the same spread; 0 for normal ones.
        paired: Correlation of what is left in the answers of the two genders to one sentence: both are inferred.
        fixed: Shares of female, male and other words always read as a woman's and as a man's, whatever the sentence.
        sentences: The same shares of sentences, whatever the word.
        slices: Stereotypes, None for all.
        names: Measures; default: all.
    """

    name: str
    spread: str = "both"
    lean: tuple[float, float, float] = (-1.0, 1.0, 0.3)
    caution: float = 1.5
    second: tuple[float, float, float] | None = None
    shared: float = 0.5
    design: str = "coal"
    on_caution: float = 0.7
    tails: int = 0
    paired: float = 0.0
    fixed: Shares | None = None
    sentences: tuple[float, float] | None = None
    slices: Sequence[str | None] = (None,)
    names: Sequence[str] = ()
    by_occupation: bool = False

    @property
    def kind(self) -> str:
        """What the scenario asks."""
        if self.second is not None:
            return "differences"
        if " x " in self.design:
            return "words x sentences"
        if self.fixed is not None or self.sentences is not None:
            return "fixed by word or sentence"
        if self.by_occupation:
            return "single words"
        if self.slices != (None,):
            return "13 female words"
        return {"published": "published order", "labour": "labour list"}.get(self.design, "published list")


NO_LEAN = (0.0, 0.0, 0.0)
LEAN = (-1.0, 1.0, 0.3)
_FEMALE: Sequence[str | None] = ("female",)
_RARE = ((0.04, 0.01), (0.01, 0.04), (0.01, 0.03))
_SILENT = 8.0
"""A caution that nothing but ``fixed`` and ``sentences`` overcomes."""


def known() -> Iterator[Scenario]:
    """Those that were looked at while the rule was made."""
    for spread in USUAL:
        yield Scenario(f"{spread} effects", spread)
        yield Scenario(f"female words, {spread} effects", spread, slices=_FEMALE)
    yield Scenario("small effects", "both", (-0.1, 0.1, 0.0), 1.5)
    for spread in ("weak", "both"):
        near, female, lean = {"weak": (2.7, 2.3, 2.5), "both": (3.7, 3.2, 3.5)}[spread]
        yield Scenario(f"near 0, {spread} effects", spread, NO_LEAN, near)
        yield Scenario(f"near 1, {spread} effects", spread, (-lean, lean, lean), 0.1)
        yield Scenario(f"female words near 0, {spread} effects", spread, NO_LEAN, female, slices=_FEMALE)
    yield Scenario("female words near 0, occupation effects", "occupation", NO_LEAN, 3.2, slices=_FEMALE)
    yield Scenario("fixed by word, few words", "independent", NO_LEAN, _SILENT, fixed=_RARE)
    for design in ("271 x 3", "271 x 5", "271 x 20"):
        yield Scenario(design, design=design)
    # A template that moves the lean of all words alike moves the share of neutral by its square, which is skewed.
    for design in ("271 x 3", "271 x 10"):
        yield Scenario(f"{design}, effects on lean only", design=design, on_caution=0)
    for spread in USUAL:
        yield Scenario(f"difference, null, {spread} effects", spread, second=LEAN)
    yield Scenario("difference, null, near 0", "both", NO_LEAN, 3.5, second=NO_LEAN)
    yield Scenario("difference, null, alike models", "both", second=LEAN, shared=0.95)
    yield Scenario("difference, null, 271 x 3", "both", second=LEAN, design="271 x 3")
    yield Scenario("difference, real", "both", second=(-1.4, 1.4, 0.3))
    for spread in ("weak", "occupation", "both"):
        yield Scenario(f"single occupations, {spread} effects", spread, by_occupation=True)


def fresh() -> Iterator[Scenario]:
    """Those that were written after the rule was fixed."""
    some, female = ((0.3, 0.1), (0.1, 0.3), (0.1, 0.2)), ((0.12, 0.0), (0.0, 0.0), (0.0, 0.0))
    most = ((0.95, 0.02), (0.02, 0.95), (0.03, 0.9))
    extreme, man = ((0.05, 0.02), (0.02, 0.05), (0.02, 0.05)), ((0.0, 0.2), (0.0, 0.2), (0.0, 0.2))
    for title, shares in {"some words": some, "most words": most, "man": man}.items():
        yield Scenario(f"fixed by word, {title}", "independent", NO_LEAN, _SILENT, fixed=shares)
    yield Scenario("fixed by word, female words only", "independent", NO_LEAN, _SILENT, fixed=female)
    yield Scenario("female words, fixed by word", "independent", NO_LEAN, _SILENT, fixed=some, slices=_FEMALE)
    yield Scenario("labour list, fixed by word", "independent", NO_LEAN, _SILENT, design="labour", fixed=_RARE)
    yield Scenario("labour list", "other", (-0.6, 0.6, 0.1), 1.8, design="labour")
    yield Scenario("a few extreme words", "weak", NO_LEAN, 2.5, fixed=extreme)
    yield Scenario("heavy tails", "other", (-0.4, 1.4, 0.7), 1.9, tails=3)
    yield Scenario("female words, heavy tails", "other", (-0.8, -0.1, -0.5), 1.9, tails=3, slices=_FEMALE)
    yield Scenario("correlated answers of the genders", "other", (-0.8, 0.8, 0.2), 1.4, paired=0.8)
    yield Scenario("correlated answers, no lean", "weak", NO_LEAN, 0.8, paired=0.6)
    yield Scenario("a woman is assumed", "other", (-0.8, -0.1, -0.5), 1.2)
    for design in ("20 x 3", "20 x 5", "40 x 8"):
        yield Scenario(design, "other", design=design)
    yield Scenario("20 x 3, template effects", "template", (-0.5, 0.5, 0.0), 1.0, design="20 x 3")
    yield Scenario("20 x 3, fixed by word", "independent", NO_LEAN, _SILENT, design="20 x 3", fixed=some)
    yield Scenario("near 0, heavy tails", "other", NO_LEAN, 3.6, tails=4)
    yield Scenario("near 1, other effects", "other", (-3.0, 3.0, 3.0), 0.2)
    yield Scenario("published order", "other", design="published")
    for design in ("published", "coal"):
        yield Scenario(
            f"{design}, a man in 40 % of the sentences", "weak", NO_LEAN, 3.0, design=design, sentences=(0, 0.4)
        )
    yield Scenario("difference, null, heavy tails", "other", NO_LEAN, 1.6, second=NO_LEAN, shared=0.8, tails=3)
    yield Scenario("difference, null, fixed by word", "weak", NO_LEAN, 3.0, second=NO_LEAN, fixed=some)
    yield Scenario("difference, null, 20 x 3", "other", second=LEAN, design="20 x 3")
