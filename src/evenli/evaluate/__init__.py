"""Evaluation: audits, comparisons, association tests, leakage and SentEval."""
