"""Check the occupation list ``labour`` against the tables of the US labour statistics, or fill in its shares.

    python tools/make_labour_occupations.py FOLDER [--write]

FOLDER holds CPS Table 11 of several years as ``cpsaat11_YEAR.tsv.xz`` with the columns occupation and pct_women. The
words and their titles stand in ``labour_en.csv``. ``--write`` takes shares and classes from the tables; run
``tools/seal_resources.py`` afterwards. A share moves by a few points from year to year, so a word is kept only if its
share of 2022 and the mean over all printed years lie in the same class.
"""

from __future__ import annotations

import argparse
import csv
import io
from collections import Counter
from pathlib import Path

from evenli.core.io import read_rows
from evenli.words import read_table
from evenli.words.occupations import class_of_share
from evenli.words.tables import DATA

LIST = "labour_en.csv"
YEARS = (2019, 2020, 2021, 2022)
PER_CLASS = 100
PER_TITLE = 3


def read_shares(folder: Path) -> dict[str, dict[int, float]]:
    """Percentage of women by title and year, where the table prints one."""
    shares: dict[str, dict[int, float]] = {}
    for year in YEARS:
        for row in read_rows(folder / f"cpsaat11_{year}.tsv.xz"):
            if row["pct_women"] and row["pct_women"].replace(".", "").isdigit():
                shares.setdefault(row["occupation"], {})[year] = float(row["pct_women"])
    return shares


def faults(rows: list[dict[str, str]], shares: dict[str, dict[int, float]]) -> list[str]:
    """What is wrong with the list, one line each."""
    wrong = []
    for row in rows:
        printed = shares.get(row["cps_title"], {})
        share = printed.get(int(row["year"]))
        if share is None:
            wrong.append(f"{row['word']}: the table of {row['year']} has no share for '{row['cps_title']}'")
            continue
        mean = sum(printed.values()) / len(printed)
        if share != float(row["women_percent"]):
            wrong.append(f"{row['word']}: {row['women_percent']} in the list, {share} in the table")
        if {class_of_share(share), class_of_share(mean)} != {row["stereotype"]}:
            wrong.append(f"{row['word']}: {row['stereotype']}, but {share} in {row['year']} and {mean:.1f} on average")
    classes, titles = (Counter(row[column] for row in rows) for column in ("stereotype", "cps_title"))
    wrong += [f"only {count} words are {name}" for name, count in classes.items() if count < PER_CLASS]
    return wrong + [f"{count} words for '{title}'" for title, count in titles.items() if count > PER_TITLE]


def filled(rows: list[dict[str, str]], shares: dict[str, dict[int, float]]) -> str:
    """The list with shares and classes of the table, sorted by class and word."""
    for row in rows:
        share = shares[row["cps_title"]][int(row["year"])]
        row |= {"women_percent": f"{share:g}", "stereotype": class_of_share(share) or "between"}
    stream = io.StringIO()
    writer = csv.DictWriter(stream, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(sorted(rows, key=lambda row: (row["stereotype"], row["word"].lower())))
    return stream.getvalue()


def main() -> None:
    """Check, or write first and check then."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", action="store_true", help="take shares and classes from the tables")
    given = parser.parse_args()
    shares = read_shares(given.folder)
    if given.write:
        (DATA / LIST).write_text(filled(read_table(LIST), shares), encoding="utf-8")
    rows = read_table(LIST)
    wrong = faults(rows, shares)
    print("\n".join(wrong) or f"{len(rows)} words agree: {dict(Counter(row['stereotype'] for row in rows))}")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
