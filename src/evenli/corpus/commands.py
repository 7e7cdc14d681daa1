"""``evenli score`` and ``evenli direction``, and what makes a corpus fairer: ``evenli mitigate`` and its methods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, with_settings
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.registry import Command
from evenli.corpus.mitigation import methods
from evenli.corpus.settings import (
    PUBLISHED,
    VECTORS,
    AugmentSettings,
    CorpusSettings,
    DirectionSettings,
    ScoreSettings,
    SwapSettings,
)

Scored = Annotated[Path, argument("Folder that evenli score wrote.")]
Corpus = Annotated[Path, output("Folder to write.")]
Overwrite = Annotated[bool, option("Replace a corpus in the folder.", "--overwrite")]


@with_settings(after={"encoder": ["importance"], "centre": ["device", "online"], "columns": ["pairs"]})
def score(
    source: Annotated[
        str, argument("A sentence in quotes; a corpus (file, folder, glob or s3://…); or a directory that was scored.")
    ],
    out: Annotated[Path | None, output("Directory for a scored corpus.")] = None,
    *,
    settings: ScoreSettings,
    published: Annotated[bool, option("The published score: --centre none.", "--published")] = False,
    chart: Annotated[Path | None, option("Draw how the scores are distributed, as NAME.svg and NAME.png.")] = None,
    top: Annotated[int, option("Most biased sentences of a corpus to show on each side.", minimum=0)] = 5,
    overwrite: Annotated[bool, option("Replace another scored corpus.", "--overwrite")] = False,
    html: shared.Html = None,
    as_json: shared.Json = False,
) -> None:
    """Score the gender bias of a sentence or of a whole corpus.

    Word by word, after Dolci et al. 2023. Of a directory that was scored, the summary is shown again, without scoring.
    """
    from evenli.corpus import scoring
    from evenli.corpus.scored import is_scored

    if chart is not None:
        from evenli.corpus.pages import check_chart

        check_chart(chart)  # before hours of scoring
    if out is None and is_scored(source):
        _print_summary(Path(source), chart, top, html, as_json)
        return
    scoring.check_vectors(settings)  # what is missing is said before anything is read
    if published and settings.centre not in {None, PUBLISHED}:
        raise InputError(f"--published is --centre none; leave --centre {settings.centre} out")
    if settings.engine == "ray":
        check_extra("scale", "scoring on a cluster")
    settings = replace(settings, centre=PUBLISHED) if published else settings
    scoring.check_source(source)
    if out is not None:
        with terminal.progress_bar(as_json) as bar:
            scoring.score(source, out, settings, on_progress=bar, on_note=terminal.warn, overwrite=overwrite)
        _print_summary(out, chart, top, html, as_json, partial(scoring.make_scorer, settings, source))
        return
    if scoring.is_corpus(source):
        raise InputError(f"{source} is a corpus; name the directory for its scores with -o")
    if chart is not None:
        raise InputError("--chart: one sentence has no distribution; give a corpus and -o, or --html for its words")
    bias = scoring.score(source, None, settings, on_note=terminal.warn)
    ends = settings.axis or scoring.ENDS
    if as_json:
        terminal.print_json(asdict(bias))
    else:
        from evenli.corpus.texts import print_sentence

        print_sentence(bias, terminal.console(), ends)
    if html is not None:
        from evenli.core.page import write_page
        from evenli.corpus.pages import sentence_page

        write_page(sentence_page(bias, ends), html)


def _print_summary(
    out: Path, chart: Path | None, top: int, html: Path | None, as_json: bool, scorer: Callable[[], Any] | None = None
) -> None:
    """What a scored corpus holds, also as a page; with the scorer its words are marked there."""
    from evenli.corpus.scoring import summarise
    from evenli.corpus.texts import print_corpus

    summary, charts = summarise(out, top), []
    if chart is not None:
        from evenli.corpus.pages import write_distribution_chart

        charts = [str(file) for file in write_distribution_chart(out, chart)]
    if as_json:
        terminal.print_json({**summary.to_dict(), "charts": charts})
    else:
        print_corpus(summary, charts)
    if html is not None:
        from evenli.core.page import write_page
        from evenli.corpus.pages import corpus_page

        write_page(corpus_page(out, None if scorer is None else scorer()), html)


@with_settings(
    settings=("importance", "device", "online", "pairs", "count", "among"),
    texts={"importance": "Pooling of that encoder; max is published."},
)
def direction(
    vectors: Annotated[Path | None, option(VECTORS)] = None,
    encoder: Annotated[str | None, option("An hf encoder in the place of vectors.", metavar="hf:ID")] = None,
    *,
    settings: DirectionSettings,
    out: Annotated[Path | None, output("Directory for direction.npz and plots.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Describe the gender direction of word vectors.

    Explained variance, stability, agreement of pair lists, nearest words. Of an encoder it comes from sentences in two
    versions; a file of them has the columns female and male.
    """
    from evenli.corpus.scoring import direction as describe
    from evenli.corpus.texts import print_direction

    described = describe(vectors, encoder, out, settings)
    files = [file.name for file in described.files]
    if as_json:
        terminal.print_json(described.summary.to_dict() | ({"files": files} if files else {}))
        return
    print_direction(described.summary)
    if files:
        terminal.say(f"files: {out}/ {', '.join(files)}")


