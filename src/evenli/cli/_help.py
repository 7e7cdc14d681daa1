"""The help of a group of commands: in sections, every description in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperGroup


class FullHelp(TyperGroup):
    """A group that lists its commands with whole descriptions; click would cut them with three dots."""

    sections: Mapping[str, Sequence[str]] = {}
    """Names by title, in the order of the help; commands that stand nowhere come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {name: describe(command) for name, command in commands.items() if command and not command.hidden}
        titled = {title: [name for name in names if name in shown] for title, names in self.sections.items()}
        others = [name for name in shown if not any(name in names for names in titled.values())]
        width = max(map(len, shown), default=0)
        for title, names in {**titled, "Commands": others}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), shown[name]) for name in names])


def describe(command: Any) -> str:
    """The first paragraph of a command's help, on one line."""
    text = command.short_help or command.help or ""
    return " ".join(str(text).split("\n\n")[0].split())
