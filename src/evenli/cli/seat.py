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
    from evenli.evaluate.seat import SeatSettings
    from evenli.evaluate.seat import seat as run_seat
    from evenli.evaluate.seat.tests import choose_tests

    settings = SeatSettings(level=level, seed=seed, permutations=permutations)  # type: ignore[arg-type]  # checked there
    names = None
    if tests is not None:  # a comma may be part of a file's name
        names = [tests] if Path(tests).is_file() else [name.strip() for name in tests.split(",") if name.strip()]
    chosen = choose_tests(names, settings.level)  # a wrong name is found before the encoder is loaded
    result = run_seat(shared.load_encoder(encoder, pooling, device), chosen, settings)
    if as_json:
        content = result.to_dict()
        content["settings"]["pooling"] = pooling
        shared.print_json({"encoder": encoder, **content})
        return
    from evenli.report.association import print_associations

    print_associations(result, shared.console())
