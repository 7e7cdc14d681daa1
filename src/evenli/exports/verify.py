"""Check a run or an evidence pack: signature, hashes, and everything that can be computed again."""

from __future__ import annotations

import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

import msgspec

from evenli._version import __version__
from evenli.audit.audit import load_run
from evenli.audit.gate import GateResult, Policy
from evenli.audit.verify import Verified, verify_run
from evenli.core.errors import InputError, RunError, translated
from evenli.core.io import BROKEN, MEMBERS, WHOLE_BYTES, json_text, read_json
from evenli.core.parse import check_ratio, check_regular
from evenli.core.record import Record
from evenli.core.store import read_manifest
from evenli.exports.evidence import GATE, KIND, MANIFEST, SIGNATURE, decide, pages
from evenli.exports.signature import check_signature


class VerifiedPack(Record, frozen=True):
    """A pack that agrees with its manifest, and whose numbers and decisions were made again.

    Attributes:
        pack: The folder or the zip.
        created: When it was made, as its manifest says.
        files: How many files agree with the manifest.
        runs: The runs, each scored again.
        decisions: Whether the gate passes each of them, decided again; None where it cannot decide.
        pages: How many files were written again from the runs and are the same; 0 where another version made the pack.
        signed: Whether there is a signature.
        signer: Who made it, with the key; empty where it was not checked.
    """

    optional: ClassVar[tuple[str, ...]] = ("signer",)

    pack: str
    created: str
    files: int
    runs: list[Verified]
    decisions: dict[str, bool | None]
    pages: int
    signed: bool
    signer: str = ""

    def lines(self) -> list[str]:
        """The same for people."""
        said = {True: "passed", False: "FAILED", None: "undecided"}
        numbers = sum(run.numbers for run in self.runs)
        lines = [f"verified {self.pack}, made {self.created}: {self.files} files; {numbers} numbers scored again"]
        lines += [f"gate, decided again: {said[passed]}: {name}" for name, passed in self.decisions.items()]
        if not self.pages:
            lines.append("another version of evenli made the pack: its pages were not written again")
        if self.signer:
            return [*lines, f"signed by {self.signer}"]
        hint = "; name the allowed signers (--signer)"
        return [*lines, f"the signature was not checked{hint}" if self.signed else "nobody signed this pack"]


def verify(path: str | Path, signers: str | Path | None = None) -> Verified | VerifiedPack:
    """Check a run, or an evidence pack as a folder or a zip.

    Args:
        path: A run folder, or a pack.
        signers: File of allowed signers, as ``ssh-keygen -Y verify`` reads it; the pack must be signed by one of them.

    Raises:
        RunError: Something differs; the first difference is named.
    """
    path = Path(path)
    if not path.is_file() and not (path / MANIFEST).is_file():
        if signers is not None:
            raise InputError(f"{path} is not an evidence pack; only a pack is signed (--signer)")
        return verify_run(path)
    with _opened(path) as folder, _about(folder, str(path)):
        return _verify_pack(folder, str(path), None if signers is None else Path(signers))


def _verify_pack(folder: Path, name: str, signers: Path | None) -> VerifiedPack:
    files = _files(folder)
    if MANIFEST not in files:
        raise RunError(f"{name} is not an evidence pack: {MANIFEST} is missing; make one with 'evenli evidence'")
    text = files.pop(MANIFEST).read_bytes()
    signature = files.pop(SIGNATURE).read_bytes() if SIGNATURE in files else None
    if signers is not None and signature is None:
        raise RunError(f"{name} is not signed: {SIGNATURE} is missing")
    # Before anything else is believed.
    signer = check_signature(text, signature, signers) if signers is not None and signature is not None else ""
    manifest = read_manifest(folder / MANIFEST, kind=KIND, required=("created", "evenli", "files"))
    if json_text(manifest).encode() != text:
        raise RunError(f"{name}: {MANIFEST} was edited; get the pack again from who made it")
    _check_files(files, manifest["files"], name)
    named = sorted(str(PurePosixPath(file).parent) for file in files if PurePosixPath(file).name == "run.json")
    if not named:
        raise RunError(f"{name} holds no run")
    runs = [msgspec.structs.replace(verify_run(folder / run), run=run) for run in named]
    audits = {run: load_run(folder / run) for run in named}
    policies = {run: _policy(folder / run / GATE) for run in named}
    decisions = {run: decide(audit, run, policies[run]) for run, audit in audits.items()}
    for run, decision in decisions.items():
        _check_decision(folder / run / GATE, decision)
    # Another version may say the same in other words.
    same = manifest["evenli"] == __version__
    written = pages(audits, decisions, policies[named[0]], signed=signature is not None) if same else {}
    for file, content in written.items():
        if file not in files or files[file].read_bytes() != content:
            raise RunError(f"{name}: {file} does not say what follows from the runs")
    passed = {run: decision.passed for run, decision in decisions.items()}
    created = str(manifest["created"])
    return VerifiedPack(name, created, len(files), runs, passed, len(written), signature is not None, signer)


