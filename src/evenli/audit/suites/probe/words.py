"""What the entailment-probability probe is made of: occupations, hypotheses, and the sentences of a corpus that fit."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from evenli.core.errors import InputError
from evenli.core.io import find_columns, is_plain_text, iter_rows, iter_text
from evenli.core.labels import NEUTRAL
from evenli.words import load_axis, read_table
from evenli.words.english import WORD, forms, looks_english, names_person, open_slot, word_class
from evenli.words.templates import any_of, leaking_words

NameFilter = Callable[[str], bool]
"""Says whether a sentence names a person."""
_TAGGER_MODELS = {"spacy": "spacy download en_core_web_sm", "nltk": "nltk.downloader popular"}
FEWEST_WORDS = 2

_GENDERS = {"female": "女性", "male": "男性"}  # adjectives, the same in Japanese and Chinese


def probe_hypotheses(family: str = "text", lang: str = "en") -> list[str]:
    """Hypothesis templates with slots ``[gender]``, ``[premise]`` and ``[occupation]``.

    Families: ``text`` (This text mentions …), ``premise`` (the premise in quotation marks), ``occupation`` (named).
    """
    name = "probe_hypotheses.csv" if lang == "en" else f"probe_hypotheses_{lang}.csv"
    rows = read_table(name, ("family", "template"))
    templates = [row["template"] for row in rows if row["family"] == family]
    if not templates:
        known = ", ".join(dict.fromkeys(row["family"] for row in rows))
        raise InputError(f"no hypothesis family '{family}'; choose one of {known}")
    return templates


def fill_hypotheses(template: str, premise: str, occupation: str, lang: str = "en") -> dict[str, str]:
    """A hypothesis template with its slots filled, for every group."""
    named = {group: group for group in load_axis().group_names} if lang == "en" else _GENDERS
    values = {"[premise]": premise, "[occupation]": occupation}
    slots = re.compile(r"\[(?:premise|occupation)\]")
    # In one pass, for a premise may itself hold brackets.
    return {
        group: slots.sub(lambda match: values[match[0]], template.replace("[gender]", word))
        for group, word in named.items()
    }


def probe_rows(number: int, hypotheses: Mapping[str, str], **columns: str) -> Iterator[dict[str, str]]:
    """The rows of one premise, one for every group; ``columns`` are the same in all of them."""
    for group, hypothesis in hypotheses.items():
        own = {"id": f"{number}-{group}", "hypothesis": hypothesis, "group": group}
        yield {"subset": "probe", "gold": NEUTRAL, **own, **columns}


def check_balance(stereotypes: Iterable[str], where: str) -> None:
    """Refuse occupations of one gender alone: there, liking a gender and liking the stereotype look the same."""
    present = set(stereotypes)
    missing = [group for group in load_axis().group_names if group not in present]
    if missing:
        raise InputError(f"{where} has no {' and no '.join(missing)}-dominated occupation; the probe needs both")


def is_person(match: re.Match[str], occupation: str) -> bool:
    """Whether a mention is a noun where it might be a verb: ``two security guards``, but not ``a family cooks``.

    A determiner stands before it, or before one word more and agrees with it in number, as a verb would not.
    """
    if occupation not in word_class("verb"):
        return True
    before = re.search(r"(?:(\w+) )?(\w+) $", match.string[: match.start()].lower())
    if before is None:
        return False
    agreeing = word_class("many" if "Subs" in open_slot(match, occupation) else "one")
    return before[2] in word_class("determiner") or before[1] in agreeing


def stands_alone(match: re.Match[str], occupation: str) -> bool:
    """Whether a mention is a whole noun phrase but for its determiner, so that another occupation fits as well."""
    plural = "Subs" in open_slot(match, occupation)
    before = re.search(r"(\w+)\W*$", match.string[: match.start()].lower())
    if not (before[1] in word_class("determiner") if before else plural):
        return False
    after = re.match(r"\s*([^\W\d_]+(?:['’][^\W\d_]+)*)", match.string[match.end() :])
    if not after:
        return True
    word = after[1].lower()
    return word in word_class("follower") or word.endswith(("ing", "ed", "ly")) or (word.endswith("s") and not plural)


def person_flags(candidates: Sequence[str], name_filter: str | NameFilter, corpus: Sequence[str]) -> list[bool]:
    """For every candidate, whether it names a person; ``corpus`` shows which words are written in lower case."""
    if not isinstance(name_filter, str):
        return [bool(name_filter(text)) for text in candidates]
    if name_filter == "lists":
        vocabulary = {word for text in corpus for word in WORD.findall(text) if word.islower()}
        return [names_person(text, vocabulary) for text in candidates]
    download = f"python -m {_TAGGER_MODELS[name_filter]}"
    try:
        tagger = importlib.import_module(name_filter)
    except ModuleNotFoundError as error:
        install = f"pip install {name_filter} && {download}"
        raise InputError(f"name_filter {name_filter} needs the package: {install}; lists needs nothing") from error
    try:
        if name_filter == "spacy":
            parsed = tagger.load("en_core_web_sm").pipe(candidates)
            return [any(entity.label_ == "PERSON" for entity in text.ents) for text in parsed]
        trees = [tagger.ne_chunk(tagger.pos_tag(tagger.word_tokenize(text))) for text in candidates]
        return [any(hasattr(node, "label") and node.label() == "PERSON" for node in tree) for tree in trees]
    except (OSError, LookupError) as error:
        raise InputError(f"name_filter {name_filter} needs its English models: {download}") from error


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be a premise: it is about one occupation."""

    text: str
    occupation: str
    template: str  # the text with an open slot for every mention
    movable: bool  # every mention is a noun phrase of its own, so another occupation can take its place


