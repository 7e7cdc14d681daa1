"""Pages for people: one HTML file that needs nothing else and trusts nothing it shows, all in one look.

Names and sentences come from strangers. Jinja2 escapes them in markup, ``json_block`` in data, the scripts insert them
as text, and a Content-Security-Policy that knows the hashes of the one style sheet and the one script of a file keeps
the browser from running anything else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from evenli._version import __version__
from evenli.core.blocks import Block, Cell, Fact, Figure
from evenli.core.errors import InputError
from evenli.core.format import number
from evenli.core.io import write_atomic

LIMIT = 3_000_000  # bytes; a page must open on a phone and travel by mail
INK, MUTED, GRID, ACCENT = "#1f2328", "#59636e", "#d0d7de", "#0b57d0"
"""Colours of drawings that style.css exchanges in dark mode; it finds them by these very values."""


def shown(cell: object, digits: int = 3) -> str:
    """A cell of a table as text."""
    return number(cell, digits) if cell is None or isinstance(cell, float) else str(cell)


@cache
def environment(*packages: str) -> Any:
    """Jinja2 with the templates of all pages, and those in ``templates`` of packages."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loaders = [PackageLoader("evenli.core", "page"), *map(PackageLoader, packages)]
    templates = Environment(autoescape=True, undefined=StrictUndefined, loader=ChoiceLoader(loaders))
    templates.filters.update(shown=shown, two=lambda value: shown(value, 2), svg=_svg)
    templates.tests["nan"] = math.isnan
    templates.tests["cell"] = lambda value: isinstance(value, Cell)
    return templates


def _svg(figure: Figure) -> Any:
    from markupsafe import Markup

    from evenli.core.drawing import inline_svg

    return Markup(inline_svg(figure))


def fill(name: str, title: str, package: str | None = None, data: Any = None, **values: Any) -> str:
    """A page of the template ``NAME.html.j2``; one of a package has its own script ``NAME.js``, and data for it."""
    from markupsafe import Markup

    source = files("evenli.core.page")
    css, js = ((source / file).read_text("utf-8") for file in ("style.css", "page.js"))
    if package:
        js += (files(package) / "templates" / f"{name}.js").read_text("utf-8")
    # Only what stands here is markup; autoescape takes care of all values.
    around = {"css": Markup(css), "js": Markup(js), "csp": policy(css, js), "data": Markup(json_block(data))}
    template = environment(*filter(None, [package])).get_template(f"{name}.html.j2")
    return str(template.render(title=title, version=__version__, **around, **values)).strip()


def render(title: str, lead: str, blocks: Sequence[Block], numbers: Sequence[Fact] = ()) -> str:
    """A page of blocks below LIMIT bytes: title, the answer in a sentence, a few numbers, and the blocks.

    Where it would be larger, the longest table is halved until it fits, and says so.
    """
    # Rows are counted before any is left out: the remark names how many there were.
    totals = [len(block.rows) for block in blocks]
    while True:
        text = fill("page", title, lead=lead, blocks=blocks, numbers=numbers) + "\n"
        size = len(text.encode("utf-8", "replace"))
        if size < LIMIT:
            return text
        at = max(range(len(blocks)), key=lambda index: len(blocks[index].rows), default=-1)
        if at < 0 or len(blocks[at].rows) < 2:
            raise InputError(f"this page would have {size / 1e6:.1f} MB, the limit is {LIMIT / 1e6:.0f} MB: {title}")
        kept = blocks[at].rows[: len(blocks[at].rows) // 2]
        remark = f"Only the first {len(kept):,} of {totals[at]:,} rows stand here, to keep the file small."
        blocks = [replace(block, rows=kept, cut=remark) if index == at else block for index, block in enumerate(blocks)]


def json_block(content: Any) -> str:
    r"""JSON that no HTML or script parser can misread: markup characters become ``\u003c`` and the like.

    >>> json_block("</script>")
    '"\\u003c/script\\u003e"'
    """
    # Browsers look for tags inside scripts, too, whatever quotes they stand in.
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def policy(css: str, js: str) -> str:
    """The Content-Security-Policy of a page: its style sheet, its script and nothing else."""
    style, script = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in (css, js))
    rest = "img-src data:; base-uri 'none'; form-action 'none'"
    return f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; {rest}"


def mark_words(text: str, weights: Mapping[str, float | str]) -> Cell:
    """A text with its gendered words marked: ``weights`` by lower-case word."""
    pieces = ((piece, weights.get(piece.lower())) for piece in re.split(r"(\w+)", text))
    return Cell([piece if weight is None else (piece, weight) for piece, weight in pieces])


def write_page(text: str, path: str | Path) -> Path:
    """Write a page, atomically."""
    write_atomic(path, text.encode("utf-8", "replace"))
    return Path(path)
