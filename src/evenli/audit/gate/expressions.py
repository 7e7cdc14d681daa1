"""Conditions on results: a small language, parsed by hand and never evaluated as code.

    condition  = both ("or" both)*
    both       = negated ("and" negated)*
    negated    = "not" negated | "(" condition ")" | comparison
    comparison = operand ("<" | "<=" | ">" | ">=" | "==" | "!=") operand
    operand    = number | 'text' | "text" | true | false | field

A field is a dotted name that ``fields`` finds in results.json. Everything a condition can name is in that one flat
table, so a condition can reach nothing else.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple, get_args

from evenli.audit.results import AuditResult, SuiteResult, VerdictCode
from evenli.audit.suites.base import get_suite, judging
from evenli.core.errors import InputError
from evenli.core.io import to_plain
from evenli.core.record import Estimate, Record
from evenli.core.registry import DEFAULT_SUITE

Value = float | str | bool | None
"""What a condition can compare."""
VERDICTS: tuple[str, ...] = get_args(VerdictCode)
_NESTING = 50
_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<operator><=|>=|==|!=|<|>)
      | (?P<bracket>[()])
      | (?P<name>[^\W\d][\w-]*(?:\.[\w-]+)*)
      | (?P<unknown>\S)
    )""",
    re.VERBOSE,
)


class ConditionResult(NamedTuple):
    """Whether a condition is true (None where a value it needs is undefined), and the fields it names."""

    holds: bool | None
    values: dict[str, Value]


def evaluate(text: str, known: Mapping[str, Value]) -> ConditionResult:
    """Decide a condition on a table of fields.

    Every field is looked up, also where ``and`` or ``or`` would not need it: a misspelt name never hides, and a
    condition with an undefined value is undecided rather than false.

    >>> evaluate("default_gender.low > 0.1 and verdict == 'bias'", {"default_gender.low": 0.4, "verdict": "bias"}).holds
    True
    """
    parser = _Parser(text, known)
    holds = parser.decide()
    if not parser.values:
        raise InputError(f'the condition "{text}" names no field of the results, so it always says the same')
    return ConditionResult(None if None in parser.values.values() else holds, parser.values)


def fields(result: AuditResult, about: str = "") -> dict[str, Value]:
    """Everything a condition can name: ``verdict``, competence, and what every suite measured.

    A name of a suite is there with and without the suite before it: ``dev2020.fn_bias``, ``fn_bias``. Where several
    suites have one name, the short form is of the suite ``about``, else of the one that gave the verdict, else of the
    first. Numbers are rounded as results.json rounds them.
    """
    judge = judging(result.suites)
    about = about or (judge.name if judge else "")
    known: dict[str, Value] = {"verdict": result.verdict.code, "lang": result.lang}
    known |= {f"verdict.{name}": held for name, held in _causes(result).items()}
    known |= _walked("evidence", result.evidence)
    competence = result.competence
    for name in ("gold", "stated"):
        known |= _estimate(f"competence.{name}", getattr(competence, name, None))
    for name in ("per_label", "controls"):
        known |= _walked(f"competence.{name}", getattr(competence, name, {}))
    prefixed: dict[str, Value] = {}
    for suite, of_suite in sorted(result.suites.items(), key=lambda entry: entry[0] != about):
        own = _suite_fields(of_suite)
        # What is known already stays: the short form is of the suite that comes first.
        known = own | known
        prefixed |= {f"{suite}.{name}": value for name, value in own.items()}
    return dict(to_plain(prefixed | known))


def _causes(result: AuditResult) -> dict[str, bool | None]:
    """Whether the verdict names each cause; None where it could not: no verdict, or other suites."""
    named = {cause.name for cause in result.verdict.causes}
    # A condition on the causes of the default suite can be read on every run.
    usual = get_suite(DEFAULT_SUITE).causes
    measured = {name for of_suite in result.suites.values() for name in of_suite.measures}
    judged = result.verdict.code != "none"
    known = judged and not measured.isdisjoint(get_suite(DEFAULT_SUITE).tested)
    held: dict[str, bool | None] = {name: name in named if known else None for name in usual}
    # The first suite that judges gave the verdict; what another one would name is not known.
    judge = judging(result.suites)
    for suite in [judge, *map(get_suite, result.suites)] if judge else ():
        for name in suite.causes:
            held.setdefault(name, name in named if judged and suite is judge else None)
    return held


def _suite_fields(result: SuiteResult) -> dict[str, Value]:
    known: dict[str, Value] = {}
    for name, measure in result.measures.items():
        known |= _estimate(name, measure)
    for name, measure in result.measures.items():
        # A slice never hides a number of the measure itself, should a stereotype be called "low".
        for stereotype, estimate in measure.by_stereotype.items():
            known = _estimate(f"{name}.{stereotype}", estimate) | known
    for name, held in result.stored_fields().items():
        if name not in SuiteResult.__struct_fields__:
            known |= _walked(result.gate.get(name, name), held)
    return known


