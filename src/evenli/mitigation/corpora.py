"""Fairer corpora from a scored one: drop the most biased pairs, add their mirror images, or both.

Dolci et al. 2023 make eight variants of SNLI: Sub97 to Sub90 drop the pairs whose score (the larger Abs of the two
sentences) lies above a percentile, Aug97 to Aug90 append the gender-swapped copy of these pairs. Ours adds the two
together, and for each a control in which chance picks the pairs, so that an effect of the size is not taken for one of
the choice.

train.jsonl, dev.jsonl, test.jsonl   the corpus, shuffled, or corpus.jsonl in the old order if no split is asked for
card.json                            thresholds, counts, distributions before and after, hashes
removed.csv, removed.html            what was dropped, highest score first, for people to read
added.csv, added.html                the swapped copies beside their sources, likewise

Rows keep all their columns. Columns derived from the sentences (parses, say) are not swapped with them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evenli._hashing import hash_files
from evenli._rows import COLUMNS
from evenli._version import __version__
from evenli.errors import InputError, RunError
from evenli.mitigation.augment import SUFFIX
from evenli.mitigation.review import Review, Sorter, clean, ranks_of
from evenli.mitigation.splits import Split, assign, generator
from evenli.mitigation.swap import Mode, Swapper
from evenli.sentences.corpus import CorpusScores, Scorer
from evenli.sentences.percentiles import Thresholds, thresholds

Method = Literal["subtract", "augment", "combined"]

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)


@dataclass(frozen=True)
class FairerCorpus:
    """A written corpus.

    Attributes:
        path: The folder.
        card: The content of card.json.
    """

    path: Path
    card: Mapping[str, Any]


def subtract(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    split: Split | Literal["auto"] | None = "auto",
    seed: int = 0,
    overwrite: bool = False,
) -> FairerCorpus:
    """Drop the pairs whose score lies strictly above the percentile.

    Args:
        scored: The scored corpus.
        out: The folder to write.
        percentile: Of the scores of all pairs with a gold label, 0 to 100.
        split: Sizes of the new split; None keeps one file in the old order. ``auto`` splits pairs 10,000/10,000/rest
            and leaves plain sentences in one file.
        seed: Of the shuffle.
        overwrite: Replace a corpus that is already in ``out``.
    """
    corpus = _Corpus.load(scored, percentile)
    plan = _Plan(~corpus.above, np.zeros_like(corpus.above), {"method": "subtract"})
    return _write(corpus, plan, out, split, seed, overwrite)


def augment(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    mode: Mode = "default",
    names: bool = True,
    split: Split | Literal["auto"] | None = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Append the gender-swapped copy of each pair above the percentile; the label is kept.

    All sentences of the pair are swapped, also if only one exceeded the threshold. A pair in which nothing can be
    swapped gets no copy, every other one exactly one. Ids of copies end in ``-swapped``.

    Args:
        scored: The scored corpus.
        out: The folder to write.
        percentile: As in ``subtract``.
        mode: How to swap, see ``Swapper``; ``paper`` is that of Dolci et al.
        names: Whether first names are swapped too.
        split: As in ``subtract``.
        seed: Of the shuffle.
        scorer: Scores the copies for the card; without it the distribution after covers the old rows alone.
        overwrite: As in ``subtract``.
    """
    corpus = _Corpus.load(scored, percentile)
    plan = _Plan.mirrored(corpus, "augment", np.ones_like(corpus.above), mode, names)
    return _write(corpus, plan, out, split, seed, overwrite, scorer)


