"""Simulated models on the real design, for tools/coverage.py."""
