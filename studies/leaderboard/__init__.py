"""A leaderboard of models: rows with intervals, their ranks, submissions and the page."""
