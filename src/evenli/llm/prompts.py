"""How a language model is asked: wordings, option orders, and one row of numbers from the answers to all of them.

A *view* is one wording with its options in one order. Every pair is asked in every view. The three labels are
renormalised in each view, the probabilities are averaged over the views (``evenli.audit.prompting.mixture``), and what
the labels had of the model's probability, their *mass*, is kept: a model that would rather say something else abstains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.predictions import ABSTAINED, MASS, MINIMUM_MASS
from evenli.audit.prompting import SMALLEST, mixture, shares_of
from evenli.core.errors import InputError
from evenli.core.io import hash_text
from evenli.core.labels import LABELS
from evenli.words import read_table

CYCLIC = tuple((*LABELS[at:], *LABELS[:at]) for at in range(len(LABELS)))
"""Every label stands once in every place."""
ORDERS = {3: CYCLIC, 6: CYCLIC + tuple(order[::-1] for order in CYCLIC)}
LETTERS, WORDS = "letters", "words"
FLOOR = -30.0
"""Log-probability of what got none that can be told from 0."""
CONTENT_FREE = ("N/A", "[MASK]", "...")
"""Sentences that say nothing: what a model answers about them is a preference for an answer (Zhao et al. 2021)."""
_MARKS = " \t\r\n\"'`*()[]{}.:,;。．：、「」“”"
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class View:
    """A wording with its options in one order."""

    prompt: Mapping[str, str]  # a row of ``prompts.csv``: under a label what its option says
    order: tuple[str, ...]  # labels as they are listed

    @property
    def name(self) -> str:
        """Wording and initials of the labels in their order, as in ``en1-NCE``."""
        return f"{self.prompt['name']}-{''.join(label[0].upper() for label in self.order)}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its columns in the table: log-probability of each label, and their mass."""
        return tuple(f"{self.name}:{part}" for part in (*LABELS, MASS))

    @cached_property
    def answers(self) -> dict[str, str]:
        """Label to the answer that stands for it."""
        if self.prompt["style"] == WORDS:
            return dict(zip(LABELS, self.prompt["words"].split("|"), strict=True))
        return dict(zip(self.order, "ABC", strict=True))

    @cached_property
    def beginning(self) -> str:
        """Everything before the pair."""
        # No bullets: small models begin their answer with one.
        mark = ":" if self.prompt["style"] == WORDS else "."
        listed = (f"{self.answers[label]}{mark} {self.prompt[label]}" for label in self.order)
        return "\n".join([self.prompt["head"], *listed, self.prompt["ask"]])

    def text(self, premise: str, hypothesis: str) -> str:
        """The whole question."""
        first, second, answer = (self.prompt[field] for field in ("premise", "hypothesis", "answer"))
        colon = ": " if self.prompt["lang"] == "en" else "："
        pair = f"{first}{colon}{premise}\n{second}{colon}{hypothesis}\n{answer}{colon.strip()}"
        return f"{self.beginning}\n\n{pair}"

    def spellings(self, label: str) -> list[str]:
        """How an answer may be written as the next words of a text."""
        word = self.answers[label]
        forms = dict.fromkeys([word, word.capitalize()])
        return [f"{space}{form}" for form in forms for space in ("", " ")]

    def label_of(self, token: str) -> str | None:
        """The label whose answer begins with a token, where there is just one."""
        text = token.strip(_MARKS)
        if self.prompt["style"] == LETTERS:
            return next((label for label, letter in self.answers.items() if text == letter), None)
        labels = [label for label, word in self.answers.items() if text and word.startswith(text.casefold())]
        return labels[0] if len(labels) == 1 else None

    def parse(self, text: str) -> str | None:
        """The label of a whole answer: the letter or word, alone or with its option's text; anything else is none."""
        given = _THOUGHT.sub("", text).strip(_MARKS).casefold()
        for label, answer in self.answers.items():
            said = self.prompt[label].strip(_MARKS).casefold()
            head, _, rest = given.partition(answer.casefold())
            if not head and given and rest.strip(_MARKS) in ("", said) and (not rest or rest[0] in _MARKS):
                return label
        return None


def prompts(lang: str) -> list[dict[str, str]]:
    """The shipped wordings of a language, as rows of ``prompts.csv``."""
    listed = [row for row in read_table("prompts.csv") if row["lang"] == lang]
    if not listed:
        raise InputError(f"there are no prompts for language '{lang}'; language models are asked in en, ja or zh")
    return listed


