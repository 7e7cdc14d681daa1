"""What a new user meets first: help, choices, a limit, extras that are missing, progress in a log."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import evenli
from evenli.audit.pairs import PairSet, subsample
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.files import read_pairs
from evenli.cli import app
from evenli.core import terminal
from evenli.core.errors import InputError, MissingExtraError
from evenli.core.settings import AXES
from evenli.core.terminal import Progress


def invoke(*arguments: object, **environment: str):
    return CliRunner(env={"COLUMNS": "80", **environment}).invoke(app, [str(a) for a in arguments])


def commands() -> dict[str, object]:
    found: dict[str, object] = {}

    def walk(group, path: tuple[str, ...]) -> None:
        for name in group.list_commands(None):
            command = group.get_command(None, name)
            found[" ".join((*path, name))] = command
            if hasattr(command, "list_commands"):
                walk(command, (*path, name))

    walk(get_command(app), ())
    return found


@pytest.mark.parametrize("group", [[], ["mitigate"], ["build"], ["train"], ["axis"]])
def test_every_command_has_a_whole_line_in_the_help(group: list[str]) -> None:
    text = invoke(*group, "-h").output
    assert text == invoke(*group, "--help").output and "…" not in text and "..." not in text.split("ARGS]...")[-1]
    lines = text.splitlines()
    for name, command in commands().items():
        if name.split()[:-1] == group:
            (line,) = [line for line in lines if line.startswith(f"  {name.split()[-1]} ")]
            described = " ".join(str(command.help).split("\n\n")[0].split())
            # A plug-in may be called anything; ours fit on a line of a common terminal.
            assert described and line.endswith(described), name


def test_commands_stand_in_groups() -> None:
    text = invoke("-h").output
    places = [text.index(f"\n{title}") for title in ("Audit", "Compare", "Mitigate:", "Train:", "Data")]
    assert places == sorted(places) and "\nCommands:" not in text


def test_short_help_everywhere() -> None:
    for name in ("audit", "mitigate inlp", "train nli", "build coal"):
        out = invoke(*name.split(), "-h")
        assert out.exit_code == 0 and out.output.startswith("Usage:"), name


def test_closed_choices_are_listed_offered_and_checked() -> None:
    for name, option, values in (
        ("audit", "--split", "[full|down]"),
        ("audit", "--lang", "[en|ja|zh|…]"),
        ("seat", "--pooling", "[mean|cls|max]"),
        ("card", "--part", "[all|yaml|markdown]"),
        ("train nli", "--recipe", "[coal|control|sharma]"),
        ("mitigate swap", "--mode", "[default|paper|released]"),
        ("mitigate leace", "--concepts", "[pairs|one]"),
        ("table", "--what", "[measures|occupations|…]"),
        ("table", "--suite", "[labour|coal|probe|dev2020|swap|groups|robust|…]"),
    ):
        assert re.search(rf"{option}\s+{re.escape(values)}", invoke(*name.split(), "-h").output), (name, option)
    for arguments, known in (
        (["card", "run", "--part", "html"], "all, yaml or markdown"),
        (["mitigate", "leace", "vectors:x", "-o", "y", "--concepts", "two"], "pairs or one"),
    ):
        out = invoke(*arguments)
        assert isinstance(out.exception, InputError) and known in str(out.exception)


def test_no_option_is_shown_as_any_text() -> None:
    for name in commands():
        text = invoke(*name.split(), "-h").output
        assert not re.search(r"--[\w-]+ <str>", text), name


def test_known_names_in_the_help_are_those_of_the_library() -> None:
    from evenli.audit.commands import data
    from evenli.audit.suites.dev2020 import load_dev_lists
    from evenli.encoders import commands as encoders
    from evenli.encoders.seat import seat_tests
    from evenli.encoders.settings import EVERY
    from evenli.words.axes import shipped_names

    assert list(AXES) == shipped_names()
    assert list(encoders.TESTS) == [test.name for test in seat_tests()]
    assert tuple(word for _, word in load_dev_lists().groups) == data.WORDS
    for command, names in (("seat", encoders.TESTS), ("senteval", EVERY), ("audit", AXES)):
        text = " ".join(invoke(command, "-h").output.split())
        assert ", ".join(names) in text, command


def test_the_shell_completes_commands_and_choices() -> None:
    def completed(words: str) -> str:
        return (
            CliRunner()
            .invoke(
                app,
                [],
                env={"_EVENLI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()))},
                prog_name="evenli",
            )
            .output
        )

    assert {"audit", "augment"} & set(completed("evenli aud").split()) or "audit" in completed("evenli ")
    assert "down" in completed("evenli audit --split ")


def test_the_model_stands_first_wherever_one_is_asked_for() -> None:
    for name, command in commands().items():
        options = {option for parameter in command.params for option in parameter.opts}  # type: ignore[attr-defined]
        assert not {"--base", "--model"} & options, name
        if name in {"audit", "predict", "train nli", "meta", "onnx", "seat", "senteval", "encoder-report"}:
            first = next(p for p in command.params if p.param_type_name == "argument")  # type: ignore[attr-defined]
            assert first.name in {"model", "encoder", "base"}, (name, options)


def test_predict_says_what_is_missing() -> None:
    for arguments, message in (
        (["predict"], "--data"),
        (["train", "nli", "--data", "x", "-o", "y"], "train nli MODEL"),
        (["meta", "some/model"], "meta MODEL"),
    ):
        out = invoke(*arguments)
        assert message in str(out.exception), (arguments, out.output)


def test_a_limit_is_balanced_nested_and_reproducible() -> None:
    whole = load_suite("coal")
    part, larger = subsample(whole, 600, seed=3), subsample(whole, 1200, seed=3)
    assert len(part) == 600 and set(part.frame["id"]) < set(larger.frame["id"])
    assert part.sha256 == subsample(whole, 600, seed=3).sha256 != subsample(whole, 600, seed=4).sha256
    # Every item with both groups, every occupation of 271, kinds by their share, templates spread.
    items = part.frame.group_by("occupation", "template").agg(pl.col("group").n_unique())
    assert items["group"].unique().to_list() == [2]
    assert part.frame["occupation"].n_unique() == 271
    shares = [
        dict(frame.group_by("stereotype").len().with_columns(pl.col("len") / frame.height).iter_rows())
        for frame in (whole.frame, part.frame)
    ]
    assert all(shares[1][kind] == pytest.approx(shares[0][kind], abs=0.01) for kind in shares[0])
    assert part.frame["template"].n_unique() > 180
    counts = [
        part.frame.filter(pl.col("stereotype") == kind)["occupation"].value_counts()["count"] for kind in shares[0]
    ]
    assert all(count.max() - count.min() <= 2 for count in counts)  # one sentence more or less, two pairs each
    assert "600 of 5,420" in part.name and "--limit 600" in part.notes[-1]
    assert subsample(whole, 99_999) is whole
    for suite in ("probe", "dev2020"):
        assert 90 < len(subsample(load_suite(suite), 100)) <= 100
    with pytest.raises(InputError, match="12 pairs"):
        subsample(whole, 8)


def test_a_limited_audit_says_so_and_has_wider_intervals(tmp_path: Path) -> None:
    whole = evenli.audit("fake:oracle:0.3")
    part = evenli.audit("fake:oracle:0.3", limit=300, seed=5, out=tmp_path / "run")
    for name in ("coal", "stereotype", "total_error"):
        one, other = part.coal.measures[name], whole.coal.measures[name]
        assert one.high - one.low > other.high - other.low, name
        assert one.low <= other.value <= one.high, name
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["settings"]["limit"] == 300 and header["seed"] == 5
    assert [card["rows"] for card in header["data"] if card["suite"] == "coal"] == [300]
    assert "limit" not in whole.header["settings"]
    with pytest.raises(InputError, match="limit"):
        evenli.audit("fake:even", limit=0)


def test_limit_on_the_command_line(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = json.loads(invoke("audit", "fake:biased", "--limit", "100", "--seed", "2", "--json").output)
    assert found["folder"].endswith("limit-100-seed-2") and found["verdict"]["code"] == "bias"
    shown = invoke("audit", "fake:biased", "--limit", "100", "-o", tmp_path / "x")
    assert "100 of 5,420 pairs" in shown.output
    warned = invoke("audit", "fake:biased", "--seed", "1", "-o", tmp_path / "y")
    assert "no effect" in warned.stderr and warned.exit_code == 0


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("altair", ["audit", "fake:even", "--report", "-o", "run"]),
        ("vl_convert", ["audit", "fake:even", "--report", "-o", "run"]),
        ("altair", ["meta", "model", "-o", "sweep"]),
        ("altair", ["direction", "--vectors", "none.txt", "-o", "out"]),
        ("ray", ["score", "corpus.txt", "--vectors", "none.txt", "-o", "out", "--engine", "ray"]),
        ("sklearn", ["mitigate", "inlp", "vectors:none.txt", "-o", "out"]),
        ("sklearn", ["encoder-report", "vectors:none.txt"]),
        ("altair", ["report", "no-such-run"]),
        ("uvicorn", ["view", "no-such-folder"]),
        ("transformers", ["train", "nli", "base", "--data", "none.jsonl", "-o", "out"]),
        ("mlflow", ["train", "nli", "base", "--data", "none.jsonl", "-o", "out", "--log", "mlflow"]),
        ("torch", ["train", "encoder", "--data", "none", "--vectors", "none.txt", "-o", "out"]),
        ("torch", ["meta", "model", "-o", "sweep"]),
        ("onnxscript", ["onnx", "checkpoint", "-o", "out"]),
        ("torch", ["senteval", "vectors:none.txt", "--data", "none"]),
        ("sklearn", ["senteval", "vectors:none.txt", "--data", "none", "--classifier", "sklearn"]),
    ],
)
def test_a_missing_extra_is_told_before_any_work(
    module: str, arguments: list[str], tmp_path: Path, monkeypatch
) -> None:
    import importlib.util

    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == module else real(name, *a))
    monkeypatch.chdir(tmp_path)
    out = invoke(*arguments)
    assert isinstance(out.exception, MissingExtraError), out.output
    assert "pip install 'evenli[" in str(out.exception) and not list(tmp_path.iterdir())


def test_progress_in_a_log_is_a_line_every_ten_seconds(capsys) -> None:
    now = iter([0.0, 4.0, 9.9, 12.0, 15.0, 23.0])
    log = terminal.ProgressLog(lambda: next(now))
    for done in (10, 20, 30, 40, 50):
        log(Progress(done, 100, "scoring"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2 and "30 of 100 (30%) after 12 s, about 28 s left" in lines[0] and "50 of 100" in lines[1]
    later = iter([0.0, 11.0])
    terminal.ProgressLog(lambda: next(later))(70_000)
    assert "70,000 rows" in capsys.readouterr().err


def test_work_that_cannot_be_counted_says_what_it_is_at(monkeypatch) -> None:
    said, spoken = [], threading.Event()

    def warn(text: str) -> None:
        said.append(text)
        spoken.set()

    monkeypatch.setattr(terminal, "_PAUSE", 0.01)
    monkeypatch.setattr(terminal, "warn", warn)
    with terminal.heartbeat(False) as step:
        step("encoding 12 texts")
        assert spoken.wait(30)
    assert re.fullmatch(r"encoding 12 texts, \d+ s so far", said[0])
    ended = len(said)
    with terminal.heartbeat(True, "quiet"):
        assert not spoken.wait(0) or len(said) == ended


def test_seat_mitigate_and_meta_tell_their_steps(tmp_path: Path) -> None:
    from evenli.encoders.base import CallableEncoder
    from evenli.encoders.seat import seat
    from evenli.training.meta import Design, meta_evaluation

    steps: list[str] = []
    rng = np.random.default_rng(0)
    seat(CallableEncoder(lambda texts: rng.normal(size=(len(texts), 4))), ["C6", "C7"], on_step=steps.append)
    assert re.fullmatch(r"encoding [\d,]+ texts", steps[0]) and steps[1:] == ["test C6, 1 of 2", "test C7, 2 of 2"]
    steps.clear()
    meta_evaluation(tmp_path / "sweep", design=Design(width=2), stage="prepare", on_step=steps.append)
    assert steps == ["preparing the pairs"]


def test_a_piped_audit_speaks(tmp_path: Path) -> None:
    code = (
        "import evenli.core.terminal as s, sys; s._PAUSE = 0.0\n"
        "from evenli.cli import main\n"
        f"sys.argv = ['evenli', 'audit', 'fake:even', '--limit', '50', '-o', {str(tmp_path / 'run')!r}]\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.search(r"evenli: scoring: [\d,]+ of [\d,]+ \(\d+%\)", done.stderr) and "scoring" not in done.stdout


def test_seat_says_what_its_tests_are(tmp_path: Path) -> None:
    from evenli.encoders.seat import seat_tests, texts_of

    words = texts_of(seat_tests("word", ["C6"]))
    rng = np.random.default_rng(0)
    lines = [f"{word} " + " ".join(f"{x:.3f}" for x in rng.normal(size=4)) for word in words]
    (tmp_path / "v.txt").write_text("\n".join(lines) + "\n")
    arguments = ("seat", f"vectors:{tmp_path / 'v.txt'}", "--tests", "C6", "--level", "word", "--permutations", "100")
    assert "C6: Male names and Female names, with Career and Family" in invoke(*arguments).output
    assert json.loads(invoke(*arguments, "--json").output)["tests"][0]["title"].endswith("with Career and Family")


def test_a_small_corpus_names_the_option_that_helps() -> None:
    from evenli.corpus.mitigation.selection import Split, check_split

    with pytest.raises(InputError, match=r"--split 200,200.*--split none"):
        check_split(2000, Split())


def test_predict_keeps_columns_reads_numbers_and_prints_intervals(tmp_path: Path, pair_file) -> None:
    rows = [
        {"premise": f"p{i}", "hypothesis": "h", "label": label, "source": f"s{i}", "neutral": i, "suite": "x"}
        for i, label in enumerate((1, 0, 2, -1))
    ]
    file = pair_file(rows)
    out = invoke("predict", "fake:neutral", "--data", file, "-o", tmp_path / "p", "--json")
    found = json.loads(out.output)
    assert found["accuracy"]["value"] == pytest.approx(1 / 3, abs=1e-6) and found["gold"] == 3
    assert found["accuracy"]["low"] == pytest.approx(0.0615, abs=1e-3)
    assert found["accuracy"]["high"] == pytest.approx(0.7923, abs=1e-3)
    assert "0 as entailment, 1 as neutral, 2 as contradiction" in found["notes"][0]
    table = pl.read_parquet(tmp_path / "p" / "predictions.parquet")
    assert table["source"].to_list() == ["s0", "s1", "s2", "s3"]
    assert table["given_neutral"].to_list() == ["0", "1", "2", "3"] and table["given_suite"].to_list() == ["x"] * 4
    assert table["gold"].to_list() == ["neutral", "entailment", "contradiction", None]
    shown = invoke("predict", "fake:neutral", "--data", file, "-o", tmp_path / "p").output
    assert re.search(r"accuracy 0\.333 \[0\.061, 0\.792\] on 3 pairs", shown) and "--gold-labels" in shown
    turned = invoke("predict", "fake:neutral", "--data", file, "-o", tmp_path / "t", "--gold-labels", "n,e,c", "--json")
    assert pl.read_parquet(tmp_path / "t" / "predictions.parquet")["gold"].to_list()[:2] == ["entailment", "neutral"]
    assert "--gold-labels" not in json.loads(turned.output)["notes"][0]
    wrong = invoke("predict", "fake:neutral", "--data", file, "-o", tmp_path / "w", "--gold-labels", "e,e,c")
    assert "gold labels e,e,c" in str(wrong.exception)


def test_other_columns_are_part_of_what_a_run_is_about(tmp_path: Path, pair_file) -> None:
    one = read_pairs(pair_file([{"premise": "a", "hypothesis": "b", "who": "x"}]), "en", suite="user", extra=True)
    other = read_pairs(pair_file([{"premise": "a", "hypothesis": "b", "who": "y"}]), "en", suite="user", extra=True)
    plain = read_pairs(pair_file([{"premise": "a", "hypothesis": "b", "who": "y"}]), "en", suite="user")
    assert one.sha256 != other.sha256 and one.extra == ["who"] and plain.extra == []
    assert isinstance(plain, PairSet) and plain.sha256 != other.sha256
    with pytest.raises(InputError, match="'3'"):
        read_pairs(pair_file([{"premise": "a", "hypothesis": "b", "label": 3}]), "en", suite="user")


def in_a_terminal(*arguments: object, columns: int = 80, stdout: IO[str] | None = None) -> str:
    """What a terminal of so many columns is sent: all, or what does not go to ``stdout``."""
    pty = pytest.importorskip("pty", reason="no pseudo-terminals on this system")
    import fcntl
    import os
    import struct
    import termios

    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES", "NO_COLOR"}}
    command = [sys.executable, "-m", "evenli", *map(str, arguments)]
    with subprocess.Popen(
        command, stdout=stdout or follower, stderr=follower, env={**environment, "TERM": "xterm-256color"}
    ) as process:
        os.close(follower)
        sent = b""
        while chunk := _read(leader):
            sent += chunk
        assert process.wait() == 0, sent.decode()
    os.close(leader)
    return sent.decode()


def _read(leader: int) -> bytes:
    import os

    try:
        return os.read(leader, 65536)
    except OSError:  # how Linux says that the other side is closed
        return b""


def test_json_stays_pure_while_a_terminal_sees_a_bar(tmp_path: Path) -> None:
    audit = ("audit", "fake:oracle:0.5", "--limit", 60, "--json")
    with (tmp_path / "out.json").open("w") as stdout:
        sent = in_a_terminal(*audit, "-o", tmp_path / "one", stdout=stdout)
    assert "scoring" in sent and "\x1b[2K" in sent, "there was a bar, and it is gone"
    assert "coal" in json.loads((tmp_path / "out.json").read_text())
    piped = invoke(*audit, "-o", tmp_path / "two")
    assert piped.stderr == "" and "coal" in json.loads(piped.stdout)


def test_a_terminal_of_eighty_columns_sees_a_bar_and_whole_lines(tmp_path: Path) -> None:
    sent = in_a_terminal("audit", "fake:oracle:0.5", "--limit", 60, "-o", tmp_path / "one")
    assert "\\u00" not in sent and "\\x" not in sent, "what draws the bar is no text"
    assert "\x1b[2K" in sent, "there was a bar, and it is gone"
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", sent.rpartition("\x1b[2K")[2])
    assert shown.startswith("Verdict") and max(map(len, shown.splitlines())) <= 80
    evenli.audit("fake:even", limit=60, out=tmp_path / "two")
    shown = in_a_terminal("compare", tmp_path / "one", tmp_path / "two", "--suite", "coal")
    row = next(line for line in shown.splitlines() if "NLI-CoAL" in line)
    assert len(row.split()) >= 6 and shown.count("\n") < 60, "a measure takes a line"
