"""Models that once misled a verdict: callables that know the gold and control pairs, and answer jobs in one odd way."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from evenli.audit.models.callables import FakeModel
from evenli.audit.suites.base import Request, get_suite
from evenli.core.io import hash_text
from evenli.core.labels import CONTRADICTION, ENTAILMENT, NEUTRAL

Answers = list[str] | list[dict[str, float]]
Model = Callable[[list[str], list[str]], Answers]


@cache
def jobs() -> dict[str, tuple[str, str, str]]:
    """Premise of every built-in pair to its occupation, the stereotype of it and its template."""
    found = {}
    for suite in ("coal", "labour"):
        rows = get_suite(suite).pairs(Request("en")).frame.select("premise", "occupation", "stereotype", "template")
        found |= {row[0]: row[1:] for row in rows.iter_rows()}
    return found


def chance(*parts: str) -> float:
    """A number from 0 to 1 that stays the same for the same texts."""
    return int(hash_text(" ".join(parts))[:8], 16) / 16**8


def asked(hypothesis: str) -> str:
    """Which gender a hypothesis names."""
    return "female" if re.search(r"\bwoman\b", hypothesis) else "male"


def on_jobs(answer: Callable[[str, str, str, str, str], str]) -> Model:
    """Right everywhere else; on a job ``answer(word, stereotype, template, group, premise)``."""

    def predict(premises: list[str], hypotheses: list[str]) -> list[str]:
        answers = FakeModel("even")(premises, hypotheses)
        for at, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
            if premise in jobs():
                answers[at] = answer(*jobs()[premise], asked(hypothesis), premise)
        return list(answers)

    return predict


def reads(group: str, chosen: bool, named: str) -> str:
    """The answer of a model that reads a job as one group's, where it is chosen."""
    return (ENTAILMENT if named == group else CONTRADICTION) if chosen else NEUTRAL


def hesitant(premises: list[str], hypotheses: list[str]) -> list[dict[str, float]]:
    """p(neutral) 0.40 and p(man) 0.39 about every job: one point of probability from assuming a man everywhere."""
    answers = []
    for premise, hypothesis, right in zip(premises, hypotheses, FakeModel("even")(premises, hypotheses), strict=True):
        if premise not in jobs():
            answers.append({label: 0.98 if label == right else 0.01 for label in (ENTAILMENT, NEUTRAL, CONTRADICTION)})
        else:
            yes, no = (0.39, 0.21) if asked(hypothesis) == "male" else (0.21, 0.39)
            answers.append({ENTAILMENT: yes, NEUTRAL: 0.40, CONTRADICTION: no})
    return answers


