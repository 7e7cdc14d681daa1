"""The NLI-CoAL builder: occupations slide over templates, premise and hypothesis differ in one slot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evenli.audit.pairs import PairSet
from evenli.audit.settings import PUBLISHED, CoalSettings
from evenli.audit.suites.base import AS, NS, PS, SLOT, filled_row
from evenli.audit.suites.checks import Finding, validate
from evenli.audit.suites.coal.occupations import OccupationList, load_occupations
from evenli.audit.suites.files import write_pairs
from evenli.core.errors import InputError, ResourceError
from evenli.core.settings import settings_of
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE


def build_coal(lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> PairSet:
    """Build PS, AS and NS pairs with the sliding window of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    Occupation ``k`` meets templates ``k .. k + width - 1``. PS pairs name the group an occupation is stereotyped as, AS
    pairs every other group, NS pairs give an unstereotyped occupation every group in turn. The gold label is always
    neutral; ids count from 0 through PS, AS and NS.

    Published words stand in blocks, neutral ones first, so each class meets templates of its own. The classes of any
    other list take turns instead: they meet the same templates, and what a template does cancels between them.

    Args:
        lang: Language of the axis to use.
        settings: Axis, occupations, templates, width and seed.
        options: Fields of ``CoalSettings``, in place of ``settings``.
    """
    settings = settings_of(CoalSettings, settings, options, "build_coal")
    axis, width, seed = load_axis(settings.axis), settings.width, settings.seed
    words = _listed(settings.occupations, lang, axis)
    # The published list keeps its blocks, so that a release is built again byte for byte.
    own, given = "" if words.name == PUBLISHED else words.name, words.occupations
    window = _templates(settings.templates, lang, axis)
    _check(given, window, width, axis)
    blocks = [[o for o in given if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]
    if seed is not None:
        generator = np.random.default_rng(seed)
        blocks = [[block[i] for i in generator.permutation(len(block))] for block in blocks]
        window = [window[i] for i in generator.permutation(len(window))]
    placed = list(enumerate(in_turn(blocks) if own else [one for block in blocks for one in block]))
    neutral_order = settings.neutral_group_order or axis.group_names
    rows = _rows(placed, window, width, axis.language(lang).group_words, neutral_order)
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, seed {seed}"
    name = f"built-in, {own} occupations" if own else "built-in"
    pairs = PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source)
    return replace(pairs, notes=words.notes, occupation_list=own, scores=words.scores)


@dataclass(frozen=True)
class CoalFile:
    """An NLI-CoAL set that was written, and what its check says."""

    path: Path
    pairs: PairSet
    findings: tuple[Finding, ...]


def write_coal(out: str | Path, lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> CoalFile:
    """Build an NLI-CoAL set, write it as .jsonl, .csv or .parquet, and check every row; ``evenli build coal``.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    path, settings = Path(out), settings_of(CoalSettings, settings, options, "write_coal")
    pairs = replace(build_coal(lang, settings), name=path.name)  # so that a run tells which file it asked
    write_pairs(pairs, path)
    return CoalFile(path, pairs, tuple(validate(pairs, axis=settings.axis)))


def _listed(given: Any, lang: str, axis: Axis) -> OccupationList:
    if isinstance(given, OccupationList):
        return given
    if isinstance(given, str | Path):
        return load_occupations(given, lang, axis)
    return OccupationList(PUBLISHED, tuple(given), {})


def _templates(given: Sequence[str] | str | Path | None, lang: str, axis: Axis) -> list[str]:
    if given is None:
        return axis.templates(lang)
    return read_lines(Path(given)) if isinstance(given, str | Path) else list(given)


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
    if not occupations:
        raise InputError("the builder needs at least one occupation")
    needed = len(occupations) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(occupations)} occupations at width {width} need {needed} templates, {len(templates)} were given"
        )
