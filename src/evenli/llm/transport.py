"""A client of OpenAI-compatible servers: bounded concurrency, retries, limits, and a key that only its host sees.

What a server answers is JSON that is not to be trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import os
import queue
import random
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from evenli.core.errors import InputError, ModelError, translated
from evenli.core.extras import need
from evenli.core.format import printable
from evenli.core.io import json_text
from evenli.core.parse import parse_json_object
from evenli.llm import prompts

KEY = "EVENLI_CHAT_KEY"
_OWN_KEYS = {"api.openai.com": "OPENAI_API_KEY"}
"""Keys of other programs, which only the host they are made for gets."""
TRIES = 6
BACKOFF = 0.5  # seconds before the first further try; doubled each time
LONGEST_WAIT = 300.0  # a server that asks for more is left alone
TIMEOUT = 120.0
CHARACTERS = 3.0  # per token, where a server does not count
_LARGEST = 4 << 20  # bytes of an answer
_AGAIN = "finished pairs are kept; run the same command again to go on"


WHO = ("model", "system_fingerprint")
"""Fields in which an answer says who gives it: the model, and its build or the settings it is served with."""


class RefusedError(ModelError):
    """The server understood the request and does not do that."""


@dataclass(frozen=True)
class Address:
    """Where a server is, and the model that is asked there."""

    base: str  # up to and with /v1
    host: str
    model: str
    is_local: bool
    is_encrypted: bool

    @classmethod
    def parse(cls, target: str) -> Address:
        """Read ``URL#model``."""
        with translated(f"chat:{printable(target)} is no address (", ")", into=ModelError, kinds=(ValueError,)):
            parts = urlsplit(target)
            host, _ = parts.hostname or "", parts.port
        if parts.scheme not in {"http", "https"} or not host:
            raise ModelError(f"chat:{printable(target)} is no address; write chat:http://127.0.0.1:8080#model")
        if parts.username or parts.password or parts.query:
            raise ModelError(f"a key does not belong into an address, which is stored; put it into {KEY}")
        path = parts.path.rstrip("/").removesuffix("/chat/completions") or "/v1"
        is_local = host == "localhost"
        with contextlib.suppress(ValueError):  # a name and no number
            is_local = ipaddress.ip_address(host).is_loopback
        return cls(f"{parts.scheme}://{parts.netloc}{path}", host, parts.fragment, is_local, parts.scheme == "https")

    @property
    def models(self) -> str:
        """Where a server lists its models."""
        return f"{self.base}/models"

    @property
    def properties(self) -> str:
        """Where llama.cpp says how it is set up."""
        return f"{self.base.removesuffix('/v1')}/props"

    def key(self) -> tuple[str, str]:
        """The key for this host, and the variable that holds it; empty where there is none."""
        name = next((name for name in (KEY, _OWN_KEYS.get(self.host, "")) if name and os.environ.get(name)), "")
        value = os.environ.get(name, "").strip() if name else ""
        if value and not (value.isascii() and value.isprintable()):
            raise ModelError(f"{name} holds characters that no key has")
        if value and not self.is_encrypted and not self.is_local:
            raise ModelError(f"{name} would go to {self.host} unencrypted; use https, or unset it")
        return value, name


Message = Mapping[str, Any] | str
"""A body for the chat endpoint, or an address at which the server says something about itself."""
Handler = Callable[[Message], Awaitable[dict[str, Any]]]
"""Sends one request and gives the answer."""


