"""What becomes of each row of a scored corpus: is it kept, does it get a gender-swapped copy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.percentiles import Thresholds, thresholds
from evenli.corpus.scored import SCORES, CorpusScores
from evenli.mitigate.splits import generator
from evenli.mitigate.swap import Mode, Swapper

Method = Literal["subtract", "augment", "combined"]


@dataclass(frozen=True)
class ScoredRows:
    """A scored corpus with the few numbers per row that decisions are made on."""

    scored: CorpusScores
    score: NDArray[np.float64]
    eligible: NDArray[np.bool_]
    percentile: float
    threshold: Thresholds

    @classmethod
    def load(cls, scored: CorpusScores | str | Path, percentile: float) -> ScoredRows:
        """Open the corpus, and find the score at the percentile."""
        if not isinstance(scored, CorpusScores):
            scored = CorpusScores.read(scored)
        threshold = thresholds(scored, [percentile])
        score = np.empty(scored.rows)
        eligible = np.empty(scored.rows, dtype=np.bool_)
        start = 0
        for frame in scored.frames(["pair_max", "no_gold"]):
            end = start + frame.height
            score[start:end], eligible[start:end] = frame["pair_max"].to_numpy(), ~frame["no_gold"].to_numpy()
            start = end
        return cls(scored, score, eligible, float(percentile), threshold)

    @property
    def cut(self) -> float:
        """The score at the percentile."""
        return self.threshold.values[self.percentile]

    @property
    def above(self) -> NDArray[np.bool_]:
        """Which rows with a gold label score strictly more."""
        return self.eligible & (self.score > self.cut)

    def swappable(self, swapper: Swapper, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these rows have a word to swap."""
        found = np.zeros_like(among)
        for row, record in self.records(among):
            found[row] = any(swapper.gendered(text) for text in self.texts(record))
        return found

    def records(self, among: NDArray[np.bool_]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Row number and content of the rows asked for."""
        for row, original, _ in self.lines(among):
            yield row, json.loads(original)

    def lines(self, among: NDArray[np.bool_]) -> Iterator[tuple[int, str, list[float]]]:
        """Row number, JSON and scores of the rows asked for, one shard in memory at a time."""
        names = [f"{column}_{kind}" for column in self.scored.columns for kind in SCORES]
        start = 0
        for frame in self.scored.frames(["original", *names]):
            wanted = np.flatnonzero(among[start : start + frame.height])
            if len(wanted):
                some = frame[wanted]
                for place, original, scores in zip(
                    wanted.tolist(), some["original"], some.select(names).iter_rows(), strict=True
                ):
                    yield start + place, original, list(scores)
            start += frame.height

    def texts(self, record: Mapping[str, Any]) -> list[str]:
        """The scored texts of a row."""
        return ["" if record[column] is None else str(record[column]) for column in self.scored.columns]


@dataclass(frozen=True)
class Plan:
    """For each row of the source: is it kept, and does it get a copy; and what decided so, for the card."""

    keep: NDArray[np.bool_]
    copy: NDArray[np.bool_]
    settings: Mapping[str, Any]
    swapper: Swapper | None = None

    @classmethod
    def dropping(cls, corpus: ScoredRows) -> Plan:
        """No row above the percentile is kept, none is copied."""
        return cls(~corpus.above, np.zeros_like(corpus.above), {"method": "subtract"})

    @classmethod
    def mirroring(cls, corpus: ScoredRows, method: Literal["augment", "combined"], mode: Mode, names: bool) -> Plan:
        """A copy for every row above the percentile that has a word to swap; ``combined`` drops the row itself."""
        swapper = Swapper(mode, names)
        keep = np.ones_like(corpus.above) if method == "augment" else ~corpus.above
        settings = {"method": method, "mode": mode, "names": names}
        return cls(keep, corpus.swappable(swapper, corpus.above), settings, swapper)

    @classmethod
    def by_chance(cls, corpus: ScoredRows, like: Method, mode: Mode, names: bool, seed: int) -> Plan:
        """As many rows dropped and copied as by ``like``, drawn from all those with a gold label."""
        swapper = Swapper(mode, names)
        order = generator(seed, 1).permutation(np.flatnonzero(corpus.eligible))
        keep, copy = np.ones_like(corpus.above), np.zeros_like(corpus.above)
        dropped = int(corpus.above.sum())
        settings: dict[str, Any] = {"method": "random_control", "like": like}
        if like == "subtract":
            keep[order[:dropped]] = False
            return cls(keep, copy, settings)
        possible = corpus.swappable(swapper, corpus.eligible)
        copied = int((possible & corpus.above).sum())
        chosen = order[possible[order]][:copied]
        copy[chosen] = True
        if like == "combined":
            keep[chosen] = False
            keep[order[~possible[order]][: dropped - copied]] = False
        return cls(keep, copy, settings | {"mode": mode, "names": names}, swapper)
