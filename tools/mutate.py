"""Do the tests notice when a number, a comparison or a sign is wrong? Small faults are planted and the tests run.

A sample of mutants is drawn from the places where the files of AREAS can be changed. Each one is a copy of the package
with one change, on which tests of its area run until the first failure: those that reach the changed line, as a run
without a change has shown, the quickest first, up to SECONDS of each file. What survives is printed as a diff. The
texts of errors are left as they are: the rules ask for no test of prose. Answers are kept in --results, and the same
command continues after a stop. Usage::

    python tools/mutate.py --sample 200 --seed 1
    python tools/mutate.py --sample 200 --seed 1 --survivors       # only those again, after a test was added
    python tools/mutate.py --only coal/verdict --sample 30 --json
"""

from __future__ import annotations

import argparse
import ast
import compileall
import copy
import difflib
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "evenli"
SCRATCH = ROOT / ".cache" / "mutants"
SECONDS = 20.0
"""Of tests of one file for one mutant, at most: time of the processor, which tracing makes several times longer."""
QUICK = 2.0
"""Of the quickest tests of one file, which go before those of other files."""
_WARM = ("numpy", "polars", "scipy.stats", "msgspec", "rich.console", "typer", "hypothesis", "xml.etree.ElementTree")
"""Libraries that are imported once, before the forks."""
_OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--assert=plain")

AREAS: list[tuple[str, str]] = [
    ("training/meta/sweep.py", "meta_measures meta_mixture"),
    ("encoders/leakage.py", "held_out erasers"),
    ("audit/prompting.py", "views chat measures"),
    (
        "stats/*.py",
        "corrections measures causes probe_measures groups intervals compare audit swap_suite wordings competence",
    ),
    ("audit/suites/dev2020.py", "measures audit datasets suites"),
    ("audit/suites/coal/measures.py", "causes measures audit suites verdict lists wordings"),
    ("audit/suites/coal/results.py", "readings measures causes verdict suites lists summary"),
    ("audit/suites/coal/verdict.py", "readings verdict misled measures summary lists groups wordings"),
    ("audit/suites/coal/single_jobs.py", "readings misled verdict measures"),
    ("audit/suites/coal/__init__.py", "audit lists misled"),
    ("audit/suites/swap.py", "swap_suite audit suites"),
    ("audit/suites/probe/measures.py", "probe_measures audit suites"),
    ("audit/suites/groups/measures.py audit/suites/groups/results.py", "groups audit axes summary"),
    ("audit/suites/coal/screen.py", "readings summary verdict"),
    ("audit/suites/groups/verdict.py", "groups axes summary"),
    ("audit/suites/robust/stability.py audit/suites/robust/verdict.py", "stability wordings"),
    ("audit/suites/robust/curve.py", "wordings audit stability"),
    ("audit/gate/*.py", "gate audit verdict competence lists"),
    ("audit/assess.py", "competence audit verdict misled measures views chat suites"),
    ("audit/suites/checks.py words/templates.py", "competence audit verdict resources datasets measures"),
    ("audit/compare.py audit/differences.py", "audit compare wordings lists"),
]
"""Which tests judge which files: patterns below the package, and test files, the likeliest to notice first.

The first pattern that fits a file counts.
"""

