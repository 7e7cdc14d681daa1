"""Results: immutable values with one way to JSON and back, and a JSON Schema made from their types.

Among them an estimate with its interval, and the card of the measure behind it.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_type_hints

import msgspec

from evenli.core.errors import InputError, RunError, translated
from evenli.core.format import interval, number, printable
from evenli.core.io import DIGITS, to_plain
from evenli.core.settings import Settings, internal, setting
from evenli.core.store import stamp

if TYPE_CHECKING:
    Number = float
    Numbers = dict[str, float]
else:
    # The forms in JSON; __post_init__ turns null into NaN. A field of ``float | None`` keeps its None.
    Number = Annotated[float | None, "undefined is NaN"]
    Numbers = Annotated[dict[str, float | None], "undefined is NaN"]

Self = TypeVar("Self", bound="Record")


class RecordError(RunError):
    """Plain values that are not those of a record."""


class Record(msgspec.Struct, frozen=True):
    """Base of all results. What a class says about its JSON form stands in class variables."""

    digits: ClassVar[int | None] = DIGITS  # decimals of floats; None keeps all of them
    optional: ClassVar[tuple[str, ...]] = ()  # fields that are left out where they are empty
    # Further keys and the properties behind them; they are written, and ignored when they are read.
    computed: ClassVar[Mapping[str, str]] = {}
    extensible: ClassVar[bool] = False  # whether a file may hold further keys
    stamped: ClassVar[str] = ""  # what a file that holds only this record is called, beside schema and version
    schema: ClassVar[int] = 1  # version of such a file
    printed: ClassVar[tuple[str, ...]] = ()  # texts that people see, whoever wrote them: no control characters

    def __post_init__(self) -> None:
        """Undefined numbers are NaN in Python."""
        # By force, since records are frozen: nobody has seen this one yet.
        for name in self.printed:
            text = getattr(self, name)
            clean = printable(text) if isinstance(text, str) else [printable(part) for part in text]
            msgspec.structs.force_setattr(self, name, clean)
        for name in _numbers(type(self)):
            value = getattr(self, name)
            if value is None:
                msgspec.structs.force_setattr(self, name, math.nan)
            elif isinstance(value, dict):
                defined = {key: math.nan if item is None else item for key, item in value.items()}
                msgspec.structs.force_setattr(self, name, defined)

    def stored_fields(self) -> dict[str, Any]:
        """What is written: fields but for empty optional ones, and computed properties. ``to_plain`` asks for it."""
        values = msgspec.structs.asdict(self) | {key: getattr(self, name) for key, name in self.computed.items()}
        return {name: value for name, value in values.items() if name not in self.optional or not _is_empty(value)}

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON: floats rounded, undefined ones null."""
        return {**(stamp(self.stamped, self.schema) if self.stamped else {}), **to_plain(self, self.digits)}

    @classmethod
    def from_dict(cls: type[Self], content: Any) -> Self:
        """Read what ``to_dict`` wrote; anything else is refused with the place of the first fault."""
        with translated(f"not a {cls.__name__}: ", into=RecordError, kinds=(msgspec.ValidationError, InputError)):
            return msgspec.convert(content, cls, dec_hook=_restore)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """JSON Schema (2020-12) of what ``to_dict`` gives."""
        _, definitions = json_schemas([cls])
        root = definitions.pop(cls.__name__)
        if cls.stamped:
            root["properties"] |= {"schema": {"type": "integer"}, "evenli": {"type": "string"}}
            root["properties"]["kind"] = {"const": cls.stamped}
            root["required"] += ["schema", "evenli", "kind"]
        return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


def _is_empty(value: Any) -> bool:
    return value is None or (hasattr(value, "__len__") and not len(value))


