"""The NLI-CoAL builder: occupations slide over templates, premise and hypothesis differ in one slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from evenli.errors import InputError, ResourceError
from evenli.labels import NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, Occupation, load_axis, read_table
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import SLOT, fill

PS, AS, NS = "PS", "AS", "NS"
SUBSETS = (PS, AS, NS)


def read_occupations(path: str | Path) -> list[Occupation]:
    """Occupations of the user's own: a CSV file with the columns word and stereotype."""
    return [Occupation(row["word"], row["stereotype"], row["word"]) for row in read_table(path, ("word", "stereotype"))]


def build_coal(
    lang: str = "en",
    *,
    axis: Axis | str = "gender",
    occupations: Sequence[Occupation] | None = None,
    templates: Sequence[str] | None = None,
    width: int = 10,
    seed: int | None = None,
    neutral_group_order: Sequence[str] | None = None,
    name: str = "built-in",
) -> PairSet:
    """Build PS, AS and NS pairs with the sliding window of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    Occupation ``k`` meets templates ``k .. k + width - 1``. PS pairs name the group an occupation is stereotyped as, AS
    pairs every other group, NS pairs give an unstereotyped occupation every group in turn. The gold label is always
    neutral; ids count from 0 through PS, AS and NS.

    Args:
        lang: Language of the axis to use.
        axis: Axis or its name.
        occupations: Typed occupations; default those of the axis. Blocks are formed here: neutral first.
        templates: Sentence templates with at least one ``[Sub]``; ``len(occupations) + width - 1`` are used.
        width: Templates per occupation.
        seed: Shuffle occupations inside their blocks, and templates, with this seed; None keeps the order.
        neutral_group_order: Order of the group blocks of NS; default the axis order.
        name: Name of the set.
    """
    axis = load_axis(axis)
    given = list(occupations) if occupations is not None else axis.occupations(lang)
    window = list(templates) if templates is not None else axis.templates(lang)
    _check(given, window, width, axis)
    blocks = [[o for o in given if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]
    if seed is not None:
        generator = np.random.default_rng(seed)
        blocks = [[block[i] for i in generator.permutation(len(block))] for block in blocks]
        window = [window[i] for i in generator.permutation(len(window))]
    rows = _rows(blocks, window, width, axis.language(lang).group_words, neutral_group_order or axis.group_names)
    source = f"built by evenli: axis {axis.id}, {len(given)} occupations, width {width}, seed {seed}"
    numbered = ({"id": str(number), **row} for number, row in enumerate(rows))
    return PairSet.from_rows(numbered, name=name, suite="coal", lang=lang, source=source)


def _rows(
    blocks: Sequence[Sequence[Occupation]],
    templates: Sequence[str],
    width: int,
    group_words: Mapping[str, str],
    neutral_order: Sequence[str],
) -> Iterator[dict[str, str]]:
    """The rows of PS, AS and NS; the first block of occupations is the neutral one."""
    numbered = list(enumerate(occupation for block in blocks for occupation in block))
    neutral, typed = numbered[: len(blocks[0])], numbered[len(blocks[0]) :]
    subsets = [(PS, k, o, o.stereotype) for k, o in typed]
    subsets += [(AS, k, o, group) for k, o in typed for group in group_words if group != o.stereotype]
    subsets += [(NS, k, o, group) for group in neutral_order for k, o in neutral]
    for subset, k, occupation, group in subsets:
        for template in templates[k : k + width]:
            yield {
                "subset": subset,
                "premise": fill(template, occupation.word),
                "hypothesis": fill(template, group_words[group]),
                "gold": NEUTRAL,
                "occupation": occupation.word,
                "stereotype": occupation.stereotype,
                "template": template,
                "group": group,
            }


def _check(occupations: Sequence[Occupation], templates: Sequence[str], width: int, axis: Axis) -> None:
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            raise ResourceError(f"template {number} has no {SLOT} slot: '{template}'")
    known = {NO_STEREOTYPE, *axis.group_names}
    for occupation in occupations:
        if occupation.stereotype not in known:
            raise ResourceError(
                f"occupation '{occupation.word}' is typed '{occupation.stereotype}'; "
                f"axis '{axis.id}' knows {', '.join(sorted(known))}"
            )
    if width < 1 or not occupations:
        raise InputError("the builder needs at least one occupation and a width of at least 1")
    needed = len(occupations) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(occupations)} occupations at width {width} need {needed} templates, {len(templates)} were given"
        )
