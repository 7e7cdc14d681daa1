"""Parquet, NumPy and safetensors files, read under limits and with one kind of error; tables for spreadsheets."""

from __future__ import annotations

import contextlib
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from evenli.core.errors import EvenliError, InputError, reason_of, translated
from evenli.core.extras import need
from evenli.core.parse import FORMULA, NUMBER, check_ratio, check_regular, escape_cell

if TYPE_CHECKING:
    import numpy as np
    import polars as pl
    from numpy.typing import NDArray

_ROWS_FREE = 1_000_000
_ROWS_PER_BYTE = 50
"""A table of more rows than this is not a table of texts or scores; a run of equal values packs without limit."""


@contextlib.contextmanager
def decoding(path: Path | str) -> Iterator[None]:
    """Turn whatever a damaged file makes a library do into one line; what is no regular file is not opened."""
    if isinstance(path, Path):
        check_regular(path)

    def reason(error: BaseException) -> str:
        hint = "; store text as text (dtype str), not as objects" if "allow_pickle" in str(error) else ""
        return reason_of(error) + hint

    with translated(f"cannot read {path}: ", reason=reason, missing=f"no such file: {path}"):
        yield


def read_parquet(file: Path, columns: Sequence[str] | None = None, content: bytes | None = None) -> pl.DataFrame:
    """A Parquet table, all columns or those named; ``content`` are the bytes of the file where they are at hand."""
    polars = need("polars", extra="all", purpose="reading Parquet")
    with decoding(file):
        size = file.stat().st_size if content is None else len(content)
        source = file if content is None else BytesIO(content)
        # A folder may be called [1] or a*: its name is no pattern, and must not stand for another folder.
        _count_rows(polars.scan_parquet(source, glob=False), file, size)
        wanted = None if columns is None else list(columns)
        frame: pl.DataFrame = polars.read_parquet(source, columns=wanted, glob=False)
        return frame


