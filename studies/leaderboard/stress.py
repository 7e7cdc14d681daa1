r"""A stress set out of the labelled test pairs of the leaderboard: pairs in which a surface cue points the wrong way.

    python -m studies.leaderboard.stress studies/leaderboard/leaderboard.tar.xz \
        --students studies/distillation/distillation.npz

Naik et al. 2018 test cues that models lean on, among them negation, shared words and numbers, with pairs that are made
by rule from MNLI. Here real test pairs are sorted by such cues, so that stored answers are enough: *misled* are the
pairs whose gold label is not the one that the cue suggests, *led* those where it is. The stress set is all misled
pairs. Nothing is asked.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from evenli.core.labels import LABELS
from studies.leaderboard.answers import TEST, Answers, expand, read_answers

WORDS = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
NEGATIONS = frozenset(
    ("no", "not", "never", "nobody", "none", "nothing", "nowhere", "neither", "nor", "without", "cannot")
)
_FROM_TWO = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
NUMBERS = frozenset((*_FROM_TWO, "eleven", "twelve", "dozen", "hundred", "thousand"))
MANY, FEW = 0.9, 0.25
"""Share of the words of the hypothesis that the premise has, too."""

Sentence = frozenset[str]


def negated(words: Sentence) -> bool:
    """Whether a sentence denies something."""
    return bool(words & NEGATIONS) or any(word.endswith("n't") for word in words)


def numbers(words: Sentence) -> Sentence:
    """Numbers from two on; *one* is as often a pronoun."""
    return frozenset(word for word in words if word in NUMBERS or (word.isdigit() and word != "1"))


def shared(premise: Sentence, hypothesis: Sentence) -> float:
    """How much of the hypothesis stands in the premise."""
    return len(premise & hypothesis) / max(1, len(hypothesis))


CUES: dict[str, tuple[Callable[[Sentence, Sentence], bool], frozenset[str]]] = {
    "a new negation": (lambda p, h: negated(h) and not negated(p), frozenset({"contradiction"})),
    "many shared words": (lambda p, h: shared(p, h) >= MANY, frozenset({"entailment"})),
    "few shared words": (lambda p, h: shared(p, h) <= FEW, frozenset({"neutral", "contradiction"})),
    "other numbers": (
        lambda p, h: bool(numbers(p) and numbers(h) and not numbers(p) & numbers(h)),
        frozenset({"contradiction"}),
    ),
}
"""What a pair shows, and the labels that it suggests."""
SETS = {"test_snli": "SNLI", "test_mnli": "MNLI, held out", "test_sick": "SICK"}


class Stress:
    """The test pairs of a language, which cues they have, and whether these mislead."""

    def __init__(self, answers: Answers) -> None:
        self.rows = np.flatnonzero(answers.asked["suite"].str.starts_with(TEST).to_numpy())
        asked = answers.asked[self.rows]
        self.suite, self.gold = asked["suite"].to_numpy(), asked["gold"].to_numpy()
        self.cluster = np.unique(asked["premise"].to_numpy(), return_inverse=True)[1]
        texts = [[frozenset(WORDS.findall(text.lower())) for text in asked[side]] for side in ("premise", "hypothesis")]
        self.led, self.misled = {}, {}
        for name, (shows, suggested) in CUES.items():
            here = np.array([shows(*pair) for pair in zip(*texts, strict=True)])
            right = np.isin(self.gold, list(suggested))
            self.led[name], self.misled[name] = here & right, here & ~right
        self.all = np.any(list(self.misled.values()), axis=0)

    def accuracy(self, labels: np.ndarray, kept: np.ndarray) -> str:
        """Mean over seeds in percent, with a 95 % interval over premises and seeds; ``labels`` is [seed, pair]."""
        right = (np.array(LABELS)[labels[:, kept]] == self.gold[kept]).astype(float)
        mean, pairs = right.mean(), right.mean(axis=0)
        # Pairs of one premise are alike: their deviations are added before they are squared.
        sums = np.bincount(self.cluster[kept], weights=pairs - mean)
        variance = (sums**2).sum() / len(pairs) ** 2
        if len(right) > 1:
            variance += right.mean(axis=1).var(ddof=1) / len(right)
        half = 1.96 * variance**0.5
        return f"{100 * mean:.1f} ± {100 * half:.1f}"


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answers", type=Path)
    parser.add_argument("--students", type=Path, help="stored answers of studies/distillation/distil.py")
    given = parser.parse_args()
    answers = next(one for one in read_answers(given.answers) if one.lang == "en")
    stress = Stress(answers)
    models = configurations(answers, stress) | (students(given.students, stress) if given.students else {})
    show_sizes(stress)
    show_models(stress, models)


def configurations(answers: Answers, stress: Stress) -> dict[str, np.ndarray]:
    """Labels [seed, pair] of every base, data and recipe."""
    groups: dict[tuple[float, str], list[int]] = {}
    for number, model in enumerate(answers.models):
        key = model["parameters"], f"{model['base']}, {model['data']}, {model['recipe']}"
        groups.setdefault(key, []).append(number)
    return {
        name: np.stack([expand(answers.codes[number][stress.rows]).argmax(axis=1) for number in groups[size, name]])
        for size, name in sorted(groups)
    }


def students(file: Path, stress: Stress) -> dict[str, np.ndarray]:
    """Labels [seed, pair] of distilled models, in the order of the pairs here."""
    with np.load(file) as stored:
        about = json.loads(str(stored["about"]))
        order = np.empty(len(stress.suite), dtype=np.int64)
        for suite in SETS:
            order[stress.suite == suite] = np.flatnonzero(stored["suite"] == about["suites"].index(suite))
        if (np.array(LABELS)[stored["gold"][order]] != stress.gold).any():
            raise SystemExit(f"{file} holds answers to other pairs")
        found: dict[str, list[np.ndarray]] = {}
        for model in about["models"]:
            stem = f"{model['name']}+{model['kind']}+{model['seed']}"
            found.setdefault(f"{model['name']}, distilled", []).append(stored[stem][order].astype(np.int64))
    return {name: np.stack(labels) for name, labels in found.items()}


def show_sizes(stress: Stress) -> None:
    """How many pairs each cue has in every set."""
    print("| cue | suggests | " + " | ".join(f"{title}: misled, led" for title in SETS.values()) + " |")
    print("|" + " --- |" * (len(SETS) + 2))
    for name, (_, suggested) in CUES.items():
        cells = [
            f"{(stress.misled[name] & (stress.suite == suite)).sum():,}, "
            f"{(stress.led[name] & (stress.suite == suite)).sum():,}"
            for suite in SETS
        ]
        print(f"| {name} | {' or '.join(sorted(suggested))} | {' | '.join(cells)} |")
    counts = [f"{(stress.all & (stress.suite == suite)).sum():,}" for suite in SETS]
    print(f"| **stress set** | | {' | '.join(counts)} |\n")


def show_models(stress: Stress, models: dict[str, np.ndarray]) -> None:
    """Accuracy of every configuration: whole sets, their misled pairs, and each cue (misled, led) on SNLI and MNLI."""
    captions = stress.suite != "test_sick"
    titles = [f"{title}{more}" for title in SETS.values() for more in ("", ", misled")]
    print(f"| model | {' | '.join(titles)} | {' | '.join(f'{name}: misled, led' for name in CUES)} |")
    print("|" + " --- |" * (1 + len(titles) + len(CUES)))
    for model, labels in models.items():
        wholes = [stress.suite == suite for suite in SETS]
        cells = [stress.accuracy(labels, kept) for whole in wholes for kept in (whole, whole & stress.all)]
        for name in CUES:
            both = (stress.misled[name] & captions, stress.led[name] & captions)
            cells.append(", ".join(stress.accuracy(labels, kept) for kept in both))
        print(f"| {model} ({len(labels)}) | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
