"""The folder of a fairer corpus: its rows, its card, and what changed, for people to read.

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

from evenli._version import __version__
from evenli.corpus.scored import SCORES
from evenli.corpus.shards import Scorer
from evenli.errors import InputError, RunError
from evenli.io import COLUMNS, hash_files
from evenli.mitigate.augment import SUFFIX
from evenli.mitigate.plan import Plan, ScoredRows
from evenli.mitigate.review import Review, Sorter, clean, ranks_of
from evenli.mitigate.splits import Split, assign, generator
from evenli.mitigate.swap import Swapper

Splitting = Split | Literal["auto"] | None
"""Sizes of a new split; None for one file in the old order; ``auto`` splits pairs, and leaves sentences in one file."""

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


def write_corpus(
    corpus: ScoredRows,
    plan: Plan,
    out: str | Path,
    split: Splitting,
    seed: int,
    overwrite: bool,
    scorer: Scorer | None = None,
) -> FairerCorpus:
    """Carry out a plan; ``out`` is there when all of it is written.

    Args:
        corpus: The scored corpus.
        plan: Which rows are kept and copied.
        out: The folder.
        split: Of the result.
        seed: Of the shuffle.
        overwrite: Replace a corpus that is already in ``out``.
        scorer: Scores the copies for the card.
    """
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
    corpus: ScoredRows,
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


def _review_removed(corpus: ScoredRows, removed: NDArray[np.bool_], folder: Path) -> None:
    columns = corpus.scored.columns
    ranks = ranks_of(corpus.score, removed)
    kinds = [f"{column}_{kind}" for column in columns for kind in SCORES]
    review = Review(folder, "removed", ["row", "pair_max", *kinds, "gold", *columns], int(removed.sum()))
    for row, original, scores in corpus.lines(removed):
        record = json.loads(original)
        gold = next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), "")
        review.add(int(ranks[row]), [row, float(corpus.score[row]), *scores, gold, *corpus.texts(record)])
    review.finish()


def _card(
    corpus: ScoredRows,
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
        if not _made_here(out):
            raise RunError(f"{out} is not empty and not a corpus made here; choose another folder")
        if not overwrite:
            raise RunError(f"{out} holds a corpus; choose another folder or overwrite it")
    temporary = out.with_name(f".{out.name}.{os.getpid()}.tmp")
    try:
        temporary.mkdir(parents=True)
        yield temporary
        _take_place(temporary, out)
    except OSError as error:
        raise RunError(f"cannot write to {out}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _made_here(folder: Path) -> bool:
    """Whether a folder holds a card of ours; other folders of evenli have a card.json too."""
    try:
        card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(card, dict) and card.keys() >= {"evenli", "scorer", "threshold", "pair_max", "settings"}


def _take_place(new: Path, out: Path) -> None:
    """Give a folder the name of another, which is deleted when it is replaced and not before."""
    old = out.with_name(f".{out.name}.{os.getpid()}.old")
    replaced = out.exists()
    if replaced:
        out.rename(old)
    try:
        new.rename(out)
    except OSError:
        if replaced:
            old.rename(out)
        raise
    if replaced:
        shutil.rmtree(old, ignore_errors=True)
