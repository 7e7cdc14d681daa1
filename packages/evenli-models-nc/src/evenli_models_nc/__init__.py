"""Japanese and Chinese models for evenli, for research only; see the file LICENSE."""

from pathlib import Path

MODELS = Path(__file__).parent / "models"
"""A directory for each model, with weights, tokenizer, configuration and card."""
