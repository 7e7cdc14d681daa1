"""``evenli score`` and ``evenli direction``: the bias score of sentences and corpora."""

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
from evenli.corpus.settings import PUBLISHED, VECTORS, DirectionSettings, ScoreSettings

_DIRECTION = {"importance": "Pooling of that encoder; max is published."}


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
        from evenli.corpus.charts import check_chart

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
    _print_sentence(settings, source, html, as_json)


def _print_summary(
    out: Path, chart: Path | None, top: int, html: Path | None, as_json: bool, scorer: Callable[[], Any] | None = None
) -> None:
    """What a scored corpus holds, also as a page; with the scorer its words are marked there."""
    from evenli.corpus.scoring import summarise
    from evenli.corpus.texts import print_corpus

    summary, charts = summarise(out, top), []
    if chart is not None:
        from evenli.corpus.charts import write_distribution_chart

        charts = [str(file) for file in write_distribution_chart(out, chart)]
    if as_json:
        terminal.print_json({**summary.to_dict(), "charts": charts})
    else:
        print_corpus(summary, charts)
    if html is not None:
        from evenli.core.page import write_page
        from evenli.corpus.pages import corpus_page

        write_page(corpus_page(out, None if scorer is None else scorer()), html)


def _print_sentence(settings: ScoreSettings, sentence: str, html: Path | None, as_json: bool) -> None:
    from evenli.corpus.scoring import ENDS, make_scorer
    from evenli.corpus.sentence import print_sentence, sentence_page

    scorer, ends = make_scorer(settings), settings.axis or ENDS
    if scorer.note:
        terminal.warn(scorer.note)
    bias = scorer.score(sentence)
    if as_json:
        terminal.print_json(asdict(bias))
    else:
        print_sentence(bias, terminal.console(), ends)
    if html is not None:
        from evenli.core.page import write_page

        write_page(sentence_page(bias, ends), html)


@with_settings(settings=("importance", "device", "online", "pairs", "count", "among"), texts=_DIRECTION)
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
    from evenli.corpus.describe_direction import direction as describe
    from evenli.corpus.texts import print_direction

    described = describe(vectors, encoder, out, settings)
    files = [file.name for file in described.files]
    if as_json:
        terminal.print_json(described.summary.to_dict() | ({"files": files} if files else {}))
        return
    print_direction(described.summary)
    if files:
        terminal.say(f"files: {out}/ {', '.join(files)}")
