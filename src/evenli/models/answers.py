"""What a chat server answered: log-probabilities, texts and token counts, read from JSON that is not to be trusted."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.errors import ModelError
from evenli.format import printable
from evenli.io import json_text
from evenli.labels import LABELS
from evenli.models import prompts

CHARACTERS = 3.0  # per token, where a server does not count


def read_logprobs(top: Sequence[tuple[str, float]], view: prompts.View) -> tuple[NDArray[np.float64], float]:
    """Log-probability of each label from the likeliest tokens, and their mass.

    A label that is not among the tokens is less likely than the last of them, and gets that value.
    """
    least = min(value for _, value in top)
    by_label: dict[str, list[float]] = {}
    for token, value in top:
        label = view.label_of(token)
        if label is not None:
            by_label.setdefault(label, []).append(value)
    scores = np.array([np.logaddexp.reduce(by_label.get(label, [least])) for label in LABELS])
    mass = sum(math.exp(value) for values in by_label.values() for value in values)
    return scores, min(mass, 1.0)


def read_texts(texts: Sequence[str], view: prompts.View) -> tuple[NDArray[np.float64], float]:
    """Shares of the labels among generated answers, as log-probabilities, and the share that could be read.

    Half an answer is added to each label (Jeffreys), so that none is impossible after a few samples.
    """
    labels = [view.parse(text) for text in texts]
    counts = np.array([labels.count(label) for label in LABELS], dtype=np.float64)
    return np.log((counts + 0.5) / (counts.sum() + 1.5)), float(counts.sum() / len(texts))


def choice_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of an answer."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise ModelError(f"the server's answer has no choices: {printable(json_text(answer))[:200]}")
    return choices[0]


def text_of(answer: Mapping[str, Any]) -> str:
    """The generated text; empty where there is none."""
    message = choice_of(answer).get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""  # a refusal may have no text


def token_counts(answer: Mapping[str, Any], question: str) -> tuple[int, int]:
    """Tokens of question and answer, guessed where the server does not count."""
    usage = answer.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
    guessed = (math.ceil(len(question) / CHARACTERS), 1)
    first, second = (n if isinstance(n, int) and 0 <= n < 1e9 else g for n, g in zip(counts, guessed, strict=True))
    return int(first), int(second)


def top_logprobs(answer: Mapping[str, Any], expected: int) -> list[tuple[str, float]]:
    """The likeliest first tokens of an answer; refuses what are no log-probabilities."""
    given = choice_of(answer).get("logprobs")
    content = given.get("content") if isinstance(given, dict) else None
    first = content[0] if isinstance(content, list) and content else None
    top = first.get("top_logprobs") if isinstance(first, dict) else None
    if not isinstance(top, list) or len(top) < max(1, expected):
        count = len(top) if isinstance(top, list) else 0
        raise ModelError(f"the server gave {count} top log-probabilities where {expected or 'some'} were asked")
    tokens = []
    for entry in top:
        token, value = (entry.get("token"), entry.get("logprob")) if isinstance(entry, dict) else (None, None)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not isinstance(token, str) or not number or not value <= 0.01:  # type: ignore[operator]
            raise ModelError(f"the server gave {value!r} as the log-probability of {printable(repr(token))[:60]}")
        tokens.append((token, max(float(value), prompts.FLOOR)))  # type: ignore[arg-type]
    return tokens
