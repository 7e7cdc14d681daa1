"""Eight sentence association tests with 100,000 permutations, beside the published algorithm one shuffle at a time.

python benchmarks/seat.py                # where WEFE is installed (it needs numpy 1), its WEAT is timed in the same run
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evenli.encoders.seat import AssociationTest, SeatSettings, seat_from_vectors, seat_tests, texts_of

Values = NDArray[np.float64]
PERMUTATIONS, RESAMPLES = SeatSettings.permutations, SeatSettings.resamples
_RUNS = 3
"""Ours and the loops are each timed this often; the fastest counts, so that a busy machine favours neither."""


def main() -> None:
    """Print the time of all tests, and the ratios per permutation to plain loops."""
    tests = seat_tests()
    wefe = _wefe()
    for dimensions in (300, 4096):
        generator = np.random.default_rng(0)
        texts = texts_of(tests)
        vectors = dict(zip(texts, generator.normal(size=(len(texts), dimensions)), strict=True))
        bare, full = (min(_seconds(tests, vectors, resamples) for _ in range(_RUNS)) for resamples in (0, RESAMPLES))
        each = bare / (len(tests) * PERMUTATIONS)
        cached = float(np.mean([min(_loop(test, vectors, _cached, 500) for _ in range(_RUNS)) for test in tests]))
        anew = float(np.mean([min(_loop(test, vectors, _anew, 3) for _ in range(_RUNS)) for test in tests]))
        print(
            f"{dimensions} dimensions, {len(tests)} tests, {PERMUTATIONS:,} permutations each, fastest of {_RUNS} runs:"
        )
        print(f"  {bare:.2f} s, with {RESAMPLES:,} resamples for intervals {full:.2f} s; 1x = {each * 1e6:.2f} us")
        print(f"  published algorithm, associations cached: {cached / each:,.1f}x per permutation")
        print(f"  definition computed anew for every shuffle: {anew / each:,.0f}x")
        assert full < 2.0, f"all tests took {full:.2f} s"
        if wefe is None:
            print("  WEFE: not timed, it is not installed")
            continue
        print(f"  WEFE at {1e3 * wefe:.2f} ms (C6, word level, 300 dimensions, timed in this run): {wefe / each:,.0f}x")
        assert wefe / each > 1_000


def _wefe(permutations: int = 200) -> float | None:
    """Seconds per permutation of WEFE on C6, word level, 300 dimensions; None where it is not installed."""
    try:
        from gensim.models import KeyedVectors
        from wefe.metrics import WEAT
        from wefe.query import Query
        from wefe.word_embedding_model import WordEmbeddingModel
    except ImportError:
        return None
    (test,) = seat_tests("word", ["C6"])
    x, y, a, b = (list(part.texts) for part in test.sets)
    vectors = KeyedVectors(300)
    words = list(dict.fromkeys([*x, *y, *a, *b]))
    vectors.add_vectors(words, np.random.default_rng(0).normal(size=(len(words), 300)))
    model, query = WordEmbeddingModel(vectors, "random"), Query([x, y], [a, b])
    taken = []
    for count in (1, 1 + permutations):
        started = time.perf_counter()
        WEAT().run_query(query, model, calculate_p_value=True, p_value_iterations=count, p_value_verbose=False)
        taken.append(time.perf_counter() - started)
    return (taken[1] - taken[0]) / permutations


def _seconds(tests: list[AssociationTest], vectors: dict[str, Values], resamples: int) -> float:
    started = time.perf_counter()
    seat_from_vectors(tests, vectors, SeatSettings(seed=1, resamples=resamples))
    return time.perf_counter() - started


def _loop(
    test: AssociationTest,
    vectors: dict[str, Values],
    statistic: Callable[[Values, Values, Values, Values, NDArray[np.intp]], float],
    shuffles: int,
) -> float:
    """Seconds per permutation of a test that shuffles the targets and sums the associations of one half."""
    x, y, a, b = (np.array([vectors[text] for text in part.texts]) for part in test.sets)
    pooled, n = np.concatenate([x, y]), len(x)
    cache = _associations(pooled, a, b)
    order = np.arange(len(pooled))
    observed = statistic(pooled, a, b, cache, order[:n])
    generator = np.random.default_rng(0)
    started = time.perf_counter()
    hits = 0
    for _ in range(shuffles):
        generator.shuffle(order)
        hits += statistic(pooled, a, b, cache, order[:n]) >= observed
    return (time.perf_counter() - started) / shuffles


def _cached(pooled: Values, a: Values, b: Values, cache: Values, half: NDArray[np.intp]) -> float:
    return float(cache[half].sum())


def _anew(pooled: Values, a: Values, b: Values, cache: Values, half: NDArray[np.intp]) -> float:
    return float(_associations(pooled[half], a, b).sum())


def _associations(targets: Values, a: Values, b: Values) -> Values:
    targets, a, b = (part / np.linalg.norm(part, axis=1, keepdims=True) for part in (targets, a, b))
    return np.asarray((targets @ a.T).mean(axis=1) - (targets @ b.T).mean(axis=1))


if __name__ == "__main__":
    main()
