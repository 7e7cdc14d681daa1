"""``evenli seat``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared


def seat(
    encoder: shared.Encoder,
    tests: Annotated[
        str | None,
        typer.Option(
            help="Names such as C1,C6,C6b, or a JSON file of your own; default: all eight.", show_default=False
        ),
    ] = None,
    level: Annotated[str, typer.Option(help="sentence (SEAT) or word (WEAT).")] = "sentence",
    pooling: shared.Pooling = "mean",
    permutations: Annotated[int, typer.Option(help="Permutations; fewer if all can be tried.", min=100)] = 100_000,
    seed: Annotated[int, typer.Option(help="Seed of permutations and bootstrap.")] = 0,
    device: shared.Device = None,
    as_json: shared.Json = False,
) -> None:
    """Association tests of an encoder: effect sizes, p-values, intervals, Holm."""
    import numpy as np

    from evenli.datasets.seat import read_test, seat_tests, texts_of
    from evenli.encoders import encode_checked
    from evenli.errors import InputError
    from evenli.measures.association import run_associations

    if level not in {"sentence", "word"}:
        raise InputError(f"--level {level} is unknown; choose sentence or word")
    if tests is not None and Path(tests).suffix == ".json":
        chosen = [read_test(tests)]
    else:
        names = [name.strip() for name in tests.split(",")] if tests else None
        chosen = seat_tests(level, names)  # type: ignore[arg-type]  # one of the two, checked above
    texts = texts_of(chosen)
    vectors = dict(zip(texts, encode_checked(shared.load_encoder(encoder, pooling, device), texts), strict=True))
    found = run_associations(chosen, vectors, generator=np.random.default_rng(seed), permutations=permutations)
    if as_json:
        shared.print_json({"encoder": encoder, "level": level, "tests": [one.as_dict() for one in found]})
        return
    from evenli.reports.association import print_associations

    print_associations(found, shared.console())
