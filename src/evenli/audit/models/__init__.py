"""Models: anything that gives three logits for a premise and a hypothesis."""

from evenli.audit.models.base import (
    ModelInfo,
    ModelOptions,
    ModelRequest,
    NLIModel,
    OutOfMemory,
    Prepared,
    Prompting,
    load_model,
)
from evenli.audit.models.callables import CallableModel
from evenli.audit.models.fakes import fake_model
from evenli.audit.models.onnx import embedded_models

__all__ = [
    "CallableModel",
    "ModelInfo",
    "ModelOptions",
    "ModelRequest",
    "NLIModel",
    "OutOfMemory",
    "Prepared",
    "Prompting",
    "embedded_models",
    "fake_model",
    "load_model",
]
