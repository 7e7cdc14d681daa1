"""How often is the gender swap right? The blind sample by genre, with intervals, and a plain word list beside it.

    python -m studies.swap.quality DATA                 # DATA holds the corpora of the sample (see sample.py)
    python -m studies.swap.quality DATA --judged MORE   # also the judged pairs of three languages (see judged.py)
    python -m studies.swap.quality DATA --compare langfair nlaugmenter=FILE chat=URL#MODEL    # see compare.py
    python -m studies.swap.quality DATA --errors        # list what was judged wrong; do not tune the rules on it

The sample was labelled before the rules were written: every word that must change and what it may become, every first
name, words where both is right, and texts that cannot be swapped. What is counted:

precision     of the changed words, the share that had to change and became a right word
missed        of the words that had to change, the share that did not, or became a wrong word
names         the same for first names, with names=True
labels kept   of the pairs that got a copy, the share in which every word is right in both sentences, or where a
              deviation is the same word in both sentences, treated the same way; everything else counts as broken
whole         of the sentences with a word that must change, the share in which all of them and nothing else changed

Of the judged pairs a reader said whether the label is still right, whatever the words; that is less strict.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

from evenli.stats.intervals import wilson
from evenli.words.swap.names import name_pairs
from evenli.words.swap.swapper import Change, Lang, Swapper
from studies.swap import judged
from studies.swap.compare import Edits, named
from studies.swap.sample import LABELS, WORD, digest, texts

PAIRS = (
    "man woman,men women,boy girl,boys girls,he she,him her,his her,himself herself,mr mrs,sir madam,father mother,"
    "fathers mothers,dad mom,dads moms,son daughter,sons daughters,brother sister,brothers sisters,husband wife,"
    "husbands wives,uncle aunt,uncles aunts,nephew niece,nephews nieces,grandfather grandmother,grandson granddaughter,"
    "king queen,kings queens,prince princess,gentleman lady,gentlemen ladies,guy gal,guys gals,male female,males "
    "females,boyfriend girlfriend,actor actress,actors actresses,waiter waitress,waiters waitresses,policeman "
    "policewoman,policemen policewomen,businessman businesswoman,businessmen businesswomen,chairman chairwoman,"
    "spokesman spokeswoman,fireman firewoman,salesman saleswoman,hero heroine,heroes heroines,host hostess,groom bride,"
    "cowboy cowgirl,cowboys cowgirls"
)


def word_list() -> Callable[[Sequence[str]], Edits]:
    """A plain swap: every listed word becomes its partner, wherever it stands; *her* always becomes *his*."""
    arrows = {}
    for pair in PAIRS.split(","):
        male, female = pair.split()
        arrows[male] = female
        arrows.setdefault(female, male)
    arrows["her"] = "his"

    def swap(parts: Sequence[str]) -> Edits:
        return [
            [
                Change(m.start(), m.group(), arrows[m.group().lower()])
                for m in WORD.finditer(text)
                if m.group().lower() in arrows
            ]
            for text in parts
        ]

    return swap


def ours(**options: Any) -> Callable[[Sequence[str]], Edits]:
    """The swapper of evenli with these options."""
    swapper = Swapper(**options)

    def swap(parts: Sequence[str]) -> Edits:
        done = swapper.swap_document(parts)
        return None if done.conflict else done.changes

    return swap


def read_sample(data: Path) -> list[dict[str, Any]]:
    """The labelled rows with their texts; a text that is not the labelled one is refused."""
    rows = [json.loads(line) for line in LABELS.read_text(encoding="utf-8").splitlines()[1:]]
    wanted: dict[str, dict[str, tuple[str, ...]]] = {}
    for part in {row["id"].split(":")[0] for row in rows}:
        wanted[part] = {identity: given for identity, given, _ in texts(data, part)}
    for row in rows:
        given = wanted[row["id"].split(":")[0]][row["id"]]
        candidates = [given] if row["kind"] == "pair" else [(one,) for one in given]
        row["texts"] = next((one for one in candidates if digest(one) == row["sha256"]), None)
        if row["texts"] is None:
            raise SystemExit(f"{row['id']}: the text is not the one that was labelled")
    return rows


def judge(row: dict[str, Any], edits: Edits, names: bool) -> list[tuple[str, int, str]]:
    """What became of each word: right, wrong, missed, or the same for names; with the sentence and the word."""
    labels = {(side, place): (kind, rest[0] if rest else []) for side, place, _, kind, *rest in row["words"]}
    verdicts = []
    for side, text in enumerate(row["texts"]):
        replaced = {
            change.start: change.replacement for change in (edits[side] if edits else []) if change.word.strip("'’ ")
        }
        for place, match in enumerate(WORD.finditer(text)):
            kind, targets = labels.get((side, place), ("none", []))
            new = replaced.pop(match.start(), None)
            if kind == "either" or (kind == "name" and not names):
                verdict = "" if kind == "either" or new is None else "wrong"
            elif kind == "name":
                verdict = "name missed" if new is None else "name right"
            elif kind == "word":
                verdict = "missed" if new is None else "right" if new.lower() in targets else "wrong target"
            else:
                is_name = names and match.group() in name_pairs()
                verdict = "" if not new else "name wrong" if is_name else "wrong"
            if verdict:
                verdicts.append((verdict, side, match.group()))
    return verdicts


def label_kept(row: dict[str, Any], verdicts: list[tuple[str, int, str]], names: bool) -> bool:
    """True if all is right, or what is not is the same word in both sentences."""
    if "label" in row["flags"] or ("needs names" in row["flags"] and not names):
        return False
    bad = {(verdict, word.lower(), side) for verdict, side, word in verdicts if "right" not in verdict}
    tokens = [{word.lower() for word in WORD.findall(text)} for text in row["texts"]]
    return all((verdict, word, 1 - side) in bad and word in tokens[1 - side] for verdict, word, side in bad)


def score(rows: list[dict[str, Any]], swap: Callable[[Sequence[str]], Edits], names: bool = False) -> dict[str, Any]:
    """Counts by genre: changes, right ones, words that had to change, missed ones, names, pairs and labels kept."""
    counts: dict[str, Counter[str]] = {}
    errors = []
    for row in rows:
        edits = swap(row["texts"])
        verdicts = judge(row, edits, names)
        for genre in (row["genre"], "all"):
            count = counts.setdefault(genre, Counter())
            outcomes = Counter(verdict for verdict, _, _ in verdicts)
            conflict = "conflict" in row["flags"]
            if edits is None:
                count["conflicts"] += 1
                count["conflicts right"] += conflict
            if row["kind"] == "pair":
                copied = bool(edits and any(edits))
                count["pairs"] += copied
                count["kept"] += copied and label_kept(row, verdicts, names)
                # A pair without a copy costs rows, not labels; its words are counted as neither right nor missed.
                count["without copy"] += edits is None and not conflict
            elif not (conflict and edits is None):
                count["changes"] += outcomes["right"] + outcomes["wrong"] + outcomes["wrong target"]
                count["right"] += outcomes["right"]
                if outcomes["right"] + outcomes["missed"] + outcomes["wrong target"]:
                    bad = outcomes["wrong"] + outcomes["wrong target"] + outcomes["missed"] + outcomes["name wrong"]
                    count["sentences"] += 1
                    count["whole"] += not bad
                count["words"] += outcomes["right"] + outcomes["missed"] + outcomes["wrong target"]
                count["missed"] += outcomes["missed"] + outcomes["wrong target"]
                count["names changed"] += outcomes["name right"] + outcomes["name wrong"]
                count["names right"] += outcomes["name right"]
                count["names"] += outcomes["name right"] + outcomes["name missed"]
                count["names missed"] += outcomes["name missed"]
        broken = row["kind"] == "pair" and edits and any(edits) and not label_kept(row, verdicts, names)
        wrong = [
            f"{verdict}: {word}" for verdict, _, word in verdicts if "right" not in verdict and verdict != "name missed"
        ]
        if (wrong and edits is not None) or broken:
            errors.append((row["id"], wrong, row["texts"]))
    return {"counts": counts, "errors": errors}


def share(good: int, total: int) -> str:
    """A share in percent with its Wilson interval."""
    if not total:
        return "–"
    low, high = wilson(good / total, total)
    return f"{100 * good / total:.1f} [{100 * low:.1f}, {100 * high:.1f}] ({good}/{total})"


def show(way: str, scored: dict[str, Any], errors: bool) -> None:
    """One table: shares by genre."""
    columns = f"{'precision %':32} {'missed %':30} {'names right %':30} {'labels kept %':30} whole sentences %"
    print(f"\n{way}\n{'genre':10} {columns}")
    for genre, c in scored["counts"].items():
        print(
            f"{genre:10} {share(c['right'], c['changes']):32} {share(c['missed'], c['words']):30} "
            f"{share(c['names right'], c['names changed']):30} {share(c['kept'], c['pairs']):30} "
            f"{share(c['whole'], c['sentences'])}"
        )
    c = scored["counts"]["all"]
    print(f"left alone as a conflict: {c['conflicts']} texts or pairs ({c['conflicts right']} labelled so)")
    if errors:
        for identity, wrong, both in scored["errors"]:
            print(f"  {identity}: {'; '.join(wrong)} | {' || '.join(both)}"[:400])


def show_judged(data: Path, more: Path) -> dict[str, Any]:
    """The judged pairs of every language, as they were read and as far as the rules of today make the same copies."""
    results = {}
    for lang in get_args(Lang):
        for path in judged.judged(lang):
            header, rows = judged.read(data, more, path)
            print(f"\n{path.name}, judged {header['judged_on']} by {header['judged_by']}")
            for today in (False, True):
                counts = results[f"{path.stem}{' today' * today}"] = judged.score(rows, lang, today)
                print(f"{'today' if today else 'as read':14} {'labels kept %':32} {'precision %':32} missed %")
                for genre, c in counts.items():
                    rest = f"without a copy {c['without copy']}, not judged {c['not judged']}" if today else ""
                    print(
                        f"  {genre:12} {share(c['kept'], c['copies']):32} {share(c['right'], c['changes']):32} "
                        f"{share(c['missed'], c['words']):28} {rest}"
                    )
    return results


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--judged", type=Path, metavar="MORE")
    parser.add_argument("--compare", nargs="+", default=[])
    parser.add_argument("--sentences", type=int, help="only so many sentences with a gender word, and no pairs")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--errors", action="store_true")
    arguments = parser.parse_args()
    rows = read_sample(arguments.data)
    if arguments.sentences:
        gendered = [row for row in rows if row["kind"] == "sentence" and any(one[3] == "word" for one in row["words"])]
        rows = random.Random(0).sample(gendered, arguments.sentences)
    ways = {
        "evenli": (ours(), False),
        "evenli, with names": (ours(names=True), True),
        "word list": (word_list(), False),
    }
    ways |= {name: (swap, False) for name, swap in map(named, arguments.compare)}
    results = {}
    for way, (swap, names) in ways.items():
        scored = score(rows, swap, names)
        results[way] = scored["counts"]
        show(way, scored, arguments.errors)
    if arguments.judged:
        results |= show_judged(arguments.data, arguments.judged)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
