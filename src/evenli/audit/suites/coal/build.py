"""The NLI-CoAL builder: occupations slide over templates, premise and hypothesis differ in one slot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.settings import CoalSettings
from evenli.audit.suites.base import AS, NS, PS, filled_row
from evenli.audit.suites.checks import CheckedPairs, validate
from evenli.audit.suites.files import write_pairs
from evenli.core.errors import InputError, ResourceError
from evenli.core.settings import settings_of
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.occupations import PUBLISHED, load_occupations
from evenli.words.templates import SLOT


def build_coal(lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> PairSet:
    """Build PS, AS and NS pairs with the sliding window of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    Occupation ``k`` meets templates ``k .. k + width - 1``. PS pairs name the group an occupation is stereotyped as, AS
    pairs every other group, NS pairs give an unstereotyped occupation every group in turn. The gold label is always
    neutral; ids count from 0 through PS, AS and NS.

    Published words stand in blocks, neutral ones first, so each class meets templates of its own. The classes of any
    other list take turns instead: they meet the same templates, and what a template does cancels between them.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    settings = settings_of(CoalSettings, settings, options, "build_coal")
    axis, width, seed = load_axis(settings.axis), settings.width, settings.seed
    words = load_occupations(settings.occupations, lang, axis)
    # The published list keeps its blocks, so that a release is built again byte for byte.
    own, given = "" if words.name == PUBLISHED else words.name, words.occupations
    window = settings.templates
    if isinstance(window, str | Path):
        window = read_lines(Path(window))
    window = axis.templates(lang) if window is None else list(window)
    _check(given, window, width, axis)
    blocks = [[o for o in given if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]
    if seed is not None:
        generator = np.random.default_rng(seed)
        blocks = [[block[i] for i in generator.permutation(len(block))] for block in blocks]
        window = [window[i] for i in generator.permutation(len(window))]
    placed = list(enumerate(in_turn(blocks) if own else chain(*blocks)))
    nouns = axis.language(lang).group_words
    typed = [(k, o) for k, o in placed if o.stereotype != NO_STEREOTYPE]
    asked = [(PS, k, o, o.stereotype) for k, o in typed]
    asked += [(AS, k, o, group) for k, o in typed for group in nouns if group != o.stereotype]
    neutral_order = settings.neutral_group_order or axis.group_names
    asked += [(NS, k, o, group) for group in neutral_order for k, o in placed if o.stereotype == NO_STEREOTYPE]
    rows = (
        filled_row(template, o.word, nouns[group], subset=subset, stereotype=o.stereotype, group=group)
        for subset, k, o, group in asked
        for template in window[k : k + width]
    )
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, seed {seed}"
    name = f"built-in, {own} occupations" if own else "built-in"
    kept: dict[str, Any] = {"notes": words.notes, "occupation_list": own, "scores": words.scores}
    return PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source, **kept)


def write_coal(out: str | Path, lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> CheckedPairs:
    """Build an NLI-CoAL set, write it as .jsonl, .csv or .parquet, and check every row; ``evenli build coal``.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    path, settings = Path(out), settings_of(CoalSettings, settings, options, "write_coal")
    pairs = replace(build_coal(lang, settings), name=path.name)  # so that a run tells which file it asked
    write_pairs(pairs, path)
    return CheckedPairs(pairs, tuple(validate(pairs, axis=settings.axis)), path)


def in_turn(blocks: Sequence[Sequence[Occupation]]) -> list[Occupation]:
    """The occupations of all blocks, each block spread evenly over the whole."""
    places = [((k + 0.5) / len(block), number, k) for number, block in enumerate(blocks) for k in range(len(block))]
    return [blocks[number][k] for _, number, k in sorted(places)]


def _check(occupations: Sequence[Occupation], templates: Sequence[str], width: int, axis: Axis) -> None:
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            raise ResourceError(f"template {number} has no {SLOT} slot: '{template}'")
    known = {NO_STEREOTYPE, *axis.group_names}
    for occupation in occupations:
        if occupation.stereotype not in known:
            raise ResourceError(
                f"occupation '{occupation.word}' is typed '{occupation.stereotype}'; "
                f"axis '{axis.id}' knows {', '.join(sorted(known))}; a word of several groups is for suite groups"
            )
    if not occupations:
        raise InputError("the builder needs at least one occupation")
    needed = len(occupations) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(occupations)} occupations at width {width} need {needed} templates, {len(templates)} were given"
        )
