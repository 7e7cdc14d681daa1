"""Run the code blocks of README, tutorials and how-tos, and compare or rewrite the output that the pages show.

    python tools/docs_blocks.py                  # run every page, say where shown and produced output differ
    python tools/docs_blocks.py --write [PAGE…]  # put what was produced into the pages (make docs-outputs)

A page runs in one empty folder, from top to bottom. ``bash`` blocks run line by line, ``python`` blocks share their
names, and a block with ``title="FILE"`` is written to that file. Data files of docs/tutorials that the page links to
are put into the folder. A ``text`` block right after a code block is its output; ``…`` in it stands for any lines, or
for the rest of one. A comment right before a block says what is special about it:

    <!-- not run: REASON -->   <!-- slow -->   <!-- slow alone -->   <!-- exit 1 -->

Where slow blocks are left out, so is what follows them on the page; a block that is slow alone is left out by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "tutorials").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
)
WIDTH = "110"
FENCE = re.compile(r"^```(\w*)[ ]*(?:\{?[^\n]*?title=\"([^\"]+)\"[^\n]*)?$")
NOTE = re.compile(r"^<!-- (not run: .+|slow|slow alone|exit \d+) -->$")
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?")
ANY = "…"


@dataclass
class Block:
    """A fenced block: its language, its text and what the comment before it says."""

    language: str
    text: str
    line: int
    file: str = ""
    note: str = ""
    length: int = 0
    output: Block | None = None

    @property
    def runs(self) -> bool:
        """Whether it is code that can run here."""
        return self.language in {"bash", "python"} and not self.note.startswith("not run")

    @property
    def slow(self) -> bool:
        """Whether it takes more than a few seconds."""
        return self.note in {"slow", "slow alone"}

    @property
    def exit_code(self) -> int:
        """What every command of the block must exit with."""
        return int(self.note.removeprefix("exit ")) if self.note.startswith("exit ") else 0


def blocks_of(page: Path) -> list[Block]:
    """All fenced blocks of a page, each with the output that is shown for it."""
    blocks: list[Block] = []
    lines = page.read_text(encoding="utf-8").split("\n")
    note, last, at = "", 0, 0
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence is None:
            said = NOTE.match(lines[at])
            note = said[1] if said else (note if not lines[at].strip() else "")
            last = last if not lines[at].strip() else 0
            at += 1
            continue
        end = lines.index("```", at + 1)
        block = Block(fence[1], "\n".join(lines[at + 1 : end]), at + 1, fence[2] or "", note, end - at - 1)
        if block.language == "text" and last and blocks[last - 1].language in {"bash", "python"}:
            blocks[last - 1].output = block
        blocks.append(block)
        note, last, at = "", len(blocks), end + 1
    return blocks


def complaints(page: Path, blocks: list[Block]) -> Iterator[str]:
    """What cannot be checked: output of nothing, and code that is indented instead of fenced."""
    shown = {id(block.output) for block in blocks if block.output}
    for block in blocks:
        if block.language == "text" and id(block) not in shown and not (block.note or block.file):
            yield f"{page.name}:{block.line}: a text block that is no output; say why in a comment before it"
        if block.language in {"", "sh", "console", "shell"}:
            yield f"{page.name}:{block.line}: a block needs a language: bash, python, text or that of its file"
    outside = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    if indented := re.search(r"\n\n {4}(?![ *-]|\d\.)\S.*", outside):
        yield f"{page.name}: indented code cannot be run: {indented[0].strip()[:60]}"


class Session:
    """One page: a folder, and the names that its Python blocks share."""

    def __init__(self, page: Path, folder: Path):
        self.page, self.folder, self.names = page, folder, {"__name__": "page"}
        for name in set(re.findall(r"\]\((?:\.\./tutorials/)?([\w.]+\.(?:csv|txt\.xz))\)", page.read_text("utf-8"))):
            shutil.copy(ROOT / "docs" / "tutorials" / name, folder)
        programs = folder / ".bin"
        programs.mkdir()
        for name, start in {"evenli": f'"{sys.executable}" -m evenli', "python": f'"{sys.executable}"'}.items():
            (programs / name).write_text(f'#!/bin/sh\nexec {start} "$@"\n', encoding="utf-8")
            (programs / name).chmod(0o755)
        self.environment = {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
            "COLUMNS": WIDTH,
            "HF_HUB_OFFLINE": "1",
        }

    def run(self, block: Block) -> str:
        """What the block prints; a failure raises with what it said."""
        if block.file:
            (self.folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / block.file).write_text(block.text + "\n", encoding="utf-8")
        if not block.runs:
            return ""
        where = f"{self.page.name}:{block.line}"
        before = {name: os.environ.get(name) for name in self.environment}
        os.environ.update(self.environment)
        try:
            with inside(self.folder):
                if block.language == "python":
                    return "" if block.file else self._python(block, where)
                return "".join(self._line(line, block, where) for line in commands(block.text))
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    def _python(self, block: Block, where: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(block.text, where, "exec"), self.names)
        return out.getvalue()

    def _line(self, line: str, block: Block, where: str) -> str:
        # A plain command runs in this process; what follows its first pipe or > gets its output from a shell.
        plain = re.match(r"evenli(?: [^|<>;&$`*#]*)?", line)
        rest = line[plain.end() :].strip() if plain else ""
        code, out, err = 0, "", ""
        if plain and (not rest or rest[0] in "|>#") and not rest.startswith("||"):
            code, out, err = in_process(shlex.split(plain[0])[1:])
            line = "" if rest[:1] in {"", "#"} else f"cat {rest}"
        if line and not code:
            done = subprocess.run(["bash", "-ec", line], input=out, capture_output=True, text=True, cwd=self.folder)
            code, out, err = done.returncode, done.stdout, err + done.stderr
        if code != block.exit_code:
            raise AssertionError(f"{where}: exit {code}, expected {block.exit_code}: {line}\n{out}{err}")
        return out


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    """Work in a folder for a while, as ``python`` does there; its modules are forgotten afterwards."""
    before, modules = Path.cwd(), set(sys.modules)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(folder))
        for name in set(sys.modules) - modules:
            if str(getattr(sys.modules[name], "__file__", "")).startswith(f"{folder}{os.sep}"):
                del sys.modules[name]


def in_process(arguments: list[str]) -> tuple[int, str, str]:
    """A plain ``evenli`` command in this process: forty of them would spend a minute on starting Python."""
    from evenli.cli import app
    from evenli.core.errors import EvenliError

    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            app(arguments)
    except EvenliError as error:
        print(f"evenli: {error}", file=err)
        code = 2
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0
    return code, out.getvalue(), err.getvalue()


def commands(text: str) -> list[str]:
    """Lines of a shell block; a here-document or a line that ends in a backslash stays together."""
    if "<<" in text:
        return [text]
    joined = re.sub(r"\\\n\s*", "", text)
    return [line for line in joined.split("\n") if line.strip() and not line.lstrip().startswith("#")]


def differs(shown: str, produced: str) -> str:
    """Where the two outputs part, or nothing. Numbers may differ a little, bars by a cell."""
    left = [normal(line) for line in shown.strip("\n").split("\n") if line.strip()]
    right = [normal(line) for line in produced.strip("\n").split("\n") if line.strip()]
    at = 0
    for number, line in enumerate(left):
        if line == ANY:
            rest = left[number + 1 :]
            while rest and at < len(right) and not same(rest[0], right[at]):
                at += 1
            at = at if rest else len(right)
        elif at < len(right) and same(line, right[at]):
            at += 1
        else:
            return f"shown {line!r}, produced {right[at] if at < len(right) else 'nothing more'!r}"
    return "" if at == len(right) else f"produced also {right[at]!r}"


def normal(line: str) -> str:
    """Runs of blanks, lines and bars do not count."""
    return re.sub(r"[█▓▒░]+", "▒", re.sub(r"[─┄]+", "─", " ".join(line.split())))


def same(shown: str, produced: str) -> bool:
    """The same words, and numbers that agree up to the last digits; ``…`` stands for the rest of a line."""
    if shown.endswith(ANY):
        length = len(shown.removesuffix(ANY).split())
        return same(" ".join(shown.split()[:length]), " ".join(produced.split()[:length]))
    if NUMBER.sub("#", shown) != NUMBER.sub("#", produced):
        return False
    values = [[float(n.replace(",", "").replace("−", "-")) for n in NUMBER.findall(one)] for one in (shown, produced)]
    return all(abs(a - b) <= 0.02 + 0.03 * abs(a) for a, b in zip(*values, strict=True))


def run_page(page: Path, folder: Path, slow: bool = False) -> list[tuple[Block, str]]:
    """Run a page; after a slow block that was left out nothing more of the page runs, unless it is slow alone."""
    session, done = Session(page, folder), []
    for block in blocks_of(page):
        if block.slow and not slow:
            if block.note == "slow alone":
                continue
            break
        produced = session.run(block)
        if block.runs and not block.file:
            done.append((block, produced))
    return done


def rewrite(page: Path, done: list[tuple[Block, str]]) -> None:
    """Put produced output into the page; blocks that leave something out stay as they are."""
    lines = page.read_text(encoding="utf-8").split("\n")
    for block, produced in reversed(done):
        if block.output and ANY not in block.output.text:
            start, length = block.output.line, block.output.length
            lines[start : start + length] = [line.rstrip() for line in produced.strip("\n").split("\n")]
    page.write_text("\n".join(lines), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Run pages from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path)
    parser.add_argument("--write", action="store_true", help="Rewrite the outputs that the pages show.")
    parser.add_argument("--slow", action="store_true", help="Also the blocks that take long.")
    options = parser.parse_args(arguments)
    wrong: list[Any] = []
    for page in [path.resolve() for path in options.pages] or PAGES:
        with tempfile.TemporaryDirectory() as folder:
            done = run_page(page, Path(folder).resolve(), options.slow or options.write)
        if options.write:
            rewrite(page, done)
        differing = [f"{page.name}:{b.line}: {d}" for b, out in done if b.output and (d := differs(b.output.text, out))]
        wrong += [] if options.write else [*complaints(page, blocks_of(page)), *differing]
        print(f"{page.relative_to(ROOT)}: {len(done)} blocks ran", flush=True)
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "src"))
    raise SystemExit(main())
