"""The pytest plug-in: a fixture ``assert_even`` and the option ``--evenli-limit``.

Every pytest session of an environment with evenli imports this module, so it imports nothing else before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evenli.audit.audit import Audit
    from evenli.audit.predictions import Predictions


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest's own."""
    group = parser.getgroup("evenli", "gender bias of language-inference models")
    group.addoption(
        "--evenli-limit", type=int, metavar="N", help="Ask at most N pairs of every suite in tests with assert_even."
    )


@pytest.fixture(scope="session")
def assert_even(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """``evenli.testing.assert_even`` that asks the same model the same pairs once in a session.

    A model is loaded each time: it is the same if its fingerprint is, and pairs are the same if their hash is.
    """
    from evenli.testing import assert_even as check

    kept: dict[str, Predictions] = {}
    limit = request.config.getoption("--evenli-limit")

    def assert_one(model: Any = None, lang: str = "en", fail_if: Sequence[str] = (), **options: Any) -> Audit:
        __tracebackhide__ = True
        if limit is not None:
            options.setdefault("limit", limit)
        # An object may change between two tests and keep its fingerprint.
        if model is None or isinstance(model, str | Path):
            options["kept"] = kept
        return check(model, lang, fail_if, **options)

    return assert_one
