"""Write the tables and the chart of docs/studies/retraining.md from the stored figures of studies/retraining/study.py.

python -m studies.retraining.tables
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from scipy import stats

from evenli.core.drawing import save_chart
from evenli.core.io import read_rows
from evenli.encoders.seat import AVERAGED
from evenli.encoders.senteval.data import TASKS
from evenli.stats.intervals import holm
from evenli.words import read_table
from studies.retraining.sbert import tables as sbert_tables

HERE = Path(__file__).parent
DOCS = HERE.parents[1] / "docs"
TESTS = ("C1", "C2", *AVERAGED)
FAIRER = [f"{kind}{percentile}" for kind in ("Sub", "Aug") for percentile in (97, 95, 93, 90)]
ORDER = ["Original", *FAIRER, "Random95", "Normalised", "HD"]
TEN = ["Original", "Sub95", "Random95", "Aug95", "AugRandom95"]
"""Kinds of the larger study; each fairer corpus before its random control."""
WORD2VEC = ["Original", "HD", "Sub95", "Random95", "Aug95", "AugRandom95"]
KNOWN = ("C6b", "C7", "C8")
"""The tests of gender whose words the word2vec vectors have; of the first names they lack eleven of sixteen."""
PUBLISHED = {"HD": "GloVe-HD"}
PRINTED = {"STSB": "STSB_p", "STS14": "STS14_p", "MRPC": "MRPC_acc"}


def main() -> None:
    """Fill the page and draw."""
    ours = by_kind(read_table("retraining.csv"))
    seat = {row["model"]: row for row in read_table("published_seat.csv")}
    senteval = {row["model"]: row for row in read_table("published_senteval.csv")}
    page = DOCS / "studies" / "retraining.md"
    text = page.read_text(encoding="utf-8")
    tables = {
        "summary": summary(ours, seat, senteval),
        "seat": effects(ours, seat),
        "senteval": scores(ours, senteval),
        "power": power(ours),
        "ten": ten_seeds(by_kind(read_table("retraining_mnli.csv")), seat),
        "word2vec": word2vec(by_kind(read_rows(HERE / "retraining_w2v.csv")), seat),
        "sbert": list(sbert_tables(read_rows(HERE / "sbert_study.csv")))[:-1],
    }
    for name, lines in tables.items():
        start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
        before, after = text.partition(start)[0], text.partition(end)[2]
        text = "\n\n".join([before + start, "\n".join(lines), end + after])
    page.write_text(text, encoding="utf-8")
    (png,) = (
        file
        for file in save_chart(chart(ours, seat, senteval), "retraining", DOCS / "figures")
        if file.suffix == ".png"
    )
    png.unlink()


def by_kind(rows: Sequence[dict[str, str]]) -> dict[str, list[dict[str, str]]]:
    """Encoders by what was done to their corpus."""
    kinds = defaultdict(list)
    for row in rows:
        kinds[row["encoder"]].append(row)
    return kinds


def mean_effect(row: dict[str, str]) -> float:
    """Mean of C6 to C8b."""
    return float(np.mean([float(row[test]) for test in AVERAGED]))


def overall(row: dict[str, str]) -> float:
    """Mean of the twelve tasks."""
    return float(np.mean([float(row[task]) for task in TASKS]))


def summary(ours: dict[str, Any], seat: dict[str, Any], senteval: dict[str, Any]) -> list[str]:
    """Mean effect and overall score of every kind, and how far from the original.

    A star: the published change, of one encoder against one, is further from ours than chance explains.
    """
    against = "against Original | published"
    heads = f"| encoder | seeds | SEAT, mean effect | {against} | SentEval | {against} | NLI dev |"
    lines = [heads, "| --- |" + " --- |" * 8]
    for name, members in {**{name: [name] for name in ORDER}, "all Sub and Aug": FAIRER}.items():
        rows = [row for member in members for row in ours[member]]
        cells = [name, str(len(rows))]
        for value, table, column in ((mean_effect, seat, "avg_pub"), (overall, senteval, "overall_pub")):
            mean, original = (np.mean([value(row) for row in some]) for some in (rows, ours["Original"]))
            theirs, printed = published(table, members, column), published(table, ["Original"], column)
            cells.append(f"{mean:.2f}")
            if name == "Original":
                cells += ["", f"{printed:.2f}"]
                continue
            spread = pooled([[value(row) for row in ours[kind]] for kind in ORDER])
            width = half(spread, len(rows), len(ours["Original"]))
            cells.append(f"{mean - original:+.2f} ± {width:.2f}")
            if theirs is None:
                cells.append("")
                continue
            gap = abs(theirs - printed - (mean - original))
            star = "" if gap < math.hypot(width, half(spread, len(members), 1)) else " *"
            cells.append(f"{theirs - printed:+.2f}{star}")
        cells.append(f"{np.mean([float(row['dev']) for row in rows]):.1f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def published(table: dict[str, Any], kinds: Sequence[str], column: str) -> float | None:
    """Mean of a printed figure over these kinds, or None where the paper has none."""
    rows = [table[PUBLISHED.get(kind, kind)] for kind in kinds if PUBLISHED.get(kind, kind) in table]
    return float(np.mean([float(row[column]) for row in rows])) if rows else None


def pooled(groups: list[list[float]]) -> tuple[float, int]:
    """Standard deviation within the groups and its degrees of freedom."""
    freedom = sum(len(group) - 1 for group in groups)
    return math.sqrt(sum(np.var(group) * len(group) for group in groups) / freedom), freedom


def between_draws(kinds: Sequence[Sequence[dict[str, str]]]) -> tuple[float, int]:
    """Standard deviation of an encoder as the draws of the corpora show it, and its degrees of freedom.

    Encoders of one draw share their corpus and are more alike than others, so the draws are what varies: a nested
    analysis of variance, with the mean square between draws.
    """
    total, freedom = 0.0, 0
    for rows in kinds:
        mean, draws = np.mean([mean_effect(row) for row in rows]), defaultdict(list)
        for row in rows:
            draws[row["draw"]].append(mean_effect(row))
        total += sum(len(group) * (np.mean(group) - mean) ** 2 for group in draws.values())
        freedom += len(draws) - 1
    return math.sqrt(total / freedom), freedom


def half(spread: tuple[float, int], first: int, second: int) -> float:
    """Half the width of the 95 % interval of a difference of two means."""
    deviation, freedom = spread
    return float(stats.t.ppf(0.975, freedom) * deviation * math.sqrt(1 / first + 1 / second))


def power(ours: dict[str, Any]) -> list[str]:
    """The change of the mean SEAT effect that so many seeds of a corpus and of Original find in 80 of 100 studies."""
    deviation, freedom = pooled([[mean_effect(row) for row in ours[kind]] for kind in ORDER])
    lines = ["| seeds of each | change found in 80 of 100 studies | in 50 of 100 |", "| --- | --- | --- |"]
    for seeds in (3, 5, 10, 20):
        spread = deviation * math.sqrt(2 / seeds)
        # The spread would be pooled over four kinds of encoders, or is known from these 36 where that is more.
        df = max(freedom, 4 * (seeds - 1))
        detectable = [(stats.t.ppf(0.975, df) + stats.t.ppf(share, df)) * spread for share in (0.8, 0.5)]
        lines.append(f"| {seeds} | {detectable[0]:.2f} | {detectable[1]:.2f} |")
    return lines


def ten_seeds(ours: dict[str, Any], seat: dict[str, Any]) -> list[str]:
    """Mean effect of every kind of the larger study against Original, with p corrected by Holm, and against chance."""
    values = {name: np.array([mean_effect(row) for row in ours[name]]) for name in TEN}
    spread = deviation, freedom = between_draws([ours[name] for name in TEN])
    fairer = TEN[1:]
    changes = {name: float(values[name].mean() - values["Original"].mean()) for name in fairer}

    def p_value(change: float, first: str, second: str) -> float:
        size = deviation * math.sqrt(1 / len(values[first]) + 1 / len(values[second]))
        return float(2 * stats.t.sf(abs(change) / size, freedom))

    corrected = dict(zip(fairer, holm([p_value(changes[name], name, "Original") for name in fairer]), strict=True))
    heads = ["encoder", "seeds", "SEAT, mean effect", "sd over seeds", "against Original", "p, Holm"]
    heads += ["against its random control", "published", "NLI dev"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * (len(heads) - 1)]
    for name, group in values.items():
        cells = [name, str(len(group)), f"{group.mean():.2f}", f"{group.std(ddof=1):.2f}"]
        if name == "Original":
            cells += ["", "", "", ""]
        else:
            width = half(spread, len(group), len(values["Original"]))
            cells += [f"{changes[name]:+.2f} ± {width:.2f}", f"{corrected[name]:.3g}"]
            control = {"Sub95": "Random95", "Aug95": "AugRandom95"}.get(name)
            if control:
                gap = group.mean() - values[control].mean()
                cells.append(f"{gap:+.2f} ± {half(spread, len(group), len(values[control])):.2f}")
                cells.append(f"{float(seat[name]['avg_pub']) - float(seat['Original']['avg_pub']):+.2f}")
            else:
                cells += ["", ""]
        cells.append(f"{np.mean([float(row['dev']) for row in ours[name]]):.1f} %")
        lines.append(f"| {' | '.join(cells)} |")
    size = deviation * math.sqrt(2 / len(values["Original"]))
    seen = (stats.t.ppf(0.975, freedom) + stats.t.ppf(0.8, freedom)) * size
    return [*lines, "", f"With this spread a change of {seen:.2f} would have been found in 80 of 100 such studies."]


def word2vec(ours: dict[str, Any], seat: dict[str, Any]) -> list[str]:
    """Mean effect of three tests for encoders on word2vec, against Original; one seed for each draw of the corpora."""

    def mean(row: dict[str, str]) -> float:
        return float(np.mean([float(row[test]) for test in KNOWN]))

    values = {name: np.array([mean(row) for row in ours[name]]) for name in WORD2VEC}
    deviation, freedom = pooled([list(group) for group in values.values()])
    original, printed = values["Original"], {name: mean(seat[name]) for name in ("w2v", "w2v-HD")}
    size = {name: deviation * math.sqrt(1 / len(group) + 1 / len(original)) for name, group in values.items()}
    others = WORD2VEC[1:]
    gaps = {name: float(values[name].mean() - original.mean()) for name in others}
    p = holm([float(2 * stats.t.sf(abs(gaps[name]) / size[name], freedom)) for name in others])
    corrected = dict(zip(others, p, strict=True))
    heads = ["encoder", "seeds", *KNOWN, "mean of the three", "against Original", "p, Holm", "published", "NLI dev"]
    lines = [f"| {' | '.join(heads)} |", "| --- |" + " --- |" * (len(heads) - 1)]
    for name, group in values.items():
        tests = [f"{np.mean([float(row[test]) for row in ours[name]]):.2f}" for test in KNOWN]
        cells = [name, str(len(group)), *tests, f"{group.mean():.2f}"]
        width = stats.t.ppf(0.975, freedom) * size[name]
        cells += ["", ""] if name == "Original" else [f"{gaps[name]:+.2f} ± {width:.2f}", f"{corrected[name]:.2g}"]
        cells.append(f"{printed['w2v-HD'] - printed['w2v']:+.2f}" if name == "HD" else "")
        cells.append(f"{np.mean([float(row['dev']) for row in ours[name]]):.1f} %")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def effects(ours: dict[str, Any], seat: dict[str, Any]) -> list[str]:
    """The eight tests, ours and printed."""
    lines = [f"| encoder | {' | '.join(TESTS)} |", f"| --- |{' --- |' * len(TESTS)}"]
    for name in ORDER:
        printed = seat.get(PUBLISHED.get(name, name))
        cells = [
            pair(np.mean([float(row[test]) for row in ours[name]]), printed and float(printed[test]), 2)
            for test in TESTS
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, widths(ours, TESTS, 2)]


def scores(ours: dict[str, Any], senteval: dict[str, Any]) -> list[str]:
    """The twelve tasks, ours and printed."""
    lines = [f"| encoder | {' | '.join(TASKS)} |", f"| --- |{' --- |' * len(TASKS)}"]
    for name in ORDER:
        printed = senteval.get(PUBLISHED.get(name, name))
        cells = []
        for task in TASKS:
            theirs = None
            if printed:
                theirs = float(printed[PRINTED.get(task, task)]) * (100 if task in {"SICKR", "STS14"} else 1)
            cells.append(pair(np.mean([float(row[task]) for row in ours[name]]), theirs, 1))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, widths(ours, TASKS, 1)]


def widths(ours: dict[str, Any], columns: Sequence[str], digits: int) -> str:
    """The last row: how far a difference to the original is uncertain, by the kind with the fewest seeds."""
    fewest, originals = min(len(rows) for rows in ours.values()), len(ours["Original"])
    cells = []
    for column in columns:
        spread = pooled([[float(row[column]) for row in rows] for rows in ours.values()])
        cells.append(f"± {half(spread, fewest, originals):.{digits}f}")
    return f"| *a difference to Original* | {' | '.join(cells)} |"


def pair(value: Any, theirs: float | None, digits: int) -> str:
    """Ours, with the printed one in brackets."""
    return f"{value:.{digits}f}" + ("" if theirs is None else f" ({theirs:.{digits}f})")


def chart(ours: dict[str, Any], seat: dict[str, Any], senteval: dict[str, Any]) -> Any:
    """Fairness against accuracy (Figure 6 of the paper): every encoder of ours, and the published ones."""
    points = [
        {"x": overall(row), "y": mean_effect(row), "name": name, "kind": group(name), "whose": "ours, one dot a seed"}
        for name in ORDER
        for row in ours[name]
    ]
    points += [
        {
            "x": float(senteval[PUBLISHED.get(name, name)]["overall_pub"]),
            "y": float(seat[PUBLISHED.get(name, name)]["avg_pub"]),
            "name": name,
            "kind": group(name),
            "whose": "published",
        }
        for name in ORDER
        if PUBLISHED.get(name, name) in seat
    ]
    kinds = ["Original", "Sub", "Aug", "random removal", "vectors of length 1", "hard-debiased vectors"]
    colours = ["#1b1f24", "#0072b2", "#009e73", "#8a8f98", "#e69f00", "#d55e00"]
    return (
        alt.Chart(alt.InlineData(values=points))
        .mark_point(size=60, opacity=0.9, filled=True)
        .encode(
            x=alt.X("x:Q", scale=alt.Scale(zero=False), axis=alt.Axis(title="SentEval, mean of twelve tasks")),
            y=alt.Y(
                "y:Q", scale=alt.Scale(domainMin=0), axis=alt.Axis(title="SEAT, mean effect of C6 to C8b: 0 is neutral")
            ),
            color=alt.Color("kind:N", scale=alt.Scale(domain=kinds, range=colours), legend=alt.Legend(title=None)),
            shape=alt.Shape(
                "whose:N",
                scale=alt.Scale(domain=["ours, one dot a seed", "published"], range=["circle", "cross"]),
                legend=alt.Legend(title=None),
            ),
        )
        .properties(width=560, height=320)
    )


def group(name: str) -> str:
    """What was done, without the percentile."""
    names = {"Random95": "random removal", "Normalised": "vectors of length 1", "HD": "hard-debiased vectors"}
    return names.get(name, name.rstrip("0123456789"))


if __name__ == "__main__":
    main()
