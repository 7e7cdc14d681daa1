"""What typer lacks: groups whose help is in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

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