@with_settings(settings=("select", "mode", "names", "conflicts", "lang", "occupations", "review", "only_swapped"))
def swap(
    corpus: Annotated[Path, option("NLI file (.jsonl, .csv, .tsv, .parquet), or .txt with a text a line.")],
    out: Annotated[Path, output("File to write: .jsonl, .csv or .parquet; .txt for a text.")],
    *,
    settings: SwapSettings,
    overwrite: Annotated[bool, option("Replace a file that is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Add gender-swapped copies to a training set.

    Premise and hypothesis are swapped together; labels and other columns are kept.
    """
    from evenli.corpus.mitigation.swap_file import swap_corpus

    with terminal.heartbeat(as_json, f"swapping {corpus.name}"):
        counts = swap_corpus(corpus, out, settings, overwrite=overwrite)
    if as_json:
        names = settings.mode == "paper" if settings.names is None else settings.names
        chosen = {"select": settings.select, "mode": settings.mode, "names": names}
        content = {"file": str(out), **chosen, "conflicts_are": settings.conflicts, "lang": settings.lang}
        terminal.print_json({**content, **counts.to_dict()})
        return
    what = "swapped copies alone" if settings.only_swapped else f"{counts.rows_given:,} given"
    terminal.say(f"{out}: {counts.written:,} rows ({what}, {counts.added:,} swapped copies added)")
    matched = "" if counts.matched is None else f"{counts.matched:,} name an occupation, "
    terminal.say(
        f"{matched}{counts.considered:,} considered, {counts.without_gender:,} without a word to swap, "
        f"{counts.conflicts:,} without a copy because it would say something else, "
        f"{counts.duplicates:,} duplicates dropped"
    )
    if counts.other_language:
        terminal.warn(f"{counts.other_language:,} rows are in another language; they have no copy")
    if counts.unlabelled:
        terminal.warn(f"{counts.unlabelled:,} rows have no gold label, nor have their copies")


@with_settings(settings=("percentile", "random", "split", "seed", "vectors"))
def subtract(
    scored: Scored, out: Corpus, *, settings: CorpusSettings, overwrite: Overwrite = False, as_json: shared.Json = False
) -> None:
    """Leave out the most biased pairs of a scored corpus.

    Sub97 to Sub90 of Dolci et al. 2023.
    """
    _make("choosing the rows that stay", scored, out, settings, overwrite, as_json)


@with_settings(
    settings=("percentile", "replace", "mode", "names", "lang", "random", "split", "seed", "vectors"),
    bases={"settings": methods.AUGMENT.settings},
)
def augment(
    scored: Scored,
    out: Corpus,
    *,
    settings: AugmentSettings,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Add swapped copies of the most biased pairs of a scored corpus.

    Aug97 to Aug90 of Dolci et al. 2023.
    """
    _make("copying the rows with the genders exchanged", scored, out, settings, overwrite, as_json)


def _make(doing: str, scored: Path, out: Path, settings: CorpusSettings, overwrite: bool, as_json: bool) -> None:
    from evenli.corpus.texts import balance_text

    with terminal.heartbeat(as_json, doing):
        result = methods.make_fairer(scored, out, settings, overwrite)
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.card.to_dict()})
        return
    counts, threshold = result.card.counts, result.card.threshold
    splits = ", ".join(f"{name} {count:,}" for name, count in counts.splits.items())
    # Rows above the threshold that have neither a copy nor a reason why not.
    unchanged = counts.above_threshold - counts.added - counts.skipped if counts.added else 0
    terminal.say(f"{result.path}: {counts.result:,} rows ({splits}) from {counts.rows:,}")
    if result.card.settings["method"] == "random_control":
        terminal.say("RANDOM CONTROL: chance picked as many rows, whatever their score")
    terminal.say(
        f"{counts.above_threshold:,} score above {threshold.value:.4f} (percentile {threshold.percentile:g}): "
        f"{counts.removed:,} removed, {counts.added:,} swapped copies added"
        + (f", {counts.skipped:,} without one (skipped.csv says why)" if counts.skipped else "")
        + (f"; {unchanged:,} hold nothing to swap" if unchanged > 0 else "")
    )
    for when in ("before", "after", *(["removed"] if counts.removed else [])):
        terminal.say(f"{when}: {balance_text(getattr(result.card.balance, when))}")
    # One shift moves several shares: what one side loses the other gains.
    if result.card.warnings:
        terminal.warn(f"the cleaning shifts the corpus: {'; '.join(result.card.warnings)}")
    if result.card.driving_words != "shown":
        terminal.warn(f"driving words {result.card.driving_words}")
    terminal.say("look through removed.csv or added.csv before training on it; card.json says what was done")


COMMANDS = (
    *(Command(run, "mitigate") for run in (swap, subtract, augment)),
    *(Command(run, "Mitigate") for run in (score, direction)),
)
