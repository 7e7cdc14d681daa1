"""Score a corpus on the machines of a Ray cluster; the result is byte for byte that of ``score_corpus``.

The driver reads the source and writes the directory, so the other machines need access to neither. They get the rows of
one shard and send back its bytes. The work is done by actors, one per GPU if the scorer wants one, else one per
processor: an actor keeps its scorer from the first shard to the last. The shards of a lost actor go to another one.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from evenli.core.errors import EvenliError, InputError, RunError, translated
from evenli.core.extras import need
from evenli.corpus.run import Chunk, Job, Scorer, Worker, parquet
from evenli.corpus.scored import CorpusScores
from evenli.corpus.settings import ReadSettings

_EACH = 2  # shards with an actor at a time, so that it need not wait for the next to be read
_RETRIES = 5  # how often a shard is tried again after its machine was lost


def score_corpus_ray(
    source: str | Path,
    out: str | Path,
    scorer_factory: Callable[[], Scorer],
    settings: ReadSettings | None = None,
    *,
    address: str | None = None,
    identity: str | None = None,
    gpus: bool | None = None,
    on_progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> CorpusScores:
    """Score every text of a corpus with Ray; a run begun by one engine may be finished by the other.

    ``scorer_factory`` makes the scorer once in each actor and travels there by pickle. ``address`` is HOST:PORT of a
    running cluster, or auto; the default is one on this machine. With ``gpus`` each actor has a GPU of its own. Where
    this or the ``identity`` of the scorer is not given, a scorer is made here to ask it. The others are as in
    ``score_corpus``.
    """
    ray = need("ray", extra="scale", purpose="scoring on a cluster")
    settings = settings or ReadSettings()
    if identity is None or gpus is None:
        scorer = scorer_factory()
        identity = scorer.identity if identity is None else identity
        gpus = bool(getattr(scorer, "wants_gpu", False)) if gpus is None else gpus
    job = Job(source, out, identity, settings)
    with job.opened(overwrite=overwrite), _connected(ray, address):
        unit = "GPU" if gpus and ray.cluster_resources().get("GPU", 0) >= 1 else "CPU"
        with _Crew(ray, unit, (ray.put(scorer_factory), job.columns, settings.batch)) as crew:
            _work_through(job, crew, on_progress)
        return job.finish()


def _work_through(job: Job, crew: _Crew, on_progress: Callable[[int], None] | None) -> None:
    """Send the missing shards out and store them as they come back, in whatever order."""
    done = 0

    def collect() -> None:
        nonlocal done
        for sent, content in crew.collect():
            job.store(sent.number, content)
            done += sent.rows
            if on_progress is not None:
                on_progress(done)

    for chunk in job.chunks():
        if job.has(chunk):
            done += len(chunk.records)
            continue
        # Chunks wait in the memory of the cluster, so that no more are read than can be worked on.
        while crew.out >= _EACH * crew.size:
            collect()
        crew.send(chunk)
    while crew.out:
        collect()


class _Sent(NamedTuple):
    number: int
    rows: int
    chunk: Any  # reference in the object store
    lost: int = 0  # how often its actor was lost


class _Actor:
    def __init__(self, factory: Callable[[], Scorer], columns: tuple[str, ...], batch: int) -> None:
        self._settings = factory, columns, batch
        self._worker: Worker | None = None

    def ready(self) -> None:
        """Answers once the actor has its GPU or processor."""

    def work(self, chunk: Chunk) -> bytes:
        # Made with the first shard, so that what goes wrong is the error of a shard.
        if self._worker is None:
            factory, columns, batch = self._settings
            self._worker = Worker(factory(), columns, batch)
        return parquet(self._worker(chunk))


class _Crew:
    """The actors and their shards.

    A lost actor is replaced. Its replacement gets work once it has a place; until then its shards go to the others.
    """

    def __init__(self, ray: ModuleType, unit: str, arguments: tuple[Any, ...]) -> None:
        self._ray, self._unit, self._arguments = ray, unit, arguments
        self._kind = ray.remote(max_restarts=0, **{f"num_{unit.lower()}s": 1})(_Actor)
        self._there = int(ray.cluster_resources().get(unit, 0))
        self.size = max(1, self._there)
        self._starting: dict[Any, Any] = {}
        self._free: list[Any] = []
        self._pending: dict[Any, tuple[Any, _Sent]] = {}
        self._waiting: list[_Sent] = []
        self._alive: set[Any] = set()

    def __enter__(self) -> _Crew:
        for _ in range(self.size):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._alive:
            self._ray.kill(actor)

    @property
    def out(self) -> int:
        return len(self._pending) + len(self._waiting)

    def send(self, chunk: Chunk) -> None:
        self._waiting.append(_Sent(chunk.number, len(chunk.records), self._ray.put(chunk)))
        self._assign()

    def collect(self) -> Iterator[tuple[_Sent, bytes]]:
        """Wait for an event; if it is a shard, its bytes."""
        ready, _ = self._ray.wait([*self._pending, *self._starting], num_returns=1, timeout=60)
        # With nothing at work and no machine left to begin, no event would ever come.
        if not (ready or self._pending) and self._there and self._ray.cluster_resources().get(self._unit, 0) < 1:
            raise RunError(f"the cluster has lost all its {self._unit}s; finished shards are kept, run again")
        for reference in ready:
            if reference in self._starting:
                self._started(reference)
                continue
            actor, sent = self._pending.pop(reference)
            try:
                content = self._ray.get(reference)
            except self._ray.exceptions.RayTaskError as error:
                # What the worker raised on purpose is raised here.
                if isinstance(error.cause, EvenliError):
                    raise error.cause from None
                raise
            except self._ray.exceptions.RayError as error:
                self._lost(actor, sent, error)
                continue
            self._free.append(actor)
            yield sent, content
        self._assign()

    def _start(self) -> None:
        actor = self._kind.remote(*self._arguments)
        self._alive.add(actor)
        self._starting[actor.ready.remote()] = actor

    def _started(self, reference: Any) -> None:
        actor = self._starting.pop(reference)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError:
            self._replace(actor)
        else:
            # Once per shard that it may hold at a time.
            self._free += [actor] * _EACH

    def _assign(self) -> None:
        # Spread first: an actor that is free twice stands in the list twice.
        self._free.sort(key=[actor for actor, _ in self._pending.values()].count)
        while self._waiting and self._free:
            actor, sent = self._free.pop(0), self._waiting.pop(0)
            self._pending[actor.work.remote(sent.chunk)] = actor, sent

    def _lost(self, actor: Any, sent: _Sent, error: Exception) -> None:
        if sent.lost >= _RETRIES:
            reason = str(error).strip().splitlines()[0]
            raise RunError(f"the cluster lost a shard for good ({reason}); run again, others are kept") from error
        self._waiting.insert(0, sent._replace(lost=sent.lost + 1))
        self._replace(actor)

    def _replace(self, actor: Any) -> None:
        if actor in self._alive:
            self._alive.remove(actor)
            self._free = [other for other in self._free if other != actor]
            self._ray.kill(actor)
            self._start()


@contextlib.contextmanager
def _connected(ray: ModuleType, address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    if address not in {None, "auto", "local"}:
        _check_address(str(address))
    with translated(
        f"no Ray cluster at {address or 'this machine'}: ",
        into=RunError,
        kinds=(ConnectionError, RuntimeError, ValueError),
        reason=lambda error: str(error).strip().splitlines()[0],
    ):
        ray.init(address=address, log_to_driver=False, logging_level="error", include_dashboard=None)
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address that does not answer at once; Ray itself tries for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"the address '{address}' is not host:port, such as 10.0.0.1:6379")
    advice = "start one with: ray start --head"
    kinds = (OSError, OverflowError)
    with translated(f"no Ray cluster answers at {address} (", f"); {advice}", into=RunError, kinds=kinds):
        socket.create_connection((host, int(port)), timeout=5).close()
