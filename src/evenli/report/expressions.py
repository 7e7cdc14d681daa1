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
import operator
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from evenli.errors import InputError
from evenli.io import to_plain
from evenli.suites.base import Value, get_suite
from evenli.types import RENAMED, AuditResult, Estimate, SuiteResult, VerdictCode

VERDICTS: tuple[str, ...] = get_args(VerdictCode)
_NESTING = 50
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
      | (?P<text>'[^']*'|"[^"]*")
      | (?P<operator><=|>=|==|!=|<|>)
      | (?P<bracket>[()])
      | (?P<name>[^\W\d][\w-]*(?:\.[\w-]+)*)
    )""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Outcome:
    """A condition on one set of results.

    Attributes:
        holds: Whether it is true; None where a value it needs is undefined.
        values: The fields it names.
    """

    holds: bool | None
    values: dict[str, Value]


@dataclass(frozen=True)
class Constant:
    """A number, a text or a truth value."""

    value: float | str | bool


@dataclass(frozen=True)
class Field:
    """A dotted name."""

    name: str


@dataclass(frozen=True)
class Comparison:
    """Two operands and what is asked of them."""

    left: Constant | Field
    sign: str
    right: Constant | Field


@dataclass(frozen=True)
class Not:
    """The opposite."""

    inner: Node


@dataclass(frozen=True)
class Joined:
    """All (``and``) or any (``or``) of several; flat, so that a long chain is not a deep tree."""

    word: str
    parts: tuple[Node, ...]


Node = Comparison | Not | Joined


def parse(text: str) -> Node:
    """Read a condition.

    >>> parse("coal.low > 0.30")
    Comparison(left=Field(name='coal.low'), sign='>', right=Constant(value=0.3))
    """
    return _Parser(text).whole()


def evaluate(text: str, known: Mapping[str, Value]) -> Outcome:
    """Decide a condition on a table of fields.

    Every field is looked up, also where ``and`` or ``or`` would not need it: a misspelt name never hides, and a
    condition with an undefined value is undecided rather than false.

    >>> evaluate("coal.low > 0.30 and verdict == 'bias'", {"coal.low": 0.4, "verdict": "bias"}).holds
    True
    """
    node = parse(text)
    values = {name: _look_up(name, known, text) for name in _names(node)}
    if not values:
        raise InputError(f'the condition "{text}" names no field of the results, so it always says the same')
    _check_kinds(node, values, text)
    holds = None if None in values.values() else _decide(node, values)
    return Outcome(holds, values)


def fields(result: AuditResult) -> dict[str, Value]:
    """Everything a condition can name: ``verdict``, competence, and what every suite measured.

    A name of a suite is there with and without the suite before it: ``dev2020.fn_bias``, ``fn_bias``. Where several
    suites have one name, the short form means the first of them. Numbers are rounded as results.json rounds them.
    """
    known: dict[str, Value] = {"verdict": result.verdict.code, "lang": result.lang}
    competence = result.competence
    for name in ("gold", "stated"):
        known |= _estimate(f"competence.{name}", getattr(competence, name, None))
    if competence is not None:
        known |= {f"competence.per_label.{name}": share for name, share in competence.per_label.items()}
        known |= {f"competence.controls.{name}": share for name, share in competence.controls.items()}
    prefixed: dict[str, Value] = {}
    for suite, of_suite in result.suites.items():
        own = _suite_fields(suite, of_suite)
        known = own | known
        prefixed |= {f"{suite}.{name}": value for name, value in own.items()}
    return dict(to_plain(prefixed | known))


def _suite_fields(suite: str, result: SuiteResult) -> dict[str, Value]:
    known: dict[str, Value] = {}
    for name, measure in result.measures.items():
        known |= _estimate(name, measure)
    for name, measure in result.measures.items():
        for stereotype, estimate in measure.by_stereotype.items():
            known = _estimate(f"{name}.{stereotype}", estimate) | known
    return {**known, **get_suite(suite).fields(result)}


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Value]:
    numbers = {f"{name}.{key}": getattr(estimate, key, None) for key in ("value", "low", "high", "se", "n")}
    return {name: numbers[f"{name}.value"], **numbers}


