"""Swapped pairs that a reader judged: is the gold label still right, and which words are wrong or were left out?

    python -m studies.swap.judged draw DATA MORE --lang en            # prints the pairs, each change in brackets
    python -m studies.swap.judged store DATA MORE --lang en --read verdicts.txt --by "who" --on 2026-11-16

Only pairs with a swapped copy are drawn, from corpora and rows that the rules were not written on. MORE is a directory
with ``mnli/dev.jsonl``, ``rte/test.jsonl``, ``scitail/test.jsonl`` and ``anli/test.jsonl`` (fields premise, hypothesis,
label), as the repository anthonywchen/generative-nli has them under ``data``. A verdict is a line "number, code,
words": code ``label`` for a label that is no longer right, ``wrong`` for words that should not have changed or became
a wrong word, ``missed`` for words that should have changed. Pairs without a line are right in everything.

The texts may not be passed on: ``studies/swap/swap_judged_LANG_SEED.jsonl`` holds ids, hashes of pair and copy,
and the verdicts. ``studies/swap/quality.py`` scores them; a copy that the rules of today make otherwise is not scored.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from evenli.words.swap.swapper import Change, Lang, Swapper
from studies.swap.sample import LABELS, cells, digest, lines

FOLDER = LABELS.parent
SEED = 21


class Source(NamedTuple):
    """A corpus, its genre and how many pairs are drawn from it."""

    part: str
    genre: str
    pairs: int


SOURCES: dict[str, tuple[Source, ...]] = {
    "en": (
        Source("mnli_dev", "mnli", 150),
        Source("snli_test", "caption", 60),
        Source("snli_dev", "caption", 40),
        Source("sick_test", "caption", 30),
        Source("rte", "news", 60),
        Source("scitail", "science", 10),
        Source("anli", "encyclopedia", 50),
    ),
    "ja": (Source("jnli", "caption", 75), Source("jsick", "caption", 75)),
    "zh": (Source("xnli_zh", "mnli", 75), Source("ocnli", "mixed", 75)),
}


def _jsonl(rows: Sequence[str], one: str, two: str, label: str) -> Iterator[tuple[str, str, str]]:
    for line in rows:
        row = json.loads(line)
        yield row[one], row[two], str(row[label])


def _rows(data: Path, more: Path, part: str) -> Iterator[tuple[str, str, str]]:
    """Premise, hypothesis and label of every row of a corpus."""
    if part == "snli_test":
        return _jsonl(lines(data, "snli/snli_1.0_test.jsonl.xz"), "sentence1", "sentence2", "gold_label")
    if part == "snli_dev":
        return _jsonl(lines(data, "snli/snli_1.0_dev.jsonl.xz"), "premise", "hypothesis", "label")
    if part == "sick_test":
        return ((row[1], row[2], row[4].lower()) for row in cells(data, "senteval/SICK_test_annotated.txt.xz"))
    if part == "jnli":
        both = lines(data, "ja_jglue/jnli_valid.jsonl.xz") + lines(data, "ja_jglue/jnli_test.jsonl.xz")
        return _jsonl(both, "sentence1", "sentence2", "label")
    if part == "jsick":
        return ((row[8], row[9], row[10]) for row in cells(data, "ja_jsick/test.tsv.xz"))
    if part == "xnli_zh":
        both = lines(data, "zh_xnli/dev.tsv.xz")[1:] + lines(data, "zh_xnli/test.tsv.xz")[1:]
        return ((row[0], row[1], row[2]) for row in csv.reader(both, delimiter="\t", quoting=csv.QUOTE_NONE))
    if part == "ocnli":
        return _jsonl(lines(data, "zh_ocnli/dev.jsonl.xz"), "sentence1", "sentence2", "label")
    name = {"mnli_dev": "mnli/dev"}.get(part, f"{part}/test")
    text = (more / f"{name}.jsonl").read_text(encoding="utf-8")
    return _jsonl(text.splitlines(), "premise", "hypothesis", "label")


def pairs(data: Path, more: Path, part: str) -> Iterator[tuple[str, tuple[str, str], str]]:
    """Id, texts and label of every labelled pair of a corpus."""
    for number, (one, two, label) in enumerate(_rows(data, more, part)):
        if label not in {"-", "None"}:
            yield f"{part}:{number}", (one, two), label


def judged(lang: Lang) -> list[Path]:
    """The files of verdicts, in the order of drawing: a later one was drawn after the rules were mended by it."""
    return sorted(FOLDER.glob(f"swap_judged_{lang}*.jsonl"))


def count_changes(changes: Sequence[Sequence[Change]]) -> int:
    """How many words of a pair change; an apostrophe that goes with one is none."""
    return sum(bool(change.word.strip("'’ ")) for one in changes for change in one)


def draw(data: Path, more: Path, lang: Lang, seed: int = SEED) -> list[dict[str, Any]]:
    """Pairs that today's rules change, none of which was in an earlier sample."""
    rng, swapper = random.Random(seed), Swapper(lang=lang)
    earlier = chain.from_iterable(path.read_text(encoding="utf-8").splitlines()[1:] for path in [LABELS, *judged(lang)])
    known = {json.loads(line)["sha256"] for line in earlier}
    sample = []
    for source in SOURCES[lang]:
        pool = sorted({(texts, label, identity) for identity, texts, label in pairs(data, more, source.part)})
        rng.shuffle(pool)
        taken = 0
        for texts, label, identity in pool:
            done = swapper.swap_document(texts)
            if taken == source.pairs:
                break
            if done.changed and digest(texts) not in known:
                taken += 1
                row: dict[str, Any] = {"id": identity, "genre": source.genre, "label": label, "sha256": digest(texts)}
                row |= {"copy": digest(done.texts), "changed": count_changes(done.changes)}
                sample.append({**row, "texts": texts, "changes": done.changes})
    return sample