EQUIVALENT: dict[str, str] = {
    "squares, df = np.zeros((3, 1, 1)), np.ones(4)": "the fourth is not read",
    "share = (value - entry.low) / sizes if np.isfinite(sizes).any() and not paired else np.array([math.nan])": "one",
    "values = left_out[-1] if len(left_out) == 1 else left_out[1] - left_out[0]": "one sample",
    "terms = Terms(share, sizes, covariance, np.zeros(1, dtype=np.int64), np.zeros((0, 2)), np.array([np.inf]))": "0",
    "kinds = [(NO_STEREOTYPE if not subset == NS else STEREOTYPED) for subset in subsets]": "exchanged names",
    "(_, other), (group, noun) = group_nouns(result.readings)[:: 1 if (measured.value >= 0) else -1]": "never 0",
    "return n > 0 and hits / n >= COMPETENT and bool((binomtest(hits, n, 1 / 3, alternative='greater').pvalue <= "
    "BY_CHANCE))": "never equal",
    "values[usable] = np.clip((y @ x) / np.sqrt((x @ x) * (y * y).sum(axis=1), dtype=np.float64), -2, 1)": "rounding",
    "first = items(sample).rows[1]": "the rows of an item are of one word and one sentence",
    "return values[-1] if sample.weights is None or sample.weights.ndim == 1 else values": "one row",
    "summed = part @ chosen.astype(np.float32, copy=True)": "copies",
    "further += (between(shuffled) > found - 1e-09)": "never equal",
    "slope = np.asarray(np.where((spread >= 1e-06 * xx), (xy - x * y) / spread, np.nan), dtype=np.float64)": "0 / 0",
    "first, second = np.triu_indices(levels.size, k=0)": "a value does not differ from itself",
    "usable = ~(np.isnan(rows).all(axis=1) | _is_constant(rows))": "a row with a NaN gives NaN in either case",
    "size = np.maximum(1.0, np.abs(rows).min(axis=1))": "in a row that is constant both ends are alike",
    "slope = np.asarray(np.where(spread > 5e-07 * xx, (xy - x * y) / spread, np.nan), dtype=np.float64)": "rounding",
    "which = chosen if asked is None else np.asarray(asked, dtype=np.int64).reshape(-2)": "numpy reads it as -1",
    "slope = float(x @ ((curve.mean + curve.mean.mean())) / (x @ x) / curve.span)": "x is centred",
    "together = int(((np.diff(pairs) == 0)).sum()) + 1 == len(np.unique(pairs))": "spares a copy",
    "if better < 0.2 or right[best].mean() < 0.5 or (binomtest(gained, gained + lost).pvalue > 0.001):": "never equal",
    "design = samples[-1].design": "both samples have the same rows",
    "value = float(correlations(curve.levels, curve.mean[None], statistic)[-1])": "one row",
    "varies = (np.ptp(levels, axis=0) >= _SAME)": "never equal",
    "return np.full(() if self.weights is None else self.weights.shape[:1], np.nan)": "weightings have one axis",
    "near = difflib.get_close_matches(name, self._known, n=2, cutoff=0.5)": "only the first is shown",
    "moved = (np.abs(np.diff(sample.probabilities[rows], axis=0)[0]).sum(axis=1) * 2)": "only their order counts",
    'of_item = frame.select(pl.col("occupation", "stereotype").fill_null(""))[matched[-1]]': "partners have one word",
    "return np.asarray(np.where((total >= 0), summed / total, np.nan), dtype=np.float64)": "0 / 0 is NaN already",
    "return True  # the condition is undecided, whatever the other parts say": "so it is",
    "_DIGITS = 11": "rounding",
    "for seed in generator.integers((2 * 31), size=_STARTS):": "other seeds",
    "follows = (measured.value >= 0)": "a cause is never 0",
}
"""Mutants that change nothing anyone can see: the changed line, and why. They do not count."""

_SWAPPED: dict[type, type] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_RENAMED = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any"}
_DECLARED = {"frozen", "eq", "slots", "kw_only", "strict"}
"""Keywords that guard against mistakes and change no result."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file."""

    file: str
    line: int
    kind: str
    text: str
    """The whole file, changed."""
    reached_by: tuple[int, int] | None
    """First and last line of the statement; None where it runs when the file is imported."""

    @property
    def name(self) -> str:
        """Where it is."""
        return f"{self.file}:{self.line}"

    @property
    def key(self) -> str:
        """The change, wherever in the file it stands."""
        return "\n".join([self.file, *self.diff()])

    @property
    def reason(self) -> str | None:
        """Why nobody can see it, if so."""
        return next((EQUIVALENT[row[1:].strip()] for row in self.diff() if row[1:].strip() in EQUIVALENT), None)

    def diff(self) -> list[str]:
        """The lines that go and come."""
        before = (PACKAGE / self.file).read_text(encoding="utf-8").splitlines()
        rows = list(difflib.unified_diff(before, self.text.splitlines(), n=0, lineterm=""))[3:]
        return [row for row in rows if row[:1] in "+-"]


def mutants(file: Path) -> Iterator[list[Mutant]]:
    """For each place of a file that can be changed, the changes."""
    source = file.read_text(encoding="utf-8")
    tree = ast.parse(source)
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    for node, formatted, lines in _places(tree):
        # Until Python 3.12 the parts of a formatted string have no position of their own: the string is written anew.
        anchor = formatted or node
        begin = starts[anchor.lineno - 1] + anchor.col_offset
        end = starts[anchor.end_lineno - 1] + anchor.end_col_offset
        found = []
        for kind, changed in _changes(node):
            try:
                text = ast.unparse(_replaced(anchor, node, changed))
            except ValueError:  # quotes that cannot be nested
                continue
            simple = isinstance(changed, ast.Constant | ast.Name | ast.Attribute | ast.stmt) or anchor is formatted
            text = text if simple else f"({text})"
            whole = source.encode()
            whole = whole[:begin] + text.encode() + whole[end:]
            name = file.relative_to(PACKAGE).as_posix()
            found.append(Mutant(name, anchor.lineno, kind, whole.decode(), lines))
        if found:
            yield found


