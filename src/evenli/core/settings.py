"""Settings, declared once: a field has a default, its help, its range and its choices.

Keyword arguments of the Python call, options of the command and what a run stores are made from the fields. A module of
settings loads no numerics, because the command line reads it for its help.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields, replace
from dataclasses import field as make_field
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from evenli.core.errors import InputError

T = TypeVar("T")
Kind = TypeVar("Kind", bound="Settings")
Rule = tuple[Callable[[Any], bool], str]  # whether a value is possible, and which would be


@dataclass(frozen=True)
class Option:
    """What is known of a setting beside its type and default, or of an option of a command."""

    help: str  # one line
    flags: tuple[str, ...] = ()  # spellings on the command line; default: the name with hyphens
    minimum: float | None = None
    maximum: float | None = None
    choices: Sequence[str] = ()  # texts that are possible
    closed: bool = True  # whether other texts are refused; else the choices are offered only
    names: str = ""  # what one of several names with commas is called, as in TEST; the help lists the choices then
    metavar: str | None = None  # how a value is shown in the help
    rule: Rule | None = None  # a condition beyond range and choices
    parse: Callable[[Any], Any] | None = None  # value of the command line to value of the setting
    shown: Any = None  # default on the command line, where ``parse`` makes another value of it
    repeated: bool = False  # whether the option is repeated for several values
    offered: bool = True  # whether the command line has it

    def check(self, name: str, value: Any, *, whole: bool = False) -> None:
        """Refuse a value that is not possible; ``whole`` wants a whole number."""
        for each in value if isinstance(value, list | tuple) else [value]:
            if self.choices and self.closed and not self.names and not callable(each) and each not in self.choices:
                raise InputError(f"{name} '{each}' is unknown; choose {listed(self.choices)}")
            if not self._is_in_range(each, whole):
                ends = (self.minimum, "{:,.15g} or more"), (self.maximum, "at most {:,.15g}")
                expected = " and ".join(text.format(end) for end, text in ends if end is not None)
                raise InputError(f"{name} is {each!r}; expected {'a whole number, ' if whole else ''}{expected}")
        if self.rule is not None and not self.rule[0](value):
            raise InputError(f"{name} is {value!r}; expected {self.rule[1]}")

    def _is_in_range(self, value: Any, whole: bool) -> bool:
        if self.minimum is None and self.maximum is None:
            return True
        try:
            number = operator.index(value) if whole else value
            return (self.minimum is None or number >= self.minimum) and (self.maximum is None or number <= self.maximum)
        except TypeError:
            return False


def listed(values: Sequence[str]) -> str:
    """The values as a sentence names them.

    >>> listed(["a", "b", "c"]), listed(["a"])
    ('a, b or c', 'a')
    """
    return " or ".join(filter(None, [", ".join(values[:-1]), values[-1]]))


def setting(default: T, help: str, *flags: str, **more: Any) -> T:
    """A field of a class of settings; ``more`` are attributes of ``Option``."""
    about = {"option": Option(help, flags, **more)}
    if isinstance(default, dict):
        return cast(T, make_field(default_factory=default.copy, metadata=about))
    return make_field(default=default, metadata=about)


def internal(default: T, help: str, **more: Any) -> T:
    """A setting that only Python has."""
    return setting(default, help, offered=False, **more)


def with_default(kind: type[Settings], name: str, default: T, **changes: Any) -> T:
    """A field of a base class with another default, and other attributes of its ``Option``."""
    option = replace(option_of(kind.__dataclass_fields__[name]), **changes)
    return make_field(default=default, metadata={"option": option})


def group(kind: Callable[[], T], *, optional: bool = False) -> T:
    """A field with settings of its own; keyword arguments and the command line name those directly.

    With ``optional`` it is None where none of them is given.
    """
    made: Any = {"default": None} if optional else {"default_factory": kind}
    return cast(T, make_field(**made, metadata={"group": kind}))


@dataclass(frozen=True)
class Settings:
    """Base of the frozen dataclasses of settings."""

    def __post_init__(self) -> None:
        """Refuse values that are not possible."""
        for field in own_fields(type(self)):
            value, types = getattr(self, field.name), type_names(field)
            if value is not None or "None" not in types:
                option_of(field).check(field.name, value, whole="int" in types and "float" not in types)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as a run stores them."""
        return asdict(self)

    def changed(self, *names: str) -> dict[str, Any]:
        """The named settings that are not at their defaults."""
        kind = type(self)
        return {name: value for name in names if (value := getattr(self, name)) != getattr(kind, name)}