def combined(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    mode: Mode = "default",
    names: bool = True,
    split: Split | Literal["auto"] | None = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Drop the pairs above the percentile and put their gender-swapped copies in their place, where there is one.

    The arguments are those of ``augment``.
    """
    corpus = _Corpus.load(scored, percentile)
    plan = _Plan.mirrored(corpus, "combined", ~corpus.above, mode, names)
    return _write(corpus, plan, out, split, seed, overwrite, scorer)


def random_control(
    scored: CorpusScores | str | Path,
    out: str | Path,
    *,
    percentile: float,
    like: Method = "subtract",
    mode: Mode = "default",
    names: bool = True,
    split: Split | Literal["auto"] | None = "auto",
    seed: int = 0,
    scorer: Scorer | None = None,
    overwrite: bool = False,
) -> FairerCorpus:
    """Do what ``like`` does, with as many pairs dropped and copied, but let chance pick them.

    The pairs are drawn from all those with a gold label, whatever their score. The other arguments are those of
    ``augment``.
    """
    if like not in {"subtract", "augment", "combined"}:
        raise InputError(f"like '{like}' is unknown; choose subtract, augment or combined")
    corpus = _Corpus.load(scored, percentile)
    swapper = Swapper(mode, names)
    order = generator(seed, 1).permutation(np.flatnonzero(corpus.eligible))
    keep, copy = np.ones_like(corpus.above), np.zeros_like(corpus.above)
    dropped = int(corpus.above.sum())
    if like == "subtract":
        keep[order[:dropped]] = False
    else:
        possible = corpus.swappable(swapper, corpus.eligible)
        copied = int((possible & corpus.above).sum())
        chosen = order[possible[order]][:copied]
        copy[chosen] = True
        if like == "combined":
            keep[chosen] = False
            keep[order[~possible[order]][: dropped - copied]] = False
    settings: dict[str, Any] = {"method": "random_control", "like": like}
    if like != "subtract":
        settings |= {"mode": mode, "names": names}
    return _write(corpus, _Plan(keep, copy, settings, swapper), out, split, seed, overwrite, scorer)


@dataclass(frozen=True)
class _Corpus:
    """A scored corpus with the few numbers per row that decisions are made on."""

    scored: CorpusScores
    score: NDArray[np.float64]
    eligible: NDArray[np.bool_]
    percentile: float
    threshold: Thresholds

    @classmethod
    def load(cls, scored: CorpusScores | str | Path, percentile: float) -> _Corpus:
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
        return self.threshold.values[self.percentile]

    @property
    def above(self) -> NDArray[np.bool_]:
        return self.eligible & (self.score > self.cut)

    def swappable(self, swapper: Swapper, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of these rows have a word to swap."""
        found = np.zeros_like(among)
        for row, record in self.records(among):
            found[row] = any(swapper.gendered(text) for text in self.texts(record))
        return found

    def records(self, among: NDArray[np.bool_]) -> Iterator[tuple[int, dict[str, Any]]]:
        for row, original, _ in self.lines(among):
            yield row, json.loads(original)

    def lines(self, among: NDArray[np.bool_]) -> Iterator[tuple[int, str, list[float]]]:
        """Row number, JSON and scores of the rows asked for, one shard in memory at a time."""
        names = [f"{column}_{kind}" for column in self.scored.columns for kind in ("F", "M", "Abs")]
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
        return [_text(record[column]) for column in self.scored.columns]


@dataclass(frozen=True)
class _Plan:
    """For each row of the source: is it kept, and does it get a copy; and what decided so, for the card."""

    keep: NDArray[np.bool_]
    copy: NDArray[np.bool_]
    settings: Mapping[str, Any]
    swapper: Swapper | None = None

    @classmethod
    def mirrored(cls, corpus: _Corpus, method: Method, keep: NDArray[np.bool_], mode: Mode, names: bool) -> _Plan:
        """A copy for every row above the percentile that has a word to swap."""
        swapper = Swapper(mode, names)
        settings = {"method": method, "mode": mode, "names": names}
        return cls(keep, corpus.swappable(swapper, corpus.above), settings, swapper)


def _write(
    corpus: _Corpus,
    plan: _Plan,
    out: str | Path,
    split: Split | Literal["auto"] | None,
    seed: int,
    overwrite: bool,
    scorer: Scorer | None = None,
) -> FairerCorpus:
    before = corpus.scored.header["scorer"]
    if scorer is not None and scorer.identity != before:
        raise InputError(f"the corpus was scored by '{before}', not by '{scorer.identity}'; use the same scorer")
    if split == "auto":
        split = Split() if len(corpus.scored.columns) > 1 else None
    keep, copy = plan.keep & corpus.eligible, plan.copy & corpus.eligible
    sources = np.concatenate([np.flatnonzero(keep), np.flatnonzero(copy)])
    if not len(sources):
        raise InputError(
            f"nothing is left of {corpus.scored.path}; choose a higher percentile than {corpus.percentile}"
        )
    generator(seed, 0)
    if split is None:
        part, order = np.zeros(len(sources), dtype=np.int8), np.arange(len(sources))
        names = ["corpus.jsonl"]
    else:
        part, order = assign(sources, split, seed)
        names = ["train.jsonl", "dev.jsonl", "test.jsonl"]
    with _new_folder(Path(out), overwrite) as folder:
        place = np.empty(len(sources), dtype=np.int64)
        place[np.concatenate([order[part[order] == which] for which in range(3)])] = np.arange(len(sources))
        sorter = Sorter(folder, len(sources))
        item = np.full(len(keep), -1)
        item[keep] = np.arange(int(keep.sum()))
        for row, original, _ in corpus.lines(keep):
            sorter.add(int(place[item[row]]), original)
        added_scores = _copies(corpus, copy, folder, plan.swapper, scorer, sorter, place[int(keep.sum()) :])
        sizes = [int((part == which).sum()) for which in range(len(names))]
        lines = sorter.sorted()
        for name, size in zip(names, sizes, strict=True):
            with (folder / name).open("w", encoding="utf-8", newline="") as stream:
                for _ in range(size):
                    stream.write(next(lines) + "\n")
        removed = corpus.eligible & ~keep
        if removed.any():
            _review_removed(corpus, removed, folder)
        card = _card(corpus, keep, copy, removed, added_scores)
        card |= {"settings": {**plan.settings, "percentile": corpus.percentile, "seed": seed}}
        card["settings"]["split"] = asdict(split) if split else None
        card["counts"] |= {
            "splits": {name.removesuffix(".jsonl"): size for name, size in zip(names, sizes, strict=True)}
        }
        files = sorted(file for file in folder.iterdir() if file.is_file())
        card["files"] = {file.name: hash_files([file]) for file in files}
        text = json.dumps(card, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        (folder / "card.json").write_text(text, encoding="utf-8")
    return FairerCorpus(Path(out), card)


def _copies(
    corpus: _Corpus,
    copy: NDArray[np.bool_],
    folder: Path,
    swapper: Swapper | None,
    scorer: Scorer | None,
    sorter: Sorter,
    places: NDArray[np.int64],
) -> NDArray[np.float64] | None:
    """Swap the rows to be copied, file them, list them for review; their scores if there is a scorer."""
    if swapper is None or not copy.any():
        return None
    columns = corpus.scored.columns
    ranks = ranks_of(corpus.score, copy)
    review = Review(
        folder, "added", ["row", "pair_max", *columns, *(f"{name}_swapped" for name in columns)], len(places)
    )
    waiting: list[list[str]] = []
    found: list[NDArray[np.float64]] = []

    def score_waiting() -> None:
        if scorer is not None and waiting:
            flat = [text for texts in waiting for text in texts]
            scores = np.asarray(scorer.score_many(flat), dtype=np.float64)[:, 2]
            found.append(scores.reshape(len(waiting), len(columns)).max(axis=1))
        waiting.clear()

    for place, (row, record) in zip(places.tolist(), corpus.records(copy), strict=True):
        before = corpus.texts(record)
        after = [swapper(text) for text in before]
        record |= dict(zip(columns, after, strict=True))
        for column in COLUMNS["id"]:
            if record.get(column) is not None:
                record[column] = f"{record[column]}{SUFFIX}"
        sorter.add(place, clean(json.dumps(record, ensure_ascii=False)))
        review.add(int(ranks[row]), [row, float(corpus.score[row]), *before, *after])
        waiting.append(after)
        if len(waiting) == 10_000:
            score_waiting()
    score_waiting()
    review.finish()
    return np.concatenate(found) if scorer is not None else None


def _review_removed(corpus: _Corpus, removed: NDArray[np.bool_], folder: Path) -> None:
    columns = corpus.scored.columns
    ranks = ranks_of(corpus.score, removed)
    kinds = [f"{column}_{kind}" for column in columns for kind in ("F", "M", "Abs")]
    review = Review(folder, "removed", ["row", "pair_max", *kinds, "gold", *columns], int(removed.sum()))
    for row, original, scores in corpus.lines(removed):
        record = json.loads(original)
        gold = next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), "")
        review.add(int(ranks[row]), [row, float(corpus.score[row]), *scores, gold, *corpus.texts(record)])
    review.finish()


