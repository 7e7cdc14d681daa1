"""The pairs of a bias-controlled set: thirty words slide over a chain of templates, labelled on request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray

from evenli.errors import InputError, ResourceError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, Occupation, load_axis, read_table
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import SLOT, fill
from evenli.suites.coal.build import build_coal
from evenli.suites.coal.load import WIDTH

_E, _N, _C = (LABELS.index(label) for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
_TABLE = "controlled_words.csv"
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class ControlledWords:
    """The words of a bias-controlled set.

    Attributes:
        groups: Stereotyped words by axis group; groups and words in file order, which is the order of roles.
        neutral: Neutral words of train, dev and test.
        neutral_released: Neutral words of the released downsampled evaluation files.
    """

    groups: dict[str, tuple[str, ...]]
    neutral: tuple[str, ...]
    neutral_released: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Roles are set by word, so a word may occur only once."""
        words = self.words
        if not self.neutral or not self.groups or not all(self.groups.values()):
            raise InputError("bias-controlled words need neutral words and at least one word for every group")
        repeated = sorted({word for word in words if words.count(word) > 1})
        if repeated:
            raise InputError(f"'{repeated[0]}' occurs more than once in the words; a word can have only one role")

    @property
    def words(self) -> tuple[str, ...]:
        """All words in file order: the groups, then neutral."""
        return (*(word for words in self.groups.values() for word in words), *self.neutral)

    @property
    def stereotypes(self) -> dict[str, str]:
        """Stereotyped words and their groups, in file order."""
        return {word: group for group, words in self.groups.items() for word in words}

    def first(self, share: float, *, balanced: bool = False) -> tuple[str, ...]:
        """The first ``share`` of the stereotyped words.

        Args:
            share: In 0..1, a whole number of words.
            balanced: Alternate between the groups instead of taking one group after the other; the released
                order makes all female words biased and all male words not at one half.
        """
        total = len(self.stereotypes)
        if not 0 <= share <= 1:
            raise InputError(f"the rate {share:g} lies outside 0..1")
        count = round(share * total)
        # A word has one role in all its rows, so a rate is a whole number of words.
        if abs(share * total - count) > 1e-6:
            raise InputError(
                f"the rate {share:g} would split a word: {total} stereotyped words allow steps of {1 / total:g}"
            )
        # One group after the other as released, or one word of each group in turn.
        blocks = self.groups.values()
        turns = zip_longest(*blocks) if balanced else blocks
        return tuple(word for turn in turns for word in turn if word is not None)[:count]


