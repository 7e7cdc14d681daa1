"""A mitigated encoder beside its base: what association tests find, what leaks, and what the encoder still can do.

Every figure is computed from the encoder alone and kept in the report's folder as soon as it is there, so that a
report over many encoders can be stopped, continued and extended.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._hashing import hash_files, hash_text
from evenli._locking import hold
from evenli._version import __version__
from evenli.datasets.seat import AssociationTest, TextSet, seat_tests, texts_of
from evenli.encoders.base import Embeddings, Encoder, encode_checked, load_encoder
from evenli.errors import InputError, RunError
from evenli.measures.association import AVERAGED, PERMUTATIONS, RESAMPLES, average_effect, run_associations
from evenli.measures.estimate import Estimate
from evenli.measures.leakage import leakage, neighbour_clustering
from evenli.mitigation.erased import Erased
from evenli.mitigation.erasers import Eraser
from evenli.mitigation.gendered import FEMALE, MALE, GenderedSet, gendered_set
from evenli.mitigation.hard_debias import gender_specific_words
from evenli.resources import read_table
from evenli.vectors import GenderDirection, WordVectors, bias_of

FloatArray = NDArray[np.float64]
FORMAT = "evenli encoder-report 1"
_LAYOUT = 1  # raise it when a stored figure would come out otherwise
_NEIGHBOURS = 20
_WORDS = 50_000  # most frequent words of a vocabulary that are looked at
_SIDE = 500  # most biased words of each side, as Gonen and Goldberg take them
_FEWEST = 50


@dataclass(frozen=True)
class Residual:
    """How much of gender is left in embeddings.

    Attributes:
        linear: Accuracy of a linear probe on words it has not seen; ``majority`` is neutral.
        mlp: The same of a neural probe.
        majority: Accuracy without looking.
        clustering: Neutral texts that two-means puts on the side they leaned to before; 0.5 is neutral, and random
            embeddings lie somewhat above it.
        correlation: Of how far neutral texts leaned before with the company they keep; 0 is neutral.
    """

    linear: Estimate
    mlp: Estimate
    majority: float
    clustering: Estimate
    correlation: Estimate

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; NaN becomes null."""
        estimates = {name: getattr(self, name).as_dict() for name in ("linear", "mlp", "clustering", "correlation")}
        return {**estimates, "majority": round(self.majority, 6)}


@dataclass(frozen=True)
class HeldOut:
    """Embeddings of the held-out sentences.

    Attributes:
        probe: Gendered sentences a probe learns from, [n, d].
        probe_classes: Their classes.
        test: Gendered sentences it is tested on.
        test_classes: Their classes.
        neutral: Sentences on occupations, which say no gender.
    """

    probe: NDArray[Any]
    probe_classes: NDArray[np.int64]
    test: NDArray[Any]
    test_classes: NDArray[np.int64]
    neutral: NDArray[Any]

    @classmethod
    def of(cls, encoder: Encoder, sentences: GenderedSet) -> HeldOut:
        """Encode the held-out part of a set."""
        (probe, probe_classes), (test, test_classes) = sentences.rows("probe"), sentences.rows("test")
        made = encode_checked(encoder, [*probe, *test, *sentences.neutral])
        parts = np.split(made, [len(probe), len(probe) + len(test)])
        return cls(parts[0], probe_classes, parts[1], test_classes, parts[2])

    def erased(self, eraser: Eraser) -> HeldOut:
        """The same embeddings behind an eraser."""
        return replace(self, probe=eraser(self.probe), test=eraser(self.test), neutral=eraser(self.neutral))

    def lean(self) -> FloatArray:
        """How far the neutral sentences lean to the female side: half of them are above 0.

        The cosine of each, centred, with the difference between the mean female and male sentence, less its median.
        """
        means = [self.probe[self.probe_classes == label].mean(axis=0, dtype=np.float64) for label in (FEMALE, MALE)]
        g = means[0] - means[1]
        centred = self.neutral - self.neutral.mean(axis=0, dtype=np.float64)
        scale = np.linalg.norm(centred, axis=1) * np.linalg.norm(g)
        cosine = (centred @ g) / np.where(scale > 0, scale, 1.0)
        return np.asarray(cosine - np.median(cosine), dtype=np.float64)


def told_apart(encoder: Any, sentences: GenderedSet) -> GenderedSet:
    """The sentences whose words an encoder knows: all of them unless it is made of word vectors."""
    while isinstance(encoder, Erased):
        encoder = encoder.encoder
    vectors = getattr(getattr(encoder, "vocabulary", encoder), "vectors", None)
    return sentences.known_to(vectors) if isinstance(vectors, WordVectors) else sentences


