"""How much a tokenizer can make of a text: the libraries in Rust end the process where the memory does not suffice.

``tokenizer.json`` may replace a letter by a thousand, three times over, or put a million markers around a pair. Both
are known before a text is tokenised: what each part makes of one character at most, multiplied, and the markers.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from evenli.core.errors import ModelError

_MOST = 256
"""Characters from one, and markers around a pair; of published tokenizers those with a table of SentencePiece make the
most of a character, 36."""
_AT_ONCE = 2_400_000  # characters that are tokenised at a time: 20,000 of our pairs where none can grow
_NESTED = ("normalizers", "pretokenizers", "processors")


def growth(tokenizer: Any) -> tuple[int, int]:
    """Characters that a tokenizer makes of one at most, and markers that it puts around a pair; too many are refused.

    The tokenizer is one of ``tokenizers`` or ``transformers``. Case and Unicode forms follow fixed tables and do not
    count; nor do tokenizers in Python, which raise an error where memory does not suffice.
    """
    tokenizer = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not hasattr(tokenizer, "encode_batch_fast"):
        return 1, 0
    factor = _factor(_state(tokenizer.normalizer)) * _factor(_state(tokenizer.pre_tokenizer))
    factor *= _copies(_state(tokenizer.post_processor))
    added = max(map(tokenizer.num_special_tokens_to_add, (True, False)))
    if factor > _MOST or added > _MOST:
        what = f"{factor:,} characters of one" if factor > _MOST else f"{added:,} tokens of an empty text"
        raise ModelError(
            f"the tokenizer can make {what}, and more than {_MOST} are not tried; look at normalizer, pre_tokenizer "
            "and post_processor in its tokenizer.json"
        )
    return factor, added


def portions(tokenizer: Any, lengths: Sequence[int]) -> Iterator[slice]:
    """Which texts or pairs of so many characters are tokenised together, so that memory is bounded."""
    factor, added = growth(tokenizer)
    sizes = np.asarray(lengths, dtype=np.int64) * factor + added
    bounds = np.flatnonzero(np.diff(np.cumsum(sizes) // _AT_ONCE)) + 1
    ends = [0, *bounds.tolist(), len(sizes)]
    yield from (slice(start, stop) for start, stop in pairwise(ends) if stop > start)


def _state(part: Any) -> dict[str, Any]:
    """A part as tokenizer.json has it; empty where there is none."""
    with contextlib.suppress(TypeError, ValueError):
        state = json.loads(part.__getstate__())
        return state if isinstance(state, dict) else {}
    return {}


def _parts(state: dict[str, Any]) -> list[dict[str, Any]]:
    return next((state[name] for name in _NESTED if name in state), [])


def _factor(state: dict[str, Any]) -> int:
    """Characters from one.

    >>> _factor({"type": "Replace", "pattern": {"String": "ab"}, "content": "xxxxx"})
    3
    >>> _factor({"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "_"}, {"type": "ByteLevel"}]})
    8
    """
    kind, factor = state.get("type"), 1
    for part in _parts(state):
        factor *= _factor(part)
    if kind == "Replace":
        text = state["pattern"].get("String", "")
        # A pattern may match nothing, between any two characters.
        return max(1, -(-len(state["content"]) // len(text))) if text else 1 + len(state["content"])
    if kind == "Prepend":
        return 1 + len(state["prepend"])
    if kind == "Precompiled":
        return _longest(base64.b64decode(state["precompiled_charsmap"]))
    return 4 if kind == "ByteLevel" else factor


def _longest(table: bytes) -> int:
    """Characters of the longest replacement in a table of SentencePiece: a trie with its size, then the texts."""
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1, *(len(text.decode("utf-8", "replace")) for text in texts))


def _copies(state: dict[str, Any]) -> int:
    """How often a template repeats a text; markers are counted by the library."""
    copies = 1
    for part in _parts(state):
        copies *= _copies(part)
    templates = (state.get("single") or [], state.get("pair") or [])
    names = ([piece["Sequence"]["id"] for piece in pieces if "Sequence" in piece] for pieces in templates)
    return copies * max((listed.count(name) for listed in names for name in listed), default=1)
