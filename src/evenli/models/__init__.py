"""Models: anything that gives three logits for a premise and a hypothesis."""

from evenli.models.base import ModelInfo, ModelOptions, ModelRequest, NLIModel, OutOfMemory, Prepared
from evenli.models.callables import CallableModel
from evenli.models.embedded import embedded_models
from evenli.models.fakes import fake_model
from evenli.models.spec import load_model

__all__ = [
    "CallableModel",
    "ModelInfo",
    "ModelOptions",
    "ModelRequest",
    "NLIModel",
    "OutOfMemory",
    "Prepared",
    "embedded_models",
    "fake_model",
    "load_model",
]
