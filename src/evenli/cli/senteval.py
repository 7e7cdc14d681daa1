"""``evenli senteval``."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenli.cli import _shared as shared

if TYPE_CHECKING:
    from evenli.encoders.base import Encoder
    from evenli.encoders.cache import EmbeddingCache
    from evenli.evaluate.senteval.results import TaskResult
    from evenli.evaluate.senteval.stored import ResultFile


def senteval(
    encoder: shared.Encoder,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with the task files, flat or SentEval's own layout.", show_default=False),
    ] = None,
    tasks: Annotated[
        str | None, typer.Option(help="Names such as MR,CR,STS14; default: all twelve.", show_default=False)
    ] = None,
    pooling: shared.Pooling = "mean",
    seed: Annotated[int, shared.seed_option("Seed of folds, shuffles and initial weights.")] = 1111,
    kfold: Annotated[int, typer.Option(help="Folds of cross-validated tasks, outer and inner.", min=2)] = 10,
    classifier: Annotated[str, typer.Option(help="torch (softmax layer, Adam) or sklearn.")] = "torch",
    hidden: Annotated[int, typer.Option(help="Units of a sigmoid layer before the softmax; 0: none.", min=0)] = 0,
    batch_size: Annotated[
        int | None, typer.Option(help="Texts the encoder takes at a time.", min=1, show_default=False)
    ] = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder that keeps embeddings between runs.", show_default=False)
    ] = None,
    device: shared.Device = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="JSON file for the result, written after every task; what is in it is not run again.",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in a file that is there.")] = False,
    as_json: shared.Json = False,
) -> None:
    """Evaluate an encoder on the twelve SentEval tasks of Dolci et al. 2023."""
    from evenli._extras import need
    from evenli.encoders.cache import EmbeddingCache
    from evenli.errors import InputError, RunError

    if data is None:
        raise InputError("--data: where are the SentEval files? A flat folder, or SentEval's downstream folder")
    chosen = [name.strip() for name in tasks.split(",") if name.strip()] if tasks is not None else None
    need("torch", extra="hf", purpose="SentEval")
    from evenli.evaluate.senteval.results import settings_of
    from evenli.evaluate.senteval.stored import ResultFile, as_told
    from evenli.evaluate.senteval.tasks import run_senteval

    file = None if out is None else ResultFile(out, overwrite=overwrite)
    loaded = shared.load_encoder(encoder, pooling, device)
    if batch_size is not None:
        loaded = _Batched(loaded, batch_size)
    store = EmbeddingCache(loaded, cache)
    known = {}
    if file is not None:
        settings = settings_of(store.identity, seed=seed, kfold=kfold, hidden=hidden, classifier=classifier)
        known = file.open(encoder, settings, data)
        for name in known:
            shared.warn(f"{name}: kept from {out}")
    result = run_senteval(
        loaded,
        data,
        tasks=[*chosen, *known] if chosen else chosen,
        seed=seed,
        kfold=kfold,
        hidden=hidden,
        classifier=classifier,
        device=device,
        cache=store,
        on_task=_Progress(store, file),
        known=known,
    )
    if not result.tasks:
        raise InputError(f"no task could run: {next(iter(result.missing.values()))}")
    failed: RunError | None = None
    if file is not None:
        try:
            file.write(result)
        except RunError as error:
            failed = error
    _tell(as_told(result, encoder), as_json)
    if failed is not None:  # after the table, which would be lost otherwise
        raise failed


def _tell(told: dict[str, Any], as_json: bool) -> None:
    if as_json:
        for reason in told["missing"].values():
            shared.warn(f"not run: {reason}")
        shared.print_json(told)
        return
    from evenli.report.senteval import print_senteval

    print_senteval(told, shared.console())


class _Batched:
    """An encoder that is asked for some texts at a time, of similar length."""

    def __init__(self, encoder: Encoder, size: int) -> None:
        self._encoder, self._size = encoder, size
        self.identity = encoder.identity  # type: ignore[attr-defined]  # every encoder by spec has one

    def encode(self, texts: Any) -> Any:
        """[n, d]."""
        import numpy as np

        from evenli.encoders.base import encode_checked, name_of
        from evenli.errors import ModelError

        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        parts = [order[start : start + self._size] for start in range(0, len(order), self._size)]
        made = [encode_checked(self._encoder, [texts[row] for row in part]) for part in parts]
        if len(widths := sorted({one.shape[1] for one in made})) > 1:
            few, many = widths[0], widths[-1]
            raise ModelError(f"{name_of(self._encoder)} gave rows of {few} and of {many} numbers; give all one length")
        return np.concatenate(made)[np.argsort(order)] if made else np.empty((0, 0), dtype=np.float32)


class _Progress:
    """One line on stderr per task, with its time and what had to be encoded; the result goes to the file."""

    def __init__(self, store: EmbeddingCache, file: ResultFile | None) -> None:
        self._store, self._file, self._started, self._encoded = store, file, 0.0, 0

    def __call__(self, name: str, result: TaskResult | None) -> None:
        if result is None:
            self._started, self._encoded = time.perf_counter(), self._store.encoded
            if sys.stderr.isatty():
                print(f"evenli: {name} …", end="\r", file=sys.stderr, flush=True)
            return
        seconds = time.perf_counter() - self._started
        new = self._store.encoded - self._encoded
        shared.warn(f"{name} {result.score:.2f} ({seconds:.1f} s, {new:,} texts encoded)")
        if self._file is None:
            return
        from evenli.errors import RunError

        try:
            self._file.add(result)
        except RunError as error:  # the tasks to come are worth having all the same
            shared.warn(str(error))