def residual_leakage(held: HeldOut, lean_before: FloatArray, *, seed: int = 0) -> Residual:
    """Measure what is left of gender: two probes on gendered sentences, and the company of neutral ones.

    Args:
        held: Embeddings to look at.
        lean_before: ``HeldOut.lean`` of the encoder without mitigation.
        seed: Of probes and clustering.
    """
    generator = np.random.default_rng(seed)
    probes = leakage(held.probe, held.probe_classes, held.test, held.test_classes, generator)
    side = min(int((lean_before > 0).sum()), int((lean_before < 0).sum()), len(lean_before) // 4)
    if not side:
        raise InputError("the neutral sentences lean to no side: the encoder gives them all the same embedding")
    everyone = np.arange(len(lean_before))
    found = neighbour_clustering(held.neutral, lean_before, _NEIGHBOURS, generator=generator, most=side, asked=everyone)
    return Residual(
        probes.linear,
        probes.mlp,
        probes.majority,
        _share(found.accuracy, found.clustered),
        _correlation(found.correlation, found.asked, found.note),
    )


def word_leakage(
    before: WordVectors, after: WordVectors, direction: GenderDirection, *, seed: int = 0
) -> tuple[Residual, Residual]:
    """What hard debiasing leaves: of the neutral words, can one still tell to which side they leaned?

    The most biased neutral words of each side, among the frequent ones, are the two classes: a half, drawn at random,
    trains the probes and the other half tests them. Gonen and Goldberg 2019, "Lipstick on a pig".

    Args:
        before: Word vectors.
        after: The same words, mitigated.
        direction: Gender direction of the former.
        seed: Of the halves, probes and clustering.
    """
    if before.words != after.words:
        raise InputError("the mitigated vectors are of other words; give the vectors they were made from")
    specific = {word.lower() for word in gender_specific_words()}
    frequent = np.array([row for row, word in enumerate(before.words[:_WORDS]) if word.lower() not in specific])
    usable = before.matrix[frequent].any(axis=1) & after.matrix[frequent].any(axis=1) if len(frequent) else frequent
    rows = frequent[usable.astype(bool)]
    bias = bias_of(before, rows, direction)
    side = min(int((bias > 0).sum()), int((bias < 0).sum()), _SIDE)
    if side < _FEWEST:
        raise InputError(
            f"only {side} neutral words lean to one of the sides; {_FEWEST} or more are needed to measure what leaks"
        )
    order = np.argsort(bias, kind="stable")
    chosen = np.concatenate([order[:side], order[-side:]])
    classes = np.repeat([MALE, FEMALE], side)
    mixed = np.random.default_rng(seed).permutation(2 * side)
    learn, ask = mixed[:side], mixed[side:]
    place = {before.words[row].lower(): at for at, row in reversed(list(enumerate(rows)))}
    professions = [place[row["word"]] for row in read_table("professions.csv", ("word",)) if row["word"] in place]
    k = min(100, len(rows) // 10)
    made = []
    for vectors in (before, after):
        generator = np.random.default_rng(seed)
        some = vectors.matrix[rows[chosen]]
        probes = leakage(some[learn], classes[learn], some[ask], classes[ask], generator)
        found = neighbour_clustering(
            vectors.matrix[rows], bias, k, generator=generator, most=side, asked=np.array(professions, dtype=np.int64)
        )
        made.append(
            Residual(
                probes.linear,
                probes.mlp,
                probes.majority,
                _share(found.accuracy, found.clustered),
                _correlation(found.correlation, found.asked, found.note),
            )
        )
    return made[0], made[1]


@dataclass(frozen=True)
class ReportSettings:
    """What the figures of a report depend on besides the encoder.

    Attributes:
        seed: Of permutations, bootstrap and probes.
        permutations: Most partitions that an association test counts.
        resamples: Bootstrap resamples of the effects.
        senteval_seed: Of the SentEval classifiers.
    """

    seed: int = 0
    permutations: int = PERMUTATIONS
    resamples: int = RESAMPLES
    senteval_seed: int = 1111

    @property
    def of_seat(self) -> dict[str, int]:
        """Those that SEAT depends on."""
        return {"seed": self.seed, "permutations": self.permutations, "resamples": self.resamples}


def encoder_report(
    specs: Sequence[str],
    *,
    data: str | Path | None = None,
    tasks: Sequence[str] | None = None,
    folder: str | Path | None = None,
    pooling: str = "mean",
    device: str | None = None,
    settings: ReportSettings | None = None,
    on_step: Callable[[str, str], None] | None = None,
) -> dict[str, Any]:
    """Compare encoders with the first of them.

    Args:
        specs: Encoders as ``load_encoder`` takes them, the unmitigated one first.
        data: Folder of the SentEval data; None leaves SentEval out.
        tasks: SentEval tasks; None takes all that the folder has.
        folder: Where every figure is kept at once and looked up before it is computed; None keeps nothing.
        pooling: Of ``hf`` encoders.
        device: ``cpu``, ``cuda`` or ``mps``; None picks the fastest there is.
        settings: Seeds and sizes.
        on_step: Called with encoder and figure before something is computed.

    Returns:
        The report as plain values: ``encoders``, each with ``seat``, ``leakage``, ``senteval`` and the ``difference``
        to the first.
    """
    if not specs:
        raise InputError("no encoder given; give the unmitigated one first, then mitigated ones")
    if tasks is not None and data is None:
        raise InputError("SentEval tasks are named, but no data; give --data FOLDER")
    settings = settings or ReportSettings()
    labels = _labels(specs)
    chosen, origin = _tasks(data, tasks)
    if folder is not None:
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {error.strerror or error}") from error
    lock = hold(folder, f"another process writes a report to {folder}; wait for it") if folder else nullcontext()
    encoders: list[dict[str, Any]] = []
    base: _Base | None = None
    with lock:
        for spec, label in zip(specs, labels, strict=True):
            encoder = load_encoder(spec, pooling=pooling, device=device)
            identity = str(encoder.identity)  # type: ignore[attr-defined]  # every encoder by spec has one
            same = next((one["spec"] for one in encoders if one["identity"] == identity), None)
            if same is not None:
                raise InputError(f"{spec} is the same encoder as {same}; name each once")
            base = base or _Base(encoder, identity)
            kept = _Kept(folder, identity, partial(on_step, label) if on_step else lambda name: None)
            encoders.append(
                {
                    "spec": spec,
                    "label": label,
                    "identity": identity,
                    "method": _method(encoder),
                    "seat": kept.get("seat", settings.of_seat, partial(_seat, encoder, settings)),
                    "leakage": kept.get(
                        "leakage",
                        {"seed": settings.seed, "base": base.identity, "sentences": base.sentences.held_out_sha256},
                        partial(_leaks, encoder, base, settings.seed),
                    ),
                    "senteval": _senteval(encoder, kept, data, chosen, origin, settings.senteval_seed, device),
                }
            )
        _compare(encoders)
        report = {
            "format": FORMAT,
            "version": __version__,
            "settings": {**asdict(settings), "pooling": pooling, "averaged": list(AVERAGED)},
            "tasks": _common(encoders) if data is not None else [],
            "encoders": encoders,
        }
        if folder is not None:
            write_json(folder / "report.json", report)
    return report


def average_estimate(
    tests: Sequence[AssociationTest],
    vectors: dict[str, NDArray[Any]],
    *,
    generator: np.random.Generator,
    resamples: int = RESAMPLES,
    level: float = 0.95,
) -> Estimate:
    """Mean size of the effects of several tests, with an interval over the choice of words.

    ``mean |d|``, 0 is neutral. Words are drawn anew for every set, once for all tests that use the set. Noise has no
    sign, so resampled sizes are too large where an effect is near 0: the signs of the effects are held as observed,
    and the interval ends at 0.

    Args:
        tests: Tests to average.
        vectors: Embedding of every text.
        generator: Draws the words.
        resamples: Bootstrap resamples.
        level: Coverage of the interval.
    """
    drawn: dict[tuple[str, ...], FloatArray] = {}

    def weights(part: TextSet) -> FloatArray:
        """How often each text of a set is drawn, [resamples, texts]; those of a word come together."""
        words, which = np.unique(np.asarray(part.words, dtype=str), return_inverse=True)
        key = (part.title, *words.tolist())
        if key not in drawn:
            share = np.full(len(words), 1 / len(words))
            drawn[key] = generator.multinomial(len(words), share, size=resamples).astype(np.float64)
        return np.asarray(drawn[key][:, which])

    total, centre = np.zeros(resamples), 0.0
    for test in tests:
        x, y, a, b = (_unit(np.stack([vectors[text] for text in part.texts])) for part in test.sets)
        targets = np.concatenate([x, y])
        observed = _effect(targets @ (a.mean(axis=0) - b.mean(axis=0)), np.ones((1, len(targets))), len(x))
        s = np.zeros((resamples, len(targets)))
        for sign, attributes, part in ((1, a, test.a), (-1, b, test.b)):
            times = weights(part)
            s += sign * (times @ (attributes @ targets.T)) / times.sum(axis=1, keepdims=True)
        effects = _effect(s, np.concatenate([weights(test.x), weights(test.y)], axis=1), len(x))
        total += np.sign(observed[0]) * effects / len(tests)
        centre += abs(float(observed[0])) / len(tests)
    if not np.isfinite(total).all():
        note = "no interval: some choices of words leave no spread between targets"
        return Estimate(centre, math.nan, math.nan, math.nan, level, len(tests), {}, note)
    low, high = np.quantile(total, [(1 - level) / 2, (1 + level) / 2])
    note = "over the words of the tests, signs held"
    se = float(total.std(ddof=1))
    return Estimate(centre, max(0.0, float(low)), float(high), se, level, len(tests), {}, note)


class _Kept:
    """Figures of one encoder in the report's folder: computed once for the same encoder and settings."""

    def __init__(self, folder: Path | None, identity: str, on_step: Callable[[str], None]) -> None:
        self._file = None if folder is None else folder / "encoders" / f"{hash_text(identity)[:24]}.json"
        self._identity, self._on_step = identity, on_step
        self._values: dict[str, Any] = {}
        if self._file is None or not self._file.is_file():
            return
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
            if stored["identity"] == identity and stored["layout"] == _LAYOUT:
                self._values = dict(stored["values"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{self._file} is not of an encoder report; delete it or choose another folder") from error

    def get(self, name: str, about: dict[str, Any], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        key = f"{name}:{hash_text(json.dumps(about, sort_keys=True))[:24]}"
        if key not in self._values:
            self._on_step(name)
            self._values[key] = compute()
            if self._file is not None:
                self._file.parent.mkdir(exist_ok=True)
                write_json(self._file, {"layout": _LAYOUT, "identity": self._identity, "values": self._values})
        return dict(self._values[key])


@dataclass(frozen=True)
class _Base:
    """The encoder that the others are compared with; it is asked only if something is not kept."""

    encoder: Encoder
    identity: str

    @cached_property
    def sentences(self) -> GenderedSet:
        return told_apart(self.encoder, gendered_set())

    @cached_property
    def held(self) -> HeldOut:
        return HeldOut.of(self.encoder, self.sentences)


def _leaks(encoder: Encoder, base: _Base, seed: int) -> dict[str, Any]:
    held = base.held if encoder is base.encoder else HeldOut.of(encoder, base.sentences)
    return residual_leakage(held, base.held.lean(), seed=seed).as_dict()


def _seat(encoder: Encoder, settings: ReportSettings) -> dict[str, Any]:
    tests = seat_tests("sentence")
    texts = texts_of(tests)
    made: Embeddings = encode_checked(encoder, texts)
    vectors: dict[str, NDArray[Any]] = dict(zip(texts, made, strict=True))
    results = run_associations(
        tests,
        vectors,
        generator=np.random.default_rng(settings.seed),
        permutations=settings.permutations,
        resamples=settings.resamples,
    )
    mean = average_effect({result.name: result.effect for result in results})
    if mean.note:
        estimate = Estimate(math.nan, math.nan, math.nan, math.nan, 0.95, 0, {}, mean.note)
    else:
        estimate = average_estimate(
            [test for test in tests if test.name in AVERAGED],
            vectors,
            generator=np.random.default_rng(settings.seed),
            resamples=settings.resamples,
        )
    signed = None if math.isnan(mean.signed) else mean.signed
    return {"mean": estimate.as_dict(), "signed": signed, "tests": [result.as_dict() for result in results]}


def _senteval(
    encoder: Encoder,
    kept: _Kept,
    data: str | Path | None,
    tasks: Sequence[str],
    origin: str,
    seed: int,
    device: str | None,
) -> dict[str, Any] | None:
    """SentEval one task at a time, so that each is kept as soon as it is done."""
    if data is None:
        return None
    from evenli.encoders.senteval import run_senteval

    found: dict[str, Any] = {"tasks": {}, "missing": {}}
    for task in tasks:

        def run(task: str = task) -> dict[str, Any]:
            result = run_senteval(encoder, Path(data), tasks=[task], seed=seed, device=device)
            if task in result.missing:
                return {"missing": result.missing[task]}
            return {"score": float(result.tasks[task].score), "metrics": dict(result.tasks[task].metrics)}

        value = kept.get(task, {"seed": seed, "data": origin}, run)
        if "missing" in value:
            found["missing"][task] = value["missing"]
        else:
            found["tasks"][task] = value
    return found


def _tasks(data: str | Path | None, tasks: Sequence[str] | None) -> tuple[list[str], str]:
    """Tasks to run, and what says that the data is the same."""
    if data is None:
        return [], ""
    from evenli.encoders.senteval import TASKS

    data, known = Path(data), list(TASKS)
    if not data.is_dir():
        raise InputError(f"no folder {data}; give the folder of the SentEval data")
    unknown = [task for task in tasks or () if task not in known]
    if unknown:
        raise InputError(f"no SentEval task {', '.join(unknown)}; there are {', '.join(known)}")
    return list(tasks or known), hash_files(sorted(file for file in data.rglob("*") if file.is_file()))


def _compare(encoders: list[dict[str, Any]]) -> None:
    """Add the mean over the tasks that all encoders have, and every encoder's difference to the first."""
    shared = _common(encoders)
    for one in encoders:
        if one["senteval"] is not None:
            scores = [one["senteval"]["tasks"][task]["score"] for task in shared]
            one["senteval"]["overall"] = round(float(np.mean(scores)), 6) if scores else None
    for one in encoders:
        pairs = {name: (_figure(one, name), _figure(encoders[0], name)) for name in FIGURES}
        one["difference"] = {
            name: None if now is None or then is None else round(now - then, 6) for name, (now, then) in pairs.items()
        }


FIGURES = ("seat", "linear", "mlp", "clustering", "correlation", "senteval")
"""What encoders are compared by."""


def _figure(one: dict[str, Any], name: str) -> float | None:
    if name == "seat":
        value = one["seat"]["mean"]["value"]
    elif name == "senteval":
        value = None if one["senteval"] is None else one["senteval"]["overall"]
    else:
        value = one["leakage"][name]["value"]
    return None if value is None else float(value)


def _common(encoders: Sequence[dict[str, Any]]) -> list[str]:
    """SentEval tasks that every encoder has a score for."""
    if not encoders or any(one["senteval"] is None for one in encoders):
        return []
    return [task for task in encoders[0]["senteval"]["tasks"] if all(task in e["senteval"]["tasks"] for e in encoders)]


def _method(encoder: Encoder) -> str:
    """Methods of the erasers behind an encoder, the first applied first; empty for an encoder without."""
    if not isinstance(encoder, Erased):
        return ""
    before = _method(encoder.encoder)  # type: ignore[arg-type]  # an encoder by spec
    return f"{before}, {encoder.eraser.method}" if before else str(encoder.eraser.method)  # type: ignore[attr-defined]


def _labels(specs: Sequence[str]) -> list[str]:
    """A short name for each: the last part of the path, or the whole spec where that is not one of a kind."""
    short = [Path(spec.partition(":")[2] or spec).name or spec for spec in specs]
    return [name if short.count(name) == 1 else spec for name, spec in zip(short, specs, strict=True)]


def _share(value: float, n: int) -> Estimate:
    from scipy.stats import binomtest

    found = binomtest(round(value * n), n).proportion_ci(0.95, method="wilson")
    low, high = float(found.low), float(found.high)
    return Estimate(value, low, high, (high - low) / 3.92, 0.95, n, {}, "over texts, the clusters fixed")


def _correlation(value: float, n: int, note: str) -> Estimate:
    """A correlation with Fisher's interval."""
    if math.isnan(value) or n <= 3:
        return Estimate(value, math.nan, math.nan, math.nan, 0.95, n, {}, note or "no interval: three texts or fewer")
    middle, half = math.atanh(max(-0.999999, min(0.999999, value))), 1.959964 / math.sqrt(n - 3)
    low, high = math.tanh(middle - half), math.tanh(middle + half)
    return Estimate(value, low, high, (high - low) / 3.92, 0.95, n, {}, "over texts, Fisher's z")


def _effect(s: FloatArray, weights: FloatArray, n: int) -> FloatArray:
    """Effect sizes for associations s of n + n targets, each counted ``weights`` times, [resamples]."""
    s = np.broadcast_to(s, weights.shape)
    x, y = weights[:, :n], weights[:, n:]
    apart = (x * s[:, :n]).sum(axis=1) / x.sum(axis=1) - (y * s[:, n:]).sum(axis=1) / y.sum(axis=1)
    total = weights.sum(axis=1)
    centred = s - ((weights * s).sum(axis=1) / total)[:, None]
    spread = np.sqrt((weights * centred**2).sum(axis=1) / (total - 1))
    return np.asarray(apart / np.where(spread > 1e-12, spread, np.nan))


def _unit(rows: NDArray[Any]) -> FloatArray:
    rows = rows.astype(np.float64)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write a whole file or none."""
    unfinished = file.with_name(f"{file.name}.partial")
    try:
        unfinished.write_text(
            json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8"
        )
        unfinished.replace(file)
    except OSError as error:
        raise RunError(f"cannot write {file}: {error.strerror or error}") from error
