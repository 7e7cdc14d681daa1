"""What is written: cells that no spreadsheet computes, and whole files or none."""

from __future__ import annotations

import csv
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import evenli
from evenli.audit.report.export import tables, write_table
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.suites.files import read_pairs, write_pairs
from evenli.core.binary import write_csv
from evenli.core.io import read_rows
from evenli.core.parse import csv_line, escape_cell, unescape_cell
from evenli.core.record import Scoring
from evenli.corpus.mitigation.swap_file import SwapSettings, swap_corpus
from evenli.corpus.source import read_records

FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\tx", "\rx", "＝1+1", "'=1", "''@x"]
HARMLESS = ["", "a=b", "'tis", "she's", "5", "-0.25", "+1e-9", "(=1)"]


def begins_like_a_formula(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return cell[:1] in {"=", "+", "-", "@", "\t", "\r", "＝"}
    return False


@pytest.mark.parametrize("text", FORMULAS + HARMLESS)
def test_a_cell_comes_back_as_it_was(text: str, tmp_path: Path) -> None:
    assert unescape_cell(escape_cell(text)) == text
    assert (escape_cell(text) == text) == (text in HARMLESS)
    (tmp_path / "a.csv").write_text(csv_line(["text", "n"]) + csv_line([text, -1.5]), encoding="utf-8", newline="")
    write_csv(pl.DataFrame({"text": [text], "n": [-1.5]}), tmp_path / "b.csv")
    for name in ("a.csv", "b.csv"):
        with (tmp_path / name).open(encoding="utf-8", newline="") as stream:
            (_, cells) = csv.reader(stream)
        assert not begins_like_a_formula(cells[0]) and cells[1] == "-1.5"
        if text.strip():  # within a quoted cell the reader of lines takes a carriage return for a line's end
            assert read_rows(tmp_path / name)[0]["text"].strip() == text.strip()
            record = next(record for record in read_records(tmp_path / name) if record)
            assert record.cells is not None and str(record.cells["text"]).strip() == text.strip()


def test_names_of_columns_are_escaped_too(tmp_path: Path) -> None:
    write_csv(pl.DataFrame({"=1": [1]}), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text(encoding="utf-8") == "'=1\n1\n"
    assert read_rows(tmp_path / "a.csv") == [{"=1": "1"}]


def test_pairs_and_swapped_pairs_come_back(tmp_path: Path) -> None:
    pairs = build_coal("en").where(pl.col("occupation") == "nurse")
    risky = pl.format("=HYPERLINK(1) {}", pl.col("premise"))
    pairs = evenli.PairSet(**{**vars(pairs), "frame": pairs.frame.with_columns(premise=risky)})
    write_pairs(pairs, tmp_path / "pairs.csv")
    assert "\n=" not in (tmp_path / "pairs.csv").read_text(encoding="utf-8")
    assert read_pairs(tmp_path / "pairs.csv", "en").frame["premise"].to_list() == pairs.frame["premise"].to_list()
    swap_corpus(tmp_path / "pairs.csv", tmp_path / "swapped.csv", SwapSettings())
    with (tmp_path / "swapped.csv").open(encoding="utf-8", newline="") as stream:
        assert not any(begins_like_a_formula(cell) for row in csv.reader(stream) for cell in row)
    assert all(row["premise"].startswith("=HYPERLINK") for row in read_rows(tmp_path / "swapped.csv"))


def test_a_table_for_a_spreadsheet(tmp_path: Path) -> None:
    result = evenli.audit("fake:biased", scoring=Scoring()).result
    frame = tables(result)["measures"].with_columns(note=pl.lit("=1+1"))
    write_table(frame, tmp_path / "measures.csv")
    rows = read_rows(tmp_path / "measures.csv")
    assert "'=1+1" in (tmp_path / "measures.csv").read_text(encoding="utf-8") and rows[0]["note"] == "=1+1"
    assert float(rows[0]["value"]) == pytest.approx(frame["value"][0])


# A full disk: one line, exit code 2, and the old file stands.

CODE = """
import sys
from pathlib import Path
import numpy as np, polars as pl
from evenli.core.errors import RunError
from evenli.core.io import write_atomic
from evenli.audit.report.export import write_table
from evenli.audit.suites.files import write_pairs
from evenli.audit.suites.coal.pairs import build_coal
here = Path(sys.argv[1])
frame = pl.DataFrame({"a": np.random.default_rng(0).random(400_000)})
pairs = build_coal("en")
writers = {f"table.{end}": lambda file: write_table(frame, file) for end in ("csv", "parquet", "md", "tex")}
writers |= {f"pairs.{end}": lambda file: write_pairs(pairs, file) for end in ("csv", "parquet", "jsonl")}
writers["array.npy"] = lambda file: write_atomic(file, lambda new: np.save(new, frame.to_numpy()))
for name, write in writers.items():
    (here / name).write_text("old")
(here / "ballast").write_bytes(bytes(int(sys.argv[2])))
for name, write in writers.items():
    try:
        write(here / name)
    except RunError as error:
        assert name in str(error) and "no space" in str(error), error
    else:
        raise SystemExit(f"{name} was written")
    assert (here / name).read_text() == "old", name
assert {file.name for file in here.iterdir()} == {*writers, "ballast"}
"""


def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    """With a limit on the size of a file, where no file system can be mounted; the error is the same."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    command = [sys.executable, "-c", limit + CODE, str(tmp_path), "10"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _can_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    return bool(shutil.which("unshare")) and not subprocess.run(command, capture_output=True, check=False).returncode


@pytest.mark.skipif(not _can_mount(), reason="no file system can be mounted")
def test_commands_on_a_full_disk(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = (
        f"mount -t tmpfs -o size=400k none {small} && head -c 390000 /dev/zero > {small}/ballast && cd {small} && "
        f'"{sys.executable}" -m evenli build coal -o x.parquet; echo "code $?"; ls -A; cd /'
    )
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["code", "2", "ballast"], done
    assert done.stderr.count("\n") == 1 and "no space" in done.stderr
