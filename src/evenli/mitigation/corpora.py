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
import csv
import html
import io
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
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
from evenli.mitigation.swap import Mode, Swapper
from evenli.sentences.corpus import CorpusScores, Scorer, Thresholds, thresholds

Method = Literal["subtract", "augment", "combined"]

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)
_BUCKET = 200_000
_SHOWN = 1_000


@dataclass(frozen=True)
class Split:
    """How a corpus is cut anew.

    Attributes:
        dev: Rows of the development set.
        test: Rows of the test set; the rest is for training.
        leak_guard: Keep a swapped copy in the split of its source; off only to replicate a plain shuffle.
    """

    dev: int = 10_000
    test: int = 10_000
    leak_guard: bool = True

    def __post_init__(self) -> None:
        if self.dev < 0 or self.test < 0:
            raise InputError(f"split sizes must be 0 or more, not {self.dev} and {self.test}")


@dataclass(frozen=True)
class Splits:
    """The rows after a new split, and how many were left out for want of a gold label."""

    train: list[dict[str, Any]]
    dev: list[dict[str, Any]]
    test: list[dict[str, Any]]
    no_gold: int


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
    plan = _Plan(keep=~corpus.above, copy=np.zeros_like(corpus.above))
    return _write(corpus, plan, out, split, seed, overwrite, {"method": "subtract"})


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
    swapper = Swapper(mode, names)
    plan = _Plan(keep=np.ones_like(corpus.above), copy=corpus.swappable(swapper, corpus.above))
    settings = {"method": "augment", "mode": mode, "names": names}
    return _write(corpus, plan, out, split, seed, overwrite, settings, swapper, scorer)


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
    swapper = Swapper(mode, names)
    plan = _Plan(keep=~corpus.above, copy=corpus.swappable(swapper, corpus.above))
    settings = {"method": "combined", "mode": mode, "names": names}
    return _write(corpus, plan, out, split, seed, overwrite, settings, swapper, scorer)


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
    order = _generator(seed, 1).permutation(np.flatnonzero(corpus.eligible))
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
    return _write(corpus, _Plan(keep, copy), out, split, seed, overwrite, settings, swapper, scorer)


def resplit(
    rows: Sequence[Mapping[str, Any]],
    *,
    dev: int = 10_000,
    test: int = 10_000,
    seed: int = 0,
    leak_guard: bool = True,
    sources: Sequence[int] | None = None,
) -> Splits:
    """Shuffle rows and cut them into train, dev and test; rows with the gold label ``-`` are left out first.

    Args:
        rows: Pairs or sentences as dictionaries.
        dev: Rows of the development set.
        test: Rows of the test set.
        seed: Of the shuffle.
        leak_guard: Keep a swapped copy in the split of its source.
        sources: For each row the index of the row it is a copy of, or its own. By default the ids tell:
            ``7-swapped`` is the copy of ``7``.
    """
    if sources is None:
        sources = _sources_by_id(rows)
    elif len(sources) != len(rows):
        raise InputError(f"{len(rows)} rows but {len(sources)} sources; give one for each row")
    gold = [next((str(row[name]) for name in COLUMNS["gold"] if name in row), "") for row in rows]
    kept = np.array([index for index, label in enumerate(gold) if label.strip() not in {"-", "-1"}], dtype=np.int64)
    split = Split(dev, test, leak_guard)
    groups = np.asarray(sources, dtype=np.int64)[kept] if len(kept) else kept
    part, order = _assign(groups, split, seed)
    parts = [[dict(rows[kept[item]]) for item in order[part[order] == which]] for which in range(3)]
    return Splits(parts[0], parts[1], parts[2], len(rows) - len(kept))


def _sources_by_id(rows: Sequence[Mapping[str, Any]]) -> list[int]:
    ids = [next((str(row[name]) for name in COLUMNS["id"] if row.get(name) is not None), None) for row in rows]
    first: dict[str, int] = {}
    for index, name in enumerate(ids):
        if name is not None:
            first.setdefault(name, index)
    return [first.get(name.removesuffix(SUFFIX), index) if name else index for index, name in enumerate(ids)]