class Server:
    """One server; every request goes to its host and nowhere else."""

    def __init__(self, address: Address) -> None:
        self._httpx = need("httpx", extra="chat", purpose="asking a language model on a server")
        self.address = address
        self._key, self._key_name = address.key()
        # Made once: reading the certificates takes longer than most answers. Plain HTTP needs none.
        encrypted = address.is_encrypted
        self._tls = self._httpx.create_ssl_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._resume_at = 0.0  # no request before this time, on the monotonic clock
        self.requests = self.retries = 0
        self.answering: dict[str, str] = {}  # what the first answer says of who gives it, and all others must

    def ask(self, request: Message) -> dict[str, Any]:
        """One answer."""
        (answer,) = self.work([request], lambda request, send: send(request), 1)
        return dict(answer)

    def work(
        self, jobs: Sequence[Any], do: Callable[[Any, Handler], Awaitable[Any]], concurrency: int
    ) -> Iterator[Any]:
        """Do jobs, ``concurrency`` at a time; their results come as they are done, before an error that ends it."""

        async def run(put: Callable[[Any], None]) -> None:
            remaining = iter(jobs)
            async with self._client(concurrency) as client:

                async def worker() -> None:
                    for job in remaining:
                        put(await do(job, lambda request: self._send(client, request)))

                workers = [asyncio.create_task(worker()) for _ in range(min(concurrency, len(jobs)))]
                try:
                    await asyncio.gather(*workers)
                finally:
                    # One error ends all: nothing more is sent, and what is on its way is not waited for.
                    for task in workers:
                        task.cancel()
                    await asyncio.gather(*workers, return_exceptions=True)

        return _threaded(run)

    def _client(self, connections: int) -> Any:
        httpx = self._httpx
        return httpx.AsyncClient(
            headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            # A redirect would carry the key and the pairs to a place that the user did not name.
            follow_redirects=False,
            timeout=httpx.Timeout(TIMEOUT, connect=10.0),
            limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
            # Proxies of the environment are for other machines than this one.
            trust_env=not self.address.is_local,
            verify=self._tls,
        )

    async def _send(self, client: Any, request: Message) -> dict[str, Any]:
        """One answer; what may pass (time-outs, lost connections, 429, 5xx, broken JSON) is tried again."""
        method, url, tries = "POST", f"{self.address.base}/chat/completions", TRIES
        body = None if isinstance(request, str) else request
        if isinstance(request, str):
            # Without patience: the user is waiting for the first word of the server.
            method, url, tries = "GET", request, 2
        problem = ""
        for attempt in range(tries):
            delay = self._resume_at - time.monotonic()
            if delay > 0:
                await asyncio.sleep(delay)
            wait = BACKOFF * 2**attempt * (0.5 + random.random())
            self.requests += 1
            try:
                async with client.stream(method, url, json=body) as response:
                    content = await _read(response)
                    if response.status_code == 200:
                        answer = parse_json_object(content, self.address.host)
                        if body is not None and "choices" in answer:
                            self._check_same(answer)
                        return answer
                    problem, asked = self._judge(response.status_code, response.headers, content)
                    wait = max(wait, asked)
                    if asked:  # the others need not find out one by one
                        self._resume_at = max(self._resume_at, time.monotonic() + asked)
            except InputError as error:
                problem = str(error)
            except self._httpx.HTTPError as error:
                problem = str(error) or type(error).__name__
            self.retries += 1
            if attempt + 1 < tries:
                await asyncio.sleep(wait)
        where = self.address.base.rpartition("/")[0]
        # As many failures as requests: it has never answered, so nothing is finished yet.
        advice = _AGAIN if self.requests > self.retries else "is it running, and is the address right?"
        raise ModelError(f"no answer from {where} after {tries} tries ({self._clean(problem)}); {advice}")

    def _check_same(self, answer: Mapping[str, Any]) -> None:
        """Refuse an answer of another model, or of another build of it, than the first: a run is of one."""
        says = {name: _short(answer.get(name)) for name in WHO}
        self.answering = self.answering or says
        for name, value in says.items():
            if value != (before := self.answering[name]):
                raise ModelError(
                    f"{self.address.host} changed its {name} from '{before}' to '{value}' between two answers, and a "
                    f"run is of one model; {_AGAIN}, or begin anew (--overwrite)"
                )

    def _judge(self, status: int, headers: Mapping[str, str], content: bytes) -> tuple[str, float]:
        """What went wrong and how long the server wants us to wait; raises where another try is no use."""
        text = self._clean(content[:2_000].decode("utf-8", "replace"))
        if 300 <= status < 400:
            target = urlsplit(headers.get("location", "")).hostname or "another path"
            raise ModelError(
                f"{self.address.host} redirects to {printable(target)}, and evenli asks only the address it is "
                "given; give the final one"
            )
        if status in {401, 403}:
            key = f"the key in {self._key_name}" if self._key else f"a request without a key; put one into {KEY}"
            raise ModelError(f"{self.address.host} refuses {key} (status {status}: {text})")
        if status not in {408, 409, 425, 429} and status < 500:
            raise RefusedError(f"{self.address.host} refuses the request (status {status}: {text})")
        asked = _seconds(headers.get("retry-after", ""))
        if asked > LONGEST_WAIT:
            raise ModelError(f"{self.address.host} asks to wait {asked:.0f} seconds (status {status}); {_AGAIN}")
        return f"status {status}: {text}", asked

    def _clean(self, text: str) -> str:
        """Text of a server for people: one short line, and never the key."""
        if self._key:
            text = text.replace(self._key, "***")
        return printable(" ".join(text.split()))[:200]


