"""``evenli export``, ``evidence`` and ``verify``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output
from evenli.core.errors import InputError
from evenli.core.extras import check_extra
from evenli.core.registry import EXPORTS, Command


def export(
    runs: Annotated[list[Path], argument("Run folders of audits, the newest first.")],
    kind: Annotated[str, option("Format.", "--as", choices=tuple(EXPORTS.builtin), closed=False)],
    out: Annotated[Path | None, output("A file, or a folder for several; default: stdout.")] = None,
    as_json: shared.Json = False,
) -> None:
    """Write audits in the format of another tool.

    An unknown format lists the known ones.
    """
    from evenli.exports.files import export as write

    files = write(runs, kind, out)
    if out is not None:
        folder = out if not out.suffix else out.parent
        names = [str(out)] if out.suffix else [str(folder / name) for name in files]
        terminal.answer(as_json, {"files": names}, *names)
    elif len(files) > 1:
        raise InputError(f"{kind} writes {len(files)} files ({', '.join(files)}); name a folder (-o)")
    else:
        terminal.show(next(iter(files.values())))


def evidence(
    runs: Annotated[list[Path], argument("Run folders of audits.")],
    out: Annotated[Path, output("Folder to write; the same as a zip goes beside it.")] = Path("evidence"),
    sign: Annotated[
        Path | None,
        option("Sign with this SSH key, as 'ssh-keygen -Y sign' does; the namespace is evenli.", metavar="KEYFILE"),
    ] = None,
    policy: Annotated[
        str, option("Policy of the gate, or a TOML file of your own.", choices=("standard",), closed=False)
    ] = "standard",
    overwrite: Annotated[bool, option("Replace an older pack.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Write what an auditor needs into one folder, and sign it.

    Report, runs, cards, gate decision, software, limits, and where each is asked for.
    """
    check_extra("report", "the report of an evidence pack")
    from evenli.exports.evidence import evidence as write

    written = write(runs, out, sign, policy, overwrite=overwrite)
    content = {"folder": str(written.folder), "zip": str(written.archive), "files": list(written.files)}
    size = written.archive.stat().st_size / 1e6
    lines = [f"{written.folder}/: {len(written.files)} files", f"{written.archive}: {size:.2f} MB"]
    lines.append("signed" if written.signed else "not signed; sign with --sign KEYFILE")
    terminal.answer(as_json, {**content, "signed": written.signed}, *lines)


def verify(
    path: Annotated[Path, argument("Run folder of an audit, or an evidence pack: its folder or its zip.")],
    signer: Annotated[
        Path | None,
        option("File of allowed signers, as 'ssh-keygen -Y verify' reads it; for a pack.", metavar="ALLOWED_SIGNERS"),
    ] = None,
    as_json: shared.Json = False,
) -> None:
    """Check a run or an evidence pack: hashes, signature, numbers.

    Every number is scored again from the table; of a pack, the gate also decides again.
    """
    from evenli.exports.verify import verify as check

    checked = check(path, signer)
    terminal.answer(as_json, checked.to_dict(), *checked.lines())


COMMANDS = (
    *(Command(run, "Compare and decide") for run in (export, evidence)),
    Command(verify, "Audit a model"),
)