def _assign(groups: NDArray[np.int64], split: Split, seed: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Part of each item (0 train, 1 dev, 2 test) and a shuffled order of the items."""
    total = len(groups)
    if split.dev + split.test >= total:
        raise InputError(
            f"{total} rows cannot give {split.dev} for dev and {split.test} for test and leave some to train on; "
            "choose smaller splits or none"
        )
    rng = _generator(seed, 0)
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
    """For each row of the source: is it kept, and does it get a copy."""

    keep: NDArray[np.bool_]
    copy: NDArray[np.bool_]


def _write(
    corpus: _Corpus,
    plan: _Plan,
    out: str | Path,
    split: Split | Literal["auto"] | None,
    seed: int,
    overwrite: bool,
    settings: Mapping[str, Any],
    swapper: Swapper | None = None,
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
    _generator(seed, 0)
    if split is None:
        part, order = np.zeros(len(sources), dtype=np.int8), np.arange(len(sources))
        names = ["corpus.jsonl"]
    else:
        part, order = _assign(sources, split, seed)
        names = ["train.jsonl", "dev.jsonl", "test.jsonl"]
    with _new_folder(Path(out), overwrite) as folder:
        place = np.empty(len(sources), dtype=np.int64)
        place[np.concatenate([order[part[order] == which] for which in range(3)])] = np.arange(len(sources))
        sorter = _Sorter(folder, len(sources))
        item = np.full(len(keep), -1)
        item[keep] = np.arange(int(keep.sum()))
        for row, original, _ in corpus.lines(keep):
            sorter.add(int(place[item[row]]), original)
        added_scores = _copies(corpus, copy, folder, swapper, scorer, sorter, place[int(keep.sum()) :])
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
        card |= {"settings": {**settings, "percentile": corpus.percentile, "seed": seed}}
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
    sorter: _Sorter,
    places: NDArray[np.int64],
) -> NDArray[np.float64] | None:
    """Swap the rows to be copied, file them, list them for review; their scores if there is a scorer."""
    if swapper is None or not copy.any():
        return None
    columns = corpus.scored.columns
    ranks = _ranks(corpus.score, copy)
    review = _Review(
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
        sorter.add(place, _clean(json.dumps(record, ensure_ascii=False)))
        review.add(int(ranks[row]), [row, float(corpus.score[row]), *before, *after])
        waiting.append(after)
        if len(waiting) == 10_000:
            score_waiting()
    score_waiting()
    review.finish()
    return np.concatenate(found) if scorer is not None else None


def _review_removed(corpus: _Corpus, removed: NDArray[np.bool_], folder: Path) -> None:
    columns = corpus.scored.columns
    ranks = _ranks(corpus.score, removed)
    kinds = [f"{column}_{kind}" for column in columns for kind in ("F", "M", "Abs")]
    review = _Review(folder, "removed", ["row", "pair_max", *kinds, "gold", *columns], int(removed.sum()))
    for row, original, scores in corpus.lines(removed):
        record = json.loads(original)
        gold = next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), "")
        review.add(int(ranks[row]), [row, float(corpus.score[row]), *scores, gold, *corpus.texts(record)])
    review.finish()


def _ranks(score: NDArray[np.float64], among: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Place of each row in the list with the highest score first; equal scores keep the order of the corpus."""
    rows = np.flatnonzero(among)
    ranks = np.full(len(score), -1)
    ranks[rows[np.argsort(-score[rows], kind="stable")]] = np.arange(len(rows))
    return ranks


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


class _Sorter:
    """Puts texts into a given order in bounded memory: into bucket files first, then bucket by bucket."""

    def __init__(self, folder: Path, total: int, name: str = "order") -> None:
        self._files = [folder / f".{name}-{number:04d}" for number in range(-(-total // _BUCKET))]
        self._waiting: list[list[str]] = [[] for _ in self._files]
        self._held = 0

    def add(self, place: int, text: str) -> None:
        self._waiting[place // _BUCKET].append(json.dumps([place, text]))
        self._held += 1
        if self._held >= _BUCKET and len(self._files) > 1:
            self._spill()

    def sorted(self) -> Iterator[str]:
        """All texts in the order of their places."""
        if len(self._files) > 1:
            self._spill()
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if file.is_file():
                waiting = file.read_text(encoding="utf-8").splitlines()
                file.unlink()
            entries = [json.loads(line) for line in waiting]
            entries.sort(key=lambda entry: entry[0])
            for _, text in entries:
                yield text

    def _spill(self) -> None:
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if waiting:
                with file.open("a", encoding="utf-8") as stream:
                    stream.write("\n".join(waiting) + "\n")
                waiting.clear()
        self._held = 0


class _Review:
    """A list for human eyes: all of it as CSV, its top as a page."""

    def __init__(self, folder: Path, name: str, columns: Sequence[str], total: int) -> None:
        self._folder, self._name, self._columns, self._total = folder, name, columns, total
        self._sorter = _Sorter(folder, total, name)

    def add(self, rank: int, cells: Sequence[Any]) -> None:
        self._sorter.add(rank, json.dumps(cells))

    def finish(self) -> None:
        top: list[list[Any]] = []
        with (self._folder / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.writer(stream, lineterminator="\n")
            writer.writerow(self._columns)
            for line in self._sorter.sorted():
                cells = [_clean(cell) if isinstance(cell, str) else cell for cell in json.loads(line)]
                writer.writerow(cells)
                if len(top) < _SHOWN:
                    top.append(cells)
        (self._folder / f"{self._name}.html").write_text(self._page(top), encoding="utf-8")

    def _page(self, rows: Sequence[Sequence[Any]]) -> str:
        page = io.StringIO()
        title = f"{self._name.capitalize()} rows"
        page.write(f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n')
        page.write("<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left}</style>\n</head>\n")
        shown = "" if len(rows) == self._total else f" The first {len(rows):,} are shown, the CSV file has all."
        page.write(f"<body>\n<h1>{title}</h1>\n<p>{self._total:,} rows, highest score first.{shown}</p>\n<table>\n")
        page.write(f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in self._columns)}</tr>\n")
        for cells in rows:
            texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
            page.write(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>\n")
        page.write("</table>\n</body>\n</html>\n")
        return page.getvalue()


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


def _generator(seed: int, purpose: int) -> np.random.Generator:
    if seed < 0:
        raise InputError(f"the seed must be 0 or more, not {seed}")
    return np.random.default_rng([seed, purpose])


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
