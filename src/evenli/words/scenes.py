"""Sentence templates for training: composed from scenes, or made of image captions.

A bias-controlled set needs 638 templates a language that no evaluation template repeats. ``scenes_{lang}.csv``
holds their parts (columns scene, part, text): every activity of a scene meets every place and detail of it, and its
``*,order`` rows say how a sentence is put together, with or without place and detail.

In a caption the person word becomes the slot. NLI-CoAL takes captions with exactly one of the group words. Some of its
templates still name a second gendered person, count several people or hold an occupation; each spoils a pair once the
slot is filled, so they are dropped here.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from evenli.core.errors import InputError, ResourceError
from evenli.core.io import iter_text
from evenli.words import Axis, load_axis, read_table
from evenli.words.tables import DATA
from evenli.words.templates import SLOT, UNSPACED, any_of, leaking_words, looks_like

PARTS = ("activity", "place", "detail")
_CAPTION_ID = re.compile(r"^\S+#\d+\s+")
_HEADERS = {"caption", "captions", "sentence", "text"}
_INNER_STOP = re.compile(r"[.!?] |[。！？](?=.)")


def template_key(template: str) -> str:
    """What makes two templates the same: letters and digits, without case, width, spaces and punctuation.

    >>> template_key("The [Sub] waves !") == template_key("the [Sub] waves.")
    True
    """
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", template).casefold())


def compose_templates(
    lang: str, count: int, *, seed: int = 0, exclude: Collection[str] = (), axis: Axis | str = "gender"
) -> list[str]:
    """Compose sentence templates whose neighbours show different scenes.

    Templates of the axis' evaluation set, those in ``exclude`` and those with a word that reveals a group of the axis
    are left out before the draw.
    """
    axis = load_axis(axis)
    # Before the draw, so that the first templates of a seed do not depend on how many are asked for.
    taken = {template_key(template) for template in (*axis.templates(lang), *exclude)}
    revealing = axis.revealing_words(lang)
    free = {
        scene: [t for t in templates if template_key(t) not in taken and not leaking_words(t, revealing, lang)]
        for scene, templates in read_scenes(lang).items()
    }
    available = sum(map(len, free.values()))
    if not 0 <= count <= available:
        raise InputError(
            f"{count} templates are needed, the scenes of '{lang}' give {available}; give captions (--captions FILE)"
        )
    return _spread(free, np.random.default_rng(seed))[:count]


def read_scenes(lang: str) -> dict[str, list[str]]:
    """All templates of a language by scene, in table order."""
    name = f"scenes_{lang}.csv"
    if not (DATA / name).is_file():
        known = ", ".join(sorted(path.stem.removeprefix("scenes_") for path in DATA.glob("scenes_*.csv")))
        raise ResourceError(
            f"no scenes are shipped for language '{lang}' (there are {known}); give captions (--captions FILE)"
        )
    orders: list[str] = []
    scenes: dict[str, dict[str, list[str]]] = {}
    for row in read_table(name, ("scene", "part", "text")):
        if row["part"] == "order":
            orders.append(row["text"])
        else:
            scenes.setdefault(row["scene"], {part: [] for part in PARTS})[row["part"]].append(row["text"])
    composed = {}
    for scene, parts in scenes.items():
        chosen = [dict(zip(PARTS, texts, strict=True)) for texts in product(*parts.values())]
        # An order that leaves a part out gives the same sentence several times.
        composed[scene] = list(dict.fromkeys(order.format(**texts) for order in orders for texts in chosen))
    return composed


def _spread(scenes: Mapping[str, list[str]], generator: np.random.Generator) -> list[str]:
    """Shuffle such that equal neighbours are as few as the sizes allow: always draw from the fullest other scene."""
    left = {s: [templates[i] for i in generator.permutation(len(templates))] for s, templates in scenes.items()}
    spread: list[str] = []
    last = ""
    for _ in range(sum(map(len, left.values()))):
        # Only when all other scenes are used up may one follow itself.
        drawable = [scene for scene in left if left[scene] and scene != last] or [last]
        fullest = max(len(left[scene]) for scene in drawable)
        last = str(generator.choice([scene for scene in drawable if len(left[scene]) == fullest]))
        spread.append(left[last].pop())
    return spread


@dataclass(frozen=True)
class CaptionTemplates:
    """Distinct templates of a caption file in shuffled order, captions read, and how many of them were dropped why."""

    templates: list[str]
    read: int
    dropped: Counter[str]


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
    The group words of the axis become the slot. Evaluation templates of the axis and those in ``exclude`` stay away.
    """
    axis = load_axis(axis)
    # A template of the evaluation in training would test the models on sentences they have seen.
    taken = {template_key(template) for template in (*axis.templates(lang), *exclude)}
    captions = _read_captions(Path(path))
    dropped: Counter[str] = Counter()
    kept: dict[str, str] = {}
    for template, reason in _judged(captions, axis, lang):
        key = template_key(template)
        reason = reason or ("excluded" if key in taken else "duplicate" if key in kept else "")
        if reason:
            dropped[reason] += 1
        else:
            kept[key] = template
    needed = 1 if count is None else count
    if not 0 <= needed <= len(kept):
        why = ", ".join(f"{reason} {number}" for reason, number in dropped.most_common())
        raise InputError(
            f"{needed} templates are needed, {path} gives {len(kept)} of language '{lang}' from {len(captions)} "
            f"captions (dropped: {why or 'none'}); add captions or check the language (--lang)"
        )
    # Captions of one picture follow each other in the file; shuffled, neighbours show different scenes.
    templates = list(kept.values())
    order = np.random.default_rng(seed).permutation(len(templates))
    return CaptionTemplates([templates[i] for i in order[:count]], len(captions), dropped)