def marked(text: str, changes: Sequence[Change]) -> str:
    """The text with every change in brackets: "A [man>woman] reads"."""
    shown, place = [], 0
    for change in sorted(changes):
        shown += [text[place : change.start], f"[{change.word}>{change.replacement}]"]
        place = change.start + len(change.word)
    return "".join([*shown, text[place:]])


def verdicts(lines_read: Sequence[str]) -> dict[int, dict[str, Any]]:
    """What the reader wrote, by number of the pair."""
    by_number: dict[int, dict[str, Any]] = {}
    for line in filter(str.strip, lines_read):
        number, code, *words = (cell.strip() for cell in line.split(","))
        one = by_number.setdefault(int(number), {"kept": True, "wrong": [], "missed": []})
        if code == "label":
            one["kept"] = False
        else:
            one[code] += words
    return by_number


def read(data: Path, more: Path, path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Who judged and when, and the judged pairs with their texts."""
    header, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    for part in {row["id"].split(":")[0] for row in rows}:
        texts = {identity: both for identity, both, _ in pairs(data, more, part)}
        for row in rows:
            if row["id"].startswith(f"{part}:"):
                row["texts"] = texts[row["id"]]
                if digest(row["texts"]) != row["sha256"]:
                    raise SystemExit(f"{row['id']}: the text is not the one that was judged")
    return header, rows


def score(rows: Sequence[dict[str, Any]], lang: Lang, today: bool = True) -> dict[str, Counter[str]]:
    """Counts by genre: copies, labels kept, changed words and right ones, words that had to change and missed ones.

    With ``today`` only the copies count that the rules of today make as well; else all that were judged.
    """
    swapper, counts = Swapper(lang=lang), dict[str, Counter[str]]()
    for row in rows:
        done = swapper.swap_document(row["texts"])
        right = row["changed"] - len(row["wrong"])
        for genre in (row["genre"], "all"):
            count = counts.setdefault(genre, Counter())
            if today and not done.changed:
                count["without copy"] += 1
            elif today and digest(done.texts) != row["copy"]:
                count["not judged"] += 1
            else:
                count.update(copies=1, kept=int(row["kept"]), changes=row["changed"], right=right)
                count.update(words=right + len(row["missed"]), missed=len(row["missed"]))
    return counts


def main() -> None:
    """Print a sample for the reader, or store what the reader said."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("draw", "store"))
    parser.add_argument("data", type=Path)
    parser.add_argument("more", type=Path)
    parser.add_argument("--lang", default="en", choices=tuple(SOURCES))
    parser.add_argument("--read", type=Path)
    parser.add_argument("--by", default="")
    parser.add_argument("--on", default="")
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    lang = cast(Lang, arguments.lang)
    sample = draw(arguments.data, arguments.more, lang, arguments.seed)
    if arguments.action == "draw":
        for number, row in enumerate(sample):
            shown = "  ||  ".join(marked(*both) for both in zip(row["texts"], row["changes"], strict=True))
            print(f"{number} {row['label']}: {shown}")
        return
    judged = verdicts(arguments.read.read_text(encoding="utf-8").splitlines())
    header = {"judged_by": arguments.by, "judged_on": arguments.on, "lang": lang, "seed": arguments.seed}
    right = {"kept": True, "wrong": [], "missed": []}
    kept = [
        {key: row[key] for key in ("id", "genre", "label", "sha256", "copy", "changed")} | judged.get(number, right)
        for number, row in enumerate(sample)
    ]
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in [header, *kept])
    (FOLDER / f"swap_judged_{lang}_{arguments.seed}.jsonl").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
