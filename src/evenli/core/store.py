"""The output directory: manifest, lock, atomic files, shards and the check that a directory is ours.

Audits, scored corpora, fairer corpora, sweeps, training runs and mitigated encoders all write through ``RunDir``. A
directory is ours if its manifest says so; files that we did not write are never replaced.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evenli._version import __version__
from evenli.core.errors import InputError, RunError, RunLockedError, system_failure, translated
from evenli.core.io import Content, hash_text, json_text, read_json, write_content, write_failure
from evenli.core.parse import check_regular, parse_json_object, path_of
from evenli.core.temporary import is_temporary, leftovers, process_mark

LOCK = ".lock"
_HASH = "manifest_sha256"
ANEW = "run what wrote it again, into another directory or over this one (--overwrite)"
"""Advice for a damaged file, whoever reads it: the command that stumbles over it is seldom the one that wrote it."""
UNREADABLE = (OSError, InputError, ValueError, KeyError, TypeError, OverflowError)  # what a broken manifest raises


class RunDir:
    """A directory that holds one result."""

    def __init__(
        self,
        path: str | Path,  # it need not exist yet
        *,
        kind: str,  # what it holds, as messages say it: "audit", "scored corpus"; stored in the manifest
        manifest: str,  # its name; it is a JSON object with ``schema`` and ``evenli``
        owned: Sequence[str] = (),  # patterns of names that may stand beside manifest, lock and temporary files
        schema: int = 1,  # version of the manifest
        option: str = "directory (--out)",  # what the directory is called in advice, with the option that names it
    ) -> None:
        self.path = path_of(path, f"the directory of a {kind}")
        self.kind, self.schema, self.option = kind, schema, option
        self.manifest_file = self.path / manifest
        self._owned = tuple(owned)
        self._held = False

    def check(self) -> None:
        """Refuse a directory that is not empty and not ours, before anything in it is touched."""
        if self.path.exists() and not self.path.is_dir():
            raise RunError(f"{self.path} is a file, not a directory; choose another {self.option}")
        if self.path.is_dir() and not self.is_ours() and (foreign := self.foreign_files()):
            more = ", …" if len(foreign) > 1 else ""
            raise RunError(
                f"output directory {self.path} is not empty and holds no {self.kind} of evenli ({foreign[0]}{more}); "
                f"choose another {self.option}"
            )

    def is_ours(self) -> bool:
        """Whether the manifest is one of this kind. A damaged one does not count: the files beside it decide then."""
        try:
            return self.describes(read_json(self.manifest_file))
        except UNREADABLE:
            return False

    def describes(self, stored: Mapping[str, Any]) -> bool:
        """Whether a manifest is one of this kind, of any version."""
        return bool(int(stored["schema"])) and stored.get("kind", self.kind) == self.kind

    def foreign_files(self) -> list[str]:
        """Names in the directory that we do not write there."""
        with system_failure(f"cannot read {self.path}: ", f"; choose another {self.option}"):
            names = sorted(entry.name for entry in self.path.iterdir() if not is_temporary(entry))
        # By name alone: a damaged manifest must not make our own files foreign.
        ours = (LOCK, self.manifest_file.name, *self._owned)
        return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in ours)]

    def exists(self) -> bool:
        """Whether there is a manifest."""
        return self.manifest_file.is_file()

    def read_manifest(self, required: Sequence[str] = ()) -> dict[str, Any] | None:
        """The manifest, None where there is none; a damaged one or one of another version is refused."""
        if not self.exists():
            return None
        return read_manifest(self.manifest_file, kind=self.kind, schema=self.schema, required=required)

    def write_manifest(self, content: Mapping[str, Any]) -> None:
        """Replace the manifest; schema, version and kind are added."""
        self.write_json(self.manifest_file.name, with_hash({**stamp(self.kind, self.schema), **content}))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the directory; a second process is refused, a killed one leaves nothing locked. May be nested.

        A directory that is not ours is refused before it is touched. A new one that stays empty is removed again.
        """
        # Held by this object already: an audit locks its folder and predicts in it, which locks it again.
        if self._held:
            yield
            return
        from filelock import FileLock, Timeout

        self.check()
        is_new = not self.path.exists()
        with self.writing():
            self.path.mkdir(parents=True, exist_ok=True)
        with system_failure(f"cannot lock {self.path}: "):
            try:
                lock = FileLock(self.path / LOCK, timeout=0).acquire()  # a killed process releases it, too
            except Timeout:
                text = f"another process is working in {self.path}; wait for it or choose another {self.option}"
                raise RunLockedError(text) from None
        with lock:
            self._held = True
            try:
                yield
            except BaseException:
                with contextlib.suppress(OSError):
                    if is_new and all(entry.name == LOCK for entry in self.path.iterdir()):
                        (self.path / LOCK).unlink(missing_ok=True)
                        self.path.rmdir()
                raise
            finally:
                self._held = False

    def write(self, name: str, content: Content, *, sync: bool = True) -> Path:
        """Write one file of the directory atomically: text, bytes, or a function that fills the path it is given."""
        with self.writing():
            write_content(self.path / name, content, sync=sync)
        return self.path / name

    def write_json(self, name: str, content: Any) -> Path:
        """Write one strict JSON file atomically."""
        return self.write(name, json_text(content))

    def clear(self, names: Sequence[str] = ()) -> None:
        """Delete what we own, or only these names or patterns; the manifest goes last, so that it can be repeated."""
        if not self.path.is_dir():
            return
        patterns = tuple(names) or self._owned
        with self.writing():
            for entry in sorted(self.path.iterdir()):
                if is_temporary(entry) or any(fnmatch.fnmatchcase(entry.name, pattern) for pattern in patterns):
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            if not names:
                self.manifest_file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Turn a failure to write into one line; a full disk is named as such."""

        def reason(error: BaseException) -> str | None:
            text = write_failure(error)
            if text == "no space left":
                raise RunError(
                    f"no space left in {self.path}; what is finished is kept, free some space and run the same "
                    "command again"
                ) from error
            return text

        advice = f"; choose another {self.option}"
        with translated(f"cannot write to {self.path}: ", advice, into=RunError, reason=reason):
            yield


def check_writable(path: Path) -> None:
    """Refuse a file that cannot be written: asked before hours of work, not after them."""
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder; give a file name")
    check_regular(path)
    with system_failure(f"cannot write {path}: "):
        # Rights alone do not tell (a full disk, a read-only mount), so a file is made and gone at once.
        above = next(parent for parent in path.absolute().parents if parent.exists())
        with tempfile.TemporaryFile(dir=above):
            pass


def stamp(kind: str, schema: int = 1) -> dict[str, int | str]:
    """What every JSON file of ours begins with: version of its layout, version of evenli, and what it holds."""
    return {"schema": schema, "evenli": __version__, "kind": kind}


def is_stamped(content: Mapping[str, Any], kind: str, *, schema: int = 1) -> bool:
    """Whether a file holds what is expected, in version ``schema`` of its layout."""
    return (content.get("kind"), content.get("schema")) == (kind, schema)


def hash_content(name: str, content: bytes) -> str:
    """What ``io.hash_files`` gives for one file of this name and content."""
    return hashlib.sha256(name.encode() + b"\x00" + content).hexdigest()


def with_hash(content: Mapping[str, Any]) -> dict[str, Any]:
    """A manifest with the hash of everything else in it: damage and careless edits are noticed."""
    plain = {key: value for key, value in content.items() if key != _HASH}
    return {**plain, _HASH: hash_text(json.dumps(plain, sort_keys=True))}


def read_manifest(
    file: Path,
    *,
    kind: str,
    schema: int = 1,
    hashed: bool = True,
    required: Sequence[str] = (),
    content: bytes | None = None,
) -> dict[str, Any]:
    """Read a manifest: a JSON object with ``schema``; one that is damaged, foreign or of another version is refused.

    The directory should hold a ``kind``, and the manifest its own hash if it is ``hashed``, and the keys ``required``.
    ``content`` are the bytes of the file where they are at hand.
    """
    with translated(f"{file} is damaged (", f"); {ANEW}", into=RunError, kinds=UNREADABLE):
        stored = read_json(file) if content is None else parse_json_object(content, str(file))
        version = int(stored["schema"])
        missing = [key for key in required if key not in stored]
    if stored.get("kind", kind) != kind:
        raise RunError(f"{file.parent} holds a {stored['kind']}, not a {kind}; choose another directory")
    if version != schema:
        advice = "upgrade evenli or choose another directory" if version > schema else ANEW
        raise RunError(
            f"{file} was made by evenli {stored.get('evenli', '?')} (schema {version}); this is evenli "
            f"{__version__} (schema {schema}); {advice}"
        )
    # Cutting the hash out is an edit as well.
    if hashed and stored.get(_HASH) != with_hash(stored)[_HASH]:
        raise RunError(f"{file} was damaged or edited: checksum mismatch; {ANEW}")
    if missing:
        raise RunError(f"{file} lacks {', '.join(missing)}; {ANEW}")
    return dict(stored)


@contextlib.contextmanager
def replacing(run: RunDir, *, overwrite: bool) -> Iterator[Path]:
    """A new directory beside the one of ``run`` that takes its place when all is written; a failure leaves no trace.

    A directory that is not ours is refused, and without ``overwrite`` one that holds a finished result.
    """
    out = run.path
    _recover(out)
    run.check()
    # The old directory goes as a whole, so a file of the user beside our own must stop it.
    foreign = run.foreign_files() if out.is_dir() else []
    if foreign:
        raise RunError(
            f"output directory {out} is not empty and holds other files, too ({', '.join(foreign[:3])}); "
            f"choose another {run.option}"
        )
    if run.exists() and not overwrite:
        raise RunError(f"{out} holds a {run.kind}; choose another {run.option} or overwrite it (--overwrite)")
    # Two renames, because a directory that is not empty cannot be replaced in one; ``_recover`` mends a kill between.
    with run.writing(), _beside(out, "old") as old, _beside(out, "tmp") as temporary:
        temporary.mkdir(parents=True)
        yield temporary
        if out.exists():
            out.rename(old)
        try:
            temporary.rename(out)
        except OSError:
            if old.exists():
                old.rename(out)
            raise


@contextlib.contextmanager
def scratch(run: RunDir) -> Iterator[Path]:
    """A directory beside that of ``run``, which is removed at the end; what a killed process left goes, too."""
    out = run.path.resolve()
    run.check()
    _recover(out)
    with run.writing(), _beside(out, "tmp") as temporary:
        temporary.mkdir(parents=True)
        yield temporary


@contextlib.contextmanager
def _beside(out: Path, ending: str) -> Iterator[Path]:
    """The name of a directory of this process beside another, which is removed at the end if it was made."""
    folder = out.with_name(f".{out.name}.{process_mark()}.{ending}")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _recover(out: Path) -> None:
    """Remove what a killed ``replacing`` left, and put back the old directory if it stopped between the two renames."""
    if not out.parent.is_dir():
        return
    with contextlib.suppress(OSError):  # a directory that cannot be listed or changed is refused later, with a reason
        for old in leftovers(out.parent, f".{out.name}.", ".old"):
            if not out.exists():
                old.rename(out)
        for ending in (".old", ".tmp"):
            for left in leftovers(out.parent, f".{out.name}.", ending):
                shutil.rmtree(left, ignore_errors=True)
