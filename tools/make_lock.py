"""Write requirements.lock: what ``make audit`` installs, with versions and the SHA-256 of the files for this platform.

    python tools/make_lock.py

``make audit LOCKED=1`` installs from it with ``--require-hashes``. torch is not in it: ``make audit`` needs none, and
which build of it is right depends on the machine.
"""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WANTED = (f"{ROOT}[report]", "hatchling", "editables")
"""What ``make audit`` installs, and what builds it: nothing is fetched without a hash."""


def main() -> None:
    """Resolve with pip and write."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run([*command, "--report", str(report), *WANTED], check=True)
        entries = json.loads(report.read_text(encoding="utf-8"))["install"]
    lines = []
    for entry in entries:
        about, archive = entry["metadata"], entry["download_info"].get("archive_info")
        if archive is not None:  # evenli itself is a directory
            name = about["name"].lower().replace("_", "-")
            lines.append(f"{name}=={about['version']} --hash=sha256:{archive['hashes']['sha256']}\n")
    where = f"Python {platform.python_version_tuple()[0]}.{platform.python_version_tuple()[1]}"
    where += f" on {platform.system()} {platform.machine()}"
    head = f"# Written by tools/make_lock.py for {where}; elsewhere write it anew.\n"
    (ROOT / "requirements.lock").write_text(head + "".join(sorted(lines)), encoding="utf-8")
    print(f"requirements.lock: {len(lines)} packages for {where}")


if __name__ == "__main__":
    main()
