"""Data flows one way through the house."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evenli
from evenli.suites.base import get_suite

SOURCE = Path(evenli.__file__).parent
ORDER = [
    "errors",
    "labels",
    "format",
    "_version",
    "_network",
    "_interrupt",
    "_callable",
    "_extras",
    "_temporary",
    "parse",
    "binary",
    "io",
    "page",
    "drawing",
    "store",
    "registry",
    "record",
    "types",
    "pairs",
    "predictions",
    "resources",
    "counterfactual",
    "stats",
    "suites",
    "models",
    "encoders",
    "corpus",
    "mitigate",
    "evaluate",
    "report",
    "training",
    "meta",
    "reproduction",
    "interop",
    "testing",
    "pytest_plugin",
    "cli",
]
"""A module or folder imports only what stands before it."""


def imported(file: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: imports are absolute"
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names if node.module == "evenli"]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("evenli.")}
    return found


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda f: str(f.relative_to(SOURCE)))
def test_imports_point_left(file: Path) -> None:
    room = room_of(file)
    if room in {"__init__", "__main__"}:
        return
    allowed = set(ORDER[: ORDER.index(room) + 1])
    assert imported(file) <= allowed, f"{room} may import {sorted(allowed)}"


@pytest.mark.parametrize("module", ["evenli", "evenli.stats.sample", "evenli.cli", "evenli.suites", "evenli.report"])
def test_imports_stay_light(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'transformers', 'onnxruntime') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_help_loads_no_numerics() -> None:
    code = "import sys, evenli.cli; print([m for m in ('numpy', 'polars', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


LONGEST_MATCH = 4


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.glob("*.py")), ids=lambda file: file.stem)
def test_error_tests_match_a_noun_and_not_the_prose(file: Path) -> None:
    assert prose_in_matches(file.read_text(encoding="utf-8")) == []


def prose_in_matches(code: str) -> list[str]:
    """Texts of ``match=`` with more words than a noun has, f-strings and texts in calls included."""
    keywords = (node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.keyword) and node.arg == "match")
    texts = [text_of(node) for keyword in keywords for node in ast.walk(keyword.value)]
    return [text for text in texts if len(text.split()) > LONGEST_MATCH]


def text_of(node: ast.AST) -> str:
    """A literal text; what an f-string inserts counts as one word."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "{}" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_prose_in_a_match_is_noticed_however_it_is_written() -> None:
    for value in (
        '"one two three four five"',
        'f"one two three {four} five"',
        're.escape(f"{one} two three four five")',
    ):
        assert len(prose_in_matches(f"raises(Error, match={value})")) == 1
    assert prose_in_matches('raises(Error, match=f"{one} two {three} four", note="one two three four five")') == []


SUITE_NAMES = {"coal", "probe", "dev2020", "robust", "swap", "groups"}
OTHERWISE = {
    "__init__": "swap is a function",
    "cli/mitigate": "swap is a way with conflicts",
    "cli/train": "coal is a recipe",
    "training/recipe": "coal is a recipe",
    "counterfactual/swapper": "swap is a way with conflicts",
    "mitigate/api": "probe is a text",
    "mitigate/gendered": "probe is a part of the sentences",
    "mitigate/methods": "swap is a mitigation, probe a text",
    "mitigate/residual": "probe is a part of the sentences",
    "meta/mixture": "groups are those of an axis",
    "resources/axes": "groups are those of an axis",
    "interop/lm_eval_tasks/tasks": "coal is a measure",
    "report/meta": "coal is a measure; the suites of a sweep are fixed",
    "evaluate/leaderboard": "a leaderboard has fixed suites",
    "cli/audit": "evenli robustness asks suite robust",
}
"""Modules outside of suites/ in which the name of a suite stands for something else, or must stand."""


def test_nothing_knows_a_suite_by_name() -> None:
    found: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).with_suffix("").as_posix()
        if room_of(file) in {"suites", "registry", "reproduction"}:
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and node.value in SUITE_NAMES:
                found.setdefault(name, set()).add(str(node.value))
    assert found.keys() == OTHERWISE.keys()


KNOWS_A_SUITE = {
    "cli/about": "evenli data --check reads a release of NLI-CoAL",
    "cli/audit": "evenli robustness asks suite robust",
    "cli/axis": "evenli axis makes and checks the file of an axis, which suite groups reads",
    "cli/build": "evenli build has a command for each kind of pairs that evenli generates",
    "evaluate/leaderboard": "a leaderboard has fixed pairs, so that its rows can be compared",
    "evaluate/robustness": "evenli robustness sets NLI-CoAL beside its other wordings",
    "meta/controlled": "models of known bias are trained on the words of NLI-CoAL",
    "meta/scoring": "a sweep over such models has fixed measures",
    "models/fakes": "fake models read the sentences of our suites, and of no other",
    "registry": "where the built-in suites are listed",
    "reproduction/coal": "repeats what a paper did",
    "reproduction/sharma": "repeats what a paper did",
}
"""Modules outside of suites/ that import a suite, or name its module, and why there is no other way."""


def test_nothing_imports_a_suite() -> None:
    listed = set()
    for file in SOURCE.rglob("*.py"):
        if room_of(file) == "suites":
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [f"{name}.{alias.name}" for name in names for alias in node.names] if names else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            # An import path may stand in a string, too.
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            if any(SUITE_MODULE.match(name) for name in names):
                listed.add(file.relative_to(SOURCE).with_suffix("").as_posix())
    assert listed == KNOWS_A_SUITE.keys()


SUITE_MODULE = re.compile(rf"evenli\.suites\.({'|'.join(sorted(SUITE_NAMES))})(?![a-z_])")
FIXED_TEMPLATES = {"report/templates/leaderboard.html.j2": "a leaderboard has fixed suites"}


def test_no_template_names_a_suite() -> None:
    """Neither in an expression, by its name, nor in the text, by its title."""
    titles = {get_suite(name).title for name in SUITE_NAMES}
    listed = []
    for file in SOURCE.rglob("*.j2"):
        if room_of(file) == "suites":
            continue
        text = file.read_text(encoding="utf-8")
        words = {word for code in re.findall(r"{[{%].*?[%}]}", text, re.DOTALL) for word in re.findall(r"\w+", code)}
        if words & (SUITE_NAMES - {"groups"}) or any(title in text for title in titles):
            listed.append(file.relative_to(SOURCE).as_posix())
    assert listed == list(FIXED_TEMPLATES)


OTHER_COMMANDS = {"ray start --head", "--evenli-limit"}
"""Flags that are not of our command line."""


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda f: str(f.relative_to(SOURCE)))
def test_errors_of_the_library_fit_python_and_the_command_line(file: Path) -> None:
    """An option stands in brackets behind what it is about, or in a command in quotes: Python has no options."""
    if room_of(file) == "cli":
        return
    raised = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise))
    nodes = [node for one in raised for node in ast.walk(one)]
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = [text_of(node) for node in nodes if id(node) not in parts]
    for other in OTHER_COMMANDS:
        texts = [text.replace(other, "") for text in texts]
    assert [text for text in texts if re.search("(^|[^-(a-z])--[a-z]", re.sub(r"\([^()]*\)|'[^']*'", "", text))] == []
