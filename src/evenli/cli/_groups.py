"""What typer lacks: options that several commands take together, and groups whose help is in sections."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

from typer.core import TyperGroup

from evenli.cli import _shared as shared
from evenli.cli._shared import choice, option

if TYPE_CHECKING:
    from evenli.models import ModelOptions


class FullHelp(TyperGroup):
    """A group that lists its commands with whole descriptions; click would cut them with three dots."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names by title, in the order of the help; commands that stand nowhere come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: _described(command) for name, command in commands.items() if command and not command.hidden}
        titled = {title: [name for name in names if name in shown] for title, names in self.sections.items()}
        others = [name for name in shown if not any(name in names for names in titled.values())]
        width = max(map(len, shown), default=0)
        for title, names in {**titled, "Commands": others}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), shown[name]) for name in names])


def _described(command: Any) -> str:
    text = command.short_help or command.help or ""
    return " ".join(str(text).split("\n\n")[0].split())


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
        from evenli.models import ModelOptions, Prompting

        given = asdict(self) | {"labels": shared.split_names(self.labels), "price": shared.prices(self.price)}
        asking = Prompting(**{field.name: given.pop(field.name) for field in fields(Prompting)})
        return ModelOptions(**given, prompting=asking)


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
            # By keyword, so that a parameter without a default may follow one that has one.
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name]))

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        function(**given)

    run.__name__, run.__doc__, run.__module__ = function.__name__, function.__doc__, function.__module__
    return signed(run, parameters)


def signed(function: Callable[..., None], parameters: Sequence[inspect.Parameter]) -> Callable[..., None]:
    """Give a function of keywords the signature that typer shall read."""
    # Typer looks at both: names and defaults come from the one, options from the other.
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function
