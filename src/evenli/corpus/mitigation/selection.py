"""What happens to each row of a scored corpus: is it kept, is it swapped, into which split does it go.

It holds for a corpus of any size, in memory that does not grow with it. Every row has random keys that depend on the
seed and on its number alone, so they are never stored: whoever needs them draws them again. The rows with the lowest
keys are dev and test, and the order of a file is that of another key. Only the numbers of the rows in dev and test are
held.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from evenli.core.binary import read_array
from evenli.core.errors import InputError
from evenli.core.io import COLUMNS
from evenli.core.parse import csv_line, parse_json_object
from evenli.corpus.mitigation.swap_file import mark_copy, swap_pair
from evenli.corpus.scored import CorpusScores, order_statistics, thresholds
from evenli.corpus.settings import CorpusSettings as CorpusSettings
from evenli.corpus.settings import Split as Split
from evenli.words.swap.conflicts import REASONS
from evenli.words.swap.swapper import Swapper

Method = Literal["subtract", "augment", "combined"]
Mask = NDArray[np.bool_]
_ORDER, _DRAW, _SPLIT, _COPY_ORDER, _COPY_SPLIT = range(5)  # purposes of random keys
TRAIN, DEV, TEST = range(3)


class Shard(NamedTuple):
    """Rows of one shard, and what happens to each: ``drop`` are those above the threshold, or drawn in their place."""

    number: int
    start: int
    scores: NDArray[np.float64]
    eligible: Mask  # with a gold label
    above: Mask  # with a score above the threshold
    can_swap: Mask  # with a copy that waits
    drop: Mask
    keep: Mask

    @property
    def removed(self) -> Mask:
        """The rows that are taken out."""
        return self.eligible & ~self.keep

    @property
    def copy(self) -> Mask:
        """The rows that get a copy."""
        return self.drop & self.can_swap

    def keys(self, seed: int, purpose: int) -> NDArray[np.float64]:
        """Random keys of all rows."""
        return random_keys(seed, purpose, self.start, len(self.scores))

    def rows(self, among: Mask) -> NDArray[np.int64]:
        """Numbers of some of the rows."""
        return np.flatnonzero(among) + self.start


class CorpusPlan:
    """For each row of the source: is it kept, and does it get a copy; and what decided so, for the card.

    Rows above the percentile, whose score is ``limit``, are dropped, or a swapped copy of each is added, or both. In a
    random control as many rows are drawn of all those with a gold label: a row is drawn if its random key is at most a
    limit, and rows that can be swapped have a limit of their own, so that as many copies are made.

    What happens to a row depends on all scores, which are gone through again and again. So the shards are read once for
    them, and the scores wait in a new directory: 8 bytes a row, NaN for one without a gold label. Which rows have a
    word to swap is known only once they are swapped, and where a copy goes only once all are known. So that no row is
    parsed or swapped twice, the swapped rows wait there as well, with what is needed of them later; one shard is in
    memory at a time.
    """

    def __init__(self, method: Method, scored: CorpusScores, settings: CorpusSettings, directory: Path) -> None:
        self.scored, self.percentile, self.seed = scored, float(settings.percentile), settings.seed
        self.swaps, self._augments, self._directory = method != "subtract", method == "augment", directory
        self._drawn: list[float] = []  # highest keys that are drawn of rows that cannot and can be swapped
        self.skipped, self.skipped_file = 0, directory / "skipped.csv"  # rows that got no copy
        self.limit = np.inf  # until it is known
        directory.mkdir()
        for number, frame in enumerate(scored.frames(["pair_max", "no_gold"])):
            np.save(self.file(number, "scores.npy"), np.where(frame["no_gold"], np.nan, frame["pair_max"]))
        (self.limit,) = thresholds(
            scored, [self.percentile], lambda: (shard.scores[shard.eligible] for shard in self.shards())
        ).values()
        self.settings: dict[str, str | bool] = {"method": method}
        if settings.random:
            self.settings = {"method": "random_control", "like": method}
        if self.swaps:
            swapper = Swapper(settings.mode, settings.names, lang=settings.lang)
            self.settings |= swapper.settings
            for shard, frame in self.frames(["original"]):
                self._swap(swapper, shard, frame["original"], shard.eligible if settings.random else shard.above)
        if settings.random:
            self._drawn = [self._highest_key(can_swap) for can_swap in (False, True)]

    def file(self, number: int, kind: str) -> Path:
        """A file that waits in the directory, of the shard of this number."""
        return self._directory / f"{number:06d}.{kind}"

    def shards(self) -> Iterator[Shard]:
        """One shard after the other, with the scores of its rows."""
        start = 0
        for number in range(len(self.scored.shards)):
            scores, has_copy = read_array(self.file(number, "scores.npy")), self.file(number, "has_copy.npy")
            can_swap = read_array(has_copy) if has_copy.is_file() else np.zeros(len(scores), dtype=np.bool_)
            eligible, above = ~np.isnan(scores), scores > self.limit
            drop = above
            if self._drawn:
                keys = random_keys(self.seed, _DRAW, start, len(scores))
                drop = eligible & (keys <= np.where(can_swap, self._drawn[1], self._drawn[0]))
            # Augmentation keeps the row that it copies.
            keep = eligible if self._augments else eligible & ~drop
            yield Shard(number, start, scores, eligible, above, can_swap, drop, keep)
            start += len(scores)

    def frames(self, columns: Sequence[str]) -> Iterator[tuple[Shard, pl.DataFrame]]:
        """The same with some columns of the shard itself: a pass over the corpus."""
        return zip(self.shards(), self.scored.frames(columns), strict=True)

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        """The scored texts of a row."""
        return ["" if record[column] is None else str(record[column]) for column in self.scored.columns]

    def swapped(self, number: int, rows: NDArray[np.int64]) -> pl.DataFrame:
        """Of some rows of a shard: ``row``, ``pair_max``, ``gold``, the copy as JSON, the texts before and after."""
        frame = pl.read_parquet(self.file(number, "swapped"), glob=False)
        # Rows stand in order, and all that can be asked for are there.
        return frame[np.searchsorted(frame["row"].to_numpy(), rows)]

    def copies(self) -> Iterator[tuple[Shard, NDArray[np.int64], pl.DataFrame]]:
        """The rows that get a copy: shard, their numbers and what ``swapped`` gives of them."""
        for shard in self.shards():
            if len(rows := shard.rows(shard.copy)):
                yield shard, rows, self.swapped(shard.number, rows)

    def scores(self, which: str) -> Iterator[NDArray[np.float64]]:
        """The scores of the rows that a mask names, in parts."""
        return (shard.scores[getattr(shard, which)] for shard in self.shards())

    @cached_property
    def counts(self) -> Mapping[str, int]:
        """How many rows there are of each kind, and above the threshold."""
        total: Counter[str] = Counter()
        for shard in self.shards():
            kinds = ("eligible", "above", "keep", "removed", "copy")
            total.update({kind: int(getattr(shard, kind).sum()) for kind in kinds})
        return total

    def _swap(self, swapper: Swapper, shard: Shard, originals: pl.Series, among: Mask) -> None:
        rows, conflicts = [], []
        columns = self.scored.columns
        has_copy = np.zeros(len(among), dtype=np.bool_)
        scores = shard.scores[among].tolist()
        for row, original, score in zip(shard.rows(among).tolist(), originals.filter(among), scores, strict=True):
            record = parse_json_object(original, "scored corpus", halves=True)
            before = self.texts(record)
            done = swap_pair(swapper, before)
            line: str | None = None
            after: list[str | None] = [None] * len(before)
            if done.conflict:
                # Rows with a word to swap that get no copy, for people to read.
                conflicts.append([row, REASONS[done.conflict], *map(clean, before)])
            # The released rules may give back what they took: "a man and a woman" in lower case.
            if done.changed:
                has_copy[row - shard.start] = True
                copy = mark_copy(record, columns, done.texts)
                line = clean(json.dumps(copy, ensure_ascii=False))
                after = [clean(text) for text in done.texts]
            rows.append([row, score, clean(gold_of(record)), line, *map(clean, before), *after])
        texts = [(f"text{at}", pl.String) for at in range(2 * len(columns))]  # before and after the swap
        schema = [("row", pl.Int64), ("pair_max", pl.Float64), ("gold", pl.String), ("line", pl.String), *texts]
        pl.DataFrame(rows, schema=schema, orient="row").write_parquet(self.file(shard.number, "swapped"))
        np.save(self.file(shard.number, "has_copy.npy"), has_copy)
        if conflicts:
            head = [] if self.skipped else [["row", "reason", *columns]]
            with self.skipped_file.open("a", encoding="utf-8", newline="") as stream:
                stream.writelines(map(csv_line, head + conflicts))
        self.skipped += len(conflicts)

    def _highest_key(self, can_swap: bool) -> float:
        """The highest key that is drawn of the rows that can or cannot be swapped, in bounded memory."""

        def keys() -> Iterator[NDArray[np.float64]]:
            for shard in self.shards():
                yield shard.keys(self.seed, _DRAW)[shard.eligible & (shard.can_swap == can_swap)]

        wanted = sum(int((shard.above & (shard.can_swap == can_swap)).sum()) for shard in self.shards())
        there = sum(map(len, keys()))
        return order_statistics(keys, there, [wanted - 1])[wanted - 1] if wanted else -1.0


class Shuffle:
    """Which file every row of the result goes into, and a key that puts the rows of a file in order.

    With the leak guard a row and its copy are one unit; without it each is a unit of its own.
    """

    def __init__(self, plan: CorpusPlan, split: Split, total: int) -> None:
        check_split(total, split)
        self._split, self._seed, self._rows = split, plan.seed, plan.scored.rows
        rooms = {DEV: split.dev, TEST: split.test}
        wanted = sum(rooms.values())
        best = pl.DataFrame(schema={"unit": pl.Int64, "size": pl.Int8, "key": pl.Float64})
        for some in self._units(plan):
            lowest = pl.concat([best, some]).sort("key", maintain_order=True)
            # Two more of size 1 fill a gap that others leave.
            best = pl.concat([lowest[:wanted], lowest[wanted:].filter(pl.col("size") == 1)[:2]])
        self._held: dict[int, int] = {}
        for unit, size, _ in best.iter_rows():
            # A source and its copy may not fit any more; a later single row then fills the place.
            file = next((file for file, room in rooms.items() if room >= size), TRAIN)
            if file != TRAIN:
                rooms[file] -= size
                self._held[unit] = file
        dev, test = split.dev - rooms[DEV], split.test - rooms[TEST]
        self.sizes = [total - dev - test, dev, test]

    def _units(self, plan: CorpusPlan) -> Iterator[pl.DataFrame]:
        """What may go into dev or test: a row of the source, how many rows of the result it stands for, its key."""
        for shard in plan.shards():
            keep, copy = shard.keep.astype(np.int8), shard.copy.astype(np.int8)
            kinds = [(keep, 0, _SPLIT), (copy, self._rows, _COPY_SPLIT)]
            if self._split.leak_guard:
                kinds = [(keep + copy, 0, _SPLIT)]
            for sizes, first, purpose in kinds:
                units = np.arange(len(sizes)) + shard.start + first
                columns = {"unit": units, "size": sizes, "key": shard.keys(self._seed, purpose)}
                yield pl.DataFrame(columns).filter(pl.col("size") > 0)

    def keys(self, rows: NDArray[np.int64], *, copies: bool) -> NDArray[np.float64]:
        """The number of the file plus a key below 1, of ascending rows of one shard or of their copies."""
        first = int(rows[0])
        # The keys of all rows in between are drawn as well: that of a row depends on its number alone.
        order = random_keys(self._seed, _COPY_ORDER if copies else _ORDER, first, int(rows[-1]) - first + 1)
        units = rows + self._rows if copies and not self._split.leak_guard else rows
        return order[rows - first] + [self._held.get(unit, TRAIN) for unit in units.tolist()]


def check_split(total: int, split: Split) -> None:
    """Refuse a split that leaves nothing to train on."""
    if split.dev + split.test >= total:
        tenth = max(1, total // 10)
        raise InputError(
            f"{total} rows are too few for {split.dev} in dev, {split.test} in test and some to train on; "
            f"split a tenth each (--split {tenth},{tenth}), or write one file (--split none)"
        )


def random_keys(seed: int, purpose: int, first: int, count: int) -> NDArray[np.float64]:
    """Random numbers below 1 of the rows from ``first`` on; those of a row depend on seed, purpose and its number."""
    bits = np.random.PCG64([seed, purpose])
    bits.advance(first)
    return np.random.Generator(bits).random(count)


def gold_of(record: Mapping[str, Any]) -> str:
    """The gold label of a row, as text."""
    return str(next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), ""))


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no file in UTF-8 can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
