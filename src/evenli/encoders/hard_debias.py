"""Hard debiasing of word vectors, the control that shares its side effect, and what it leaves.

Hard debiasing makes every vector a unit vector. A model trained on such vectors differs from one trained on raw ones
for that reason alone, so the comparison that isolates the debiasing is with ``normalised``, not with the raw vectors.

Bolukbasi et al. 2016, "Man is to computer programmer as woman is to homemaker?"
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from evenli.core.errors import InputError, MissingExtraError, RunError
from evenli.core.io import hash_files
from evenli.core.mitigation import Method
from evenli.core.record import Record
from evenli.core.store import replacing
from evenli.encoders import mitigation
from evenli.encoders.base import resolved_spec, write_npz
from evenli.encoders.direction import GenderDirection, Pairs, bias_of, gender_direction, read_pairs
from evenli.encoders.eraser import FloatArray, unit_rows
from evenli.encoders.gendered import FEMALE, MALE
from evenli.encoders.leakage import Residual, leakage, neighbour_clustering
from evenli.encoders.mitigation import VECTORS, Mitigated, StoredFile, Unmitigated
from evenli.encoders.settings import HardDebiasSettings
from evenli.encoders.vectors import VectorMean, WordVectors, load_vectors
from evenli.words import read_table

_WORDS = 50_000  # most frequent words of a vocabulary that are looked at
_SIDE = 500  # most biased words of each side, as Gonen and Goldberg take them
_FEWEST = 50
_OTHER_FORMATS = {".txt", ".vec", ".bin", ".npy", ".gz"}
_CHUNK = 8192  # rows at a time, so that the copy in double precision stays small


class WordLeakage(Record, frozen=True):
    """What was left of gender in word vectors before and after."""

    before: Residual
    after: Residual


class HardDebiased(Record, frozen=True):
    """What ``hard_debias_file`` wrote.

    Attributes:
        file: The vectors, where a file was asked for.
        folder: The encoder, where a folder was.
        words: How many words have a vector.
        notes: What should be known of the vectors.
        leakage: What is left of gender; None if it could not be measured.
        not_measured: Why not.
    """

    optional: ClassVar[tuple[str, ...]] = ("file", "folder")

    words: int
    notes: tuple[str, ...]
    leakage: WordLeakage | None
    not_measured: str = ""
    file: Path | None = None
    folder: Path | None = None

    @property
    def spec(self) -> str:
        """The encoder it is."""
        return f"vectors:{self.file}" if self.file else f"mitigated:{self.folder}"


def gender_specific_words() -> frozenset[str]:
    """The 1,441 words of debiaswe whose meaning includes a gender, case-sensitive."""
    return frozenset(row["word"] for row in read_table("gender_specific.csv", required=("word",)))


def hard_debias(
    vectors: WordVectors,
    direction: GenderDirection,
    *,
    specific: Collection[str] | None = None,
    equalize: Pairs = "long",
) -> WordVectors:
    """Neutralise and equalise.

    On unit vectors, with g the direction: every word that is not gender-specific loses its component along g. Then
    each pair (a, b) becomes ``y + z g`` and ``y - z g``, with y the midpoint without its component along g and
    ``z = sqrt(1 - |y|^2)``: the two differ along g only. Pairs are taken in order, in lower, Title and UPPER case where
    both forms have a vector. The cosine of a neutral word with g is 0 afterwards. That is all that is promised: the old
    bias can still be read from the neighbours of a word. ``specific`` words keep their component along g, by default
    ``gender_specific_words()``.
    """
    direction.check(vectors)
    if isinstance(specific, str):
        raise InputError(f"expected a collection of words, found the one word '{specific}'")
    keep = gender_specific_words() if specific is None else frozenset(specific)
    g = direction.vector
    neutral = np.fromiter((word not in keep for word in vectors.words), dtype=bool, count=len(vectors))

    matrix = np.empty(vectors.matrix.shape, dtype=np.float32)
    for part, rows in _unit_parts(vectors):
        rows[neutral[part]] -= np.outer(rows[neutral[part]] @ g, g)
        matrix[part] = unit_rows(rows)
    cased = itertools.product(read_pairs(equalize), (str.lower, str.title, str.upper))
    forms = dict.fromkeys(tuple(vectors.index.get(form(word), -1) for word in pair) for pair, form in cased)
    pairs = [(a, b) for a, b in forms if min(a, b) >= 0 and a != b and matrix[a].any() and matrix[b].any()]
    for a, b in pairs:
        first, second = (unit_rows(matrix[row].astype(float)) for row in (a, b))
        middle = (first + second) / 2
        y = middle - (middle @ g) * g
        z = np.sqrt(max(0.0, 1 - float(y @ y)))
        # Stored vectors are float32: below its rounding, neither word leans to a side.
        z = -z if (first - second) @ g < -1e-6 else z
        matrix[a], matrix[b] = unit_rows(y + z * g), unit_rows(y - z * g)
    notes = (*vectors.notes, f"{int(neutral.sum())} words neutralised, {len(pairs)} pairs equalised, unit length")
    return replace(WordVectors.of(vectors.words, matrix, f"{vectors.name}, hard-debiased"), notes=notes)


def normalised(vectors: WordVectors) -> WordVectors:
    """The same vectors at length 1: the control for ``hard_debias``. A zero vector stays one."""
    matrix = np.concatenate([rows.astype(np.float32) for _, rows in _unit_parts(vectors)])
    unit = WordVectors.of(vectors.words, matrix, f"{vectors.name}, normalised")
    return replace(unit, notes=(*vectors.notes, "unit length"))


def save_vectors(vectors: WordVectors, path: str | Path) -> Path:
    """Write word vectors as ``.npz``, which ``evenli.encoders.vectors.load_vectors`` reads."""
    broken = next((word for word in vectors.words if not word or "\n" in word), None)
    if broken is not None:
        raise InputError(f"the word {broken!r} is empty or has a line break and cannot be saved; remove it")
    # One word a line: in an array of words the longest sets the width of all.
    words = np.frombuffer("\n".join(vectors.words).encode("utf-8", "surrogatepass"), dtype=np.uint8)
    return write_npz(path, "word vectors are", words=words, vectors=np.asarray(vectors.matrix))


def word_leakage(
    before: WordVectors, after: WordVectors, direction: GenderDirection, *, seed: int = 0
) -> tuple[Residual, Residual]:
    """What hard debiasing leaves: can a probe still predict to which side neutral words leaned?

    The most biased neutral words of each side, among the frequent ones, are the two classes: a half, drawn at random,
    trains the probes and the other half tests them. Gonen and Goldberg 2019, "Lipstick on a pig".
    """
    if before.words != after.words:
        raise InputError("the mitigated vectors are of other words; give the vectors they were made from")
    specific = {word.lower() for word in gender_specific_words()}
    neutral = (row for row, word in enumerate(before.words[:_WORDS]) if word.lower() not in specific)
    frequent = np.fromiter(neutral, dtype=np.int64)
    rows = frequent[before.matrix[frequent].any(axis=1) & after.matrix[frequent].any(axis=1)]
    bias = bias_of(before, rows, direction)
    side = min(int((bias > 0).sum()), int((bias < 0).sum()), _SIDE)
    if side < _FEWEST:
        raise InputError(f"only {side} neutral words lean to one side; {_FEWEST} are needed to measure what leaks")
    order = np.argsort(bias, kind="stable")
    chosen = np.concatenate([order[:side], order[-side:]])
    classes = np.repeat([MALE, FEMALE], side)
    # Drawn once, so that the vectors before and after are judged on the same words.
    mixed = np.random.default_rng(seed).permutation(2 * side)
    train, test = mixed[:side], mixed[side:]
    # Of words that differ in case only the most frequent counts, which comes first and is put in last.
    place = {before.words[row].lower(): at for at, row in reversed(list(enumerate(rows)))}
    professions = [place[row["word"]] for row in read_table("professions.csv", ("word",)) if row["word"] in place]
    k = min(100, len(rows) // 10)

    def measure(vectors: WordVectors) -> Residual:
        generator = np.random.default_rng(seed)
        some = vectors.matrix[rows[chosen]]
        probes = leakage(some[train], classes[train], some[test], classes[test], generator)
        clusters = neighbour_clustering(
            vectors.matrix[rows], bias, k, generator=generator, most=side, asked=professions
        )
        return Residual(probes.linear, probes.mlp, probes.majority, *clusters)

    return measure(before), measure(after)


def _unit_parts(vectors: WordVectors) -> Iterator[tuple[slice, FloatArray]]:
    """All vectors at length 1, some rows at a time."""
    for start in range(0, len(vectors), _CHUNK):
        part = slice(start, start + _CHUNK)
        yield part, unit_rows(np.asarray(vectors.matrix[part], dtype=np.float64))


def hard_debias_file(
    vectors: str | Path, out: str | Path, settings: HardDebiasSettings | None = None, *, overwrite: bool = False
) -> HardDebiased:
    """Hard-debias a file of word vectors, also given as ``vectors:FILE``, and measure what is left.

    The result is a file if ``out`` ends in ``.npz``, else a directory, which is an encoder.
    """
    settings = settings or HardDebiasSettings()
    out, file = Path(out), Path(str(vectors).removeprefix("vectors:"))
    if out.suffix in _OTHER_FORMATS:
        raise InputError(f"{out}: vectors are written as .npz; end the name in .npz, or name a folder")
    if out.suffix == ".npz" and out.exists() and not overwrite:
        raise RunError(f"{out} exists; overwrite it (--overwrite) or name another file")
    if ":" in str(file) and not file.exists():
        raise InputError(f"{file}: hard debiasing is for word vectors; for an encoder use inlp, leace or sent-debias")
    before = load_vectors(file)
    direction = gender_direction(before, settings.pairs)
    after = normalised(before) if settings.control else hard_debias(before, direction)
    if out.suffix == ".npz":
        save_vectors(after, out)
    else:
        mitigation.check_differs(VectorMean(before), VectorMean(after), out)
        base = Unmitigated(resolved_spec(f"vectors:{file}"), "mean", mitigation.identity_of(VectorMean(before)))
        with replacing(mitigation.mitigated_folder(out), overwrite=overwrite) as folder:
            sha256 = hash_files([save_vectors(after, folder / VECTORS)])
            about = {name: value for name, value in settings.to_dict().items() if name != "seed"}
            written = StoredFile(sha256, VECTORS, after.dimension)
            mitigation.mitigated_folder(folder).write_manifest(Mitigated("hard-debias", base, about, written).to_dict())
    leaks, reason = None, ""
    try:
        leaks = WordLeakage(*word_leakage(before, after, direction, seed=settings.seed))
    except (InputError, MissingExtraError) as error:
        # The vectors are written and good; a small vocabulary or a missing package is no reason to fail.
        reason = str(error)
    place = "file" if out.suffix == ".npz" else "folder"
    return HardDebiased(len(after), after.notes, leaks, reason, **{place: out})


HARD_DEBIAS = Method(
    "hard-debias",
    "Neutralise and equalise word vectors",
    "Bolukbasi et al. 2016",
    settings=HardDebiasSettings(),
    kind="vectors",
    apply=lambda source, out, settings, overwrite: hard_debias_file(source, out, settings, overwrite=overwrite),
)
