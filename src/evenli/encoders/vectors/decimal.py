"""Many decimal numbers at once, each rounded exactly as ``float`` rounds it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_WIDE = 15  # bytes of a plain number without its sign: up to 15 digits, or 14 and a point
_TENS = 10.0 ** np.arange(_WIDE + 1)
_SPACE, _MINUS, _POINT, _ZERO = b" -.0"


def parse_decimals(text: bytes) -> NDArray[np.float64] | None:
    """Numbers separated by single spaces, or nothing if a field is not a number.

    A plain number of at most 15 places is an integer below 2^53 divided by a power of ten up to 10^14. Both are exact
    in float64, so the one division rounds correctly. Fields with an exponent, with more digits or of any other kind go
    to ``float``, one by one.
    """
    # Leading spaces, so that the bytes before the first fields can be looked at too.
    data = np.frombuffer(b" " * _WIDE + text + b" ", dtype=np.uint8)
    ends = np.flatnonzero(data == _SPACE)[_WIDE:]
    starts = np.empty_like(ends)
    starts[0] = _WIDE
    starts[1:] = ends[:-1] + 1
    negative = data[starts] == _MINUS
    first = starts + negative
    length = ends - first

    digits = data - np.uint8(_ZERO)  # wraps, so that only digits are below 10
    points = np.flatnonzero(data == _POINT)
    holder = np.searchsorted(ends, points)
    decimals = np.full(len(ends), -1)
    decimals[holder] = ends[holder] - 1 - points

    pointed = decimals >= 0
    odd = (length > _WIDE) | (length - pointed < 1)
    odd[holder[1:][holder[1:] == holder[:-1]]] = True
    strange = (digits > 9) & (data != _SPACE) & (data != _POINT)
    strange[starts[negative]] = False
    odd[np.searchsorted(ends, np.flatnonzero(strange))] = True

    # Column by column from the right: the units of all numbers, then their tens, as far as the longest one goes.
    whole = np.zeros(len(ends))
    digits[digits > 9] = 0
    for place in range(min(_WIDE, int(length.max()))):
        whole += np.where(length > place, digits[ends - 1 - place], 0) * _TENS[place]
    # The point took a place as a zero: what stands left of it is ten times too large.
    shift = _TENS[np.clip(decimals, 0, _WIDE)]
    left = np.floor(whole / (shift * 10))
    values: NDArray[np.float64] = np.where(pointed, whole - left * (shift * 9), whole) / shift
    np.negative(values, where=negative, out=values)
    for field in np.flatnonzero(odd):
        try:
            values[field] = float(data[starts[field] : ends[field]].tobytes())
        except ValueError:
            return None
    return values
