"""The words of bias-controlled data, and mixtures of the three causes: what each word is taught.

Labels teach a model a known stereotype, default gender and error in no direction. A mixture
is ``(b, d, n)``: stereotype and default gender from -1 to 1, error in no direction from 0 to 1. In each class of words
(stereotyped as the first group, as the second, as neither) the taught lean is ``l = d - b``, ``d + b`` and ``d``: so
many of its words say the second group (a man) if it is positive, the first if it is negative. A stereotype and a
default that pull a word in opposite directions cancel; if both were taught to words of their own, half of the class
would say "man" and half "woman", which has no direction. ``n`` of the words of every class err in no
direction, the others are neutral. So a model that answers as it was taught has exactly

    stereotype = b,   default gender = d,   2 min(M, F) + X = n,

and ``|l| + n`` as the total error M + F + X of each class, which all three causes raise. Of ten words that err in no
direction six answer alike for both groups: X = 0.6 n.

Only numpy is needed: the machine that trains computes what its models have learnt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product, zip_longest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError, ResourceError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.training.recipe import CAUSES as CAUSES
from evenli.words import Axis, load_axis, read_table

Levels = tuple[float, ...]
Labels = NDArray[np.int64]
_E, _N, _C = (LABELS.index(label) for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
_TABLE = "controlled_words.csv"
# Answers about the second group and the first, in the order of the rows of a controlled set.
_SAYS_SECOND, _SAYS_FIRST, _BOTH, _NEITHER, _EVEN = (_E, _C), (_C, _E), (_E, _E), (_C, _C), (_N, _N)
_LEANS, _ERRS = 1, 2
_VALUE = np.array([{_E: 1, _N: 0, _C: -1}[label] for label in range(len(LABELS))])


@dataclass(frozen=True)
class ControlledWords:
    """The words of a bias-controlled set; their order decides who is biased at which rate."""

    # Stereotyped words by axis group; groups and words in file order, which is the order of roles.
    groups: dict[str, tuple[str, ...]]
    neutral: tuple[str, ...]  # neutral words of train, dev and test
    neutral_released: tuple[str, ...] = ()  # neutral words of the released downsampled evaluation files

    def __post_init__(self) -> None:
        if not self.neutral or not self.groups or not all(self.groups.values()):
            raise InputError("bias-controlled words need neutral words and at least one word for every group")
        # Roles are set by word, so a word may occur only once.
        repeated = sorted({word for word in self.words if self.words.count(word) > 1})
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
        """The first ``share`` of the stereotyped words, one group after the other as released.

        At one half all female words are biased and no male word is; ``balanced`` alternates between the groups.
        """
        total = len(self.stereotypes)
        if not 0 <= share <= 1:
            raise InputError(f"the rate {share:g} lies outside 0..1")
        count = _count(share, total, f"the rate {share:g}", "stereotyped words")
        blocks = self.groups.values()
        turns = zip_longest(*blocks) if balanced else blocks
        return tuple(word for turn in turns for word in turn if word is not None)[:count]


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


def mixtures(levels: Sequence[Sequence[float]], words: Mapping[str, Any], *, balanced: bool) -> list[Levels]:
    """All combinations of the levels of the three axes that fit into the words; an empty axis stands at 0."""
    if not any(levels):
        return []
    sizes, fitting = class_sizes(words), []
    for mixture in product(*(axis or (0.0,) for axis in levels)):
        # A share that would split a word is an error, not a gap in the grid.
        for level, size in product(mixture, sizes):
            _count(abs(level), size)
        if all(abs(lean) + mixture[2] <= 1 + 1e-9 for lean in _class_leans(mixture, balanced=balanced)):
            fitting.append(mixture)
    return fitting


def word_patterns(mixture: Levels, sizes: Sequence[int], *, balanced: bool) -> tuple[Labels, Labels]:
    """What each word is taught: labels for the second and the first group [words, 2], and its role [words].

    ``sizes`` are those of the classes, see ``class_sizes``. ``balanced`` teaches the stereotype to both groups alike;
    else the words of the first group come first, as in the released sets. Default and error are spread over all
    classes either way.
    """
    patterns: list[tuple[int, int]] = []
    roles: list[int] = []
    for number, (size, lean) in enumerate(zip(sizes, _class_leans(mixture, balanced=balanced), strict=True)):
        leaning, erring = (_count(share, size) for share in (abs(lean), mixture[2]))
        if leaning + erring > size:
            shown = ", ".join(f"{name} {level:g}" for name, level in zip(CAUSES, mixture, strict=True))
            raise InputError(f"the mixture {shown} needs more words than there are: its shares exceed 1")
        patterns += [_SAYS_SECOND if lean > 0 else _SAYS_FIRST] * leaning
        # Half of the words that err say as often the one group as the other; the rest both and neither in turn.
        even = [_SAYS_SECOND, _SAYS_FIRST] * (erring // 4)
        patterns += even + [(_BOTH, _NEITHER)[(number + at) % 2] for at in range(erring - len(even))]
        patterns += [_EVEN] * (size - leaning - erring)
        roles += [_LEANS] * leaning + [_ERRS] * erring + [0] * (size - leaning - erring)
    return np.array(patterns, dtype=np.int64), np.array(roles)


def learnt(mixture: Levels, words: Mapping[str, Any], answers: Labels, *, balanced: bool) -> Levels:
    """The mixture that a model has learnt: of each taught share, what it answers to held-out pairs in that sense.

    ``words`` are those of the sweep, as in its header; ``answers`` are indices into LABELS.
    """
    sizes = class_sizes(words)
    patterns, roles = word_patterns(mixture, sizes, balanced=balanced)
    table = answers.reshape(len(roles), -1, 2)
    right = (_sense(table) == _sense(patterns)[:, None]).mean(axis=1)
    # In every class, the share of its words that lean as taught, and that of those that err as taught.
    bounds = np.cumsum(sizes)[:-1]
    shares = [
        [part[role == kind].sum() / len(part) for kind in (_LEANS, _ERRS)]
        for part, role in zip(np.split(right, bounds), np.split(roles, bounds), strict=True)
    ]
    first, second, none = (
        float(np.sign(lean) * share[0])
        for lean, share in zip(_class_leans(mixture, balanced=balanced), shares, strict=True)
    )
    return (second - first) / 2, none, float(np.mean([share[1] for share in shares]))


def class_sizes(words: Mapping[str, Any]) -> list[int]:
    """Words stereotyped as the first group, as the second, and without stereotype; a mixture knows two groups."""
    sizes = [len(group) for group in words["groups"].values()]
    if len(sizes) != 2:
        raise InputError(f"mixtures of causes need an axis of two groups; this one has {len(sizes)}")
    return [*sizes, len(words["neutral"])]


def _class_leans(mixture: Levels, *, balanced: bool) -> Levels:
    stereotype, default, _ = mixture
    first = stereotype if balanced else float(np.clip(2 * stereotype, -1, 1))
    return default - first, default + 2 * stereotype - first, default


def _count(share: float, size: int, what: str = "", words: str = "words per class") -> int:
    """A share in whole words: a word has one role in all its rows."""
    count = round(share * size)
    if abs(share * size - count) > 1e-6:
        what = what or f"the level {share:g}"
        raise InputError(f"{what} would split a word: {size} {words} allow steps of {1 / size:g}")
    return count


def _sense(labels: Labels) -> Labels:
    """What two answers [..., 2] say together: 1 the second group, -1 the first, 2 both or neither, 0 nothing."""
    values = _VALUE[labels]
    lean = np.sign(values[..., 0] - values[..., 1])
    return np.where((lean == 0) & (values[..., 0] != 0), 2, lean)
