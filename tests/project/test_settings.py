"""A setting is declared once: with help on the field, from which the command line and the Python call are made."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import evenli
from evenli.cli import app
from evenli.core.errors import InputError
from evenli.core.settings import (
    Settings,
    group,
    internal,
    known_names,
    make_settings,
    offered_fields,
    option_of,
    setting,
    settings_of,
)

SOURCE = Path(evenli.__file__).parent
MODULES = sorted({*SOURCE.rglob("settings.py"), *SOURCE.rglob("recipe.py"), SOURCE / "core" / "record.py"})
ELSEWHERE = {"axis", "device", "online", "seed"}
"""Fields that core declares; of a seed the range."""
SHARED = 3
"""Fields that two classes of a room may not both declare."""
COMMON = {"--help", "-h", "--json", "--out", "-o", "--verbose", "-v", "--overwrite", "--html", "--lang", "--seed"}
"""Options that many commands have and no class of settings."""
ARGUMENTS = {
    "audit": {"--data", "--suite", "--report"},
    "axis new": set(),
    "batch read": {"--data", "--suite"},
    "batch write": {"--data", "--suite", "--generated", "--answered"},
    "build dev2020": {"--words", "--determiner"},
    "card": {"--part", "--into", "--push"},
    "compare": {"--suite"},
    "data": {"--check"},
    "direction": {"--vectors", "--encoder"},
    "encoder-report": {"--data"},
    "onnx": {"--int8", "--check"},
    "evidence": {"--sign", "--policy"},
    "export": {"--as"},
    "gate": {"--fail-if", "--policy", "--baseline", "--max-worse", "--junit"},
    "meta": {"--measure", "--quick", "--stage"},
    "mitigate swap": {"--corpus"},
    "predict": {"--data"},
    "report": {"--charts"},
    "robustness": {"--data", "--charts"},
    "score": {"--published", "--chart", "--top"},
    "seat": {"--tests"},
    "senteval": {"--data", "--cache"},
    "table": {"--what", "--suite"},
    "train encoder": {"--data", "--vectors", "--dev"},
    "train nli": {"--data", "--dev", "--recipe"},
    "verify": {"--signer"},
    "view": {"--port", "--export", "--open"},
}
"""Options that are arguments of the call itself, as its data are, by command."""


def classes() -> list[type[Settings]]:
    for file in MODULES:
        importlib.import_module(".".join(("evenli", *file.relative_to(SOURCE).with_suffix("").parts)))
    found, waiting = [], [Settings]
    while waiting:
        children = waiting.pop().__subclasses__()
        found += [kind for kind in children if kind.__module__.startswith("evenli.")]
        waiting += children
    return sorted(dict.fromkeys(found), key=lambda kind: (kind.__module__, kind.__name__))


def declared(kind: type[Settings]) -> set[str]:
    """The fields that a class declares, but for those whose default it changes."""
    inherited = {one.name for base in kind.__mro__[1:] if base is not object for one in fields(base)}
    return {one.name for one in fields(kind)} - inherited


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_every_setting_has_help(kind: type[Settings]) -> None:
    for one in fields(kind):
        assert "group" in one.metadata or option_of(one).help.endswith((".", "?")), one.name


def test_no_two_classes_of_a_room_declare_the_same() -> None:
    assert len(classes()) > 20
    for first, second in combinations(classes(), 2):
        if first.__module__.split(".")[1] == second.__module__.split(".")[1]:
            both = declared(first) & declared(second) - ELSEWHERE
            assert len(both) < SHARED, (first.__name__, second.__name__, both)


def options() -> Iterator[tuple[str, Any]]:
    def walk(group: Any, path: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            if hasattr(command, "list_commands"):
                yield from walk(command, (*path, name))
            else:
                yield from ((" ".join((*path, name)), one) for one in command.params if one.param_type_name == "option")

    yield from walk(get_command(app), ())


def test_every_option_is_a_setting_or_an_argument_of_the_call() -> None:
    helps = {(one.name, option_of(one).help) for kind in classes() for one in offered_fields(kind)}
    names = {name for name, _ in helps}
    others: dict[str, set[str]] = {}
    for command, one in options():
        if one.name not in names and not COMMON.intersection(one.opts):
            others.setdefault(command, set()).add(one.opts[0])
    listed = {command: flags for command, flags in ARGUMENTS.items() if flags}
    assert {command: flags - listed.get(command, set()) for command, flags in others.items()} == {
        command: set() for command in others
    }


@dataclass(frozen=True)
class Inner(Settings):
    size: int = setting(2, "How large.", minimum=1, maximum=9)


@dataclass(frozen=True)
class Outer(Settings):
    kind: str = setting("a", "Which.", choices=("a", "b"))
    share: float | None = setting(None, "How much.", rule=(lambda share: share < 1, "less than 1"))
    note: str = internal("", "For Python.")
    inner: Inner = group(Inner)
    other: Inner | None = group(Inner, optional=True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "c"}, "choose a or b"),
        ({"size": 0}, "1 or more"),
        ({"size": 10}, "at most 9"),
        ({"size": 2.5}, "whole number"),
        ({"size": "2"}, "size is '2'"),
        ({"size": None}, "size is None"),
        ({"share": 1.0}, "less than 1"),
        ({"share": float("nan")}, "less than 1"),
        ({"sise": 1}, "no option 'sise'"),
    ],
)
def test_what_is_not_possible_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings_of(Outer, None, given, "the call")


def test_keyword_arguments_reach_groups_and_replace_fields() -> None:
    made = settings_of(Outer, None, {"kind": "b", "size": 3}, "the call")
    assert (made.kind, made.inner.size) == ("b", 3) and made.other == Inner(3)
    assert settings_of(Outer, made, {"share": 0.5}, "the call").inner.size == 3
    assert settings_of(Outer, None, {}, "the call") == Outer() and Outer().other is None
    assert make_settings(Outer, {"inner": Inner(4), "share": 0.1}).inner.size == 4
    assert known_names(Outer) == ["kind", "share", "note", "inner", "other", "size", "size"]
    assert made.changed("kind", "share") == {"kind": "b"}
    assert made.to_dict()["inner"] == {"size": 3}
    assert [one.name for one in offered_fields(Outer, ("share", "inner"))] == ["share", "size"]
