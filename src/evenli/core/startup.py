"""What must stand before anything else is imported: no telemetry, streams of our own, and Ctrl-C in one line."""

from __future__ import annotations

import os
import signal
import sys
from typing import NoReturn

QUIET = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime looks up a host and stores a device id; its own switch comes too late
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "false",  # datasets
    "RAY_USAGE_STATS_ENABLED": "0",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "WANDB_DISABLE_SENTRY": "true",
    "WANDB_ERROR_REPORTING": "false",
}


def silence() -> None:
    """Switch the telemetry of every dependency off, for this process and those it starts: no network unless asked.

    A variable that the user has set stays: pytest imports us in every session, also in those that do not use us.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def own_streams() -> None:
    """Keep stdout and stderr for Python, once for the whole process of the command line.

    What libraries write past Python goes nowhere: the panic of one in Rust would be further lines beside ours, and the
    remarks of another hold raw text of a file. With ``--debug`` it goes to stderr. A stream that is closed becomes the
    null device.
    """
    nowhere = os.open(os.devnull, os.O_RDWR)
    for number, name in enumerate(("stdout", "stderr"), 1):
        stream = getattr(sys, name)
        if stream is None:
            os.dup2(nowhere, number)
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
            continue
        stream.flush()
        buffering = 1 if stream.line_buffering or stream.write_through else -1
        own = os.fdopen(os.dup(number), "w", buffering, stream.encoding, stream.errors)
        setattr(sys, name, own)
    os.dup2(2 if (loud := "--debug" in sys.argv) else nowhere, 1)
    if not loud:
        os.dup2(nowhere, 2)
    if nowhere > 2:  # else it took the number of a closed stream, and keeps others from it
        os.close(nowhere)


def leave(number: int, frame: object) -> NoReturn:
    """End at once with exit code 130, as later; nothing has been done yet, and Python would print where it was."""
    os.write(sys.stderr.fileno(), b"evenli: interrupted\n")
    os._exit(130)


def watch() -> None:
    """End on Ctrl-C from now on; nohup and & ignore the signal, and so it stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