_Lines = tuple[int, int] | None


def _places(
    node: ast.AST, formatted: ast.AST | None = None, lines: _Lines = None, inside: bool = False
) -> Iterator[tuple[ast.AST, ast.AST | None, _Lines]]:
    """Every node that may be changed, with the formatted string around it and the lines of its statement."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"}:
            continue
        within = inside or (isinstance(node, ast.FunctionDef) and field == "body")
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise):
                continue
            if isinstance(child, ast.keyword) and child.arg in _DECLARED:
                continue
            if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
                continue
            around = formatted or (child if isinstance(child, ast.JoinedStr) else None)
            here = lines
            if isinstance(child, ast.stmt) and within:
                body = getattr(child, "body", None)
                here = child.lineno, max(child.lineno, body[0].lineno - 1) if body else child.end_lineno
            if isinstance(child, ast.expr | ast.Return) and child is not around:
                yield child, around, here
            # The width and digits of a format are no logic.
            if not (isinstance(node, ast.FormattedValue) and field == "format_spec"):
                yield from _places(child, around, here, within)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    match node:
        case ast.Compare():
            for at, operator in enumerate(node.ops):
                if type(operator) in _SWAPPED:
                    changed = copy.deepcopy(node)
                    changed.ops[at] = _SWAPPED[type(operator)]()
                    yield "comparison", changed
        case ast.BinOp() | ast.BoolOp() if type(node.op) in _SWAPPED:
            changed = copy.deepcopy(node)
            changed.op = _SWAPPED[type(node.op)]()
            yield "arithmetic" if isinstance(node, ast.BinOp) else "and/or", changed
        case ast.UnaryOp(op=ast.Not() | ast.USub()):
            yield "dropped sign", copy.deepcopy(node.operand)
        case ast.Constant(value=bool()):
            yield "constant", ast.Constant(not node.value)
        case ast.Constant(value=int()):
            yield from (("constant", ast.Constant(node.value + by)) for by in (1, -1))
        case ast.Constant(value=float()):
            inside = 0 < node.value < 1
            for value in (round(1 - 0.3 * (1 - node.value), 6), node.value / 2) if inside else (node.value + 1,):
                yield "constant", ast.Constant(value)
        case ast.Name(id=name) if name in _RENAMED:
            yield "min/max", ast.Name(_RENAMED[name])
        case ast.Attribute(attr=name) if name in _RENAMED:
            yield "min/max", ast.Attribute(copy.deepcopy(node.value), _RENAMED[name])
        case ast.IfExp():
            yield "negation", ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
        case ast.Return(value=ast.expr()) if not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield "return", ast.Return(ast.Constant(None))


def _replaced(anchor: ast.AST, node: ast.AST, changed: ast.AST) -> ast.AST:
    """The anchor with one node replaced."""
    if anchor is node:
        return ast.fix_missing_locations(changed)

    class Replace(ast.NodeTransformer):
        def visit(self, visited: ast.AST) -> ast.AST:
            return changed if visited is node else self.generic_visit(visited)

    # A transformer works in place; the node is found by identity, so the copy shares the memo of what to look for.
    memo: dict[int, ast.AST] = {id(node): node}
    return Replace().visit(copy.deepcopy(anchor, memo))


def drawn(sample: int, seed: int, only: str) -> list[Mutant]:
    """So many mutants of all areas, each place as likely as another."""
    places = [found for file in sorted(areas()) if only in file for found in mutants(PACKAGE / file)]
    generator = random.Random(seed)
    chosen = generator.sample(places, min(sample, len(places)))
    return [generator.choice(found) for found in chosen]


class Reached:
    """A pytest plugin: which tests reach which lines of some files, and how long each test takes."""

    def __init__(self, folder: Path, files: Sequence[str]) -> None:
        self._names = {str(folder / "evenli" / file): file for file in files}
        self.tests: dict[str, set[str]] = {}
        self.seconds: dict[str, float] = {}

    def _traced(self, name: str) -> Iterator[None]:
        lines: set[tuple[str, int]] = set()

        def line(frame: FrameType, event: str, _: object) -> object:
            lines.add((frame.f_code.co_filename, frame.f_lineno))
            return line

        sys.settrace(lambda frame, event, _: line if frame.f_code.co_filename in self._names else None)
        begun = time.process_time()
        yield
        sys.settrace(None)
        self.seconds[name] = self.seconds.get(name, 0) + time.process_time() - begun
        for file, number in lines:
            self.tests.setdefault(f"{self._names[file]}:{number}", set()).add(name)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        """A fixture serves all tests of a file."""
        yield from self._traced(item.nodeid.split("::")[0])

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """The test itself."""
        yield from self._traced(item.nodeid)

    def keep(self, file: Path) -> None:
        """Write what was found."""
        tests = {line: sorted(names) for line, names in self.tests.items()}
        file.write_text(json.dumps({"tests": tests, "seconds": self.seconds}), encoding="utf-8")


@dataclass(frozen=True)
class Chosen:
    """A pytest plugin: these tests, in this order."""

    names: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out and sort."""
        known = {item.nodeid: item for item in items}
        items[:] = [known[name] for name in self.names]


