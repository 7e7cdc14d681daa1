"""Pairs of the distillation: the labelled ones, new ones made of them, and those that every model is asked.

New pairs are sentences of the training pairs only, put together otherwise or changed in a few words: whatever they
mean, the teacher answers them.
"""

from __future__ import annotations

import argparse
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from studies.leaderboard.grid import FILES, HELD_OUT, TESTS, labelled, write

OF_MNLI = {"words_h": 8, "words_p": 3, "words": 3, "drop": 2, "part": 2, "swap": 1, "not": 1, "other": 1}
OF_SNLI = {"words_h": 1, "swap": 0.4, "not": 0.3, "sibling": 1.2}
"""Made pairs for each labelled one, by kind. MNLI has more: there are few of its pairs, and many genres."""
_WORD = re.compile(r"[A-Za-z]+")
_AUXILIARY = re.compile(r"\b(is|are|was|were|can|could|will|would|should|does|do|did|has|have|had)\b( not)?")


def prepare(arguments: argparse.Namespace) -> None:
    """Write the labelled pairs, the pairs made of them, and the pairs that every model is asked."""
    folder, data = arguments.folder, arguments.data
    folder.mkdir(parents=True, exist_ok=True)
    corpora = {name: labelled(data / FILES[name])[: arguments.limit] for name in ("snli", "mnli")}
    asked = [{"suite": "dev_snli", **row} for row in labelled(data / "snli/snli_1.0_dev.jsonl.xz")]
    asked += [{"suite": "test_mnli", **row} for row in corpora["mnli"][::HELD_OUT]]
    asked += [{"suite": test, **row} for test, file in TESTS["en"].items() for row in labelled(data / file)]
    corpora["mnli"] = [row for number, row in enumerate(corpora["mnli"]) if number % HELD_OUT]
    neighbours = similar_words(arguments.vectors)
    gold = {(row["premise"], row["hypothesis"]) for rows in corpora.values() for row in rows}
    kept = {(row["premise"], row["hypothesis"]) for row in asked}
    new: dict[tuple[str, str], str] = {}
    for name, shares in (("snli", OF_SNLI), ("mnli", OF_MNLI)):
        for kind, premise, hypothesis in make_pairs(corpora[name], shares, neighbours):
            pair = premise.strip(), hypothesis.strip()
            if all(pair) and pair not in gold and pair not in kept:
                new.setdefault(pair, f"{name}_{kind}")
    train = [{**row, "label": row["gold"], "kind": name} for name, rows in corpora.items() for row in rows]
    write(folder / "train.jsonl.xz", train)
    write(folder / "made.jsonl.xz", ({"premise": p, "hypothesis": h, "kind": kind} for (p, h), kind in new.items()))
    write(folder / "asked.jsonl.xz", asked)
    known = {row["premise"] for row in corpora["mnli"]}
    shared = sum(row["premise"] in known for row in asked if row["suite"] == "test_mnli")
    kinds = list(new.values())
    print({kind: kinds.count(kind) for kind in sorted(set(kinds))})
    print(f"{len(train):,} labelled, {len(new):,} made, {len(asked):,} asked")
    print(f"{shared:,} of the held-out pairs share their premise with a training pair")


def similar_words(file: Path) -> dict[str, list[str]]:
    """The eight nearest words of every word with a vector."""
    from evenli.encoders.vectors import load_vectors

    vectors = load_vectors(file)
    words = [word for word in vectors.words if _WORD.fullmatch(word)]
    matrix = vectors.unit(vectors.rows(words)).astype(np.float32)
    neighbours = {}
    for start in range(0, len(words), 2_000):
        near = matrix[start : start + 2_000] @ matrix.T
        best = np.argpartition(-near, 9, axis=1)[:, :9]
        for word, row in zip(words[start : start + 2_000], best, strict=True):
            neighbours[word] = [words[at] for at in row if words[at] != word][:8]
    return neighbours


def make_pairs(
    rows: list[dict[str, Any]], shares: dict[str, float], neighbours: dict[str, list[str]]
) -> Iterator[tuple[str, str, str]]:
    """Kind, premise and hypothesis of new pairs."""
    draw = random.Random(0)
    siblings: dict[str, list[str]] = {}
    for row in rows:
        siblings.setdefault(row["premise"], []).append(row["hypothesis"])

    def changed(text: str) -> str:
        return replace_words(text, neighbours, draw)

    makers: dict[str, Callable[[str, str], tuple[str, str]]] = {
        "words_h": lambda p, h: (p, changed(h)),
        "words_p": lambda p, h: (changed(p), h),
        "words": lambda p, h: (changed(p), changed(h)),
        "drop": lambda p, h: (p, drop_words(h, draw)),
        "part": lambda p, h: (a_part(p, draw), h),
        "swap": lambda p, h: (h, p),
        "not": lambda p, h: (p, negated(h)),
        "other": lambda p, _: (p, draw.choice(rows)["hypothesis"]),
        "sibling": lambda p, h: (h, draw.choice(siblings[p])),
    }
    for row in rows:
        for kind, share in shares.items():
            times = int(share) + (draw.random() < share % 1)
            for _ in range(times):
                premise, hypothesis = makers[kind](row["premise"], row["hypothesis"])
                if premise != hypothesis:
                    yield kind, premise, hypothesis


def replace_words(text: str, neighbours: dict[str, list[str]], draw: random.Random) -> str:
    """A sixth of the words, at least one where there is one, replaced by similar ones."""
    words = [match for match in _WORD.finditer(text) if match[0].lower() in neighbours]
    if not words:
        return text
    chosen = draw.sample(words, max(1, round(len(words) / 6)))
    for match in sorted(chosen, key=lambda one: -one.start()):
        new = draw.choice(neighbours[match[0].lower()])
        new = new.capitalize() if match[0][0].isupper() else new
        text = text[: match.start()] + new + text[match.end() :]
    return text


def drop_words(text: str, draw: random.Random) -> str:
    """Without a sixth of the words."""
    words = text.split()
    gone = set(draw.sample(range(len(words)), max(1, round(len(words) / 6)))) if len(words) > 2 else set()
    return " ".join(word for at, word in enumerate(words) if at not in gone)


def a_part(text: str, draw: random.Random) -> str:
    """One of the parts between marks, or half of the words."""
    parts = [part for part in re.split(r"[.,;:!?]", text) if len(part.split()) > 3]
    if len(parts) > 1:
        return draw.choice(parts).strip()
    words = text.split()
    return " ".join(words[: len(words) // 2 + 1] if draw.random() < 0.5 else words[len(words) // 2 :])


def negated(text: str) -> str:
    """The first auxiliary with a *not*, or without the one it has; a short form (*isn't*) stays as it is."""
    return _AUXILIARY.sub(lambda match: match[1] if match[2] else f"{match[1]} not", text, count=1)
