"""Golden files: what the command line answered before a refactoring, it answers after it.

Numbers are compared to 1e-6. Prose is not compared, only the decimals in it. After a key is renamed, add the new name
to OLD_NAMES. A number that moves on purpose needs a "Numbers change" line in the changelog and
``python tools/make_goldens.py NAME``.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from golden_cases import CASES, NEEDS_DATA, Bench

GOLDENS = Path(__file__).parent / "goldens"
TOLERANCE = 1e-6

OLD_NAMES: dict[str, str] = {"published": "standing", "ideal": "even", "dev2020": "dev"}
"""New name of a key -> its name in the golden files."""
OLD_VALUES: dict[str, str] = {"dev2020": "dev"}
"""New spelling of a string that is compared as it stands -> its spelling in the golden files."""
ONCE_FLAT = {"effect"}
"""Estimates whose value has this key in the golden files, with the interval beside it."""

# Paths, versions, times and fingerprints of code or of floats.
DROPPED = {"folder", "file", "files", "version", "timings", "fingerprint", "identity", "path", "created"}
DROPPED |= {
    "manifest_sha256",
    "made_with",
    "run",
    "evenli",
    "scorer",
    "eraser.sha256",
    "charts",
    "format",
    "schema",
    "checks.name",
}
# Dropped where the value is text; the same name may hold numbers elsewhere.
DESCRIPTIONS = {"title", "formula", "direction", "reference", "source", "kind", "vectors", "encoder", "reading"}
PROSE = {"text", "sentence", "detail", "reason", "note", "notes", "problem", "conclusion", "not_measured"}
PROSE |= {"after_covers", "driving_words", "warnings"}
_DECIMAL = re.compile(r"(?<![\d.])[-+]?\d+\.\d+(?!\d|\.\d)")


def normalise(payload: Any, parent: str = "") -> Any:
    """The payload under the old names, without what may change, with the decimals of prose instead of prose.

    A payload that was normalised stays as it is, so that golden files go through it too.
    """
    if isinstance(payload, dict):
        result = {}
        for name, value in payload.items():
            key = OLD_NAMES.get(name, name)
            if key in ONCE_FLAT and isinstance(value, dict):
                result |= normalise({key: value["value"], **{part: value[part] for part in value if part != "value"}})
                continue
            if {key, f"{parent}.{key}"} & DROPPED or (key in DESCRIPTIONS and isinstance(value, str)):
                continue
            result[key] = decimals(value) if key in PROSE else normalise(value, key)
        return result
    if isinstance(payload, list):
        return [normalise(value, parent) for value in payload]
    if isinstance(payload, str):
        return OLD_VALUES.get(payload, payload)
    return payload


def decimals(value: Any) -> Any:
    """The numbers with a decimal point in a text or a list of texts; numbers stay."""
    if isinstance(value, list):
        return [number for part in value for number in (decimals(part) if isinstance(part, str) else [part])]
    return [float(number) for number in _DECIMAL.findall(str(value).replace("\u2212", "-"))] if value else []


def differences(golden: Any, found: Any, path: str = "") -> list[str]:
    """``path: golden, found`` for each entry that differs; keys that only the new payload has are no difference."""
    if isinstance(golden, dict) and isinstance(found, dict):
        missing = [f"{path}/{key}: {short(golden[key])}, missing now" for key in golden if key not in found]
        both = [key for key in golden if key in found]
        return missing + [line for key in both for line in differences(golden[key], found[key], f"{path}/{key}")]
    if isinstance(golden, list) and isinstance(found, list):
        length = [] if len(golden) == len(found) else [f"{path}: {len(golden)} entries, now {len(found)}"]
        pairs = enumerate(zip(golden, found, strict=False))
        return length + [line for n, (old, new) in pairs for line in differences(old, new, f"{path}[{n}]")]
    return [] if same(golden, found) else [f"{path}: {short(golden)}, now {short(found)}"]


def same(golden: Any, found: Any) -> bool:
    if isinstance(golden, bool) or isinstance(found, bool) or not isinstance(golden, int | float):
        return type(golden) is type(found) and golden == found
    # Results are rounded to six decimals: one step of the last one is allowed, and the error of its subtraction.
    return isinstance(found, int | float) and math.isclose(golden, found, rel_tol=1e-9, abs_tol=TOLERANCE + 1e-12)


def short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 100 else f"{text[:97]}..."


def read_golden(name: str) -> Any:
    file = GOLDENS / f"{name}.json"
    if file.is_file():
        return json.loads(file.read_text(encoding="utf-8"))
    return json.loads(gzip.decompress((GOLDENS / f"{name}.json.gz").read_bytes()))


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("goldens"))


@pytest.mark.parametrize("name", CASES)
def test_golden(name: str, bench: Bench, request: pytest.FixtureRequest) -> None:
    if name in NEEDS_DATA:
        bench.data = request.getfixturevalue("shared_data")
    found = differences(normalise(read_golden(name)), normalise(json.loads(json.dumps(CASES[name](bench)))))
    rest = f"\n… and {len(found) - 10} more" if len(found) > 10 else ""
    assert not found, f"{name} differs from its golden file:\n" + "\n".join(found[:10]) + rest


def test_every_golden_file_has_a_case() -> None:
    assert {file.name.split(".json")[0] for file in GOLDENS.iterdir()} == set(CASES)


def test_differences_are_seen() -> None:
    golden = {"a": [1.0, {"b": 2.5}], "c": "x", "d": True, "e": None}
    assert differences(golden, {**golden, "new": 1}) == []
    assert differences(golden, {**golden, "a": [1.0 + 9e-7, {"b": 2.5}]}) == []
    found = differences(golden, {"a": [1.00001, {"b": 2.6}, 3], "c": "y", "d": 1})
    assert [line.split(":")[0] for line in found] == ["/e", "/a", "/a[0]", "/a[1]/b", "/c", "/d"]
    assert decimals("30.0% of 12, from \u22120.5 to 1.25. In 2024, evenli 0.1.0.") == [30.0, -0.5, 1.25]
    prose = {"note": "about 0.5", "title": "x", "value": 1}
    assert normalise(normalise(prose)) == normalise(prose) == {"note": [0.5], "value": 1}
