"""What typer lacks: options that several commands take together, and groups whose help is in sections."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, get_type_hints

from typer.core import TyperGroup


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
