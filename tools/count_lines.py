"""Lines of src/evenli by room: its top folders, and its modules outside of them together.

python tools/count_lines.py
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src" / "evenli"


def main() -> None:
    """Print a line per room, the smallest first, and the sum."""
    rooms: Counter[str] = Counter()
    for file in SOURCE.rglob("*.py"):
        room = file.relative_to(SOURCE).parts[0]
        rooms["." if file.parent == SOURCE else room] += len(file.read_text(encoding="utf-8").splitlines())
    for room, lines in [*sorted(rooms.items(), key=lambda item: item[1]), ("all", rooms.total())]:
        print(f"{lines:7,}  {room}")


if __name__ == "__main__":
    main()
