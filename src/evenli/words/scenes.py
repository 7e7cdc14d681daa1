"""Sentence templates composed from scenes.

A bias-controlled set needs 638 templates a language that no evaluation template repeats. ``scenes_{lang}.csv``
holds their parts (columns scene, part, text): every activity of a scene meets every place and detail of it, and its
``*,order`` rows say how a sentence is put together, with or without place and detail.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping
from itertools import product

import numpy as np

from evenli.core.errors import InputError, ResourceError
from evenli.words import Axis, load_axis, read_table
from evenli.words.tables import DATA
from evenli.words.templates import leaking_words

PARTS = ("activity", "place", "detail")


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
