"""A small OpenAI-compatible server of our own, which can misbehave in every way that a client must survive."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from evenli.audit.models.callables import fake_model
from evenli.core.labels import LABELS
from evenli.llm.prompts import View, make_views

VIEWS = make_views("en", 3, 6)


def read_question(text: str) -> tuple[View, str, str]:
    """Which view asks, and for which pair."""
    for view in VIEWS:
        if text.startswith(view.beginning + "\n\n"):
            first, second = view.prompt["premise"], view.prompt["hypothesis"]
            found = re.search(rf"\n\n{first}: (.*)\n{second}: (.*)\n", text)
            assert found is not None
            return view, found[1], found[2]
    raise AssertionError(f"no view asks: {text}")


class ChatServer(ThreadingHTTPServer):
    """Answers as a fake model does. ``faults`` gets the number of each chat request and may act before the answer.

    A fault returns None to go on, a tuple (status, headers, body) to answer with that, or raises ConnectionError to
    drop the connection. ``top`` log-probabilities are given; 0 gives none, and answers are texts.
    """

    request_queue_size = 64  # with five places, the sixth of eight connections at once waits for a second

    daemon_threads = True

    def __init__(self, kind: str = "biased", *, top: int = 20, faults: Callable[..., Any] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.fake = fake_model(kind)
        self.top, self.faults, self.key = top, faults, ""
        self.models = ["tiny"]
        self.listed: Any = None  # sent in place of the list of models
        self.mass, self.says = 0.9, ""  # what the labels get; what a generated answer says instead of the label
        # Nats that entailment gains: for each view more than for the one before, and from the prompt cache.
        self.spread = self.drift = 0.0
        self.slots = 0  # what llama.cpp says of itself; 0 for a server that is another
        self.cached: list[bool | None] = []  # whether each question may use the cache
        self.count, self.lock = 0, threading.Lock()
        self.asked: list[tuple[str, str, str]] = []
        self.at_once = self.most_at_once = 0
        self.edit: Callable[[dict[str, Any]], None] = lambda answer: None

    @property
    def url(self) -> str:
        """Address with the model."""
        return f"http://127.0.0.1:{self.server_address[1]}#tiny"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error here."""

    def probabilities(self, premise: str, hypothesis: str) -> dict[str, float]:
        """The fake's label is likeliest; the others differ a little by text, as real ones do."""
        (row,) = self.fake.logits([(premise, hypothesis)])
        shade = (sum(map(ord, premise + hypothesis)) % 7) / 100
        shares = dict.fromkeys(LABELS, 0.1 + shade)
        shares[LABELS[int(row.argmax())]] = 0.8 - 2 * shade
        return shares


class Handler(BaseHTTPRequestHandler):
    """The two endpoints."""

    server: ChatServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet: two would wait for each other
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Nothing is printed."""

    def reply(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def refused(self) -> bool:
        if self.server.key and self.headers.get("Authorization") != f"Bearer {self.server.key}":
            self.reply(401, {"error": f"wrong key {self.headers.get('Authorization')}"})
            return True
        return False

    def do_GET(self) -> None:
        if not self.refused():
            slots = self.server.slots
            if self.path == "/props":
                self.reply(200 if slots else 404, {"total_slots": slots})
                return
            models = [{"id": name, "owned_by": "llamacpp" if slots else "tests"} for name in self.server.models]
            self.reply(200, {"data": models if self.server.listed is None else self.server.listed})

    def do_POST(self) -> None:
        server = self.server
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            server.count += 1
            number = server.count
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        try:
            if self.refused():
                return
            fault = server.faults(number) if server.faults else None
            if fault is not None:
                self.reply(*fault)
                return
            self.answer(body)
        except ConnectionError:
            self.close_connection = True
        finally:
            with server.lock:
                server.at_once -= 1

    def answer(self, body: dict[str, Any]) -> None:
        server = self.server
        text = body["messages"][0]["content"]
        view, premise, hypothesis = read_question(text)
        server.asked.append((view.name, premise, hypothesis))
        shares = server.probabilities(premise, hypothesis)
        server.cached.append(body.get("cache_prompt"))
        shares[LABELS[0]] *= math.exp(server.spread * VIEWS.index(view) + server.drift * bool(server.cached[-1]))
        shares = {label: share / sum(shares.values()) for label, share in shares.items()}
        best = max(shares, key=lambda label: shares[label])
        choice: dict[str, Any] = {"message": {"role": "assistant", "content": server.says or view.answers[best]}}
        if server.top and body.get("logprobs"):
            top = [(view.answers[label], math.log(server.mass * share)) for label, share in shares.items()]
            top += [(f"word{i}", math.log((1 - server.mass) / 2 ** (i + 1))) for i in range(server.top - len(top))]
            entries = [{"token": token, "logprob": value} for token, value in sorted(top, key=lambda one: -one[1])]
            choice["logprobs"] = {"content": [{"token": "x", "logprob": -1, "top_logprobs": entries}]}
        choice |= {"index": 0, "finish_reason": "stop"}
        tokens = len(text) // 4
        usage = {"prompt_tokens": tokens, "completion_tokens": 1, "total_tokens": tokens + 1}
        about = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
        answer = {**about, "choices": [choice], "usage": usage}
        server.edit(answer)
        self.reply(200, answer)


@contextmanager
def serving(*arguments: Any, **more: Any) -> Iterator[ChatServer]:
    """A server in a thread."""
    server = ChatServer(*arguments, **more)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    with serving() as one:
        print(one.url, flush=True)
        time.sleep(600)
