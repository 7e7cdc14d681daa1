"""Training NLI classifiers, and exporting them. Needs the extra ``hf``."""

from evenli._extras import need

need("torch", extra="hf", purpose="training")

from evenli.training.export import ExportReport, export_checked, export_onnx  # noqa: E402 - torch must be there first
from evenli.training.loop import Trainer  # noqa: E402
from evenli.training.nli import Outcome, TrainSettings, evaluate, train  # noqa: E402
from evenli.training.progress import Report  # noqa: E402
from evenli.training.recipe import RECIPES, Recipe, make_recipe  # noqa: E402

__all__ = [
    "RECIPES",
    "ExportReport",
    "Outcome",
    "Recipe",
    "Report",
    "TrainSettings",
    "Trainer",
    "evaluate",
    "export_checked",
    "export_onnx",
    "make_recipe",
    "train",
]
