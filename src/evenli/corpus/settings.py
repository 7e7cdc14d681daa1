"""Settings of corpora: how sentences are scored, how a direction is described, how a corpus is made fairer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from evenli.core.errors import InputError
from evenli.core.settings import (
    LANGUAGES,
    PAIR_LISTS,
    SEEDS,
    Settings,
    device_setting,
    internal,
    online_setting,
    setting,
    split_names,
)

if TYPE_CHECKING:
    from evenli.corpus.bias import Centre
    from evenli.corpus.mitigation.swap_file import Select
    from evenli.corpus.rows import KeptRows
    from evenli.corpus.transformer import Pooling
    from evenli.encoders.direction import Pairs
    from evenli.words.swap.swapper import Conflicts, Lang, Mode

Weighting = Literal["uniform", "idf", "sif"]
Engine = Literal["local", "ray"]
VECTORS = "Word vectors: GloVe, word2vec or fastText (.txt, .vec, .bin, .npz, .npy)."
PUBLISHED: Centre = "none"
"""The male offset of the published score: it is left in."""


@dataclass(frozen=True, kw_only=True)
class AxisSettings(Settings):
    """What the gender direction of vectors or of an encoder is made of."""

    pairs: Pairs = setting("ten", "Gender pairs, or a file with two words a line.", choices=PAIR_LISTS, closed=False)
    importance: Pooling = setting(
        "max", "Of an hf encoder alone; max is published.", choices=("max", "attention", "gradients")
    )
    device: str | None = device_setting()
    online: bool = online_setting()


@dataclass(frozen=True)
class DirectionSettings(AxisSettings):
    """How a direction is described; ``count`` and ``among`` are for word vectors."""

    count: int = setting(10, "Nearest words to show on each side.", minimum=1)
    among: int | None = setting(None, "Look for them among the first so many words.")


@dataclass(frozen=True)
class ScoreSettings(AxisSettings):
    """How sentences are scored."""

    vectors: Path | str | None = setting(None, VECTORS)
    weights: Weighting = setting("uniform", "Importance of words.", choices=("uniform", "idf", "sif"))
    counts: str | Path | None = setting(
        None, "Corpus to count words in, for idf and sif; default: SOURCE.", metavar="FILE"
    )
    encoder: str | None = setting(
        None, "What tells how much words count; hf:ID needs no --vectors.", metavar="infersent:FOLDER|hf:ID"
    )
    centre: Centre | None = setting(
        None,
        "Male offset of vectors; default: length, with an encoder function-words.",
        choices=("none", "mean", "function-words", "length"),
    )
    columns: Sequence[str] | None = setting(
        None, "Text columns; default: found by name.", metavar="NAME,NAME", parse=lambda text: split_names(text or None)
    )
    lang: str = setting("en", "Language of the text: word lists, and how it is cut.", choices=LANGUAGES)
    gender_words: Path | str | None = setting(
        None, "Words that state a gender, one a line, in place of ours: they count as 0."
    )
    axis: Sequence[str] | None = setting(
        None,
        "Ends of another axis than gender, in the order of --pairs FILE.",
        metavar="FIRST,SECOND",
        parse=split_names,
    )
    punctuation: bool = setting(False, "Let punctuation carry bias too.")
    engine: Engine = setting("local", "Where to score a corpus.", choices=("local", "ray"))
    address: str | None = setting(None, "Ray cluster; default: one on this machine.", metavar="HOST:PORT|auto")
    batch: int = setting(4096, "Sentences at once.", minimum=1)

    def __post_init__(self) -> None:
        """Refuse what has no scorer."""
        super().__post_init__()
        if self.axis is not None:
            if isinstance(self.axis, str) or len(self.axis) != 2 or not all(self.axis):
                raise InputError(f"axis {self.axis}: name its two ends, as in young,old")
            if isinstance(self.pairs, str) and self.pairs in PAIR_LISTS:
                first, second = self.axis
                raise InputError(
                    f"axis {first},{second} needs pairs (--pairs FILE): two words a line, "
                    f"{first} first, {second} second"
                )
        if self.vectors is None and self.centre not in {None, PUBLISHED} and not self.has_own_vectors:
            raise InputError(f"centre {self.centre} is for word vectors; a transformer alone is scored as published")

    @property
    def has_own_vectors(self) -> bool:
        """Whether the encoder brings the word vectors that it was trained on."""
        return str(self.encoder).startswith("infersent:")


@dataclass(frozen=True)
class ReadSettings(Settings):
    """How a corpus is read; ``columns`` and ``batch`` are as in ``ScoreSettings``."""

    columns: Sequence[str] | None = internal(None, "Text columns; default: found by name.")
    batch: int = internal(4096, "Sentences that the scorer gets at once.", minimum=1)
    scorer: Mapping[str, Any] | None = internal(None, "Settings of the scorer, which scores.json keeps.")
    kept: KeptRows | None = internal(None, "Rows of the source, where they have been parsed already.")


@dataclass(frozen=True, kw_only=True)
class CopySettings(Settings):
    """How the genders of a text are exchanged."""

    mode: Mode = setting(
        "default",
        "How to swap: ours, as Dolci et al., or as Sharma et al. released it.",
        choices=("default", "paper", "released"),
    )
    names: bool | None = setting(
        None,
        "Swap first names, too, where there is evidence for one. Default: no; in mode paper yes.",
        "--names/--no-names",
    )


@dataclass(frozen=True, kw_only=True)
class SwapSettings(CopySettings):
    """How a training file is augmented."""

    select: Select = setting(
        "all", "Pairs to copy: all with a gender word, or as Sharma et al.", choices=("all", "occupation")
    )
    conflicts: Conflicts = setting(
        "skip",
        "Pairs whose copy would say something else, as with a bearded man or Queen Victoria.",
        choices=("skip", "swap"),
    )
    lang: str = setting(
        "auto", "Language of the corpus; auto finds out, and refuses others.", choices=("auto", *LANGUAGES)
    )
    occupations: Sequence[str] | None = setting(
        None, "With --select occupation: your own words.", metavar="WORD,WORD", parse=split_names
    )
    review: Path | str | None = setting(None, "CSV file with every copy beside its source, and why others have none.")
    only_swapped: bool = setting(False, "Write the swapped copies alone.")

    def __post_init__(self) -> None:
        """Refuse what contradicts itself."""
        super().__post_init__()
        if self.occupations is not None and not self.occupations:
            raise InputError("the list of occupations is empty; leave it out to take the 38 of Sharma et al.")
        if self.mode != "default" and self.conflicts != "skip":
            raise InputError(f"a way with conflicts (--conflicts) cannot be combined with mode {self.mode}")
        if self.mode == "released" and self.names:
            raise InputError("mode released swaps no first names; leave the names (--names) or the mode (--mode) out")
        if self.review is not None and Path(self.review).suffix != ".csv":
            raise InputError(f"{self.review}: the list for review is written as .csv")


@dataclass(frozen=True)
class Split:
    """How a corpus is cut anew."""

    dev: int = 10_000  # rows of the development set
    test: int = 10_000  # rows of the test set; the rest is for training
    leak_guard: bool = True  # keep a swapped copy in the split of its source; off only to replicate a plain shuffle

    def __post_init__(self) -> None:
        if self.dev < 0 or self.test < 0:
            raise InputError(f"split sizes must be 0 or more, not {self.dev} and {self.test}")

    @classmethod
    def parse(cls, text: str) -> Split | None:
        """A split as it is written on the command line: ``none``, or the sizes of dev and test as in ``1000,1000``."""
        if text == "none":
            return None
        try:
            dev, test = (int(part) for part in text.split(","))
        except ValueError:
            raise InputError(f"split {text} is unknown; choose auto, none or two numbers as in 1000,1000") from None
        return cls(dev=dev, test=test)


@dataclass(frozen=True)
class CorpusSettings(CopySettings):
    """How a fairer corpus is made."""

    percentile: float = setting(95, "Pairs that score above this percentile are changed.", minimum=0, maximum=100)
    lang: Lang = setting("en", "Language of the corpus.", choices=LANGUAGES)
    random: bool = setting(False, "Let chance pick as many pairs: the control of equal size.")
    # Auto leaves plain sentences in one file, and None keeps one file in the old order.
    split: str | Split | None = setting(
        "auto",
        "New split: auto is 10,000 dev, 10,000 test, rest train; or DEV,TEST as numbers, such as 100,100.",
        choices=("auto", "none"),
        closed=False,
    )
    seed: int = setting(0, "Seed of the shuffle, and of the random control.", **SEEDS)
    vectors: Path | str | None = setting(
        None, "Word vectors of the scores, if they are not where they were: pages mark the words that make a score."
    )

    def __post_init__(self) -> None:
        """Read a split that is a text."""
        super().__post_init__()
        if isinstance(self.split, str) and self.split != "auto":
            object.__setattr__(self, "split", Split.parse(self.split))


@dataclass(frozen=True)
class AugmentSettings(CorpusSettings):
    """How swapped copies are added to a corpus."""

    replace: bool = setting(False, "Replace the pair by its swapped copy instead of adding it.")
