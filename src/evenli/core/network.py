"""No network unless the user asks for it: settings of dependencies that must stand before they are imported."""

from __future__ import annotations

import os

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
    """Switch the telemetry of every dependency off, for this process and those it starts."""
    os.environ.update(QUIET)
