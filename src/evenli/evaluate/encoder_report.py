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

from evenli._version import __version__
from evenli.encoders.base import Embeddings, Encoder, encode_checked, load_encoder, parts_of
from evenli.encoders.cache import EmbeddingCache
from evenli.errors import InputError, RunError
from evenli.evaluate.seat.association import AVERAGED, PERMUTATIONS, RESAMPLES, average_effect, run_associations
from evenli.evaluate.seat.average import average_change, average_estimate
from evenli.evaluate.seat.missing import tell_unknown
from evenli.evaluate.seat.tests import AssociationTest, seat_tests, texts_of
from evenli.io import hash_files, hash_text, write_json
from evenli.mitigate.erased import Erased
from evenli.mitigate.gendered import GenderedSet, gendered_set
from evenli.mitigate.residual import HeldOut, residual_leakage, told_apart
from evenli.stats.intervals import Estimate
from evenli.store import hold

FORMAT = "evenli encoder-report 1"
REPORT = "report.json"
_LAYOUT = 2  # raise it when a stored figure would come out otherwise


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
    def of_seat(self) -> dict[str, Any]:
        """What SEAT depends on, its texts included."""
        asked = hash_text("\n".join(texts_of(seat_tests("sentence"))))
        return {"seed": self.seed, "permutations": self.permutations, "resamples": self.resamples, "texts": asked}


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
        _check_free(folder)
    lock = hold(folder, f"another process writes a report to {folder}; wait for it") if folder else nullcontext()
    encoders: list[dict[str, Any]] = []
    base: _Base | None = None
    known = _Known()
    with lock:
        for spec, label in zip(specs, labels, strict=True):
            encoder = load_encoder(spec, pooling=pooling, device=device)
            identity = str(encoder.identity)  # type: ignore[attr-defined]  # every encoder by spec has one
            same = next((one["spec"] for one in encoders if one["identity"] == identity), None)
            if same is not None:
                raise InputError(f"{spec} is the same encoder as {same}; name each once")
            encoder = known.share(encoder)
            base = base or _Base(encoder, identity)
            kept = _Kept(folder, identity, partial(on_step, label) if on_step else lambda name: None)
            encoders.append(
                {
                    "spec": spec,
                    "label": label,
                    "identity": identity,
                    "method": _method(encoder),
                    "note": _note(encoder, base),
                    "seat": _seat(encoder, base, kept, settings),
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
            write_json(folder / REPORT, report)
    return report


def _check_free(folder: Path) -> None:
    """Refuse a folder whose report.json is none of ours."""
    file = folder / REPORT
    if not file.exists():
        return
    try:
        ours = json.loads(file.read_text(encoding="utf-8")).get("format") == FORMAT
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise RunError(f"{file} is no encoder report and would be replaced; choose another folder")


class _Known:
    """Embeddings of this run: an encoder and its mitigated versions ask for each text once.

    Those of the first encoder and of the last one are held; of all encoders they would fill the memory.
    """

    def __init__(self) -> None:
        self._caches: dict[str, EmbeddingCache] = {}

    def share(self, encoder: Any) -> Any:
        """The encoder behind a cache; of a mitigated one what stands before the eraser."""
        if isinstance(encoder, Erased):
            return replace(encoder, encoder=self.share(encoder.encoder))
        identity = str(encoder.identity)
        for other in list(self._caches)[1:]:
            if other != identity:
                del self._caches[other]
        return self._caches.setdefault(identity, EmbeddingCache(encoder))


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


def _seat(encoder: Encoder, base: _Base, kept: _Kept, settings: ReportSettings) -> dict[str, Any]:
    """All tests, their mean effect, and how far that is from the base."""
    found = kept.get("seat", settings.of_seat, partial(_effects, encoder, settings))
    about = {**settings.of_seat, "base": base.identity}
    itself, defined = encoder is base.encoder, found["mean"]["value"] is not None
    change = (
        None if itself or not defined else kept.get("seat change", about, partial(_change, encoder, base, settings))
    )
    return {**found, "change": change}


def _effects(encoder: Encoder, settings: ReportSettings) -> dict[str, Any]:
    tests = seat_tests("sentence")
    vectors = _vectors(encoder, tests)
    results = run_associations(
        tests,
        vectors,
        generator=np.random.default_rng(settings.seed),
        permutations=settings.permutations,
        resamples=settings.resamples,
    )
    results = tell_unknown(encoder, tests, results)
    mean = average_effect({result.name: result.effect for result in results})
    if mean.note:
        estimate = Estimate(math.nan, math.nan, math.nan, math.nan, 0.95, 0, {}, mean.note)
    else:
        generator = np.random.default_rng(settings.seed)
        estimate = average_estimate(_averaged(), vectors, generator=generator, resamples=settings.resamples)
    signed = None if math.isnan(mean.signed) else mean.signed
    return {"mean": estimate.as_dict(), "signed": signed, "tests": [result.as_dict() for result in results]}


def _change(encoder: Encoder, base: _Base, settings: ReportSettings) -> dict[str, Any]:
    tests = _averaged()
    before, after = (_vectors(one, tests) for one in (base.encoder, encoder))
    generator = np.random.default_rng(settings.seed)
    return average_change(tests, before, after, generator=generator, resamples=settings.resamples).as_dict()


def _averaged() -> list[AssociationTest]:
    return [test for test in seat_tests("sentence") if test.name in AVERAGED]


def _vectors(encoder: Encoder, tests: Sequence[AssociationTest]) -> dict[str, NDArray[Any]]:
    texts = texts_of(tests)
    made: Embeddings = encode_checked(encoder, texts)
    return dict(zip(texts, made, strict=True))


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
    from evenli.evaluate.senteval.tasks import run_senteval

    found: dict[str, Any] = {"tasks": {}, "missing": {}}
    for task in tasks:

        def run(task: str = task) -> dict[str, Any]:
            cache = encoder if isinstance(encoder, EmbeddingCache) else None
            result = run_senteval(encoder, Path(data), tasks=[task], seed=seed, device=device, cache=cache)
            if task in result.missing:
                return {"missing": result.missing[task]}
            return {name: result.tasks[task].as_dict()[name] for name in ("score", "metrics", "note")}

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
    from evenli.evaluate.senteval.data import TASKS

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
    """SentEval tasks that every encoder has a defined score for."""
    if not encoders or any(one["senteval"] is None for one in encoders):
        return []
    scores = [{name: one["score"] for name, one in encoder["senteval"]["tasks"].items()} for encoder in encoders]
    return [task for task in scores[0] if all(one.get(task) is not None for one in scores)]


def _method(encoder: Encoder) -> str:
    """Methods of the erasers behind an encoder, the first applied first; empty for an encoder without."""
    if not isinstance(encoder, Erased):
        return str(getattr(getattr(encoder, "encoder", encoder), "method", ""))
    before = _method(encoder.encoder)  # type: ignore[arg-type]  # an encoder by spec
    return f"{before}, {encoder.eraser.method}" if before else str(encoder.eraser.method)  # type: ignore[attr-defined]


def _note(encoder: Any, base: _Base) -> str:
    """What should be known of an encoder, and whether it is a mitigation of another one than the base."""
    notes, mitigated = [str(getattr(encoder, "note", ""))], isinstance(encoder, Erased)
    while isinstance(encoder, Erased) and str(encoder.identity) != base.identity:
        encoder = encoder.encoder
    if mitigated and str(encoder.identity) != base.identity:
        notes.append("mitigates another encoder, or another pooling, than the first: no difference is its doing alone")
    return "; ".join(filter(None, notes))


def _labels(specs: Sequence[str]) -> list[str]:
    """A short name for each: the last part of the path, or the whole spec where that is not one of a kind."""
    short = [Path(parts_of(spec)[0] if ":" in spec else spec).name or spec for spec in specs]
    return [name if short.count(name) == 1 else spec for name, spec in zip(short, specs, strict=True)]
