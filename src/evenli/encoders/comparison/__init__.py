"""A mitigated encoder beside its base: SEAT effects, leakage of gender, and what the encoder still can do.

Every figure is computed from the encoder alone and stored in the report's directory as soon as it is there, so that a
report over many encoders can be stopped, continued and extended.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import numpy as np
from msgspec.structs import replace

from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_files, hash_text, read_json
from evenli.core.record import Estimate, Number, Record
from evenli.core.store import UNREADABLE, RunDir
from evenli.encoders.base import EmbeddingCache, Encoder, layers, load_with_own_pooling, parts_of
from evenli.encoders.eraser import Erased
from evenli.encoders.gendered import GenderedSet, gendered_set, probe_text
from evenli.encoders.leakage import HeldOut, Residual, known_sentences, residual_leakage
from evenli.encoders.seat import AVERAGED, average_estimate, encode_tests, seat, seat_tests, texts_of
from evenli.encoders.seat.association import AssociationResult
from evenli.encoders.senteval import TaskResult, senteval
from evenli.encoders.senteval.data import task_folder
from evenli.encoders.settings import ReportSettings as ReportSettings

FIGURES = ("seat", "linear", "mlp", "on_text", "clustering", "correlation", "senteval")  # what encoders are compared by
_KIND = "encoder report"
_LAYOUT = 4  # raise it when a stored figure would come out otherwise
_OTHER_BASE = "mitigates another encoder, or another pooling, than the first: no difference is its doing alone"
_SEAT = ("seed", "permutations", "resamples")  # settings of SEAT that figures depend on

DEFAULTS = ReportSettings()
OnStep = Callable[[str, str], None]


class SeatFigures(Record, frozen=True):
    """Association tests of one encoder."""

    mean: Estimate  # size of the effects C6 to C8b
    signed: Number  # mean of the same effects with their signs; NaN if one is undefined
    tests: tuple[AssociationResult, ...]
    change: Estimate | None = None  # of ``mean`` against the base encoder; None for the base or without a mean


class TaskScores(Record, frozen=True):
    """SentEval of one encoder.

    Attributes:
        tasks: The tasks that ran.
        missing: Those that did not, with the reason.
        overall: Mean score over the tasks that all encoders of the report have; None without any.
    """

    tasks: dict[str, TaskResult]
    missing: dict[str, str]
    overall: float | None = None


class EncoderFigures(Record, frozen=True):
    """All figures of one encoder."""

    spec: str  # as it was given
    label: str
    identity: str  # changes when its outputs could
    method: str  # mitigations, the first applied first; empty for none
    note: str
    seat: SeatFigures
    leakage: Residual  # what is left of gender
    senteval: TaskScores | None = None
    difference: dict[str, float | None] = msgspec.field(default_factory=dict)  # FIGURES less those of the first encoder

    def figure(self, name: str) -> float | None:
        """One of FIGURES; None where it is undefined."""
        if name == "senteval":
            return None if self.senteval is None else self.senteval.overall
        if name == "on_text":
            return None if self.leakage.on_text is None else self.leakage.on_text.linear.value
        estimate = self.seat.mean if name == "seat" else getattr(self.leakage, name)
        return None if math.isnan(estimate.value) else float(estimate.value)

    def score(self, task: str) -> float | None:
        """Score of one SentEval task; None where it is missing or undefined."""
        result = None if self.senteval is None else self.senteval.tasks.get(task)
        return None if result is None or math.isnan(result.score) else result.score


class EncoderReport(Record, frozen=True):
    """Encoders beside the first of them, and the SentEval tasks that all of them have a score for."""

    stamped: ClassVar[str] = _KIND
    schema: ClassVar[int] = 2

    encoders: tuple[EncoderFigures, ...]
    tasks: tuple[str, ...] = ()
    settings: dict[str, Any] = msgspec.field(default_factory=dict)  # what the figures depend on besides the encoders

    def __repr__(self) -> str:
        parts = (f"{encoder.label} {encoder.figure('seat')}" for encoder in self.encoders)
        return f"EncoderReport(mean SEAT effect: {', '.join(parts)})"


def difference(value: float | None, base: float | None) -> float | None:
    """How much a figure differs from that of the base; None where one is undefined."""
    return None if value is None or base is None else round(value - base, 6)


def encoder_report(
    specs: Sequence[str],
    settings: ReportSettings = DEFAULTS,
    *,
    data: str | Path | None = None,
    out: str | Path | None = None,
    on_step: OnStep = lambda encoder, figure: None,
) -> EncoderReport:
    """Compare encoders, as ``load_encoder`` takes them, with the first of them, which is the unmitigated one.

    Without a directory of SentEval ``data`` that is left out. In the directory ``out`` every figure is stored at once
    and looked up before it is computed. ``on_step`` is called with encoder and figure before something is computed.
    """
    if not specs:
        raise InputError("no encoder given; give the unmitigated one first, then mitigated ones")
    if settings.senteval.tasks is not None and data is None:
        raise InputError("SentEval tasks are named, but no data; give its folder (--data)")
    run = None if out is None else _ReportDir(out)
    measurer = _Measurer(settings, data, run, on_step)
    with nullcontext() if run is None else run.locked():
        for spec, label in zip(specs, _labels(specs), strict=True):
            measurer.add(spec, label)
        report = _compared(measurer.encoders, settings)
        if run is not None:
            run.write_manifest(report.to_dict())
    return report


class _ReportDir(RunDir):
    """The directory of a report. Anyone may have a ``report.json``, so one that is not ours protects its directory."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(
            path, kind=_KIND, manifest="report.json", owned=("encoders", "encoders.svg", "encoders.png"), schema=2
        )

    def describes(self, stored: Mapping[str, Any]) -> bool:
        """Whether it is a report."""
        return stored.get("kind") == _KIND

    def foreign_files(self) -> list[str]:
        """Names that we do not write, a report of something else among them."""
        others = [self.manifest_file.name] if self.exists() and not self.is_ours() else []
        return others + super().foreign_files()