def tests_for(mutant: Mutant, runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The tests that may notice a mutant: the quickest of every file, then the others file by file."""
    quick: list[str] = []
    others: list[str] = []
    for run in runs:
        seconds = {name: spent for name, spent in run["seconds"].items() if "::" in name}
        found = set(seconds)
        if mutant.reached_by:
            first, last = mutant.reached_by
            found = {name for at in range(first, last + 1) for name in run["tests"].get(f"{mutant.file}:{at}", ())}
        # Any test of a file that reaches the line may notice, by what a fixture holds or an earlier test has left in a
        # cache; those that reach it themselves go first.
        for part in (found & set(seconds), set(seconds) - found if found else set()):
            total = 0.0
            for name in sorted(part, key=seconds.__getitem__):
                total += seconds[name]
                if total > SECONDS and (quick or others):
                    break
                (quick if total < QUICK and name in found else others).append(name)
    return quick + others


@dataclass(frozen=True)
class Run:
    """Tests on one copy of the package, in a process of their own."""

    child: int
    folder: Path
    subject: Any

    @classmethod
    def start(cls, subject: Any, number: int, tests: Sequence[str], limit: int) -> Run:
        """A fork, which has the libraries imported already; the package itself it imports from the copy."""
        folder = SCRATCH / str(number)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(PACKAGE, folder / "evenli", copy_function=os.link)
        if isinstance(subject, Mutant):
            file = folder / "evenli" / subject.file
            for old in (file, *file.parent.glob(f"__pycache__/{file.stem}.*.pyc")):
                old.unlink()
            file.write_text(subject.text, encoding="utf-8")
        child = os.fork()
        if not child:
            _test(folder, tests, subject, limit)
        return cls(child, folder, subject)

    def answer(self) -> str:
        """Empty while the tests run; one that takes too long is stopped, and counts as noticed."""
        done, status = os.waitpid(self.child, os.WNOHANG)
        if not done:
            return ""
        return "killed" if os.waitstatus_to_exitcode(status) else "survived"


def _test(folder: Path, tests: Sequence[str], subject: Any, limit: int) -> NoReturn:
    code = 99
    try:
        # Time of the processor, not of the clock: on a busy machine nothing must count as noticed for that.
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
        signal.alarm(20 * limit)  # for what waits for ever
        output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT)
        for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
            os.dup2(target, stream)
        os.chdir(ROOT)
        os.environ["PYTHONPATH"] = str(folder)
        # What is compiled of a mutant must not be taken for the next one.
        if isinstance(subject, Mutant):
            os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
            sys.dont_write_bytecode = True
        sys.path.insert(0, str(folder))
        if not isinstance(subject, Mutant):
            plugin = Reached(folder, subject[1])
            code = int(pytest.main([*_OPTIONS, *tests], plugins=[plugin]))
            plugin.keep(folder / "reached.json")
        else:
            # One file after the other: most mutants die in the first, and the others need not be imported.
            for file, names in itertools.groupby(tests, key=lambda name: name.split("::")[0]):
                if code := int(pytest.main([*_OPTIONS, file], plugins=[Chosen(list(names))])):
                    break
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ran(starts: Sequence[Callable[[], Run]], jobs: int) -> Iterator[tuple[Run, str]]:
    """Some processes at a time, and how each ended."""
    waiting, running = list(starts), list[Run]()
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(waiting.pop(0)())
        time.sleep(0.05)
        for one in list(running):
            if answer := one.answer():
                running.remove(one)
                yield one, answer


def areas() -> dict[str, tuple[str, ...]]:
    """Test files by the file of the package that they judge."""
    judged: dict[str, tuple[str, ...]] = {}
    for patterns, names in AREAS:
        tests = [next((ROOT / "tests").rglob(f"test_{name}.py")).relative_to(ROOT).as_posix() for name in names.split()]
        for pattern in patterns.split():
            files = sorted(PACKAGE.glob(pattern))
            if not files:
                raise SystemExit(f"no file of the package fits {pattern}; correct AREAS")
            for file in files:
                judged.setdefault(file.relative_to(PACKAGE).as_posix(), tuple(tests))
    return judged


def reached(tests: Sequence[str], jobs: int) -> dict[str, dict[str, Any]]:
    """What each test file reaches, from a run without a mutant; kept as long as neither tests nor files change."""
    files = sorted(areas())
    texts = b"".join((PACKAGE / file).read_bytes() for file in files)
    known = {
        test: SCRATCH / f"{hashlib.sha256((ROOT / test).read_bytes() + texts).hexdigest()[:16]}.json" for test in tests
    }
    left = [test for test in tests if not known[test].is_file()]
    starts = [partial(Run.start, (test, files), -at, [test], 3600) for at, test in enumerate(left, 1)]
    for control, answer in ran(starts, jobs):
        test, _ = control.subject
        if answer != "survived":
            raise SystemExit(f"{test} fails without a mutant, see {control.folder / 'output.txt'}")
        shutil.copy(control.folder / "reached.json", known[test])
        shutil.rmtree(control.folder)
        print("run without a mutant:", test, file=sys.stderr)
    return {test: json.loads(file.read_text(encoding="utf-8")) for test, file in known.items()}


def run(chosen: Sequence[Mutant], results: Path, jobs: int) -> None:
    """Run the tests for every mutant and append the answers to a file."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    tests_of = areas()
    lines = reached(sorted({test for one in chosen for test in tests_of[one.file]}), jobs)
    starts = []
    for number, mutant in enumerate(chosen):
        runs = [lines[test] for test in tests_of[mutant.file]]
        # What no test reaches may run when a file of tests is read, and any test may notice that.
        tests = tests_for(mutant, runs) or tests_for(replace(mutant, reached_by=None), runs)
        starts.append(partial(Run.start, mutant, number, tests, 60 + int(len(runs) * SECONDS)))
    for number, (one, answer) in enumerate(ran(starts, jobs), 1):
        _keep(one.subject, answer, results)
        shutil.rmtree(one.folder)
        print(f"{number} of {len(starts)}: {one.subject.name} {answer}", file=sys.stderr)


def _keep(mutant: Mutant, answer: str, results: Path) -> None:
    with results.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"key": mutant.key, "answer": answer}) + "\n")


