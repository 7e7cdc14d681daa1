"""What must stand before anything else is imported: no telemetry of dependencies, and Ctrl-C in one line."""

from __future__ import annotations

import os
import signal
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
    """Switch the telemetry of every dependency off, for this process and those it starts: no network unless asked."""
    os.environ.update(QUIET)


def leave(number: int, frame: object) -> NoReturn:
    """End at once with exit code 130, as later; nothing has been done yet, and Python would print where it was."""
    os.write(2, b"evenli: interrupted\n")
    os._exit(130)


def watch() -> None:
    """End on Ctrl-C from now on; nohup and & ignore the signal, and so it stays."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, leave)
