"""From settings to results in one call: the bias score of a sentence or of a whole corpus, and a gender direction."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, overload

from evenli.core.errors import EvenliError, InputError
from evenli.core.extras import check_extra
from evenli.core.io import read_rows, read_text
from evenli.core.record import Record
from evenli.core.settings import settings_of
from evenli.core.store import scratch
from evenli.corpus.bias import DEFAULT, BiasScorer, SentenceBias
from evenli.corpus.importance import Idf, MaxPooled, Sif, Uniform, Weights, WordCounts
from evenli.corpus.mitigation.card import Balance, BalanceCounter
from evenli.corpus.ray_engine import score_corpus_ray
from evenli.corpus.rows import KeptRows
from evenli.corpus.run import ReadSettings, corpus_texts, score_corpus
from evenli.corpus.scored import COUNTS, SCORER_SETTINGS, SIDES, CorpusScores, ScoredDir, thresholds, top_sentences
from evenli.corpus.segment import Segmenter
from evenli.corpus.settings import DirectionSettings as DirectionSettings
from evenli.corpus.settings import ScoreSettings as ScoreSettings
from evenli.corpus.source import is_remote
from evenli.encoders.base import DATA_BACKENDS, parse_spec, resolved_spec
from evenli.encoders.direction import DirectionSummary, describe_direction, gender_direction, read_pairs
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.words import read_table
from evenli.words.lists import GenderWords

if TYPE_CHECKING:
    from evenli.corpus.contextual import ContextualScorer, ContextualSummary

PERCENTILES = (50, 90, 93, 95, 97, 100)
"""Shown in a summary."""
_NOTHING = "which word vectors (--vectors)? Name a GloVe, word2vec or fastText file, or an encoder (--encoder)"


def check_vectors(settings: ScoreSettings) -> None:
    """Refuse settings that name nothing to score with."""
    if settings.vectors is None and settings.encoder is None:
        raise InputError(_NOTHING)


def stored_settings(settings: ScoreSettings) -> dict[str, Any]:
    """What the same scorer is made of again; files by their absolute paths."""
    if not isinstance(settings.pairs, str) or settings.engine == "ray":
        return {}  # pairs given in Python are not kept
    names = ("weights", "device", "pairs", "punctuation", "centre", "importance", "lang", "axis")
    named = {name: getattr(settings, name) for name in names}
    encoder = None if settings.encoder is None else resolved_spec(settings.encoder)
    vectors, counts, words = (
        None if file is None else str(Path(file).resolve())
        for file in (settings.vectors, settings.counts, settings.gender_words)
    )
    return {**named, "vectors": vectors, "encoder": encoder, "counts": counts, "gender_words": words}


def gendered_words_of(settings: ScoreSettings) -> GenderWords:
    """The words that state a gender: those of the language, unless others are given."""
    lang, own = settings.lang, settings.gender_words
    if own is None and settings.axis is not None and settings.vectors is not None:
        return GenderWords({word.lower() for pair in read_pairs(settings.pairs) for word in pair}, names=())
    if lang == "en":
        return GenderWords() if own is None else GenderWords(read_words(own))
    listed = {row["word"] for row in read_table(f"gender_words_{lang}.csv", ("word",))}
    # That list leaves out words of one character, which would be found within others; here text is cut into words.
    listed.update(word for pair in read_pairs(lang) for word in pair)
    # First names are listed for English only.
    return GenderWords(listed if own is None else read_words(own), names=())


ENDS = tuple(SIDES)
"""The ends of the axis unless others are named."""


def ends_of(header: Mapping[str, Any]) -> Sequence[str]:
    """The names of the two ends of the axis that a corpus was scored on, as far as scores.json has them."""
    settings = header.get(SCORER_SETTINGS)
    axis = settings.get("axis") if isinstance(settings, Mapping) else None
    if isinstance(axis, list | tuple) and len(axis) == len(ENDS) and all(isinstance(end, str) for end in axis):
        return axis
    return ENDS


AnyScorer: TypeAlias = "BiasScorer | ContextualScorer"


def make_scorer(settings: ScoreSettings, source: str | Path | WordCounts | None = None) -> AnyScorer:
    """Load vectors, direction and weights.

    ``source`` is the corpus to count words in, if the settings name none; or its words, counted already.
    """
    check_vectors(settings)
    if settings.vectors is None and not settings.has_own_vectors:
        return _contextual(settings)
    vectors = None if settings.vectors is None else load_vectors(settings.vectors)
    weights = _weights(settings, vectors, source if isinstance(source, WordCounts) else settings.counts or source)
    if vectors is None:
        vectors = weights.encoder.vocabulary.vectors  # type: ignore[union-attr]  # the encoder brings its own
    own_pairs = settings.pairs == "ten" and settings.lang != "en"  # those of the language, where none are given
    direction = gender_direction(vectors, settings.lang if own_pairs else settings.pairs)
    # An encoder's markers take their share of every sentence, so that short ones are not on top there.
    centre = settings.centre or (DEFAULT if settings.encoder is None else "function-words")
    gendered_words = gendered_words_of(settings)
    segmenter = None if settings.lang == "en" else Segmenter([*vectors.words, *gendered_words.words])
    scorer = BiasScorer(vectors, direction, gendered_words, weights, settings.punctuation, centre, segmenter)
    if settings.encoder is not None and not settings.has_own_vectors:
        scorer.note = "; ".join(filter(None, (scorer.note, _MIXED)))
    return scorer


_MIXED = (
    "words lean as their vectors do and count as in the encoder, which reads only the words that have a vector; leave "
    "the vectors (--vectors) out for the published score of a transformer"
)


def _contextual(settings: ScoreSettings) -> ContextualScorer:
    from evenli.corpus.contextual import ContextualScorer, contextual_direction
    from evenli.corpus.transformer import TransformerArgmax

    if settings.lang != "en" and settings.pairs == "ten":
        raise InputError(
            f"language {settings.lang} with an encoder alone needs pairs (--pairs FILE.csv): sentences in the columns "
            "female and male that differ in gender words only"
        )
    encoder = TransformerArgmax(
        str(settings.encoder), device=settings.device, online=settings.online, importance=settings.importance
    )
    gendered_words = gendered_words_of(settings)
    if settings.lang != "en":
        encoder.split = Segmenter(gendered_words.words).words
    direction = contextual_direction(encoder, settings.pairs)
    return ContextualScorer(encoder, direction, gendered_words, punctuation=settings.punctuation)


def read_words(file: str | Path) -> list[str]:
    """The words of a file in lower case: one a line, or the column ``word`` of a .csv or .tsv file."""
    path = Path(file)
    if path.suffix in {".csv", ".tsv"}:
        words = [str(row.get("word") or "").strip() for row in read_rows(path)]
    else:
        words = [line.strip() for line in read_text(path).splitlines()]
    kept = [word.lower() for word in words if word]
    if not kept:
        raise InputError(f"{path} has no words; give one a line, or a table with the column word")
    return kept


def _weights(settings: ScoreSettings, vectors: WordVectors | None, counts: str | Path | WordCounts | None) -> Weights:
    if settings.encoder is not None:
        kind, _, target = settings.encoder.partition(":")
        if kind == "infersent":
            from evenli.encoders.bilstm import load_trained

            return MaxPooled(load_trained(target, device=settings.device, at_hand=vectors))
        from evenli.corpus.transformer import TransformerArgmax

        return MaxPooled(TransformerArgmax(settings.encoder, device=settings.device, online=settings.online))
    if settings.weights == "uniform":
        return Uniform()
    if counts is None:
        raise InputError(f"weights {settings.weights} need a corpus to count words in; name it (--counts)")
    if not isinstance(counts, WordCounts):
        # The columns are those of the corpus that is scored; another one may have others.
        counts = WordCounts.count(corpus_texts(counts, settings.columns if settings.counts is None else None))
    return (Idf if settings.weights == "idf" else Sif)(counts)


@overload
def score(source: str, out: None = None, settings: ScoreSettings | None = None, **options: Any) -> SentenceBias: ...


@overload
def score(
    source: str | Path, out: str | Path, settings: ScoreSettings | None = None, **options: Any
) -> CorpusScores: ...


def score(
    source: str | Path,
    out: str | Path | None = None,
    settings: ScoreSettings | None = None,
    *,
    on_progress: Callable[[int], None] | None = None,
    on_note: Callable[[str], None] | None = None,
    overwrite: bool = False,
    **options: Any,
) -> SentenceBias | CorpusScores:
    """Score a sentence word by word, or every text of a corpus.

    Args:
        source: The sentence; with ``out`` a corpus: a file, a directory, a glob pattern or an address.
        out: Directory for the scores of a corpus.
        settings: How sentences are scored.
        on_progress: Called with the number of rows that are done.
        on_note: Called with what should be known of the encoder.
        overwrite: Replace another scored corpus in ``out``.
        options: Fields of ``ScoreSettings``: ``vectors="glove.txt"``.
    """
    settings = settings_of(ScoreSettings, settings, options, "score", "on_progress", "on_note", "overwrite")
    check_source(source)
    if out is None:
        if is_corpus(str(source)):
            raise InputError(f"{source} is a corpus; name the directory for its scores, out (-o)")
    elif settings.weights != "uniform" and settings.encoder is None and settings.engine == "local":
        return _score_counted(source, ScoredDir(out), settings, overwrite=overwrite, on_progress=on_progress)
    # The machine that distributes the work needs no GPU; the encoder is loaded where it works.
    remote = out is not None and settings.engine == "ray"
    scorer = make_scorer(replace(settings, device="cpu") if remote else settings, None if out is None else source)
    if scorer.note and on_note is not None:
        on_note(scorer.note)
    if out is None:
        return scorer.score(str(source))
    reading = ReadSettings(settings.columns, settings.batch, stored_settings(settings))
    if not remote:
        return score_corpus(source, out, scorer, reading, on_progress=on_progress, overwrite=overwrite)
    factory = (lambda: scorer) if settings.encoder is None else (lambda: make_scorer(settings, source))
    gpus = settings.encoder is not None and settings.device in {None, "cuda"}
    cluster: dict[str, Any] = {"address": settings.address, "identity": scorer.identity, "gpus": gpus}
    return score_corpus_ray(source, out, factory, reading, **cluster, on_progress=on_progress, overwrite=overwrite)


def check_source(source: object) -> None:
    """Refuse what is neither text nor a path, and a text of nothing."""
    if not isinstance(source, str | Path):
        raise InputError(f"score takes a sentence or the path of a corpus, not {type(source).__name__}")
    if not str(source).strip():
        raise InputError("nothing to score: give a sentence in quotes, a corpus, or a directory that was scored")


def _score_counted(source: str | Path, run: ScoredDir, settings: ScoreSettings, **options: Any) -> CorpusScores:
    """Count the words of a corpus, then score it; its rows are parsed once, and the counts are kept for later steps."""
    counted = settings.counts or source
    with scratch(run) as folder:
        kept = KeptRows(folder) if settings.counts is None else None
        counts = WordCounts.count(corpus_texts(counted, None if kept is None else settings.columns, kept))
        stored = stored_settings(replace(settings, counts=counted))
        reading = ReadSettings(settings.columns, settings.batch, stored, kept)
        scored = score_corpus(source, run.path, make_scorer(settings, counts), reading, **options)
        with run.locked():
            run.write(COUNTS, counts.save)
    return scored


def stored_scorer(scored: CorpusScores, vectors: str | Path | None = None) -> tuple[AnyScorer | None, str]:
    """The scorer that a corpus was scored with, made again from scores.json; or None and why not.

    ``vectors`` are the word vectors if they are at another place now.
    """
    stored = scored.header.get(SCORER_SETTINGS)
    if not isinstance(stored, Mapping):
        return None, "scores.json does not say how the scorer was made"
    try:
        # What stands in a file is data: it names files, never code, and nothing is downloaded.
        encoder = stored.get("encoder")
        if encoder and parse_spec(str(encoder))[0] not in DATA_BACKENDS:
            return None, f"the encoder {encoder} is code, which is never imported because a file names it"
        file = scored.path / COUNTS
        counts = WordCounts.load(file) if file.is_file() else None
        scorer = make_scorer(ScoreSettings(**{**stored, **({"vectors": vectors} if vectors else {})}), counts)
    except (EvenliError, TypeError, KeyError) as error:
        return None, str(error)
    if scorer.identity != scored.header["scorer"]:
        return None, "the vectors or the encoder have changed since"
    return scorer, ""


def is_corpus(source: str) -> bool:
    """Whether a source names files, rather than being a sentence itself."""
    try:
        if Path(source).exists() or is_remote(source):
            return True
    except (OSError, ValueError):  # a long sentence is not a file name
        return False
    # A sentence may end in a question mark; a pattern with a space in it counts if there are such files.
    return glob.has_magic(source) and (" " not in source or bool(glob.glob(source, recursive=True)))  # noqa: PTH207


def balance_of(scored: CorpusScores) -> Balance:
    """Which way the rows of a scored corpus lean, in percent, and the shares of their labels."""
    counter = BalanceCounter(scored.columns)
    for frame in scored.gold_frames(counter.needs):
        counter.add(frame)
    return counter.balance()


class CorpusSummary(Record, frozen=True):
    """What a scored corpus holds.

    Attributes:
        folder: Where it is.
        header: Its scores.json, whose keys stand at the top in JSON.
        balance: Which way its rows lean, and their labels.
        top: The most biased sentences by side, with their scores.
        percentiles: Of the score of a row, the largest of its columns.
        method: Of the percentiles.
    """

    digits: ClassVar[int | None] = None

    folder: Path
    header: dict[str, Any]
    balance: Balance
    top: dict[str, list[tuple[float, str]]]
    percentiles: dict[str, float]
    method: str = "exact"

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = super().to_dict()
        header: dict[str, Any] = plain.pop("header")
        return header | plain

    @classmethod
    def from_dict(cls, content: Any) -> CorpusSummary:
        """Read what ``to_dict`` wrote."""
        own = {name: content[name] for name in cls.__struct_fields__ if name in content}
        header = {name: value for name, value in content.items() if name not in own}
        return super().from_dict({**own, "header": header})


def summarise(scored: CorpusScores | str | Path, top: int = 5) -> CorpusSummary:
    """Manifest, percentiles and the ``top`` most biased sentences of either side of a scored corpus."""
    scored = CorpusScores.read(scored)
    return CorpusSummary(
        folder=scored.path,
        header=dict(scored.header),
        balance=balance_of(scored),
        top=top_sentences(scored, top) if top else {},
        percentiles={f"{name:g}": value for name, value in thresholds(scored, PERCENTILES).items()},
    )


class DescribedDirection(NamedTuple):
    """What is known of a direction, and the files that it was written to."""

    summary: DirectionSummary | ContextualSummary
    files: list[Path]


def direction(
    vectors: str | Path | None = None,
    encoder: str | None = None,
    out: str | Path | None = None,
    settings: DirectionSettings | None = None,
) -> DescribedDirection:
    """Describe the gender direction of word vectors, or of an encoder in their place; ``evenli direction``.

    Args:
        vectors: File of word vectors.
        encoder: ``hf:ID``; its direction comes from sentences in two versions.
        out: Directory for direction.npz and the chart; for word vectors only.
        settings: Pairs, how many words, and how an encoder is loaded.
    """
    settings = settings or DirectionSettings()
    if encoder is not None:
        if vectors is not None or out is not None:
            raise InputError("an encoder (--encoder) cannot be combined with vectors (--vectors) or out (-o)")
        from evenli.corpus.contextual import describe_contextual
        from evenli.corpus.transformer import TransformerArgmax

        importance, device, online = settings.importance, settings.device, settings.online
        loaded = TransformerArgmax(encoder, device=device, online=online, importance=importance)
        return DescribedDirection(describe_contextual(loaded, settings.pairs), [])
    if vectors is None:
        raise InputError(_NOTHING)
    if out is not None:
        check_extra("report", "the plots of a direction")
    report = describe_direction(vectors, settings.pairs, count=settings.count, among=settings.among)
    if out is None:
        return DescribedDirection(report.summary, [])
    from evenli.corpus.pages import write_direction  # here: the charts load all that an audit needs

    return DescribedDirection(report.summary, write_direction(report.direction, report.vectors, out))
