"""Mixtures of the three causes for any number of groups, as ``evenli.training.meta.mixture`` teaches them for two.

A mixture is ``(s, d, u)``, each from 0 to 1: stereotype, default for one favoured group, error in no direction. Words
form classes of equal size: one stereotyped with each of the ``n`` groups, and one without stereotype. A default for the
favoured group is a gain of ``d`` to its own class and, to every other, a loss of ``d`` against one of ``n - 1`` rivals.
So the taught lean towards the own group is ``s + d`` in the favoured class and ``s - d / (n - 1)`` in the others: a
stereotype and a default that pull a word in opposite directions cancel. A lean above 0 is taught as so many words that
entail their group and contradict the others; one below 0 as ``n - 1`` times as many that entail the favoured group
alone. ``d`` of the words without stereotype entail the favoured group. ``u`` of every class err without a direction.
A model that answers as it was taught has exactly

    stereotype = s,   default of the favoured group = d,   2 min(M, F) + X = u.

Only numpy is needed: the machine that trains computes what its models have learnt.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenli.core.errors import InputError
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL

Labels = NDArray[np.int64]
Mixture = tuple[float, float, float]
_E, _N, _C = (LABELS.index(label) for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
_LEANS, _ERRS = 1, 2


@dataclass(frozen=True)
class GroupMixture:
    """What one model is taught. The favoured group is the last one."""

    levels: Mixture
    groups: int
    size: int  # words per class

    def leans(self) -> list[float]:
        """Taught lean towards the own group per class; in the last class, without stereotype, to the favoured one."""
        stereotype, default, _ = self.levels
        others = [stereotype - default / (self.groups - 1)] * (self.groups - 1)
        return [*others, stereotype + default, default]

    def patterns(self) -> tuple[Labels, Labels]:
        """Labels of every word [words, groups], class by class, and its role [words]."""
        rows: list[list[int]] = []
        roles: list[int] = []
        for number, lean in enumerate(self.leans()):
            typed = number < self.groups
            # The loss of a default shows against one rival only, so it takes more words.
            share = -lean * (self.groups - 1) if lean < 0 else lean
            leaning, erring = self._count(share), self._count(self.levels[2])
            if leaning + erring > self.size:
                raise InputError(f"the mixture {self.levels} needs more words than there are: its shares exceed 1")
            rows += [
                self._says(number if typed and lean > 0 else self.groups - 1, alone=not typed or lean < 0)
            ] * leaning
            rows += self._errors(erring, number, typed=typed)
            rows += [[_N] * self.groups] * (self.size - leaning - erring)
            roles += [_LEANS] * leaning + [_ERRS] * erring + [0] * (self.size - leaning - erring)
        return np.array(rows, dtype=np.int64), np.array(roles)

    def learnt(self, answers: Labels) -> Mixture:
        """The mixture that a model has learnt: of each taught share, the sentences answered exactly as taught.

        Args:
            answers: Answers to held-out pairs [words, sentences, groups].
        """
        labels, roles = self.patterns()
        right = (answers == labels[:, None]).all(axis=2).mean(axis=1)
        leaning, erring = (
            np.where(roles == kind, right, 0).reshape(self.groups + 1, self.size).sum(axis=1)
            / np.maximum(1, (roles == kind).reshape(self.groups + 1, self.size).sum(axis=1))
            for kind in (_LEANS, _ERRS)
        )
        leans = np.array(self.leans()) * leaning
        error = self.levels[2] * (2 * erring[:-1].mean() + erring[-1]) / 3
        return float(leans[:-1].mean()), float(leans[-1]), float(error)

    def _says(self, group: int, *, alone: bool) -> list[int]:
        """One group is entailed; the others are contradicted, or neutral where it is ``alone``."""
        return [_E if one == group else _N if alone else _C for one in range(self.groups)]

    def _errors(self, count: int, number: int, *, typed: bool) -> list[list[int]]:
        """Wrong answers that favour nobody: all, none, and in a class of a group as often for it as against it."""
        follow = self._says(number, alone=False)
        defy = [_E + _C - label for label in follow]
        pairs = [follow, defy] * (count // 4) if typed else []
        return pairs + [[(_E, _C)[(number + at) % 2]] * self.groups for at in range(count - len(pairs))]

    def _count(self, share: float) -> int:
        count = round(share * self.size)
        if abs(share * self.size - count) > 1e-6:
            raise InputError(
                f"the share {share:g} would split a word: {self.size} words allow steps of {1 / self.size:g}"
            )
        return count
