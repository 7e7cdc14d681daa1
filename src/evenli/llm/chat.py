"""Language models behind an OpenAI-compatible server: llama.cpp, vLLM, Ollama, TGI or a hosted one.

A server that gives log-probabilities is asked for one token and its likeliest alternatives. One that gives none is
asked for several short answers, and the shares of the labels take the place of probabilities.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenli.audit.models.base import ModelInfo, ModelRequest, Prepared, Prompting
from evenli.core.errors import LabelError, ModelError
from evenli.core.io import hash_text
from evenli.core.labels import LABELS
from evenli.core.record import Record
from evenli.llm import prompts
from evenli.llm.abilities import ANSWER, TOP, Abilities, body, probe
from evenli.llm.transport import CHARACTERS, Address, Handler, Server, text_of, token_counts, top_logprobs

TOKENS = ("prompt_tokens", "answer_tokens")
"""Columns: what each pair took, so that a run that is continued knows what it has spent."""
_RUN = 32
"""Pairs asked one after the other in one view where a server keeps what they begin with: computed once for them."""
_GROUP, _SECONDS = 16, 1.0  # finished pairs are handed on in groups of this size, or after this time
Pair = tuple[str, str]


class Usage(Record, frozen=True):
    """What asking took: requests, those sent again, tokens, and money where there is a price."""

    optional: ClassVar[tuple[str, ...]] = ("cost",)

    requests: int
    retries: int
    prompt_tokens: int
    answer_tokens: int
    cost: float | None = None


class Spending:
    """Tokens and money: what was spent, what is on its way, and the limit."""

    def __init__(self, settings: Prompting) -> None:
        self.tokens = [0, 0]
        self._price, self._limit = settings.price, settings.max_cost
        self._under_way, self._largest = 0, 0.0

    def cost(self, prompt: float, answer: float) -> float:
        """In the currency of the price."""
        first, second = self._price or (0.0, 0.0)
        return (prompt * first + answer * second) / 1e6

    @property
    def spent(self) -> float:
        """So far."""
        return self.cost(*self.tokens)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Around a request: refuse it if it and those under way could pass the limit."""
        if self._limit is not None and self.spent + (self._under_way + 1) * self._largest > self._limit:
            raise ModelError(
                f"stopped before a cost of {self._limit:g} (--max-cost): {self.spent:.4f} is spent; finished pairs are "
                "kept, do the same with a larger limit to go on"
            )
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    def add(self, prompt: int, answer: int) -> None:
        """Count a request; the dearest so far is what the next may cost."""
        self.tokens[0] += prompt
        self.tokens[1] += answer
        self._largest = max(self._largest, self.cost(prompt, answer))


