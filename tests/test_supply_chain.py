"""What is installed is named and hashed, and the same sources make the same wheel."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
requirements = pytest.importorskip("packaging.requirements")


def needed(extra: str = "") -> list[object]:
    found = map(requirements.Requirement, metadata.distribution("evenli").requires or ())
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]


def test_the_lock_pins_and_hashes_what_an_audit_needs() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()[1:]
    pinned = {}
    for line in lines:
        match = re.fullmatch(r"([a-z0-9][a-z0-9.-]*)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)", line)
        assert match, line
        pinned[match[1]] = match[2]
    assert len(pinned) == len(lines) and "torch" not in pinned
    for one in [*needed(), *needed("report")]:
        assert one.specifier.contains(pinned[one.name.lower()], prereleases=True), one  # type: ignore[attr-defined]


def bill(*arguments: str) -> dict[str, object]:
    command = [sys.executable, str(ROOT / "tools" / "make_sbom.py"), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_the_bill_of_materials_is_whole_and_the_same_every_time() -> None:
    base = bill()
    names = {part["name"]: part["version"] for part in base["components"]}
    assert {one.name.lower() for one in needed()} <= set(names)  # type: ignore[attr-defined]
    assert names["numpy"] == metadata.version("numpy") and "evenli" not in names
    references = {part["bom-ref"] for part in base["components"]} | {base["metadata"]["component"]["bom-ref"]}
    assert {edge["ref"] for edge in base["dependencies"]} == references
    assert {one for edge in base["dependencies"] for one in edge["dependsOn"]} <= references
    assert bill() == base
    if shutil.which("altair") or "altair" in {d.metadata["Name"] for d in metadata.distributions()}:
        assert len(bill("--extra", "report")["components"]) > len(names)


def test_the_same_sources_make_the_same_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    wheels = []
    for number, place in enumerate(("one", "two/deeper")):
        sources = tmp_path / place
        sources.mkdir(parents=True)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, sources)
        # The models make up nearly all of the wheel; they are files like the others.
        shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("*.onnx", "__pycache__"))
        for file in sources.rglob("*"):
            os.utime(file, (10**9 * number + 1, 10**9 * number + 1))
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / f"out-{number}")]
        epoch = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(command, cwd=sources, env=epoch, capture_output=True, check=True)
        (wheel,) = (tmp_path / f"out-{number}").iterdir()
        wheels.append(wheel.read_bytes())
    assert wheels[0] == wheels[1]
