"""Fairer corpora from a scored one: drop the most biased pairs, add their mirror images, or both.

Dolci et al. 2023 make eight variants of SNLI: Sub97 to Sub90 drop the pairs whose score (the larger Abs of the two
sentences) lies above a percentile, Aug97 to Aug90 append the gender-swapped copy of these pairs. evenli adds the two
together, and for each a random control with as many changed pairs, so that an effect of the size of the corpus is not
taken for one of the choice. The output directory:

train.jsonl, dev.jsonl, test.jsonl   the corpus, shuffled, or corpus.jsonl in the old order if no split is asked for
card.json                            thresholds, counts, distributions before and after, hashes
removed.csv, removed.html            what was dropped, highest score first, for people to read
added.csv, added.html                the swapped copies beside their sources, likewise

Rows keep all their columns. Columns derived from the sentences (parses, say) are not swapped with them.
"""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evenli._version import __version__
from evenli.corpus.run import Scorer
from evenli.corpus.scored import SCORES, CorpusScores, Parts, percentiles_of
from evenli.errors import InputError
from evenli.io import COLUMNS, hash_files, json_text, read_json
from evenli.mitigate.plan import CorpusSettings, Mask, Method, Plan, ScoredRows, Split, assign, clean
from evenli.parse import csv_line, parse_json_object
from evenli.store import RunDir, replacing

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)
_BATCH = 10_000
_BUCKET = 200_000  # rows that are sorted in memory at a time
_SHOWN = 1_000  # rows on the page of a list for review


@dataclass(frozen=True)
class FairerCorpus:
    """A written corpus; ``card`` is the content of its card.json."""

    path: Path
    card: Mapping[str, Any]