def _check_files(files: Mapping[str, Path], listed: Any, name: str) -> None:
    """Refuse a file that is missing, extra or another one."""
    if not isinstance(listed, dict):
        raise RunError(f"{name}: {MANIFEST} lists no files")
    if missing := sorted(listed.keys() - files.keys()):
        raise RunError(f"{name} lacks {missing[0]}, which its manifest lists")
    if extra := sorted(files.keys() - listed.keys()):
        raise RunError(f"{name} holds {extra[0]}, which its manifest does not list")
    for file, path in files.items():
        content = path.read_bytes()
        if listed[file] != {"sha256": sha256(content).hexdigest(), "size": len(content)}:
            raise RunError(f"{name}: {file} is not the file that the manifest lists: it was damaged or edited")


def _policy(file: Path) -> Policy:
    """The policy that a pack was decided by."""
    with _readable(file):
        return msgspec.convert(read_json(file)["policy"], Policy)


def _check_decision(file: Path, decision: GateResult) -> None:
    """Refuse another decision than the one that the policy gives on the run."""
    with _readable(file):
        stored = read_json(file)["decision"]
        told = [(check["name"], check["status"]) for check in stored["checks"]], stored["passed"]
    if ([(check.name, check.status) for check in decision.checks], decision.passed) != told:
        raise RunError(f"{file} holds another decision than its policy gives on this run")


def _readable(file: Path) -> AbstractContextManager[None]:
    kinds = (KeyError, TypeError, ValueError, InputError, msgspec.ValidationError)
    return translated(f"{file} cannot be read (", ")", into=RunError, kinds=kinds)


def _files(folder: Path) -> dict[str, Path]:
    """Every file by its name in the pack; what is neither a file nor a folder is refused."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            raise RunError(f"{path} is a link; a pack has files of its own")
        if not path.is_dir():
            check_regular(path)
            found[path.relative_to(folder).as_posix()] = path
    return found


@contextmanager
def _about(folder: Path, name: str) -> Iterator[None]:
    """Say the name of the pack where a message would say that of the folder a zip was unpacked to."""
    try:
        yield
    except RunError as error:
        raise RunError(str(error).replace(str(folder), name)) from error


@contextmanager
def _opened(path: Path) -> Iterator[Path]:
    """The folder of a pack; a zip is unpacked for as long as it is looked at."""
    if path.is_dir():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="evenli-") as folder:
        kinds = (zipfile.BadZipFile, RuntimeError, NotImplementedError, *BROKEN)
        with translated(f"cannot read {path}: ", into=RunError, kinds=kinds):
            _unpack(path, Path(folder))
        yield Path(folder)


def _unpack(path: Path, folder: Path) -> None:
    """Write the files of a zip, none of them outside of the folder and not more than a limit."""
    check_regular(path)
    with zipfile.ZipFile(path) as archive:
        entries = [entry for entry in archive.infolist() if not entry.is_dir()]
        size = sum(entry.file_size for entry in entries)  # nothing beyond it is read
        check_ratio(path, size, path.stat().st_size)
        if size > WHOLE_BYTES or len(entries) > MEMBERS:
            raise RunError(f"{path} exceeds the limit of {WHOLE_BYTES >> 20} MB or {MEMBERS:,} files when unpacked")
        for entry in entries:
            target = folder / entry.filename
            if not re.fullmatch(r"(?!.*\.\.)[\w@-][\w.@/-]*", entry.filename) or target.exists():
                raise RunError(f"{path} holds '{entry.filename}', which is no name of a file in a pack")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(entry))
