"""The gender swap on real SNLI sentences, beside a plain loop over tokens and the two published ways."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path

from evenli.core.io import read_rows
from evenli.words.swap.swapper import Swapper

SNLI = Path(__file__).parents[1].parent / "shared" / "data" / "snli" / "snli_1.0_train_first100k.jsonl.xz"
WORDS = ("man", "woman", "men", "women", "boy", "girl", "boys", "girls", "he", "she", "him", "his", "guy", "lady")


def plain_loop(swapper: Swapper) -> Callable[[str], str]:
    """What one writes first: look every token up in lower case and rebuild the case; no context, no names."""
    words = {change.word: change.replacement for word in WORDS for change in swapper.swap_document([word]).changes[0]}

    def swap(text: str) -> str:
        out = []
        for token in re.findall(r"\w+|\W+", text):
            other = words.get(token.lower(), token)
            if token.istitle():
                other = other.capitalize()
            elif token.isupper():
                other = other.upper()
            out.append(other)
        return "".join(out)

    return swap


def seconds(job: Callable[[], object]) -> float:
    """The best of three runs."""
    times = []
    for _ in range(3):
        started = time.perf_counter()
        job()
        times.append(time.perf_counter() - started)
    return min(times)


def main() -> None:
    """Print sentences per second, and the ratio to the plain loop of the same run."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else SNLI
    rows = read_rows(path)
    keys = ("sentence1", "sentence2") if "sentence1" in rows[0] else ("premise", "hypothesis")
    texts = [str(row[key]) for row in rows for key in keys]
    swapper = Swapper()
    loop = plain_loop(swapper)
    base = seconds(lambda: [loop(text) for text in texts])
    print(f"{len(texts):,} sentences of {path.name}")
    print(f"plain loop over tokens      {len(texts) / base:>10,.0f} /s   1.0x")
    for mode in ("default", "paper", "released"):
        one = Swapper(mode)
        spent = seconds(lambda one=one: [one(text) for text in texts])  # type: ignore[misc]
        print(f"{mode:<27} {len(texts) / spent:>10,.0f} /s   {base / spent:.1f}x")


if __name__ == "__main__":
    main()
