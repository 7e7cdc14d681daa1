"""Options of a model, and measures of the user's own."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

from evenli.core import commands as shared
from evenli.core.commands import choice, option

if TYPE_CHECKING:
    from evenli.audit.models import ModelOptions


@dataclass(frozen=True)
class ModelFlags:
    """How a model is loaded and asked: the fields of ``ModelOptions`` and ``Prompting``."""

    labels: Annotated[
        str | None,
        option("Order of the model's outputs, e.g. entailment,neutral,contradiction.", metavar="LABEL,LABEL,LABEL"),
    ] = None
    device: shared.Device = None
    dtype: Annotated[
        str | None,
        choice("Numbers to compute in; default: bfloat16 on CUDA, else float32.", ("float32", "bfloat16", "float16")),
    ] = None
    max_length: Annotated[int, option("Longest input in tokens; longer pairs are truncated and counted.", min=8)] = 128
    token_budget: Annotated[int | None, option("Tokens per batch; default by device.", min=1)] = None
    online: shared.Online = False
    allow_pickle: Annotated[
        bool, option("Accept pickle checkpoints; they can run code when loaded.", "--allow-pickle")
    ] = False
    prompts: Annotated[int, option("Wordings in which a language model is asked.", min=1)] = 3
    orders: Annotated[int, option("Orders of the options for a language model: 3 (cyclic) or 6 (all).")] = 3
    concurrency: Annotated[int, option("Requests to a chat server at a time.", min=1)] = 8
    samples: Annotated[int, option("Answers per question, where a chat server gives no log-probabilities.", min=1)] = 5
    price: Annotated[
        str | None, option("What a million tokens cost: for the estimate and --max-cost.", metavar="PROMPT,ANSWER")
    ] = None
    max_cost: Annotated[float | None, option("Ask nothing beyond this cost; needs --price.", min=0)] = None
    calibrate: Annotated[
        bool, option("Divide a language model's answers by those to sentences that say nothing.", "--calibrate")
    ] = False

    def options(self) -> ModelOptions:
        """The same for the library."""
        from evenli.audit.models import ModelOptions, Prompting

        given = asdict(self) | {"labels": shared.split_names(self.labels), "price": shared.prices(self.price)}
        asking = Prompting(**{field.name: given.pop(field.name) for field in fields(Prompting)})
        return ModelOptions(**given, prompting=asking)


def own_measures(specs: list[str] | None) -> tuple[Any, ...]:
    """Functions named on the command line; only what the user types is ever imported, never what a file says."""
    from evenli.core.extras import import_object
    from evenli.stats.measure import as_measure

    return tuple(as_measure(import_object(spec, "--measure"), name=spec.partition(":")[2]) for spec in specs or [])
