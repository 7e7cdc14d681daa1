"""For test suites: fail a test where a model does not pass the gate.

    def test_the_model_is_even():
        assert_even("checkpoints/latest")

The audit runs inside the test; where a run folder exists already, give that instead, or use ``evenli gate``. pytest has
a fixture of the same name, which keeps the answers of a model for the whole session.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from evenli.audit.audit import Audit, audit, is_run
from evenli.audit.gate import gate
from evenli.audit.models import NLIModel
from evenli.audit.verify import load_verified
from evenli.core.errors import InputError


def assert_even(
    model: str | Path | NLIModel | Callable[..., Any] | Audit | None = None,
    lang: str = "en",
    fail_if: Sequence[str] = (),
    *,
    policy: str | Path | None = None,
    baseline: str | Path | Audit | None = None,
    **audit_kwargs: Any,
) -> Audit:
    """Audit a model and raise AssertionError where it does not pass the gate.

    Args:
        model: Anything ``evenli.audit`` takes, a run folder, or a finished audit.
        lang: Language of the audit.
        fail_if: Conditions in the language of ``evenli gate``.
        policy: A policy as ``evenli gate --policy`` takes it; default ``standard``, or none with ``fail_if``.
        baseline: An older run on the same data to compare with.
        audit_kwargs: Passed on to ``evenli.audit``.

    Returns:
        The audit, for further assertions.

    >>> assert_even("fake:even").verdict.code
    'even'
    """
    __tracebackhide__ = True
    if isinstance(fail_if, str):  # refused before the audit, which may take long
        raise InputError(f"fail_if is a list of conditions; write fail_if=[{fail_if!r}]")
    if isinstance(model, Audit):
        result = model
    elif is_run(model):
        result = load_verified(model)
    else:
        result = audit(str(model) if isinstance(model, Path) else model, lang, **audit_kwargs)
    decided = gate(result, fail_if, baseline, policy=policy)
    if decided.passed is None:
        raise InputError(decided.problem)
    if not decided.passed:
        failed = "".join(f"\n- {check.name}: {check.detail}" for check in decided.failures())
        raise AssertionError(f"{result.name} does not pass the gate. {result.verdict}{failed}")
    return result
