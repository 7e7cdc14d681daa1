"""Models: anything that gives three logits for a premise and a hypothesis."""

from evenli.audit.models.base import ModelInfo as ModelInfo
from evenli.audit.models.base import ModelOptions as ModelOptions
from evenli.audit.models.base import ModelRequest as ModelRequest
from evenli.audit.models.base import NLIModel as NLIModel
from evenli.audit.models.base import OutOfMemory as OutOfMemory
from evenli.audit.models.base import Prepared as Prepared
from evenli.audit.models.base import Prompting as Prompting
from evenli.audit.models.base import load_model as load_model
from evenli.audit.models.callables import CallableModel as CallableModel
from evenli.audit.models.callables import fake_model as fake_model
from evenli.audit.models.onnx import embedded_models as embedded_models
