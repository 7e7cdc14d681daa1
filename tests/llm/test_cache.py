"""The prompt cache of a server: whether it is used, and in which order it is asked then."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("httpx")

from chat_server import ChatServer, serving
from evenli.audit.models import ModelOptions, Prompting, load_model
from evenli.audit.suites.base import load_suite
from evenli.core.labels import LABELS
from evenli.llm import transport

QUESTIONS = 2 + 3 * 9
"""That find out what llama.cpp can do: the first one twice, then three in every view."""


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BACKOFF", 0.0)


def loaded(server: ChatServer, concurrency: int = 8) -> Any:
    return load_model(f"chat:{server.url}", options=ModelOptions(prompting=Prompting(concurrency=concurrency)))


def shares(server: ChatServer, view: int, drift: float) -> np.ndarray:
    """What the server answers to the second pair that it is tried with."""
    given = server.probabilities("A nurse waits.", "A woman waits.")
    tilted = np.array([given[label] for label in LABELS]) * [math.exp(server.spread * view + drift), 1, 1]
    return tilted / tilted.sum()


@pytest.mark.parametrize(("drift", "used"), [(0.02, "on"), (1.0, "off")])
def test_the_cache_is_used_where_it_moves_little_beside_the_wording(drift: float, used: str) -> None:
    with serving("biased") as server:
        server.slots, server.spread, server.drift = 4, 0.2, drift
        card = loaded(server).abilities.card()
        # Of the fake's 18 views the first 3 orders of each wording are asked.
        views = [6 * wording + order for wording in range(3) for order in range(3)]
        plain, moved = (np.array([shares(server, view, shift) for view in views]) for shift in (0.0, drift))
    assert len(server.cached) == QUESTIONS
    assert server.cached == [False] * 2 + [False, True, False] * 9
    assert card["cache_moves"] == pytest.approx(np.sqrt(np.mean((moved - plain) ** 2)), rel=1e-3)
    assert card["views_move"] == pytest.approx(np.sqrt(np.mean((plain - plain.mean(axis=0)) ** 2)), rel=1e-3)
    assert (card["cache_moves"] <= 0.25 * card["views_move"]) == (used == "on")
    assert card["prompt_cache"] == used


def test_pairs_that_begin_alike_follow_each_other() -> None:
    words = ["nurse", "carpenter", "mechanic", "artist"]
    frame = load_suite("coal").where(pl.col("occupation").is_in(words)).frame
    pairs = list(zip(frame["premise"], frame["hypothesis"], strict=True))
    with serving("biased") as server:
        server.slots, server.spread = 2, 0.2
        model = loaded(server)
        assert model.abilities.slots == model._concurrency == 2
        with_cache = model.logits(pairs)
        asked, cached = server.asked[QUESTIONS:], server.cached[QUESTIONS:]
        assert cached == [True] * (9 * len(pairs))
        server.drift = 1.0
        without = loaded(server)
        assert without.abilities.slots == 0 and not without.abilities.cached
        assert without.logits(pairs) == pytest.approx(with_cache, abs=1e-5)
        assert not any(server.cached[-9 * len(pairs) :])
    assert sorted(asked) == sorted((view.name, *pair) for pair in pairs for view in model.views)
    # Each view asks runs of 32 pairs, in which both hypotheses of a premise follow each other.
    jobs = model._jobs(pairs)
    assert [view for view, _ in jobs] == [*range(9)] * 3 and [len(run) for _, run in jobs[::9]] == [32, 32, 16]
    for _, run in jobs:
        premises = [pairs[at][0] for at in run]
        assert sum(one != two for one, two in pairwise(premises)) == len(run) / 2 - 1
    # Without a cache the views of a pair follow each other, so that it is finished early.
    assert without._jobs(pairs)[:10] == [*((view, [0]) for view in range(9)), (0, [1])]


def test_another_server_is_left_as_it_is() -> None:
    with serving("biased") as server:
        card = loaded(server).abilities.card()
        assert server.cached == [None, None]
    assert card["prompt_cache"] == "as the server has it" and card["cache_moves"] is None


def test_a_server_that_says_nothing_of_its_slots_is_asked_as_many_questions_as_wanted() -> None:
    with serving("biased") as server:
        server.slots, server.spread = 4, 0.2
        server.listed = [{"id": "tiny", "owned_by": "llamacpp"}]
        server.slots = 0  # 404
        model = loaded(server, concurrency=3)
    assert model.abilities.cached and model.abilities.slots == 0 and model._concurrency == 3


def test_servers_without_log_probabilities_keep_no_prompts() -> None:
    with serving("biased", top=0) as server:
        server.slots = 4
        card = loaded(server).abilities.card()
        assert server.cached[-2:] == [False, False]
    assert card["prompt_cache"] == "off"
