"""One interface for all formats: an export is a function from audits to the names and texts of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from evenli.audit.audit import Audit, load_run
from evenli.core.errors import InputError
from evenli.core.io import write_together
from evenli.core.registry import EXPORTS

Export = Callable[[Sequence[Audit]], Mapping[str, str]]
"""An entry of the registry ``exports``: paths in a folder and what is in the files; the first audit is the newest.

One that needs one audit, or exactly two, refuses others with an ``InputError``.
"""


def export(runs: Sequence[str | Path], kind: str, out: str | Path | None = None) -> dict[str, str]:
    """Write audits in the format of another tool.

    Args:
        runs: Run folders.
        kind: A name of the registry: ``cyclonedx``, ``every-eval-ever``, …
        out: A folder for the files, or the name of the file where there is one; None writes nothing.

    Returns:
        The texts by the names of the files.
    """
    files = dict(EXPORTS.get(kind)([load_run(run) for run in runs]))
    if out is not None:
        path = Path(out)
        if path.suffix and len(files) > 1:
            raise InputError(f"{kind} writes {len(files)} files ({', '.join(files)}); give a folder instead of {out}")
        named = {(path if path.suffix else path / name): text.encode() for name, text in files.items()}
        for file in named:
            file.parent.mkdir(parents=True, exist_ok=True)
        write_together(named)
    return files


def single(runs: Sequence[Audit], kind: str) -> Audit:
    """The audit of a format that describes one."""
    if len(runs) != 1:
        raise InputError(f"{kind} describes one run, not {len(runs)}")
    return runs[0]
