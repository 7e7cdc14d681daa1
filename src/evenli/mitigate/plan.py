"""What happens to each row of a scored corpus: is it kept, is it swapped, into which split does it go."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.corpus.scored import CorpusScores, Thresholds, thresholds
from evenli.counterfactual.conflicts import REASONS
from evenli.counterfactual.language import LANGUAGES
from evenli.counterfactual.swapper import Mode, Swapper
from evenli.errors import InputError
from evenli.io import COLUMNS
from evenli.mitigate.augment import mark_copy, swap_pair
from evenli.parse import csv_line, parse_json_object

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
    """A scored corpus, and the score above which its rows are changed."""

    scored: CorpusScores
    threshold: Thresholds
    limit: float

    @classmethod
    def load(cls, scored: CorpusScores | str | Path, percentile: float) -> ScoredRows:
        """Open the corpus, and find the score at the percentile."""
        scored = CorpusScores.read(scored)
        threshold = thresholds(scored, [percentile])
        return cls(scored, threshold, threshold.values[float(percentile)])

    def shards(self, columns: Sequence[str] = ()) -> Iterator[Shard]:
        """One shard in memory at a time, with the columns asked for."""
        start = 0
        names = dict.fromkeys([*columns, "pair_max", "no_gold"])
        for number, frame in enumerate(self.scored.frames([*names])):
            eligible = ~frame["no_gold"].to_numpy()
            yield Shard(number, start, frame, eligible, eligible & (frame["pair_max"].to_numpy() > self.limit))
            start += frame.height

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        """The scored texts of a row."""
        return ["" if record[column] is None else str(record[column]) for column in self.scored.columns]


class Shard(NamedTuple):
    """Rows of one shard: which of them have a gold label, and which of these score above the threshold."""

    number: int
    start: int
    frame: pl.DataFrame
    eligible: Mask
    above: Mask

    def part(self, among: Mask) -> tuple[NDArray[np.int64], pl.DataFrame]:
        """Numbers and columns of some of the rows."""
        wanted = np.flatnonzero(among)
        return wanted + self.start, self.frame[wanted]


class SwappedRows:
    """The swapped copies of rows that have a word to swap, in a new directory.

    Which rows these are is known only once they are swapped, and where a copy goes only once all are known. So that
    no row is parsed or swapped twice, the rows wait in the directory with what is needed of them later; one shard is in
    memory at a time, and a bit for each row.
    """

    def __init__(self, corpus: ScoredRows, swapper: Swapper, directory: Path, *, everything: bool = False) -> None:
        self.names = [*corpus.scored.columns, *(f"{column}_swapped" for column in corpus.scored.columns)]
        self.skipped = 0
        self.directory = directory
        self._corpus, self._swapper = corpus, swapper
        self._has_copy: list[NDArray[np.uint8]] = []
        directory.mkdir()
        for shard in corpus.shards(["original"]):
            self._swap(shard, shard.eligible if everything else shard.above)

    def _swap(self, shard: Shard, among: Mask) -> None:
        rows, conflicts = [], []
        columns = self._corpus.scored.columns
        has_copy = np.zeros(len(among), dtype=np.bool_)
        numbers, frame = shard.part(among)
        for row, original, score in zip(numbers.tolist(), frame["original"], frame["pair_max"], strict=True):
            record = parse_json_object(original, "scored corpus", halves=True)
            before = self._corpus.texts(record)
            done = swap_pair(self._swapper, before)
            line: str | None = None
            after: list[str | None] = [None] * len(before)
            if done.conflict:
                # Rows with a word to swap that get no copy, for people to read.
                conflicts.append([row, REASONS[done.conflict], *map(clean, before)])
            # The released rules may give back what they took: "a man and a woman" in lower case.
            if done.changed:
                has_copy[row - shard.start] = True
                copy = mark_copy(record, dict(zip(columns, done.texts, strict=True)))
                line = clean(json.dumps(copy, ensure_ascii=False))
                after = [clean(text) for text in done.texts]
            rows.append([row, score, clean(gold_of(record)), line, *map(clean, before), *after])
        texts = [(f"text{at}", pl.String) for at in range(len(self.names))]
        schema = [("row", pl.Int64), ("pair_max", pl.Float64), ("gold", pl.String), ("line", pl.String), *texts]
        pl.DataFrame(rows, schema=schema, orient="row").write_parquet(self._file(shard.number))
        self._has_copy.append(np.packbits(has_copy))
        if conflicts:
            with (self.directory / "skipped.csv").open("a", encoding="utf-8", newline="") as stream:
                stream.writelines(map(csv_line, conflicts))
        self.skipped += len(conflicts)

    def _file(self, number: int) -> Path:
        return self.directory / f"{number:06d}.parquet"

    def has_copy(self, shard: Shard) -> Mask:
        """Which rows of a shard can be swapped."""
        return np.unpackbits(self._has_copy[shard.number], count=len(shard.eligible)).view(np.bool_)

    def read(self, number: int, rows: NDArray[np.int64]) -> pl.DataFrame:
        """Of some rows of a shard: ``row``, ``pair_max``, ``gold``, the copy as JSON, the texts before and after."""
        frame = pl.read_parquet(self._file(number), glob=False)
        # Rows stand in order, and all that can be asked for are there.
        return frame[np.searchsorted(frame["row"].to_numpy(), rows)]


class Masks(NamedTuple):
    """Of each row of a shard: does it have a gold label, is it kept, is it taken out, does it get a copy."""

    eligible: Mask
    keep: Mask
    removed: Mask
    copy: Mask


Which = Literal["eligible", "keep", "removed", "copy"]


@dataclass(frozen=True)
class Plan:
    """For each row of the source: is it kept, and does it get a copy; and what decided so, for the card."""

    method: Method
    corpus: ScoredRows
    settings: Mapping[str, Any]
    swapped: SwappedRows | None = None
    # Rows to drop and rows to copy of a random control; without one the score decides.
    drawn: tuple[Mask, Mask] | None = None

    @classmethod
    def make(cls, method: Method, corpus: ScoredRows, settings: CorpusSettings, directory: Path) -> Plan:
        """Drop the rows above the percentile, add a swapped copy of each, or both; ``directory`` holds the copies."""
        about: dict[str, Any] = {"method": "random_control", "like": method} if settings.random else {"method": method}
        swapped = None
        if method != "subtract":
            lang: Any = settings.lang
            swapper = Swapper(settings.mode, settings.names, lang=lang)
            swapped = SwappedRows(corpus, swapper, directory, everything=settings.random)
            about |= swapper.settings
        drawn = _draw(corpus, swapped, settings.seed) if settings.random else None
        return cls(method, corpus, about, swapped, drawn)

    def masks(self, shard: Shard) -> Masks:
        """What happens to the rows of a shard."""
        drop = copy = shard.above
        if self.drawn is not None:
            drop, copy = (rows[shard.start : shard.start + len(drop)] for rows in self.drawn)
        elif self.swapped is not None:
            copy = copy & self.swapped.has_copy(shard)
        if self.swapped is None:
            copy = np.zeros_like(drop)
        keep = shard.eligible if self.method == "augment" else shard.eligible & ~drop
        return Masks(shard.eligible, keep, shard.eligible & ~keep, copy)

    def frames(self, which: Which, columns: Sequence[str]) -> Iterator[tuple[int, NDArray[np.int64], pl.DataFrame]]:
        """Number of the shard, numbers and columns of its rows, shard by shard."""
        for shard in self.corpus.shards(columns):
            rows, frame = shard.part(getattr(self.masks(shard), which))
            if len(rows):
                yield shard.number, rows, frame

    def scores(self, which: Which) -> Iterator[NDArray[np.float64]]:
        """The pair scores of some of the rows, in parts."""
        return (frame["pair_max"].to_numpy() for _, _, frame in self.frames(which, ()))

    def rows(self, which: Which) -> NDArray[np.int32]:
        """The numbers of some of the rows: four bytes for each."""
        parts = [rows.astype(np.int32) for _, rows, _ in self.frames(which, ())]
        return np.concatenate([np.zeros(0, dtype=np.int32), *parts])

    def counts(self) -> dict[str, int]:
        """How many rows there are of each kind, and above the threshold."""
        total: Counter[str] = Counter()
        for shard in self.corpus.shards():
            named = {**self.masks(shard)._asdict(), "above": shard.above}
            total.update({name: int(mask.sum()) for name, mask in named.items()})
        return total


def _draw(corpus: ScoredRows, swapped: SwappedRows | None, seed: int) -> tuple[Mask, Mask]:
    """As many rows dropped and copied, drawn from all those with a gold label."""
    _check_size(corpus)
    eligible, above, can_swap = (np.zeros(corpus.scored.rows, dtype=np.bool_) for _ in range(3))
    for shard in corpus.shards():
        part = slice(shard.start, shard.start + len(shard.eligible))
        eligible[part], above[part] = shard.eligible, shard.above
        if swapped is not None:
            can_swap[part] = swapped.has_copy(shard)
    order = np.flatnonzero(eligible).astype(np.int32)
    generator(seed, 1).shuffle(order)
    dropped, copied = int(above.sum()), int((above & can_swap).sum())
    drop, copy = np.zeros_like(above), np.zeros_like(above)
    chosen = order[can_swap[order]][:copied]
    copy[chosen] = drop[chosen] = True
    drop[order[~can_swap[order]][: dropped - copied]] = True
    return drop, copy


def _check_size(corpus: ScoredRows) -> None:
    """Rows that are shuffled have numbers of four bytes."""
    if corpus.scored.rows > np.iinfo(np.int32).max:
        raise InputError(f"{corpus.scored.rows:,} rows are too many to shuffle; pass --split none, and no --random")


def places(plan: Plan, split: Split, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Sizes of train, dev and test, and the place of every row of the result: the kept rows first, then the copies.

    A shuffle holds numbers for all rows, about 20 bytes for each; beside it only a random control does.
    """
    _check_size(plan.corpus)
    part, order = assign(np.concatenate([plan.rows("keep"), plan.rows("copy")]), split, seed)
    sizes = np.bincount(part, minlength=3)
    targets = np.empty(len(order), dtype=np.int32)
    at = 0
    for which in range(3):
        rows = order[part[order] == which]
        targets[rows] = np.arange(at, at + len(rows), dtype=np.int32)
        at += len(rows)
    return sizes, targets


