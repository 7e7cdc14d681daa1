"""SentEval: how good an encoder's embeddings are as features, on twelve tasks (Conneau and Kiela 2018)."""

from evenli.datasets.senteval import TASKS
from evenli.encoders.senteval.lockstep import Recipe
from evenli.encoders.senteval.results import SentEvalResult, TaskResult
from evenli.encoders.senteval.stored import ResultFile
from evenli.encoders.senteval.tasks import CLASSIFIERS, run_senteval

__all__ = ["CLASSIFIERS", "TASKS", "Recipe", "ResultFile", "SentEvalResult", "TaskResult", "run_senteval"]
