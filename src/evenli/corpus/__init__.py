"""The bias score of sentences and corpora (Dolci et al. 2023)."""

from evenli.corpus.scored import CorpusScores
from evenli.corpus.scoring import ScoreSettings, make_scorer, score, score_sentence

__all__ = ["CorpusScores", "ScoreSettings", "make_scorer", "score", "score_sentence"]
