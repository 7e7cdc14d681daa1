"""Made-up models on the design of NLI-CoAL, for ``studies/intervals/coverage.py``.

``scenarios`` were looked at while the rules of intervals were chosen; ``fresh`` ones were not, and are run last.
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
    "fresh": (0.7, 0.5, 0.8),
}
"""Standard deviations of the effects of occupation, template and cell; that of a row is 1."""
USUAL = ("independent", "weak", "occupation", "template", "both")


@dataclass(frozen=True)
class Scenario:
    """A made-up model on a part of the design.

    Attributes:
        lean: Mean inclination to say "man" for female, male and other occupations.
        caution: How strong an inclination must be before the model leaves neutral.
        second: ``lean`` of a second model, whose difference to the first is estimated; None for one model.
        shared: Correlation of the effects of the two models.
        templates: Ask every occupation with the same so many templates instead of its own ten.
        on_caution: Effects on the caution of a model, relative to those on its inclination.
        tails: Degrees of freedom of effects that are Student's t with the same spread; 0 for normal ones.
        slices: Stereotypes, None for all.
        names: Measures; default: all.
    """

    name: str
    spread: str = "both"
    lean: tuple[float, float, float] = (-1.0, 1.0, 0.3)
    caution: float = 1.5
    second: tuple[float, float, float] | None = None
    shared: float = 0.5
    templates: int = 0
    on_caution: float = 0.7
    tails: int = 0
    slices: Sequence[str | None] = (None,)
    names: Sequence[str] = ()
    by_occupation: bool = False


NO_LEAN = (0.0, 0.0, 0.0)
LEAN = (-1.0, 1.0, 0.3)
_FEMALE: Sequence[str | None] = ("female",)


def scenarios() -> Iterator[Scenario]:
    """Those on which the rules of intervals were chosen."""
    for spread in USUAL:
        yield Scenario(f"all, {spread} effects", spread)
        yield Scenario(f"female, 13 words, {spread} effects", spread, slices=_FEMALE)
    yield Scenario("male", slices=("male",))
    yield Scenario("small effects", "both", (-0.1, 0.1, 0.0), 1.5)
    for spread in ("weak", "both"):
        near, female = {"weak": (2.7, 2.3), "both": (3.7, 3.2)}[spread]
        yield Scenario(f"near 0, {spread} effects", spread, NO_LEAN, near)
        yield Scenario(f"near 1, {spread} effects", spread, _strong(spread), 0.1)
        yield Scenario(f"female near 0, {spread} effects", spread, NO_LEAN, female, slices=_FEMALE)
    for count in (2, 3, 5, 20):
        yield Scenario(f"{count} templates for all", "both", templates=count)
    # Hard cases: a template that moves the lean of all words alike moves the share of neutral by its square, which is
    # skewed; 13 words of which few ever leave neutral.
    for count in (3, 10):
        yield Scenario(f"{count} templates for all, effects on lean only", templates=count, on_caution=0)
    yield Scenario("female near 0, occupation effects", "occupation", NO_LEAN, 3.2, slices=_FEMALE)
    for spread in USUAL:
        yield Scenario(f"difference, null, {spread} effects", spread, second=LEAN)
    yield Scenario("difference, null, near 0", "both", NO_LEAN, 3.5, second=NO_LEAN)
    yield Scenario("difference, null, alike models", "both", second=LEAN, shared=0.95)
    yield Scenario("difference, null, 3 templates", "both", second=LEAN, templates=3)
    yield Scenario("difference, real", "both", second=(-1.4, 1.4, 0.3))
    for spread in ("weak", "occupation", "both"):
        yield Scenario(f"single occupations, {spread} effects", spread, by_occupation=True)


def fresh() -> Iterator[Scenario]:
    """Those for validation only: no rule was chosen on them."""
    woman = (-0.8, -0.1, -0.5)
    yield Scenario("fresh: a woman is assumed", "fresh", woman, 1.2)
    yield Scenario("fresh: heavy tails", "fresh", (-0.4, 1.4, 0.7), 1.9, tails=5)
    yield Scenario("fresh: female words", "fresh", woman, 1.9, on_caution=0.4, slices=_FEMALE)
    yield Scenario("fresh: 8 templates for all", "fresh", templates=8, on_caution=0.4)
    yield Scenario("fresh: difference, null", "fresh", woman, 1.6, second=woman, shared=0.8, tails=5)


def _strong(spread: str) -> tuple[float, float, float]:
    lean = {"weak": 2.5, "both": 3.5}[spread]
    return -lean, lean, lean
