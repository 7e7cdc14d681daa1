"""Data flows one way through the house."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import evenli
from evenli.audit.suites.base import get_suite

SOURCE = Path(evenli.__file__).parent
ROOT = Path(__file__).parents[2]
FOUNDATION: dict[str, set[str]] = {"core": set(), "words": {"core"}, "stats": {"core"}}
"""What every room uses, and what of it each part may import."""
PRODUCTS: dict[str, dict[str, str]] = {
    "audit": {},
    "llm": {"audit": "a language model is one kind of audited model"},
    "encoders": {"audit": "checkpoints are loaded as for an audit; sentences are put into its scenes"},
    "corpus": {
        "encoders": "sentences are scored with word vectors and encoders",
        "audit": "checkpoints are loaded as for an audit",
    },
    "exports": {"audit": "every export is of audits"},
    "training": {
        "audit": "trained models are NLI models, and models of known bias are measured by the audit",
        "encoders": "BiLSTM encoders are trained here",
    },
}
"""Rooms with a product, and the other products that each may import, with the reason."""
ASSEMBLY = {"__init__", "__main__", "_mitigate", "cli", "pytest_plugin", "testing"}
"""What puts the rooms together; only these may import every room."""
IMPORT_PATH = re.compile(r"evenli(\.\w+)+:\w+")


def imported(file: Path) -> set[str]:
    """Rooms and root modules that a module imports, or names as an import path in a text."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: imports are absolute"
            names = [node.module] + [f"{node.module}.{alias.name}" for alias in node.names if node.module == "evenli"]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and IMPORT_PATH.fullmatch(node.value):
            names = [node.value]
        found |= {name.split(".")[1].partition(":")[0] for name in names if name.startswith("evenli.")}
    return found


def room_of(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def of_commands(file: Path) -> bool:
    return room_of(file) == "cli" or "commands" in file.relative_to(SOURCE).with_suffix("").parts


EVERY_MODULE = pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda f: str(f.relative_to(SOURCE)))


@EVERY_MODULE
def test_a_room_imports_only_what_it_may(file: Path) -> None:
    room = room_of(file)
    if room in ASSEMBLY:
        return
    allowed = FOUNDATION.get(room, {*FOUNDATION, *PRODUCTS.get(room, ())}) | {room, "_version"}
    assert imported(file) <= allowed, f"{room} may import {sorted(allowed)}"


@EVERY_MODULE
def test_modules_are_short(file: Path) -> None:
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 400


def without(room: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command line where a room is missing, as if its folder had been deleted."""
    code = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "evenli.{room}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from evenli.__main__ import main
sys.argv[0] = "evenli"
main()
"""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


BROUGHT = {
    "llm": {"batch"},
    "encoders": {"seat", "senteval", "encoder-report"},
    "corpus": {"score", "direction"},
    "training": {"train", "onnx", "meta"},
    "exports": {"export", "evidence", "verify"},
}
"""Commands that are listed only where their room is there."""


@pytest.mark.parametrize("room", BROUGHT)
def test_a_product_can_be_taken_out(room: str, tmp_path: Path) -> None:
    shown = without(room, "--help").stdout
    listed = set(re.findall(r"^  ([a-z][a-z-]+) ", shown, re.MULTILINE))
    others = set().union(*(names for name, names in BROUGHT.items() if name != room))
    assert not listed & BROUGHT[room] and {"audit", *others} <= listed
    done = without(room, "audit", "fake:biased", "--limit", 60, "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "results.json").is_file()


@pytest.mark.parametrize(
    "module", ["evenli", "evenli.stats.sample", "evenli.cli", "evenli.audit.suites", "evenli.audit.report"]
)
def test_imports_stay_light(module: str) -> None:
    code = f"import sys, {module}; print([m for m in ('torch', 'transformers', 'onnxruntime') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_help_loads_no_numerics() -> None:
    code = "import sys, evenli.cli; print([m for m in ('numpy', 'polars', 'scipy') if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


LONGEST_MATCH = 4


@pytest.mark.parametrize("file", sorted(Path(__file__).parent.rglob("*.py")), ids=lambda file: file.stem)
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


SUITE_NAMES = ("coal", "probe", "dev2020", "robust", "swap", "groups")
SUITE_MODULE = re.compile(rf"evenli\.audit\.suites\.({'|'.join(SUITE_NAMES)})(?![a-z_])")
KNOWS_A_SUITE = {
    "audit/commands/data": "evenli build, axis and data have an option for each kind of file that a suite reads",
    "audit/models/callables": "fake models read the sentences of our suites, and of no other",
    "audit/room": "where the built-in suites are listed",
    "training/meta/controlled": "models of known bias are trained on the words of NLI-CoAL",
    "training/meta/scoring": "a sweep over such models has fixed measures",
}
"""Modules outside of the suites that import one, and why there is no other way."""


def test_nothing_else_imports_a_suite() -> None:
    listed = set()
    for file in SOURCE.rglob("*.py"):
        name = file.relative_to(SOURCE).with_suffix("").as_posix()
        if name.startswith("audit/suites/"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [f"{name}.{alias.name}" for name in names for alias in node.names] if names else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            # An import path may stand in a string, too.
            names += [node.value] if isinstance(node, ast.Constant) and isinstance(node.value, str) else []
            if any(SUITE_MODULE.match(imported) for imported in names):
                listed.add(name)
    assert listed == KNOWS_A_SUITE.keys()


def test_no_template_names_a_suite() -> None:
    """Neither in an expression, by its name, nor in the text, by its title."""
    titles = {get_suite(name).title for name in SUITE_NAMES}
    listed = []
    for file in SOURCE.rglob("*.j2"):
        if file.relative_to(SOURCE).as_posix().startswith("audit/suites/"):
            continue
        text = file.read_text(encoding="utf-8")
        words = {word for code in re.findall(r"{[{%].*?[%}]}", text, re.DOTALL) for word in re.findall(r"\w+", code)}
        if words & (set(SUITE_NAMES) - {"groups"}) or any(title in text for title in titles):
            listed.append(file.relative_to(SOURCE).as_posix())
    assert listed == []


OTHER_COMMANDS = {"ray start --head", "--evenli-limit"}
"""Flags that are not of our command line."""


@pytest.mark.parametrize("file", sorted(SOURCE.rglob("*.py")), ids=lambda f: str(f.relative_to(SOURCE)))
def test_errors_of_the_library_fit_python_and_the_command_line(file: Path) -> None:
    """An option stands in brackets behind what it is about, or in a command in quotes: Python has no options."""
    if of_commands(file):
        return
    raised = (node for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Raise))
    nodes = [node for one in raised for node in ast.walk(one)]
    parts = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    texts = [text_of(node) for node in nodes if id(node) not in parts]
    for other in OTHER_COMMANDS:
        texts = [text.replace(other, "") for text in texts]
    assert [text for text in texts if re.search("(^|[^-(a-z])--[a-z]", re.sub(r"\([^()]*\)|'[^']*'", "", text))] == []


@pytest.mark.parametrize(
    "file",
    [file for name in ("tools", "benchmarks", "studies") for file in sorted((ROOT / name).rglob("*.py"))],
    ids=lambda file: str(file.relative_to(ROOT)),
)
def test_a_script_imports_what_there_is(file: Path) -> None:
    # Scripts that train or draw are not run by the tests; a name that moved away is noticed all the same.
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evenli"):
            module = importlib.import_module(str(node.module))
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            for name in missing:
                importlib.import_module(f"{node.module}.{name}")
