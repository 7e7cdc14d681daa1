"""Fairer corpora from a scored one: drop the most biased pairs, add their mirror images, or both.

Dolci et al. 2023 make eight variants of SNLI: Sub97 to Sub90 drop the pairs whose score (the larger Abs of the two
sentences) lies above a percentile, Aug97 to Aug90 append the gender-swapped copy of these pairs. evenli adds the two
together, and for each a random control with as many changed pairs, so that an effect of the size of the corpus is not
taken for one of the choice. The output directory:

train.jsonl, dev.jsonl, test.jsonl   the corpus, shuffled, or corpus.jsonl in the old order if no split is asked for
card.json                            thresholds, counts, distributions before and after, hashes
removed.csv, removed.html            what was dropped, highest score first, for people to read
added.csv, added.html                the swapped copies beside their sources, likewise
skipped.csv                          pairs that got no copy because it would say something else, with the reason

Rows keep all their columns. Columns derived from the sentences (parses, say) are not swapped with them.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from evenli.core.binary import read_array
from evenli.core.errors import InputError
from evenli.core.io import hash_files, json_text
from evenli.core.store import RunDir, is_stamped, replacing
from evenli.corpus.mitigation.card import (
    KIND,
    BalanceCounter,
    Balances,
    CorpusCard,
    Counts,
    PairScores,
    Threshold,
    warnings,
)
from evenli.corpus.mitigation.review import AddedRows, RemovedRows
from evenli.corpus.mitigation.selection import CorpusPlan, CorpusSettings, Method, Shuffle, Split
from evenli.corpus.mitigation.sorter import Sorter
from evenli.corpus.run import Scorer
from evenli.corpus.scored import HELD_ROWS, CorpusScores, Parts, percentiles_of
from evenli.corpus.scoring import ScoreSettings, make_scorer, stored_scorer

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)


@dataclass(frozen=True)
class FairerCorpus:
    """A written corpus; ``card`` is the content of its card.json."""

    path: Path
    card: CorpusCard


class _CorpusDir(RunDir):
    """The output directory. Other results have a card.json too, so a card that is not ours protects its directory."""

    def __init__(self, path: str | Path) -> None:
        names = ("corpus.jsonl", "train.jsonl", "dev.jsonl", "test.jsonl", "removed.*", "added.*", "skipped.csv")
        super().__init__(path, kind=KIND, manifest="card.json", owned=names)

    def describes(self, stored: Mapping[str, Any]) -> bool:
        """Whether the card is one of a fairer corpus."""
        return is_stamped(stored, KIND)

    def foreign_files(self) -> list[str]:
        """Names that we do not write; everything in a directory without our card."""
        return super().foreign_files() if self.is_ours() else sorted(entry.name for entry in self.path.iterdir())


def fairer_corpus(
    method: Method,
    scored: CorpusScores | str | Path,
    out: str | Path,
    settings: CorpusSettings,
    *,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Change the pairs whose score lies strictly above a percentile; ``out`` appears when all of it is written.

    ``subtract`` drops them. ``augment`` appends the gender-swapped copy of each: all its sentences are swapped, also if
    only one exceeded the threshold, and the label is kept. A pair in which nothing can be swapped gets no copy. Ids of
    copies end in ``-swapped``. ``combined`` replaces the pairs by their copies.

    ``scorer`` scores the copies for the card and names the words that drive the score of a removed row; without it the
    one is made again that the corpus was scored with, if its files are still there; ``vectors`` of the settings says
    where its word vectors are now. ``overwrite`` replaces a fairer corpus that is already in ``out``.
    """
    if method not in get_args(Method):
        raise InputError(f"no method '{method}'; choose {', '.join(get_args(Method))}")
    scored = CorpusScores.read(scored)
    scores, missing = _scorer(scored, scorer, settings.vectors)
    with replacing(_CorpusDir(out), overwrite=overwrite) as folder:
        # What waits in the directory that is written is gone before its files are hashed.
        waiting = folder / ".waiting"
        plan = CorpusPlan(method, scored, settings, waiting)
        card = _write(plan, settings, folder, scores)
        shutil.rmtree(waiting, ignore_errors=True)
        files = {file.name: hash_files([file]) for file in sorted(folder.iterdir())}
        card = structs.replace(card, driving_words=f"not shown: {missing}" if missing else "shown", files=files)
        (folder / "card.json").write_text(json_text(card.to_dict()), encoding="utf-8")
    return FairerCorpus(Path(out), card)


def _scorer(scored: CorpusScores, given: Scorer | None, vectors: str | Path | None) -> tuple[Scorer | None, str]:
    """The scorer of a corpus, or None and why there is none."""
    if given is None and vectors is None:
        return stored_scorer(scored)
    given = given or stored_scorer(scored, vectors)[0] or make_scorer(ScoreSettings(vectors))
    before = scored.header["scorer"]
    if given.identity != before:
        raise InputError(f"the corpus was scored by '{before}', not by '{given.identity}'; use the same scorer")
    return given, ""


