"""Score a corpus on the machines of a Ray cluster; the result is byte for byte that of ``score_corpus``.

The driver reads the source and writes the folder, so the other machines need neither. They get the rows of one shard
and send back its bytes. What a lost machine was working on is given to another one.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from evenli._extras import need
from evenli.errors import EvenliError, InputError, RunError
from evenli.sentences.corpus import Chunk, CorpusScores, Job, Scorer, Worker

_WORKERS: dict[tuple[str, tuple[str, ...], int], Worker] = {}


def score_corpus_ray(
    source: str | Path,
    out: str | Path,
    scorer_factory: Callable[[], Scorer],
    *,
    columns: Sequence[str] | None = None,
    batch: int = 4_096,
    address: str | None = None,
    in_flight: int | None = None,
    retries: int = 5,
    on_progress: Callable[[int], None] | None = None,
    overwrite: bool = False,
) -> CorpusScores:
    """Score every text of a corpus with Ray and write the scored folder ``out``.

    Args:
        source: As in ``score_corpus``.
        out: As in ``score_corpus``; a run begun by one engine may be finished by the other.
        scorer_factory: Makes the scorer, once in each worker process; it travels there by pickle.
        columns: As in ``score_corpus``.
        batch: As in ``score_corpus``.
        address: ``host:port`` of a running cluster, or ``auto``; by default one is started on this machine, unless
            the process is connected already.
        in_flight: Shards sent out and not yet back, which bounds the memory; by default the number of processors and 2.
        retries: How often a shard is tried again after its machine was lost.
        on_progress: Called with the number of rows done.
        overwrite: As in ``score_corpus``.
    """
    ray = need("ray", extra="scale", purpose="scoring on a cluster")
    if batch < 1 or (in_flight is not None and in_flight < 1):
        raise InputError(f"batch and in_flight must be 1 or more, not {batch} and {in_flight}")
    identity = scorer_factory().identity
    job = Job.prepare(source, out, identity, columns)
    with job.opened(overwrite=overwrite), _connected(ray, address):
        limit = in_flight or int(ray.cluster_resources().get("CPU", 1)) + 2
        factory = ray.put(scorer_factory)
        work = ray.remote(max_retries=retries)(_work)
        pending: dict[Any, tuple[int, int]] = {}
        done = 0

        def collect() -> None:
            nonlocal done
            ready, _ = ray.wait(list(pending), num_returns=1)
            for reference in ready:
                number, rows = pending.pop(reference)
                job.store(number, _result(ray, reference))
                done += rows
                if on_progress is not None:
                    on_progress(done)

        for chunk in job.chunks():
            if job.has(chunk):
                done += len(chunk.records)
                continue
            while len(pending) >= limit:
                collect()
            pending[work.remote(factory, identity, job.columns, batch, chunk)] = chunk.number, len(chunk.records)
        while pending:
            collect()
        return job.finish()


def _work(factory: Callable[[], Scorer], identity: str, columns: tuple[str, ...], batch: int, chunk: Chunk) -> bytes:
    # Loading vectors may take minutes, so a worker process keeps its scorer from one shard to the next.
    key = identity, columns, batch
    if key not in _WORKERS:
        _WORKERS.clear()
        _WORKERS[key] = Worker(factory(), columns, batch)
    return _WORKERS[key](chunk)


def _result(ray: ModuleType, reference: Any) -> bytes:
    try:
        return bytes(ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, EvenliError):
            raise error.cause from None
        raise
    except ray.exceptions.RayError as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"the cluster lost a shard for good ({reason}); finished shards are kept, run again") from error


@contextlib.contextmanager
def _connected(ray: ModuleType, address: str | None) -> Iterator[None]:
    if ray.is_initialized():
        yield
        return
    if address not in {None, "auto", "local"}:
        _knock(str(address))
    try:
        ray.init(address=address, log_to_driver=False, logging_level="error", include_dashboard=None)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().splitlines()[0]
        raise RunError(f"no Ray cluster at {address or 'this machine'}: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Refuse an address that does not answer at once; Ray itself tries for a minute."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"the address '{address}' is not host:port, such as 10.0.0.1:6379")
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise RunError(f"no Ray cluster answers at {address} ({error}); start one with: ray start --head") from error
