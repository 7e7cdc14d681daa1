"""Put the answers of embedded models into tests/data, so that tests of the verdict need not run them.

    evenli audit --lang en -o runs/en && evenli audit --data en_v1.1.tar.xz -o runs/official
    python tools/store_answers.py en=runs/en en-official=runs/official

One letter a pair (e, n or c), in the order of the sets; names that are not given stay as they are.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import numpy as np

import evenli
from evenli.core.labels import LABELS

FILE = Path(__file__).parents[1] / "tests" / "data" / "embedded_answers.json.gz"


def main(specs: list[str]) -> None:
    """Read the runs and write the file."""
    stored = json.loads(gzip.decompress(FILE.read_bytes())) if FILE.is_file() else {}
    for spec in specs:
        name, _, folder = spec.partition("=")
        stored[name] = answers(folder)
        print(name, {key: len(value) for key, value in stored[name].items() if key != "sha256"})
    # Without a time stamp the same content gives the same file.
    FILE.write_bytes(gzip.compress(json.dumps(stored).encode(), mtime=0))


def answers(folder: str) -> dict[str, str]:
    """Letters of a run, by set, and the hash of its pairs."""
    run = evenli.load_run(folder).predictions
    card = next(card for card in run.header["data"] if card["suite"] == "coal")
    letters = np.array([label[0] for label in LABELS])[run.logits.argmax(axis=1)]
    rows = {key: (run.frame["subset"] == key).to_numpy() for key in ("gold", "control")}
    rows["coal"] = (run.frame["suite"] == "coal").to_numpy()
    return {"sha256": card["sha256"], **{key: "".join(letters[kept]) for key, kept in rows.items()}}


if __name__ == "__main__":
    main(sys.argv[1:])
