"""A social axis is data: groups, their words, occupations and the rule that types them.

``axes/gender.toml`` is the axis of the papers. Another axis, a new language or more groups is one more TOML file; no
code knows how many groups there are. Each table may be the name of a file or stand in the TOML file itself::

    templates = "templates_de.txt"
    templates = ["[Sub] wartet im Regen.", "Im Park liest [Sub]."]
    revealing = [["frau", "female"], ["mann", "male"]]

Other packages offer axes through entry points of the group ``evenli.axes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli import registry
from evenli.errors import ResourceError
from evenli.resources.store import Table, read_toml

SHIPPED = Path(__file__).parent / "axes"
NO_STEREOTYPE = "neutral"


@dataclass(frozen=True)
class Group:
    """One group of an axis; ``sign`` is the side of the score table that leans towards it."""

    name: str
    sign: int


@dataclass(frozen=True)
class Occupation:
    """An occupation word and the group it is stereotyped as, or ``neutral``."""

    word: str
    stereotype: str
    key: str
    """Language-independent identity: the word of the stereotype table, which is English for the shipped axis."""


@dataclass(frozen=True)
class Language:
    """The words of an axis in one language.

    Attributes:
        group_words: Word by group.
        person: Word that names no group.
        templates: Sentences with a slot.
        gold: Unmistakable pairs: label, premise, hypothesis.
        revealing: Words that give a group away: word, group.
        occupations: Translation of the stereotype table: en, word; None if its words are used as they are.
    """

    group_words: Mapping[str, str]
    person: str
    templates: Table
    gold: Table
    revealing: Table
    occupations: Table | None


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
        translated = self.language(lang).occupations
        if translated is None:
            words = {word: word for word, _ in self.typed_words}
        else:
            words = {row["en"]: row["word"] for row in translated.rows("en", "word")}
        typed = [Occupation(words[key], stereotype, key) for key, stereotype in self.typed_words if key in words]
        blocks = (NO_STEREOTYPE, *self.group_names)
        return sorted(typed, key=lambda occupation: blocks.index(occupation.stereotype))

    def templates(self, lang: str) -> list[str]:
        """Our own sentence templates of a language."""
        return self.language(lang).templates.lines()

    def revealing_words(self, lang: str) -> dict[str, str]:
        """Words that give a group away, with the group they point to; ``-`` marks harmless words that contain one."""
        # In lower case, as they are compared: German nouns are listed with a capital.
        return {row["word"].lower(): row["group"] for row in self.language(lang).revealing.rows("word", "group")}


def axis_names() -> list[str]:
    """Names of the shipped axes and of those that other packages offer."""
    return [*sorted(file.stem for file in SHIPPED.glob("*.toml")), *registry.AXES]


def load_axis(axis: str | Path | Axis = "gender") -> Axis:
    """Load an axis.

    Args:
        axis: Name of a shipped or installed axis, path of a TOML file, or an axis, which is returned as it is.
    """
    return axis if isinstance(axis, Axis) else _load(_find(axis).resolve())


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
    except (KeyError, TypeError, AttributeError) as error:
        raise ResourceError(f"axis file {path} lacks or mistypes {error}") from error


def _parse(fields: dict[str, Any], path: Path) -> Axis:
    groups = tuple(Group(str(g["name"]), int(g.get("sign", 0))) for g in fields["groups"])
    names = [group.name for group in groups]
    if len(set(names)) != len(names) or len(names) < 2 or NO_STEREOTYPE in names:
        raise ResourceError(f"axis groups must be two or more distinct names other than 'neutral', not {names}")
    return Axis(
        id=fields["id"],
        title=fields["title"],
        construct=fields["construct"],
        harm=fields["harm"],
        population=fields["population"],
        assumptions=tuple(fields["assumptions"]),
        groups=groups,
        languages={lang: _parse_language(lang, words, names, path) for lang, words in fields["languages"].items()},
        typed_words=tuple(_type_words(fields["stereotypes"], groups, path)),
    )


def _parse_language(lang: str, words: dict[str, Any], groups: list[str], path: Path) -> Language:
    missing = [name for name in groups if name not in words["group_words"]]
    if missing:
        raise ResourceError(f"axis language '{lang}' has no group word for {', '.join(missing)}")

    def table(field: str) -> Table:
        return Table.find(words[field], path, f"languages.{lang}.{field}")

    return Language(
        group_words={name: words["group_words"][name] for name in groups},
        person=words["person"],
        templates=table("templates"),
        gold=table("gold"),
        revealing=table("revealing"),
        occupations=table("occupations") if "occupations" in words else None,
    )


def _type_words(rule: dict[str, Any], groups: tuple[Group, ...], path: Path) -> list[tuple[str, str]]:
    """Apply the axis' typing rule to its table.

    ``rule = "threshold"``: columns word, definitional, stereotype; a word is stereotyped as the group
    of its sign if abs(definitional) < ``definitional_below`` and abs(stereotype) > ``stereotype_above`` (both
    strict). ``rule = "listed"``: columns word, stereotype, the latter a group name or ``neutral``.
    """
    table = Table.find(rule["table"], path, "stereotypes.table")
    excluded = set(Table.find(rule["exclude"], path, "stereotypes.exclude").lines()) if "exclude" in rule else set()
    if rule["rule"] == "listed":
        allowed = (NO_STEREOTYPE, *(group.name for group in groups))
        typed = [(row["word"], row["stereotype"]) for row in table.rows("word", "stereotype")]
        for word, stereotype in typed:
            if stereotype not in allowed:
                raise ResourceError(f"{table.name}: '{word}' is typed '{stereotype}', not {', '.join(allowed)}")
    elif rule["rule"] == "threshold":
        by_sign = {group.sign: group.name for group in groups}
        typed = []
        for row in table.rows("word", "definitional", "stereotype"):
            s1, s2 = float(row["definitional"]), float(row["stereotype"])
            stereotyped = abs(s1) < rule["definitional_below"] and abs(s2) > rule["stereotype_above"]
            typed.append((row["word"], by_sign[1 if s2 > 0 else -1] if stereotyped else NO_STEREOTYPE))
    else:
        raise ResourceError(f"unknown stereotype rule '{rule['rule']}'; choose threshold or listed")
    return [(word, stereotype) for word, stereotype in typed if word not in excluded]
