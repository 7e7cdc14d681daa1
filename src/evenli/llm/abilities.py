"""What a server can do, found out before the first pair: log-probabilities, repetition, and a prompt cache.

llama.cpp keeps the last question of each slot, and need not compute the beginning of the next one again. The numbers
are rounded otherwise then, so the cache is used only where that matters little.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.prompting import shares_of
from evenli.core.errors import ModelError
from evenli.core.format import printable
from evenli.core.io import json_text, to_plain
from evenli.llm import prompts
from evenli.llm.transport import RefusedError, Server, text_of, token_counts, top_logprobs

TOP = 20  # alternatives asked for; the most that hosted servers give
ANSWER = 16  # tokens of a generated answer
_FEWEST = 5  # with fewer alternatives than this the labels are not seen
_WEIGHTS = ("n_params", "n_vocab", "n_embd", "size", "ftype")  # what llama.cpp says about them
_LIMITS = ("max_tokens", "max_completion_tokens")
_LLAMA = "llamacpp"  # how llama.cpp names itself
_PAIRS = (("A person sleeps.", "A person rests."), ("A nurse waits.", "A woman waits."))
_SMALL = 0.25
"""Drift of the cache, as a part of what another view moves, up to which it is used.

At a quarter the spread between views grows by 3 %. Questions that are asked at the same time can drift as much without
the cache: llama.cpp computes them in batches, whose size changes the rounding.
"""


@dataclass(frozen=True)
class Abilities:
    """What a server can do, and how it is asked."""

    model: str
    top_logprobs: int  # alternatives per token; 0 where it gives no log-probabilities
    limit: str  # how the length of an answer is called
    engine: str  # who serves, where the server says so
    repeats_within: float  # largest difference of a log-probability when the first question is asked twice
    seconds: float  # a request took
    prompt_tokens: int  # of the first question; 0 where the server does not count
    described: str  # what the server says about the model's weights, as JSON
    seed: bool | None = None  # whether one seed gave one answer twice; None where nothing is drawn
    cached: bool | None = None  # whether the prompt cache is used; None where only the server knows
    cache_moves: float = math.nan  # probabilities of the labels, root mean square, with the cache instead of without
    views_move: float = math.nan  # the same, of one view from the mean of the views
    slots: int = 0  # questions that the server works on at a time, each with a cache; 0 where it does not say

    @property
    def extras(self) -> dict[str, Any]:
        """Fields that only this server knows."""
        return {} if self.cached is None else {"cache_prompt": self.cached}

    def card(self) -> dict[str, Any]:
        """What run.json remembers."""
        return {
            "model": self.model,
            "engine": self.engine,
            "logprobs": self.top_logprobs > 0,
            "top_logprobs": self.top_logprobs,
            "echo": None,  # log-probabilities of a prompt: chat endpoints have none, and none are needed
            "seed": self.seed,
            "prompt_cache": "as the server has it" if self.cached is None else "on" if self.cached else "off",
            "cache_moves": to_plain(self.cache_moves),
            "views_move": to_plain(self.views_move),
            "repeats_within": to_plain(self.repeats_within),
        }


def body(abilities: Abilities, question: str, sample: int = 0) -> dict[str, Any]:
    """The request for an answer."""
    asked = {"model": abilities.model, "messages": [{"role": "user", "content": question}], **abilities.extras}
    if abilities.top_logprobs:
        return asked | {abilities.limit: 1, "temperature": 0, "logprobs": True, "top_logprobs": abilities.top_logprobs}
    return asked | {abilities.limit: ANSWER, "temperature": 1, "seed": sample}


def probe(server: Server, views: Sequence[prompts.View]) -> Abilities:
    """Find out what a server can do; an unknown model is refused with those there are."""
    model, entry = _model(server)
    engine = str(entry.get("owned_by", ""))[:40]
    meta = entry.get("meta")
    # Which weights they are, and not how they are served.
    described = json_text({name: meta.get(name) for name in _WEIGHTS}) if isinstance(meta, dict) else ""
    refusal: ModelError | None = None
    cached = False if engine == _LLAMA else None
    for top in (TOP, _FEWEST, 0):
        for limit in _LIMITS:
            abilities = Abilities(model, top, limit, engine, math.nan, math.nan, 0, described, cached=cached)
            try:
                abilities = _tried(server, abilities, views[0])
                return _try_cache(server, abilities, views) if cached is False and abilities.top_logprobs else abilities
            except RefusedError as error:
                refusal = refusal or error
    raise refusal or ModelError("the server refuses every form of the question")


def _model(server: Server) -> tuple[str, Mapping[str, Any]]:
    """The model that is asked, and what the server says about it."""
    wanted, host = server.address.model, server.address.host
    try:
        data = server.ask(server.address.models).get("data")
    except RefusedError:  # not every server lists its models
        data = None
    listed = data if isinstance(data, list) else []
    entries = {str(model["id"]): model for model in listed if isinstance(model, dict) and "id" in model}
    if not wanted and len(entries) == 1:
        wanted = next(iter(entries))
    few = ", ".join(list(entries)[:10]) + (f" and {len(entries) - 10} more" if len(entries) > 10 else "")
    if not wanted:
        raise ModelError(
            f"name a model behind the address, as in chat:URL#model; {host} offers {printable(few) or '?'}"
        )
    if entries and wanted not in entries:
        raise ModelError(f"{host} has no model '{printable(wanted)}'; it offers {printable(few)}")
    return wanted, entries.get(wanted, {})


def _tried(server: Server, abilities: Abilities, view: prompts.View) -> Abilities:
    """Ask twice: what comes back, how long it takes, and whether it is the same."""
    question = body(abilities, view.text(*_PAIRS[0]))
    started = time.monotonic()
    first, second = server.ask(question), server.ask(question)
    seconds = (time.monotonic() - started) / 2
    top, difference = 0, math.nan
    if abilities.top_logprobs:
        with suppress(ModelError):  # the server took the field and ignored it
            before, after = (dict(top_logprobs(answer, 1)) for answer in (first, second))
            if len(before) >= _FEWEST:
                top = min(len(before), abilities.top_logprobs)
                difference = max((abs(before[t] - after[t]) for t in before if t in after), default=math.nan)
    tokens, _ = token_counts(first, "")  # 0 where the server does not count
    # Answers are drawn where there are no log-probabilities, both with the seed of the first sample.
    seed = None if abilities.top_logprobs else text_of(first) == text_of(second)
    return replace(
        abilities, top_logprobs=top, repeats_within=difference, seconds=seconds, prompt_tokens=tokens, seed=seed
    )


def _try_cache(server: Server, abilities: Abilities, views: Sequence[prompts.View]) -> Abilities:
    """Use the prompt cache if what it changes is small against what another view changes.

    In each view a pair is asked with the beginning that the pair before it left in the cache, and without.
    """
    plain, cached = abilities, replace(abilities, cached=True)
    shares, seconds = [], 0.0
    for view in views:
        _labels(server, plain, view, _PAIRS[0])
        started = time.monotonic()
        reused = _labels(server, cached, view, _PAIRS[1])
        seconds += time.monotonic() - started
        shares.append((reused, _labels(server, plain, view, _PAIRS[1])))
    reused, computed = np.array(shares).swapaxes(0, 1)
    moved = float(np.sqrt(np.mean((reused - computed) ** 2)))
    between = float(np.sqrt(computed.var(axis=0).mean()))
    if moved > _SMALL * between:
        return replace(plain, cache_moves=moved, views_move=between)
    slots: Any = 0
    with suppress(ModelError):
        slots = server.ask(server.address.properties).get("total_slots")
    slots = slots if isinstance(slots, int) and slots > 0 else 0
    return replace(cached, cache_moves=moved, views_move=between, slots=slots, seconds=seconds / len(views))


def _labels(server: Server, abilities: Abilities, view: prompts.View, pair: tuple[str, str]) -> NDArray[np.float64]:
    """Probabilities of the labels in one answer."""
    answer = server.ask(body(abilities, view.text(*pair)))
    return shares_of(prompts.read_logprobs(top_logprobs(answer, abilities.top_logprobs), view)[0])
