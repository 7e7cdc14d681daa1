"""Write a bill of materials (CycloneDX 1.6, JSON) of evenli and everything that is installed for it.

    python tools/make_sbom.py                       the base
    python tools/make_sbom.py --extra hf --extra report -o sbom.json

It is read from the metadata of installed packages, so it says what is there and not what was wished for. The same
installation gives the same file.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from evenli.exports.cyclonedx import document, library


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
    components = {name: library(metadata.distribution(name)) for name in sorted(needs)}
    refs = {name: component["bom-ref"] for name, component in components.items()}
    main = components.pop(root)
    graph = [{"ref": refs[name], "dependsOn": [refs[one] for one in sorted(needs[name])]} for name in sorted(needs)]
    about = {"component": {**main, "type": "application"}}
    return document(about, list(components.values()), dependencies=graph)


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


if __name__ == "__main__":
    main()
