"""Ctrl-C before the command line is loaded: one line and exit code 130, as later."""

from __future__ import annotations

import os
import signal
from typing import NoReturn


def leave(number: int, frame: object) -> NoReturn:
    """End at once; nothing has been done yet, and Python would print where it was."""
    os.write(2, b"evenli: interrupted\n")
    os._exit(130)


def watch() -> None:
    """From now on; nohup and & ignore the signal, and so it stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
