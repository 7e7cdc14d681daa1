"""Shipped tables with their provenance cards, and social axes.

An axis is data: groups, their words, occupations and the rule that types them.

``axes/gender.toml`` is the axis of the papers. Another axis, a new language or more groups is one more TOML file; no
code knows how many groups there are. Each table may be the name of a file or stand in the TOML file itself::

    templates = "templates_de.txt"
    templates = ["[Sub] wartet im Regen.", "Im Park liest [Sub]."]
    revealing = [["frau", "female"], ["mann", "male"]]

Other packages offer axes through entry points of the group ``evenli.axes``.
"""

from __future__ import annotations

import hashlib
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli import registry
from evenli.errors import PairError, ResourceError
from evenli.io import read_text, split_lines
from evenli.parse import parse_table, parse_toml

DATA = Path(__file__).parent / "data"
SHIPPED = Path(__file__).parent / "axes"
NO_STEREOTYPE = "neutral"
AND = "|"
"""Between the groups of a word that is stereotyped with several."""


@dataclass(frozen=True)
class Card:
    """Where a resource comes from and whether the file is the one the card speaks of."""

    name: str
    title: str
    source: str
    licence: str
    date: str
    sha256: str
    note: str = ""

    @property
    def path(self) -> Path:
        """The data file of this card."""
        return DATA / self.name

    def verify(self) -> bool:
        """True if the file's SHA-256 is the one on the card."""
        return hashlib.sha256(self.path.read_bytes()).hexdigest() == self.sha256


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a TOML file or say where it is broken."""
    try:
        return parse_toml(read_text(path), str(path))
    except PairError as error:
        raise ResourceError(str(error)) from error


@cache
def cards() -> tuple[Card, ...]:
    """All cards, sorted by name."""
    files = [path for path in sorted(DATA.iterdir()) if path.suffix in {".csv", ".txt"}]
    fields = ({**read_toml(path.with_suffix(".toml")), "name": path.name} for path in files)
    return tuple(Card(**{key: str(one.get(key, "")) for key in Card.__dataclass_fields__}) for one in fields)


@dataclass(frozen=True)
class Table:
    """A table or list that a TOML file names, or that stands in it: the file, or the rows."""

    name: str
    """File name, or where in the TOML file it stands; for messages and data cards."""
    source: Path | tuple[Any, ...]

    @classmethod
    def find(cls, value: Any, owner: Path, field: str) -> Table:
        """What a field holds: an array is the table itself; a name is a file beside the owner or a shipped one."""
        if isinstance(value, list):
            return cls(f"{owner.name}, {field}", tuple(value))
        if not isinstance(value, str):
            raise ResourceError(f"{owner}: {field} must be the name of a file or an array")
        for candidate in (owner.parent / value, DATA / value):
            if candidate.is_file():
                return cls(candidate.name, candidate)
        raise ResourceError(f"no resource '{value}' in {owner.parent} or among the shipped ones")

    def rows(self, *columns: str) -> list[dict[str, str]]:
        """Rows with at least these columns; in TOML a row may also be an array with exactly these, in order."""
        if isinstance(self.source, Path):
            return read_table(self.source, columns)
        rows = []
        for number, given in enumerate(self.source, 1):
            row = dict(zip(columns, given, strict=False)) if isinstance(given, list) else given
            if not isinstance(row, dict) or not set(columns) <= row.keys() or len(given) < len(columns):
                raise ResourceError(f"{self.name}, row {number} needs {', '.join(columns)}, not {given}")
            rows.append({key: str(value) for key, value in row.items()})
        return rows

    def lines(self) -> list[str]:
        """Entries of a list."""
        return read_lines(self.source) if isinstance(self.source, Path) else [str(line) for line in self.source]


def read_lines(path: str | Path) -> list[str]:
    """Non-empty lines of a text resource, stripped, without ``#`` comments; a bare name is a shipped file."""
    lines = (line.strip() for line in split_lines(_read_text(path)))
    return [line for line in lines if line and not line.startswith("#")]


