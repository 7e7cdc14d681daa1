"""Options that several commands take together: one dataclass each, which typer sees as single options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Any, get_type_hints

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.models import ModelOptions


@dataclass(frozen=True)
class ModelFlags:
    """How a model is loaded and asked."""

    labels: shared.Labels = None
    device: shared.Device = None
    dtype: shared.Dtype = None
    max_length: shared.MaxLength = 128
    token_budget: shared.TokenBudget = None
    online: shared.Online = False
    allow_pickle: shared.AllowPickle = False
    prompts: shared.Prompts = 3
    orders: shared.Orders = 3
    concurrency: shared.Concurrency = 8
    samples: shared.Samples = 5
    price: shared.Price = None
    max_cost: shared.MaxCost = None
    calibrate: shared.Calibrate = False

    def options(self) -> ModelOptions:
        """The same for the library."""
        from evenli.models import ModelOptions, Prompting

        asking = (self.prompts, self.orders, self.concurrency, self.samples, shared.prices(self.price), self.max_cost)
        return ModelOptions(
            shared.split_names(self.labels),
            self.device,
            self.dtype,
            self.max_length,
            self.token_budget,
            online=self.online,
            allow_pickle=self.allow_pickle,
            prompting=Prompting(*asking, calibrate=self.calibrate),
        )


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take dataclasses of options: typer is shown their fields in the place of the parameter."""
    parameters: list[inspect.Parameter] = []
    groups: dict[str, Any] = {}
    for given in inspect.signature(function, eval_str=True).parameters.values():
        if not is_dataclass(given.annotation):
            parameters.append(given.replace(kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        groups[given.name] = given.annotation
        hints = get_type_hints(given.annotation, include_extras=True)
        for field in fields(given.annotation):
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name]))

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