class _StoredFigures:
    """Figures of one encoder in the report's directory: computed once for the same encoder and settings."""

    def __init__(self, run: RunDir | None, identity: str, on_step: Callable[[str], None]) -> None:
        self._run, self._identity, self._on_step = run, identity, on_step
        self._name = f"encoders/{hash_text(identity)[:24]}.json"
        self._values: dict[str, Any] = {}
        file = None if run is None else run.path / self._name
        if file is None or not file.is_file():
            return
        try:
            stored = read_json(file)
            # A hash that is cut off may be that of another encoder, and an old layout holds other numbers.
            if stored["identity"] == identity and stored["layout"] == _LAYOUT:
                self._values = dict(stored["values"])
        except UNREADABLE as error:
            raise RunError(f"{file} is not of an encoder report; delete it or choose another directory") from error

    def get(self, name: str, depends_on: Mapping[str, object], compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The figure as plain values, computed if it is not there for the same settings."""
        key = f"{name}:{hash_text(json.dumps(depends_on, sort_keys=True))[:24]}"
        if key not in self._values:
            self._on_step(name)
            self._values[key] = compute()
            if self._run is not None:
                content = {"layout": _LAYOUT, "identity": self._identity, "values": self._values}
                self._run.write_json(self._name, content)
        return dict(self._values[key])


class _Measurer:
    """Loads encoders one after the other and computes their figures."""

    def __init__(self, settings: ReportSettings, data: str | Path | None, run: RunDir | None, on_step: OnStep) -> None:
        self._settings, self._run, self._on_step = settings, run, on_step
        self._senteval = dataclasses.replace(settings.senteval, device=settings.senteval.device or settings.device)
        self._data = None if data is None else task_folder(data)
        if self._data is not None:
            self._data_hash = hash_files(sorted(file for file in self._data.rglob("*") if file.is_file()))
        self._text = probe_text(settings.probe)
        self._tests = seat_tests()
        self._averaged = [test for test in self._tests if test.name in AVERAGED]
        self._base: Any = None
        self._caches: dict[str, EmbeddingCache] = {}
        self.encoders: list[EncoderFigures] = []

    def add(self, spec: str, label: str) -> None:
        """Measure one more encoder; the first one is the base."""
        encoder: Any
        settings = self._settings
        # Encoders of several kinds stand side by side: one that takes no pooling says so and goes on.
        encoder, unpooled = load_with_own_pooling(
            spec, pooling=settings.pooling, device=settings.device, online=settings.online
        )
        identity = str(encoder.identity)
        same = next((earlier.spec for earlier in self.encoders if earlier.identity == identity), None)
        if same is not None:
            raise InputError(f"{spec} is the same encoder as {same}; name each once")
        # Differences and leakage need the base again for every encoder; its embeddings come from the cache.
        encoder = self._share(encoder)
        self._base = encoder if self._base is None else self._base
        stored = _StoredFigures(self._run, identity, lambda figure: self._on_step(label, figure))
        notes = [unpooled, str(getattr(encoder, "note", ""))]
        behind = list(layers(encoder))
        known = [getattr(layer, "identity", "") for layer in behind]
        if isinstance(encoder, Erased) and self._base.identity not in known:
            notes.append(_OTHER_BASE)
        methods = (str(getattr(getattr(layer, "eraser", layer), "method", "")) for layer in reversed(behind))
        about = (spec, label, identity, ", ".join(filter(None, methods)), "; ".join(filter(None, notes)))
        figures = (self._seat(encoder, stored), self._leakage(encoder, stored), self._scores(encoder, stored))
        self.encoders.append(EncoderFigures(*about, *figures))

    def _share(self, encoder: Any) -> Any:
        """The encoder behind a cache, so that an encoder and its mitigated versions encode each text once.

        Of a mitigated one that is what stands before the eraser. Caches of the first encoder and of the last one are
        held; those of all encoders would fill the memory.
        """
        if isinstance(encoder, Erased):
            return dataclasses.replace(encoder, encoder=self._share(encoder.encoder))
        identity = str(encoder.identity)
        for other in list(self._caches)[1:]:
            if other != identity:
                del self._caches[other]
        return self._caches.setdefault(identity, EmbeddingCache(encoder))

    def _seat(self, encoder: Encoder, stored: _StoredFigures) -> SeatFigures:
        settings = self._settings.seat

        def effects() -> dict[str, Any]:
            result = seat(encoder, self._tests, settings)
            mean = Estimate.undefined(result.mean.note, settings.coverage)
            if not result.mean.note:
                mean = average_estimate(self._averaged, encode_tests(encoder, self._averaged), settings)
            return SeatFigures(mean, result.mean.signed, result.tests).to_dict()

        def change() -> dict[str, Any]:
            before, after = (encode_tests(which, self._averaged) for which in (self._base, encoder))
            return average_estimate(self._averaged, after, settings, before).to_dict()

        # What the stored figure is looked up by; the texts are part of it, as they may change with a release.
        depends_on = {name: getattr(settings, name) for name in _SEAT}
        depends_on["texts"] = hash_text("\n".join(texts_of(self._tests)))
        figures = SeatFigures.from_dict(stored.get("seat", depends_on, effects))
        if encoder is self._base or math.isnan(figures.mean.value):
            return figures
        compared = stored.get("seat change", {**depends_on, "base": str(self._base.identity)}, change)
        return replace(figures, change=Estimate.from_dict(compared))

    @cached_property
    def _sentences(self) -> GenderedSet:
        # What a mitigated encoder was fitted on differs from one to the next, and is in its own folder.
        return dataclasses.replace(known_sentences(self._base, gendered_set()), domain=())

    @cached_property
    def _held_out(self) -> HeldOut:
        return HeldOut.of(self._base, self._sentences, self._text)

    def _leakage(self, encoder: Encoder, stored: _StoredFigures) -> Residual:
        seed = self._settings.seat.seed

        def compute() -> dict[str, Any]:
            held_out = self._held_out if encoder is self._base else HeldOut.of(encoder, self._sentences, self._text)
            return residual_leakage(held_out, self._held_out.lean(), seed=seed).to_dict()

        sentences = self._sentences.sha256["held_out"]
        text = hash_text("\n".join(self._text.texts))
        depends_on = {"seed": seed, "base": str(self._base.identity), "sentences": sentences, "text": text}
        return Residual.from_dict(stored.get("leakage", depends_on, compute))

    def _scores(self, encoder: Encoder, stored: _StoredFigures) -> TaskScores | None:
        """SentEval one task at a time, so that each is stored as soon as it is done."""
        data = self._data
        if data is None:
            return None
        result = TaskScores({}, {})
        for task in self._senteval.names:

            def run(task: str = task) -> dict[str, Any]:
                result = senteval(encoder, data, dataclasses.replace(self._senteval, tasks=(task,)))
                return result.tasks[task].to_dict() if task in result.tasks else {"missing": result.missing[task]}

            plain = stored.get(task, {"seed": self._senteval.seed, "data": self._data_hash}, run)
            if "missing" in plain:
                result.missing[task] = plain["missing"]
            else:
                result.tasks[task] = TaskResult.from_dict(plain)
        return result


def _compared(encoders: Sequence[EncoderFigures], settings: ReportSettings) -> EncoderReport:
    """Add the mean over the tasks that all encoders have, and every encoder's difference to the first."""
    first = encoders[0].senteval
    # A mean over other tasks than those of the base would compare tasks, not encoders.
    names = first.tasks if first else ()
    tasks = tuple(name for name in names if all(encoder.score(name) is not None for encoder in encoders))
    compared: list[EncoderFigures] = []
    for figures in encoders:
        if tasks and figures.senteval:
            mean = float(np.mean([figures.senteval.tasks[task].score for task in tasks]))
            figures = replace(figures, senteval=replace(figures.senteval, overall=round(mean, 6)))
        base = compared[0] if compared else figures
        change = {name: difference(figures.figure(name), base.figure(name)) for name in FIGURES}
        compared.append(replace(figures, difference=change))
    about = {name: getattr(settings.seat, name) for name in _SEAT}
    about |= {"senteval_seed": settings.senteval.seed, "pooling": settings.pooling, "averaged": AVERAGED}
    return EncoderReport(tuple(compared), tasks, about)


def _labels(specs: Sequence[str]) -> list[str]:
    """A short name for each: the last part of the path, or the whole spec where two would have the same."""
    # mitigated:FOLDER,py:module:function is named by its folder.
    paths = [(parts_of(spec)[0] if ":" in spec else spec).partition(",py:")[0] for spec in specs]
    short = [Path(path).name or spec for path, spec in zip(paths, specs, strict=True)]
    return [name if short.count(name) == 1 else spec for name, spec in zip(short, specs, strict=True)]
