"""How our leaderboard is made: stored answers of many models, and rows over words, templates and seeds."""
