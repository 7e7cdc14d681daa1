"""What a run is about, in the words of its axis: for headings and sentences that people read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from evenli.core.format import printable
from evenli.words import Axis, load_axis

GENDER = "gender"


@dataclass(frozen=True)
class About:
    """The texts of an axis that reports show."""

    axis: str = GENDER
    title: str = ""
    construct: str = ""
    harm: str = ""
    population: str = ""
    thing: str = "word"  # what a word is: job, trait
    assumptions: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()  # the two axes of a product

    @property
    def of_gender(self) -> bool:
        """Whether it is the axis of the papers: two genders and occupations."""
        return self.axis == GENDER


def record(axis: Axis | str, words: str = "") -> dict[str, str | list[str]]:
    """What run.json keeps of an axis, so that a stored run can be shown without the file; ``words`` is its list."""
    loaded = load_axis(axis)
    texts = {field.name: getattr(loaded, field.name) for field in fields(About) if field.name != "axis"}
    texts["thing"] = loaded.list_things.get(words, loaded.thing)
    return {name: list(text) if isinstance(text, tuple) else text for name, text in texts.items()}


def about_axis(header: Mapping[str, Any]) -> About:
    """The texts of a run's axis, as run.json has them; gender has none there and is looked up.

    A stored path is never read: it is data of whoever wrote the folder.
    """
    settings = header.get("settings")
    settings = settings if isinstance(settings, Mapping) else {}
    axis = str(settings.get("axis", GENDER))
    stored = settings.get("about")
    if not isinstance(stored, Mapping):
        stored = record(axis) if axis == GENDER else {}
    texts: dict[str, Any] = {}
    for field in fields(About):
        given = stored.get(field.name)
        if isinstance(field.default, tuple) and isinstance(given, list):
            texts[field.name] = tuple(printable(str(text)) for text in given)
        elif isinstance(field.default, str) and isinstance(given, str) and given:
            texts[field.name] = printable(given)
    return About(**{**texts, "axis": printable(axis)})