@dataclass(frozen=True)
class Pool:
    """Candidates of a corpus after all filters, and how many sentences were read, matched, dropped and kept."""

    kept: list[Sentence]
    counts: dict[str, Any]
    has_capitals: bool


def collect(path: Path, occupations: Collection[str], max_words: int, name_filter: str | NameFilter) -> Pool:
    """Read a corpus and keep what can be a premise; every other sentence with an occupation is counted by reason."""
    sentences = list(_sentences(path))
    if not sentences:
        raise InputError(f"{path} holds no sentence")
    if not looks_english(sentences[:: len(sentences) // 5000 + 1]):  # a few thousand are enough to tell
        raise InputError(f"{path} does not look like English ('{sentences[0][:60]}'), which the probe is for")
    spelling = {form.lower(): name for name in occupations for form in forms(name)}
    finder = any_of(spelling)
    revealing = {**dict.fromkeys(word_class("gender"), "gender"), **load_axis().revealing_words("en")}
    matched, dropped, seen = 0, Counter[str](), set[str]()
    passed: list[Sentence] = []
    for text in sentences:
        matches = list(finder.finditer(text))
        if not matches:
            continue
        matched += 1
        names = {spelling[" ".join(match.group().lower().split())] for match in matches}
        key = same_words(text)
        reason = "duplicate" if key in seen else _objection(text, matches, names, revealing, max_words)
        seen.add(key)
        if reason:
            dropped[reason] += 1
            continue
        name = names.pop()
        template = finder.sub(partial(open_slot, occupation=name), text)
        passed.append(Sentence(text, name, template, all(stands_alone(match, name) for match in matches)))
    # Names come last: a tagger is slow, and few sentences get this far.
    flags = person_flags([sentence.text for sentence in passed], name_filter, sentences)
    if any(flags):
        dropped["name"] = sum(flags)
    kept = [sentence for sentence, flag in zip(passed, flags, strict=True) if not flag]
    counts = {"sentences": len(sentences), "matched": matched, "dropped": dict(dropped), "kept": len(kept)}
    return Pool(kept, counts, any(sentence.text[0].isupper() for sentence in passed))


def _objection(
    text: str, matches: Sequence[re.Match[str]], names: Collection[str], revealing: Mapping[str, str], max_words: int
) -> str | None:
    """Why a sentence with these occupations cannot be a premise; None if it can."""
    if len(names) > 1:
        return "several occupations"
    if not all(is_person(match, next(iter(names))) for match in matches):
        return "perhaps a verb"
    if leaking_words(text, revealing, "en"):
        return "gender word"
    if len(text.split()) > max_words:
        return "too long"
    return "too short" if len(text.split()) < FEWEST_WORDS else None


def _sentences(path: Path) -> Iterator[str]:
    """Both sentences of every row of an NLI file, or the lines of a text file, spaces tidied."""
    if is_plain_text(path):
        yield from (" ".join(line.split()) for _, line in iter_text(path) if line.strip())
        return
    columns: dict[str, str] = {}
    for _, row in iter_rows(path):
        columns = columns or find_columns(row, path)
        for role in ("premise", "hypothesis"):
            text = row.get(columns[role])
            if isinstance(text, str) and text.strip():
                yield " ".join(text.split())


def same_words(text: str) -> str:
    """What two sentences share if they differ only in case, spaces and punctuation."""
    return " ".join(re.findall(r"\w+", text.lower()))
