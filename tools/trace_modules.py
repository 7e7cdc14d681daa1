"""Modules of evenli whose functions a command enters: what someone reads who follows it through the code.

    python tools/trace_modules.py audit fake:biased --limit 600 -o /tmp/run --overwrite
    python tools/trace_modules.py audit fake:biased --limit 600 -o /tmp/run --overwrite -- report /tmp/run -o r.html

Prints the modules with the number of their functions that ran, in the order in which they were met. After ``--`` a
further command may follow; of it only those modules are listed that none before entered. What runs while a module is
imported does not count (bodies of modules and classes, decorators). The output of the commands goes to stderr.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from types import FrameType
from typing import Any

import evenli
from evenli.cli import app

SOURCE = re.compile(rf"{re.escape(evenli.__path__[0])}/(.+\.py)")  # templates of pages are no modules


def entered(arguments: list[str]) -> dict[str, int]:
    """Modules with the number of their functions that a command enters."""
    found: dict[str, set[int]] = {}
    importing = [0]

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if code.co_name == "<module>":
            importing[0] += (event == "call") - (event == "return")
        elif event == "call" and not importing[0] and (module := SOURCE.match(code.co_filename)):
            found.setdefault(module[1], set()).add(code.co_firstlineno)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        with contextlib.redirect_stdout(sys.stderr), contextlib.suppress(SystemExit):
            app(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return {name: len(lines) for name, lines in found.items()}


def main() -> None:
    """Trace every command."""
    known: set[str] = set()
    for command in " ".join(sys.argv[1:]).split(" -- "):
        modules = {name: count for name, count in entered(command.split()).items() if name not in known}
        print(f"{len(modules)} {'further ' * bool(known)}modules: {command}")
        known |= modules.keys()
        print("\n".join(f"{count:5} {name}" for name, count in modules.items()))


if __name__ == "__main__":
    main()
