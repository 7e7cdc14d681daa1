"""All runs of a folder as pages: a list, a report of each, comparisons of two; shown live or written as files.

The server listens on the loopback address. Every address holds a random token, so other programs and pages that are
open in the browser cannot read runs or ask models. GET reads and never changes anything; models are asked by POST. A
spec that stands in a run is data: no code is imported for it, and nothing is downloaded.
"""

from __future__ import annotations

import re
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

import numpy as np
from markupsafe import Markup
from scipy.special import softmax

from evenli.audit.audit import load_run
from evenli.audit.compare import compare_runs
from evenli.audit.models import NLIModel, load_model
from evenli.audit.models.base import ModelOptions, split_spec
from evenli.audit.predictions import read_header
from evenli.audit.report.html import render
from evenli.audit.report.runs import RunEntry, Runs, find_runs
from evenli.audit.report.terminal import difference_cells
from evenli.audit.suites.base import get_suite
from evenli.core import page
from evenli.core.blocks import Block
from evenli.core.errors import EvenliError, InputError, ModelError, foreign_code
from evenli.core.extras import check_extra
from evenli.core.format import p_bound, percent
from evenli.core.labels import LABELS
from evenli.core.page import write_page
from evenli.core.registry import DEFAULT_SUITE
from evenli.core.store import RunDir
from evenli.stats.measure import get_measure

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

_TEMPLATES = Path(__file__).parent / "templates"
_MOST_COMPARED = 6
"""Runs of which every two are compared in an export."""
_AT_ONCE = 100
"""Runs on a page of the list."""
_UNSHOWN = "cannot be shown; evenli verify says why"
LOOPBACK = "127.0.0.1"
LONGEST = 1_000
"""Characters of a sentence that is tried."""
_BODY = 20_000
_SAFE = {"evenli", "fake", "onnx", "hf"}
"""Backends that load a model without running code of a stranger."""
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # the token stands in the address; none at all would hide our own forms' origin
    "Cache-Control": "no-store",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def list_page(
    entries: Sequence[RunEntry],
    links: Mapping[str, str],
    comparisons: Sequence[tuple[str, str]] = (),
    *,
    live: bool = False,
    find: str = "",
    start: int = 0,
) -> str:
    """The list of runs; a live one shows those with all words of ``find``, a hundred at a time."""
    words = find.lower().split()
    entries = [entry for entry in entries if all(word in entry.text for word in words)] if words else entries
    lead = f"{len(entries)} run{'s' * (len(entries) != 1)}, newest first. A run opens its report."
    places = {}
    if live and len(entries) > _AT_ONCE:
        start = min(start, len(entries) - 1) // _AT_ONCE * _AT_ONCE
        last = min(start + _AT_ONCE, len(entries))
        asked = {"Newer": start - _AT_ONCE, "Older": last}
        places = {text: f"?{urlencode({'find': find, 'start': at})}" for text, at in asked.items()}
        places = {text: places[text] for text, at in asked.items() if 0 <= at < len(entries)}
        lead = f"{lead} These are {start + 1} to {last}."
        entries = entries[start:last]
    # Runs of other suites have no score; where none has one, the column is of what an audit asks by default.
    scored = list(dict.fromkeys(entry.scored for entry in entries if entry.scored))
    scored = scored or [get_suite(DEFAULT_SUITE).title]
    shown = {"runs": entries, "scored": scored, "links": links, "comparisons": comparisons, "live": live}
    shown |= {"find": find, "places": places}
    return _page("list", "evenli runs", lead, **shown)


def report_page(entry: RunEntry) -> str:
    """The report of a run."""
    return render([load_run(entry.path)])


def compare_page(first: RunEntry, second: RunEntry, back: str) -> str:
    """Two runs, item by item."""
    parts = []
    for suite, (comparison,) in compare_runs(first.path, second.path).suites.items():
        rows = [
            (get_measure(name).title.strip(), *difference_cells(change), p_bound(change.p))
            for name, change in comparison.measures.items()
        ]
        parts.append(Block(get_suite(suite).title, [comparison.conclusion], rows=rows))
    return _page("compare", "Comparison", f"first: {first.name}; second: {second.name}", parts=parts, back=back)


