"""Write the golden files again: all of them, or those whose names are given.

    EVENLI_SHARED_DATA=… python tools/make_goldens.py [NAME …]

Only after a number was changed on purpose. Without the public data the files that need it are left as they are.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

from golden_cases import CASES, NEEDS_DATA, Bench  # noqa: E402
from test_goldens import GOLDENS, normalise  # noqa: E402

LARGE = 40_000
"""Bytes from which on a file is compressed."""


def main(names: list[str]) -> None:
    """Run the cases and write what they give."""
    unknown = sorted(set(names) - CASES.keys())
    if unknown:
        raise SystemExit(f"no such case: {', '.join(unknown)}; choose from {', '.join(CASES)}")
    shared = os.environ.get("EVENLI_SHARED_DATA")
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), Path(shared) if shared else None)
        for name in names or CASES:
            if name in NEEDS_DATA and bench.data is None:
                print(f"{name}: skipped, EVENLI_SHARED_DATA is not set")
                continue
            payload = normalise(json.loads(json.dumps(CASES[name](bench))))
            text = json.dumps(payload, ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
            content = f"{text}\n".encode()
            for old in GOLDENS.glob(f"{name}.json*"):
                old.unlink()
            if len(content) < LARGE:
                (GOLDENS / f"{name}.json").write_bytes(content)
            else:
                # Without a time stamp the same content gives the same file.
                (GOLDENS / f"{name}.json.gz").write_bytes(gzip.compress(content, mtime=0))
            print(f"{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