def _stored(results: Path) -> dict[str, str]:
    """The last answer for each mutant."""
    rows = results.read_text(encoding="utf-8").splitlines() if results.is_file() else []
    return {row["key"]: row["answer"] for row in map(json.loads, rows)}


def summary(chosen: Sequence[Mutant], answers: Mapping[str, str]) -> dict[str, Any]:
    """How many died, in all and by file, and what survived."""
    judged = [one for one in chosen if one.reason is None]
    survivors = [one for one in judged if answers[one.key] == "survived"]
    by_file = {
        file: [sum(one.file == file for one in part) for part in (survivors, judged)]
        for file in sorted({one.file for one in judged})
    }
    return {
        "mutants": len(judged),
        "killed": len(judged) - len(survivors),
        "share": 1 - len(survivors) / len(judged) if judged else None,
        "equivalent": [{"mutant": one.name, "diff": one.diff(), "reason": one.reason} for one in chosen if one.reason],
        "survivors": [{"mutant": one.name, "diff": one.diff()} for one in survivors],
        "survived_of_file": by_file,
    }


def main() -> None:
    """Draw, run, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=200, help="how many mutants")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="files whose path contains this")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--results", type=Path, default=ROOT / ".cache" / "mutants.jsonl", help="answers that are kept")
    parser.add_argument("--survivors", action="store_true", help="run again what survived")
    parser.add_argument("--show", action="store_true", help="print the mutants; run nothing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    chosen = drawn(options.sample, options.seed, options.only)
    if options.show:
        for one in chosen:
            print(f"{one.name} ({one.kind})", *one.diff(), sep="\n")
        return
    before = {
        key: answer for key, answer in _stored(options.results).items() if answer != "survived" or not options.survivors
    }
    compileall.compile_dir(PACKAGE, quiet=2)
    for name in _WARM:
        importlib.import_module(name)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    run([one for one in chosen if one.key not in before and one.reason is None], options.results, options.jobs)
    found = summary(chosen, _stored(options.results))
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for row in found["survivors"]:
        print(row["mutant"], *row["diff"], "", sep="\n")
    print(
        f"{found['killed']} of {found['mutants']} mutants died ({found['share']:.1%}); "
        f"{len(found['equivalent'])} equivalent ones do not count"
    )


if __name__ == "__main__":
    main()