def ask_page(
    entry: RunEntry,
    back: str,
    longest: int,
    texts: tuple[str, str] = ("The nurse waits at the bus stop.", "The woman waits at the bus stop."),
    answers: Sequence[tuple[str, str]] = (),
    note: str = "",
) -> str:
    """The page on which people try a sentence of their own."""
    form = {"longest": longest, "premise": texts[0], "hypothesis": texts[1], "answers": answers, "note": note}
    return _page("ask", "Try a sentence", f"{entry.model} ({entry.name})", back=back, **form)


def problem_page(message: str, back: str) -> str:
    """What went wrong."""
    return _page("problem", "That did not work", "", message=message, back=back)


@dataclass(frozen=True)
class Exported:
    """The files of an export, the list first, and what could not be shown, with the reason."""

    files: tuple[Path, ...]
    problems: Mapping[str, str]


def export(folder: str | Path, out: str | Path) -> Exported:
    """Write list, reports and comparisons as files for a web host; sentences cannot be tried there.

    A run that cannot be shown stands in the list, and the others are written.
    """
    entries, target = find_runs(folder), Path(out)
    site = RunDir(target, kind="site", manifest="index.html", owned=("run-*.html", "compare-*.html"))
    site.check()
    problems = {entry.name: entry.problem for entry in entries if entry.problem}
    written: list[Path] = []

    def attempt(name: str, file: str, make: Callable[..., str], *given: Any) -> bool:
        """Write a page, or note why there is none: damage of one run must not stop the others."""
        try:
            text = make(*given)
        except EvenliError as error:
            problems[name] = str(error)
            return False
        written.append(write_page(text, target / file))
        return True

    links = {entry.id: f"run-{entry.id}.html" for entry in entries}
    finished = [entry for entry in entries if not entry.problem]
    shown = [entry for entry in finished if attempt(entry.name, links[entry.id], report_page, entry)]
    if not shown:
        reasons = "".join(f"; {name}: {problem}" for name, problem in list(problems.items())[:1])
        raise InputError(f"there is no finished audit in {folder}{reasons}")
    comparisons = []
    for first, second in combinations(shown[:_MOST_COMPARED], 2):
        file, names = f"compare-{first.id}-{second.id}.html", f"{second.name} and {first.name}"
        # Only answers to the same pairs can be compared.
        if first.pairs == second.pairs and attempt(names, file, compare_page, second, first, "index.html"):
            comparisons.append((file, names))
    # What is wrong with a run names places on this machine; the page only says that something is.
    listed = [replace(entry, problem=_UNSHOWN) if entry.name in problems else entry for entry in entries]
    index = write_page(list_page(listed, links, comparisons), target / "index.html")
    return Exported((index, *written), problems)


@cache
def _style_and_script() -> tuple[str, str]:
    css, js = ((_TEMPLATES / name).read_text(encoding="utf-8") for name in ("gallery.css", "gallery.js"))
    return css, js


def policy() -> str:
    """The Content-Security-Policy of our pages: one style sheet, one script, forms to ourselves."""
    return page.policy(*_style_and_script()).replace("form-action 'none'", "form-action 'self'")


def _page(kind: str, title: str, lead: str, **values: Any) -> str:
    css, js = map(Markup, _style_and_script())
    known = {"css": css, "js": js, "csp": policy(), "kind": kind, "title": title, "lead": lead}
    return str(page.environment("evenli.audit.report").get_template("gallery.html.j2").render(**known, **values))


def load_asked(entry: RunEntry) -> tuple[NLIModel, str]:
    """The model of a run, and a remark where it is not the one that was audited."""
    backend, _ = split_spec(entry.spec) if entry.spec else ("", "")
    if backend not in _SAFE:
        raise ModelError(
            f"the model '{entry.spec or entry.model}' is code of your own or of a plug-in, and a run is no reason to "
            "run code; ask it in Python"
        )
    stored = read_header(entry.path / "run.json")
    # The labels as they were read then; a user may have named them by hand.
    labels = tuple(map(str, stored["model"].get("labels", ()))) or None
    model = load_model(entry.spec, lang=entry.lang or "en", options=ModelOptions(labels=labels))
    same = model.info.fingerprint == stored["model"].get("fingerprint")
    return model, "" if same else "The model has changed since this run was made: its files are not those of then."


