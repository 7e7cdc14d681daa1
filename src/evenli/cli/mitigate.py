"""``evenli mitigate``: training data in, fairer training data out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import typer

from evenli.cli import _shared as shared


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
    from evenli.errors import InputError
    from evenli.mitigate.swap import Mode

    if mode not in {"default", "paper", "released"}:
        raise InputError(f"no swap mode '{mode}'; choose default, paper or released")
    if select not in {"all", "occupation"}:
        raise InputError(f"no selection '{select}'; choose all or occupation")
    chosen = cast(Mode, mode)
    _check_new(out, overwrite)
    if _is_text(corpus):
        if select == "occupation":
            raise InputError(f"--select occupation needs premises and hypotheses; {corpus} is plain text")
        if out.suffix.lower() != ".txt":
            raise InputError(f"{corpus} is plain text, so the result is too; end -o in .txt, not {out.suffix or out}")
        counts = _swap_text(corpus, out, chosen, not no_names, only_swapped)
    else:
        if out.suffix not in {".jsonl", ".csv", ".parquet"}:
            raise InputError(f"{out}: unknown kind of file; use .jsonl, .csv or .parquet")
        counts = _swap_pairs(corpus, out, cast(Any, select), chosen, not no_names, only_swapped)
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

    common: dict[str, Any] = {"percentile": percentile, "split": _split(split), "seed": seed, "overwrite": overwrite}
    if random:
        made = corpora.random_control(scored, out, like="subtract", **common)
    else:
        made = corpora.subtract(scored, out, **common)
    _tell(made, as_json)


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
    from evenli.errors import InputError
    from evenli.mitigate import corpora

    if mode not in {"default", "paper", "released"}:
        raise InputError(f"no swap mode '{mode}'; choose default, paper or released")
    common: dict[str, Any] = {
        "percentile": percentile,
        "mode": mode,
        "names": not no_names,
        "split": _split(split),
        "seed": seed,
        "overwrite": overwrite,
    }
    if random:
        made = corpora.random_control(scored, out, like="combined" if replace else "augment", **common)
    else:
        made = (corpora.combined if replace else corpora.augment)(scored, out, **common)
    _tell(made, as_json)


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


def _split(text: str) -> Any:
    from evenli.errors import InputError
    from evenli.mitigate.splits import Split

    if text in {"auto", "none"}:
        return None if text == "none" else "auto"
    try:
        dev, test = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--split {text} is unknown; choose auto, none or two numbers as in 1000,1000") from None
    return Split(dev=dev, test=test)


def _tell(made: Any, as_json: bool) -> None:
    if as_json:
        shared.print_json({"folder": str(made.path), **made.card})
        return
    counts, threshold = made.card["counts"], made.card["threshold"]
    splits = ", ".join(f"{name} {count:,}" for name, count in (counts["splits"] or {}).items())
    typer.echo(f"{made.path}: {counts['result']:,} rows{f' ({splits})' if splits else ''} from {counts['rows']:,}")
    typer.echo(
        f"{counts['above_threshold']:,} score above {threshold['value']:.4f} (percentile {threshold['percentile']:g}): "
        f"{counts['removed']:,} removed, {counts['added']:,} swapped copies added"
    )
    typer.echo("look through removed.csv or added.csv before training on it; card.json says what was done")


def _swap_pairs(
    corpus: Path, out: Path, select: Literal["all", "occupation"], mode: Any, names: bool, only_swapped: bool
) -> dict[str, int]:
    from evenli.errors import InputError
    from evenli.io import find_columns, read_rows
    from evenli.mitigate.augment import swap_augment

    rows = read_rows(corpus)
    if not rows:
        raise InputError(f"{corpus} holds no pairs")
    columns = find_columns(rows[0], corpus)
    ragged = next((number for number, row in enumerate(rows, 1) if None in row), None)
    if ragged is not None:
        raise InputError(f"{corpus}, row {ragged} has more cells than the header has names; repair it first")
    found = swap_augment(
        rows, columns=(columns["premise"], columns["hypothesis"]), select=select, mode=mode, names=names
    )
    written = found.rows[len(found.rows) - found.added :] if only_swapped else found.rows
    if not written:
        raise InputError(f"{corpus} has no pair to swap, so there is nothing to write; leave out --only-swapped")
    _write_rows(written, out)
    return {**found.counts, "written": len(written)}


def _swap_text(corpus: Path, out: Path, mode: Any, names: bool, only_swapped: bool) -> dict[str, int]:
    from evenli._whole import write_whole
    from evenli.errors import InputError
    from evenli.io import split_lines
    from evenli.mitigate.swap import Swapper
    from evenli.suites.probe.files import read_text

    swapper = Swapper(mode, names)
    given = split_lines(read_text(corpus))
    if not given:
        raise InputError(f"{corpus} holds no text")
    gendered = [line for line in given if swapper.gendered(line)]
    known = set(given)
    swapped = dict.fromkeys(swapper.swap_all(gendered))
    copies = [line for line in swapped if line not in known]
    written = copies if only_swapped else [*given, *copies]
    text = "".join(f"{line}\n" for line in written)
    try:
        write_whole(out, lambda file: file.write_text(text, encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from error
    return {
        "rows_given": len(given),
        "considered": len(given),
        "without_gender": len(given) - len(gendered),
        "swapped": len(gendered),
        "duplicates": len(gendered) - len(copies),
        "added": len(copies),
        "rows": len(given) + len(copies),
        "written": len(written),
    }


def _write_rows(rows: Sequence[Mapping[str, Any]], out: Path) -> None:
    """Write rows with all their columns, in the format that the file's ending names."""
    import csv
    import json

    from evenli._whole import write_whole
    from evenli.errors import InputError

    def write(file: Path) -> None:
        if out.suffix == ".parquet":
            import polars as pl

            pl.DataFrame(rows, infer_schema_length=None).write_parquet(file, compression="zstd")
        elif out.suffix == ".csv":
            names = list(dict.fromkeys(name for row in rows for name in row))
            with file.open("w", encoding="utf-8", newline="") as sink:
                writer = csv.writer(sink)
                writer.writerow(names)
                writer.writerows([_cell(row.get(name)) for name in names] for row in rows)
        else:
            with file.open("w", encoding="utf-8") as sink:
                sink.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)

    try:
        write_whole(out, write)
    except OSError as error:
        raise InputError(f"cannot write {out}: {error.strerror or error}") from error


def _cell(value: Any) -> Any:
    # SNLI's JSON has lists of labels; a cell holds them as JSON.
    import json

    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value


def _is_text(corpus: Path) -> bool:
    """Whether a .txt file holds lines of text; SNLI and MNLI are also released as tables that end in .txt."""
    from evenli.io import COLUMNS
    from evenli.suites.probe.files import read_text

    if [suffix.lower() for suffix in corpus.suffixes if suffix.lower() != ".xz"][-1:] != [".txt"]:
        return False
    header = read_text(corpus).partition("\n")[0].rstrip("\r").split("\t")
    return not set(header) & set(COLUMNS["premise"])
