"""What happens to each row of a scored corpus: is it kept, is it swapped, into which split does it go."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.corpus.scored import CorpusScores, Thresholds, thresholds
from evenli.counterfactual.conflicts import REASONS
from evenli.counterfactual.language import LANGUAGES
from evenli.counterfactual.swapper import Mode, Swapper
from evenli.errors import InputError
from evenli.mitigate.augment import mark_copy, swap_pair
from evenli.parse import parse_json_object

Method = Literal["subtract", "augment", "combined"]
Mask = NDArray[np.bool_]


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
            raise InputError(f"--split {text} is unknown; choose auto, none or two numbers as in 1000,1000") from None
        return cls(dev=dev, test=test)


@dataclass(frozen=True)
class CorpusSettings:
    """How a fairer corpus is made."""

    percentile: float  # pairs that score strictly above it are changed, 0 to 100; of all pairs with a gold label
    mode: Mode = "default"  # how to swap, see Swapper; paper is that of Dolci et al.
    names: bool | None = None  # whether first names are swapped too; None: in mode paper only
    lang: str = "en"  # of the corpus: en, ja or zh
    # Sizes of the new split; None keeps one file in the old order. auto splits pairs 10,000/10,000/rest and leaves
    # plain sentences in one file. Another text is parsed as ``Split.parse`` does.
    split: Split | str | None = "auto"
    seed: int = 0  # of the shuffle, and of the choice of a random control
    # Pick as many pairs at random from all those with a gold label, whatever their score: the control.
    random: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.split, str) and self.split != "auto":
            object.__setattr__(self, "split", Split.parse(self.split))
        if self.seed < 0:
            raise InputError(f"the seed must be 0 or more, not {self.seed}")
        if self.mode not in get_args(Mode):
            raise InputError(f"no swap mode '{self.mode}'; choose {', '.join(get_args(Mode))}")
        if self.lang not in LANGUAGES:
            raise InputError(f"language '{self.lang}' cannot be swapped; choose {', '.join(LANGUAGES)}")


@dataclass(frozen=True)
class ScoredRows:
    """A scored corpus, and which of its rows have a gold label and which of these score above the threshold."""

    scored: CorpusScores
    eligible: Mask
    above: Mask
    threshold: Thresholds

    @classmethod
    def load(cls, scored: CorpusScores | str | Path, percentile: float) -> ScoredRows:
        """Open the corpus, and find the score at the percentile."""
        scored = CorpusScores.read(scored)
        threshold = thresholds(scored, [percentile])
        eligible, above = np.empty(scored.rows, dtype=np.bool_), np.empty(scored.rows, dtype=np.bool_)
        start = 0
        for frame in scored.frames(["pair_max", "no_gold"]):
            part = slice(start, start + frame.height)
            eligible[part] = ~frame["no_gold"].to_numpy()
            above[part] = eligible[part] & (frame["pair_max"].to_numpy() > threshold.values[float(percentile)])
            start += frame.height
        return cls(scored, eligible, above, threshold)

    def frames(self, columns: Sequence[str], among: Mask) -> Iterator[tuple[NDArray[np.int64], pl.DataFrame]]:
        """Numbers and columns of the rows asked for, one shard in memory at a time."""
        start = 0
        for frame in self.scored.frames(columns):
            wanted = np.flatnonzero(among[start : start + frame.height])
            if len(wanted):
                yield wanted + start, frame[wanted]
            start += frame.height

    def scores(self, among: Mask) -> Iterator[NDArray[np.float64]]:
        """The pair scores of the rows asked for, in parts."""
        return (frame["pair_max"].to_numpy() for _, frame in self.frames(["pair_max"], among))

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        """The scored texts of a row."""
        return ["" if record[column] is None else str(record[column]) for column in self.scored.columns]


class SwappedRows:
    """The swapped copies of rows that have a word to swap, in a new directory.

    Which rows these are is known only once they are swapped, and where a copy goes only once all are known. So that
    no row is parsed or swapped twice, the copies wait in the directory; one shard is in memory at a time.
    """

    def __init__(self, corpus: ScoredRows, among: Mask, swapper: Swapper, directory: Path) -> None:
        columns = corpus.scored.columns
        self.directory = directory
        self.mask = np.zeros_like(among)
        self.names = [*columns, *(f"{column}_swapped" for column in columns)]
        # Rows with a word to swap that get no copy: row, reason and texts, for people to read.
        self.conflicts: list[list[Any]] = []
        directory.mkdir()
        for number, (rows, frame) in enumerate(corpus.frames(["original", "pair_max"], among)):
            copies = []
            for row, original, score in zip(rows.tolist(), frame["original"], frame["pair_max"], strict=True):
                record = parse_json_object(original, "scored corpus", halves=True)
                before = corpus.texts(record)
                done = swap_pair(swapper, before)
                if done.conflict:
                    self.conflicts.append([row, REASONS[done.conflict], *map(clean, before)])
                # The released rules may give back what they took: "a man and a woman" in lower case.
                if done.changed:
                    after = done.texts
                    self.mask[row] = True
                    copy = mark_copy(record, dict(zip(columns, after, strict=True)))
                    line = json.dumps(copy, ensure_ascii=False)
                    copies.append([row, score, *map(clean, [line, *before, *after])])
            texts = [(f"text{at}", pl.String) for at in range(1 + len(self.names))]
            schema = [("row", pl.Int64), ("pair_max", pl.Float64), *texts]
            pl.DataFrame(copies, schema=schema, orient="row").write_parquet(directory / f"{number:06d}.parquet")

    def frames(self, among: Mask) -> Iterator[pl.DataFrame]:
        """Of the rows asked for: ``row``, ``pair_max``, then the copy as JSON, the texts before and those after."""
        for file in sorted(self.directory.iterdir()):
            frame = pl.read_parquet(file, glob=False)
            yield frame.filter(pl.Series(among[frame["row"].to_numpy()], dtype=pl.Boolean))


@dataclass(frozen=True)
class Plan:
    """For each row of the source: is it kept, and does it get a copy; and what decided so, for the card."""

    keep: Mask
    copy: Mask
    settings: Mapping[str, Any]
    swapped: SwappedRows | None = None

    @classmethod
    def make(cls, method: Method, corpus: ScoredRows, settings: CorpusSettings, directory: Path) -> Plan:
        """Drop the rows above the percentile, add a swapped copy of each, or both; ``directory`` holds the copies."""
        about: dict[str, Any] = {"method": "random_control", "like": method} if settings.random else {"method": method}
        swapped, can_swap = None, np.zeros_like(corpus.eligible)
        if method != "subtract":
            among = corpus.eligible if settings.random else corpus.above
            lang: Any = settings.lang
            swapper = Swapper(settings.mode, settings.names, lang=lang)
            swapped = SwappedRows(corpus, among, swapper, directory)
            can_swap = swapped.mask
            about |= swapper.settings
        drop, copy = corpus.above, can_swap & corpus.above
        if settings.random:
            # As many rows dropped and copied, drawn from all those with a gold label.
            order = generator(settings.seed, 1).permutation(np.flatnonzero(corpus.eligible))
            dropped, copied = int(drop.sum()), int(copy.sum())
            drop, copy = np.zeros_like(drop), np.zeros_like(copy)
            chosen = order[can_swap[order]][:copied]
            copy[chosen] = True
            drop[chosen] = True
            drop[order[~can_swap[order]][: dropped - copied]] = True
        return cls(corpus.eligible if method == "augment" else corpus.eligible & ~drop, copy, about, swapped)


def assign(groups: NDArray[np.int64], split: Split, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Part of each item (0 train, 1 dev, 2 test) and a shuffled order of the items."""
    total = len(groups)
    if split.dev + split.test >= total:
        tenth = max(1, total // 10)
        raise InputError(
            f"{total} rows are too few for {split.dev} in dev, {split.test} in test and some to train on; pass "
            f"--split {tenth},{tenth} for a tenth each, or --split none for one file"
        )
    rng = generator(seed, 0)
    order = rng.permutation(total)
    part = np.zeros(total, dtype=np.int8)
    if not split.leak_guard:
        part[order[: split.dev]] = 1
        part[order[split.dev : split.dev + split.test]] = 2
        return part, order
    _, unit, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    left = {1: split.dev, 2: split.test}
    part_of_unit = np.zeros(len(sizes), dtype=np.int8)
    for index in rng.permutation(len(sizes)):
        size = int(sizes[index])
        # A source and its copy may not fit any more; a later single row then fills the place.
        which = next((which for which, room in left.items() if room >= size), 0)
        if which:
            part_of_unit[index] = which
            left[which] -= size
        if not any(left.values()):
            break
    return part_of_unit[unit], order


def generator(seed: int, purpose: int) -> np.random.Generator:
    """The random numbers of a seed, others for each purpose: 0 shuffles, 1 picks the rows of a control."""
    return np.random.default_rng([seed, purpose])


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
