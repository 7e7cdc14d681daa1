"""The words of the entailment-probability probe: occupations, open slots, hypotheses, names."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evenli.core.errors import InputError
from evenli.core.io import find_columns, is_plain_text, iter_rows, iter_text
from evenli.core.labels import NEUTRAL
from evenli.words import load_axis, read_table, word_classes
from evenli.words.english import forms, open_slot
from evenli.words.lists import given_names, name_kinds
from evenli.words.templates import any_of, leaking_words

NameFilter = Callable[[str], bool]
"""Says whether a sentence names a person."""
_TAGGER_MODELS = {"spacy": "spacy download en_core_web_sm", "nltk": "nltk.downloader popular"}
FEWEST_WORDS = 2

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_TELLING_VOCABULARY = 5000  # shows which words a corpus never writes in lower case
# English text has at least this share of function words and at most this share of letters beyond ASCII.
_FEW_WORDS, _LEAST_ENGLISH, _MOST_FOREIGN = 40, 0.15, 0.1
_GENDERS = {"female": "女性", "male": "男性"}  # adjectives, the same in Japanese and Chinese
_COMMON_NAMES = 300  # ranks of first names that are also looked for in lower case


def probe_occupations() -> dict[str, str]:
    """The occupations of the paper and the gender that dominates each: 19 female, 19 male."""
    rows = read_table("probe_occupations.csv", ("occupation", "gender"))
    return {row["occupation"]: row["gender"] for row in rows}


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


@cache
def women_percent() -> dict[str, float]:
    """The percentage of women in US occupations (CPS 2019), by their names in lower case."""
    return {row["occupation"].lower(): float(row["women_percent"]) for row in read_table("cps_2019.csv")}


def word_class(role: str) -> frozenset[str]:
    """The words of one role in ``probe_words.csv``."""
    return word_classes("probe_words.csv", "role")[role]


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


def probe_rows(
    number: int, premise: str, hypotheses: Mapping[str, str], occupation: str, stereotype: str, template: str
) -> Iterator[dict[str, str]]:
    """The rows of one premise, one for every group."""
    for group, hypothesis in hypotheses.items():
        yield {
            "id": f"{number}-{group}",
            "subset": "probe",
            "premise": premise,
            "hypothesis": hypothesis,
            "gold": NEUTRAL,
            "occupation": occupation,
            "stereotype": stereotype,
            "template": template,
            "group": group,
        }


def check_balance(stereotypes: Iterable[str], where: str) -> None:
    """Refuse occupations of one gender alone: there, liking a gender and liking the stereotype look the same."""
    present = set(stereotypes)
    missing = [group for group in load_axis().group_names if group not in present]
    if missing:
        raise InputError(f"{where} has no {' and no '.join(missing)}-dominated occupation; the probe needs both")


def is_person(text: str, match: re.Match[str], occupation: str) -> bool:
    """Whether a mention is a noun where it might be a verb: ``two security guards``, but not ``a family cooks``.

    A determiner stands before it, or before one word more and agrees with it in number, as a verb would not.
    """
    if occupation not in word_class("verb"):
        return True
    before = re.search(r"(?:(\w+) )?(\w+) $", text[: match.start()].lower())
    if before is None:
        return False
    agreeing = word_class("many" if _is_plural(text, match, occupation) else "one")
    return before[2] in word_class("determiner") or before[1] in agreeing


def stands_alone(text: str, match: re.Match[str], occupation: str) -> bool:
    """Whether a mention is a whole noun phrase but for its determiner, so that another occupation fits as well."""
    plural = _is_plural(text, match, occupation)
    before = re.search(r"(\w+)\W*$", text[: match.start()].lower())
    if not (before[1] in word_class("determiner") if before else plural):
        return False
    after = re.match(r"\s*([^\W\d_]+(?:['’][^\W\d_]+)*)", text[match.end() :])
    if not after:
        return True
    word = after[1].lower()
    return word in word_class("follower") or word.endswith(("ing", "ed", "ly")) or (word.endswith("s") and not plural)


def looks_english(sentences: Sequence[str]) -> bool:
    """Whether sentences are English, judged by their letters and by the share of English function words.

    Fewer than 40 words are too little to judge by function words.

    >>> looks_english(["The nurse is at work."]), looks_english(["护士在工作。"])
    (True, False)
    """
    words = [word.lower() for sentence in sentences for word in _WORD.findall(sentence)]
    letters = "".join(words)
    if sum(not letter.isascii() for letter in letters) > _MOST_FOREIGN * len(letters):
        return False
    known = sum(word in word_class("function") for word in words)
    return len(words) < _FEW_WORDS or known >= _LEAST_ENGLISH * len(words)


def names_person(sentence: str, vocabulary: Collection[str] = ()) -> bool:
    """Whether a sentence seems to name a person or a place, by capital letters alone.

    Inside a sentence every capitalised word counts, except occupations, acronyms, I, weekdays and months. The first
    word counts if the corpus never writes it in lower case (``vocabulary``) and it is a given name, a singular verb
    follows, or the vocabulary is large. In lower case a given name counts if it is no English word. The rule is strict:
    a false alarm costs a sentence, a name reveals a gender.

    >>> names_person("The nurse met Anna."), names_person("Anna is a nurse."), names_person("The CEO rests on Monday.")
    (True, True, False)
    >>> names_person("the nurse met anna."), names_person("will the nurse rest?")
    (True, False)
    """
    words = _WORD.findall(sentence)
    for position, full in enumerate(words):
        word = re.sub(r"['’]\w+$", "", full)
        acronym = word.isupper() and len(word) > 1
        if word in _lower_names():
            return True
        if not word[0].isupper() or acronym or word.lower() in _common_words():
            continue
        if position:
            return True
        verb = len(words) > 1 and words[1].lower() in word_class("singular") and not word.endswith("ing")
        telling = verb or word in given_names() or len(vocabulary) >= _TELLING_VOCABULARY
        if telling and word.lower() not in vocabulary:
            return True
    return False


def person_flags(candidates: Sequence[str], name_filter: str | NameFilter, corpus: Sequence[str]) -> list[bool]:
    """For every candidate, whether it names a person; ``corpus`` shows which words are written in lower case."""
    if not isinstance(name_filter, str):
        return [bool(name_filter(text)) for text in candidates]
    if name_filter == "lists":
        vocabulary = {word for text in corpus for word in _WORD.findall(text) if word.islower()}
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


@cache
def _lower_names() -> frozenset[str]:
    """Common first names in lower case that are no words and no surnames: *john*, but not *will* or *hope*."""
    rows = read_table("swap_names.csv", ("rank", "male", "female"))
    common = (row[column] for row in rows if int(row["rank"]) <= _COMMON_NAMES for column in ("male", "female"))
    names = {name.lower() for name in common if not name_kinds().get(name) and len(name) > 3}
    return frozenset(names - _common_words())


@cache
def _common_words() -> frozenset[str]:
    """Lower-case words that are no names although they may be capitalised."""
    occupations = {part for name in probe_occupations() for form in forms(name) for part in form.lower().split()}
    roles = ("calendar", "function", "determiner", "follower", "pronoun")
    return frozenset(occupations).union(*map(word_class, roles))


def _is_plural(text: str, match: re.Match[str], occupation: str) -> bool:
    return "Subs" in open_slot(text, match, occupation)


@dataclass(frozen=True)
class Sentence:
    """A sentence that can be a premise: it is about one occupation."""

    text: str
    occupation: str
    template: str  # the text with an open slot for every mention
    movable: bool  # every mention is a noun phrase of its own, so another occupation can take its place


@dataclass(frozen=True)
class Pool:
    """Candidates of a corpus after all filters, with what fell out on the way."""

    sentences: int
    matched: int
    dropped: Counter[str]
    kept: list[Sentence]
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
        name, template = names.pop(), text
        for match in reversed(matches):
            template = template[: match.start()] + open_slot(text, match, name) + template[match.end() :]
        passed.append(Sentence(text, name, template, all(stands_alone(text, match, name) for match in matches)))
    # Names come last: a tagger is slow, and few sentences get this far.
    flags = person_flags([sentence.text for sentence in passed], name_filter, sentences)
    if any(flags):
        dropped["name"] = sum(flags)
    kept = [sentence for sentence, flag in zip(passed, flags, strict=True) if not flag]
    return Pool(len(sentences), matched, dropped, kept, any(sentence.text[0].isupper() for sentence in passed))


def _objection(
    text: str, matches: Sequence[re.Match[str]], names: Collection[str], revealing: Mapping[str, str], max_words: int
) -> str | None:
    """Why a sentence with these occupations cannot be a premise; None if it can."""
    if len(names) > 1:
        return "several occupations"
    if not all(is_person(text, match, next(iter(names))) for match in matches):
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
