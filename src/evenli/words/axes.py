"""Social axes.

An axis is data: groups, their words, occupations and the rule that types them.

``axes/gender.toml`` is the axis of the papers. Another axis, a new language or more groups is one more TOML file; no
code knows how many groups there are. Each table may be the name of a file or stand in the TOML file itself::

    templates = "templates_de.txt"
    templates = ["[Sub] wartet im Regen.", "Im Park liest [Sub]."]
    revealing = [["frau", "female"], ["mann", "male"]]

Two axes at once are a file, too: ``[product]`` names them, and their groups are crossed.

Other packages offer axes through entry points of the group ``evenli.axes``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli.core import registry
from evenli.core.errors import ResourceError, translated
from evenli.core.io import read_text, split_lines
from evenli.words.tables import Table, read_toml

SHIPPED = Path(__file__).parent / "axes"
NO_STEREOTYPE = "neutral"
AND = "|"  # between the groups of a word that is stereotyped with several
TIMES = "__"  # between the two parts of a group's name on an axis that is the product of two: ``female__nigerian``


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
    key: str  # language-independent identity: the word of the stereotype table, which is English for the shipped axis

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups it is stereotyped with; none for ``neutral``."""
        return () if self.stereotype == NO_STEREOTYPE else tuple(self.stereotype.split(AND))


@dataclass(frozen=True)
class Language:
    """The words of an axis in one language."""

    group_words: Mapping[str, str]
    person: str  # word that names no group
    templates: Table
    gold: Table  # unmistakable pairs: label, premise, hypothesis
    revealing: Table  # words that give a group away: word, group
    occupations: Table | None = None  # stereotype table translated: en, word; None if its words are used as they are
    lists: Mapping[str, Table] = field(default_factory=dict)  # further ones by name: word, stereotype or women_percent
    wordings: Table | None = None  # ways to say the same: nouns, determiners, frames and hypothesis forms
    suites: tuple[str, ...] = ()  # what an audit asks by default; empty for the suite of the axis
    paraphrases: Table | None = None  # premise, hypothesis, group: whoever is the first is the second: mother, woman


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
    typed_words: tuple[tuple[str, str], ...]  # (word, stereotype) in table order, exclusions applied
    scores: Mapping[str, float]  # stereotype scores of axes that type by threshold; the sign is that of a group
    suite: str = registry.DEFAULT_SUITE  # the suite that an audit of this axis asks by default
    thing: str = "word"  # what its words are, in the singular: job, trait
    list_things: Mapping[str, str] = field(default_factory=dict)  # the same for further lists, where that differs
    parts: tuple[str, ...] = ()  # the two axes that it is the product of; empty for a single one

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
        return sorted(typed, key=lambda word: blocks.index(word.groups[0] if word.groups else NO_STEREOTYPE))

    def read_list(self, lang: str, name: str) -> list[Occupation]:
        """The words of another list that a language names, with one group, several or none each."""
        rows = _typed(self.language(lang).lists[name], self.groups)
        return [Occupation(word, stereotype, word) for word, stereotype in rows]

    def templates(self, lang: str) -> list[str]:
        """Our own sentence templates of a language."""
        return self.language(lang).templates.lines()

    def paraphrases(self, lang: str) -> dict[str, list[tuple[str, str]]]:
        """Pairs of nouns by group: the first says that somebody is of the group, and implies the second.

        Rows of groups that the axis does not have are for other axes that share the table.
        """
        found: dict[str, list[tuple[str, str]]] = {group: [] for group in self.group_names}
        table = self.language(lang).paraphrases
        for where, row in table.numbered("premise", "hypothesis", "group") if table else ():
            if row["premise"] == row["hypothesis"]:
                raise ResourceError(f"{where}: '{row['premise']}' is no paraphrase of itself")
            if row["group"] in found:
                found[row["group"]].append((row["premise"], row["hypothesis"]))
        return found

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
    # A RuntimeError is how Python 3.11 and 3.12 tell of links in a circle.
    with translated(f"cannot read axis {axis}: ", into=ResourceError, kinds=(RuntimeError,)):
        return _load(_find(axis).resolve())


def crossing(groups: Sequence[str]) -> list[tuple[str, str]] | None:
    """The parts of groups such as ``female__nigerian``; None unless every combination of two or more is there.

    >>> crossing(["a__x", "a__y", "b__x", "b__y"])
    [('a', 'x'), ('a', 'y'), ('b', 'x'), ('b', 'y')]
    >>> crossing(["a__x", "a__y", "b__x"]) is None
    True
    """
    split = [name.split(TIMES) for name in groups]
    if not split or any(len(names) != 2 for names in split):
        return None
    parts = [(first, second) for first, second in split]
    sizes = [len(set(side)) for side in zip(*parts, strict=True)]
    return parts if min(sizes) >= 2 and len(set(parts)) == sizes[0] * sizes[1] else None


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
    kinds = (KeyError, TypeError, AttributeError, ValueError, OverflowError)
    with translated(f"axis file {path} lacks or mistypes ", into=ResourceError, kinds=kinds):
        return _parse(fields, path)


