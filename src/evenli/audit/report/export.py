"""Results as tables (CSV, Parquet, Markdown, LaTeX), and their JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from evenli.audit.audit import load_run
from evenli.audit.compare import RunComparison, concluded
from evenli.audit.differences import Difference
from evenli.audit.predictions import SCHEMA
from evenli.audit.report.comparison import run_names
from evenli.audit.results import AuditResult, SuiteResult
from evenli.audit.suites.base import get_suite
from evenli.core.binary import write_csv
from evenli.core.errors import InputError
from evenli.core.format import p_bound, prose, with_interval
from evenli.core.io import write_atomic
from evenli.core.page import shown
from evenli.core.record import Estimate, Record, Scoring, json_schemas
from evenli.core.registry import SUITES
from evenli.stats.measure import get_measure

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}
_MINUS = re.compile(r"(^|[\s\[(])-(?=\d)")  # the hyphen before a number is a minus; within a name it stays one
_SUFFIXES = (".csv", ".parquet", ".md", ".tex")


def tables(result: AuditResult, suite: str | None = None) -> dict[str, pl.DataFrame]:
    """The tables of one suite, by default the first of the run.

    ``measures`` has a row per measure and slice. Every list of rows that the suite adds is a table of its own, such as
    ``occupations`` with one row each, most biased first.
    """
    suite = suite or next(iter(result.suites))
    if suite not in result.suites:
        raise InputError(f"the run holds no suite '{suite}'; choose {', '.join(result.suites)}")
    of_suite = result.suites[suite]
    by_name = {"measures": _measures(of_suite)}
    for name in of_suite.__struct_fields__:
        rows = getattr(of_suite, name)
        if isinstance(rows, list) and rows and isinstance(rows[0], Record):
            by_name[name] = frame_of([_flat(msgspec.to_builtins(row)) for row in rows])
    return by_name


def run_table(
    run: str | Path, what: str = "measures", suite: str | None = None, out: str | Path | None = None
) -> pl.DataFrame:
    """One table of a stored run, also written to a .csv, .parquet, .md or .tex file if there is one; ``evenli table``.

    ``what`` is a name as ``tables`` gives them; the suite is by default the first of the run that has this table.
    """
    result = load_run(run, needs=suite).result
    by_suite = [tables(result, name) for name in ([suite] if suite else result.suites)]
    named = next((each for each in by_suite if what in each), None)
    if named is None:
        raise InputError(f"no table '{what}'; choose {', '.join(dict.fromkeys(chain(*by_suite)))}")
    if out is not None:
        write_table(named[what], out)
    return named[what]


def _flat(row: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A row without nesting: of an estimate its value and both ends, under the name of its field."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict) and {"value", "low", "high"} <= value.keys():
            flat |= {name: value["value"], f"{name}_low": value["low"], f"{name}_high": value["high"]}
        elif isinstance(value, dict):
            flat |= _flat(value, f"{name}_")
        else:
            flat[name] = value
    return flat


def _measures(of_suite: SuiteResult) -> pl.DataFrame:
    rows = []
    for name, measure in of_suite.measures.items():
        about = {"range": measure.span, "ideal": float(measure.ideal), "reading": measure.direction}
        for part, estimate in (("all", measure), *measure.by_stereotype.items()):
            numbers = {key: getattr(estimate, key) for key in ("value", "low", "high", "se", "level", "n")}
            note = f"no verdict: {of_suite.problem}" if of_suite.problem else estimate.note
            rows.append({"measure": name, "slice": part, **numbers, **about, "note": note})
    return frame_of(rows)


def frame_of(rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """A table of rows in which an undefined number is null."""
    # Every row counts for the type: a column may begin with undefined values.
    return pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(pl.Float64).fill_nan(None))


def write_table(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table in the format that the suffix names: .csv, .parquet, .md or .tex."""
    writers: dict[str, Callable[[Path], object]] = {
        ".csv": lambda file: write_csv(frame, file),
        ".parquet": frame.write_parquet,
        ".md": lambda file: file.write_text(markdown(frame), encoding="utf-8"),
        ".tex": lambda file: file.write_text(latex(frame), encoding="utf-8"),
    }
    write_atomic(path, writers[check_suffix(path)])


