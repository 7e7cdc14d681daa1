"""Write a bill of materials (CycloneDX 1.6, JSON) of evenli and everything that is installed for it.

    python tools/make_sbom.py                       the base
    python tools/make_sbom.py --extra hf --extra report -o sbom.json

It is read from the metadata of installed packages, so it says what is there and not what was wished for. The same
installation gives the same file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


def main() -> None:
    """Parse, collect, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--extra", action="append", default=[], help="Also what this extra needs; may be repeated.")
    parser.add_argument("-o", "--out", type=Path, help="File to write; default: stdout.")
    options = parser.parse_args()
    text = json.dumps(bill("evenli", options.extra), indent=2, ensure_ascii=False) + "\n"
    if options.out is None:
        sys.stdout.write(text)
    else:
        options.out.write_text(text, encoding="utf-8")


def bill(root: str, extras: list[str]) -> dict[str, Any]:
    """The bill of one package."""
    needs = installed(root, extras)
    components = {name: _component(name) for name in sorted(needs)}
    main = components.pop(root)
    graph = [{"ref": _purl(name), "dependsOn": [_purl(one) for one in sorted(needs[name])]} for name in sorted(needs)]
    serial = hashlib.sha256(json.dumps([main, components, graph], sort_keys=True).encode()).hexdigest()
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        # A UUID by name (RFC 9562, version 8): the same content has the same number.
        "serialNumber": f"urn:uuid:{serial[:8]}-{serial[8:12]}-8{serial[13:16]}-8{serial[17:20]}-{serial[20:32]}",
        "version": 1,
        "metadata": {"component": {**main, "type": "application"}},
        "components": list(components.values()),
        "dependencies": graph,
    }


def installed(root: str, extras: list[str]) -> dict[str, set[str]]:
    """Every installed package that ``root`` needs, itself included, and what each needs."""
    needs: dict[str, set[str]] = {}
    waiting = [(root, frozenset(extras))]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, wanted = entry = waiting.pop()
        if entry in seen:
            continue
        seen.add(entry)
        direct = needs.setdefault(name, set())
        for requirement in map(Requirement, metadata.distribution(name).requires or ()):
            marker, needed = requirement.marker, canonical(requirement.name)
            if marker is not None and not any(marker.evaluate({"extra": extra}) for extra in (wanted or {""}) | {""}):
                continue
            if _is_installed(needed):
                if needed != name:
                    direct.add(needed)
                waiting.append((needed, frozenset(requirement.extras)))
    return needs


def _is_installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def canonical(name: str) -> str:
    """The name as the package index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _purl(name: str) -> str:
    return f"pkg:pypi/{name}@{metadata.version(name)}"


def _component(name: str) -> dict[str, Any]:
    about = metadata.distribution(name).metadata
    component: dict[str, Any] = {"type": "library", "bom-ref": _purl(name), "name": name, "version": about["Version"]}
    if about.get("Summary"):
        component["description"] = about["Summary"]
    if expression := about.get("License-Expression"):
        component["licenses"] = [{"expression": expression}]
    elif named := [one.rpartition(" :: ")[2] for one in about.get_all("Classifier", []) if "License ::" in one]:
        component["licenses"] = [{"license": {"name": one}} for one in named]
    return {**component, "purl": _purl(name)}


if __name__ == "__main__":
    main()
