"""Asking a model: plan batches, score them crash-safely, keep one table."""

from evenli.predictions.engine import Progress, predict
from evenli.predictions.run import RunFolder
from evenli.predictions.table import Predictions

__all__ = ["Predictions", "Progress", "RunFolder", "predict"]