class _CorpusDir(RunDir):
    """The output directory. Other results have a card.json too, so a card that is not ours protects its directory."""

    def __init__(self, path: str | Path) -> None:
        names = ("corpus.jsonl", "train.jsonl", "dev.jsonl", "test.jsonl", "removed.*", "added.*")
        super().__init__(path, kind="fairer corpus", manifest="card.json", owned=names)

    def is_ours(self) -> bool:
        """Whether the card is one of a fairer corpus; early ones say neither schema nor kind."""
        try:
            card = read_json(self.manifest_file)
        except InputError:
            return False
        return card.keys() >= {"evenli", "scorer", "threshold", "pair_max", "settings"}

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

    ``scorer`` scores the copies for the card; without it the distribution after covers the old rows alone.
    ``overwrite`` replaces a fairer corpus that is already in ``out``.
    """
    if method not in get_args(Method):
        raise InputError(f"no method '{method}'; choose {', '.join(get_args(Method))}")
    corpus = ScoredRows.load(scored, settings.percentile)
    before = corpus.scored.header["scorer"]
    if scorer is not None and scorer.identity != before:
        raise InputError(f"the corpus was scored by '{before}', not by '{scorer.identity}'; use the same scorer")
    split = settings.split
    if split == "auto":
        split = Split() if len(corpus.scored.columns) > 1 else None
    with replacing(_CorpusDir(out), overwrite=overwrite) as folder:
        plan = Plan.make(method, corpus, settings, folder / ".swapped")
        splits, places = _arrange(corpus, plan, split, settings)
        # Places are given out in the order of the rows: first those that are kept, then the copies.
        sorter, remaining = Sorter(folder, len(places)), iter(places.tolist())
        for _, frame in corpus.frames(["original"], plan.keep):
            for original in frame["original"]:
                sorter.add(next(remaining), original)
        added = _sort_copies(corpus, plan, sorter, remaining, scorer)
        _write_splits(folder, splits, sorter.sorted())
        removed = corpus.eligible & ~plan.keep
        if removed.any():
            _review_removed(corpus, removed, folder)
        shutil.rmtree(folder / ".swapped", ignore_errors=True)
        card = _card(corpus, plan, removed, added)
        chosen = {"percentile": float(settings.percentile), "seed": settings.seed}
        card["settings"] = {**plan.settings, **chosen, "split": asdict(split) if split else None}
        card["counts"]["splits"] = splits
        card["files"] = {file.name: hash_files([file]) for file in sorted(folder.iterdir())}
        (folder / "card.json").write_text(json_text(card), encoding="utf-8")
    return FairerCorpus(Path(out), card)


def _write_splits(folder: Path, splits: Mapping[str, int], lines: Iterator[str]) -> None:
    """The lines, which stand in the order of the splits, each split in a file of its own."""
    for name, size in splits.items():
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8", newline="") as stream:
            stream.writelines(f"{next(lines)}\n" for _ in range(size))


def _arrange(
    corpus: ScoredRows, plan: Plan, split: Split | None, settings: CorpusSettings
) -> tuple[dict[str, int], NDArray[np.int64]]:
    """Sizes of the files by name, and the place of every row of the result: the kept rows first, then the copies."""
    sources = np.concatenate([np.flatnonzero(plan.keep), np.flatnonzero(plan.copy)])
    if not len(sources):
        raise InputError(f"nothing is left of {corpus.scored.path}; choose a percentile above {settings.percentile}")
    if split is None:
        return {"corpus": len(sources)}, np.arange(len(sources))
    part, order = assign(sources, split, settings.seed)
    places = np.empty(len(sources), dtype=np.int64)
    places[np.concatenate([order[part[order] == which] for which in range(3)])] = np.arange(len(sources))
    sizes = np.bincount(part, minlength=3).tolist()
    return dict(zip(("train", "dev", "test"), sizes, strict=True)), places


def _sort_copies(
    corpus: ScoredRows, plan: Plan, sorter: Sorter, places: Iterator[int], scorer: Scorer | None
) -> NDArray[np.float64] | None:
    """Put the copies in their places and on the list for review; their scores if there is a scorer."""
    if plan.swapped is None or not plan.copy.any():
        return None
    columns = len(corpus.scored.columns)
    scores = np.concatenate([*corpus.scores(plan.copy)])
    review = Review(sorter.folder, "added", ["row", "pair_max", *plan.swapped.names], scores)
    added: list[NDArray[np.float64]] = []
    for frame in plan.swapped.frames(plan.copy):
        for row, score, line, *texts in frame.iter_rows():
            sorter.add(next(places), line)
            review.add([row, score, *texts])
        if scorer is not None:
            texts = [text for row in frame.iter_rows() for text in row[-columns:]]
            for at in range(0, len(texts), _BATCH * columns):
                part = scorer.score_many(texts[at : at + _BATCH * columns])
                added.append(part[:, 2].reshape(-1, columns).max(axis=1))
    review.finish()
    return np.concatenate(added) if scorer is not None else None


def _review_removed(corpus: ScoredRows, removed: Mask, folder: Path) -> None:
    columns = corpus.scored.columns
    kinds = [f"{column}_{kind}" for column in columns for kind in SCORES]
    scores = np.concatenate([*corpus.scores(removed)])
    review = Review(folder, "removed", ["row", "pair_max", *kinds, "gold", *columns], scores)
    names = ["original", "pair_max", *kinds]
    for rows, frame in corpus.frames(names, removed):
        for row, (original, *numbers) in zip(rows.tolist(), frame.select(names).iter_rows(), strict=True):
            record = parse_json_object(original, "scored corpus", halves=True)
            gold = next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), "")
            review.add([row, *numbers, gold, *corpus.texts(record)])
    review.finish()


def _card(corpus: ScoredRows, plan: Plan, removed: Mask, added: NDArray[np.float64] | None) -> dict[str, Any]:
    limit = corpus.threshold
    ((percentile, value),) = limit.values.items()
    kept, copies, eligible = (int(mask.sum()) for mask in (plan.keep, plan.copy, corpus.eligible))
    extra = [] if added is None else [added]
    return {
        "schema": 1,
        "evenli": __version__,
        "kind": "fairer corpus",
        **{key: corpus.scored.header[key] for key in ("source", "scorer", "columns")},
        "threshold": {
            "percentile": percentile,
            "value": value,
            "method": limit.method,
            "error_bound": limit.error_bound,
        },
        "counts": {
            "rows": corpus.scored.rows,
            "no_gold": corpus.scored.rows - eligible,
            "above_threshold": int(corpus.above.sum()),
            "removed": int(removed.sum()),
            "added": copies,
            "result": kept + copies,
        },
        "pair_max": {
            "before": _summary(lambda: corpus.scores(corpus.eligible), eligible),
            "after": _summary(lambda: (*corpus.scores(plan.keep), *extra), kept + sum(map(len, extra))),
            "after_covers": "all rows" if added is not None or not copies else "rows of the source; copies not scored",
        },
    }


def _summary(parts: Parts, rows: int) -> dict[str, float] | None:
    """Percentiles and mean of scores."""
    if not rows:
        return None
    percentiles = percentiles_of(parts, rows, _QUANTILES)
    # One sum over all where they fit: the last digit of a mean depends on the order of adding.
    exact = percentiles.method == "exact"
    mean = np.concatenate([*parts()]).mean() if exact else sum(float(part.sum()) for part in parts()) / rows
    return {**{f"p{percentile:g}": value for percentile, value in percentiles.values.items()}, "mean": float(mean)}


class Sorter:
    """Puts texts into a given order in bounded memory: into bucket files first, then bucket by bucket."""

    def __init__(self, folder: Path, total: int, name: str = "order") -> None:
        self.folder = folder
        self._files = [folder / f".{name}-{number:04d}" for number in range(-(-total // _BUCKET))]
        self._waiting: list[list[tuple[int, str]]] = [[] for _ in self._files]
        self._held = 0

    def add(self, place: int, text: str) -> None:
        """Take in a text that belongs at this place."""
        self._waiting[place // _BUCKET].append((place, text))
        self._held += 1
        if self._held >= _BUCKET and len(self._files) > 1:
            for file, waiting in zip(self._files, self._waiting, strict=True):
                with file.open("a", encoding="utf-8") as stream:
                    stream.writelines(f"{json.dumps(entry)}\n" for entry in waiting)
                waiting.clear()
            self._held = 0

    def sorted(self) -> Iterator[str]:
        """All texts in the order of their places."""
        for file, waiting in zip(self._files, self._waiting, strict=True):
            if file.is_file():
                with file.open(encoding="utf-8") as stream:
                    waiting += [(place, text) for place, text in map(json.loads, stream)]
                file.unlink()
            yield from (text for _, text in sorted(waiting))
            waiting.clear()


class Review:
    """A list for human eyes: all of it as CSV, its top as a page; ``scores`` are those of the rows in order."""

    def __init__(self, folder: Path, name: str, columns: Sequence[str], scores: NDArray[np.float64]) -> None:
        self._folder, self._name, self._columns = folder, name, columns
        ranks = np.empty(len(scores), dtype=np.int64)
        ranks[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
        self._ranks, self._added = ranks, 0
        self._sorter = Sorter(folder, len(scores), name)
        self._top: dict[int, list[Any]] = {}

    def add(self, cells: Sequence[Any]) -> None:
        """Take in the next row."""
        rank = int(self._ranks[self._added])
        self._added += 1
        row = [clean(cell) if isinstance(cell, str) else cell for cell in cells]
        self._sorter.add(rank, csv_line(row))
        if rank < _SHOWN:
            self._top[rank] = row

    def finish(self) -> None:
        """Write NAME.csv and NAME.html."""
        with (self._folder / f"{self._name}.csv").open("w", encoding="utf-8", newline="") as stream:
            stream.write(csv_line(self._columns))
            stream.writelines(self._sorter.sorted())
        top = [self._top[rank] for rank in sorted(self._top)]
        (self._folder / f"{self._name}.html").write_text(self._page(top), encoding="utf-8")

    def _page(self, rows: Sequence[Sequence[Any]]) -> str:
        title = f"{self._name.capitalize()} rows"
        shown = "" if len(rows) == self._added else f" The first {len(rows):,} are shown, the CSV file has all."
        lines = [
            f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>',
            "<style>body{font-family:sans-serif}td,th{padding:.2em .6em;text-align:left}</style>\n</head>",
            f"<body>\n<h1>{title}</h1>\n<p>{self._added:,} rows, highest score first.{shown}</p>\n<table>",
            f"<tr>{''.join(f'<th>{html.escape(name)}</th>' for name in self._columns)}</tr>",
        ]
        for cells in rows:
            texts = (f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells)
            lines.append(f"<tr>{''.join(f'<td>{html.escape(text)}</td>' for text in texts)}</tr>")
        return "\n".join([*lines, "</table>\n</body>\n</html>\n"])
