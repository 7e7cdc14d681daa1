"""The pytest plug-in: a fixture ``assert_even`` and the option ``--evenli-limit``.

Every pytest session of an environment with evenli imports this module, so it imports nothing else before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from evenli.audit.audit import Audit


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option to pytest's own."""
    group = parser.getgroup("evenli", "gender bias of language-inference models")
    group.addoption(
        "--evenli-limit", type=int, metavar="N", help="Ask at most N pairs of every suite in tests with assert_even."
    )


@pytest.fixture(scope="session")
def assert_even(request: pytest.FixtureRequest) -> Callable[..., Audit]:
    """``evenli.testing.assert_even`` that audits the same model once in a session, whatever is asserted about it."""
    from evenli.testing import assert_even as check
    from evenli.testing import audited

    finished: dict[str, Audit] = {}
    limit = request.config.getoption("--evenli-limit")

    def assert_one(model: Any = None, lang: str = "en", fail_if: Sequence[str] = (), **options: Any) -> Audit:
        __tracebackhide__ = True
        rules = {name: options.pop(name, None) for name in ("policy", "baseline")}
        if limit is not None:
            options.setdefault("limit", limit)
        # Only a spec names a model for good; an object may change between two tests.
        key = repr((model, lang, sorted(options.items()))) if model is None or isinstance(model, str) else ""
        audit = finished.get(key) or audited(model, lang, options)
        if key:
            finished[key] = audit
        return check(audit, fail_if=fail_if, **rules)

    return assert_one