def _walked(name: str, held: Any) -> dict[str, Value]:
    """What a condition can name of a field of a result: numbers, texts, and all that mappings, records and rows hold.

    ``name`` may have places for the key of a mapping, and for the columns of a row; rows without are counted.
    """
    if held is None or isinstance(held, str | bool | int | float):
        return {name: held}
    if hasattr(held, "value"):
        return {name: held.value, f"{name}.low": held.low, f"{name}.high": held.high}
    if isinstance(held, Record):
        held = held.stored_fields()
    known: dict[str, Value] = {}
    if isinstance(held, Mapping):
        for key, entry in held.items():
            known |= _walked(name.format(key=key) if "{key}" in name else f"{name}.{key}", entry)
    elif "{" not in name:
        known[name] = len(held)
    for row in held if isinstance(held, list) and "{" in name else ():
        columns = row.stored_fields()
        if "{column}" not in name:
            known |= _walked(name.format(**columns), row)
            continue
        for column, entry in columns.items():
            known |= _walked(name.format(**{**columns, "column": column}), entry)
    return known


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Value]:
    numbers = {f"{name}.{key}": getattr(estimate, key, None) for key in ("value", "low", "high", "se", "n")}
    return {name: numbers[f"{name}.value"], **numbers}


class _Parser:
    """Recursive descent over the tokens that decides every part on the way, needed or not."""

    def __init__(self, text: str, known: Mapping[str, Value]) -> None:
        self.values: dict[str, Value] = {}
        self._text, self._known, self._depth = text, known, 0
        found = ((str(match.lastgroup), match) for match in _TOKEN.finditer(text))
        self._waiting = [(kind, match[kind], match.start(kind)) for kind, match in found]
        self._waiting.append(("end", "", len(text.rstrip())))
        unknown = next((token for token in self._waiting if token[0] == "unknown"), None)
        self._waiting.reverse()
        self._kind, self._token, self._at = unknown or self._waiting.pop()
        if unknown:
            raise self._wrong(f"cannot read {self._token!r}{'; equality is ==' * (self._token == '=')}")

    def decide(self) -> bool:
        if self._kind == "end":
            raise InputError('an empty condition; write for example "default_gender.low > 0.1"')
        holds = self._condition()
        if self._kind == "operator":
            raise self._wrong("a comparison has two sides; combine two comparisons with 'and'")
        if self._kind != "end":
            raise self._wrong(f"expected 'and', 'or' or the end, found {self._token!r}")
        return holds

    def _condition(self) -> bool:
        return self._joined("or", any, lambda: self._joined("and", all, self._negated))

    def _joined(self, word: str, join: Callable[[list[bool]], bool], part: Callable[[], bool]) -> bool:
        """A chain is a loop: a long one is not deep."""
        parts = [part()]
        while self._accept("name", word):
            parts.append(part())
        return join(parts)

    def _negated(self) -> bool:
        self._depth += 1
        if self._depth > _NESTING:
            raise self._wrong(f"more than {_NESTING} levels of 'not' and brackets")
        if self._accept("name", "not"):
            holds = not self._negated()
        elif self._accept("bracket", "("):
            holds = self._condition()
            if not self._accept("bracket", ")"):
                raise self._wrong("expected ')'")
        else:
            holds = self._comparison()
        self._depth -= 1
        return holds

    def _comparison(self) -> bool:
        left, sign = self._operand(), self._token
        if not self._accept("operator"):
            name, is_field = left
            hint = f"; write {name} == true" if is_field and isinstance(self._known.get(str(name)), bool) else ""
            raise self._wrong(f"expected a comparison ({' '.join(_OPERATORS)}), found {sign or 'the end'!r}{hint}")
        sides = left, self._operand()
        # Looked up last: what cannot be read is said before what is unknown.
        names = [side if is_field else None for side, is_field in sides]
        values = [self._look_up(str(side)) if is_field else side for side, is_field in sides]
        if None in values:
            return False  # the condition is undecided, whatever the other parts say
        # A comparison that could never be true is refused: a gate that cannot fail looks like one that passes.
        first, second = (
            "true or false" if isinstance(value, bool) else "text" if isinstance(value, str) else "a number"
            for value in values
        )
        if first != second:
            raise self._refused(f" compares {first} with {second} ({values[0]!r}, {values[1]!r})")
        if first != "a number" and sign not in {"==", "!="}:
            raise self._refused(f" orders {first}; use == or !=")
        if "verdict" in names and (wrong := [value for value in values if value not in VERDICTS]):
            raise self._refused(f": no verdict {wrong[0]!r}; there are {', '.join(VERDICTS)}")
        return bool(_OPERATORS[sign](*values))

    def _operand(self) -> tuple[Value, bool]:
        """A constant or the name of a field, and whether it is one."""
        token = self._token
        if self._kind == "number" and math.isfinite(float(token)):
            value: Value = float(token)
        elif self._kind == "text":
            value = token[1:-1]
        elif self._kind == "name" and token not in {"and", "or", "not"}:
            value = {"true": True, "false": False}.get(token)
        else:
            raise self._wrong(f"expected a field, a number or a quoted text, found {token or 'the end'!r}")
        self._accept(self._kind)
        return (token, True) if value is None else (value, False)

    def _look_up(self, name: str) -> Value:
        if name not in self._known:
            near = difflib.get_close_matches(name, self._known, n=1, cutoff=0.5)
            roots = sorted({key.partition(".")[0] for key in self._known})
            hint = f"did you mean '{near[0]}'?" if near else f"fields begin with {', '.join(roots)}"
            raise self._refused(f" names an unknown field '{name}'; {hint}")
        self.values[name] = self._known[name]
        return self.values[name]

    def _accept(self, kind: str, token: str = "") -> bool:
        """Go on to the next token if this is one of a kind, or this very one."""
        matches = self._kind == kind and token in {"", self._token}
        if matches:
            self._kind, self._token, self._at = self._waiting.pop()
        return matches

    def _wrong(self, problem: str) -> InputError:
        return InputError(f'cannot read the condition "{self._text}": {problem}, at character {self._at + 1}')

    def _refused(self, problem: str) -> InputError:
        return InputError(f'the condition "{self._text}"{problem}')
