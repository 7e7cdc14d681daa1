"""Evidence that somebody can sign: runs, report, cards, gate decision and software in one folder, and as a zip."""

from __future__ import annotations

import io
import os
import platform
import re
import zipfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from evenli._version import __version__
from evenli.audit.audit import Audit, load_run
from evenli.audit.gate import STANDARD, GateResult, Policy, gate, load_policy
from evenli.audit.report.card import card
from evenli.audit.report.html import render
from evenli.audit.verify import verify_run
from evenli.core.errors import InputError, RunError
from evenli.core.io import STORED_BYTES, json_text, write_atomic
from evenli.core.parse import parse_json_object
from evenli.core.store import RunDir, is_stamped, replacing, stamp, with_hash
from evenli.exports import cyclonedx
from evenli.exports.guide import PARTS, guide
from evenli.exports.signature import sign
from evenli.words import cards

KIND = "evidence pack"
MANIFEST, SIGNATURE = "manifest.json", "manifest.json.sig"
GATE = "gate.json"
RUN_FILES = ("run.json", "results.json", "predictions.parquet")
_TOP = ("README.md", "report.html", "data.json", "sbom.cdx.json", "runs", SIGNATURE)


@dataclass(frozen=True)
class WrittenPack:
    """Where a pack is, and what is in it."""

    folder: Path
    archive: Path
    files: tuple[str, ...]
    signed: bool


def evidence(
    runs: Sequence[str | Path],
    out: str | Path,
    sign_with: str | Path | None = None,
    policy: Policy | str | Path = STANDARD,
    *,
    overwrite: bool = False,
) -> WrittenPack:
    """Write an evidence pack: a folder, and beside it the same as a zip.

    Everything is made from the runs, which are checked first. The same runs give the same files, but for the date in
    the manifest, for which the environment variable SOURCE_DATE_EPOCH is read.

    Args:
        runs: Run folders of audits.
        out: The folder to write.
        sign_with: File of an SSH key, private or public as ``ssh-keygen -Y sign`` takes it; None signs nothing.
        policy: What the gate decides by.
        overwrite: Whether an older pack is replaced.
    """
    rules, out = load_policy(policy), Path(out)
    out = out if out.name not in {"", ".."} else out.resolve()
    folder = RunDir(out, kind=KIND, manifest=MANIFEST, owned=_TOP)
    archive = out.with_name(f"{out.name}.zip")
    if archive.exists() and not (overwrite and _is_pack(archive)):
        raise RunError(f"{archive} is there already; choose another {folder.option}, or replace a pack (--overwrite)")
    for run in runs:
        verify_run(run)
    audits = {name: load_run(run) for name, run in zip(_names(runs), runs, strict=True)}
    decisions = {name: decide(audit, name, rules) for name, audit in audits.items()}
    files = {f"{name}/{file}": (audit.path / file).read_bytes() for name, audit in audits.items() for file in RUN_FILES}
    files |= pages(audits, decisions, rules, signed=sign_with is not None)
    files["report.html"] = render(list(audits.values())).encode("utf-8", "replace")
    files["sbom.cdx.json"] = _software()
    files[MANIFEST] = _manifest(files)
    if sign_with is not None:
        files[SIGNATURE] = sign(files[MANIFEST], Path(sign_with))
    with replacing(folder, overwrite=overwrite) as temporary:
        for name, content in files.items():
            (temporary / name).parent.mkdir(parents=True, exist_ok=True)
            (temporary / name).write_bytes(content)
    write_atomic(archive, _zipped(files))
    return WrittenPack(out, archive, tuple(sorted(files)), sign_with is not None)


def pages(
    audits: Mapping[str, Audit], decisions: Mapping[str, GateResult], policy: Policy, *, signed: bool
) -> dict[str, bytes]:
    """What follows from the runs alone, wherever the same version of evenli writes it."""
    sets = {name: [asked.to_dict() for asked in audit.result.data] for name, audit in audits.items()}
    lists = [{**vars(about), "intact": about.verify()} for about in cards()]
    texts = {"README.md": guide(audits, decisions, signed=signed)}
    texts["data.json"] = json_text({"pair_sets": sets, "word_lists": lists})
    for name, audit in audits.items():
        texts[f"{name}/card.md"] = card(audit, "markdown")
        texts |= {f"{name}/{file}": text for file, text in cyclonedx.ml_bom([audit]).items()}
        decided = {"policy": msgspec.to_builtins(policy), "decision": decisions[name].to_dict()}
        texts[f"{name}/{GATE}"] = json_text(decided)
    return {name: text.encode() for name, text in texts.items()}


def decide(audit: Audit, name: str, policy: Policy) -> GateResult:
    """What the gate says of a run of a pack, under its name there."""
    return msgspec.structs.replace(gate(audit, policy=policy), run=Path(name))


def _names(runs: Sequence[str | Path]) -> list[str]:
    """Folders of the runs in the pack, in order; numbered where there are several: their names may be equal."""
    if not runs:
        raise InputError("an evidence pack needs at least one run")
    plain = [re.sub(r"[^\w.@-]+", "-", Path(run).resolve().name, flags=re.ASCII).lstrip(".") or "run" for run in runs]
    digits = len(str(len(runs)))
    numbered = [f"{number:0{digits}}-{name}" for number, name in enumerate(plain, 1)]
    return [f"runs/{name}" for name in (numbered if len(runs) > 1 else plain)]


def _software() -> bytes:
    """Python, platform and every installed distribution."""
    facts = {"python": platform.python_version(), "platform": platform.platform()}
    about: dict[str, Any] = {"component": {"type": "application", "name": "evenli", "version": __version__}}
    about["properties"] = [{"name": f"evenli:{name}", "value": value} for name, value in facts.items()]
    return json_text(cyclonedx.document(about, cyclonedx.installed())).encode()


def _manifest(files: Mapping[str, bytes]) -> bytes:
    """Every file with its hash and size, when that was, and where a reader of a standard finds what it asks for."""
    listed = {name: {"sha256": sha256(files[name]).hexdigest(), "size": len(files[name])} for name in sorted(files)}
    content = {**stamp(KIND), "created": _now(), "files": listed, "where_to_find": [part._asdict() for part in PARTS]}
    return json_text(with_hash(content)).encode()


def _now() -> str:
    given = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.now(timezone.utc) if given is None else datetime.fromtimestamp(int(given), timezone.utc)
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(f"SOURCE_DATE_EPOCH is '{given}', not a number of seconds") from error
    return moment.isoformat(timespec="seconds")


def _zipped(files: Mapping[str, bytes]) -> bytes:
    """The same files make the same archive: sorted, and with one date that means nothing."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name)
            entry.create_system, entry.external_attr = 3, 0o644 << 16  # as on Unix, wherever it is written
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _is_pack(archive: Path) -> bool:
    """Whether a zip is a pack of ours, of any content."""
    failures = (OSError, zipfile.BadZipFile, KeyError, InputError, RuntimeError)
    with suppress(*failures), zipfile.ZipFile(archive) as opened, opened.open(MANIFEST) as stream:
        return is_stamped(parse_json_object(stream.read(STORED_BYTES), str(archive)), KIND)
    return False