def option_of(field: Field[Any]) -> Option:
    """What is known of a field."""
    return cast(Option, field.metadata["option"])


def type_names(field: Field[Any]) -> list[str]:
    """The types of a field, as they are written."""
    text = field.type if isinstance(field.type, str) else getattr(field.type, "__name__", str(field.type))
    return [name.strip() for name in text.split("|")]


def own_fields(kind: type[Settings]) -> list[Field[Any]]:
    """The fields of a class but for groups."""
    return [field for field in fields(kind) if "option" in field.metadata]


def groups_of(kind: type[Settings]) -> dict[str, type[Settings]]:
    """The groups of a class by field."""
    return {field.name: field.metadata["group"] for field in fields(kind) if "group" in field.metadata}


def known_names(kind: type[Settings]) -> list[str]:
    """All names of keyword arguments: own fields, groups, fields of groups."""
    inner = [name for group in groups_of(kind).values() for name in known_names(group)]
    return [field.name for field in fields(kind)] + inner


def make_settings(kind: type[Kind], given: Mapping[str, Any], base: Kind | None = None) -> Kind:
    """Settings from values by name, those of groups included; the others are those of ``base`` or the defaults."""
    own = {name: value for name, value in given.items() if name in kind.__dataclass_fields__}
    for name, inner in groups_of(kind).items():
        if values := {key: given[key] for key in known_names(inner) if key in given and key not in own}:
            own[name] = make_settings(inner, values, own.get(name) or getattr(base, name, None))
    return kind(**own) if base is None else replace(base, **own)


class Given(dict[str, Any], Generic[Kind]):
    """Some fields of a class of settings by name: those that a command was given."""


def settings_class(annotation: Any) -> type[Settings] | None:
    """The class of settings that a parameter takes, whole or some fields of it; None for other parameters."""
    kind = get_args(annotation)[0] if get_origin(annotation) is Given else annotation
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else None


def offered_fields(kind: type[Settings], only: Sequence[str] = ()) -> list[Field[Any]]:
    """The fields that the command line has, or some of them, those of groups in the place of the group."""
    known = {field.name: field for field in fields(kind)}
    offered: list[Field[Any]] = []
    for field in map(known.__getitem__, only or known):
        if "group" in field.metadata:
            offered += offered_fields(field.metadata["group"])
        elif option_of(field).offered:
            offered.append(field)
    return offered


def settings_of(kind: type[Kind], settings: Kind | None, given: Mapping[str, Any], what: str, *further: str) -> Kind:
    """The settings of a call: an object, with fields replaced by keyword arguments, of which unknown ones are refused.

    ``what`` has the settings, and ``further`` are names that the caller has taken out of ``given``: for the message.
    """
    known = known_names(kind)
    unknown = sorted(given.keys() - set(known))
    if unknown:
        raise InputError(f"{what} has no option '{unknown[0]}'; it has {', '.join([*known, *further])}")
    return make_settings(kind, given, settings)


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Names with commas between them; None where the option was not given."""
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


LANGUAGES = ("en", "ja", "zh")
DEVICES = ("cpu", "cuda", "mps")
# Named here so that the help reads no file; a test compares them with what is shipped.
AXES = (
    *("age", "ethnicity", "gender", "gender3", "gender3_neo", "gender3_they", "gender_nationality", "nationality"),
    *("pronouns", "religion"),
)
PAIR_LISTS = ("ten", "long", "ja", "zh")
"""Shipped pairs of a direction: the ten definitional pairs and the 48 equalize pairs that are single words."""
SEEDS: dict[str, Any] = {"minimum": 0, "maximum": 2**32 - 1}  # what every library takes as a seed


def device_setting() -> str | None:
    """The device of a computation."""
    return setting(
        None,
        "Where to compute, also as cuda:1; default: the fastest there is.",
        metavar=f"[{'|'.join(DEVICES)}]",
        choices=DEVICES,
        closed=False,
        rule=(lambda device: str(device).partition(":")[0] in DEVICES, listed(DEVICES)),
    )


def online_setting() -> bool:
    """Whether the network is used."""
    text = "Download from the hub what its local cache lacks; otherwise nothing is asked."
    return setting(False, text, "--online/--offline")


def axis_setting() -> Any:
    """A social axis."""
    text = f"Social axis: {', '.join(AXES)}, one of a package, or the path of a TOML file."
    return setting("gender", text, metavar="AXIS", choices=AXES, closed=False)