class _Parser:
    """Recursive descent over a list of tokens."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = self._tokenise(text)
        self._next = 0
        self._depth = 0

    def whole(self) -> Node:
        if len(self._tokens) == 1:
            raise InputError('an empty condition; write for example "coal.low > 0.30"')
        node = self._condition()
        kind, token, column = self._tokens[self._next]
        if kind == "operator":
            raise self._wrong("a comparison has two sides; combine two comparisons with 'and'", column)
        if kind != "end":
            raise self._wrong(f"expected 'and', 'or' or the end, found {token!r}", column)
        return node

    def _condition(self) -> Node:
        parts = [self._both()]
        while self._word("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else Joined("or", tuple(parts))

    def _both(self) -> Node:
        parts = [self._negated()]
        while self._word("and"):
            parts.append(self._negated())
        return parts[0] if len(parts) == 1 else Joined("and", tuple(parts))

    def _negated(self) -> Node:
        self._depth += 1
        if self._depth > _NESTING:
            raise self._wrong(f"more than {_NESTING} levels of 'not' and brackets", self._tokens[self._next][2])
        if self._word("not"):
            node: Node = Not(self._negated())
        elif self._bracket("("):
            node = self._condition()
            if not self._bracket(")"):
                raise self._wrong("expected ')'", self._tokens[self._next][2])
        else:
            node = self._comparison()
        self._depth -= 1
        return node

    def _comparison(self) -> Node:
        left = self._operand()
        kind, token, column = self._tokens[self._next]
        if kind != "operator":
            raise self._wrong(f"expected a comparison ({' '.join(_OPERATORS)}), found {token or 'the end'!r}", column)
        self._next += 1
        return Comparison(left, token, self._operand())

    def _operand(self) -> Constant | Field:
        kind, token, column = self._tokens[self._next]
        self._next += 1
        if kind == "number" and math.isfinite(float(token)):
            return Constant(float(token))
        if kind == "text":
            return Constant(token[1:-1])
        if kind == "name" and token in {"true", "false"}:
            return Constant(token == "true")
        if kind == "name" and token not in {"and", "or", "not"}:
            return Field(token)
        raise self._wrong(f"expected a field, a number or a quoted text, found {token or 'the end'!r}", column)

    def _word(self, word: str) -> bool:
        return self._accept("name", word)

    def _bracket(self, bracket: str) -> bool:
        return self._accept("bracket", bracket)

    def _accept(self, kind: str, token: str) -> bool:
        found = self._tokens[self._next][:2] == (kind, token)
        self._next += found
        return found

    def _tokenise(self, text: str) -> list[tuple[str, str, int]]:
        tokens, position, end = [], 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                start = position + len(text[position:]) - len(text[position:].lstrip())
                hint = "; equality is ==" if text[start] == "=" else ""
                raise self._wrong(f"cannot read {text[start]!r}{hint}", start)
            tokens.append((match.lastgroup, match[match.lastgroup], match.start(match.lastgroup)))
            position = match.end()
        return [*tokens, ("end", "", end)]

    def _wrong(self, problem: str, column: int) -> InputError:
        return InputError(f'cannot read the condition "{self._text}": {problem}, at character {column + 1}')


def _names(node: Node) -> list[str]:
    if isinstance(node, Not):
        return _names(node.inner)
    if isinstance(node, Joined):
        return [name for part in node.parts for name in _names(part)]
    return [side.name for side in (node.left, node.right) if isinstance(side, Field)]


def _look_up(name: str, known: Mapping[str, Value], text: str) -> Value:
    if name in known:
        return known[name]
    # Names of results changed with schema 2; a condition written before still finds them.
    renamed = ".".join(RENAMED.get(part, part) for part in name.split("."))
    if renamed in known:
        message = f"'{name}' in a condition is now called '{renamed}'; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return known[renamed]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    roots = sorted({key.partition(".")[0] for key in known})
    hint = f"did you mean '{near[0]}'?" if near else f"fields begin with {', '.join(roots)}"
    raise InputError(f"the condition \"{text}\" names an unknown field '{name}'; {hint}")


def _check_kinds(node: Node, values: Mapping[str, Value], text: str) -> None:
    """Refuse comparisons that could never be true: a gate that cannot fail looks like one that passes."""
    if isinstance(node, Not | Joined):
        for part in node.parts if isinstance(node, Joined) else (node.inner,):
            _check_kinds(part, values, text)
        return
    sides = [values[s.name] if isinstance(s, Field) else s.value for s in (node.left, node.right)]
    if None in sides:
        return
    kinds = [_kind(side) for side in sides]
    if kinds[0] != kinds[1]:
        raise InputError(f'the condition "{text}" compares {kinds[0]} with {kinds[1]} ({sides[0]!r}, {sides[1]!r})')
    if kinds[0] != "a number" and node.sign not in {"==", "!="}:
        raise InputError(f'the condition "{text}" orders {kinds[0]}; use == or !=')
    if Field("verdict") in (node.left, node.right):
        for side in (node.left, node.right):
            if isinstance(side, Constant) and side.value not in VERDICTS:
                raise InputError(f'the condition "{text}": no verdict {side.value!r}; there are {", ".join(VERDICTS)}')


def _kind(value: Value) -> str:
    return "true or false" if isinstance(value, bool) else "text" if isinstance(value, str) else "a number"


def _decide(node: Node, values: Mapping[str, Value]) -> bool:
    if isinstance(node, Not):
        return not _decide(node.inner, values)
    if isinstance(node, Joined):
        join = all if node.word == "and" else any
        return join(_decide(part, values) for part in node.parts)
    left, right = (values[s.name] if isinstance(s, Field) else s.value for s in (node.left, node.right))
    return bool(_OPERATORS[node.sign](left, right))
