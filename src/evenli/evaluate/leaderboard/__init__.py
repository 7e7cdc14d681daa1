"""A leaderboard of models: rows with intervals, their ranks, and submissions. ``tools/leaderboard.py`` makes ours."""

from evenli.evaluate.leaderboard.board import Board as Board
from evenli.evaluate.leaderboard.board import BoardRow as BoardRow
from evenli.evaluate.leaderboard.board import rank_groups as rank_groups
from evenli.evaluate.leaderboard.board import read_board as read_board
from evenli.evaluate.leaderboard.board import write_board as write_board
from evenli.evaluate.leaderboard.submit import submit_run as submit_run