def _parse(fields: dict[str, Any], path: Path) -> Axis:
    about: dict[str, Any] = {name: _text(fields, name) for name in ("id", "title", "construct", "harm", "population")}
    about |= {name: _text(fields, name) for name in ("suite", "thing") if name in fields}
    about["list_things"] = {name: _text(fields["things"], name) for name in fields.get("things", {})}
    about["assumptions"] = tuple(map(str, fields["assumptions"]))
    if "product" in fields:
        # Groups, words and languages are those of its two parts.
        return _product(fields["product"], path, about)
    groups = tuple(Group(str(g["name"]), int(g.get("sign", 0))) for g in fields["groups"])
    names = [group.name for group in groups]
    if len(set(names)) != len(names) or len(names) < 2 or NO_STEREOTYPE in names:
        raise ResourceError(f"{path}: axis groups must be two or more distinct names other than 'neutral', not {names}")
    languages = {lang: _parse_language(lang, words, names, path) for lang, words in fields["languages"].items()}
    nouns = {noun: name for language in languages.values() for name, noun in language.group_words.items()}
    typed, scores = _type_words(fields["stereotypes"], groups, path, nouns)
    return Axis(**about, groups=groups, languages=languages, typed_words=typed, scores=scores)


def _product(given: dict[str, Any], path: Path, about: dict[str, Any]) -> Axis:
    """Every group of one axis with every group of another; words, templates and gold pairs are those of one of them."""
    names = given["axes"]
    if not isinstance(names, list) or len(names) != 2 or names[0] == names[1]:
        raise ResourceError(f"{path}: [product] axes names two axes, not {names}")
    owner = given.get("words", names[0])
    if owner not in names:
        raise ResourceError(f"{path}: [product] words is one of {', '.join(names)}, not '{owner}'")
    first, second = parts = [_part(str(name), given.get("groups", {}).get(name), path) for name in names]
    words = parts[names.index(owner)]
    crossed = {f"{a}{TIMES}{b}": (a, b) for a in first.group_names for b in second.group_names}
    shared = [lang for lang in first.languages if lang in second.languages]
    if not shared:
        raise ResourceError(f"{path}: the axes {' and '.join(names)} have no language in common")

    def language(lang: str) -> Language:
        """Nouns of both parts in one: the person in *Nigerian person* becomes a woman."""
        nouns, rest, own = first.language(lang).group_words, second.language(lang), words.language(lang)
        group_words, said = {}, []
        of_first, of_second = first.paraphrases(lang), second.paraphrases(lang)
        for name, (group, other) in crossed.items():
            if rest.person not in rest.group_words[other]:
                raise ResourceError(
                    f"{path}: '{rest.group_words[other]}' of axis '{second.id}' has no '{rest.person}' in it that "
                    f"could become '{nouns[group]}'; name the axes the other way round"
                )
            word = rest.group_words[other]
            group_words[name] = word.replace(rest.person, nouns[group])
            # Nigerian mother, Nigerian woman; woman from Nigeria, Nigerian woman.
            said += [[*(word.replace(rest.person, noun) for noun in pair), name] for pair in of_first[group]]
            told = [pair for pair in of_second[other] if all(rest.person in text for text in pair)]
            said += [[*(text.replace(rest.person, nouns[group]) for text in pair), name] for pair in told]
        revealing = {**first.revealing_words(lang), **second.revealing_words(lang)}
        table = Table(f"revealing words of {first.id} and {second.id}", tuple(map(list, revealing.items())))
        pairs = Table(f"paraphrases of {first.id} and {second.id}", tuple(said))
        return Language(group_words, rest.person, own.templates, own.gold, table, own.occupations, paraphrases=pairs)

    groups, languages = tuple(Group(name, 0) for name in crossed), {lang: language(lang) for lang in shared}
    typed = []
    for word, stereotype in words.typed_words:
        lifted = AND.join(name for name, pair in crossed.items() if {*stereotype.split(AND)} & {*pair})
        # A word that is stereotyped only with groups that are left out is no word without a stereotype.
        if lifted or stereotype == NO_STEREOTYPE:
            typed.append((word, lifted or NO_STEREOTYPE))
    return Axis(
        **about, groups=groups, languages=languages, typed_words=tuple(typed), scores={}, parts=(first.id, second.id)
    )


def _part(name: str, chosen: list[str] | None, path: Path) -> Axis:
    """One of the two axes: a shipped one, or a file beside this one; a file never imports a plug-in."""
    if name not in shipped_names() and not name.endswith(".toml"):
        raise ResourceError(f"{path}: no axis '{name}'; there are {', '.join(shipped_names())}, or a .toml file")
    axis = load_axis(name if name in shipped_names() else path.parent / name)
    if axis.parts:
        raise ResourceError(f"{path}: axis '{name}' is a product itself; two axes can be crossed")
    if unknown := [group for group in chosen or () if group not in axis.group_names]:
        raise ResourceError(f"{path}: axis '{name}' has no group '{unknown[0]}'; {', '.join(axis.group_names)}")
    return replace(axis, groups=tuple(group for group in axis.groups if chosen is None or group.name in chosen))


