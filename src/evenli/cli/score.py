"""``evenli score`` and ``evenli direction``: the bias score of sentences and corpora."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.corpus.bias import BiasScorer
    from evenli.corpus.scored import CorpusScores
    from evenli.encoders.vectors.base import WordVectors

Vectors = Annotated[
    Path | None,
    typer.Option(help="Word vectors: GloVe, word2vec or fastText (.txt, .vec, .bin, .npz, .npy).", show_default=False),
]
Pairs = Annotated[str, typer.Option(help="Gender pairs: ten, long or a file with two words a line.")]


def score(
    source: Annotated[
        str,
        typer.Argument(
            help="A sentence in quotes; a corpus: a file, a folder of files or a glob pattern, also as an address such "
            "as s3://bucket/folder; or a folder that was scored."
        ),
    ],
    vectors: Vectors = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder for a scored corpus.")] = None,
    weights: Annotated[str, typer.Option(help="Importance of words: uniform, idf or sif.")] = "uniform",
    counts: Annotated[
        str | None,
        typer.Option(help="Corpus to count words in, for idf and sif; default: SOURCE.", show_default=False),
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            help="Encoder whose max-pooling gives the importance: infersent:FOLDER, or a transformer.",
            show_default=False,
        ),
    ] = None,
    device: shared.Device = None,
    columns: Annotated[
        str | None, typer.Option(help="Text columns, comma-separated; default: found by name.", show_default=False)
    ] = None,
    pairs: Pairs = "ten",
    punctuation: Annotated[bool, typer.Option("--punctuation", help="Let punctuation carry bias too.")] = False,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    address: Annotated[
        str | None, typer.Option(help="Ray cluster, host:port or auto; default: one on this machine.")
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option(help="Draw how the scores are distributed, as NAME.svg and NAME.png.", show_default=False),
    ] = None,
    top: Annotated[int, typer.Option(help="Most biased sentences of a corpus to show on each side.", min=0)] = 5,
    batch: Annotated[int, typer.Option(help="Sentences at once.", min=1)] = 4096,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace another scored corpus.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Score the gender bias of a sentence, word by word, or of every sentence of a corpus (Dolci et al. 2023).

    Of a folder that was scored, the summary is shown again, without scoring.
    """
    from evenli.errors import InputError

    if engine not in {"local", "ray"}:
        raise InputError(f"--engine {engine} is unknown; choose local or ray")
    if chart is not None:
        from evenli.report.score_chart import check_chart

        check_chart(chart)
    if out is None and (Path(source) / "scores.json").is_file():
        from evenli.corpus.scored import CorpusScores

        _summary(CorpusScores.read(source), chart, top, as_json)
        return
    if vectors is None:
        raise InputError("--vectors: which word vectors? A GloVe, word2vec or fastText file")
    from evenli.corpus.remote import is_remote

    if not source.strip():
        raise InputError("nothing to score: give a sentence in quotes, a corpus, or a folder that was scored")
    looks_like_files = Path(source).exists() or is_remote(source) or any(sign in source for sign in "*?[")
    make = partial(
        _scorer, vectors, weights=weights, counts=counts, encoder=encoder, pairs=pairs, punctuation=punctuation
    )
    if not looks_like_files and out is None:
        if chart is not None:
            raise InputError("--chart: one sentence has no distribution; give a corpus and -o")
        _one(make(None, device=device), source, as_json)
        return
    if out is None:
        raise InputError(f"{source} is a corpus; give the folder for its scores with -o")
    chosen = [name.strip() for name in columns.split(",")] if columns else None
    from evenli.corpus.run import score_corpus
    from evenli.evaluate.predict import Progress

    with shared.progress_bar(not as_json) as progress:

        def advance(rows: int) -> None:
            progress(Progress(rows, 0, "scoring"))

        common: dict[str, Any] = {"columns": chosen, "batch": batch, "on_progress": advance, "overwrite": overwrite}
        if engine == "ray":
            from evenli.corpus.ray_engine import score_corpus_ray

            # The machine that deals the work out needs no GPU; an encoder is loaded where it works.
            here = make(source, device="cpu")
            factory = (lambda: here) if encoder is None else (lambda: make(source, device=device))
            gpus = encoder is not None and device in {None, "cuda"}
            from evenli.corpus.ray_engine import RaySettings

            cluster = RaySettings(address=address, identity=here.identity, gpus=gpus)
            scored = score_corpus_ray(source, out, factory, cluster, **common)
        else:
            scored = score_corpus(source, out, make(source, device=device), **common)
    _summary(scored, chart, top, as_json)


