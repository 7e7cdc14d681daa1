"""Commands for the tests, each in a fork of this process: fresh as a new interpreter, without a second of imports.

A request is a line of JSON on stdin: ``[words, folder, environment]``. The answer is ``[code, stdout, stderr]``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from fuzzing.process import preload, run


def main() -> None:
    """Answer until stdin ends."""
    preload()
    path = list(sys.path)
    with tempfile.TemporaryDirectory(prefix="evenli-forks-") as logs:
        for number, line in enumerate(sys.stdin):
            words, folder, environment = json.loads(line)
            os.environ.clear()
            os.environ |= environment
            # What Python itself does when it starts: the folder for ``-m``, then PYTHONPATH.
            sys.path[:] = [folder, *filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *path]
            done = run(tuple(words), Path(folder), log=Path(logs) / str(number))
            print(json.dumps([done.code, done.stdout, done.stderr]), flush=True)


if __name__ == "__main__":
    main()
