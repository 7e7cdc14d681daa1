"""How often do intervals from a few templates hold the truth? Known methods, side by side.

Every occupation is asked with the same templates, and there are so many occupations that only the templates vary. The
numbers of the templates are mean probabilities of neutral under effects on what a model leans to (*lean only*: a
template moves them by the square of its effect, which is skewed), under effects on that and on its caution (*usual*),
or simply normal. Usage::

    python -m studies.intervals.skewed_templates
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

Values = NDArray[np.float64]
Ends = tuple[Values, Values]
_SIMULATIONS, _RESAMPLES = 4000, 400
_WORDS = {-1.0: 13, 1.0: 87, 0.3: 171}
"""Occupations by what a model leans to, as in the scenarios of ``studies/intervals/coverage.py``."""


def of_templates(lean: Values, caution: Values) -> Values:
    """Mean probability of neutral of templates with these effects, over occupations, cells and rows."""
    # Effects of occupation, cell and row on the inclination have a variance of 1 + 0.36 + 1, in steps of equal weight.
    steps = np.sqrt(2.36) * student.ppf((np.arange(100) + 0.5) / 100, 1e6)
    total = np.zeros_like(lean)
    for mean, count in _WORDS.items():
        for step in steps:
            inclined = mean + lean + step
            total += count * (1 / (1 + np.exp(inclined - 1.5 - caution) + np.exp(-inclined - 1.5 - caution)))
    return total / (sum(_WORDS.values()) * len(steps))


def draw(kind: str, shape: tuple[int, ...], generator: np.random.Generator) -> Values:
    """Numbers of templates."""
    if kind == "normal":
        return generator.standard_normal(shape)
    lean = 0.8 * generator.standard_normal(shape)
    return of_templates(lean, 0.56 * generator.standard_normal(shape) if kind == "usual" else np.zeros(shape))


def plain(numbers: Values, generator: np.random.Generator) -> Ends:
    """Student's t."""
    reach = student.ppf(0.975, numbers.shape[1] - 1) * _error(numbers)
    return numbers.mean(axis=1) - reach, numbers.mean(axis=1) + reach


def hall(numbers: Values, generator: np.random.Generator, times: float = 1.0) -> Ends:
    """Hall's (1992) cubic correction for skewness; ``times`` the skewness that the numbers show."""
    n = numbers.shape[1]
    centred = numbers - numbers.mean(axis=1, keepdims=True)
    skewness = times * (centred**3).sum(axis=1) / (n * _error(numbers)) ** 3
    skewness = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness)
    t = student.ppf(0.975, n - 1)
    far, near = (3 / skewness * (np.cbrt(1 + skewness * (one - skewness / 6)) - 1) for one in (t, -t))
    return numbers.mean(axis=1) - far * _error(numbers), numbers.mean(axis=1) - near * _error(numbers)


def ours(numbers: Values, generator: np.random.Generator) -> Ends:
    """Hall's with twice the skewness."""
    return hall(numbers, generator, 2.0)


def johnson(numbers: Values, generator: np.random.Generator) -> Ends:
    """Johnson's (1978) modified t: the centre moves with the skewness."""
    n = numbers.shape[1]
    third = ((numbers - numbers.mean(axis=1, keepdims=True)) ** 3).mean(axis=1)
    low, high = plain(numbers, generator)
    moved = third / (6 * n * numbers.var(axis=1, ddof=1))
    return low + moved, high + moved


def bootstrap_t(numbers: Values, generator: np.random.Generator) -> Ends:
    """Studentised bootstrap; resamples of one number only are left out."""
    ends = []
    for row in numbers:
        again = row[generator.integers(0, len(row), (_RESAMPLES, len(row)))]
        error = _error(again)
        ratios = (again.mean(axis=1) - row.mean())[error > 0] / error[error > 0]
        far, near = np.quantile(ratios, [0.975, 0.025])
        own = float(_error(row[None])[0])
        ends.append((row.mean() - far * own, row.mean() - near * own))
    low, high = np.array(ends).T
    return low, high


def _error(numbers: Values) -> Values:
    return np.asarray(numbers.std(axis=1, ddof=1) / np.sqrt(numbers.shape[1]))


METHODS: dict[str, Callable[[Values, np.random.Generator], Ends]] = {
    "t": plain,
    "Johnson": johnson,
    "Hall": hall,
    "bootstrap-t": bootstrap_t,
    "ours": ours,
}


def main() -> None:
    """Simulate and print."""
    print(f"| effects | templates | {' | '.join(METHODS)} |\n|---|---|{'---|' * len(METHODS)}")
    for kind in ("lean only", "usual", "normal"):
        generator = np.random.default_rng(0)
        truth = 0.0 if kind == "normal" else float(draw(kind, (100_000,), generator).mean())
        for count in (3, 5, 10, 20):
            numbers = draw(kind, (_SIMULATIONS, count), generator)
            shown = []
            for method in METHODS.values():
                low, high = method(numbers, generator)
                shown.append(f"{np.mean((low <= truth) & (truth <= high)):.1%}")
            print(f"| {kind} | {count} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
