"""Sentence templates out of image captions: the person word becomes the slot, captions that tell more are dropped.

NLI-CoAL takes captions with exactly one of the group words. Some of its templates still name a second gendered
person, count several people or hold an occupation; each spoils a pair once the slot is filled, so they go here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evenli.errors import InputError
from evenli.io import iter_text
from evenli.resources import Axis, load_axis
from evenli.suites.base import SLOT
from evenli.suites.checks import leaking_words, looks_like
from evenli.suites.scenes import template_key

REASONS = (
    "no group word",
    "several group words",
    "several sentences",
    "language",
    "length",
    "revealing word",
    "occupation",
    "plural",
    "longer phrase",
    "excluded",
    "duplicate",
)
"""Why a caption is dropped, in the order of the checks; the first that holds is counted."""

LENGTHS = {"en": (7, 23), "ja": (14, 30), "zh": (5, 51)}
"""Shortest and longest template of the NLI-CoAL release: words, in ja and zh characters beside the slot."""

_UNSPACED = ("ja", "zh")
_CAPTION_ID = re.compile(r"^\S+#\d+\s+")
_HEADERS = {"caption", "captions", "sentence", "text"}
_INNER_STOP = re.compile(r"[.!?] |[。！？](?=.)")
_PLURAL = {
    "en": re.compile(
        r"\b(?:two|three|four|five|six|several|many|some|few|both|[2-9]|(?:pair|group|crowd) of) (?:\S+ )?\[Sub\]"
    ),
    "ja": re.compile(
        r"\[Sub\](?:たち|達|ら|同士)|[二三四五六七八九十数何2-9２-９][人名]|[0-9０-９]{2,}[人名]|ふたり|大勢|複数|たくさん|多くの"
    ),
    "zh": re.compile(
        r"\[Sub\]们|[两二三四五六七八九十几数多2-9][个名位]|[两二三]\[Sub\]|一[群些队对排伙帮]|许多|很多|俩"
    ),
}
# Where the group word is the whole name of one person, not the end of "delivery man" or the attribute in 男性の選手:
# an article or a plain adjective before it in English, a particle other than の after it in Japanese.
_ALONE = {
    "en": re.compile(
        r"(?:^|\b(?:an?|the|this|that|one|another|young|younger|old|older|elderly|adult|middle-aged|smiling|happy"
        r"|tall|lone) )\[Sub\]"
    ),
    "ja": re.compile(r"\[Sub\](?:[がとをはもへやにで、。]|から)"),
    "zh": re.compile(r"\[Sub\](?![味婆])"),
}


@dataclass(frozen=True)
class CaptionTemplates:
    """Templates from a caption file, and how many captions were dropped.

    Attributes:
        templates: Distinct templates in shuffled order, at most ``count``.
        read: Captions in the file.
        dropped: Captions dropped, for each of ``REASONS``; every other one gave a template.
    """

    templates: list[str]
    read: int
    dropped: dict[str, int]


def templates_from_captions(
    path: str | Path,
    lang: str,
    *,
    count: int | None = None,
    seed: int = 0,
    exclude: Collection[str] = (),
    axis: Axis | str = "gender",
) -> CaptionTemplates:
    """Make sentence templates from a file with one caption on each line.

    Japanese and Chinese lose all spaces; other languages are lower-cased and their tokens joined (``hat .`` becomes
    ``hat.``). An English indefinite article before the slot becomes ``the``. Every template ends in one full stop.

    Args:
        path: Caption file, UTF-8.
        lang: Language of the captions; the axis must have it.
        count: Templates to return; None for all.
        seed: Seed of the shuffle.
        exclude: Templates that must not come back, beside the evaluation templates of the axis.
        axis: Axis or its name; its group words become the slot.
    """
    axis = load_axis(axis)
    rules = _Rules(axis, lang)
    # A template of the evaluation in training would test the models on sentences they have seen.
    taken = {template_key(template) for template in (*axis.templates(lang), *exclude)}
    captions = _read_captions(Path(path))
    dropped = dict.fromkeys(REASONS, 0)
    kept: dict[str, str] = {}
    for caption in captions:
        template, reason = rules.judge(caption)
        key = template_key(template)
        reason = reason or ("excluded" if key in taken else "duplicate" if key in kept else "")
        if reason:
            dropped[reason] += 1
        else:
            kept[key] = template
    needed = 1 if count is None else count
    if not 0 <= needed <= len(kept):
        why = ", ".join(f"{reason} {number}" for reason, number in dropped.items() if number)
        raise InputError(
            f"{needed} templates are needed, {path} gives {len(kept)} of language '{lang}' from {len(captions)} "
            f"captions (dropped: {why or 'none'}); add captions or check --lang"
        )
    # Captions of one picture follow each other in the file; shuffled, neighbours show different scenes.
    templates = list(kept.values())
    order = np.random.default_rng(seed).permutation(len(templates))
    return CaptionTemplates([templates[i] for i in order[:count]], len(captions), dropped)


class _Rules:
    """The checks of one language, its words looked up once."""

    def __init__(self, axis: Axis, lang: str) -> None:
        self.lang, self.revealing = lang, axis.revealing_words(lang)
        self.group_word = _any_of(axis.language(lang).group_words.values(), lang)
        # One character is too little to find a word in running text: 官 also occurs in 器官.
        self.occupation = _any_of((job.word for job in axis.occupations(lang) if len(job.word) > 1), lang)

    def judge(self, caption: str) -> tuple[str, str]:
        """The template of a caption and the reason to drop it, empty if there is none."""
        text = _tidy(caption, self.lang)
        count = len(self.group_word.findall(text))
        if count != 1 or SLOT.lower() in text.lower():
            return "", "several group words" if count else "no group word"
        template = self.group_word.sub(SLOT, text)
        if self.lang == "en":
            template = re.sub(r"\ban? \[Sub\]", f"the {SLOT}", template)
        return template, self._fault(template)

    def _fault(self, template: str) -> str:
        # The first reason that holds is counted, in the order of REASONS.
        beside = template.replace(SLOT, "")
        size = len(beside) if self.lang in _UNSPACED else len(template.split())
        shortest, longest = LENGTHS.get(self.lang, LENGTHS["en"])
        plural, alone = _PLURAL.get(self.lang), _ALONE.get(self.lang)
        if _INNER_STOP.search(template):
            return "several sentences"
        if not looks_like(beside, self.lang):
            return "language"
        if not shortest <= size <= longest:
            return "length"
        if leaking_words(template, self.revealing, self.lang):
            return "revealing word"
        if self.occupation.search(beside):
            return "occupation"
        if plural and plural.search(template):
            return "plural"
        return "longer phrase" if alone and not alone.search(template) else ""


def _any_of(words: Iterable[str], lang: str) -> re.Pattern[str]:
    """One of the words: anywhere where no spaces are written, else as a whole word (``man's`` but not ``man-made``)."""
    either = "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))
    return re.compile(either if lang in _UNSPACED else rf"(?<![\w-])(?:{either})(?![\w-])")


def _tidy(caption: str, lang: str) -> str:
    if lang in _UNSPACED:
        return "".join(caption.split()).rstrip("。．.！!？?、，,") + "。"
    text = re.sub(r" (?=[.,;:!?]|'s\b)", "", " ".join(caption.lower().split()))
    return text.rstrip(" .,;:!?") + "."


def _read_captions(path: Path) -> list[str]:
    """Captions without ids and header.

    With a tab the caption is the last field, and a first line whose last field is ``caption``, ``sentence`` or ``text``
    is a header. A first word that ends in ``#`` and a number is the caption's id (``1000268201.jpg#enc#0 A child …``).
    """
    captions = []
    for number, line in iter_text(path):
        fields = line.split("\t")
        caption = fields[-1].strip()
        is_header = number == 1 and len(fields) > 1 and caption.lower() in _HEADERS
        caption = _CAPTION_ID.sub("", caption, count=1)
        if caption and not is_header:
            captions.append(caption)
    if not captions:
        raise InputError(f"{path} holds no captions; expected one on each line")
    return captions