def _summary(scored: CorpusScores, chart: Path | None, top: int, as_json: bool) -> None:
    """Percentiles and strongest sentences of a scored corpus, and its chart."""
    from evenli.corpus.percentiles import thresholds
    from evenli.corpus.top import top_sentences

    found = thresholds(scored, (50, 90, 93, 95, 97, 100))
    strongest = top_sentences(scored, top) if top else {}
    files = []
    if chart is not None:
        from evenli.report.score_chart import write_distribution_chart

        files = [str(file) for file in write_distribution_chart(scored, chart)]
    if as_json:
        told = {"folder": str(scored.path), **scored.header, "method": found.method, "top": strongest, "charts": files}
        shared.print_json({**told, "percentiles": {f"{name:g}": value for name, value in found.values.items()}})
        return
    flags = ", ".join(f"{count:,} {name}" for name, count in scored.header["counts"].items() if count)
    columns = ", ".join(scored.columns)
    typer.echo(f"{scored.path}: {scored.rows:,} rows, columns {columns}{f'; {flags}' if flags else ''}")
    shown = ", ".join(f"{name:g} % {value:.4f}" for name, value in found.values.items())
    typer.echo(f"score of a row (largest of its columns), percentiles ({found.method}): {shown}")
    for side, sentences in strongest.items():
        typer.echo(f"most {side}:")
        for value, text in sentences:
            typer.echo(f"  {value:+.4f}  {text}")
    if files:
        typer.echo(f"charts: {', '.join(files)}")


def direction(
    vectors: Vectors = None,
    pairs: Pairs = "ten",
    count: Annotated[int, typer.Option(help="Nearest words to show on each side.", min=1)] = 10,
    among: Annotated[
        int | None, typer.Option(help="Look for them among the first so many words.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder for direction.npz and plots.", show_default=False)
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """The gender direction of word vectors: explained variance, stability, agreement of pair lists, nearest words."""
    from evenli.corpus.direction import agreement, gender_direction, nearest, save_direction, stability
    from evenli.encoders.vectors.files import load_vectors
    from evenli.errors import InputError

    if vectors is None:
        raise InputError("--vectors: which word vectors? A GloVe, word2vec or fastText file")
    table = load_vectors(vectors)
    found = gender_direction(table, pairs)
    steady = stability(table, pairs)
    other = "long" if pairs == "ten" else "ten"
    close = nearest(table, found, count, among=among)
    told: dict[str, Any] = {
        "vectors": table.name,
        "words": len(table),
        "dimension": table.dimension,
        "pairs": len(found.pairs),
        "missing": [list(pair) for pair in found.missing],
        "explained": found.explained_unit,
        "explained_raw": found.explained_raw,
        "leave_one_out": {"lowest": steady.minimum, "mean": steady.mean},
        "agreement": {other: agreement(found, gender_direction(table, other))},
        "female": [list(pair) for pair in close.female],
        "male": [list(pair) for pair in close.male],
    }
    if out is not None:
        from evenli.report.direction import write_direction_charts

        out.mkdir(parents=True, exist_ok=True)
        save_direction(found, out / "direction.npz")
        told["files"] = ["direction.npz", *(file.name for file in write_direction_charts(found, table, out))]
    if as_json:
        shared.print_json(told)
        return
    missing = f", {len(found.missing)} without a vector" if found.missing else ""
    typer.echo(f"{table.name}: {len(table):,} words, {table.dimension} numbers each; {len(found.pairs)} pairs{missing}")
    typer.echo(
        f"first component: {found.explained_unit:.1%} of the variance of the pairs (lengths kept: "
        f"{found.explained_raw:.1%}); without one pair the direction turns to cosine {steady.minimum:.3f} at worst; "
        f"cosine with the {other} list {told['agreement'][other]:.3f}"
    )
    for side in ("female", "male"):
        typer.echo(f"most {side}: " + ", ".join(f"{word} {value:+.2f}" for word, value in told[side]))
    if out is not None:
        typer.echo(f"files: {out}/ {', '.join(told['files'])}")


def _scorer(
    vectors: Path,
    source: str | None,
    *,
    weights: str,
    counts: str | None,
    encoder: str | None,
    device: str | None,
    pairs: str,
    punctuation: bool,
) -> BiasScorer:
    from evenli.corpus.bias import BiasScorer
    from evenli.corpus.direction import gender_direction
    from evenli.corpus.importance import Idf, MaxPooled, Sif, Uniform
    from evenli.corpus.run import corpus_texts
    from evenli.encoders.vectors.files import load_vectors
    from evenli.errors import InputError

    table = load_vectors(vectors)
    chosen: Any
    if encoder is not None:
        chosen = MaxPooled(_encoder(encoder, device, table))
    elif weights == "uniform":
        chosen = Uniform()
    elif weights in {"idf", "sif"}:
        where = counts or source
        if where is None:
            raise InputError(f"--weights {weights} needs a corpus to count words in; name it with --counts")
        chosen = (Idf if weights == "idf" else Sif).count(corpus_texts(where))
    else:
        raise InputError(f"--weights {weights} is unknown; choose uniform, idf or sif")
    return BiasScorer(table, gender_direction(table, pairs), weights=chosen, punctuation=punctuation)


def _encoder(spec: str, device: str | None, vectors: WordVectors) -> Any:
    kind, _, target = spec.partition(":")
    if kind == "infersent":
        from evenli.encoders.bilstm import load_trained

        loaded = load_trained(target, device=device, at_hand=vectors)
        if loaded.note:
            shared.warn(loaded.note)
        return loaded
    from evenli.corpus.transformer import TransformerArgmax

    return TransformerArgmax(spec.removeprefix("hf:"), device=device)


def _one(scorer: BiasScorer, sentence: str, as_json: bool) -> None:
    from dataclasses import asdict

    bias = scorer.score(sentence)
    if as_json:
        shared.print_json(asdict(bias))
        return
    from evenli.report.sentence import print_sentence

    print_sentence(bias, shared.console())