def _parse_language(lang: str, words: dict[str, Any], groups: list[str], path: Path) -> Language:
    missing = [name for name in groups if not str(words["group_words"].get(name, "")).strip()]
    if missing:
        raise ResourceError(f"{_place(path, lang)}: language '{lang}' has no group word for {', '.join(missing)}")
    if unknown := [name for name in words["group_words"] if name not in groups]:
        raise ResourceError(f"{_place(path, lang)}: '{unknown[0]}' is no group; there are {', '.join(groups)}")
    optional = (name for name in ("occupations", "wordings", "paraphrases") if name in words)
    named = ["templates", "gold", "revealing", *optional]
    tables = {field: Table.find(words[field], path, f"languages.{lang}.{field}") for field in named}
    group_words = {name: _text(words["group_words"], name) for name in groups}
    where = f"languages.{lang}.lists"
    lists = {name: Table.find(table, path, f"{where}.{name}") for name, table in words.get("lists", {}).items()}
    suites = tuple(map(str, words.get("suites", ())))
    return Language(group_words, _text(words, "person"), **tables, lists=lists, suites=suites)


def _place(path: Path, lang: str) -> str:
    """File and line of the group words of a language; the file alone where they are written in another way."""
    # The TOML parser does not tell where a value stands.
    inside = False
    for number, line in enumerate(map(str.strip, split_lines(read_text(path))), 1):
        if line.startswith("["):
            inside = line.startswith((f"[languages.{lang}]", f"[languages.{lang}.group_words]"))
        if inside and "group_words" in line:
            return f"{path}, line {number}"
    return str(path)


def _text(fields: dict[str, Any], name: str) -> str:
    if not isinstance(fields[name], str) or not fields[name].strip():
        raise TypeError(f"'{name}', which must be a text")
    return str(fields[name])


def _type_words(
    rule: dict[str, Any], groups: tuple[Group, ...], path: Path, nouns: Mapping[str, str]
) -> tuple[tuple[tuple[str, str], ...], dict[str, float]]:
    """Apply the axis' typing rule: words with their stereotypes, and the scores of words where it goes by them.

    ``listed`` names a group or neutral; ``sets`` several groups with AND, or nothing; ``none`` has words only;
    ``threshold`` goes by scores (both limits strict).
    """
    table = Table.find(rule["table"], path, "stereotypes.table")
    for where, row in table.numbered("word"):
        if row["word"] in nouns:
            raise ResourceError(f"{where}: the word '{row['word']}' is the noun of group '{nouns[row['word']]}'")
    excluded = set(Table.find(rule["exclude"], path, "stereotypes.exclude").lines()) if "exclude" in rule else set()
    scores: dict[str, float] = {}
    if rule["rule"] in {"listed", "sets"}:
        typed = _typed(table, groups, several=rule["rule"] == "sets")
    elif rule["rule"] == "none":
        typed = [(word, NO_STEREOTYPE) for word, _, _ in _once(table, "word")]
    elif rule["rule"] == "threshold":
        by_sign = {group.sign: group.name for group in groups}
        typed = []
        for row in table.rows("word", "definitional", "stereotype"):
            stated, score = float(row["definitional"]), float(row["stereotype"])
            stereotyped = abs(stated) < rule["definitional_below"] and abs(score) > rule["stereotype_above"]
            typed.append((row["word"], by_sign[1 if score > 0 else -1] if stereotyped else NO_STEREOTYPE))
            scores[row["word"]] = score
    else:
        raise ResourceError(f"{path}: unknown stereotype rule '{rule['rule']}'; choose threshold, listed, sets or none")
    return tuple((word, stereotype) for word, stereotype in typed if word not in excluded), scores


def _once(table: Table, *columns: str) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Words of a table with place and row; a word that stands there twice, or is empty, is refused."""
    seen: dict[str, str] = {}
    for where, row in table.numbered(*columns):
        word = row["word"] or ""
        if not word.strip():
            raise ResourceError(f"{where}: the word is empty")
        if word in seen:
            raise ResourceError(f"{where}: '{word}' stands there already ({seen[word]}); give each word once")
        seen[word] = where
        yield word, where, row


def _typed(table: Table, groups: tuple[Group, ...], *, several: bool = True) -> list[tuple[str, str]]:
    """Words with their groups in the order of the axis, with AND between them, or ``neutral``."""
    names = [group.name for group in groups]
    allowed, typed = names if several else [NO_STEREOTYPE, *names], []
    for word, where, row in _once(table, "word", "stereotype"):
        text = row["stereotype"] or ""
        given = {name.strip() for name in text.split(AND)} - {"", NO_STEREOTYPE} if several else {text}
        if unknown := sorted(given - {*allowed}):
            raise ResourceError(f"{where}: '{word}' is stereotyped '{unknown[0]}', not one of {', '.join(allowed)}")
        typed.append((word, AND.join(name for name in names if name in given) or NO_STEREOTYPE))
    return typed
