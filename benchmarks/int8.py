"""``--dtype int8``: how much faster, and does it give the same answers? Embedded English model, 5,420 pairs, one run.

A faster mode that answers differently is not a mode; the arg-max must agree with fp32 on at least 99 % of the pairs.
"""

from __future__ import annotations

import time

import numpy as np

from evenli.datasets import build_coal
from evenli.models import ModelOptions, load_model
from evenli.predictions import predict


def main() -> None:
    """Time both and compare."""
    pairs = build_coal("en")
    logits, seconds = {}, {}
    for dtype in ("float32", "int8"):
        model = load_model(options=ModelOptions(dtype=dtype))
        started = time.perf_counter()
        logits[dtype] = predict(model, [pairs]).logits
        seconds[dtype] = time.perf_counter() - started
    same = (logits["float32"].argmax(axis=1) == logits["int8"].argmax(axis=1)).mean()
    difference = np.abs(logits["float32"] - logits["int8"]).max()
    ratio = seconds["float32"] / seconds["int8"]
    print(f"int8: {ratio:.2f}x the speed of fp32, same arg-max {same:.4f}, max logit difference {difference:.2f}")
    assert same >= 0.99, f"int8 agrees on {same:.2%} only"


if __name__ == "__main__":
    main()
