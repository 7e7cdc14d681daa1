"""Print the folder for ``--include_path``."""

from __future__ import annotations

from pathlib import Path

print(Path(__file__).parent)
