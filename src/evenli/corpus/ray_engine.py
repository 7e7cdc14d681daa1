"""Score a corpus on the machines of a Ray cluster; the result is byte for byte that of ``score_corpus``.

The driver reads the source and writes the directory, so the other machines need access to neither. They get the rows of
one shard and send back its bytes. The shards of a lost machine are given to another one.

A scorer without an encoder runs in tasks, one per processor. One that wants a GPU runs in actors, one per GPU of the
cluster: an actor keeps its GPU, and with it the encoder, from the first shard to the last.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from evenli._extras import need
from evenli.corpus.run import Job
from evenli.corpus.scored import CorpusScores
from evenli.corpus.shards import Chunk, Scorer, Worker
from evenli.errors import EvenliError, InputError, RunError

_WORKERS: dict[tuple[str, tuple[str, ...], int], Worker] = {}


@dataclass(frozen=True)
class RaySettings:
    """How a cluster is used.

    Attributes:
        address: ``host:port`` of a running cluster, or ``auto``; by default one is started on this machine, unless
            the process is connected already.
        identity: That of the scorer; by default one is made here to ask it.
        gpus: Give each worker a GPU of its own, where the cluster has any; by default if the scorer ``wants_gpu``.
        in_flight: Shards sent out and not yet back, which bounds the memory; by default the number of processors and 2.
            With GPUs it is two for each.
        retries: How often a shard is tried again after its machine was lost.
    """

    address: str | None = None
    identity: str | None = None
    gpus: bool | None = None
    in_flight: int | None = None
    retries: int = 5


def score_corpus_ray(
    source: str | Path,
    out: str | Path,
    scorer_factory: Callable[[], Scorer],
    cluster: RaySettings | None = None,
    *,
    columns: Sequence[str] | None = None,
    batch: int = 4_096,
    on_progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> CorpusScores:
    """Score every text of a corpus with Ray; a run begun by one engine may be finished by the other.

    Args:
        source: As in ``score_corpus``, like the other arguments that are not listed here.
        out: The output directory.
        scorer_factory: Makes the scorer, once in each worker process; it travels there by pickle.
        cluster: How the cluster is used.
        columns: Text columns.
        batch: Sentences handed to the scorer at once.
        on_progress: Called with the number of rows done.
        overwrite: Start again.
    """
    ray = need("ray", extra="scale", purpose="scoring on a cluster")
    cluster = cluster or RaySettings()
    if batch < 1 or (cluster.in_flight is not None and cluster.in_flight < 1):
        raise InputError(f"batch and in_flight must be 1 or more, not {batch} and {cluster.in_flight}")
    identity, gpus = cluster.identity, cluster.gpus
    if identity is None or gpus is None:
        scorer = scorer_factory()
        identity = scorer.identity if identity is None else identity
        gpus = bool(getattr(scorer, "wants_gpu", False)) if gpus is None else gpus
    job = Job.prepare(source, out, identity, columns)
    with job.opened(overwrite=overwrite), _connected(ray, cluster.address), contextlib.ExitStack() as stack:
        resources = ray.cluster_resources()
        setting = (ray.put(scorer_factory), identity, job.columns, batch)
        crew: _Tasks | _Actors
        if gpus and resources.get("GPU", 0) >= 1:
            crew = stack.enter_context(_Actors(ray, setting, int(resources["GPU"]), cluster.retries))
        else:
            crew = _Tasks(ray, setting, cluster.in_flight or int(resources.get("CPU", 1)) + 2, cluster.retries)
        _work_through(job, crew, on_progress)
        return job.finish()


def _work_through(job: Job, crew: _Tasks | _Actors, on_progress: Callable[[int], None] | None) -> None:
    """Send the missing shards out and store them as they come back, in whatever order."""
    done = 0

    def collect() -> None:
        nonlocal done
        for number, rows, content in crew.collect():
            job.store(number, content)
            done += rows
            if on_progress is not None:
                on_progress(done)

    for chunk in job.chunks():
        if job.has(chunk):
            done += len(chunk.records)
            continue
        while crew.full:
            collect()
        crew.send(chunk)
    while crew.busy:
        collect()


_Setting = tuple[Any, str, tuple[str, ...], int]
"""Reference of the scorer's factory, identity, columns and batch size."""


class _Sent(NamedTuple):
    """A shard that was sent out: its number, its rows, its chunk in the object store, how often it was lost."""

    number: int
    rows: int
    chunk: Any
    lost: int = 0


class _Tasks:
    """Shards worked on by whatever processor is free; Ray itself repeats those that are lost."""

    def __init__(self, ray: ModuleType, setting: _Setting, limit: int, retries: int) -> None:
        self._ray, self._setting, self._limit = ray, setting, limit
        self._remote = ray.remote(max_retries=retries)(_work)
        self._pending: dict[Any, tuple[int, int]] = {}

    @property
    def full(self) -> bool:
        """Whether a shard must come back before the next is sent."""
        return len(self._pending) >= self._limit

    @property
    def busy(self) -> bool:
        """Whether any shard is out."""
        return bool(self._pending)

    def send(self, chunk: Chunk) -> None:
        """Send a shard out."""
        self._pending[self._remote.remote(*self._setting, chunk)] = chunk.number, len(chunk.records)

    def collect(self) -> Iterator[tuple[int, int, bytes]]:
        """Wait for a shard: its number, its rows and its bytes."""
        ready, _ = self._ray.wait(list(self._pending), num_returns=1)
        for reference in ready:
            number, rows = self._pending.pop(reference)
            try:
                content = _result(self._ray, reference)
            except _LostError as error:
                raise _lost_for_good(error) from error
            yield number, rows, content


