"""Who writes to stdout and stderr: in a library nobody touches them, on the command line each has one owner."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evenli

SOURCE = Path(evenli.__file__).parent
THREADS = """
import asyncio, json, os, socket, sys, threading, urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import uvicorn
import evenli
from evenli.audit.report import gallery

root, each = Path(sys.argv[1]), int(sys.argv[2])


def streams():
    return [(os.fstat(number).st_dev, os.fstat(number).st_ino) for number in (1, 2)], sys.stdout, sys.stderr


def audit(model, out):
    result = evenli.audit(model, suites="coal", limit=40, out=out).result.to_dict()
    del result["timings"]
    return json.dumps(result), (out / "predictions.parquet").read_bytes()


def compare():
    return json.dumps(evenli.compare(root / "fake:biased", root / "fake:even").to_dict())


def page(path):
    with urllib.request.urlopen(address + path, timeout=120) as answer:
        return answer.read()


def chatty(premises, hypotheses):
    print("a user's own line")
    return ["neutral"] * len(premises)


chatty.fingerprint = "chatty"
models = {"fake:biased": "fake:biased", "fake:even": "fake:even", "chatty": chatty, "evenli:en": "evenli:en"}
before = streams()
alone = {name: audit(model, root / name) for name, model in models.items()}
listening = socket.socket()
listening.bind(("127.0.0.1", 0))
listening.listen()
port = listening.getsockname()[1]
address = f"http://127.0.0.1:{port}/token/"
app = gallery.make_app(gallery.Runs(root), "token", port)
server = uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False))
serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
serving.start()
entries = gallery.Runs(root).entries()
pages = {f"run/{entry.id}": None for entry in entries}
pages = {path: page(path) for path in pages}
compared = compare()


def work(thread):
    different = []
    for number in range(each):
        name = list(models)[(thread + number) % len(models)]
        if audit(models[name], root.parent / f"{root.name}-{thread}" / f"{number}" / name) != alone[name]:
            different.append(name)
        if compare() != compared:
            different.append("compare")
        path = list(pages)[(thread + number) % len(pages)]
        if page(path) != pages[path]:
            different.append(path)
    return different


with ThreadPoolExecutor(8) as pool:
    going = [pool.submit(work, thread) for thread in range(4)]

    async def rest():
        loop = asyncio.get_running_loop()
        return await asyncio.gather(*(loop.run_in_executor(pool, work, thread) for thread in range(4, 8)))

    for number in range(100):
        print("main", number)
    different = [*asyncio.run(rest()), *(one.result() for one in going)]
server.should_exit = True
serving.join()
print("main ends")
print("stderr ends", file=sys.stderr)
after = streams()
Path(f"{root}.json").write_text(json.dumps({"different": different, "kept": before == after}))
"""
CHATTY = """
import os, subprocess, sys
print("chatter of an import")


def predict(premises, hypotheses):
    print("chatter of Python")
    os.write(1, b"chatter of a library\\n")
    os.write(2, b"thread '<unnamed>' panicked at src/lib.rs\\n")
    return ["neutral"] * len(premises)


predict.fingerprint = "chatty"
"""


@pytest.mark.parametrize("each", [1, pytest.param(50, marks=pytest.mark.slow)])
def test_eight_threads_find_what_one_finds_and_leave_the_streams_alone(tmp_path: Path, each: int) -> None:
    pytest.importorskip("uvicorn")
    pytest.importorskip("altair")
    words = [sys.executable, "-c", THREADS, str(tmp_path / "runs"), str(each)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "runs.json").read_text())
    assert found["kept"] and not any(found["different"]), found
    own = [line for line in done.stdout.splitlines() if line.startswith("main")]
    assert own == [*(f"main {number}" for number in range(100)), "main ends"]
    assert "a user's own line" in done.stdout and done.stderr.endswith("stderr ends\n")


def test_only_the_door_of_the_command_line_redirects() -> None:
    redirect = re.compile(r"dup2|redirect_std|sys\.std(out|err) =|setattr\(sys")
    files = {str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.py") if redirect.search(file.read_text())}
    assert files == {"core/startup.py", "core/terminal.py"}


def evenli_in(folder: Path, *words: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, not in a fork: whose streams are whose is decided as Python starts."""
    command = ["sh", "-c", f'exec "$0" -m evenli "$@" {shell}', sys.executable, *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)


def test_json_is_all_that_stands_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text(CHATTY)
    words = ("audit", "py:chatty:predict", "--limit", "40", "--out", "run", "--overwrite", "--json")
    done = evenli_in(tmp_path, *words)
    assert done.returncode == 0 and json.loads(done.stdout)["model"]["name"] == "chatty:predict", done.stderr
    assert "chatter of Python" in done.stderr and "chatter of an import" in done.stderr
    assert "library" not in done.stderr and "panicked" not in done.stderr
    loud = evenli_in(tmp_path, "--debug", *words)
    assert json.loads(loud.stdout)["model"] and "chatter of a library" in loud.stderr and "panicked" in loud.stderr


def test_a_closed_or_full_stream_is_no_failed_gate(tmp_path: Path) -> None:
    evenli.audit("fake:biased", suites="coal", limit=40, out=tmp_path / "run")
    passes, fails = ("gate", "run", "--fail-if", "coal > 2"), ("gate", "run", "--fail-if", "coal > 0")
    for shell in (">&- 2>&- <&-", "2>/dev/full"):
        assert evenli_in(tmp_path, *passes, shell=shell).returncode == 0, shell
    assert evenli_in(tmp_path, *fails, shell=">&-").returncode == 1
    assert evenli_in(tmp_path, "gate", "none", shell="2>/dev/full").returncode == 2
    assert evenli_in(tmp_path, *passes, shell=">/dev/full").returncode == 2
    (tmp_path / "typer.py").write_text("raise ZeroDivisionError")
    assert evenli_in(tmp_path, *passes).returncode == 2, "a broken installation"
