"""Draw the figure at the head of a study from the table in its page, so that the two cannot disagree.

    python tools/study_figures.py            # docs/figures/mitigation.svg, swap.svg, llm.svg, axes.svg

The tables themselves are made by the commands that each page names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import altair as alt

DOCS = Path(__file__).parents[1] / "docs"
CELL = re.compile(r"([-+−]?[\d.]+) \[([-+−]?[\d.]+), ([-+−]?[\d.]+)\]")
CAUSES = ("stereotype", "default gender", "total error", "contradictory answers")


def table(page: str, below: str) -> list[dict[str, str]]:
    """The first table below a line of a page, as rows by column name."""
    text = (DOCS / "studies" / f"{page}.md").read_text(encoding="utf-8").split(f"\n{below}", 1)[1]
    lines = re.search(r"(?:^\|.*\n)+", text, flags=re.M)[0].splitlines()  # type: ignore[index]
    head, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(head, cells, strict=False)) for cells in body[1:]]


def estimate(cell: str) -> dict[str, float] | None:
    """Value and interval of a cell, or nothing."""
    match = CELL.search(cell)
    return (
        dict(zip(("value", "low", "high"), (float(n.replace("−", "-")) for n in match.groups()), strict=True))
        if match
        else None
    )


def mitigation() -> Iterator[dict[str, Any]]:
    """The effect of swapped copies on each cause."""
    for heading in ("MiniLM on SNLI", "MPNet (12 layers) on SNLI", "MiniLM on MNLI"):
        for row in table("mitigation", f"## {heading}"):
            if row["measure"] in CAUSES:
                yield {"what": row["measure"], "who": heading, **(estimate(row["all - duplicated"]) or {})}


def swap() -> Iterator[dict[str, Any]]:
    """Labels that are still right after the swap."""
    for row in table("swap", "### Is the label still right?"):
        if row["sample (file)"].startswith("**"):
            name = re.sub(r"[*]|\(.*", "", row["sample (file)"]).strip()
            yield {"what": name, "who": "label kept, %", **(estimate(row["label kept"]) or {})}


def llm() -> Iterator[dict[str, Any]]:
    """The causes of a language model that gets a verdict."""
    for row in table("llm", "### Qwen2.5-Coder-1.5B-Instruct"):
        for pairs in ("built-in", "official"):
            if row[""] in CAUSES:
                yield {"what": row[""], "who": f"{pairs} pairs", **(estimate(row[pairs]) or {})}


def axes() -> Iterator[dict[str, Any]]:
    """How unlike the answers for the groups of an axis are; grey where the model is not competent."""
    for row in table("axes", "## What the former embedded English model does"):
        who = "competent" if row["competent?"].startswith("yes") else "not competent: says nothing about bias"
        yield {
            "what": row["axis"].replace("`", "").split(" --limit")[0],
            "who": who,
            **(estimate(row["distance"]) or {}),
        }


def draw(name: str, rows: list[dict[str, Any]], title: str, ideal: float) -> Path:
    """Points with their intervals, and a line where an ideal model would be."""
    if not rows or any("value" not in row for row in rows):
        raise SystemExit(f"docs/studies/{name}.md: a row of its table has no value with an interval")
    colours = alt.Scale(range=["#0072b2", "#d55e00" if name != "axes" else "#9a9a9a", "#2f7d4f"])
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("what:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
        yOffset=alt.YOffset("who:N", sort=None) if name in {"mitigation", "llm"} else alt.Undefined,
        color=alt.Color("who:N", sort=None, scale=colours, legend=alt.Legend(title=None, orient="top", labelLimit=320)),
    )
    scale = alt.Scale(zero=name != "swap")
    chart = (
        alt.Chart(alt.Data(values=[{"x": ideal}]))
        .mark_rule(strokeDash=[4, 3], color="#555")
        .encode(x=alt.X("x:Q", scale=scale))
        + base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=title, scale=scale), x2="high:Q")
        + base.mark_point(filled=True, size=60).encode(x=alt.X("value:Q", scale=scale))
    )
    target = DOCS / "figures" / f"{name}.svg"
    chart.properties(width=460, height=alt.Step(20), background="white").configure_axis(
        labelFontSize=12, titleFontSize=12
    ).save(target)
    return target


def main() -> None:
    """Draw all of them."""
    for one, title, ideal in (
        (mitigation, "swapped copies minus unswapped copies, 95 % interval", 0),
        (swap, "gold label still right after the swap, %", 100),
        (llm, "Qwen2.5-Coder-1.5B, English; an even model has 0", 0),
        (axes, "distance between the groups; an even model has 0", 0),
    ):
        print(draw(one.__name__, list(one()), title, ideal))


if __name__ == "__main__":
    main()
