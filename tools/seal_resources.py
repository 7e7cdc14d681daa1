"""Write the SHA-256 of every resource file into the TOML card beside it.

Run after an intended change of a word list or template list; the registry test fails until then.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

DATA = Path(__file__).parents[1] / "src" / "evenli" / "words" / "data"

for path in sorted(DATA.iterdir()):
    if path.suffix not in {".csv", ".txt"}:
        continue
    card = path.with_suffix(".toml")
    if not card.is_file():
        raise SystemExit(f"{path.name} has no card {card.name}: write title, source, licence, date, limits first")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    text = re.sub(r'^sha256 = ".*"\n', "", card.read_text(encoding="utf-8"), flags=re.M)
    card.write_text(f'{text.rstrip()}\nsha256 = "{digest}"\n', encoding="utf-8")
    print(f"{digest[:12]}  {path.name}")