def ask(model: NLIModel, premise: str, hypothesis: str) -> list[tuple[str, str]]:
    """Labels with their probabilities, the most probable first."""
    with foreign_code(f"{model.info.name} failed: "):
        logits = np.asarray(model.logits(model.prepare([premise], [hypothesis]).items), dtype=np.float64)[0, :3]
    shares = softmax(logits)
    return [(LABELS[i], percent(float(shares[i]))) for i in np.argsort(-shares)]


def make_app(runs: Runs, token: str, port: int) -> Starlette:
    """The server's application; everything outside of the token's address is unknown."""
    check_extra("view", "evenli view")
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware
    from starlette.responses import HTMLResponse, PlainTextResponse
    from starlette.routing import Route

    base = f"/{token}/"
    origins = {f"http://{host}:{port}" for host in (LOOPBACK, "localhost")}

    def html(text: str, status: int = 200, *, own: bool = True) -> Response:
        # A report has a stricter policy of its own in its head.
        more = {"Content-Security-Policy": policy() + "; frame-ancestors 'none'"} if own else {}
        return HTMLResponse(text.encode("utf-8", "replace"), status, {**_HEADERS, **more})

    # Starlette runs what is not async in a thread: a slow page stops no other.
    def index(request: Request) -> Response:
        entries, given = runs.entries(), request.query_params
        start = int(given["start"]) if re.fullmatch("[0-9]{1,9}", given.get("start", "")) else 0
        links = {entry.id: f"run/{entry.id}" for entry in entries}
        return html(list_page(entries, links, live=True, find=given.get("find", "")[:LONGEST], start=start))

    def report(request: Request) -> Response:
        return html(report_page(runs.get(request.path_params["run"])), own=False)

    def compare(request: Request) -> Response:
        """Two runs beside each other; the older one is the first."""
        chosen = request.query_params.getlist("run")
        if len(chosen) != 2:
            raise InputError(f"tick two runs to compare them, not {len(chosen)}")
        first, second = sorted(map(runs.get, chosen), key=lambda entry: entry.created)
        return html(compare_page(first, second, base))

    def form(request: Request) -> Response:
        return html(ask_page(runs.get(request.path_params["run"]), base, LONGEST))

    def answered(identity: str, body: bytes) -> Response:
        """The form with the answer of the model."""
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        premise, hypothesis = texts = [given.get(name, [""])[0].strip() for name in ("premise", "hypothesis")]
        if not premise or not hypothesis or max(map(len, texts)) > LONGEST:
            raise InputError(f"give a premise and a hypothesis of at most {LONGEST:,} characters")
        run = runs.get(identity)
        # Loaded each time: the run, its model or both may have been replaced since.
        asked, note = load_asked(run)
        return html(ask_page(run, base, LONGEST, (premise, hypothesis), ask(asked, *texts), note))

    async def answer(request: Request) -> Response:
        origin, body = request.headers.get("origin"), b""
        if origin is not None and origin not in origins:
            return PlainTextResponse("not from here", 403, _HEADERS)
        async for part in request.stream():
            body += part
            if len(body) > _BODY:
                return html(problem_page("that is too long", base), 413)
        return await run_in_threadpool(answered, request.path_params["run"], body)

    def problem(request: Request, error: Exception) -> Response:
        return html(problem_page(str(error), base), 400)

    routes = [
        Route(base, index),
        Route(f"{base}run/{{run}}", report),
        Route(f"{base}compare", compare),
        Route(f"{base}ask/{{run}}", form, methods=["GET"]),
        Route(f"{base}ask/{{run}}", answer, methods=["POST"]),
    ]
    # Another name that leads to this address (DNS rebinding) is refused.
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=[LOOPBACK, "localhost"], www_redirect=False)
    return Starlette(routes=routes, middleware=[hosts], exception_handlers={EvenliError: problem})


def serve(folder: str | Path, port: int = 0, on_ready: Callable[[str], None] = print) -> None:
    """Serve a folder until interrupted; ``on_ready`` is told the address. Port 0 takes a free one."""
    check_extra("view", "evenli view")
    runs = Runs(folder)
    runs.entries()  # before anything listens: the pages find all runs read
    import uvicorn

    token = secrets.token_urlsafe(24)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()  # so that the address works as soon as it is told
        port = listening.getsockname()[1]
        app = make_app(runs, token, port)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        on_ready(f"http://{LOOPBACK}:{port}/{token}/")
        uvicorn.Server(config).run(sockets=[listening])