class _Actors:
    """Shards given to one actor per GPU.

    A lost actor is replaced. Its replacement gets work once it has a GPU; until then its shards go to the others.
    """

    _EACH = 2
    """Shards with an actor at a time, so that it need not wait for the next to be read."""

    def __init__(self, ray: ModuleType, setting: _Setting, count: int, retries: int) -> None:
        self._ray, self._setting, self._count, self._retries = ray, setting, count, retries
        self._kind = ray.remote(num_gpus=1, max_restarts=0)(_GpuWorker)
        self._starting: dict[Any, Any] = {}
        self._free: list[Any] = []
        self._pending: dict[Any, tuple[Any, _Sent]] = {}
        self._waiting: list[_Sent] = []
        self._alive: set[Any] = set()

    def __enter__(self) -> _Actors:
        for _ in range(self._count):
            self._start()
        return self

    def __exit__(self, *_: object) -> None:
        for actor in self._alive:
            self._ray.kill(actor)

    @property
    def full(self) -> bool:
        """Whether a shard must come back before the next is sent."""
        return len(self._pending) + len(self._waiting) >= self._EACH * self._count

    @property
    def busy(self) -> bool:
        """Whether any shard is out."""
        return bool(self._pending or self._waiting)

    def send(self, chunk: Chunk) -> None:
        """Send a shard out."""
        self._waiting.append(_Sent(chunk.number, len(chunk.records), self._ray.put(chunk)))
        self._assign()

    def collect(self) -> Iterator[tuple[int, int, bytes]]:
        """Wait for an event; if it is a shard: its number, its rows and its bytes."""
        ready, _ = self._ray.wait([*self._pending, *self._starting], num_returns=1, timeout=60)
        if not ready and not self._pending and self._ray.cluster_resources().get("GPU", 0) < 1:
            raise RunError("the cluster has lost all its GPUs; finished shards are kept, run again")
        for reference in ready:
            if reference in self._starting:
                self._started(reference)
                continue
            actor, sent = self._pending.pop(reference)
            try:
                content = _result(self._ray, reference)
            except _LostError as error:
                self._lost(actor, sent, error)
                continue
            self._free.append(actor)
            yield sent.number, sent.rows, content
        self._assign()

    def _start(self) -> None:
        actor = self._kind.remote()
        self._alive.add(actor)
        self._starting[actor.ready.remote()] = actor

    def _started(self, reference: Any) -> None:
        actor = self._starting.pop(reference)
        try:
            self._ray.get(reference)
        except self._ray.exceptions.RayError:
            self._replace(actor)
        else:
            self._free += [actor] * self._EACH

    def _assign(self) -> None:
        # Spread first: an actor that is free twice stands in the list twice.
        self._free.sort(key=[actor for actor, _ in self._pending.values()].count)
        while self._waiting and self._free:
            actor, sent = self._free.pop(0), self._waiting.pop(0)
            self._pending[actor.work.remote(*self._setting, sent.chunk)] = actor, sent

    def _lost(self, actor: Any, sent: _Sent, error: _LostError) -> None:
        if sent.lost >= self._retries:
            raise _lost_for_good(error) from error
        self._waiting.insert(0, sent._replace(lost=sent.lost + 1))
        self._replace(actor)

    def _replace(self, actor: Any) -> None:
        if actor in self._alive:
            self._alive.remove(actor)
            self._free = [other for other in self._free if other != actor]
            self._ray.kill(actor)
            self._start()


class _GpuWorker:
    """The actor of one GPU."""

    def ready(self) -> None:
        """Answers once the actor has its GPU."""

    def work(
        self, factory: Callable[[], Scorer], identity: str, columns: tuple[str, ...], batch: int, chunk: Chunk
    ) -> bytes:
        """The bytes of a shard."""
        return _work(factory, identity, columns, batch, chunk)


def _work(factory: Callable[[], Scorer], identity: str, columns: tuple[str, ...], batch: int, chunk: Chunk) -> bytes:
    # Loading vectors may take minutes, so a worker process keeps its scorer from one shard to the next.
    key = identity, columns, batch
    if key not in _WORKERS:
        _WORKERS.clear()
        _WORKERS[key] = Worker(factory(), columns, batch)
    return _WORKERS[key](chunk)


class _LostError(Exception):
    """A machine was lost, and a shard with it."""


def _result(ray: ModuleType, reference: Any) -> bytes:
    """The bytes of a shard; what the worker raised on purpose is raised here."""
    try:
        return bytes(ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, EvenliError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        raise _LostError(str(error).strip().splitlines()[0]) from error


def _lost_for_good(error: _LostError) -> RunError:
    return RunError(f"the cluster lost a shard for good ({error}); finished shards are kept, run again")


@contextlib.contextmanager
def _connected(ray: ModuleType, address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    if address not in {None, "auto", "local"}:
        _check_address(str(address))
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", include_dashboard=None)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"no Ray cluster at {address or 'this machine'}: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _check_address(address: str) -> None:
    """Refuse an address that does not answer at once; Ray itself tries for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"the address '{address}' is not host:port, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise RunError(f"no Ray cluster answers at {address} ({error}); start one with: ray start --head") from error
