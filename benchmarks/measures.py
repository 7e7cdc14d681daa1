"""The bootstrap: 2,000 two-way cluster resamples over 5,420 rows, beside one resample at a time."""

from __future__ import annotations

import time

import numpy as np

from evenli.evaluate.predict import predict
from evenli.models import fake_model
from evenli.stats.intervals import Scoring, estimate_measures
from evenli.stats.measure import get_measure, measures
from evenli.stats.sample import Sample, weight_chunks
from evenli.suites.coal.build import build_coal


def main() -> None:
    """Print seconds for all resamples, vectorised and in a loop."""
    sample = Sample(predict(fake_model("random"), [build_coal("en")]))
    coal = get_measure("coal")
    started = time.perf_counter()
    estimate_measures(sample, [coal], scoring=Scoring(resamples=2000))
    vectorised = time.perf_counter() - started
    started = time.perf_counter()
    estimate_measures(sample, measures("coal"), stereotypes=(None, "female", "male"), scoring=Scoring(resamples=2000))
    everything = time.perf_counter() - started
    generator = np.random.default_rng(0)
    started = time.perf_counter()
    for _ in range(100):
        (weights,) = weight_chunks(sample.frame, 1, generator)
        coal(sample.weighted(weights[0]))
    loop = (time.perf_counter() - started) * 20
    print(f"2,000 resamples of NLI-CoAL, vectorised: 1x; one at a time: {loop / vectorised:.1f}x")
    print(f"all {len(measures('coal'))} measures on three slices: {everything / vectorised:.1f}x")


if __name__ == "__main__":
    main()
