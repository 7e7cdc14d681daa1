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

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from evenli.corpus.balance import Balance, warnings
from evenli.corpus.importance import StaticWeights
from evenli.corpus.run import LONG_TEXT, Scorer
from evenli.corpus.scored import HELD_ROWS, SCORES, CorpusScores, Parts, percentiles_of
from evenli.corpus.scoring import ScoreSettings, make_scorer, stored_scorer
from evenli.errors import InputError
from evenli.format import signed
from evenli.io import COLUMNS, hash_files, json_text, read_json
from evenli.mitigate.plan import CorpusSettings, Mask, Method, Plan, ScoredRows, Split, assign
from evenli.mitigate.review import Review, Sorter, added_page, removed_page
from evenli.parse import csv_line, parse_json_object
from evenli.store import RunDir, replacing, stamp

_QUANTILES = (0, 1, 5, 10, 25, 50, 75, 90, 93, 95, 97, 99, 100)
_BATCH = 10_000
_KIND = "fairer corpus"


@dataclass(frozen=True)
class FairerCorpus:
    """A written corpus; ``card`` is the content of its card.json."""

    path: Path
    card: Mapping[str, Any]


class _CorpusDir(RunDir):
    """The output directory. Other results have a card.json too, so a card that is not ours protects its directory."""

    def __init__(self, path: str | Path) -> None:
        names = ("corpus.jsonl", "train.jsonl", "dev.jsonl", "test.jsonl", "removed.*", "added.*", "skipped.csv")
        super().__init__(path, kind=_KIND, manifest="card.json", owned=names)

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
        plan = Plan.make(method, corpus, settings, folder / ".swapped")
        card = _write(corpus, plan, settings, folder, scores)
        card["driving_words"] = f"not shown: {missing}" if missing else "shown"
        card["files"] = {file.name: hash_files([file]) for file in sorted(folder.iterdir())}
        (folder / "card.json").write_text(json_text(card), encoding="utf-8")
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


def _write(
    corpus: ScoredRows, plan: Plan, settings: CorpusSettings, folder: Path, scorer: Scorer | None
) -> dict[str, Any]:
    """Write the rows and the lists for review; returns the card."""
    split: Any = settings.split
    if split == "auto":
        split = Split() if len(corpus.scored.columns) > 1 else None
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
        _review_removed(corpus, removed, folder, scorer, drawn=settings.random)
    if plan.swapped is not None and plan.swapped.conflicts:
        cells = [["row", "reason", *corpus.scored.columns], *plan.swapped.conflicts]
        (folder / "skipped.csv").write_bytes("".join(map(csv_line, cells)).encode())
    shutil.rmtree(folder / ".swapped", ignore_errors=True)
    card, balance = _card(corpus, plan, removed, added), _balance(corpus, plan)
    chosen = {"percentile": float(settings.percentile), "seed": settings.seed}
    card["settings"] = {**plan.settings, **chosen, "split": asdict(split) if split else None}
    card["counts"]["splits"] = splits
    return {**card, "balance": balance, "warnings": warnings(balance["before"], balance["after"])}


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
    names = ["row", "pair_max", *plan.swapped.names]
    review = Review(sorter.folder, "added", names, scores, added_page(corpus.scored.columns))
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


def _balance(corpus: ScoredRows, plan: Plan) -> dict[str, Any]:
    """Sides and labels of the rows with a gold label, and of what is left of them with the copies."""
    columns = corpus.scored.columns
    before, after, gone = (Balance(columns) for _ in range(3))
    needed = [*before.needs, *(["gold"] if corpus.scored.has_gold else [])]
    # A copy keeps the label of its source, and leans as its source does once gender words are left out.
    removed = corpus.eligible & ~plan.keep
    for mask, counted in ((corpus.eligible, before), (plan.keep, after), (plan.copy, after), (removed, gone)):
        for _, frame in corpus.frames(needed, mask):
            counted.add(frame)
    return {"before": before.to_dict(), "after": after.to_dict(), "removed": gone.to_dict()}


def driving_words(scorer: Any, texts: Sequence[str], count: int = 3) -> str:
    """The words that carry most of the score of a row's most biased text, such as ``football -0.021``."""
    scored = max((scorer.score(text[:LONG_TEXT]) for text in texts), key=lambda one: one.absolute, default=None)
    words = sorted(scored.words if scored else (), key=lambda word: -abs(word.weighted))
    return ", ".join(f"{word.token} {signed(word.weighted)}" for word in words[:count] if word.weighted)


def _review_removed(corpus: ScoredRows, removed: Mask, folder: Path, scorer: Any, *, drawn: bool) -> None:
    columns = corpus.scored.columns
    kinds = [f"{column}_{kind}" for column in columns for kind in SCORES]
    scores = np.concatenate([*corpus.scores(removed)])
    limit = None if drawn else next(iter(corpus.threshold.values.values()))
    page = removed_page(columns, limit, scorer)
    words = ["driving_words"] if hasattr(scorer, "score") else []
    review = Review(folder, "removed", ["row", "pair_max", *kinds, "gold", *columns, *words], scores, page)
    # One by one a network is slow: those on the page are enough there.
    cheap = isinstance(getattr(scorer, "weights", None), StaticWeights)
    names = ["original", "pair_max", *kinds]
    for rows, frame in corpus.frames(names, removed):
        for row, (original, *numbers) in zip(rows.tolist(), frame.select(names).iter_rows(), strict=True):
            record = parse_json_object(original, "scored corpus", halves=True)
            gold = next((record[name] for name in COLUMNS["gold"] if record.get(name) is not None), "")
            texts = corpus.texts(record)
            driving = [driving_words(scorer, texts) if cheap or review.is_shown else ""] if words else []
            review.add([row, *numbers, gold, *texts, *driving])
    review.finish()


def _card(corpus: ScoredRows, plan: Plan, removed: Mask, added: NDArray[np.float64] | None) -> dict[str, Any]:
    ((percentile, value),) = corpus.threshold.values.items()
    kept, copies, eligible = (int(mask.sum()) for mask in (plan.keep, plan.copy, corpus.eligible))
    extra = [] if added is None else [added]
    return {
        **stamp(_KIND),
        **{key: corpus.scored.header[key] for key in ("source", "scorer", "columns")},
        # Earlier versions had a method that was not exact for large corpora.
        "threshold": {"percentile": percentile, "value": value, "method": "exact", "error_bound": 0.0},
        "counts": {
            "rows": corpus.scored.rows,
            "no_gold": corpus.scored.rows - eligible,
            "above_threshold": int(corpus.above.sum()),
            "removed": int(removed.sum()),
            "added": copies,
            "skipped": 0 if plan.swapped is None else len(plan.swapped.conflicts),
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
    held = rows <= HELD_ROWS
    mean = np.concatenate([*parts()]).mean() if held else sum(float(part.sum()) for part in parts()) / rows
    return {**{f"p{percentile:g}": value for percentile, value in percentiles.values.items()}, "mean": float(mean)}
