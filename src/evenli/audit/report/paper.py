"""Models side by side as a table for a paper: causes and published score with intervals, differences, corrected p."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from evenli.audit.compare import RunComparison, concluded
from evenli.audit.differences import Difference
from evenli.audit.report.comparison import run_names
from evenli.audit.report.export import check_suffix, frame_of, latex, markdown, write_table
from evenli.audit.suites.base import get_suite
from evenli.core.estimate import Estimate
from evenli.core.format import p_bound, prose, with_interval
from evenli.core.io import write_atomic
from evenli.stats.measure import get_measure


def comparison_table(compared: RunComparison) -> pl.DataFrame:
    """One row per measure and model, with numbers: the causes, then what the conclusion of a suite is about.

    A model that is compared with itself or with a model of the same name is told apart by a number. The first model has
    no difference, so those cells are null.
    """
    first, *others = run_names(compared.runs)
    rows = []
    for suite, comparisons in compared.suites.items():
        # The causes, and the measures that the conclusion names.
        names = list(dict.fromkeys((*get_suite(suite).tested, *concluded(suite, compared.runs[0]))))
        estimates = compared.estimates(suite, names)
        for name in names:
            listed = None
            for model, comparison, (before, after) in zip(others, comparisons, estimates, strict=True):
                # A suite may measure the first model on other rows for each partner; then it has a row for each.
                if listed != before[name]:
                    listed = before[name]
                    rows.append(_row(suite, name, first, listed))
                rows.append(_row(suite, name, model, after[name], comparison.measures[name], first))
    return frame_of(rows)


def write_comparison(compared: RunComparison, path: str | Path) -> int:
    """Write the table as .csv or .parquet (numbers), .md or .tex (for people); return how many rows it has."""
    path, frame = Path(path), comparison_table(compared)
    suffix = check_suffix(path)
    if suffix not in {".md", ".tex"}:
        write_table(frame, path)
        return frame.height
    shown, notes = _for_people(frame, compared), _notes(compared)
    right = shown.columns[-3:]
    if suffix == ".tex":
        text = "".join(f"% {' '.join(note.split())}\n" for note in notes) + latex(shown, right, blocks=True)
    else:
        text = markdown(shown, right) + "".join(f"\n{prose(note)}\n" for note in notes)
    write_atomic(path, text)
    return frame.height


_CHANGES = {"difference": "value", "difference_low": "low", "difference_high": "high", "p": "p", "p_holm": "p_holm"}


def _row(
    suite: str, name: str, model: str, estimate: Estimate, change: Difference | None = None, base: str | None = None
) -> dict[str, str | float | None]:
    numbers = {key: float(getattr(estimate, key)) for key in ("value", "low", "high")}
    changes = {key: float(getattr(change, field)) if change else None for key, field in _CHANGES.items()}
    about = {"suite": suite, "measure": get_measure(name).title.strip(), "model": model}
    return {**about, **numbers, **changes, "compared_with": base}


def _for_people(frame: pl.DataFrame, compared: RunComparison) -> pl.DataFrame:
    """The same with rounded numbers, each with its interval in one cell; p is the corrected one."""
    # The first model is what others are compared with; its cells of differences stay empty.
    ends = f"[{compared.scoring.level:.0%} interval]"
    rows = []
    for row in frame.iter_rows(named=True):
        value = with_interval(row["value"], row["low"], row["high"])
        change = with_interval(row["difference"], row["difference_low"], row["difference_high"], sign=True)
        change, p = ("", "") if row["compared_with"] is None else (change, p_bound(row["p_holm"]))
        rows.append((row["measure"], row["model"], value, change, p))
    names = ("measure", "model", f"value {ends}", f"difference {ends}", "p (Holm)")
    shown = pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String), orient="row")
    return shown if len(compared.suites) == 1 else shown.insert_column(0, frame["suite"])


def _notes(compared: RunComparison) -> list[str]:
    """What a caption should say: the pairs, the level, what p is corrected for, and what may be concluded."""
    notes, models = [], run_names(compared.runs)[1:]
    for suite, comparisons in compared.suites.items():
        described, card, comparison = get_suite(suite), compared.runs[0].result.data_of(suite), comparisons[0]
        where = f" of {card.name} ({card.lang})" if card else ""
        notes.append(
            f"{described.title}: {comparison.n:,} shared {described.items}{where}, "
            f"{comparison.clusters['occupations']} occupations, {comparison.clusters['templates']} templates. "
            f"{compared.scoring.level:.0%} intervals. A difference is to the first model, pair by pair. "
            f"{_family(len(described.tested), len(comparisons))}"
        )
        notes += [f"{model}: {found.conclusion}" for model, found in zip(models, comparisons, strict=True)]
    return notes


def _family(causes: int, runs: int) -> str:
    """What p is corrected for."""
    over = f"{runs} comparisons" if runs > 1 else ""
    others = f"corrected for {over}" if over else "not corrected"
    if not causes:
        return f"p is {others}{' (Holm)' * bool(over)}."
    return f"p of the causes is corrected for {causes} causes{' in ' * bool(over)}{over} (Holm), others are {others}."
