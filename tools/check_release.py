"""Check what ``make release`` built: metadata, and an audit in an environment that has never seen the repository.

    python tools/check_release.py dist

Every wheel and source archive passes ``twine check --strict``. The wheel of evenli is then installed into a fresh
environment of every Python from 3.10 to 3.13 on the path, and audits the embedded model from an empty directory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = ("3.10", "3.11", "3.12", "3.13")


def main() -> int:
    """Check; 0 if all is well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dist", type=Path)
    dist = parser.parse_args().dist.resolve()
    files = sorted([*dist.glob("*.whl"), *dist.glob("*.tar.gz")])
    run([sys.executable, "-m", "twine", "check", "--strict", *map(str, files)])
    wheel = newest(dist, "evenli-*.whl")
    pythons = {version: path for version in VERSIONS if (path := find(version))}
    for version, python in pythons.items():
        smoke(python, wheel)
        print(f"Python {version}: installed and audited")
    missing = [version for version in VERSIONS if version not in pythons]
    if missing:
        print(f"not on this machine, not tried: Python {', '.join(missing)}")
    return 0 if pythons else 1


def find(version: str) -> str | None:
    """A Python of this version on the path that starts; a shim of pyenv may point to none."""
    path = shutil.which(f"python{version}")
    starts = path is not None and subprocess.run([path, "--version"], capture_output=True).returncode == 0
    return path if starts else None


def newest(dist: Path, pattern: str) -> Path:
    """The wheel that was built last; an older one may lie beside it."""
    return max(dist.glob(pattern), key=lambda file: file.stat().st_mtime)


def smoke(python: str, wheel: Path) -> None:
    """Install a wheel into a fresh environment and audit with it, far from the repository."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        # Nothing of the caller's environment leads back to the sources, or to packages that lie elsewhere.
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
        run([python, "-m", "venv", str(place / "venv")], env=clean)
        evenli = str(place / "venv" / "bin" / "evenli")
        run([str(place / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", str(wheel)], env=clean)
        work = place / "work"
        work.mkdir()
        asked = [evenli, "audit", "--limit", "600", "--json", "-o", str(work / "run")]
        results = json.loads(run(asked, cwd=work, env=clean))
        assert results["verdict"]["code"] == "bias", results["verdict"]
        run([evenli, "verify", str(work / "run")], cwd=work, env=clean)


def run(command: list[str], **options: object) -> str:
    """What a command prints; its own words where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(command[:4])} failed:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


if __name__ == "__main__":
    raise SystemExit(main())
