"""Install evenli from this clone: by hash where a lock is for this Python and platform, else by versions, said aloud.

    python tools/install.py base          what `make audit` needs, by requirements.lock
    python tools/install.py dev           what `make test` needs, by requirements-dev.lock
    python tools/install.py dev --lock 1  hashes or nothing; 0 never looks at a lock; default: auto

With ``auto`` a lock that is for another platform, or whose files the index does not have, is left aside with one line
on stderr. A file that is there with another hash stops the installation. torch is the exception: which build of it an
index has depends on the machine, so another one is said and installed by its version.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCKS = {"base": "requirements.lock", "dev": "requirements-dev.lock"}
EXTRAS = {"base": "report", "dev": "dev"}
_MISMATCH = "DO NOT MATCH THE HASHES"
_PIP = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")


class CannotInstallError(Exception):
    """Says what to do."""


def here() -> str:
    """What a lock is for; the C library counts, since pip chooses wheels by it."""
    libc = " ".join(platform.libc_ver()).strip() or "no libc"
    return f"Python {sys.version_info[0]}.{sys.version_info[1]} on {platform.system()} {platform.machine()}, {libc}"


def main() -> int:
    """Install; 0 if that worked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=list(LOCKS))
    parser.add_argument("--lock", choices=["auto", "1", "0"], default="auto")
    parser.add_argument("--file", type=Path, default=None, help="Another lock than the shipped one.")
    options = parser.parse_args()
    lock = options.file or ROOT / LOCKS[options.what]
    try:
        problem = "no lock is wanted" if options.lock == "0" else by_hash(options.what, lock, options.lock == "1")
        if problem:
            _say(f"hashes are not checked: {problem}; versions by constraints.txt")
            by_version(options.what)
    except CannotInstallError as error:
        _say(str(error))
        return 2
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


def by_hash(what: str, lock: Path, strict: bool) -> str:
    """Install what a lock names, then evenli; returns why the lock cannot be used here, or nothing."""
    problem = _usable(lock)
    if not problem:
        _, *lines = lock.read_text(encoding="utf-8").splitlines()
        torch = [line for line in lines if line.startswith("torch==")]
        _torch(torch, strict)
        problem = _hashed([line for line in lines if line not in torch], strict)
    problem = problem or _evenli(what, lock)
    if problem and strict:
        raise CannotInstallError(f"LOCKED=1 and {problem}")
    return problem


def by_version(what: str) -> None:
    """Install by the bounds of pyproject.toml and constraints.txt."""
    constrained = (*_PIP, "--constraint", str(ROOT / "constraints.txt"))
    if what == "dev":  # alone and first, so that nothing else decides which build is installed
        subprocess.run([*constrained, "torch"], check=True)
    subprocess.run([*constrained, *_sources(what)], cwd=ROOT, check=True)


def _sources(what: str) -> list[str]:
    models = ROOT / "packages" / "evenli-models-nc"
    return ["--editable", f"{ROOT}[{EXTRAS[what]}]", "--editable", str(models)]


def _usable(lock: Path) -> str:
    if not lock.is_file():
        return f"there is no {lock.name}"
    head = lock.read_text(encoding="utf-8").partition("\n")[0]
    if f" for {here()};" not in head:
        return f"{lock.name} is not for {here()} (`make lock` writes one that is)"
    return ""


def _torch(lines: list[str], strict: bool) -> None:
    """The build of the lock; where the index has none or another one, that one."""
    if not lines or not _hashed(lines, strict, "--no-deps", lenient=True):
        return
    _say(f"torch is not the file of the lock ({lines[0].split()[0]}): its hash is not checked")
    subprocess.run([*_PIP, "--constraint", str(ROOT / "constraints.txt"), "torch"], check=True)


def _hashed(lines: list[str], strict: bool, *options: str, lenient: bool = False) -> str:
    """Install pinned files; a hash that differs is an error, a file that is not there is the answer."""
    if not lines:
        return ""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pinned.txt"
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        # Wheels only: what builds a source package would be fetched without a hash.
        command = [*_PIP, "--require-hashes", "--only-binary", ":all:", *options, "--requirement", str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    if strict or (_MISMATCH in done.stderr and not lenient):
        said = done.stderr.strip()
        raise CannotInstallError(f"{said}\nnothing of this step was installed; LOCKED=0 checks no hashes")
    errors = [line.removeprefix("ERROR: ") for line in done.stderr.splitlines() if line.startswith("ERROR: ")]
    return f"the index does not serve the files of the lock ({errors[-1] if errors else done.stderr[-300:]})"


def _evenli(what: str, lock: Path) -> str:
    """Evenli itself; nothing may be fetched for it, so what a lock lacks is found here."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    command = [*_PIP, "--no-index", "--no-build-isolation", *_sources(what)]
    nowhere = {**environment, "PIP_CONFIG_FILE": os.devnull}
    done = subprocess.run(command, cwd=ROOT, env=nowhere, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    missing = [line.partition("found for ")[2] for line in done.stderr.splitlines() if "No matching" in line]
    if not missing:
        raise CannotInstallError(done.stderr.strip())
    return f"{lock.name} lacks {', '.join(missing)} (`make lock` writes it anew)"


def _say(line: str) -> None:
    print(f"install: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