def read_table(path: str | Path, required: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Rows of a CSV resource as dictionaries; ``required`` columns must be there."""
    try:
        lines = io.StringIO(_read_text(path), newline="")
        rows = [row for _, row in parse_table(lines, str(path), commas=True)]
    except PairError as error:
        raise ResourceError(str(error)) from error
    missing = [column for column in required if not rows or column not in rows[0]]
    if missing:
        raise ResourceError(f"{path} needs the column(s) {', '.join(missing)}")
    return rows


@cache
def word_classes(path: str, column: str) -> dict[str, frozenset[str]]:
    """The words of a shipped table by their class, which stands in ``column``."""
    classes: dict[str, set[str]] = {}
    for row in read_table(path, (column, "word")):
        classes.setdefault(row[column], set()).add(row["word"])
    return {name: frozenset(words) for name, words in classes.items()}


def _read_text(path: str | Path) -> str:
    # A file of the same name in the current folder must not take the place of a shipped list.
    if isinstance(path, str) and Path(path).name == path:
        if not (DATA / path).is_file():
            raise ResourceError(f"no resource '{path}' is shipped; for a file of your own write ./{path}")
        path = DATA / path
    return read_text(Path(path))


@dataclass(frozen=True)
class Group:
    """One group of an axis; ``sign`` is the side of the score table that leans towards it."""

    name: str
    sign: int


@dataclass(frozen=True)
class Occupation:
    """An occupation or another word, and the group it is stereotyped as, ``neutral``, or several groups with AND."""

    word: str
    stereotype: str
    key: str
    """Language-independent identity: the word of the stereotype table, which is English for the shipped axis."""

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups it is stereotyped with; none for ``neutral``."""
        return () if self.stereotype == NO_STEREOTYPE else tuple(self.stereotype.split(AND))


@dataclass(frozen=True)
class Language:
    """The words of an axis in one language."""

    group_words: Mapping[str, str]
    person: str
    """Word that names no group."""
    templates: Table
    gold: Table
    """Unmistakable pairs: label, premise, hypothesis."""
    revealing: Table
    """Words that give a group away: word, group."""
    occupations: Table | None = None
    """Translation of the stereotype table: en, word; None if its words are used as they are."""
    lists: Mapping[str, Table] = field(default_factory=dict)
    """Further occupation lists by name: word, stereotype or women_percent."""
    wordings: Table | None = None
    """Ways to say the same: nouns, determiners, frames and hypothesis forms; None if there are none."""


@dataclass(frozen=True)
class Axis:
    """Groups, occupations and languages of one social axis."""

    id: str
    title: str
    construct: str
    harm: str
    population: str
    assumptions: tuple[str, ...]
    groups: tuple[Group, ...]
    languages: Mapping[str, Language]
    typed_words: tuple[tuple[str, str], ...]
    """(Word, stereotype) in table order, exclusions applied."""
    scores: Mapping[str, float]
    """Continuous stereotype score of a word, for axes that type by threshold; its sign is that of a group."""
    suite: str = "coal"
    """The suite that an audit of this axis asks by default."""
    thing: str = "word"
    """What its words are, in the singular: job, trait."""

    @property
    def group_names(self) -> tuple[str, ...]:
        """Names of the groups, in definition order."""
        return tuple(group.name for group in self.groups)

    def language(self, lang: str) -> Language:
        """The words of one language, or an error that lists the languages there are."""
        if lang not in self.languages:
            raise ResourceError(f"axis '{self.id}' has no language '{lang}'; it has {', '.join(self.languages)}")
        return self.languages[lang]

    def occupations(self, lang: str) -> list[Occupation]:
        """Typed occupations of a language: the neutral block, then one block per group."""
        words = {word: word for word, _ in self.typed_words}
        if (translated := self.language(lang).occupations) is not None:
            words = {row["en"]: row["word"] for row in translated.rows("en", "word")}
        typed = [Occupation(words[key], stereotype, key) for key, stereotype in self.typed_words if key in words]
        blocks = (NO_STEREOTYPE, *self.group_names)
        return sorted(typed, key=lambda one: blocks.index(one.groups[0] if one.groups else NO_STEREOTYPE))

    def read_list(self, lang: str, name: str) -> list[Occupation]:
        """The words of another list that a language names, with one group, several or none each."""
        table = self.language(lang).lists[name]
        rows = table.rows("word", "stereotype")
        return [Occupation(row["word"], _set(row, self.groups, table.name), row["word"]) for row in rows]

    def templates(self, lang: str) -> list[str]:
        """Our own sentence templates of a language."""
        return self.language(lang).templates.lines()

    def revealing_words(self, lang: str) -> dict[str, str]:
        """Words that give a group away, with the group they point to; ``-`` marks harmless words that contain one."""
        # In lower case, as they are compared: German nouns are listed with a capital.
        return {row["word"].lower(): row["group"] for row in self.language(lang).revealing.rows("word", "group")}


def shipped_names() -> list[str]:
    """Names of the axes in this package."""
    return sorted(file.stem for file in SHIPPED.glob("*.toml"))


def axis_names() -> list[str]:
    """Names of the shipped axes and of those that other packages offer."""
    return [*shipped_names(), *registry.AXES]


def load_axis(axis: str | Path | Axis = "gender") -> Axis:
    """Load an axis: name of a shipped or installed one, path of a TOML file, or an axis, returned as it is."""
    if isinstance(axis, Axis):
        return axis
    try:
        return _load(_find(axis).resolve())
    except RuntimeError as error:  # how Python 3.11 and 3.12 tell of links in a circle
        raise ResourceError(f"cannot read axis {axis}: {error}") from error


def _find(name: str | Path) -> Path:
    """The TOML file of an axis; a shipped name is never replaced by a plug-in."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    if (SHIPPED / f"{name}.toml").is_file():
        return SHIPPED / f"{name}.toml"
    if name not in registry.AXES:
        raise ResourceError(f"no axis '{name}'; there are {', '.join(axis_names())}; or give the path of a .toml file")
    entry = registry.AXES.get(str(name))
    if isinstance(entry, ModuleType):
        # A package without __init__.py has no file, only a search path.
        folder = Path(entry.__file__).parent if entry.__file__ else Path(next(iter(entry.__path__)))
        return folder / f"{name}.toml"
    return Path(entry)


@lru_cache(maxsize=8)
def _load(path: Path) -> Axis:
    fields = read_toml(path)
    try:
        return _parse(fields, path)
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ResourceError(f"axis file {path} lacks or mistypes {error}") from error


def _parse(fields: dict[str, Any], path: Path) -> Axis:
    groups = tuple(Group(str(g["name"]), int(g.get("sign", 0))) for g in fields["groups"])
    names = [group.name for group in groups]
    if len(set(names)) != len(names) or len(names) < 2 or NO_STEREOTYPE in names:
        raise ResourceError(f"axis groups must be two or more distinct names other than 'neutral', not {names}")
    return Axis(
        **{name: _text(fields, name) for name in ("id", "title", "construct", "harm", "population")},
        assumptions=tuple(map(str, fields["assumptions"])),
        groups=groups,
        languages={lang: _parse_language(lang, words, names, path) for lang, words in fields["languages"].items()},
        typed_words=tuple(_type_words(fields["stereotypes"], groups, path)),
        scores=_scores(fields["stereotypes"], path),
        **{name: _text(fields, name) for name in ("suite", "thing") if name in fields},
    )


def _parse_language(lang: str, words: dict[str, Any], groups: list[str], path: Path) -> Language:
    missing = [name for name in groups if name not in words["group_words"]]
    if missing:
        raise ResourceError(f"axis language '{lang}' has no group word for {', '.join(missing)}")
    named = ["templates", "gold", "revealing", *(name for name in ("occupations", "wordings") if name in words)]
    tables = {field: Table.find(words[field], path, f"languages.{lang}.{field}") for field in named}
    group_words = {name: _text(words["group_words"], name) for name in groups}
    where = f"languages.{lang}.lists"
    lists = {name: Table.find(one, path, f"{where}.{name}") for name, one in words.get("lists", {}).items()}
    return Language(group_words, _text(words, "person"), **tables, lists=lists)


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields[name], str) or not fields[name].strip():
        raise TypeError(f"'{name}', which must be a text")
    return str(fields[name])


def _type_words(rule: dict[str, Any], groups: tuple[Group, ...], path: Path) -> list[tuple[str, str]]:
    """Apply the axis' typing rule.

    ``listed`` names a group or neutral; ``sets`` several groups with AND, or nothing; ``none`` has words only;
    ``threshold`` goes by scores (both limits strict).
    """
    table = Table.find(rule["table"], path, "stereotypes.table")
    excluded = set(Table.find(rule["exclude"], path, "stereotypes.exclude").lines()) if "exclude" in rule else set()
    if rule["rule"] == "listed":
        allowed = (NO_STEREOTYPE, *(group.name for group in groups))
        typed = [(row["word"], row["stereotype"]) for row in table.rows("word", "stereotype")]
        if wrong := next((entry for entry in typed if entry[1] not in allowed), None):
            raise ResourceError(f"{table.name}: '{wrong[0]}' is typed '{wrong[1]}', not {', '.join(allowed)}")
    elif rule["rule"] == "sets":
        typed = [(row["word"], _set(row, groups, table.name)) for row in table.rows("word", "stereotype")]
    elif rule["rule"] == "none":
        typed = [(row["word"], NO_STEREOTYPE) for row in table.rows("word")]
    elif rule["rule"] == "threshold":
        by_sign = {group.sign: group.name for group in groups}
        typed = []
        for row in table.rows("word", "definitional", "stereotype"):
            s1, s2 = float(row["definitional"]), float(row["stereotype"])
            stereotyped = abs(s1) < rule["definitional_below"] and abs(s2) > rule["stereotype_above"]
            typed.append((row["word"], by_sign[1 if s2 > 0 else -1] if stereotyped else NO_STEREOTYPE))
    else:
        raise ResourceError(f"unknown stereotype rule '{rule['rule']}'; choose threshold, listed, sets or none")
    if rule["rule"] in {"sets", "none"}:
        counts = Counter(word for word, _ in typed)
        if twice := next((word for word in counts if counts[word] > 1), None):
            raise ResourceError(f"{table.name}: '{twice}' stands there {counts[twice]} times; give each word once")
    return [(word, stereotype) for word, stereotype in typed if word not in excluded]


def _set(row: Mapping[str, str], groups: tuple[Group, ...], origin: str) -> str:
    """The groups of one word in the order of the axis."""
    given = {name.strip() for name in row["stereotype"].split(AND)} - {"", NO_STEREOTYPE}
    names = [group.name for group in groups]
    if unknown := sorted(given - set(names)):
        raise ResourceError(f"{origin}: '{row['word']}' is stereotyped '{unknown[0]}', not one of {', '.join(names)}")
    return AND.join(name for name in names if name in given) or NO_STEREOTYPE


def _scores(rule: dict[str, Any], path: Path) -> dict[str, float]:
    if rule["rule"] != "threshold":
        return {}
    rows = Table.find(rule["table"], path, "stereotypes.table").rows("word", "stereotype")
    return {row["word"]: float(row["stereotype"]) for row in rows}
