"""Results as tables: CSV, Parquet, Markdown and LaTeX, and to MLflow."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from evenli._extras import need
from evenli.errors import InputError
from evenli.report.expressions import fields
from evenli.report.runs import audited_data

TABLES = ("measures", "occupations")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
}


def tables(results: dict[str, Any]) -> dict[str, pl.DataFrame]:
    """The measures (one row per measure and slice) and the occupations (one row each, most biased first)."""
    rows = []
    for name, entry in results["coal"]["measures"].items():
        low, high = entry["range"]
        about = {"range": f"{low:g}..{high:g}", "ideal": entry["ideal"], "reading": entry["direction"]}
        for part, estimate in (("all", entry), *entry["by_stereotype"].items()):
            numbers = {key: estimate[key] for key in ("value", "low", "high", "se", "level", "n")}
            rows.append({"measure": name, "slice": part, **numbers, **about, "note": estimate["note"]})
    numbers_schema = dict.fromkeys(("value", "low", "high", "se", "level"), pl.Float64)
    measures = pl.DataFrame(rows, schema_overrides={**numbers_schema, "ideal": pl.Float64}, infer_schema_length=None)
    shares = ("score", "low", "high", "entailment", "neutral", "contradiction")
    occupations = pl.DataFrame(
        results["coal"]["occupations"], schema_overrides=dict.fromkeys(shares, pl.Float64), infer_schema_length=None
    )
    return {"measures": measures, "occupations": occupations}


def write_table(frame: pl.DataFrame, path: str | Path) -> None:
    """Write a table in the format that the suffix names: .csv, .parquet, .md or .tex."""
    path = Path(path)
    writers: dict[str, Callable[[], object]] = {
        ".csv": lambda: frame.write_csv(path),
        ".parquet": lambda: frame.write_parquet(path),
        ".md": lambda: path.write_text(markdown(frame), encoding="utf-8"),
        ".tex": lambda: path.write_text(latex(frame), encoding="utf-8"),
    }
    if path.suffix.lower() not in writers:
        raise InputError(f"cannot tell the format of {path}; end its name in {', '.join(writers)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        writers[path.suffix.lower()]()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another --out") from error


def markdown(frame: pl.DataFrame) -> str:
    """A pipe table, numbers to three decimals and to the right.

    >>> print(markdown(pl.DataFrame({"measure": ["coal"], "value": [0.25]})))
    | measure | value |
    | --- | ---: |
    | coal | 0.250 |
    <BLANKLINE>
    """
    rule = ["---:" if kind.is_numeric() else "---" for kind in frame.dtypes]
    rows = [[_markdown_text(_shown(cell)) for cell in row] for row in frame.iter_rows()]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (frame.columns, rule, *rows))


def latex(frame: pl.DataFrame) -> str:
    """A booktabs tabular, numbers to three decimals and to the right; Japanese and Chinese need XeLaTeX or LuaLaTeX."""
    columns = "".join("r" if kind.is_numeric() else "l" for kind in frame.dtypes)
    head, *rows = (
        " & ".join(latex_text(cell) for cell in row) + r" \\"
        for row in (frame.columns, *([_shown(cell) for cell in row] for row in frame.iter_rows()))
    )
    body = "\n".join(rows)
    return (
        f"% needs \\usepackage{{booktabs}}\n\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\n\\midrule\n{body}\n"
        + ("\\bottomrule\n\\end{tabular}\n")
    )


def latex_text(text: str) -> str:
    r"""Text in which nothing is a command.

    >>> print(latex_text("R&D \\input{x} 5%"))
    R\&D \textbackslash{}input\{x\} 5\%
    """
    return "".join(_LATEX.get(mark, mark) for mark in " ".join(text.split()))


def log_mlflow(results: dict[str, Any]) -> None:
    """Log an audit to the active MLflow run: every number a gate can name, what was asked, and results.json."""
    mlflow = need("mlflow", extra="tracking", purpose="logging to MLflow")
    known = fields(results)
    metrics = {n: float(v) for n, v in known.items() if isinstance(v, int | float) and not isinstance(v, bool)}
    mlflow.log_metrics({re.sub(r"[^\w. /-]", "_", name): value for name, value in metrics.items()})
    model, data = results.get("model", {}), audited_data(results)
    about = {"model": model.get("spec"), "revision": model.get("revision"), "lang": results.get("lang")}
    about |= {"data": data.get("name"), "data_sha256": data.get("sha256"), "verdict": known["verdict"]}
    mlflow.log_params({f"evenli.{name}": value for name, value in about.items() if value})
    mlflow.log_dict(results, "evenli/results.json")


def _shown(cell: object) -> str:
    if cell is None:
        return "n/a"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)


def _markdown_text(text: str) -> str:
    return re.sub(r"([\\`*\[\]<>|])", r"\\\1", " ".join(text.split()))