def check_suffix(path: str | Path) -> str:
    """The suffix of a table that can be written; others are refused."""
    suffix = Path(path).suffix.lower()
    if suffix not in _SUFFIXES:
        raise InputError(f"cannot tell the format of {path}; end its name in {', '.join(_SUFFIXES)}")
    return suffix


def markdown(frame: pl.DataFrame, right: Collection[str] = ()) -> str:
    """A pipe table, numbers to three decimals; they and the columns named by ``right`` stand to the right.

    >>> print(markdown(pl.DataFrame({"measure": ["coal"], "value": [0.25]})))
    | measure | value |
    | --- | ---: |
    | coal | 0.250 |
    <BLANKLINE>
    """
    columns = [f">{name}" if kind.is_numeric() or name in right else name for name, kind in frame.schema.items()]
    texts = ([" ".join(shown(cell).split()) for cell in row] for row in frame.iter_rows())
    return pipe_table(columns, ([re.sub(r"([\\`*\[\]<>|])", r"\\\1", text) for text in row] for row in texts))


def pipe_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; what could be markup is escaped already. A title that begins with ``>`` is to the right."""
    heads = [title.removeprefix(">") for title in columns]
    rule = ["---:" if title.startswith(">") else "---" for title in columns]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (heads, rule, *rows))


def latex(frame: pl.DataFrame, right: Collection[str] = (), *, blocks: bool = False) -> str:
    """A booktabs tabular, numbers to three decimals; Japanese and Chinese need XeLaTeX or LuaLaTeX.

    Args:
        frame: Any table.
        right: Columns of text that stand to the right, as numbers do.
        blocks: Rows with the same first cell are a block: it is written once, and a space follows the block.
    """
    columns = "".join("r" if kind.is_numeric() or name in right else "l" for name, kind in frame.schema.items())
    head, *rows = ([latex_text(shown(cell)) for cell in row] for row in (frame.columns, *frame.iter_rows()))
    lines = []
    for number, row in enumerate(rows):
        # The name of a block stands in its first row alone.
        again = blocks and number > 0 and rows[number - 1][0] == row[0]
        if blocks and number > 0 and not again:
            lines.append("\\addlinespace\n")
        lines.append(_latex_row(["" if again else row[0], *row[1:]]))
    return (
        f"% needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{_latex_row(head)}\\midrule\n"
        f"{''.join(lines)}\\bottomrule\n\\end{{tabular}}\n"
    )


def _latex_row(cells: Sequence[str]) -> str:
    # A cell that begins with [ would be taken for the space that \\ may be followed by.
    return " & ".join(f"{{}}{cell}" if cell.startswith("[") else cell for cell in cells) + " \\\\\n"


def latex_text(text: str) -> str:
    r"""Text in which nothing is a command.

    >>> print(latex_text("R&D \\input{x} 5%"))
    R\&D \textbackslash{}input\{x\} 5\%
    >>> print(latex_text("-0.1 [-0.2, +0.1] of a-1"))
    $-$0.1 [$-$0.2, +0.1] of a-1
    """
    escaped = "".join(_LATEX.get(mark, mark) for mark in " ".join(text.split()))
    return _MINUS.sub(r"\1$-$", escaped)


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


def results_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of results.json with the suites that are installed; names of measures are open.

    >>> sorted(results_schema()["required"])
    ['competence', 'evenli', 'lang', 'schema', 'scoring', 'verdict']
    """
    kinds: dict[str, type] = {name: get_suite(name).result for name in SUITES}
    (_, *references), definitions = json_schemas([AuditResult, *kinds.values()], (Scoring,))
    root = definitions.pop("AuditResult")
    # In JSON the suites stand beside the other keys.
    del root["properties"]["suites"]
    root["properties"] |= {
        "schema": {"const": SCHEMA, "description": "Version of this format."},
        "evenli": {"type": "string", "description": "Version of evenli that wrote the file."},
    }
    for name, reference in zip(kinds, references, strict=True):
        about = f"{get_suite(name).title}; absent if the audit did not ask it."
        root["properties"][name] = {**reference, "description": about}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "results.json of an evenli audit",
        "required": ["schema", "evenli", "lang", "scoring", "verdict", "competence"],
        "anyOf": [{"required": [name]} for name in kinds],
        "$defs": definitions,
    }