def make_views(lang: str, count: int | None, orders: int) -> list[View]:
    """The first wordings of a language, or all, each in 3 or 6 option orders."""
    known = prompts(lang)
    count = len(known) if count is None else count
    if not 1 <= count <= len(known):
        raise InputError(f"prompts is {count}; there are 1 to {len(known)} wordings for language '{lang}'")
    if orders not in ORDERS:
        raise InputError(f"orders is {orders}; choose 3 (cyclic) or 6 (all)")
    return [View(prompt, order) for prompt in known[:count] for order in ORDERS[orders]]


def details(views: Sequence[View]) -> tuple[str, ...]:
    """Columns beside the three labels."""
    return (ABSTAINED, MASS, *(name for view in views for name in view.columns))


def card(views: Sequence[View]) -> dict[str, Any]:
    """What run.json remembers of the views."""
    return {
        "prompts": list(dict.fromkeys(view.prompt["name"] for view in views)),
        "orders": list(dict.fromkeys(view.name.rpartition("-")[2] for view in views)),
        "wording": identity(views),
        "minimum_mass": MINIMUM_MASS,
        "averaged": "probabilities, over all orders of the wordings that are answered in most orders",
        "columns": list(details(views)),
    }


def identity(views: Sequence[View]) -> str:
    """Changes when a wording does."""
    return hash_text("\n\n".join(view.text("{premise}", "{hypothesis}") for view in views))[:16]


def measure_prior(model: Any) -> NDArray[np.float64]:
    """[views, 3] probability of each label about sentences that say nothing; the card of the model remembers it."""
    prepared = model.prepare(CONTENT_FREE, CONTENT_FREE)
    rows, views = np.asarray(model.logits(prepared.items), dtype=np.float64), len(model.views)
    first = len(LABELS) + 2
    scores = rows[:, first : first + views * (len(LABELS) + 1)].reshape(len(rows), views, -1)[..., : len(LABELS)]
    # As it is stored, so that a run that is read again is divided by the same numbers.
    prior = np.asarray(np.maximum(shares_of(scores).mean(axis=0).round(6), SMALLEST))
    shares = {
        view.name: dict(zip(LABELS, row, strict=True)) for view, row in zip(model.views, prior.tolist(), strict=True)
    }
    model.prompting["calibration"] = {"sentences": list(CONTENT_FREE), "prior": shares}
    return prior


def read_logprobs(top: Sequence[tuple[str, float]], view: View) -> tuple[NDArray[np.float64], float]:
    """Log-probability of each label from the likeliest tokens, and their mass.

    A label that is not among the tokens is less likely than the last of them, and gets that value.
    """
    least = min(value for _, value in top)
    # An answer has several spellings ("A", " A"): what they have together is its probability.
    said = [(view.label_of(token), value) for token, value in top]
    by_label = {label: [value for given, value in said if given == label] for label in LABELS}
    scores = np.array([np.logaddexp.reduce(by_label[label] or [least]) for label in LABELS])
    mass = sum(math.exp(value) for values in by_label.values() for value in values)
    return scores, min(mass, 1.0)


def read_texts(texts: Sequence[str], view: View) -> tuple[NDArray[np.float64], float]:
    """Shares of the labels among generated answers, as log-probabilities, and the share that could be read.

    Half an answer is added to each label (Jeffreys), so that none is impossible after a few samples.
    """
    labels = [view.parse(text) for text in texts]
    counts = np.array([labels.count(label) for label in LABELS], dtype=np.float64)
    return np.log((counts + 0.5) / (counts.sum() + 1.5)), float(counts.sum() / len(texts))


def combine(
    scores: NDArray[np.float64],
    mass: NDArray[np.float64],
    views: Sequence[View],
    prior: NDArray[np.float64] | None = None,
) -> NDArray[np.float32]:
    """One row per pair from the answers in all views.

    Args:
        scores: [pairs, views, 3] log-probabilities, in the order of LABELS; the orders of a wording follow each other.
        mass: [pairs, views] probability that the labels have together.
        views: In which they were asked.
        prior: [views, 3] of a calibrated model: each view is divided by it. The stored scores are not.

    Returns:
        [pairs, 3 + details]: logarithm of the mean probability of each label, then the columns of ``details``.
    """
    wordings = len({view.prompt["name"] for view in views})
    shape = len(mass), wordings, len(views) // wordings
    scores = np.maximum(scores, FLOOR)
    mean, _ = mixture(shares_of(scores, prior).reshape(*shape, len(LABELS)), mass.reshape(shape))
    abstained = 2 * (mass >= MINIMUM_MASS).sum(axis=1) <= len(views)
    parts = np.concatenate([scores, mass[:, :, None]], axis=2).reshape(len(scores), -1)
    columns = (np.log(mean), abstained[:, None], mass.mean(axis=1, keepdims=True), parts)
    return np.concatenate(columns, axis=1).astype(np.float32)
