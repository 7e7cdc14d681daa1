"""Write the locks: what ``make audit`` and ``make test`` install, with versions and SHA-256 of the files for here.

    make lock        or: python tools/make_lock.py

requirements.lock is part of requirements-dev.lock. Both are for one Python and one platform, which their first line
names; tools/install.py reads them. Write them anew after a change of the dependencies in pyproject.toml.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from install import EXTRAS, LOCKS, ROOT, here

BUILDERS = ("hatchling", "editables")
"""What builds evenli itself: nothing is fetched without a hash."""


def main() -> None:
    """Resolve with pip and write both."""
    pinned = dict.fromkeys([ROOT / "constraints.txt"])
    with tempfile.TemporaryDirectory() as folder:
        versions = Path(folder) / "versions.txt"
        for what in ("dev", "base"):  # the smaller set in the versions of the larger
            lines = resolve(what, list(pinned), Path(folder) / "report.json")
            versions.write_text("\n".join(line.split()[0] for line in lines) + "\n", encoding="utf-8")
            pinned[versions] = None
            head = f"# Written by tools/make_lock.py for {here()}; elsewhere write it anew (make lock).\n"
            (ROOT / LOCKS[what]).write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
            print(f"{LOCKS[what]}: {len(lines)} packages for {here()}")


def resolve(what: str, constraints: list[Path], report: Path) -> list[str]:
    """Names, versions and hashes that pip chooses; wheels only, since what builds a source package has no hash."""
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
    command += ["--only-binary", ":all:", *(word for file in constraints for word in ("--constraint", str(file)))]
    subprocess.run([*command, "--report", str(report), f"{ROOT}[{EXTRAS[what]}]", *BUILDERS], check=True)
    lines = []
    for entry in json.loads(report.read_text(encoding="utf-8"))["install"]:
        about, archive = entry["metadata"], entry["download_info"].get("archive_info")
        if archive is not None:  # evenli itself is a directory
            name = about["name"].lower().replace("_", "-")
            lines.append(f"{name}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}")
    return sorted(lines)


if __name__ == "__main__":
    main()
