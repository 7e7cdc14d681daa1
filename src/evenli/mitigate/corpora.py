"""Fairer corpora from a scored one: drop the most biased pairs, add their mirror images, or both.

Dolci et al. 2023 make eight variants of SNLI: Sub97 to Sub90 drop the pairs whose score (the larger Abs of the two
sentences) lies above a percentile, Aug97 to Aug90 append the gender-swapped copy of these pairs. evenli adds the two
together, and for each a random control with as many changed pairs, so that an effect of the size of the corpus is not
taken for one of the choice. ``evenli.mitigate.written`` describes the output directory.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import get_args

from evenli.corpus.scored import CorpusScores
from evenli.corpus.shards import Scorer
from evenli.errors import InputError
from evenli.mitigate.plan import CorpusSettings, Method, Plan, ScoredRows
from evenli.mitigate.written import FairerCorpus, write_corpus


def subtract(
    scored: CorpusScores | str | Path, out: str | Path, settings: CorpusSettings, *, overwrite: bool = False
) -> FairerCorpus:
    """Drop the pairs whose score lies strictly above the percentile.

    Args:
        scored: The scored corpus.
        out: The output directory.
        settings: Percentile, split and seed.
        overwrite: Replace a corpus that is already in ``out``.
    """
    return _by_score("subtract", scored, out, settings, None, overwrite)


def augment(
    scored: CorpusScores | str | Path,
    out: str | Path,
    settings: CorpusSettings,
    *,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Append the gender-swapped copy of each pair above the percentile; the label is kept.

    All sentences of the pair are swapped, also if only one exceeded the threshold. A pair in which nothing can be
    swapped gets no copy, every other one exactly one. Ids of copies end in ``-swapped``.

    Args:
        scored: The scored corpus.
        out: The output directory.
        settings: Percentile, how to swap, split and seed.
        scorer: Scores the copies for the card; without it the distribution after covers the old rows alone.
        overwrite: Replace a corpus that is already in ``out``.
    """
    return _by_score("augment", scored, out, settings, scorer, overwrite)


def combined(
    scored: CorpusScores | str | Path,
    out: str | Path,
    settings: CorpusSettings,
    *,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Replace the pairs above the percentile by their gender-swapped copies; the arguments are those of ``augment``."""
    return _by_score("combined", scored, out, settings, scorer, overwrite)


def random_control(
    scored: CorpusScores | str | Path,
    out: str | Path,
    settings: CorpusSettings,
    *,
    like: Method = "subtract",
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Do what ``like`` does, with as many pairs dropped and copied, but pick them at random.

    The pairs are drawn from all those with a gold label, whatever their score. The other arguments are those of
    ``augment``.
    """
    if like not in get_args(Method):
        raise InputError(f"like '{like}' is unknown; choose {', '.join(get_args(Method))}")
    corpus = ScoredRows.load(scored, settings.percentile)
    return write_corpus(corpus, out, settings, partial(Plan.by_chance, corpus, like, settings), scorer, overwrite)


def _by_score(
    method: Method,
    scored: CorpusScores | str | Path,
    out: str | Path,
    settings: CorpusSettings,
    scorer: Scorer | None,
    overwrite: bool,
) -> FairerCorpus:
    corpus = ScoredRows.load(scored, settings.percentile)
    return write_corpus(corpus, out, settings, partial(Plan.by_score, corpus, method, settings), scorer, overwrite)
