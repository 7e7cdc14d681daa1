"""Training NLI classifiers, and exporting them. Needs the extra ``hf``."""

from evenli._extras import need

need("torch", extra="hf", purpose="training")

from evenli.training.export import ExportReport, export_onnx  # noqa: E402 - torch must be there first
from evenli.training.loop import Report, Trainer  # noqa: E402
from evenli.training.nli import Outcome, evaluate, train  # noqa: E402
from evenli.training.recipe import RECIPES, Recipe, make_recipe  # noqa: E402

__all__ = [
    "RECIPES",
    "ExportReport",
    "Outcome",
    "Recipe",
    "Report",
    "Trainer",
    "evaluate",
    "export_onnx",
    "make_recipe",
    "train",
]
