"""A social axis is data: groups, their words, occupations and the rule that types them.

``axes/gender.toml`` is the axis of the papers. Another axis, or the same one with more groups, is
another TOML file plus its tables; no code knows how many groups there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from evenli.errors import ResourceError
from evenli.resources.store import locate, read_lines, read_table, read_toml

AXES = Path(__file__).parent / "axes"
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
    """Language-independent identity: the English word of the score table."""


@dataclass(frozen=True)
class Language:
    """The words of an axis in one language."""

    group_words: Mapping[str, str]
    person: str
    templates: Path
    gold: Path
    revealing: Path
    occupations: Path | None


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
    """(English word, stereotype) in table order, exclusions applied."""

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
        path = self.language(lang).occupations
        if path is None:
            words = {word: word for word, _ in self.typed_words}
        else:
            words = {row["en"]: row["word"] for row in read_table(path, ("en", "word"))}
        typed = [Occupation(words[key], stereotype, key) for key, stereotype in self.typed_words if key in words]
        blocks = (NO_STEREOTYPE, *self.group_names)
        return sorted(typed, key=lambda occupation: blocks.index(occupation.stereotype))

    def templates(self, lang: str) -> list[str]:
        """Our own sentence templates of a language."""
        return read_lines(self.language(lang).templates)

    def revealing_words(self, lang: str) -> dict[str, str]:
        """Words that give a group away, with the group they point to; ``-`` marks harmless words that contain one."""
        return {row["word"]: row["group"] for row in read_table(self.language(lang).revealing, ("word", "group"))}


@lru_cache(maxsize=8)
def load_axis(name_or_path: str | Path = "gender") -> Axis:
    """Load a shipped axis by name, or one of your own from a TOML file."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = AXES / f"{name_or_path}.toml"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in AXES.glob("*.toml")))
            raise ResourceError(f"no axis '{name_or_path}'; shipped: {known}; or give the path of a .toml file")
    fields = read_toml(path)
    try:
        return _parse(fields, path.parent)
    except (KeyError, TypeError, AttributeError) as error:
        raise ResourceError(f"axis file {path} lacks or mistypes {error}") from error


def _parse(fields: dict[str, Any], base: Path) -> Axis:
    groups = tuple(Group(str(g["name"]), int(g.get("sign", 0))) for g in fields["groups"])
    names = [group.name for group in groups]
    if len(set(names)) != len(names) or len(names) < 2 or NO_STEREOTYPE in names:
        raise ResourceError(f"axis groups must be two or more distinct names other than 'neutral', not {names}")
    languages = {}
    for lang, words in fields["languages"].items():
        missing = [name for name in names if name not in words["group_words"]]
        if missing:
            raise ResourceError(f"axis language '{lang}' has no group word for {', '.join(missing)}")
        languages[lang] = Language(
            group_words={name: words["group_words"][name] for name in names},
            person=words["person"],
            templates=locate(words["templates"], base),
            gold=locate(words["gold"], base),
            revealing=locate(words["revealing"], base),
            occupations=locate(words["occupations"], base) if "occupations" in words else None,
        )
    return Axis(
        id=fields["id"],
        title=fields["title"],
        construct=fields["construct"],
        harm=fields["harm"],
        population=fields["population"],
        assumptions=tuple(fields["assumptions"]),
        groups=groups,
        languages=languages,
        typed_words=tuple(_type_words(fields["stereotypes"], groups, base)),
    )


def _type_words(rule: dict[str, Any], groups: tuple[Group, ...], base: Path) -> list[tuple[str, str]]:
    """Apply the axis' typing rule to its score table.

    ``rule = "threshold"``: columns word, definitional, stereotype; a word is stereotyped as the group
    of its sign if abs(definitional) < ``definitional_below`` and abs(stereotype) > ``stereotype_above`` (both
    strict). ``rule = "listed"``: columns word, stereotype, the latter a group name or ``neutral``.
    """
    excluded = set(read_lines(locate(rule["exclude"], base))) if "exclude" in rule else set()
    table = locate(rule["table"], base)
    if rule["rule"] == "listed":
        allowed = {NO_STEREOTYPE, *(group.name for group in groups)}
        rows = read_table(table, ("word", "stereotype"))
        for row in rows:
            if row["stereotype"] not in allowed:
                raise ResourceError(f"{table}: '{row['word']}' is typed '{row['stereotype']}', not one of {allowed}")
        return [(row["word"], row["stereotype"]) for row in rows if row["word"] not in excluded]
    if rule["rule"] != "threshold":
        raise ResourceError(f"unknown stereotype rule '{rule['rule']}'; choose threshold or listed")
    by_sign = {group.sign: group.name for group in groups}
    typed = []
    for row in read_table(table, ("word", "definitional", "stereotype")):
        if row["word"] in excluded:
            continue
        s1, s2 = float(row["definitional"]), float(row["stereotype"])
        stereotyped = abs(s1) < rule["definitional_below"] and abs(s2) > rule["stereotype_above"]
        typed.append((row["word"], by_sign[1 if s2 > 0 else -1] if stereotyped else NO_STEREOTYPE))
    return typed