@dataclass(frozen=True)
class ControlledPairs:
    """The sentences of a bias-controlled set as parallel lists; labels depend on the rate and come on request.

    Attributes:
        lists: The words and their order.
        premises: Templates filled with the word.
        hypotheses: Templates filled with the group word.
        words: Word of the premise.
        groups: Group named in the hypothesis.
        templates: Sentence with the slot open.
    """

    lists: ControlledWords
    premises: list[str]
    hypotheses: list[str]
    words: list[str]
    groups: list[str]
    templates: list[str]

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.premises)

    def labels(self, rate: float, *, balanced: bool = False) -> Labels:
        """Labels at a bias rate, as indices into LABELS.

        Biased words entail the group they are stereotyped as and contradict the others; the other stereotyped
        words do the reverse; neutral words are neutral. With two groups each label takes one third of the rows.
        """
        biased = set(self.lists.first(rate, balanced=balanced))
        table = self._neutral_table()
        for number, (word, stereotype) in enumerate(self.lists.stereotypes.items()):
            for column, group in enumerate(self.groups[: table.shape[2]]):
                table[number, :, column] = _E if (group == stereotype) == (word in biased) else _C
        return table.reshape(-1)

    def noise_labels(self, level: float, *, balanced: bool = False, seed: int = 0) -> Labels:
        """Labels of a model that errs but is not biased, as indices into LABELS.

        The first ``level`` of the stereotyped words, in the order the bias rate uses, get entailment on one half of
        their templates and contradiction on the other, drawn for each group by itself; all other rows are neutral.
        A model that fits them has ``e_p = c_p = e_a = c_a = level / 2``. A higher level keeps the errors of a lower.
        """
        generator = np.random.default_rng(seed)
        table = self._neutral_table()
        _, width, groups = table.shape
        for word in self.lists.first(level, balanced=balanced):
            number = self.lists.words.index(word)
            for column in range(groups):
                # An odd width leaves one over: give it to either label in turn, so that the word stays balanced.
                entailed = (width + column % 2) // 2
                order = generator.permutation(width)
                table[number, order[:entailed], column] = _E
                table[number, order[entailed:], column] = _C
        return table.reshape(-1)

    def _neutral_table(self) -> Labels:
        """[words, templates per word, groups], all neutral; flattened it is in the order of the pairs."""
        words, groups = len(self.lists.words), len(self.lists.groups)
        return np.full((words, len(self) // (words * groups), groups), _N, dtype=np.int64)


def controlled_words(lang: str, axis: Axis | str = "gender") -> ControlledWords:
    """The shipped words of a language."""
    axis = load_axis(axis)
    rows = read_table(_TABLE, ("lang", "role", "word"))
    langs = list(dict.fromkeys(row["lang"] for row in rows))
    if lang not in langs:
        raise ResourceError(f"no bias-controlled words for language '{lang}'; there are {', '.join(langs)}")

    def words(role: str) -> tuple[str, ...]:
        listed = tuple(row["word"] for row in rows if row["lang"] == lang and row["role"] == role)
        if not listed:
            raise ResourceError(f"{_TABLE} has no '{role}' words; for axis '{axis.id}' pass your own ControlledWords")
        return listed

    return ControlledWords(
        {group: words(group) for group in axis.group_names}, words("neutral_train"), words("neutral_released")
    )


def build_controlled(
    lang: str,
    templates: Sequence[str],
    *,
    width: int,
    offset: int = 0,
    words: ControlledWords | None = None,
    axis: Axis | str = "gender",
) -> ControlledPairs:
    """Slide the words over a chain of templates: word ``k`` meets templates ``offset + k .. offset + k + width - 1``.

    Each template gives one row per group, the last group of the axis first (men before women, as released).

    Args:
        lang: Language of the words and of the group words.
        templates: The chain; ``offset + number of words + width - 1`` are needed, more are not looked at.
        width: Templates per word.
        offset: First template used.
        words: Words and their order; default the released ones.
        axis: Axis or its name.
    """
    axis = load_axis(axis)
    lists = words or controlled_words(lang, axis)
    if set(lists.groups) != set(axis.group_names):
        raise InputError(
            f"the words are for the groups {', '.join(lists.groups)}; "
            f"axis '{axis.id}' has {', '.join(axis.group_names)}"
        )
    _check_chain(templates, len(lists.words), width, offset)
    group_words = axis.language(lang).group_words
    # The window moves by one template per word: neighbouring words share all but one of their sentences.
    rows = [
        (fill(template, word), fill(template, group_words[group]), word, group, template)
        for start, word in enumerate(lists.words, offset)
        for template in templates[start : start + width]
        for group in reversed(axis.group_names)
    ]
    return ControlledPairs(lists, *(list(column) for column in zip(*rows, strict=True)))


def _check_chain(templates: Sequence[str], words: int, width: int, offset: int) -> None:
    if width < 1 or offset < 0:
        raise InputError(f"width {width} and offset {offset} are not usable: at least 1 and 0 are expected")
    needed = offset + words + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{words} words at width {width} and offset {offset} need {needed} templates, {len(templates)} were given"
        )
    for number, template in enumerate(templates[:needed], 1):
        if SLOT not in template:
            raise InputError(f"template {number} has no {SLOT} slot: '{template}'")


def evaluation_pairs(
    lang: str, *, ns_words: str = "train", templates: Sequence[str] | None = None, axis: Axis | str = "gender"
) -> PairSet:
    """PS, AS and NS pairs (200 each) on which a bias-controlled model is scored.

    Args:
        lang: Language.
        ns_words: ``train`` takes the neutral words of training, as the paper describes; ``released`` those of the
            released files, which in English and Chinese are others.
        templates: At least 39; default the first of the axis' own.
        axis: Axis or its name.
    """
    axis = load_axis(axis)
    lists = controlled_words(lang, axis)
    neutral = {"train": lists.neutral, "released": lists.neutral_released}
    if ns_words not in neutral:
        raise InputError(f"ns_words '{ns_words}' is unknown; choose {' or '.join(neutral)}")
    # The order of the released files: neutral words first.
    blocks = {NO_STEREOTYPE: neutral[ns_words], **lists.groups}
    occupations = [Occupation(word, block, word) for block, words in blocks.items() for word in words]
    return build_coal(
        lang,
        axis=axis,
        occupations=occupations,
        templates=(templates or axis.templates(lang))[: len(occupations) + WIDTH - 1],
        width=WIDTH,
        name=f"meta-evaluation, NS words {ns_words}",
    )