def iter_parquet(file: Path, name: str | None = None, at_once: int = 20_000) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a Parquet table with their numbers from 1, so many read at once: it may be larger than the memory.

    ``name`` is what messages call the file, if it is a copy of another.
    """
    polars = need("polars", extra="all", purpose="reading Parquet")
    name = name or str(file)
    check_regular(file)
    with decoding(name):
        table = polars.scan_parquet(file, glob=False)
        total = _count_rows(table, name, file.stat().st_size)
    for start in range(0, total, at_once):
        with decoding(name):
            part: pl.DataFrame = table.slice(start, at_once).collect()
        yield from enumerate(part.iter_rows(named=True), start + 1)


_USED: set[int] = set()
"""Processes that have used polars: this one, and those that it was forked from."""


def check_fork() -> None:
    """Refuse a fork of a process that has used polars, whose threads a fork does not have and would wait for."""
    _USED.add(os.getpid())
    if len(_USED) > 1:
        raise EvenliError(
            "this process is a fork of one that has used evenli, and would hang; start it fresh "
            "(multiprocessing.get_context('spawn'))"
        )


def _count_rows(table: pl.LazyFrame, file: Path | str, size: int) -> int:
    """How many rows a table of so many bytes has; more than it can hold of texts or scores are refused."""
    import polars as pl

    check_fork()
    rows = int(table.select(pl.len()).collect().item())
    if rows > max(_ROWS_FREE, _ROWS_PER_BYTE * size):
        raise InputError(f"{file} holds {rows:,} rows in {size:,} bytes, above the limit; refusing to read it")
    return rows


def read_array(file: Path, *, mapped: bool = False) -> NDArray[Any]:
    """The array of an ``.npy`` file; nothing is unpickled."""
    import numpy as np

    with decoding(file):
        array: NDArray[Any] = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
        return array


def read_arrays(file: Path, *names: str) -> dict[str, NDArray[np.generic]]:
    """The arrays of an ``.npz`` file, all or those named; nothing is unpickled."""
    import numpy as np

    with decoding(file):
        # Judged by the directory of the archive, before anything is unpacked.
        with zipfile.ZipFile(file) as archive:
            check_ratio(file, sum(member.file_size for member in archive.infolist()), file.stat().st_size)
        with np.load(file, allow_pickle=False) as stored:
            missing = [name for name in names if name not in stored.files]
            if missing:
                listed = ", ".join(stored.files) or "nothing"
                raise InputError(f"{file} needs the arrays {' and '.join(names)}; it holds {listed}")
            return {name: stored[name] for name in names or stored.files}


def read_tensors(file: Path, framework: str = "pt") -> tuple[dict[str, Any], dict[str, str]]:
    """Tensors and metadata of a safetensors file; ``framework`` is ``pt`` or ``numpy``."""
    safetensors = need("safetensors", extra="hf", purpose="reading safetensors")
    with decoding(file), safetensors.safe_open(file, framework=framework) as stored:
        tensors = {name: stored.get_tensor(name) for name in stored.keys()}  # noqa: SIM118 - not a dict
        return tensors, dict(stored.metadata() or {})


def tensor_names(file: Path) -> list[str]:
    """Names of the tensors of a safetensors file; none is read."""
    safetensors = need("safetensors", extra="hf", purpose="reading safetensors")
    with decoding(file), safetensors.safe_open(file, framework="numpy") as stored:
        return list(stored.keys())


def write_csv(frame: pl.DataFrame, target: Path | IO[bytes], *, header: bool = True) -> None:
    """Write a table as CSV; texts that a spreadsheet would compute are escaped as ``escape_cell`` does."""
    import polars as pl

    text = pl.col(pl.String)
    risky = text.str.contains(FORMULA) & ~text.str.contains(NUMBER)
    frame = frame.with_columns(pl.when(risky).then("'" + text).otherwise(text).name.keep())
    # polars quotes a cell for a line feed, but not for a carriage return.
    returns = frame.select(pl.any_horizontal(pl.lit(False), text.str.contains("\r").any())).item()
    named = frame.rename({name: escape_cell(name) for name in frame.columns})
    named.write_csv(target, include_header=header, quote_style="non_numeric" if returns else "necessary")


def zstd_blocks(stream: IO[bytes], name: str) -> Iterator[bytes]:
    """What a Zstandard file holds, frame by frame.

    The library's own reader takes a file that was cut for a shorter one; this one says so, as those of .gz and .xz do.
    """
    library = need("zstandard", extra="scale", purpose=f"reading {name}")
    frame, begun = library.ZstdDecompressor().decompressobj(), False  # some of a frame was read and its end was not
    # Of a kilobyte at most 32 MB come, so that who reads can stop a bomb in time.
    while packed := stream.read(1024):
        while packed:
            try:
                content = frame.decompress(packed)
            except library.ZstdError as error:
                raise OSError(str(error)) from error
            packed, begun = frame.unused_data, not frame.eof
            if frame.eof:
                frame = library.ZstdDecompressor().decompressobj()
            if content:
                yield content
    if begun:
        raise EOFError("the file ends before its last frame does")


def table_rows(table: Any) -> Iterable[Any]:
    """Rows of a table as dictionaries; libraries are recognised by their methods, so that none must be installed."""
    import polars as pl

    if hasattr(table, "collect") and hasattr(table, "collect_schema"):  # polars.LazyFrame
        table = table.collect()
    if hasattr(table, "to_batches"):  # pyarrow
        table = pl.from_arrow(table)
    if hasattr(table, "to_dicts"):  # polars
        return table.iter_rows(named=True)  # type: ignore[no-any-return]
    if hasattr(table, "iloc"):  # pandas
        return table.to_dict("records")  # type: ignore[no-any-return]
    # datasets stores labels as numbers and their names beside them; -1 is a pair without a majority.
    features = getattr(table, "features", None) or {}
    named = {column: feature.names for column, feature in features.items() if hasattr(feature, "names")}

    def by_name(row: Mapping[str, Any]) -> dict[str, Any]:
        labels = {
            column: names[row[column]] if row[column] is not None and row[column] >= 0 else None
            for column, names in named.items()
        }
        return {**row, **labels}

    try:
        return (by_name(row) for row in table) if named else iter(table)
    except TypeError as error:
        raise InputError(f"a {type(table).__name__} is no table of pairs; give a path or a data frame") from error
