"""``evenli score`` and ``evenli direction``: the bias score of sentences and corpora."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, choice, option, output
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.options import grouped

if TYPE_CHECKING:
    from evenli.corpus.scoring import ScoreSettings

Vectors = Annotated[Path | None, option("Word vectors: GloVe, word2vec or fastText (.txt, .vec, .bin, .npz, .npy).")]
IMPORTANCE = ("max", "attention", "gradients")
Pairs = Annotated[
    str, choice("Gender pairs, or a file with two words a line.", ("ten", "long", "ja", "zh"), closed=False)
]


@dataclass(frozen=True)
class ScoreFlags:
    """How sentences are scored: the fields of ``ScoreSettings``."""

    vectors: Vectors = None
    weights: Annotated[str, choice("Importance of words.", ("uniform", "idf", "sif"))] = "uniform"
    counts: Annotated[
        str | None, option("Corpus to count words in, for idf and sif; default: SOURCE.", metavar="FILE")
    ] = None
    encoder: Annotated[
        str | None,
        option("What tells how much words count; hf:ID needs no --vectors.", metavar="infersent:FOLDER|hf:ID"),
    ] = None
    importance: Annotated[str, choice("Of an hf encoder alone; max is published.", IMPORTANCE)] = "max"
    centre: Annotated[
        str | None,
        choice(
            "Male offset of vectors; default: length, with an encoder function-words.",
            ("none", "mean", "function-words", "length"),
        ),
    ] = None
    device: shared.Device = None
    online: shared.Online = False
    columns: Annotated[str | None, option("Text columns; default: found by name.", metavar="NAME,NAME")] = None
    pairs: Pairs = "ten"
    lang: Annotated[str, choice("Language of the text: word lists, and how it is cut.", ("en", "ja", "zh"))] = "en"
    gender_words: Annotated[
        Path | None, option("Words that state a gender, one a line, in place of ours: they count as 0.")
    ] = None
    axis: Annotated[
        str | None, option("Ends of another axis than gender, in the order of --pairs FILE.", metavar="FIRST,SECOND")
    ] = None
    punctuation: Annotated[bool, option("Let punctuation carry bias too.", "--punctuation")] = False
    engine: Annotated[str, choice("Where to score a corpus.", ("local", "ray"))] = "local"
    address: Annotated[str | None, option("Ray cluster; default: one on this machine.", metavar="HOST:PORT|auto")] = (
        None
    )
    batch: Annotated[int, option("Sentences at once.", min=1)] = 4096

    def settings(self, published: bool) -> ScoreSettings:
        """The same for the library; what is missing is said before anything is read."""
        from evenli.corpus.scoring import ScoreSettings

        if self.vectors is None and self.encoder is None:
            raise InputError("--vectors: which word vectors? A GloVe, word2vec or fastText file; or name an --encoder")
        if published and self.centre not in {None, "none"}:
            raise InputError(f"--published is --centre none; leave --centre {self.centre} out")
        if self.engine == "ray":
            check_extra("scale", "scoring on a cluster")
        given: dict[str, Any] = {**asdict(self), "columns": shared.split_names(self.columns or None)}
        given["axis"] = None if self.axis is None else tuple(shared.split_names(self.axis) or ())
        return ScoreSettings(**{**given, "centre": "none" if published else self.centre})


_SCORE = ScoreFlags()


@grouped
def score(
    source: Annotated[
        str, argument("A sentence in quotes; a corpus (file, folder, glob or s3://…); or a directory that was scored.")
    ],
    out: Annotated[Path | None, output("Directory for a scored corpus.")] = None,
    flags: ScoreFlags = _SCORE,
    published: Annotated[bool, option("The published score: --centre none.", "--published")] = False,
    chart: Annotated[Path | None, option("Draw how the scores are distributed, as NAME.svg and NAME.png.")] = None,
    top: Annotated[int, option("Most biased sentences of a corpus to show on each side.", min=0)] = 5,
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
        _print_summary(Path(source), chart, top, as_json)
        _write_page(Path(source), html)
        return
    settings = flags.settings(published)
    scoring.check_source(source)
    if out is not None:
        with terminal.progress_bar(as_json) as bar:
            scoring.score(source, out, settings, on_progress=bar, on_note=terminal.warn, overwrite=overwrite)
        _print_summary(out, chart, top, as_json)
        _write_page(out, html, settings, source)
        return
    if scoring.is_corpus(source):
        raise InputError(f"{source} is a corpus; name the directory for its scores with -o")
    if chart is not None:
        raise InputError("--chart: one sentence has no distribution; give a corpus and -o, or --html for its words")
    _print_sentence(settings, source, html, as_json)


def _write_page(scored: Path, file: Path | None, settings: ScoreSettings | None = None, source: str = "") -> None:
    """The page of a scored corpus, if one is asked for; with the settings its words are marked."""
    if file is None:
        return
    from evenli.core.page import write_page
    from evenli.corpus.pages import corpus_page
    from evenli.corpus.scoring import make_scorer

    write_page(corpus_page(scored, make_scorer(settings, source) if settings else None), file)


def _print_summary(out: Path, chart: Path | None, top: int, as_json: bool) -> None:
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


def direction(
    vectors: Vectors = None,
    encoder: Annotated[str | None, option("An hf encoder in the place of vectors.", metavar="hf:ID")] = None,
    importance: Annotated[str, choice("Pooling of that encoder; max is published.", IMPORTANCE)] = "max",
    device: shared.Device = None,
    online: shared.Online = False,
    pairs: Pairs = "ten",
    count: Annotated[int, option("Nearest words to show on each side.", min=1)] = 10,
    among: Annotated[int | None, option("Look for them among the first so many words.")] = None,
    out: Annotated[Path | None, output("Directory for direction.npz and plots.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Describe the gender direction of word vectors.

    Explained variance, stability, agreement of pair lists, nearest words. Of an encoder it comes from sentences in two
    versions; a file of them has the columns female and male.
    """
    from evenli.corpus.describe_direction import DirectionSettings
    from evenli.corpus.describe_direction import direction as describe
    from evenli.corpus.texts import print_direction

    settings = DirectionSettings(pairs, count, among, importance, device, online)
    described = describe(vectors, encoder, out, settings)
    files = [file.name for file in described.files]
    if as_json:
        terminal.print_json(described.summary.to_dict() | ({"files": files} if files else {}))
        return
    print_direction(described.summary)
    if files:
        terminal.say(f"files: {out}/ {', '.join(files)}")