def _write(plan: CorpusPlan, settings: CorpusSettings, folder: Path, scorer: Scorer | None) -> CorpusCard:
    """Write the rows and the lists for review; returns the card, but for what stands in no file."""
    counts, columns, header = plan.counts, plan.scored.columns, plan.scored.header
    if not counts["keep"] + counts["copy"]:
        raise InputError(f"nothing is left of {plan.scored.path}; choose a percentile above {settings.percentile}")
    split = settings.split
    if isinstance(split, str):  # auto: sentences stay in one file
        split = Split() if len(columns) > 1 else None
    files = _Files(plan, split, folder)
    removed = RemovedRows(plan, folder, scorer, drawn=settings.random)
    before, after, gone = (BalanceCounter(columns) for _ in range(3))
    for shard, frame in plan.frames([*removed.needs, "gold"]):
        files.add(shard.rows(shard.keep), frame["original"].filter(shard.keep).to_list())
        removed.take(shard, frame)
        sides = frame.select(before.needs)
        # A copy keeps the label of its source, and leans as its source does once gender words are left out.
        counters = ((shard.eligible, before), (shard.keep, after), (shard.copy, after), (shard.removed, gone))
        for mask, counter in counters:
            counter.add(sides.filter(mask))
    removed.finish()
    copy_scores = _write_copies(plan, files, folder, scorer)
    if plan.skipped:
        plan.skipped_file.rename(folder / "skipped.csv")
    balance = Balances(before.balance(), after.balance(), gone.balance())
    chosen = {"percentile": plan.percentile, "seed": settings.seed}
    return CorpusCard(
        source=header["source"],
        scorer=header["scorer"],
        columns=header["columns"],
        threshold=Threshold(plan.percentile, plan.limit),
        counts=Counts(
            rows=plan.scored.rows,
            no_gold=plan.scored.rows - counts["eligible"],
            above_threshold=counts["above"],
            removed=counts["removed"],
            added=counts["copy"],
            skipped=plan.skipped,
            result=counts["keep"] + counts["copy"],
            splits=files.finish(),
        ),
        pair_max=_scores(plan, copy_scores),
        settings={**plan.settings, **chosen, "split": asdict(split) if split else None},
        balance=balance,
        warnings=warnings(balance.before, balance.after),
        driving_words="",
        files={},
    )


class _Files:
    """The corpus, in one file in the old order or split anew; the rows that are kept come first, then the copies."""

    def __init__(self, plan: CorpusPlan, split: Split | None, folder: Path) -> None:
        self._folder, self._total = folder, plan.counts["keep"] + plan.counts["copy"]
        self._shuffle = None if split is None else Shuffle(plan, split, self._total)
        self._sorter = Sorter()

    def add(self, rows: NDArray[np.int64], lines: list[str], *, copies: bool = False) -> None:
        """Take in rows of a shard as JSON, with their numbers; or copies of these rows."""
        if self._shuffle is None:
            with (self._folder / "corpus.jsonl").open("ab") as stream:
                stream.write("".join(f"{line}\n" for line in lines).encode())
        elif lines:
            self._sorter.add(self._shuffle.keys(rows, copies=copies).tolist(), lines)

    def finish(self) -> dict[str, int]:
        """Write what was sorted; sizes of the files by name."""
        if self._shuffle is None:
            return {"corpus": self._total}
        # A key begins with the number of its file, so that the files follow one another.
        splits = dict(zip(("train", "dev", "test"), self._shuffle.sizes, strict=True))
        remaining = self._sorter.sorted()
        for name, size in splits.items():
            with (self._folder / f"{name}.jsonl").open("wb") as stream:
                stream.writelines(line + b"\n" for line in itertools.islice(remaining, size))
        return splits


def _write_copies(plan: CorpusPlan, files: _Files, folder: Path, scorer: Scorer | None) -> list[Path] | None:
    """Write the copies, and list them beside their sources; files with their scores, None if no scorer gives them."""
    columns, count = plan.scored.columns, plan.counts["copy"]
    review, scored = AddedRows(plan, folder), []
    for shard, rows, frame in plan.copies():
        files.add(rows, frame["line"].to_list(), copies=True)
        for cells in frame.drop("gold", "line").iter_rows():
            review.add(cells)
        if scorer is not None:
            texts = [text for row in frame.select(frame.columns[-len(columns) :]).iter_rows() for text in row]
            scored.append(plan.file(shard.number, "copy_scores.npy"))
            np.save(scored[-1], scorer.score_many(texts)[:, 2].reshape(-1, len(columns)).max(axis=1))
    review.finish()
    return scored if scorer is not None or not count else None


def _scores(plan: CorpusPlan, copies: list[Path] | None) -> PairScores:
    """Percentiles of the scores before and after; ``copies`` are files with the scores of copies."""
    counts = plan.counts

    def after() -> Iterator[NDArray[np.float64]]:
        yield from plan.scores("keep")
        yield from map(read_array, copies or ())

    return PairScores(
        before=_summary(lambda: plan.scores("eligible"), counts["eligible"]),
        after=_summary(after, counts["keep"] + (0 if copies is None else counts["copy"])),
        after_covers="rows of the source; copies not scored" if copies is None else "all rows",
    )


def _summary(parts: Parts, rows: int) -> dict[str, float] | None:
    """Percentiles and mean of scores."""
    if not rows:
        return None
    percentiles = percentiles_of(parts, rows, _QUANTILES)
    # One sum over all where they fit: the last digit of a mean depends on the order of adding.
    held = rows <= HELD_ROWS
    mean = np.concatenate([*parts()]).mean() if held else sum(float(part.sum()) for part in parts()) / rows
    return {**{f"p{percentile:g}": value for percentile, value in percentiles.items()}, "mean": float(mean)}
