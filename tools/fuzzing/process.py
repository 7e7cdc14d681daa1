"""Commands in processes that end badly: killed at a chosen write, with a full disk, in a read-only folder.

Every command runs in a fork of this process, which has imported the libraries and used none: a fork costs milliseconds
where a new interpreter costs seconds.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenli.core.startup import own_streams

_WRITES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
_NEW_USER, _NEW_MOUNTS, _BIND, _REMOUNT_READ_ONLY = 0x10000000, 0x00020000, 4096, 4096 | 32 | 1
LIMIT = 300
"""Seconds after which a command counts as hanging."""


@dataclass(frozen=True)
class Ending:
    """How a command is disturbed.

    Attributes:
        kill_at: Kill it before this write, counted from 1; writes are opened, renamed and removed files of its folder.
        after: Kill it after so many seconds, wherever it is.
        largest: Bytes that a file may grow to, as on a full disk.
        read_only: Folder that cannot be written.
    """

    kill_at: int | None = None
    after: float | None = None
    largest: int | None = None
    read_only: Path | None = None


@dataclass(frozen=True)
class Done:
    """Exit code (negative: the signal), output, and how many writes there were."""

    code: int
    stdout: str
    stderr: str
    writes: int
    seconds: float


def preload() -> None:
    """Import what takes long; no thread may be running when we fork, so polars, which starts some, is left out."""
    sys.dont_write_bytecode = False  # a child would compile everything anew
    os.environ |= {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401
    import transformers  # noqa: F401

    import evenli.cli  # noqa: F401

    if len(os.listdir("/proc/self/task")) > 1:  # noqa: PTH208
        raise RuntimeError("a library has started a thread; a fork might wait for it forever")


class Child:
    """A command that runs in a fork."""

    def __init__(
        self, words: tuple[str, ...], folder: Path, ending: Ending | None = None, log: Path | None = None
    ) -> None:
        self._log = log or folder.with_name(f"{folder.name}.log-{os.getpid()}-{time.monotonic_ns()}")
        self._log.mkdir()
        self._began, self._ending = time.monotonic(), ending or Ending()
        self._pid = os.fork()
        if self._pid == 0:
            self._run(words, folder)

    def _run(self, words: tuple[str, ...], folder: Path) -> None:
        code = 70
        try:
            os.chdir(folder)
            for number, name in enumerate(("stdout", "stderr"), 1):
                os.dup2(os.open(self._log / name, os.O_WRONLY | os.O_CREAT), number)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
            if self._ending.read_only is not None:
                _make_read_only(self._ending.read_only)
                os.chdir(folder)  # where we stand is still the folder below the mount
            if self._ending.largest is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (self._ending.largest,) * 2)
            counter = os.open(self._log / "writes", os.O_WRONLY | os.O_CREAT)
            sys.addaudithook(_Hook(folder, counter, self._ending.kill_at))
            sys.argv = ["evenli", *words]
            own_streams()
            from evenli.cli import main

            main()
            code = 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except OSError:
                    code = code or 71
            os._exit(code)

    def wait(self) -> Done:
        """Wait for its end, or bring it about."""
        deadline = self._began + (LIMIT if self._ending.after is None else self._ending.after)
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline:
                os.kill(self._pid, signal.SIGKILL)
                deadline += LIMIT
            time.sleep(0.002)
        code = os.waitstatus_to_exitcode(status)
        # On a busy machine a process may be killed before it has opened its output.
        files = [self._log / name for name in ("stdout", "stderr")]
        texts = [file.read_text(errors="replace") if file.exists() else "" for file in files]
        counted = self._log / "writes"
        writes = int.from_bytes(counted.read_bytes(), "little") if counted.exists() else 0
        return Done(code, *texts, writes, time.monotonic() - self._began)


def run(words: tuple[str, ...], folder: Path, ending: Ending | None = None, log: Path | None = None) -> Done:
    """Run one command to its end; ``log`` is a new folder for its output, by default one beside ``folder``."""
    return Child(words, folder, ending, log).wait()


class _Hook:
    """Counts writes in a folder, and kills the process before a chosen one."""

    def __init__(self, folder: Path, counter: int, kill_at: int | None) -> None:
        self._folder, self._counter, self._kill_at, self._count = str(folder), counter, kill_at, 0

    def __call__(self, event: str, given: tuple[Any, ...]) -> None:
        if event == "open":
            path, mode, flags = given
            writes = isinstance(path, str | os.PathLike) and (
                any(letter in mode for letter in "wax+")
                if isinstance(mode, str)
                else bool(flags & (os.O_WRONLY | os.O_RDWR))
            )
        else:
            path, writes = (given[0], True) if event in _WRITES else ("", False)
        if not writes or not os.path.abspath(os.fspath(path)).startswith(self._folder):  # noqa: PTH100
            return
        self._count += 1
        if self._count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        os.pwrite(self._counter, self._count.to_bytes(4, "little"), 0)


def _make_read_only(folder: Path) -> None:
    """Mount a folder over itself, read-only, in namespaces of this process: root is not stopped by permissions."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    _check(libc.unshare(_NEW_USER | _NEW_MOUNTS))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    place = str(folder).encode()
    _check(libc.mount(place, place, None, _BIND, None))
    _check(libc.mount(place, place, None, _REMOUNT_READ_ONLY, None))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