def assign(groups: NDArray[np.int32], split: Split, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
    """Part of each item (0 train, 1 dev, 2 test) and a shuffled order of the items."""
    total = len(groups)
    if split.dev + split.test >= total:
        tenth = max(1, total // 10)
        raise InputError(
            f"{total} rows are too few for {split.dev} in dev, {split.test} in test and some to train on; pass "
            f"--split {tenth},{tenth} for a tenth each, or --split none for one file"
        )
    rng = generator(seed, 0)
    order = _shuffled(rng, total)
    part = np.zeros(total, dtype=np.int8)
    if not split.leak_guard:
        part[order[: split.dev]] = 1
        part[order[split.dev : split.dev + split.test]] = 2
        return part, order
    # How many items each row of the source has, and the number of each row that has any.
    items = np.zeros(int(groups.max()) + 1, dtype=np.int8)
    np.add.at(items, groups, 1)
    unit = np.cumsum(items > 0, dtype=np.int32) - 1
    sizes = items[items > 0]
    left = {1: split.dev, 2: split.test}
    part_of_unit = np.zeros(len(sizes), dtype=np.int8)
    for index in _shuffled(rng, len(sizes)):
        size = int(sizes[index])
        # A source and its copy may not fit any more; a later single row then fills the place.
        which = next((which for which, room in left.items() if room >= size), 0)
        if which:
            part_of_unit[index] = which
            left[which] -= size
        if not any(left.values()):
            break
    return part_of_unit[unit[groups]], order


def _shuffled(rng: np.random.Generator, total: int) -> NDArray[np.int32]:
    """A permutation as ``permutation`` gives it, in half of its memory."""
    order = np.arange(total, dtype=np.int32)
    rng.shuffle(order)
    return order


def generator(seed: int, purpose: int) -> np.random.Generator:
    """The random numbers of a seed, others for each purpose: 0 shuffles, 1 picks the rows of a control."""
    return np.random.default_rng([seed, purpose])


def gold_of(record: Mapping[str, Any]) -> str:
    """The gold label of a row, as text."""
    return str(next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), ""))


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
