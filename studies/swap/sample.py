"""Draw and read the blind sample on which the gender swap is measured (``studies/swap/quality.py`` scores it).

The sample is 600 sentences and 300 pairs of captions, MNLI genres, news and dialogue. Two thirds of the sentences and
three quarters of the pairs have a word of a wide lexicon (published lists of gendered words, and first names), the rest
are drawn from all. The texts may not be passed on, so ``swap_blind.jsonl`` has only where each one stands,
its hash and the labels.
"""

from __future__ import annotations

import csv
import hashlib
import json
import lzma
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

LABELS = Path(__file__).with_name("swap_blind.jsonl")
WORD = re.compile(r"\w+")
SEED = 20


class Source(NamedTuple):
    """Where texts of a genre stand and how many are drawn."""

    genre: str
    part: str
    sentences: int
    pairs: int


SOURCES = (
    Source("caption", "flickr8k", 80, 0),
    Source("caption", "flickr30k", 80, 0),
    Source("caption", "snli", 0, 100),
    *(Source("mnli", genre, 35, 25) for genre in ("fiction", "government", "slate", "travel")),
    Source("news", "msr", 80, 40),
    Source("news", "headlines", 80, 0),
    Source("dialogue", "telephone", 80, 60),
    Source("dialogue", "forum", 60, 0),
)


def lines(data: Path, name: str) -> list[str]:
    """The lines of a packed text file."""
    return lzma.open(data / name, "rt", encoding="utf-8-sig").read().splitlines()


def cells(data: Path, name: str) -> list[list[str]]:
    """The rows of a packed tab-separated file, without its header."""
    return list(csv.reader(lines(data, name)[1:], delimiter="\t", quoting=csv.QUOTE_NONE))


def texts(data: Path, part: str) -> Iterator[tuple[str, tuple[str, ...], str]]:
    """Every row of a part: its id, one or two texts, and the label of a pair."""
    if part == "flickr8k":
        for number, line in enumerate(lines(data, "captions_en/flickr8kenc.caption.txt.xz")):
            yield f"{part}:{number}", (line.split(" ", 1)[1],), ""
    elif part == "flickr30k":
        for number, row in enumerate(cells(data, "captions_en/flickr30k_multi30k_test_2016.tsv.xz")):
            yield f"{part}:{number}", (row[2],), ""
    elif part == "snli":
        for number, line in enumerate(lines(data, "snli/snli_1.0_test.jsonl.xz")):
            row = json.loads(line)
            if row["gold_label"] != "-":
                yield f"{part}:{number}", (row["sentence1"], row["sentence2"]), row["gold_label"]
    elif part == "msr":
        for number, row in enumerate(cells(data, "senteval/msr-para-test.tsv.xz")):
            yield f"{part}:{number}", (row[3], row[4]), "entailment" if row[0] == "1" else "neutral"
    elif part in {"headlines", "forum"}:
        wanted = "headlines.test" if part == "headlines" else "deft-forum.test"
        for number, row in enumerate(cells(data, "senteval/STS14.tsv.xz")):
            if row[0] == wanted:
                yield f"{part}:{number}", (row[2],), ""
    else:
        for number, row in enumerate(cells(data, "mnli/mnli_train_nyu20k.tsv.xz")):
            if row[3] == part:
                yield f"{part}:{number}", (row[0], row[1]), row[2]


def lexicon(data: Path, names: Path) -> tuple[set[str], set[str]]:
    """Lower-case words of published gender lists, and first names with a capital."""
    lists = data / "bias_lists"
    words = set(json.loads((lists / "debiaswe" / "gender_specific_full.json").read_text()))
    for name in ("gn_glove/female_word_file.txt", "gn_glove/male_word_file.txt"):
        words |= set((lists / name).read_text().split())
    for name in ("extra_gendered_words.txt", "generalized_swaps.txt"):
        words |= set((lists / "corefBias" / name).read_text().lower().split())
    rows = csv.DictReader(names.open())
    return {word.lower() for word in words}, {name for row in rows for name in (row["male"], row["female"])}


def digest(parts: tuple[str, ...]) -> str:
    """A short hash of the texts, to find out whether they are the ones that were labelled."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def draw(data: Path, names: Path, seed: int = SEED) -> list[dict[str, Any]]:
    """The sample: dictionaries with id, genre, kind, texts, label and hash."""
    words, first_names = lexicon(data, names)
    rng = random.Random(seed)
    sample: list[dict[str, Any]] = []

    def has_candidate(parts: tuple[str, ...]) -> bool:
        tokens = {word for part in parts for word in WORD.findall(part)}
        return bool(tokens & first_names) or any(token.lower() in words for token in tokens)

    def take(source: Source, kind: str, count: int, share: float) -> None:
        pool, seen = [], set()
        for identity, parts, label in texts(data, source.part):
            chosen = parts if kind == "pair" else (parts[rng.randrange(len(parts))],)
            if chosen not in seen:
                seen.add(chosen)
                pool.append((identity, chosen, label))
        rng.shuffle(pool)
        marked = [row for row in pool if has_candidate(row[1])][: round(count * share)]
        kept = {row[0] for row in marked}
        rest = [row for row in pool if row[0] not in kept][: count - len(marked)]
        for identity, parts, label in sorted(marked + rest):
            base = {"id": identity, "genre": source.genre, "kind": kind, "texts": list(parts), "label": label}
            sample.append({**base, "sha256": digest(parts)})

    for source in SOURCES:
        if source.sentences:
            take(source, "sentence", source.sentences, 2 / 3)
        if source.pairs:
            take(source, "pair", source.pairs, 3 / 4)
    return sample