def _judged(captions: Iterable[str], axis: Axis, lang: str) -> Iterator[tuple[str, str]]:
    """The template of each caption and the reason to drop it, empty if there is none."""
    revealing = axis.revealing_words(lang)
    group_word = any_of(axis.language(lang).group_words.values(), lang, case=True)
    # One character is too little to find a word in running text: 官 also occurs in 器官.
    occupation = any_of((job.word for job in axis.occupations(lang) if len(job.word) > 1), lang, case=True)
    rules = {row["lang"]: row for row in read_table("caption_rules.csv", ("lang", "plural", "alone"))}
    # A language without rules of its own has the lengths of English, and every slot is taken as it stands.
    own = rules.get(lang, {**rules["en"], "plural": "(?!)", "alone": ""})
    lengths = range(int(own["shortest"]), int(own["longest"]) + 1)
    for caption in captions:
        text = _tidy(caption, lang)
        count = len(group_word.findall(text))
        if count != 1 or SLOT.lower() in text.lower():
            yield "", "several group words" if count else "no group word"
            continue
        template = group_word.sub(SLOT, text)
        if lang == "en":
            template = re.sub(r"\ban? \[Sub\]", f"the {SLOT}", template)
        beside = template.replace(SLOT, "")
        size = len(beside) if lang in UNSPACED else len(template.split())
        # The first that holds is counted.
        faults = {
            "several sentences": _INNER_STOP.search(template),
            "language": not looks_like(beside, lang),
            "length": size not in lengths,
            "revealing word": leaking_words(template, revealing, lang),
            "occupation": occupation.search(beside),
            "plural": re.search(own["plural"], template),
            "longer phrase": not re.search(own["alone"], template),
        }
        yield template, next((reason for reason, holds in faults.items() if holds), "")


def _tidy(caption: str, lang: str) -> str:
    if lang in UNSPACED:
        return "".join(caption.split()).rstrip("。．.！!？?、，,") + "。"
    text = re.sub(r" (?=[.,;:!?]|'s\b)", "", " ".join(caption.lower().split()))
    return text.rstrip(" .,;:!?") + "."


def _read_captions(path: Path) -> list[str]:
    """Captions without header and ids (``1000268201.jpg#enc#0 A child …``); with tabs the caption is the last field."""
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
