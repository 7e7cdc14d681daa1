"""The gender direction of a vector space: first principal component of pair-centred word vectors.

For pairs (f, m) of unit vectors with midpoint mu, the rows f - mu and m - mu have mean zero by construction, and their
first principal component is the direction g along which the pairs differ most. Centring the differences f - m instead
would subtract the very thing that is sought: what all of them share. g points to the female side.

Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker?"; Dolci et al. 2023.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenli.core.errors import InputError
from evenli.core.io import hash_text, read_rows
from evenli.core.record import Record
from evenli.core.settings import PAIR_LISTS as LISTS
from evenli.encoders.base import paired, write_npz
from evenli.encoders.eraser import FloatArray, unit_rows
from evenli.encoders.vectors import WordVectors, load_vectors
from evenli.words import read_lines, read_table

FEWEST = 2
_CHUNK = 8192  # rows whose cosines are computed at a time, so that the matrix need not be in memory

Pair = tuple[str, str]
Pairs = str | Path | Sequence[Pair]


@dataclass(frozen=True, eq=False)
class GenderDirection:
    """A unit vector that points from male to female, and how well it sums up the pairs it comes from."""

    vector: NDArray[np.float64]
    # Share of the variance of the pair-centred rows on their first component, vectors at length 1.
    explained_unit: float
    explained_raw: float  # the same share with the lengths of the vectors kept
    # Shares of all components for the vectors that the direction was computed from, largest first.
    spectrum: tuple[float, ...]
    unit: bool  # whether those vectors were brought to length 1 first
    pairs: tuple[Pair, ...]  # pairs used, female word first; empty for a direction from sentences
    missing: tuple[Pair, ...]  # pairs left out because a word has no vector
    count: int
    source: str  # name and identity of the vectors
    notes: tuple[str, ...] = ()
    inputs: str = ""  # hash of what the direction was computed from; empty where that is not known

    @property
    def dimension(self) -> int:
        """Numbers in the direction."""
        return len(self.vector)

    @property
    def identity(self) -> str:
        """Changes when the direction could.

        It rests on the inputs where they are known: the last digits of the numbers differ between processors, and a
        run that was begun on one may be finished on another.
        """
        return self.inputs or self.vector.astype(np.float64).tobytes().hex()

    def check(self, vectors: WordVectors) -> None:
        """Refuse vectors of another length than those the direction comes from."""
        if vectors.dimension != self.dimension:
            raise InputError(f"{vectors.name} has {vectors.dimension} numbers a word, the direction {self.dimension}")


class Nearest(NamedTuple):
    """The words most to the female and most to the male side, with their cosines."""

    female: tuple[tuple[str, float], ...]
    male: tuple[tuple[str, float], ...]


def gender_direction(vectors: WordVectors, pairs: Pairs = "ten", *, unit: bool = True) -> GenderDirection:
    """Compute the direction from word pairs.

    A pair without both vectors is left out and named in ``missing``. A pair that has the same two vectors as an earlier
    one (``She-He`` in a lower-case vocabulary) is left out too: it would count twice. ``unit`` brings vectors to length
    1 first, as debiaswe does, so that every pair has a like say. ``pairs`` are as ``read_pairs`` takes them.
    """
    used, missing, repeated = _resolve(vectors, read_pairs(pairs))
    if len(used) < FEWEST:
        raise InputError(f"{vectors.name} has {len(used)} pair(s), {FEWEST} are needed; missing: {_shown(missing)}")
    words = list(used.values())
    notes = {
        f"only {len(used)} pairs: the direction says little beyond these words": len(used) == FEWEST,
        f"{len(missing)} pair(s) without vectors: {_shown(missing)}": missing,
        f"{len(repeated)} pair(s) with the vectors of another: {_shown(repeated)}": repeated,
    }
    return _direction(
        *_sides(vectors, used),
        unit=unit,
        pairs=tuple(words),
        missing=tuple(missing),
        source=f"{vectors.name} {vectors.identity}",
        notes=tuple(note for note, holds in notes.items() if holds),
        inputs=hash_text(repr((vectors.identity, words, unit))),
    )


def direction_from_sentences(
    female: ArrayLike, male: ArrayLike, *, unit: bool = False, source: str = "sentences"
) -> GenderDirection:
    """Compute the direction from embeddings [n, d] of sentences and of the same with the gender words swapped.

    The rows are +d/2 and -d/2 for every difference d, which is pair centring again. ``unit`` brings the embeddings to
    length 1 first, which Dolci et al. 2023 do not do for sentence encoders.
    """
    f, m = paired(female, male)
    if not (f.any(axis=1) & m.any(axis=1)).all():
        raise InputError("an embedding is a zero vector, which has no direction; leave its sentence out")
    same = int((f == m).all(axis=1).sum())
    notes = (f"{same} sentence(s) have the same embedding in both versions",) if same else ()
    return _direction(f, m, unit=unit, pairs=(), missing=(), source=source, notes=notes)


def read_pairs(pairs: Pairs) -> list[Pair]:
    """Pairs (female, male): of a shipped list (``"ten"``, ``"long"``), of a sequence, or of a file.

    A file is ``.csv`` or ``.tsv`` with the columns female and male, or ``.txt`` with two words a line.
    """
    if isinstance(pairs, str) and pairs in LISTS:
        table = "direction_pairs_cjk.csv" if pairs in {"ja", "zh"} else "direction_pairs.csv"
        return [(r["female"], r["male"]) for r in read_table(table) if r["list"] == pairs]
    if isinstance(pairs, str | Path):
        path = Path(pairs)
        if not path.is_file():
            raise InputError(f"no pair list '{path}': give {' or '.join(LISTS)}, pairs of words, or a file of them")
        if path.suffix.lower() == ".txt":
            split = [line.split() for line in read_lines(path)]
            for words in split:
                if len(words) != 2:
                    raise InputError(f"{path}: expected a female and a male word a line, found '{' '.join(words)}'")
            return [(female, male) for female, male in split]
        rows = read_rows(path)
        pairs = [(str(row.get("female") or "").strip(), str(row.get("male") or "").strip()) for row in rows]
        for row, pair in zip(rows, pairs, strict=True):
            if not all(pair):
                given = ", ".join(f"{key}={value}" for key, value in row.items())
                raise InputError(f"{path}: every row needs the columns female and male, found {given}")
    for pair in pairs:
        if isinstance(pair, str) or len(pair) != 2 or not all(isinstance(word, str) and word for word in pair):
            raise InputError(f"expected pairs of a female and a male word, found {pair!r}")
    return [(f, m) for f, m in pairs]


def stability(vectors: WordVectors, pairs: Pairs = "ten") -> dict[Pair, float]:
    """How far the direction turns without each pair: the cosine with that of all pairs, 1 is not at all."""
    used, _, _ = _resolve(vectors, read_pairs(pairs))
    if len(used) <= FEWEST:
        raise InputError(f"leaving one pair out needs {FEWEST + 1} or more pairs, {vectors.name} has {len(used)}")
    female, male = map(unit_rows, _sides(vectors, used))
    differences = female - male
    whole, _ = _component(differences)
    others = (_component(np.delete(differences, left_out, axis=0))[0] for left_out in range(len(used)))
    return {pair: float(whole @ other) for pair, other in zip(used.values(), others, strict=True)}


def agreement(a: GenderDirection, b: GenderDirection) -> float:
    """Absolute cosine between two directions: 1 is the same axis, 0 is unrelated."""
    if a.dimension != b.dimension:
        raise InputError(f"directions of {a.dimension} and {b.dimension} numbers belong to different vector spaces")
    # Rounding may lift the cosine of two unit vectors above 1.
    return min(1.0, abs(float(a.vector @ b.vector)))


def bias_of(vectors: WordVectors, rows: ArrayLike, direction: GenderDirection) -> NDArray[np.float64]:
    """Cosine of each row with the direction: in [-1, 1], positive is female, 0 is neutral, NaN for a zero vector."""
    direction.check(vectors)
    which = np.asarray(rows, dtype=np.int64)
    flat = which.reshape(-1)
    cosines = np.empty(len(flat))
    for start in range(0, len(flat), _CHUNK):
        cosines[start : start + _CHUNK] = vectors.unit(flat[start : start + _CHUNK]) @ direction.vector
    return cosines.reshape(which.shape)


def nearest(vectors: WordVectors, direction: GenderDirection, count: int = 10, *, among: int | None = None) -> Nearest:
    """Words with the largest cosines on either side, without the words of the pairs in any case.

    ``among`` looks only at that many words from the top of the file, which are the frequent ones.
    """
    if count < 1 or (among is not None and among < 1):
        raise InputError(f"count and among must be 1 or more, not {count} and {among}")
    size = min(len(vectors), among or len(vectors))
    cosines = bias_of(vectors, np.arange(size), direction)
    order = np.argsort(cosines, kind="stable")
    order = order[: size - int(np.isnan(cosines).sum())]  # NaN sorts last
    # The words of the pairs are near by construction and say nothing about the rest.
    own = {word.lower() for pair in direction.pairs for word in pair}

    def first(rows: NDArray[np.int64]) -> tuple[tuple[str, float], ...]:
        others = (row for row in rows if vectors.words[row].lower() not in own)
        return tuple((vectors.words[row], float(cosines[row])) for row in itertools.islice(others, count))

    return Nearest(first(order[::-1]), first(order))


class DirectionSummary(Record, frozen=True):
    """A gender direction without its numbers.

    Attributes:
        vectors: Name of the word vectors.
        words: How many there are.
        dimension: Numbers of each.
        pairs: Pairs that the direction is made of.
        missing: Pairs without a vector.
        explained: Share of the variance of the pairs that the first component explains.
        explained_raw: The same with the lengths of the vectors kept.
        leave_one_out: How far one pair turns it: the lowest and the mean cosine with directions that lack one.
        agreement: Cosine with the direction of another pair list, by its name.
        female: Nearest words with their cosines.
        male: The same on the other side.
    """

    digits: ClassVar[int | None] = None

    vectors: str
    words: int
    dimension: int
    pairs: int
    missing: list[tuple[str, str]]
    explained: float
    explained_raw: float
    leave_one_out: dict[str, float]
    agreement: dict[str, float]
    female: tuple[tuple[str, float], ...]
    male: tuple[tuple[str, float], ...]


class DirectionReport(NamedTuple):
    """A gender direction, the vectors that it is of, and how far it can be trusted."""

    vectors: WordVectors
    direction: GenderDirection
    summary: DirectionSummary


def describe_direction(
    vectors: WordVectors | str | Path, pairs: Pairs = "ten", *, count: int = 10, among: int | None = None
) -> DirectionReport:
    """The direction of word vectors with its stability, its agreement with the other list and its nearest words."""
    table = vectors if isinstance(vectors, WordVectors) else load_vectors(vectors)
    direction = gender_direction(table, pairs)
    other = "long" if pairs == "ten" else "ten"
    # English lists say nothing about vectors of other languages.
    agrees = {} if pairs in ("ja", "zh") else {other: agreement(direction, gender_direction(table, other))}
    words = nearest(table, direction, count, among=among)
    cosines = list(stability(table, pairs).values())
    summary = DirectionSummary(
        vectors=table.name,
        words=len(table),
        dimension=table.dimension,
        pairs=len(direction.pairs),
        missing=list(direction.missing),
        explained=direction.explained_unit,
        explained_raw=direction.explained_raw,
        leave_one_out={"lowest": min(cosines), "mean": float(np.mean(cosines))},
        agreement=agrees,
        **words._asdict(),
    )
    return DirectionReport(table, direction, summary)


def save_direction(direction: GenderDirection, path: str | Path) -> Path:
    """Write a direction as ``.npz``: the vector and, as JSON text, everything else."""
    about = json.dumps({key: value for key, value in vars(direction).items() if key != "vector"})
    return write_npz(path, "a direction is", vector=direction.vector, about=np.array(about))


def _resolve(vectors: WordVectors, pairs: list[Pair]) -> tuple[dict[tuple[int, int], Pair], list[Pair], list[Pair]]:
    """Pairs by their rows, pairs without vectors, pairs that repeat the rows of an earlier one."""
    used: dict[tuple[int, int], Pair] = {}
    missing, repeated = [], []
    for pair in pairs:
        f, m = (vectors.find(word) for word in pair)
        if f < 0 or m < 0 or not (vectors.matrix[f].any() and vectors.matrix[m].any()):
            missing.append(pair)
        elif f == m or np.array_equal(vectors.matrix[f], vectors.matrix[m]):
            raise InputError(f"{vectors.name}: '{pair[0]}' and '{pair[1]}' have the same vector; leave the pair out")
        elif (f, m) in used or (m, f) in used:
            repeated.append(pair)
        else:
            used[f, m] = pair
    return used, missing, repeated


def _sides(vectors: WordVectors, rows: Iterable[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
    """The vectors of the female and of the male words of some pairs."""
    female, male = np.array(list(rows)).T
    return vectors.matrix[female].astype(np.float64), vectors.matrix[male].astype(np.float64)


def _direction(female: FloatArray, male: FloatArray, *, unit: bool, **about: Any) -> GenderDirection:
    of_unit, of_raw = _component(unit_rows(female) - unit_rows(male)), _component(female - male)
    vector, spectrum = of_unit if unit else of_raw
    return GenderDirection(vector, of_unit[1][0], of_raw[1][0], spectrum, unit, count=len(female), **about)


def _component(differences: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[float, ...]]:
    """First principal component of the rows +-d/2 and the share of each component.

    Those rows have the same right singular vectors as the differences themselves, uncentred, and proportional values.
    """
    _, sigma, axes = np.linalg.svd(differences, full_matrices=False)
    power = sigma**2
    if not power[0] > 0:
        raise InputError("the female and male vectors of all pairs are equal: there is no direction")
    g = axes[0]
    lean = float((differences @ g).sum())
    if abs(lean) <= 1e-12 * float(sigma[0]):  # the pairs cancel out: any fixed rule will do
        lean = float(g[np.argmax(np.abs(g))])
    return np.asarray(g if lean > 0 else -g, dtype=np.float64), tuple((power / power.sum()).tolist())


def _shown(pairs: Sequence[Pair]) -> str:
    return ", ".join(f"{f}-{m}" for f, m in pairs) or "none"
