"""Lines of src by area, and what features have added since the rebuild of the house.

    python tools/count_lines.py       # two Markdown tables; CONTRIBUTING.md holds them

Code, docstrings, comments and blank lines are counted apart. The history says which modules did not exist when the
rebuild was done; FEATURES only gives them names, and what it does not name stands under "other".
"""

from __future__ import annotations

import ast
import io
import subprocess
import tokenize
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "evenli"
BEFORE, REBUILT = "cc7bd29", "c74e358"  # the commits before the rebuild began and when its first part was done
KINDS = ("code", "docstrings", "comments", "blank")
FEATURES = {
    "language models (`chat:`, `causal:`, tasks of other harnesses)": (
        *("models/*.py", "stats/prompting.py", "interop/*", "evaluate/asking.py"),
    ),
    "axes with more than two groups": ("suites/groups/*", "cli/axis.py", "suites/about.py"),
    "wordings (robustness)": ("suites/robust/*", "evaluate/robustness.py", "cli/wording.py"),
    "swaps in three languages, the swap suite": ("counterfactual/*", "suites/swap.py"),
    "causes, their intervals and mixtures": (
        *("stats/*.py", "suites/coal/*", "meta/mixture.py", "suites/summary.py", "report/summary.py"),
    ),
    "limits for untrusted files, interrupts": ("parse.py", "binary.py", "_interrupt.py", "_temporary.py", "cli/_*.py"),
    "pages, viewer, policies, cards, trackers, paper tables": ("report/*", "page/*", "pytest_plugin.py"),
    "sentence scores: centres, transformers, balances": ("corpus/*",),
    "typed results": ("record.py", "renamed.py", "mitigate/card.py", "evaluate/*.py"),
}
"""Feature and patterns of its modules; the first that fits counts."""


def count(text: str) -> Counter[str]:
    r"""Lines by kind; a line with code and a comment is code.

    >>> sorted(count('"one"\n\n# two\nthree = 3  # four\n').items())
    [('blank', 1), ('code', 1), ('comments', 1), ('docstrings', 1)]
    """
    kinds = ["code" if line.strip() else "blank" for line in text.split("\n")[: text.count("\n")]]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            kinds[token.start[0] - 1] = "comments"
    for node in ast.walk(ast.parse(text)):
        # A string that stands alone explains what is above it, whether or not Python calls it a docstring.
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            for at in range(node.lineno - 1, node.end_lineno or node.lineno):
                kinds[at] = "docstrings"
    return Counter(kinds)


def git(*words: str) -> list[str]:
    """Lines that git prints about the modules of src."""
    command = ["git", "-C", str(ROOT), *words, "--", "src/evenli/*.py"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def total(commit: str) -> int:
    """Lines of src in a commit."""
    return sum(int(line.rsplit(":", 1)[1]) for line in git("grep", "-c", "", commit))


def main() -> None:
    """Print both tables."""
    files = {file.relative_to(SOURCE).as_posix(): file.read_text(encoding="utf-8") for file in SOURCE.rglob("*.py")}
    counted = {name: count(text) for name, text in sorted(files.items())}
    areas: dict[str, Counter[str]] = {}
    for name, kinds in counted.items():
        areas.setdefault(name.partition("/")[0] if "/" in name else "modules of their own", Counter()).update(kinds)
    areas["**all**"] = sum(areas.values(), Counter())
    print(f"| area | lines | {' | '.join(KINDS)} |\n| --- |{' ---: |' * (len(KINDS) + 1)}")
    for name, kinds in sorted(areas.items(), key=lambda item: item[1].total()):
        print(f"| {name} | {kinds.total():,} | " + " | ".join(f"{kinds[kind]:,}" for kind in KINDS) + " |")

    # A module that was moved and keeps two fifths of its lines is not new.
    added = [
        line.removeprefix("src/evenli/") for line in git("diff", "-M40%", "--diff-filter=A", "--name-only", REBUILT)
    ]
    features = {title: [0, 0] for title in (*FEATURES, "other")}
    for name in added:
        title = next((key for key, some in FEATURES.items() if any(fnmatch(name, one) for one in some)), "other")
        features[title][0] += 1
        features[title][1] += counted[name].total()
    new, now = sum(lines for _, lines in features.values()), areas["**all**"].total()
    print("\n| what | modules | lines |\n| --- | ---: | ---: |")
    for title, commit in (("before the rebuild", BEFORE), ("when its first part was done", REBUILT)):
        print(f"| {title} ({commit}) | | {total(commit):,} |")
    for title, (modules, lines) in features.items():
        print(f"| new since: {title} | {modules} | {lines:,} |")
    print(f"| **new modules together** | {len(added)} | {new:,} |")
    print(f"| modules of then, today | {len(files) - len(added)} | {now - new:,} |")


if __name__ == "__main__":
    main()
