"""A leaderboard of models: stored answers of many, rows with intervals over words, templates and seeds, submissions."""

from evenli.evaluate.leaderboard.answers import Answers, expand, quantise, read_answers, score_answers, write_answers
from evenli.evaluate.leaderboard.board import Board, BoardRow, published_rows, rank_groups, read_board, write_board
from evenli.evaluate.leaderboard.seeds import contrast, pool_seeds, seed_variance
from evenli.evaluate.leaderboard.submit import submit_run

__all__ = [
    "Answers",
    "Board",
    "BoardRow",
    "contrast",
    "expand",
    "pool_seeds",
    "published_rows",
    "quantise",
    "rank_groups",
    "read_answers",
    "read_board",
    "score_answers",
    "seed_variance",
    "submit_run",
    "write_answers",
    "write_board",
]
