"""A page over all runs of a folder, on this machine only.

The server listens on the loopback address. Every address holds a random token, so other programs and pages that are
open in the browser cannot read runs or ask models. GET reads and never changes anything; models are asked by POST. A
spec that stands in a run is data: no code is imported for it, and nothing is downloaded.
"""

from __future__ import annotations

import secrets
import socket
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import numpy as np
from scipy.special import softmax

from evenli.audit.models import NLIModel, load_model
from evenli.audit.models.base import ModelOptions, split_spec
from evenli.audit.predictions import read_header
from evenli.audit.report import gallery
from evenli.audit.report.gallery import RunEntry
from evenli.core.errors import EvenliError, InputError, ModelError, foreign_code
from evenli.core.extras import check_extra
from evenli.core.format import percent
from evenli.core.labels import LABELS

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

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


def make_app(folder: str | Path, token: str, port: int) -> Starlette:
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

    def html(page: str, status: int = 200, *, own: bool = True) -> Response:
        # A report has a stricter policy of its own in its head.
        policy = {"Content-Security-Policy": gallery.policy() + "; frame-ancestors 'none'"} if own else {}
        return HTMLResponse(page.encode("utf-8", "replace"), status, {**_HEADERS, **policy})

    def entry(identity: str) -> RunEntry:
        """A run by its address; only runs that the list holds can be named."""
        run = next((run for run in gallery.find_runs(folder) if run.id == identity), None)
        if run is None:
            raise InputError("there is no such run here (any more)")
        if run.problem:
            raise InputError(f"{run.name}: {run.problem}")
        return run

    model = lru_cache(maxsize=2)(lambda identity: load_asked(entry(identity)))

    # Starlette runs what is not async in a thread: a slow page stops no other.
    def index(request: Request) -> Response:
        entries = gallery.find_runs(folder)
        return html(gallery.list_page(entries, {entry.id: f"run/{entry.id}" for entry in entries}, live=True))

    def report(request: Request) -> Response:
        return html(gallery.report_page(entry(request.path_params["run"])), own=False)

    def compare(request: Request) -> Response:
        """Two runs beside each other; the older one is the first."""
        chosen = request.query_params.getlist("run")
        if len(chosen) != 2:
            raise InputError(f"tick two runs to compare them, not {len(chosen)}")
        first, second = sorted(map(entry, chosen), key=lambda entry: entry.created)
        return html(gallery.compare_page(first, second, base))

    def form(request: Request) -> Response:
        return html(gallery.ask_page(entry(request.path_params["run"]), base, LONGEST))

    def answered(identity: str, body: bytes) -> Response:
        """The form with the answer of the model."""
        given = parse_qs(body.decode("utf-8", "replace"), max_num_fields=8)
        premise, hypothesis = texts = [given.get(name, [""])[0].strip() for name in ("premise", "hypothesis")]
        if not premise or not hypothesis or max(map(len, texts)) > LONGEST:
            raise InputError(f"give a premise and a hypothesis of at most {LONGEST:,} characters")
        run, (asked, note) = entry(identity), model(identity)
        return html(gallery.ask_page(run, base, LONGEST, (premise, hypothesis), ask(asked, *texts), note))

    async def answer(request: Request) -> Response:
        origin, body = request.headers.get("origin"), b""
        if origin is not None and origin not in origins:
            return PlainTextResponse("not from here", 403, _HEADERS)
        async for part in request.stream():
            body += part
            if len(body) > _BODY:
                return html(gallery.problem_page("that is too long", base), 413)
        return await run_in_threadpool(answered, request.path_params["run"], body)

    def problem(request: Request, error: Exception) -> Response:
        return html(gallery.problem_page(str(error), base), 400)

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
    gallery.find_runs(folder)  # a folder that is not there is told before anything listens
    import uvicorn

    token = secrets.token_urlsafe(24)
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen()  # so that the address works as soon as it is told
        port = listening.getsockname()[1]
        app = make_app(folder, token, port)
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        on_ready(f"http://{LOOPBACK}:{port}/{token}/")
        uvicorn.Server(config).run(sockets=[listening])
