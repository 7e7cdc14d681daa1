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


def hard(
    vectors: Annotated[str, typer.Argument(help="Word vectors: FILE or vectors:FILE; GloVe, word2vec or fastText.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", help="A folder, an encoder as mitigated:FOLDER then, or a file of vectors that ends in .npz."
        ),
    ],
    pairs: Annotated[str, typer.Option(help="Pairs of the direction: ten, long or a file.")] = "ten",
    control: Annotated[
        bool, typer.Option("--control", help="Only bring the vectors to length 1: the control for the side effect.")
    ] = False,
    seed: Annotated[int, shared.seed_option("Seed of the probes that look for what is left.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Hard-debias word vectors (Bolukbasi et al. 2016): neutralise, equalise, length 1."""
    from evenli.corpus.direction import gender_direction
    from evenli.encoders.vectors.files import load_vectors
    from evenli.errors import InputError, MissingExtraError
    from evenli.mitigate.debiased import write_debiased
    from evenli.mitigate.hard_debias import hard_debias, normalised, save_vectors
    from evenli.mitigate.residual import word_leakage

    as_file = out.suffix == ".npz"
    if as_file:
        _check_new(out, overwrite)
    elif out.suffix in {".txt", ".vec", ".bin", ".npy", ".gz"}:
        raise InputError(f"{out}: vectors are written as .npz; end the name in .npz, or name a folder")
    file = Path(vectors.removeprefix("vectors:"))
    if ":" in str(file) and not file.exists():
        raise InputError(
            f"{vectors}: hard debiasing is for word vectors; for an encoder choose inlp, leace or sent-debias, or "
            "train one on hard-debiased vectors"
        )
    table = load_vectors(file)
    direction = gender_direction(table, pairs)
    made = normalised(table) if control else hard_debias(table, direction)
    if as_file:
        save_vectors(made, out)
    else:
        settings = {"pairs": pairs, "control": control}
        write_debiased(table, made, file, out, settings=settings, overwrite=overwrite)
    leaks: dict[str, Any] | None = None
    why = ""
    try:
        found = word_leakage(table, made, direction, seed=seed)
        leaks = {"before": found[0].as_dict(), "after": found[1].as_dict()}
    except (InputError, MissingExtraError) as error:
        # The vectors are written and good; a small vocabulary or a missing package is no reason to fail.
        why = str(error)
    if as_json:
        where = {"file" if as_file else "folder": str(out)}
        shared.print_json(
            {**where, "words": len(made), "notes": list(made.notes), "leakage": leaks, "not_measured": why}
        )
        return
    typer.echo(f"{out}: {len(made):,} words" + "".join(f"; {note}" for note in made.notes))
    typer.echo(f"use it as {'vectors' if as_file else 'mitigated'}:{out}")
    if leaks is None:
        typer.echo(f"what is left was not measured: {why}")
        return
    from evenli.report.encoder import print_leakage

    print_leakage(leaks["before"], leaks["after"], shared.console(), words=True)


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
