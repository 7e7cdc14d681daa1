"""Numbers as text, the same in every table (an undefined number is "n/a"), and names as text that is no markup."""

from __future__ import annotations

import json
import math
import re
from hashlib import sha256
from typing import TextIO

UNDEFINED = "n/a"
_NAME = 140  # bytes of a name that is made up; most file systems take 255, encrypted ones 143
TURNING = "".join(map(chr, [0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)]))
"""Characters that turn the direction of what follows, or end a line: a name with one of them can show another."""
_UNSEEN = {code: f"\\x{code:02x}" for code in [*range(0x20), *range(0x7F, 0xA0)]}
_UNSEEN |= {ord(character): f"\\u{ord(character):04x}" for character in TURNING}


def printable(text: str) -> str:
    r"""Text whose control characters, terminal escape sequences among them, are spelled out.

    A model or a file may be called anything; its name must not move the cursor or forge a line.

    >>> print(printable("a\x1b[2Jb"))
    a\x1b[2Jb
    """
    return text.translate(_UNSEEN)


def shortened(text: str, limit: int = 300) -> str:
    """The text, or its beginning and how long it is; a line of a corpus may hold a whole book.

    >>> shortened("abcdef", 3)
    'abc… (6 characters)'
    """
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text):,} characters)"


def drawable(text: object) -> str:
    """Text for a drawing, which characters that XML forbids would break."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(text))


def file_name(text: str) -> str:
    """A name for a file or a folder: the text, and where it is too long its beginning and a hash.

    >>> file_name("a" * 300)[128:]
    'aaa-9835fa6b'
    """
    content = text.encode()
    short = f"{content[: _NAME - 9].decode('utf-8', 'ignore')}-{sha256(content).hexdigest()[:8]}"
    return text if len(content) <= _NAME else short


def short(text: object, limit: int = 34) -> str:
    """A name as a chart shows it.

    >>> short("a long name", 6)
    'a lon…'
    """
    shown = drawable(text)
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


def capitalised(text: str) -> str:
    """A title that begins a line; capitals within it stay."""
    return text[:1].upper() + text[1:]


def number(value: float | None, digits: int = 3) -> str:
    """A number with fixed decimals.

    >>> number(0.12345), number(-0.0001), number(None), number(float("nan"))
    ('0.123', '0.000', 'n/a', 'n/a')
    """
    # Adding 0.0 turns the minus zero that rounding may leave into zero.
    return UNDEFINED if _undefined(value) else f"{round(value, digits) + 0.0:.{digits}f}"  # type: ignore[arg-type]


def signed(value: float | None, digits: int = 3) -> str:
    """A number with its sign, for differences and effects.

    >>> signed(0.5, 2), signed(-0.5, 2)
    ('+0.50', '-0.50')
    """
    text = number(value, digits)
    return text if text.startswith("-") or text == UNDEFINED else f"+{text}"


def interval(low: float | None, high: float | None, digits: int = 3, *, sign: bool = False) -> str:
    """Both ends of an interval; escape it where square brackets are markup.

    >>> interval(0.1, 0.25, 2), interval(None, None)
    ('[0.10, 0.25]', 'n/a')
    """
    if _undefined(low) or _undefined(high):
        return UNDEFINED
    show = signed if sign else number
    return f"[{show(low, digits)}, {show(high, digits)}]"


def with_interval(
    value: float | None, low: float | None, high: float | None, digits: int = 3, *, sign: bool = False
) -> str:
    """A number and behind it its interval.

    >>> with_interval(0.5, 0.1, 0.9, 2), with_interval(0.5, -0.1, 1.1, 1, sign=True)
    ('0.50 [0.10, 0.90]', '+0.5 [-0.1, +1.1]')
    """
    return f"{(signed if sign else number)(value, digits)} {interval(low, high, digits, sign=sign)}"


def p_value(p: float | None, digits: int = 3) -> str:
    """A p-value: fixed decimals, or its order of magnitude where these would show 0.

    >>> p_value(0.0432), p_value(0.00001), p_value(None)
    ('0.043', '1e-5', 'n/a')
    """
    # An exact 0 has no order of magnitude.
    if p is None or math.isnan(p) or p >= 10**-digits or p == 0:
        return number(p, digits)
    return f"{p:.0e}".replace("e-0", "e-")


def p_bound(p: float | None) -> str:
    """A p-value to four decimals, or the bound below which resampling cannot tell it from 0.

    >>> p_bound(0.0432), p_bound(0.00001)
    ('0.0432', '< 0.0001')
    """
    return "< 0.0001" if p is not None and p < 0.0001 else number(p, 4)


def percent(share: float | None, digits: int = 0) -> str:
    """A share of 1 in percent.

    >>> percent(0.953), percent(0.953, 1)
    ('95%', '95.3%')
    """
    return UNDEFINED if _undefined(share) else f"{share:.{digits}%}"


def yaml_text(value: object) -> str:
    """A JSON string, which is a YAML string: nothing in a model's name can leave its quotes.

    Two differences remain: YAML forbids some control characters that JSON allows, and does not join surrogate pairs.
    """
    quoted = json.dumps(str(value), ensure_ascii=False)
    return re.sub(r"[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]", lambda m: f"\\u{ord(m[0]):04x}", quoted)


def prose(value: object) -> str:
    """One line of Markdown in which nothing is markup: names come from models and data."""
    return re.sub(r"([\\`*_{}\[\]<>|#~])", r"\\\1", " ".join(str(value).split()))


def _undefined(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def drawn_on(stream: TextIO) -> TextIO:
    """A stream for a bar or a line that is drawn over: ours may move the cursor, which the command line's door forbids.

    Only for text of our own; what a file or a model says goes through the door, or through ``printable``.
    """
    behind: TextIO = getattr(stream, "unguarded", stream)
    return behind
