"""``evenli seat``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.evaluate.seat.tests import AssociationTest


def seat(
    encoder: shared.Encoder,
    tests: Annotated[
        str | None,
        typer.Option(
            help="Names such as C1,C6,C6b, JSON files of your own, or both; default: all eight.", show_default=False
        ),
    ] = None,
    level: Annotated[
        str, typer.Option(help="Of the eight tests: sentence (SEAT) or word (WEAT); a file has its own.")
    ] = "sentence",
    pooling: shared.Pooling = "mean",
    permutations: Annotated[int, typer.Option(help="Permutations; fewer if all can be tried.", min=100)] = 100_000,
    seed: Annotated[int, shared.seed_option("Seed of permutations and bootstrap.")] = 0,
    device: shared.Device = None,
    as_json: shared.Json = False,
) -> None:
    """Association tests of an encoder: effect sizes, p-values, intervals, Holm."""
    import numpy as np

    from evenli._version import __version__
    from evenli.encoders.base import encode_checked
    from evenli.evaluate.seat.association import average_effect, run_associations
    from evenli.evaluate.seat.missing import tell_unknown
    from evenli.evaluate.seat.tests import texts_of

    chosen = _chosen(tests, level)
    texts = texts_of(chosen)
    loaded = shared.load_encoder(encoder, pooling, device)
    vectors = dict(zip(texts, encode_checked(loaded, texts), strict=True))
    found = run_associations(chosen, vectors, generator=np.random.default_rng(seed), permutations=permutations)
    found = tell_unknown(loaded, chosen, found)
    if as_json:
        settings = {"seed": seed, "permutations": permutations, "pooling": pooling}
        mean = average_effect({one.name: one.effect for one in found})
        shared.print_json(
            {
                "encoder": encoder,
                "identity": str(loaded.identity),  # type: ignore[attr-defined]  # every encoder by spec has one
                "version": __version__,
                "settings": settings,
                "tests": [{**one.as_dict(), "kind": test.level} for test, one in zip(chosen, found, strict=True)],
                "mean": None if mean.note else {"signed": mean.signed, "absolute": mean.absolute},
            }
        )
        return
    from evenli.report.association import print_associations

    print_associations(found, shared.console())


def _chosen(tests: str | None, level: str) -> list[AssociationTest]:
    """The tests that are named, in their order, each once."""
    from evenli.errors import InputError
    from evenli.evaluate.seat.tests import read_test, seat_tests

    if level not in {"sentence", "word"}:
        raise InputError(f"--level {level} is unknown; choose sentence or word")
    if tests is None:
        return seat_tests(level)  # type: ignore[arg-type]  # one of the two
    parts = [tests] if Path(tests).is_file() else [part.strip() for part in tests.split(",")]
    found = []
    for part in dict.fromkeys(filter(None, parts)):
        found += [read_test(part)] if Path(part).suffix == ".json" else seat_tests(level, [part])  # type: ignore[arg-type]
    if not found:
        raise InputError(f"--tests '{tests}' names no test; give names such as C6,C6b, or a JSON file")
    names = [test.name for test in found]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"two tests are called {twice}; rename one of the files")
    return found
