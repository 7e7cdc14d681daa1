"""The NLI-CoAL builder: occupations meet templates, premise and hypothesis differ in one slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evenli.audit.pairs import PairSet
from evenli.audit.settings import DEALT, CoalSettings
from evenli.audit.suites.base import AS, NS, PS, filled_row
from evenli.audit.suites.checks import CheckedPairs, usable_templates, validate
from evenli.audit.suites.files import write_pairs
from evenli.core.errors import InputError, ResourceError
from evenli.core.settings import settings_of
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.design import deal
from evenli.words.occupations import LABOUR, PUBLISHED, load_occupations
from evenli.words.templates import SLOT


def build_coal(lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> PairSet:
    """Build the PS, AS and NS pairs of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    PS pairs name the group an occupation is stereotyped as, AS pairs every other group, NS pairs give an unstereotyped
    occupation every group in turn. The gold label is always neutral; ids count from 0 through PS, AS and NS.

    The order ``dealt`` gives every class of occupations the same templates (``words.design.deal``). In that of the
    official releases, ``published``, neutral words come first and occupation ``k`` meets templates ``k .. k + width -
    1``: there each class meets templates of its own.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    settings = settings_of(CoalSettings, settings, options, "build_coal")
    axis, width = load_axis(settings.axis), settings.width
    words = load_occupations(settings.occupations, lang, axis)
    own, given, dealt = "" if words.name == PUBLISHED else words.name, words.occupations, settings.order == DEALT
    templates = settings.templates
    if isinstance(templates, str | Path):
        templates = read_lines(Path(templates))
    if templates is None:
        templates = usable_templates(axis, lang, width) if dealt else axis.templates(lang)
    _check(given, templates, axis)
    blocks = _blocks(given, axis)
    placed = [occupation for block in blocks for occupation in block]
    if dealt:
        met: dict[str, tuple[str, ...]] = {}
        # An audit asks both lists: a word of both meets the same sentences in both, and is asked once.
        if settings.occupations == PUBLISHED and LABOUR in axis.language(lang).lists:
            met = _deal(_blocks(load_occupations(LABOUR, lang, axis).occupations, axis), templates, settings)
        met = _deal(blocks, templates, settings, met)
    else:
        met = _window([o.word for o in placed], templates, settings)
    nouns = axis.language(lang).group_words
    typed = [o for o in placed if o.stereotype != NO_STEREOTYPE]
    asked = [(PS, o, o.stereotype) for o in typed]
    asked += [(AS, o, group) for o in typed for group in nouns if group != o.stereotype]
    asked += [(NS, o, group) for group in settings.neutral_group_order or axis.group_names for o in blocks[0]]
    rows = (
        filled_row(template, o.word, nouns[group], subset=subset, stereotype=o.stereotype, group=group)
        for subset, o, group in asked
        for template in met[o.word]
    )
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    order = f"seed {settings.seed}" if dealt else "published order"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, {order}"
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


def _blocks(occupations: Sequence[Occupation], axis: Axis) -> list[list[Occupation]]:
    """The words of each class, those without a stereotype first."""
    return [[o for o in occupations if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]


def _deal(
    blocks: Sequence[Sequence[Occupation]],
    templates: Sequence[str],
    settings: CoalSettings,
    given: Mapping[str, Sequence[str]] = {},
) -> dict[str, tuple[str, ...]]:
    """Word -> its templates, in the order ``dealt``."""
    return deal([[o.word for o in block] for block in blocks], templates, settings.width, settings.seed, given)


def _window(words: Sequence[str], templates: Sequence[str], settings: CoalSettings) -> dict[str, tuple[str, ...]]:
    """Word -> its templates in the published order."""
    width = settings.width
    if settings.seed:
        raise InputError(f"the published order has no seed, seed is {settings.seed}; leave one of them out")
    if len(templates) < (needed := len(words) + width - 1):
        raise InputError(
            f"{len(words)} occupations at width {width} need {needed} templates in the published order, "
            f"{len(templates)} were given"
        )
    return {word: tuple(templates[k : k + width]) for k, word in enumerate(words)}


def _check(occupations: Sequence[Occupation], templates: Sequence[str], axis: Axis) -> None:
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
