"""``evenli mitigate``: training data in, fairer training data out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.mitigate.plan import CorpusSettings
    from evenli.mitigate.written import FairerCorpus


def swap(
    corpus: Annotated[
        Path,
        typer.Option(help="English NLI file (.jsonl, .csv, .tsv, .parquet; .xz may follow) or .txt, one text a line."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .jsonl, .csv or .parquet; .txt for a text.")],
    select: Annotated[
        str, typer.Option(help="Pairs to copy: all with a gender word, or occupation (Sharma et al. 2021).")
    ] = "all",
    mode: Annotated[
        str, typer.Option(help="default (ours), paper (Dolci et al. 2023) or released (Sharma et al. 2021).")
    ] = "default",
    no_names: Annotated[bool, typer.Option("--no-names", help="Leave first names as they are.")] = False,
    only_swapped: Annotated[bool, typer.Option("--only-swapped", help="Write the swapped copies alone.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Add gender-swapped copies to a training set; labels and other columns are kept."""
    from evenli.mitigate.augment import SwapSettings, swap_corpus

    settings = SwapSettings(cast(Any, select), cast(Any, mode), not no_names, only_swapped)
    counts = swap_corpus(corpus, out, settings, overwrite=overwrite)
    if as_json:
        shared.print_json({"file": str(out), "select": select, "mode": mode, "names": not no_names, **counts})
        return
    what = "swapped copies alone" if only_swapped else f"{counts['rows_given']:,} given"
    typer.echo(f"{out}: {counts['written']:,} rows ({what}, {counts['added']:,} swapped copies added)")
    matched = f"{counts['matched']:,} name an occupation, " if "matched" in counts else ""
    typer.echo(
        f"{matched}{counts['considered']:,} considered, {counts['without_gender']:,} without a word to swap, "
        f"{counts['duplicates']:,} duplicates dropped"
    )


Scored = Annotated[Path, typer.Argument(help="Folder that evenli score wrote.")]
Corpus = Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")]
Percentile = Annotated[float, typer.Option(help="Pairs that score above this percentile are changed.", min=0, max=100)]
Split = Annotated[
    str, typer.Option(help="auto (pairs: 10,000 dev, 10,000 test, rest train), none, or DEV,TEST as numbers.")
]
ShuffleSeed = Annotated[int, shared.seed_option("Seed of the shuffle, and of the random control.")]
Control = Annotated[bool, typer.Option("--random", help="Let chance pick as many pairs: the control of equal size.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace a corpus in the folder.")]


def subtract(
    scored: Scored,
    out: Corpus,
    percentile: Percentile = 95,
    random: Control = False,
    split: Split = "auto",
    seed: ShuffleSeed = 0,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Leave out the most biased pairs of a scored corpus (Sub97 to Sub90 of Dolci et al. 2023)."""
    from evenli.mitigate import corpora

    settings = _settings(percentile, split, seed)
    make = corpora.random_control if random else corpora.subtract
    _print_corpus(make(scored, out, settings, overwrite=overwrite), as_json)


def augment(
    scored: Scored,
    out: Corpus,
    percentile: Percentile = 90,
    replace: Annotated[
        bool, typer.Option("--replace", help="Put the swapped copy in the place of the pair instead of beside it.")
    ] = False,
    mode: Annotated[
        str, typer.Option(help="default (ours), paper (Dolci et al. 2023) or released (Sharma et al. 2021).")
    ] = "default",
    no_names: Annotated[bool, typer.Option("--no-names", help="Leave first names as they are.")] = False,
    random: Control = False,
    split: Split = "auto",
    seed: ShuffleSeed = 0,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Add gender-swapped copies of the most biased pairs of a scored corpus (Aug97 to Aug90 of Dolci et al. 2023)."""
    from evenli.mitigate import corpora

    settings = _settings(percentile, split, seed, mode=mode, names=not no_names)
    if random:
        like: Any = "combined" if replace else "augment"
        result = corpora.random_control(scored, out, settings, like=like, overwrite=overwrite)
    else:
        result = (corpora.combined if replace else corpora.augment)(scored, out, settings, overwrite=overwrite)
    _print_corpus(result, as_json)


def _check_new(out: Path, overwrite: bool) -> None:
    from evenli.errors import InputError

    if out.exists() and not overwrite:
        raise InputError(f"{out} exists; pass --overwrite to replace it, or name another file")


def _settings(percentile: float, split: str, seed: int, **swapping: Any) -> CorpusSettings:
    from evenli.errors import InputError
    from evenli.mitigate.plan import CorpusSettings
    from evenli.mitigate.splits import Split

    chosen: Any = {"auto": "auto", "none": None}.get(split, split)
    if chosen not in {"auto", None}:
        try:
            dev, test = (int(part) for part in split.split(","))
        except ValueError:
            raise InputError(f"--split {split} is unknown; choose auto, none or two numbers as in 1000,1000") from None
        chosen = Split(dev=dev, test=test)
    return CorpusSettings(percentile, split=chosen, seed=seed, **swapping)


def _print_corpus(result: FairerCorpus, as_json: bool) -> None:
    if as_json:
        shared.print_json({"folder": str(result.path), **result.card})
        return
    counts, threshold = result.card["counts"], result.card["threshold"]
    splits = ", ".join(f"{name} {count:,}" for name, count in counts["splits"].items())
    typer.echo(f"{result.path}: {counts['result']:,} rows ({splits}) from {counts['rows']:,}")
    typer.echo(
        f"{counts['above_threshold']:,} score above {threshold['value']:.4f} (percentile {threshold['percentile']:g}): "
        f"{counts['removed']:,} removed, {counts['added']:,} swapped copies added"
    )
    typer.echo("look through removed.csv or added.csv before training on it; card.json says what was done")