def _short(value: Any) -> str:
    """A name that a server gives; empty where it is none."""
    return printable(value)[:200] if isinstance(value, str) else ""


async def _read(response: Any) -> bytes:
    content = bytearray()
    async for part in response.aiter_bytes():
        content += part
        if len(content) > _LARGEST:
            raise InputError(f"an answer of more than {_LARGEST >> 20} MB")
    return bytes(content)


def _at(answer: Any, *path: str | int) -> Any:
    """What stands at a place in an answer; None where there is no such place.

    >>> _at({"choices": [{"text": "A"}]}, "choices", 0, "text"), _at({"choices": "A"}, "choices", 0, "text")
    ('A', None)
    """
    for step in path:
        try:
            answer = answer[step]
        except (KeyError, IndexError, TypeError):
            return None
    return answer


def _choice(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    choice = _at(answer, "choices", 0)
    if not isinstance(choice, dict):
        raise ModelError(f"the server's answer has no choices: {printable(json_text(answer))[:200]}")
    return choice


def text_of(answer: Mapping[str, Any]) -> str:
    """The generated text; empty where there is none, as in a refusal."""
    content = _at(_choice(answer), "message", "content")
    return content if isinstance(content, str) else ""


def token_counts(answer: Mapping[str, Any], question: str) -> tuple[int, int]:
    """Tokens of question and answer, guessed where the server does not count."""
    counts = (_at(answer, "usage", name) for name in ("prompt_tokens", "completion_tokens"))
    guessed = (math.ceil(len(question) / CHARACTERS), 1)
    first, second = (n if isinstance(n, int) and 0 <= n < 1e9 else g for n, g in zip(counts, guessed, strict=True))
    return int(first), int(second)


def top_logprobs(answer: Mapping[str, Any], expected: int) -> list[tuple[str, float]]:
    """The likeliest first tokens of an answer; refuses what are no log-probabilities."""
    top = _at(_choice(answer), "logprobs", "content", 0, "top_logprobs")
    if not isinstance(top, list) or len(top) < max(1, expected):
        count = len(top) if isinstance(top, list) else 0
        raise ModelError(f"the server gave {count} top log-probabilities where {expected or 'some'} were asked")
    tokens = []
    for entry in top:
        token, value = _at(entry, "token"), _at(entry, "logprob")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(token, str) or not number or not value <= 0.01:
            raise ModelError(f"the server gave {value!r} as the log-probability of {printable(repr(token))[:60]}")
        tokens.append((token, max(float(value), prompts.FLOOR)))
    return tokens


def _seconds(text: str) -> float:
    """Retry-After: seconds or a date; 0 where it is neither."""
    with contextlib.suppress(ValueError):
        return max(0.0, float(text))
    with contextlib.suppress(TypeError, ValueError):
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(timezone.utc)).total_seconds())
    return 0.0


def _threaded(run: Callable[[Callable[[Any], None]], Coroutine[Any, Any, None]]) -> Iterator[Any]:
    """What a coroutine puts, as it comes; in a thread, because a notebook has an event loop of its own."""
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    loop = asyncio.new_event_loop()
    task = loop.create_task(run(results.put))
    task.add_done_callback(results.put)  # after all results: the task itself
    thread = threading.Thread(target=loop.run_until_complete, args=[asyncio.wait([task])], daemon=True)
    thread.start()
    try:
        while (value := results.get()) is not task:
            yield value
        task.result()  # raises what ended it
    finally:
        if thread.is_alive():
            loop.call_soon_threadsafe(task.cancel)
            thread.join()
        loop.close()
