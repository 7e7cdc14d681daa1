"""SentEval: how good embeddings are as features, on twelve tasks (Conneau and Kiela 2018)."""

from evenli.evaluate.senteval.run import (
    ResultFile,
    SentEvalResult,
    SentEvalSettings,
    TaskProgress,
    TaskResult,
    UnsavedResultError,
    senteval,
)

__all__ = ["ResultFile", "SentEvalResult", "SentEvalSettings", "TaskProgress", "TaskResult", "UnsavedResultError"]
__all__ += ["senteval"]
