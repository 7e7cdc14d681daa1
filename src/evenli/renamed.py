"""Names that changed. The old ones are deprecated and will be removed in the next release."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

OLD_SUITES = {"dev": "dev2020"}
RENAMED = {**OLD_SUITES, "standing": "published", "even": "ideal"}
"""Names of results: old to new."""


def deprecated(old: str, new: str, *, stacklevel: int = 3) -> None:
    """Warn that an old name is used; by default the line that called the caller is blamed."""
    message = f"{old} is deprecated and will be removed in the next release; use {new}"
    warnings.warn(message, DeprecationWarning, stacklevel=stacklevel)


class FormerDict:
    """A result that was a dict: its keys are its attributes now, and the old way to them still works."""

    __slots__ = ()

    def __getitem__(self, name: str) -> Any:
        """A plain value by its key; deprecated."""
        deprecated(f"{type(self).__name__}[{name!r}]", f"the attribute {name}, or to_dict()")
        return self.to_dict()[name]  # type: ignore[attr-defined]  # of the record it is mixed into


def canonical_suite(name: str) -> str:
    """The name of a suite today; an old one is warned about. One that a file holds is looked up in ``OLD_SUITES``."""
    new = OLD_SUITES.get(name, name)
    if new != name:
        deprecated(f"suite {name}", new, stacklevel=4)
    return new


def upgraded(results: Mapping[str, Any]) -> Mapping[str, Any]:
    """results.json of schema 1 with the keys of today.

    Only keys that evenli itself wrote: a user's own measure may be called ``dev`` or ``even``.
    """
    if results.get("schema") != 1:
        return results
    return {OLD_SUITES.get(key, key): _upgraded_suite(value) for key, value in results.items()}


def with_old_names(results: Mapping[str, Any]) -> dict[str, Any]:
    """results.json with the keys of version 0.1 beside those of today."""
    named = dict(results)
    for suite, value in results.items():
        if isinstance(value, Mapping) and isinstance(value.get("measures"), Mapping):
            measures = {name: {**measure, "even": measure["ideal"]} for name, measure in value["measures"].items()}
            published = {"standing": value["published"]} if "published" in value else {}
            named[suite] = {**value, **published, "measures": measures}
    return named | {old: named[new] for old, new in OLD_SUITES.items() if new in named}


def _upgraded_suite(value: Any) -> Any:
    # What holds measures is a suite; model, data and timings kept their keys.
    if not isinstance(value, Mapping) or not isinstance(value.get("measures"), Mapping):
        return value
    measures = {name: _with_key(measure, "even", "ideal") for name, measure in value["measures"].items()}
    return {**_with_key(value, "standing", "published"), "measures": measures}


def _with_key(value: Any, old: str, new: str) -> Any:
    """The same object with another name for a key; anything else as it is."""
    return {new if key == old else key: item for key, item in value.items()} if isinstance(value, Mapping) else value
