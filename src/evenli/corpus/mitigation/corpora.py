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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import polars as pl
from msgspec import structs
from numpy.typing import NDArray

from evenli.core.binary import read_array
from evenli.core.errors import InputError
from evenli.core.io import hash_files, json_text
from evenli.core.parse import csv_line, parse_json_object
from evenli.core.store import RunDir, is_stamped, replacing
from evenli.corpus.balance import BalanceCounter, warnings
from evenli.corpus.importance import StaticWeights
from evenli.corpus.mitigation.card import KIND, Balances, CorpusCard, Counts, PairScores, Threshold
from evenli.corpus.mitigation.plan import CorpusSettings, Method, Plan, ScoredRows, Split, gold_of
from evenli.corpus.mitigation.review import Review, added_page, driving_words, explainer, removed_page
from evenli.corpus.mitigation.shuffle import Shuffle
from evenli.corpus.mitigation.sorter import BUCKET, Sorter
from evenli.corpus.run import LONG_TEXT, Scorer
from evenli.corpus.scored import HELD_ROWS, SCORES, CorpusScores, Parts, percentiles_of
from evenli.corpus.scoring import ScoreSettings, make_scorer, stored_scorer

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)
_BATCH = 10_000
_EXPLAINED = 1_000  # rows whose words are weighed at once


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
    scorer: Scorer | str | Path | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Change the pairs whose score lies strictly above a percentile; ``out`` appears when all of it is written.

    ``subtract`` drops them. ``augment`` appends the gender-swapped copy of each: all its sentences are swapped, also if
    only one exceeded the threshold, and the label is kept. A pair in which nothing can be swapped gets no copy. Ids of
    copies end in ``-swapped``. ``combined`` replaces the pairs by their copies.

    ``scorer`` scores the copies for the card and names the words that drive the score of a removed row; without it the
    one is made again that the corpus was scored with, if its files are still there. A path says where its word vectors
    are now. ``overwrite`` replaces a fairer corpus that is already in ``out``.
    """
    if method not in get_args(Method):
        raise InputError(f"no method '{method}'; choose {', '.join(get_args(Method))}")
    corpus = ScoredRows.load(scored, settings.percentile)
    scores, missing = _scorer(corpus.scored, scorer)
    with replacing(_CorpusDir(out), overwrite=overwrite) as folder:
        # The copies wait in the directory that is written, and are gone before its files are hashed.
        plan = Plan.make(method, corpus, settings, folder / ".swapped")
        card = _write(plan, settings, folder, scores)
        files = {file.name: hash_files([file]) for file in sorted(folder.iterdir())}
        card = structs.replace(card, driving_words=f"not shown: {missing}" if missing else "shown", files=files)
        (folder / "card.json").write_text(json_text(card.to_dict()), encoding="utf-8")
    return FairerCorpus(Path(out), card)


def _scorer(scored: CorpusScores, given: Scorer | str | Path | None) -> tuple[Scorer | None, str]:
    """The scorer of a corpus, or None and why there is none."""
    if given is None:
        return stored_scorer(scored)
    if isinstance(given, str | Path):
        given = stored_scorer(scored, given)[0] or make_scorer(ScoreSettings(given))
    before = scored.header["scorer"]
    if given.identity != before:
        raise InputError(f"the corpus was scored by '{before}', not by '{given.identity}'; use the same scorer")
    return given, ""


def _write(plan: Plan, settings: CorpusSettings, folder: Path, scorer: Scorer | None) -> CorpusCard:
    """Write the rows and the lists for review; returns the card, but for what stands in no file."""
    corpus, counts, swapped = plan.corpus, plan.counts, plan.swapped
    if not counts["keep"] + counts["copy"]:
        raise InputError(f"nothing is left of {corpus.scored.path}; choose a percentile above {settings.percentile}")
    split = settings.split
    if isinstance(split, str):  # auto: sentences stay in one file
        split = Split() if len(corpus.scored.columns) > 1 else None
    splits = _write_rows(plan, split, settings.seed, folder)
    if counts["copy"]:
        _review_added(plan, folder)
    if counts["removed"]:
        _review_removed(plan, folder, scorer, drawn=settings.random)
    if swapped is not None and swapped.skipped:
        # The rows that got no copy wait without a header.
        with (folder / "skipped.csv").open("wb") as target, (swapped.directory / "skipped.csv").open("rb") as source:
            target.write(csv_line(["row", "reason", *corpus.scored.columns]).encode())
            shutil.copyfileobj(source, target)
    balance, header = _balance(plan), corpus.scored.header
    chosen = {"percentile": corpus.percentile, "seed": settings.seed}
    card = CorpusCard(
        source=header["source"],
        scorer=header["scorer"],
        columns=header["columns"],
        threshold=Threshold(corpus.percentile, corpus.limit),
        counts=_counts(plan, splits),
        pair_max=_scores(plan, scorer),
        settings={**plan.settings, **chosen, "split": asdict(split) if split else None},
        balance=balance,
        warnings=warnings(balance.before, balance.after),
        driving_words="",
        files={},
    )
    shutil.rmtree(folder / ".swapped", ignore_errors=True)
    return card


def _lines(plan: Plan) -> Iterator[tuple[bool, NDArray[np.int64], list[str]]]:
    """The rows of the result as JSON, those of a shard at a time, with their numbers: kept ones first, then copies."""
    for _, rows, frame in plan.frames("keep", ["original"]):
        yield False, rows, frame["original"].to_list()
    for rows, frame in plan.copies():
        yield True, rows, frame["line"].to_list()


def _write_rows(plan: Plan, split: Split | None, seed: int, folder: Path) -> dict[str, int]:
    """Write the corpus, in the old order or split anew; sizes of the files by name."""
    total = plan.counts["keep"] + plan.counts["copy"]
    if split is None:
        with (folder / "corpus.jsonl").open("wb") as stream:
            for _, _, lines in _lines(plan):
                stream.write("".join(f"{line}\n" for line in lines).encode())
        return {"corpus": total}
    shuffle = Shuffle(plan, split, seed, total)
    sorter = Sorter(folder, shuffle.borders(BUCKET))
    for copies, rows, lines in _lines(plan):
        sorter.add(shuffle.keys(rows, copies=copies).tolist(), lines)
    # A key begins with the number of its file, so that the files follow one another.
    splits = dict(zip(("train", "dev", "test"), shuffle.sizes, strict=True))
    remaining = sorter.sorted()
    for name, size in splits.items():
        with (folder / f"{name}.jsonl").open("wb") as stream:
            stream.writelines(line + b"\n" for line in itertools.islice(remaining, size))
    remaining.close()
    return splits


def _review_added(plan: Plan, folder: Path) -> None:
    """The copies beside their sources."""
    columns = plan.corpus.scored.columns
    review = Review(folder, "added", added_page(columns), lambda: plan.scores("copy"), plan.counts["copy"])
    for _, frame in plan.copies():
        for cells in frame.drop("gold", "line").iter_rows():
            review.add(cells)
    review.finish(["row", "pair_max", *columns, *(f"{column}_swapped" for column in columns)])


def _copy_scores(plan: Plan, scorer: Scorer) -> Iterator[NDArray[np.float64]]:
    """The pair scores of the copies, in parts; each part is scored once, and waits on the disk."""
    if plan.swapped is None:
        return
    columns = len(plan.corpus.scored.columns)
    for number, rows, _ in plan.frames("copy", ()):
        file = plan.swapped.directory / f"{number:06d}.npy"
        if not file.exists():
            frame = plan.swapped.read(number, rows)
            texts = [text for row in frame.select(frame.columns[-columns:]).iter_rows() for text in row]
            starts = range(0, len(texts), _BATCH * columns)
            parts = [scorer.score_many(texts[at : at + _BATCH * columns])[:, 2] for at in starts]
            np.save(file, np.concatenate(parts).reshape(-1, columns).max(axis=1))
        yield read_array(file)


def _balance(plan: Plan) -> Balances:
    """Sides and labels of the rows with a gold label, and of what is left of them with the copies."""
    scored = plan.corpus.scored
    before, after, gone = (BalanceCounter(scored.columns) for _ in range(3))
    for shard in plan.corpus.shards(before.needs):
        masks = plan.masks(shard)
        # A copy keeps the label of its source, and leans as its source does once gender words are left out.
        counters = ((masks.eligible, before), (masks.keep, after), (masks.copy, after), (masks.removed, gone))
        for mask, counter in counters:
            counter.add(shard.part(mask)[1])
    return Balances(before.balance(), after.balance(), gone.balance())


def _review_removed(plan: Plan, folder: Path, scorer: Any, *, drawn: bool) -> None:
    """The rows that were taken out, with the words that drive their scores where a scorer knows them."""
    columns = plan.corpus.scored.columns
    kinds = [f"{column}_{kind}" for column in columns for kind in SCORES]
    page = removed_page(columns, None if drawn else plan.corpus.limit, scorer)
    explain = explainer(scorer)
    words = [] if explain is None else ["driving_words"]
    review = Review(folder, "removed", page, lambda: plan.scores("removed"), plan.counts["removed"])
    # A network takes long: the words of the rows on the page are enough there.
    cheap = isinstance(getattr(scorer, "weights", None), StaticWeights)
    # Rows that were swapped have been read from JSON already.
    needed = ["pair_max", *kinds, *([] if plan.swapped else ["original"])]
    for number, rows, frame in plan.frames("removed", needed):
        numbers = frame.select("pair_max", *kinds).iter_rows()
        labelled = _labelled(plan, number, rows, frame)
        listed = zip(rows.tolist(), numbers, labelled, strict=True)
        while some := list(itertools.islice(listed, _EXPLAINED)):
            # The most biased text of each row, by its scores.
            strongest = [texts[int(np.argmax(cells[3 :: len(SCORES)]))][:LONG_TEXT] for _, cells, (_, texts) in some]
            wanted = [explain is not None and (cheap or review.shows(cells[0])) for _, cells, _ in some]
            explained = iter(explain([*itertools.compress(strongest, wanted)]) if explain and any(wanted) else ())
            for (row, cells, (gold, texts)), shown in zip(some, wanted, strict=True):
                named = driving_words(next(explained)) if shown else ""
                review.add([row, *cells, gold, *texts, *([named] if words else [])])
    review.finish(["row", "pair_max", *kinds, "gold", *columns, *words])


def _labelled(
    plan: Plan, number: int, rows: NDArray[np.int64], frame: pl.DataFrame
) -> Iterator[tuple[str, Sequence[str]]]:
    """Gold label and texts of some rows of a shard."""
    if plan.swapped is not None:
        width = len(plan.corpus.scored.columns)
        for _, _, gold, _, *texts in plan.swapped.read(number, rows).iter_rows():
            yield gold, texts[:width]
        return
    for original in frame["original"]:
        record = parse_json_object(original, "scored corpus", halves=True)
        yield gold_of(record), plan.corpus.texts(record)


def _counts(plan: Plan, splits: dict[str, int]) -> Counts:
    rows, counts = plan.corpus.scored.rows, plan.counts
    return Counts(
        rows=rows,
        no_gold=rows - counts["eligible"],
        above_threshold=counts["above"],
        removed=counts["removed"],
        added=counts["copy"],
        skipped=0 if plan.swapped is None else plan.swapped.skipped,
        result=counts["keep"] + counts["copy"],
        splits=splits,
    )


def _scores(plan: Plan, scorer: Scorer | None) -> PairScores:
    counts = plan.counts

    def after() -> Iterator[NDArray[np.float64]]:
        yield from plan.scores("keep")
        if scorer is not None:
            yield from _copy_scores(plan, scorer)

    covered = scorer is not None or not counts["copy"]
    return PairScores(
        before=_summary(lambda: plan.scores("eligible"), counts["eligible"]),
        after=_summary(after, counts["keep"] + (counts["copy"] if covered else 0)),
        after_covers="all rows" if covered else "rows of the source; copies not scored",
    )


def _summary(parts: Parts, rows: int) -> dict[str, float] | None:
    """Percentiles and mean of scores."""
    if not rows:
        return None
    percentiles = percentiles_of(parts, rows, _QUANTILES)
    # One sum over all where they fit: the last digit of a mean depends on the order of adding.
    held = rows <= HELD_ROWS
    mean = np.concatenate([*parts()]).mean() if held else sum(float(part.sum()) for part in parts()) / rows
    return {**{f"p{percentile:g}": value for percentile, value in percentiles.values.items()}, "mean": float(mean)}