class ChatModel:
    """A model that is asked on a server, every pair in every view; ``find`` says what the server can do."""

    bucket, named_labels = 1_000_000, True
    token_budget = 64 * bucket
    _prior: NDArray[np.float64] | None = None

    def __init__(
        self,
        server: Server,
        request: ModelRequest,
        find: Callable[[Server, Sequence[prompts.View]], Abilities] = probe,
    ) -> None:
        if request.options.labels:
            raise LabelError("a language model is asked for labels by name; leave the labels (--labels) out")
        self._settings = settings = request.options.prompting
        self.views = prompts.make_views(request.lang, settings.prompts, settings.orders)
        self._server = server
        self.spending, self.abilities = Spending(settings), find(server, self.views)
        # A question that waits for a slot would find another one's beginning there.
        kept = self.abilities.slots if self.abilities.cached else 0
        self._concurrency = min(settings.concurrency, kept or settings.concurrency)
        self._samples = 1 if self.abilities.top_logprobs else settings.samples
        self.details = (*prompts.details(self.views), *TOKENS)
        how = "log-probabilities of the first token" if self.abilities.top_logprobs else "generated answers"
        self.prompting = {"mode": how, "samples": self._samples, **prompts.card(self.views)}
        about = self.abilities.card() | {"answering": server.answering}
        self.prompting |= {"columns": list(self.details), "server": about}
        host, count = self._server.address.host, self.abilities.top_logprobs
        self.note = "" if count >= TOP else f"{host} gives {count} top log-probabilities, not {TOP}"
        if not count:
            shares = f"the numbers are shares of {self._samples} generated answers"
            self.note = f"{host} gives no log-probabilities: {shares}"
        known = (self.abilities.model, self.abilities.described, *self._server.answering.items())
        asked = (host, *known, how, self._samples)
        calibrated = " calibrated" if settings.calibrate else ""
        self.info = ModelInfo(
            spec=request.spec,
            backend=request.spec.partition(":")[0],
            name=self.abilities.model,
            fingerprint=hash_text(repr((asked, count, prompts.identity(self.views))) + calibrated),
            labels=LABELS,
            device=host,
            dtype="unknown",
        )
        if settings.calibrate:
            self._prior = prompts.measure_prior(self)

    def prepare(self, premises: Sequence[str], hypotheses: Sequence[str]) -> Prepared:
        """Keep the texts; the server counts the tokens."""
        items: list[Any] = list(zip(premises, hypotheses, strict=True))
        return Prepared(items, np.ones(len(items), dtype=np.int32))

    def begin(self, prepared: Prepared, scores: NDArray[np.float32], warn: Callable[[str], None]) -> None:
        """Say what is ahead; refuse a run that would cost more than allowed."""
        done = self.count_spent(scores)
        missing: Any = prepared.take(np.flatnonzero(~done))
        if not missing:
            return
        again = min(64, -(-len(prepared.items) // 16))  # pairs that are asked twice, to see whether answers change
        count = (len(missing) + again) * len(self.views) * self._samples
        longest = self.views[0].text("", "")
        per_token = len(longest) / self.abilities.prompt_tokens if self.abilities.prompt_tokens else CHARACTERS
        around = sum(len(view.text("", "")) for view in self.views) / len(self.views)
        letters = sum(len(premise) + len(hypothesis) for premise, hypothesis in missing) / len(missing) + around
        tokens = count * letters / per_token
        answers = count * (1 if self.abilities.top_logprobs else ANSWER)
        seconds = count * self.abilities.seconds / self._concurrency
        ahead = f"{count:,} requests ({len(missing):,} pairs, {len(self.views)} views), about {tokens:,.0f} tokens"
        pace = f" and {_duration(seconds)} at the pace of the first, {self._concurrency} at a time" if seconds else ""
        line = f"{ahead}{pace}"
        if self._settings.price is not None:
            cost = self.spending.spent + self.spending.cost(tokens, answers)
            line += f", cost about {cost:.2f}"
            limit = self._settings.max_cost
            if limit is not None and cost > limit:
                raise ModelError(f"{ahead} cost about {cost:.4f}, more than {limit:g} (--max-cost); nothing was asked")
        warn(line)

    def count_spent(self, scores: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Count the tokens of the pairs that are finished, and say which they are."""
        done = np.asarray(~np.isnan(scores).any(axis=1))
        spent = scores[done, -2:].sum(axis=0, dtype=np.float64)
        if done.any():
            self.spending.add(int(spent[0]), int(spent[1]))
            self.spending._largest = 0.0
        return done

    def logits(self, items: Sequence[Pair]) -> NDArray[np.float32]:
        """Ask a batch and wait for all of it."""
        scores = np.empty((len(items), len(LABELS) + len(self.details)), dtype=np.float32)
        for at, numbers in self.stream(items):
            scores[at] = numbers
        return scores

    def stream(self, items: Sequence[Pair]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Ask many pairs; groups of finished ones come as soon as they are done, also before an error."""
        jobs = self._jobs(items)
        shape = len(items), len(self.views)
        scores, mass, tokens = np.empty((*shape, len(LABELS))), np.empty(shape), np.zeros((len(items), 2), np.float32)
        missing = np.full(len(items), len(self.views))  # views without an answer yet
        ready: list[int] = []
        since = time.monotonic()

        async def do(job: tuple[int, Sequence[int]], send: Handler) -> Sequence[int]:
            view, run = job
            for at in run:
                scores[at, view], mass[at, view], used = await self._ask(self.views[view], items[at], send)
                tokens[at] += used
            return run

        def group() -> tuple[NDArray[np.int64], NDArray[np.float32]]:
            done = np.array(ready, dtype=np.int64)
            ready.clear()
            numbers = prompts.combine(scores[done], mass[done], self.views, self._prior)
            return done, np.concatenate([numbers, tokens[done]], axis=1)

        try:
            for run in self._server.work(jobs, do, self._concurrency):
                missing[run] -= 1
                ready += [at for at in run if not missing[at]]
                if ready and (len(ready) >= _GROUP or time.monotonic() - since > _SECONDS):
                    yield group()
                    since = time.monotonic()
        except Exception:
            if ready:
                yield group()
            raise
        if ready:
            yield group()

    def _jobs(self, items: Sequence[Pair]) -> list[tuple[int, Sequence[int]]]:
        """A view, and the pairs that are asked in it one after the other."""
        views, order = range(len(self.views)), range(len(items))
        if not self.abilities.cached:
            # Pair by pair, so that whole pairs are finished, and kept, as early as possible.
            return [(view, [at]) for at in order for view in views]
        # Pairs with one premise follow each other.
        alike = sorted(order, key=items.__getitem__)
        return [(view, alike[at : at + _RUN]) for at in order[::_RUN] for view in views]

    async def _ask(
        self, view: prompts.View, pair: Pair, send: Handler
    ) -> tuple[NDArray[np.float64], float, NDArray[np.int64]]:
        """Log-probabilities of the labels, their mass, and the tokens of questions and answers."""
        question, given, tokens = view.text(*pair), [], np.zeros(2, dtype=np.int64)
        for sample in range(self._samples):
            with self.spending.request():
                given.append(await send(body(self.abilities, question, sample)))
            used = token_counts(given[-1], question)
            self.spending.add(*used)
            tokens += used
        if self.abilities.top_logprobs:
            scores, mass = prompts.read_logprobs(top_logprobs(given[0], self.abilities.top_logprobs), view)
        else:
            scores, mass = prompts.read_texts([text_of(answer) for answer in given], view)
        return scores, mass, tokens

    @property
    def status(self) -> str:
        """For the progress bar."""
        cost = f", {self.spending.spent:.3f} spent" if self._settings.price is not None else ""
        return f"({sum(self.spending.tokens):,} tokens{cost})"

    def usage(self) -> Usage:
        """For run.json."""
        prompt, answer = self.spending.tokens
        cost = self.spending.spent if self._settings.price is not None else None
        return Usage(self._server.requests, self._server.retries, prompt, answer, cost)


def load_chat(target: str, request: ModelRequest) -> ChatModel:
    """The backend ``chat:URL#model``."""
    return ChatModel(Server(Address.parse(target)), request)


def _duration(seconds: float) -> str:
    """A time ahead, for people.

    >>> _duration(40), _duration(600), _duration(9000)
    ('40 s', '10 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