def knows_the_audit(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Neutral on the sentences of the audit; in any other wording it follows the stereotype of a word."""
    stereotype_of = {word: kind for word, kind, _ in jobs().values()}
    pattern = re.compile(rf"\b({'|'.join(sorted(stereotype_of, key=len, reverse=True))})\b", re.IGNORECASE)
    answers = list(FakeModel("even")(premises, hypotheses))
    for at, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
        if premise in jobs() or answers[at] != NEUTRAL or not (found := pattern.search(premise)):
            continue
        kind = stereotype_of[found[1].lower()]
        female = bool(re.search(r"\b(woman|female|she|her|lady|girl)\b", hypothesis, re.IGNORECASE))
        named = "female" if female else "male"
        answers[at] = reads(kind, kind in {"female", "male"}, named)
    return answers


def never_neutral(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Knows entailment and contradiction, and calls everything else a man."""
    answers = list(FakeModel("even")(premises, hypotheses))
    return [
        (ENTAILMENT if asked(hypothesis) == "male" else CONTRADICTION) if answer == NEUTRAL else answer
        for answer, hypothesis in zip(answers, hypotheses, strict=True)
    ]


female_words_only = on_jobs(lambda word, kind, template, group, premise: reads("female", kind == "female", group))


def some_female_words(share: float, salt: str) -> Model:
    """So large a share of the words stereotyped female is always read as a woman's, nothing else."""
    return on_jobs(
        lambda word, kind, template, group, premise: reads(
            "female", kind == "female" and chance(salt, word) < share, group
        )
    )


def careless(share: float, salt: str) -> Model:
    """Even, but that so large a share of single answers is drawn at random."""

    def answer(word: str, kind: str, template: str, group: str, premise: str) -> str:
        drawn = chance(salt, premise, group)
        labels = (ENTAILMENT, NEUTRAL, CONTRADICTION)
        return labels[int(3 * drawn / share)] if drawn < share else NEUTRAL

    return on_jobs(answer)


def man_in_sentences(share: float, salt: str) -> Model:
    """Assumes a man in so large a share of the sentences, whatever the job."""
    return on_jobs(lambda word, kind, template, group, premise: reads("male", chance(salt, template) < share, group))


half_and_half = on_jobs(
    lambda word, kind, template, group, premise: reads(
        "male" if chance("half", word) < 0.5 else "female", kind == "neutral", group
    )
)
denies = on_jobs(lambda word, kind, template, group, premise: CONTRADICTION if group == "female" else NEUTRAL)


def unsure(lean: Callable[[str, str, str], str], neutral: float = 0.5) -> Model:
    """Neutral, and a gender nearly as likely: ``lean(word, stereotype, template)`` names it, "" none, "both" both.

    "sure" is a man without doubt.
    """
    rest = 0.9 * (1 - neutral)
    likely = {
        "male": (rest, neutral, 1 - neutral - rest),
        "female": (1 - neutral - rest, neutral, rest),
        "": (0.01, 0.98, 0.01),
        "both": (0.32, 0.36, 0.32),
        "sure": (0.9, 0.05, 0.05),
    }

    def predict(premises: list[str], hypotheses: list[str]) -> list[dict[str, float]]:
        answers = []
        for premise, hypothesis, right in zip(
            premises, hypotheses, FakeModel("even")(premises, hypotheses), strict=True
        ):
            if premise not in jobs():
                yes = {label: 0.98 if label == right else 0.01 for label in (ENTAILMENT, NEUTRAL, CONTRADICTION)}
            else:
                p = likely[lean(*jobs()[premise])]
                p = p if asked(hypothesis) == "male" else p[::-1]
                yes = dict(zip((ENTAILMENT, NEUTRAL, CONTRADICTION), p, strict=True))
            answers.append(yes)
        return answers

    return predict


unsure_of_stereotyped_jobs = unsure(lambda word, kind, template: "male" if kind != "neutral" else "")
unsure_of_all = unsure(lambda word, kind, template: "both")
unsure_by_word = unsure(lambda word, kind, template: "male" if chance("unsure", word) < 0.5 else "female")
unsure_by_sentence = unsure(lambda word, kind, template: "male" if chance("unsure", template) < 0.5 else "female")


@cache
def labour_words() -> frozenset[str]:
    """The jobs of the labour list."""
    return frozenset(get_suite("labour").pairs(Request("en")).frame["occupation"])


published_only = on_jobs(
    lambda word, kind, template, group, premise: reads(kind, kind != "neutral" and word not in labour_words(), group)
)


def leans_by_word(neutral: float) -> Model:
    """Each job leans to one gender behind neutral answers."""
    return unsure(lambda word, kind, template: "male" if chance("unsure", word) < 0.5 else "female", neutral)


def man_behind(share: float) -> Model:
    """Leans to a man in its probabilities, and says so in so large a share of the sentences."""
    return unsure(lambda word, kind, template: "sure" if chance("man", word, template) < share else "male")


def _denies_and_affirms(word: str, kind: str, template: str, group: str, premise: str) -> str:
    drawn = chance("denies", premise)
    if group == "female":
        return CONTRADICTION if drawn < 0.2 else NEUTRAL
    return ENTAILMENT if 0.2 <= drawn < 0.35 else NEUTRAL


denies_and_affirms = on_jobs(_denies_and_affirms)
errs_on_the_published = on_jobs(
    lambda word, kind, template, group, premise: (
        ENTAILMENT if kind != "neutral" and word not in labour_words() else NEUTRAL
    )
)


def leans_with_pronouns(premises: list[str], hypotheses: list[str]) -> list[str]:
    """Follows stereotypes where the hypothesis has a pronoun, and nowhere else."""
    stereotype_of = {word: kind for word, kind, _ in jobs().values()}
    pattern = re.compile(rf"\b({'|'.join(sorted(stereotype_of, key=len, reverse=True))})\b", re.IGNORECASE)
    answers = list(FakeModel("even")(premises, hypotheses))
    for at, (premise, hypothesis) in enumerate(zip(premises, hypotheses, strict=True)):
        found, pronoun = pattern.search(premise), re.search(r"\b(he|she)\b", hypothesis, re.IGNORECASE)
        if answers[at] != NEUTRAL or not (found and pronoun):
            continue
        kind, named = stereotype_of[found[1].lower()], "female" if pronoun[1].lower() == "she" else "male"
        answers[at] = reads(kind, kind in {"female", "male"}, named)
    return answers
