"""The read samples of the gender swap: they are whole, they do not overlap, and the scripts count them as said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evenli.words.swap.swapper import Change
from studies.swap import compare, judged

DATA = Path(compare.__file__).parent
FILES = sorted(DATA.glob("swap_judged_*.jsonl"))


def rows_of(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    header, *rows = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return header, rows


def test_samples_say_who_read_them_and_share_no_pair() -> None:
    assert {path.name.split("_")[2] for path in FILES} == {"en", "ja", "zh"}
    seen = {row["sha256"] for row in rows_of(DATA / "swap_blind.jsonl")[1]}
    for path in FILES:
        header, rows = rows_of(path)
        assert header["judged_by"] and header["judged_on"] and len(rows) >= 150
        hashes = {row["sha256"] for row in rows}
        assert len(hashes) == len(rows) and not hashes & seen
        seen |= hashes
        assert all(len(row["wrong"]) <= row["changed"] for row in rows)


@pytest.mark.parametrize(("seed", "lang"), [("21", "ja"), ("22", "zh")])
def test_the_rules_still_make_the_copies_that_were_read(shared_data: Path, seed: str, lang: str) -> None:
    path = DATA / f"swap_judged_{lang}_{seed}.jsonl"
    _, rows = judged.read(shared_data, shared_data, path)
    count = judged.score(rows, lang)["all"]  # type: ignore[arg-type]
    # A rule that changes many of them needs a new sample: what nobody read is not counted as right.
    assert count["copies"] >= 0.95 * len(rows)
    assert count["kept"] == count["copies"] and count["right"] >= 0.98 * count["changes"]
    read = judged.score(rows, lang, today=False)["all"]  # type: ignore[arg-type]
    assert read["copies"] == len(rows) and read["right"] < read["changes"]


def test_verdicts_of_a_reader() -> None:
    found = judged.verdicts(["3, label", "3, missed, Women", "", "7, wrong, she, her"])
    assert found == {
        3: {"kept": False, "wrong": [], "missed": ["Women"]},
        7: {"kept": True, "wrong": ["she", "her"], "missed": []},
    }


def test_a_rewriting_is_compared_word_by_word() -> None:
    assert compare.changes_between("A man reads.", "A woman reads.") == [Change(2, "man", "woman")]
    assert compare.changes_between("A man reads.", "A man reads!") == []
    # A word too many spoils the place where it stands, and only that.
    assert compare.changes_between("A man reads.", "A tall woman reads.") == [Change(2, "man", compare.LOST)]


def test_a_public_table_is_read_and_not_run(tmp_path: Path) -> None:
    table = tmp_path / "gender_pairs.py"
    table.write_text('"""A table."""\n\nGENDER_PAIRS = {"man": "woman", "son-in-law": "daughter-in-law"}\n')
    swap = compare.nl_augmenter(table)
    found = swap(["The man's son-in-law, a manly man."])
    assert found == [
        [Change(4, "man", "woman"), Change(10, "son-in-law", "daughter-in-law"), Change(30, "man", "woman")]
    ]
    table.write_text("GENDER_PAIRS = dict(open('/etc/passwd'))\n")
    with pytest.raises(ValueError, match="malformed"):
        compare.nl_augmenter(table)
