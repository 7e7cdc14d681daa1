"""The ledger of published numbers: what agrees, what is skipped without the data, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import studies.ledger.__main__ as command
from studies.ledger import Row, ledger, sharma
from studies.ledger.seat import seat_averages, seat_partitions, seat_sizes


def test_no_row_is_broken(shared_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--data", str(shared_data), "--json"]) == 0
    rows = {row["what"]: row for row in json.loads(capsys.readouterr().out)}
    assert not [row for row in rows.values() if row["status"] == "BROKEN"]
    laboro = rows["ja Laboro-DistilBERT-base FN score (bias)"]
    assert laboro["status"] == "differs" and laboro["ours"] == pytest.approx(0.5968, abs=5e-4)
    assert laboro["kind"] == "arithmetic" and "0.656" in laboro["reason"], "0.633 lies between the printed shares"
    kinds = {row["source"]: row["kind"] for row in rows.values()}
    assert kinds["NLI-CoAL 2024, Table 2"] == kinds["Dolci et al. 2023, Table 3"] == "models"
    assert kinds["NLI-CoAL release en_v1.1"] == "data" and set(kinds.values()) == {"arithmetic", "data", "models"}
    assert rows["ja Spearman of NLI-CoAL with the bias rate"]["published"] == pytest.approx(0.82)
    assert rows["ja Spearman of FN score (bias) with the bias rate"]["published"] == pytest.approx(-0.114)
    changes = [row for row in rows.values() if "change of the mean SEAT effect" in row["what"]]
    apart = [row["published"] * row["ours"] < 0 for row in changes]
    assert [row["reason"].startswith("opposite signs") for row in changes] == apart and sum(apart) == 6


def test_rows_that_need_the_data_are_skipped_without_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENLI_SHARED_DATA", "no/such/folder")
    assert command.main(["--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    skipped = [row for row in rows if row["status"] == "skipped"]
    assert len(skipped) == 15, "seven need the data, eight what cannot be had"
    assert sum(bool(row["reason"]) for row in skipped) >= 8


def test_a_broken_row_gives_exit_code_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "ledger", lambda data: [Row("x", "s", 1.0, 2.0, 0.1)])
    assert command.main([]) == 1
    assert "1 BROKEN" in capsys.readouterr().out


def test_a_folder_that_is_missing_is_refused_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command.main(["--data", "nofolder"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "nofolder" in said


def test_sharma(shared_data: Path) -> None:
    rows = {row.what: row for row in ledger(shared_data) if row.source.startswith("Sharma")}
    assert len(rows) == 27 and {row.status for row in rows.values()} == {"ok", "differs"}
    assert rows["BERT on SNLI, S"].status == "ok" and rows["BERT on MNLI, dP"].status == "differs"
    assert rows["B cells of Table 5 that equal their mixture of Table 6"].ours == 12
    gap = rows["dP cells of Table 5 that equal their mixture of Table 6"]
    assert (gap.published, gap.ours, gap.status) == (12, 11, "differs")
    assert rows["B_male in distribution that are whole counts of 1,050 premises"].ours == 6
    assert rows["B_male in distribution that are whole counts of 1,000 premises"].ours == 0
    assert [row.ours for what, row in rows.items() if "more than ten words" in what] == [79, 625]
    assert [row.ours for what, row in rows.items() if "'tailor'" in what] == ["male", "male"]


def test_the_sheets_are_skipped_without_the_data() -> None:
    assert [row.status for row in sharma.sheets(None)] == ["skipped", "skipped"]


def test_association_tests(shared_data: Path) -> None:
    rows = [row for rows in (seat_averages, seat_sizes, seat_partitions) for row in rows(shared_data)]
    assert [row.what for row in rows if row.status == "BROKEN"] == []
    assert sum(row.what.endswith("over C6 to C8b") and row.status == "ok" for row in rows) == 10
    assert [row.what.split()[0] for row in rows if row.status == "differs"] == ["w2v", "w2v-HD", "share"]
    by_name = {row.what: row.ours for row in rows}
    assert by_name["Original mean SEAT effect over C6 to C8b"] == pytest.approx(1.2542, abs=5e-5)
    assert by_name["w2v mean SEAT effect over C6 to C8b"] == pytest.approx(1.2667, abs=5e-5)
    assert by_name["w2v mean SEAT effect over all eight tests"] == pytest.approx(1.35075)
    assert by_name["its relative change of the mean effect, percent"] == pytest.approx(-19.3, abs=0.05)
    assert by_name["partitions counted for eight targets a side"] == 12_870
    without = [row.status for row in seat_sizes(None)]
    assert without == ["ok"] * 8 + ["skipped"]
