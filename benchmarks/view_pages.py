"""How long the pages of ``evenli view`` take with ten and with a thousand runs.

python benchmarks/view_pages.py
"""

from __future__ import annotations

import argparse
import shutil
import socket
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import uvicorn

import evenli
from evenli.audit.report.gallery import make_app
from evenli.audit.report.runs import Runs


def measure(folder: Path, repeats: int) -> dict[str, float]:
    """Milliseconds of each page, the least of several; of a list also when a second has passed since the last."""
    runs, started = Runs(folder), time.perf_counter()
    first, second, *_ = (entry.id for entry in runs.entries())
    found = {"before the first page": 1000 * (time.perf_counter() - started)}
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        config = uvicorn.Config(make_app(runs, "t", port), log_level="error", access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        pages = {"list": "", "list, later": "", "report": f"run/{first}", "form": f"ask/{first}"}
        pages["comparison"] = f"compare?run={first}&run={second}"
        for name, path in pages.items():
            times = []
            for _ in range(repeats):
                time.sleep(1.1 * (name == "list, later"))
                began = time.perf_counter()
                urllib.request.urlopen(f"http://127.0.0.1:{port}/t/{path}").read()
                times.append(1000 * (time.perf_counter() - began))
            found[name] = min(times)
        server.should_exit = True
        thread.join()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        evenli.audit("fake:oracle:0.3", suites="coal", limit=60, out=root / "one")
        few, many = root / "few", root / "many"
        for folder, count in ((few, 10), (many, options.runs)):
            for number in range(count):
                shutil.copytree(root / "one", folder / f"{number:05}")
        time.sleep(2.1)  # what has just changed is read again
        before, after = measure(few, options.repeats), measure(many, options.repeats)
        for name, value in before.items():
            print(f"{name:>22}: {value:8.1f} ms {after[name]:8.1f} ms   x {after[name] / value:.1f}")


if __name__ == "__main__":
    main()
