"""The NLI-CoAL builder: occupations slide over templates, premise and hypothesis differ in one slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from evenli.errors import InputError, ResourceError
from evenli.pairs import PairSet
from evenli.resources import Axis, Occupation, load_axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import AS, NS, PS, PUBLISHED, SLOT, filled_row
from evenli.suites.coal.occupations import OccupationList


def build_coal(
    lang: str = "en",
    *,
    axis: Axis | str = "gender",
    occupations: OccupationList | Sequence[Occupation] | None = None,
    templates: Sequence[str] | None = None,
    width: int = 10,
    seed: int | None = None,
    neutral_group_order: Sequence[str] | None = None,
) -> PairSet:
    """Build PS, AS and NS pairs with the sliding window of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    Occupation ``k`` meets templates ``k .. k + width - 1``. PS pairs name the group an occupation is stereotyped as, AS
    pairs every other group, NS pairs give an unstereotyped occupation every group in turn. The gold label is always
    neutral; ids count from 0 through PS, AS and NS.

    Published words stand in blocks, neutral ones first, so each class meets templates of its own. The classes of any
    other list take turns instead: they meet the same templates, and what a template does cancels between them.

    Args:
        lang: Language of the axis to use.
        axis: Axis or its name.
        occupations: A list, or typed occupations, which are put in blocks; default the published ones.
        templates: Sentence templates with at least one ``[Sub]``; ``len(occupations) + width - 1`` are used.
        width: Templates per occupation.
        seed: Shuffle occupations inside their blocks, and templates, with this seed; None keeps the order.
        neutral_group_order: Order of the group blocks of NS; default the axis order.
    """
    axis = load_axis(axis)
    words = occupations if isinstance(occupations, OccupationList) else OccupationList(PUBLISHED, (), {})
    given = occupations if isinstance(occupations, Sequence) else words.occupations or axis.occupations(lang)
    window = list(templates) if templates is not None else axis.templates(lang)
    _check(given, window, width, axis)
    blocks = [[o for o in given if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]
    if seed is not None:
        generator = np.random.default_rng(seed)
        blocks = [[block[i] for i in generator.permutation(len(block))] for block in blocks]
        window = [window[i] for i in generator.permutation(len(window))]
    # The published list keeps its blocks, so that a release is built again byte for byte.
    own = "" if words.name == PUBLISHED else words.name
    placed = list(enumerate(in_turn(blocks) if own else [one for block in blocks for one in block]))
    rows = _rows(placed, window, width, axis.language(lang).group_words, neutral_group_order or axis.group_names)
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, seed {seed}"
    name = f"built-in, {own} occupations" if own else "built-in"
    pairs = PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source)
    return replace(pairs, notes=words.notes, occupation_list=own, scores=words.scores)


def in_turn(blocks: Sequence[Sequence[Occupation]]) -> list[Occupation]:
    """The occupations of all blocks, each block spread evenly over the whole."""
    places = [((k + 0.5) / len(block), number, k) for number, block in enumerate(blocks) for k in range(len(block))]
    return [blocks[number][k] for _, number, k in sorted(places)]


def _rows(
    placed: Sequence[tuple[int, Occupation]],
    templates: Sequence[str],
    width: int,
    group_words: Mapping[str, str],
    neutral_order: Sequence[str],
) -> Iterator[dict[str, str]]:
    """The rows of PS, AS and NS for occupations with their places in the window."""
    neutral = [entry for entry in placed if entry[1].stereotype == NO_STEREOTYPE]
    typed = [entry for entry in placed if entry[1].stereotype != NO_STEREOTYPE]
    subsets = [(PS, k, o, o.stereotype) for k, o in typed]
    subsets += [(AS, k, o, group) for k, o in typed for group in group_words if group != o.stereotype]
    subsets += [(NS, k, o, group) for group in neutral_order for k, o in neutral]
    for subset, k, occupation, group in subsets:
        for template in templates[k : k + width]:
            columns = {"subset": subset, "stereotype": occupation.stereotype, "group": group}
            yield filled_row(template, occupation.word, group_words[group], **columns)


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
    if width < 1 or not occupations:
        raise InputError("the builder needs at least one occupation and a width of at least 1")
    needed = len(occupations) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(occupations)} occupations at width {width} need {needed} templates, {len(templates)} were given"
        )
