"""Fairer corpora from a scored one: drop the most biased pairs, add their mirror images, or both.

Dolci et al. 2023 make eight variants of SNLI: Sub97 to Sub90 drop the pairs whose score (the larger Abs of the two
sentences) lies above a percentile, Aug97 to Aug90 append the gender-swapped copy of these pairs. Ours adds the two
together, and for each a control in which chance picks the pairs, so that an effect of the size is not taken for one of
the choice. The folder they write is that of ``evenli.mitigate.written``.
"""

from __future__ import annotations

from pathlib import Path

from evenli.corpus.scored import CorpusScores
from evenli.corpus.shards import Scorer
from evenli.errors import InputError
from evenli.mitigate.plan import Method, Plan, ScoredRows
from evenli.mitigate.swap import Mode
from evenli.mitigate.written import FairerCorpus, Splitting, write_corpus


def subtract(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    split: Splitting = "auto",
    seed: int = 0,
    overwrite: bool = False,
) -> FairerCorpus:
    """Drop the pairs whose score lies strictly above the percentile.

    Args:
        scored: The scored corpus.
        out: The folder to write.
        percentile: Of the scores of all pairs with a gold label, 0 to 100.
        split: Sizes of the new split; None keeps one file in the old order. ``auto`` splits pairs 10,000/10,000/rest
            and leaves plain sentences in one file.
        seed: Of the shuffle.
        overwrite: Replace a corpus that is already in ``out``.
    """
    corpus = ScoredRows.load(scored, percentile)
    return write_corpus(corpus, Plan.dropping(corpus), out, split, seed, overwrite)


def augment(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    mode: Mode = "default",
    names: bool = True,
    split: Splitting = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Append the gender-swapped copy of each pair above the percentile; the label is kept.

    All sentences of the pair are swapped, also if only one exceeded the threshold. A pair in which nothing can be
    swapped gets no copy, every other one exactly one. Ids of copies end in ``-swapped``.

    Args:
        scored: The scored corpus.
        out: The folder to write.
        percentile: As in ``subtract``.
        mode: How to swap, see ``Swapper``; ``paper`` is that of Dolci et al.
        names: Whether first names are swapped too.
        split: As in ``subtract``.
        seed: Of the shuffle.
        scorer: Scores the copies for the card; without it the distribution after covers the old rows alone.
        overwrite: As in ``subtract``.
    """
    corpus = ScoredRows.load(scored, percentile)
    plan = Plan.mirroring(corpus, "augment", mode, names)
    return write_corpus(corpus, plan, out, split, seed, overwrite, scorer)


def combined(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    mode: Mode = "default",
    names: bool = True,
    split: Splitting = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Drop the pairs above the percentile and put their gender-swapped copies in their place, where there is one.

    The arguments are those of ``augment``.
    """
    corpus = ScoredRows.load(scored, percentile)
    plan = Plan.mirroring(corpus, "combined", mode, names)
    return write_corpus(corpus, plan, out, split, seed, overwrite, scorer)


def random_control(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    like: Method = "subtract",
    mode: Mode = "default",
    names: bool = True,
    split: Splitting = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Do what ``like`` does, with as many pairs dropped and copied, but let chance pick them.

    The pairs are drawn from all those with a gold label, whatever their score. The other arguments are those of
    ``augment``.
    """
    if like not in {"subtract", "augment", "combined"}:
        raise InputError(f"like '{like}' is unknown; choose subtract, augment or combined")
    corpus = ScoredRows.load(scored, percentile)
    plan = Plan.by_chance(corpus, like, mode, names, seed)
    return write_corpus(corpus, plan, out, split, seed, overwrite, scorer)
