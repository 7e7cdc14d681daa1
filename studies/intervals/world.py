"""Answers of made-up models, drawn anew on demand, and what they are on average."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from evenli.audit.predictions import Predictions
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.coal.measures import ItemSet, items
from evenli.audit.suites.coal.pairs import build_coal
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS
from evenli.stats.sample import Sample
from studies.intervals.scenarios import SPREADS, Scenario

Values = NDArray[np.float64]


_ALWAYS = 16.0
"""An inclination that overcomes every caution."""


class World:
    """The design, with answers drawn anew on demand."""

    def __init__(self, scenario: Scenario) -> None:
        frame = _frame(scenario.design)
        logits = [pl.lit(0.0).alias(label) for label in LABELS]
        self.sample = Sample(Predictions(frame.with_columns(*logits, suite=pl.lit("coal"))))
        self.scenario = scenario
        self.of_occupation: dict[int, Values] = {}
        self.items = items(self.sample)
        design = self.sample.design
        self.codes = (design.occupations, design.templates, design.cells)
        self.sign = np.where(frame["group"] == "male", 1.0, -1.0)
        self.place = (
            frame["stereotype"].replace_strict({"female": 0, "male": 1, "neutral": 2}, return_dtype=pl.Int64).to_numpy()
        )

    def draw(self, generator: np.random.Generator) -> list[Sample]:
        """One model's answers, or two models'."""
        first, second = self.scenario.lean, self.scenario.second
        common = self._effects(generator)
        self.items = self._other_words(generator)
        if second is None:
            return [self._answer(common, first, generator)]
        share = self.scenario.shared
        own = [np.sqrt(share) * common + np.sqrt(1 - share) * self._effects(generator) for _ in range(2)]
        return [self._answer(effects, lean, generator) for effects, lean in zip(own, (first, second), strict=True)]

    def _other_words(self, generator: np.random.Generator) -> ItemSet:
        """Every word with the stereotype score of any word of its class: intervals speak of other words, too."""
        same = items(self.sample)
        words = self.sample.design.occupations[same.rows[0]]
        _, first, word = np.unique(words, return_index=True, return_inverse=True)
        scores, classes = same.scores[first], same.classes[first]
        for name in np.unique(classes.astype(str)):
            alike = np.flatnonzero(classes == name)
            scores[alike] = scores[generator.choice(alike, len(alike))]
        return replace(same, scores=scores[word])

    def _noise(self, generator: np.random.Generator, count: int) -> Values:
        if not self.scenario.tails:
            return generator.standard_normal(count)
        df = self.scenario.tails
        return generator.standard_t(df, count) / np.sqrt(df / (df - 2))

    def _effects(self, generator: np.random.Generator) -> Values:
        """[2, rows]: on the inclination to say "man", and on the caution to say anything but neutral."""
        effects = np.zeros((2, len(self.place)))
        for kind, strength in enumerate((1.0, self.scenario.on_caution)):
            for way, (sd, codes) in enumerate(zip(SPREADS[self.scenario.spread], self.codes, strict=True)):
                drawn = strength * sd * self._noise(generator, int(codes.max()) + 1)
                effects[kind] += drawn[codes]
                if way == 0:
                    self.of_occupation[kind] = drawn
        return effects

    def _always(self, generator: np.random.Generator) -> Values:
        """What words and sentences that are always read alike add to the inclination of each row."""
        added = np.zeros(len(self.place))
        by_word, by_sentence = (generator.random(int(codes.max()) + 1)[codes] for codes in self.codes[:2])
        scenario = self.scenario
        for drawn, shares in (
            (by_word, scenario.fixed),
            (by_sentence, scenario.sentences and (scenario.sentences,) * 3),
        ):
            if shares is not None:
                woman, man = np.array(shares)[self.place].T
                added += _ALWAYS * ((drawn > 1 - man) * 1.0 - (drawn < woman))
        return added

    def _answer(self, effects: Values, lean: Sequence[float], generator: np.random.Generator) -> Sample:
        share, cells = self.scenario.paired, self.codes[2]
        common = generator.standard_normal(int(cells.max()) + 1)[cells] if share else 0.0
        noise = np.sqrt(share) * common + np.sqrt(1 - share) * generator.standard_normal(len(self.place))
        inclined = self.sign * (np.array(lean)[self.place] + effects[0] + self._always(generator)) + noise
        caution = self.scenario.caution + effects[1]
        logits = np.zeros((len(self.place), 3))
        logits[:, LABELS.index(ENTAILMENT)] = inclined - caution
        logits[:, LABELS.index(CONTRADICTION)] = -inclined - caution
        return answered(self.sample, logits, self.items)

    def occupation_shares(self) -> dict[str, float]:
        """The true share of biased answers of every occupation of the last draw, over all templates."""
        _, by_template, by_cell = SPREADS[self.scenario.spread]
        within = by_template**2 + by_cell**2
        rows = np.unique(self.sample.design.occupations, return_index=True)[1]
        places, names = self.place[rows], self.sample.frame["occupation"].to_numpy()[rows]
        lean = np.array(self.scenario.lean)[places] + self.of_occupation[0]
        # Integrated over the caution of templates and cells, in steps of equal probability.
        steps = self.scenario.on_caution * np.sqrt(within) * ndtri((np.arange(200) + 0.5) / 200)
        caution = np.maximum(self.scenario.caution + self.of_occupation[1][:, None] + steps, 0)
        man, woman = (ndtr((sign * lean[:, None] - caution) / np.sqrt(within + 1)).mean(axis=1) for sign in (1, -1))
        return dict(zip(names, np.choose(places, [woman, man, man + woman]), strict=True))


def answered(sample: Sample, logits: Values, of_rows: ItemSet) -> Sample:
    """The same rows with other answers."""
    other = copy(sample)
    other.predicted = logits.argmax(axis=1)
    odds = np.exp(logits)
    other.probabilities = odds / odds.sum(axis=1, keepdims=True)
    other.__dict__.pop("biased", None)
    # Which rows make an item stays; what was answered to them does not.
    other.kept = {"items": of_rows}
    return other


def _frame(design: str) -> pl.DataFrame:
    """The pairs of a dealt list, of the order of the releases, or of crossed words and templates."""
    if design == "published":
        return build_coal("en", order="published").frame
    if " x " not in design:
        return load_suite(design).frame
    words, templates = map(int, design.split(" x "))
    rows = load_suite("coal").frame.unique(["occupation", "group"], keep="first", maintain_order=True).drop("template")
    if words < rows["occupation"].n_unique():
        # A third of the words of each class.
        of_class = pl.col("occupation").rank("dense").over("stereotype")
        number = pl.col("stereotype").rank("dense") - 1
        rows = rows.filter(of_class <= (words + number) // 3)
    crossed = rows.join(pl.DataFrame({"template": [f"t{k}" for k in range(templates)]}), how="cross")
    return crossed.with_columns(id=pl.int_range(pl.len()).cast(pl.String))


class Means(Sample):
    """A sample that writes down the means a measure asks for, or gives back means that were written down."""

    @classmethod
    def of(cls, sample: Sample, written: list[float], given: Sequence[float] | None = None) -> Means:
        """One that writes into a list, or reads from another."""
        other = cls.__new__(cls)
        other.__dict__.update(sample.__dict__, written=written, given=None if given is None else iter(given))
        return other

    def mean(self, values: NDArray[np.floating], *where: Any, **which: Any) -> Values:
        """The mean, written down; or the next one that is given."""
        if self.given is not None:
            return np.asarray(next(self.given))
        self.written.append(float(super().mean(values, *where, **which)))
        return np.asarray(self.written[-1])
