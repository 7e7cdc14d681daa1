"""For test suites: fail a test where a model is not even.

    def test_the_model_is_even():
        assert_even("checkpoints/latest", fail_if=["coal.low > 0.30", "verdict == 'bias'"])

The audit runs inside the test; where a run folder exists already, ``evenli gate`` is the cheaper way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from evenli.errors import InputError
from evenli.evaluate.audit import Audit, audit
from evenli.models import NLIModel
from evenli.report.gate import gate


def assert_even(
    model: str | NLIModel | Callable[..., Any] | None = None,
    lang: str = "en",
    fail_if: Sequence[str] = ("verdict == 'bias'",),
    **audit_kwargs: Any,
) -> Audit:
    """Audit a model and raise AssertionError where a condition holds or there is no verdict.

    Args:
        model: Anything ``evenli.audit`` takes.
        lang: Language of the audit.
        fail_if: Conditions in the language of ``evenli gate``.
        audit_kwargs: Passed on to ``evenli.audit``.

    Returns:
        The audit, for further assertions.

    >>> assert_even("fake:even").verdict.code
    'even'
    """
    __tracebackhide__ = True
    if isinstance(fail_if, str):  # refused before the audit, which may take long
        raise InputError(f"fail_if is a list of conditions; write fail_if=[{fail_if!r}]")
    result = audit(model, lang, **audit_kwargs)
    decided = gate(result, fail_if)
    if decided.passed is None:
        raise InputError(decided.problem)
    if not decided.passed:
        failed = "; ".join(f"{check.name} ({check.detail})" for check in decided.failures())
        raise AssertionError(f"{result.name}: {failed}. {result.verdict}")
    return result
