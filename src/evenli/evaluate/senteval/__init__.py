"""SentEval: how good embeddings are as features, on twelve tasks (Conneau and Kiela 2018)."""

from evenli.evaluate.senteval.results import SentEvalResult, SentEvalSettings, TaskResult
from evenli.evaluate.senteval.run import TaskProgress, senteval
from evenli.evaluate.senteval.stored import ResultFile, UnsavedResultError

__all__ = ["ResultFile", "SentEvalResult", "SentEvalSettings", "TaskProgress", "TaskResult", "UnsavedResultError"]
__all__ += ["senteval"]
