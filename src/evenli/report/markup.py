"""Names from models and data as text that is no markup. Needs no polars: model cards of training use it too."""

from __future__ import annotations

import json
import re
from typing import Any


def yaml_text(value: Any) -> str:
    """A JSON string, which is a YAML string: nothing in a model's name can leave its quotes.

    Two differences remain: YAML forbids some control characters that JSON allows, and does not join surrogate pairs.
    """
    quoted = json.dumps(str(value), ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", quoted)


def prose(value: Any) -> str:
    """One line of Markdown in which nothing is markup: names come from models and data."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(str(value).split()))