def _card(
    corpus: _Corpus,
    keep: NDArray[np.bool_],
    copy: NDArray[np.bool_],
    removed: NDArray[np.bool_],
    added: NDArray[np.float64] | None,
) -> dict[str, Any]:
    header = corpus.scored.header
    after = corpus.score[keep] if added is None else np.concatenate([corpus.score[keep], added])
    copies = int(copy.sum())
    return {
        "evenli": __version__,
        "source": header["source"],
        "scorer": header["scorer"],
        "columns": list(corpus.scored.columns),
        "threshold": {
            "percentile": corpus.percentile,
            "value": corpus.cut,
            "method": corpus.threshold.method,
            "error_bound": corpus.threshold.error_bound,
        },
        "counts": {
            "rows": len(keep),
            "no_gold": len(keep) - int(corpus.eligible.sum()),
            "above_threshold": int(corpus.above.sum()),
            "removed": int(removed.sum()),
            "added": copies,
            "result": int(keep.sum()) + copies,
        },
        "pair_max": {
            "before": _quantiles(corpus.score[corpus.eligible]),
            "after": _quantiles(after),
            "after_covers": "all rows" if added is not None or not copies else "rows of the source; copies not scored",
        },
    }


def _quantiles(values: NDArray[np.float64]) -> dict[str, float] | None:
    if not len(values):
        return None
    found = np.percentile(values, _QUANTILES).tolist()
    return {**{f"p{q}": value for q, value in zip(_QUANTILES, found, strict=True)}, "mean": float(values.mean())}


@contextlib.contextmanager
def _new_folder(out: Path, overwrite: bool) -> Iterator[Path]:
    """A folder beside ``out`` that takes its name when all is written; a failure leaves nothing behind."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        if not (out / "card.json").is_file():
            raise RunError(f"{out} is not empty and not a corpus made here; choose another folder")
        if not overwrite:
            raise RunError(f"{out} holds a corpus; choose another folder or overwrite it")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        if out.exists():
            shutil.rmtree(out)
        temporary.rename(out)
    except OSError as error:
        raise RunError(f"cannot write to {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _text(value: Any) -> str:
    return "" if value is None else str(value)
