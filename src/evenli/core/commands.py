"""Options of commands: those of settings, and those that several share; groups of commands with a help in sections."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer
from typer.core import TyperGroup

from evenli.core.registry import SUITES
from evenli.core.settings import (
    LANGUAGES,
    Option,
    Settings,
    make_settings,
    offered_fields,
    option_of,
    settings_class,
    type_names,
)


class FullHelp(TyperGroup):
    """A group that lists its commands with whole descriptions; click would cut them with three dots."""

    sections: ClassVar[Mapping[str, Sequence[str]]] = {}
    """Names by title, in the order of the help; commands that stand nowhere come last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections."""
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        shown = {
            name: " ".join((command.short_help or command.help or "").split("\n\n")[0].split())
            for name, command in commands.items()
            if command and not command.hidden
        }
        titled = {title: [name for name in names if name in shown] for title, names in self.sections.items()}
        others = [name for name in shown if not any(name in names for names in titled.values())]
        width = max(map(len, shown), default=0)
        for title, names in {**titled, "Commands": others}.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), shown[name]) for name in names])


def option(text: str, *flags: str, **more: Any) -> Any:
    """An option that is no setting; ``more`` are attributes of ``Option``."""
    return typer_option(Option(text, flags, **more))


def typer_option(about: Option) -> Any:
    """An option for typer: choices are shown in the help, offered by the shell, and another text refused in a line."""

    # Not an enumeration of typer's: its refusal takes five lines, and the help would not show the open end.
    def check(parameter: typer.CallbackParam, given: Any) -> Any:
        if given is not None:
            about.check(parameter.opts[0], given)
        return given

    choices, more = list(about.choices), dict[str, Any]()
    if choices:
        known = "|".join(choices if about.closed else [*choices, "…"])
        more = {"autocompletion": lambda: choices, "metavar": f"[{known}]"}
        if about.closed and not about.names:
            more["callback"] = check
    if about.names:
        more["metavar"] = f"{about.names},{about.names},…"
    given = {"metavar": about.metavar, "min": about.minimum, "max": about.maximum}
    more |= {name: value for name, value in given.items() if value is not None}
    text = f"{about.help} Known: {', '.join(choices)}." if about.names else about.help
    return typer.Option(*about.flags, help=text, **more)


def with_settings(
    *,
    after: Mapping[str, Sequence[str]] | None = None,  # options by the one after which the help has them, out of turn
    texts: Mapping[str, str] | None = None,  # help of fields that has other words in this command
    bases: Mapping[str, Settings] | None = None,  # settings with the defaults, if not those of the annotation's class
    **only: Sequence[str],  # fields by parameter that the command has, if not all, in the order of its help
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Let a command take settings: typer is shown an option for each field in the place of the parameter."""

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        taken = inspect.signature(function, eval_str=True).parameters
        shown: dict[str, tuple[Settings | None, list[Field[Any]]]] = {}
        parameters: dict[str, inspect.Parameter] = {}
        for name, given in taken.items():
            if (kind := settings_class(given.annotation)) is None:
                # By keyword, so that a parameter without a default may follow one that has one.
                parameters[name] = given.replace(kind=inspect.Parameter.KEYWORD_ONLY)
                continue
            base = ((bases or {}).get(name) or kind()) if given.annotation is kind else None
            shown[name] = base, offered_fields(type(base) if base is not None else kind, only.get(name, ()))
            parameters |= {field.name: _parameter(field, base, texts or {}) for field in shown[name][1]}
        order = list(parameters)
        for name, followers in (after or {}).items():
            order = [parameter for parameter in order if parameter not in followers]
            place = order.index(name) + 1
            order[place:place] = followers

        def run(**given: Any) -> None:
            for name, (base, its_fields) in shown.items():
                values = {field: given.pop(field.name) for field in its_fields}
                if base is not None:
                    values = {field: _parsed(field, value) for field, value in values.items()}
                chosen = {field.name: value for field, value in values.items() if value is not None}
                given[name] = chosen if base is None else make_settings(type(base), chosen, base)
            function(**given)

        run.__name__, run.__doc__ = getattr(function, "__name__", "run"), function.__doc__
        # Typer looks at both: names and defaults come from the one, options from the other.
        run.__signature__ = inspect.Signature([parameters[name] for name in order])  # type: ignore[attr-defined]
        run.__annotations__ = {name: parameters[name].annotation for name in order}
        return run

    return decorated


def _parsed(field: Field[Any], given: Any) -> Any:
    """The value of a field; None where the command was not given one."""
    about = option_of(field)
    if given is None or (about.repeated and not given):
        return None
    return about.parse(given) if about.parse is not None else tuple(given) if about.repeated else given


_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "Path": Path}


def _parameter(field: Field[Any], base: Settings | None, texts: Mapping[str, str]) -> inspect.Parameter:
    """What typer is shown of a field: of several types that it may have the first that a command line can have."""
    about = option_of(field)
    about = replace(about, help=texts.get(field.name, about.help))
    # Fields of groups that are not there have their own defaults.
    default = None if base is None else getattr(base, field.name, field.default)
    kind: Any = next((_TYPES[name] for name in type_names(field) if name in _TYPES), str)
    if about.parse is not None:
        kind = bool if isinstance(about.shown, bool) else str
        default = about.shown if base is not None else None
    if kind is bool and not about.flags:
        about = replace(about, flags=(f"--{field.name.replace('_', '-')}",))
    if about.repeated:
        kind, default = list[int if "int" in str(field.type) else str], None  # type: ignore[misc]
    annotation: Any = Annotated[kind if default is not None else kind | None, typer_option(about)]
    return inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def suites(text: str) -> Any:
    """An option for the name of a suite, or of several; packages may bring more than ours."""
    return option(text, choices=tuple(SUITES.builtin), closed=False)


def argument(text: str) -> Any:
    """An argument with its help text."""
    return typer.Argument(help=text)


def output(text: str) -> Any:
    """The option for what is written, which every command calls alike."""
    return option(text, "--out", "-o")


def _page_file(path: Path | None) -> Path | None:
    if path is not None:
        from evenli.core.store import check_writable

        check_writable(path)
    return path


ModelArgument = Annotated[
    str | None,
    argument(
        "Hub id[@revision], checkpoint folder, onnx:FILE, py:module:function, chat:URL#MODEL, causal:FOLDER, "
        "fake:kind; default: embedded."
    ),
]
Encoder = Annotated[
    str,
    argument(
        "st:NAME, hf:ID or a folder, infersent:FOLDER[,VECTORS], onnx:FOLDER, vectors:FILE, mitigated:FOLDER "
        "or py:module:function."
    ),
]
Lang = Annotated[str, option("Language of the pairs.", choices=LANGUAGES, closed=False)]
Run = Annotated[Path, argument("Run folder of an audit.")]
RunFolder = Annotated[Path | None, output("Run folder; default: named by model, language, data.")]
Verbose = Annotated[bool, option("Print every table, too: measures, sets, occupations.", "--verbose", "-v")]
_HTML = typer.Option("--html", help="Also write a page for people to this .html file.", callback=_page_file)
Html = Annotated[Path | None, _HTML]
Json = Annotated[bool, option("Print machine-readable output only.", "--json")]
