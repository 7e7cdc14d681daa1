"""Rank first names by births and write ``swap_names.csv``: 2,500 male and 2,500 female names, paired by rank.

    python tools/make_swap_names.py ssa_babynames_1880_2023.csv.xz

The input has the columns year, name, sex, count (US Social Security Administration, national data).
A name counts for the gender that had more births, so that the two lists are disjoint; ties of rank are
broken by the alphabet. The first 30 ranks are printed in Dolci et al. 2023. No range of years of the
national data gives them exactly: 1910-2019 comes closest (all 30 male ranks; 26 female ranks, the other
four being two pairs of neighbours less than 0.2 % apart) and is the range of the state-level data of the
same office. We use that range and put the two neighbouring pairs in the printed order.
"""

from __future__ import annotations

import csv
import lzma
import sys
from collections import Counter
from pathlib import Path

DATA = Path(__file__).parents[1] / "src" / "evenli" / "resources" / "data"
YEARS = range(1910, 2020)
SIZE = 2500
PRINTED_ORDER = (("Nancy", "Betty"), ("Rebecca", "Deborah"))
PLACEHOLDERS = {"Baby", "Infant", "Unknown"}


def main(source: Path) -> None:
    """Count, rank, pair and write."""
    births: dict[str, Counter[str]] = {"M": Counter(), "F": Counter()}
    with lzma.open(source, "rt", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            if int(row["year"]) in YEARS:
                births[row["sex"]][row["name"]] += int(row["count"])
    # A name such as King or Princess cannot be mapped both as a word and as a name.
    with (DATA / "swap_words_en.csv").open(encoding="utf-8") as stream:
        words = {row[side].capitalize() for row in csv.DictReader(stream) for side in ("male", "female")} | PLACEHOLDERS
    male = ranked(births["M"], births["F"], words)
    female = ranked(births["F"], births["M"], words)
    for first, second in PRINTED_ORDER:
        i, j = sorted((female.index(first), female.index(second)))
        if j != i + 1:
            raise SystemExit(f"{first} and {second} are no neighbours in this data: is it the national file?")
        female[i], female[j] = first, second
    with (DATA / "swap_names.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["rank", "male", "female"])
        writer.writerows((rank, *pair) for rank, pair in enumerate(zip(male, female, strict=True), 1))


def ranked(own: Counter[str], other: Counter[str], words: set[str]) -> list[str]:
    """The most frequent names of one gender."""
    names = [name for name, count in own.items() if count > other[name] and name not in words]
    return sorted(names, key=lambda name: (-own[name], name))[:SIZE]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python tools/make_swap_names.py ssa_babynames_1880_2023.csv.xz")
    main(Path(sys.argv[1]))