@cache
def _numbers(kind: type) -> tuple[str, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(name for name in kind.__struct_fields__ if hints[name] in (Number, Numbers))  # type: ignore[attr-defined]


def _restore(kind: Any, value: Any) -> Any:
    """A path or an array from its plain form."""
    if kind is Path:
        return Path(value)
    import numpy as np

    return np.array(value, dtype=np.float64)


def json_schemas(kinds: list[type], further: tuple[type, ...] = ()) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """References to the schemas of records or other types that msgspec knows, and all definitions that they need.

    Every object is closed, demands its keys and takes descriptions from the docstring of its class; so do the types
    ``further``, which are no records.
    """
    references, definitions = _components(kinds)
    known = {kind.__name__: kind for kind in (*_records(Record), *further)}
    waiting = list(definitions)
    # Computed keys bring types that no field has, and those may have computed keys of their own.
    while waiting:
        name = waiting.pop()
        more = _describe(definitions[name], known[name]) if name in known else {}
        waiting += more.keys() - definitions.keys()
        definitions = more | definitions
    return references, definitions


def _components(kinds: list[Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    def hook(kind: Any) -> dict[str, Any]:
        return {"type": "string" if kind is Path else "array"}

    return msgspec.json.schema_components(kinds, schema_hook=hook, ref_template="#/$defs/{name}")


def _records(kind: type) -> list[type]:
    children: list[type] = kind.__subclasses__()
    return [record for child in children for record in (child, *_records(child))]


def _describe(schema: dict[str, Any], kind: Any) -> dict[str, Any]:
    """Complete a schema; returns definitions that its computed keys need."""
    needed: dict[str, Any] = {}
    texts: dict[str, str] = {}
    # A class describes only the fields that it adds; the others are described where they come from.
    for parent in reversed(kind.__mro__):
        texts |= dict(re.findall(r"^    (\w+): (.+(?:\n        .+)*)", inspect.getdoc(parent) or "", re.MULTILINE))
    schema["description"] = (inspect.getdoc(kind) or "").partition("\n\nAttributes:")[0]
    for key, name in getattr(kind, "computed", {}).items():
        getter = inspect.getattr_static(kind, name).fget
        (schema["properties"][key],), more = _components([get_type_hints(getter)["return"]])
        needed |= more
        texts[key] = inspect.getdoc(getter) or ""
    schema["additionalProperties"] = getattr(kind, "extensible", False)
    schema["required"] = [name for name in schema["properties"] if name not in getattr(kind, "optional", ())]
    for name, entry in schema["properties"].items():
        entry.pop("default", None)
        if name in texts:
            entry["description"] = " ".join(texts[name].split())
    return needed


@dataclass(frozen=True)
class Scoring(Settings):
    """Settings of the scoring step; none of them asks the model again.

    Attributes:
        level: Coverage of the intervals.
        published: Whether our own measures keep words that state a group, as published ones do.
    """

    level: float = internal(
        0.95, "Coverage of the intervals.", rule=(lambda level: 0 < level < 1, "a number between 0 and 1, like 0.95")
    )
    published: bool = setting(False, "Count words that state a gender, such as businessman, in the causes, too.")


class Estimate(Record, frozen=True):
    """A value, its interval and what it rests on.

    Attributes:
        value: The number; NaN where it is undefined.
        low: Lower end of the interval.
        high: Upper end.
        se: Standard error.
        level: Coverage of the interval.
        n: Rows it is computed from.
        clusters: How many occupations and templates those rows come from.
        note: Why the value or the interval is undefined, or empty.
        p: Two-sided p of the hypothesis that the true value is 0, for a value that may lie on either side of it.
    """

    value: Number
    low: Number
    high: Number
    se: Number
    level: float
    n: int
    clusters: dict[str, int] = {}
    note: str = ""
    p: Number = math.nan

    @classmethod
    def undefined(cls, note: str, level: float = 0.95, n: int = 0) -> Estimate:
        """No value, and why."""
        return Estimate(math.nan, math.nan, math.nan, math.nan, level, n, {}, note)

    @property
    def shown(self) -> str:
        """The number with its interval, for people."""
        if math.isnan(self.value):
            return "n/a"
        ends = "(no interval)" if math.isnan(self.low) else interval(self.low, self.high)
        return f"{number(self.value)} {ends}"

    def __repr__(self) -> str:
        return self.shown


class MeasureResult(Estimate, frozen=True, kw_only=True):
    """An estimate with the card of its measure.

    Attributes:
        title: Name for people.
        formula: Definition in the symbols of the paper.
        range: Smallest and largest possible value.
        ideal: Value of a model that treats groups evenly and is right.
        direction: What a larger value means.
        reference: Paper.
        kind: ``extrinsic`` or ``intrinsic``.
        by_stereotype: The same over the occupations of one stereotype.
    """

    title: str
    formula: str
    range: tuple[float | None, float | None]
    ideal: float
    direction: str
    reference: str
    kind: str
    by_stereotype: dict[str, Estimate] = {}

    @property
    def estimate(self) -> Estimate:
        """The numbers without the card."""
        return Estimate(**{name: getattr(self, name) for name in Estimate.__struct_fields__})

    @property
    def span(self) -> str:
        """The range as text: ``0..1``; an end that is open is left out."""
        shown = "..".join("" if end is None else f"{end:g}" for end in self.range)
        return "any" if shown == ".." else shown

    def __repr__(self) -> str:
        return f"{self.title}: {self.shown}"
