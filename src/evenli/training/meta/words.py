"""The words of bias-controlled data; their order decides who is biased at which rate."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from evenli.core.errors import InputError, ResourceError
from evenli.words import Axis, load_axis, read_table

_TABLE = "controlled_words.csv"


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
        count = round(share * total)
        # A word has one role in all its rows, so a rate is a whole number of words.
        if abs(share * total - count) > 1e-6:
            raise InputError(
                f"the rate {share:g} would split a word: {total} stereotyped words allow steps of {1 / total:g}"
            )
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
