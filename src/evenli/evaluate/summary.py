"""What a prediction run says in a few lines: answers and accuracy, with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from evenli.format import interval, number
from evenli.io import to_plain
from evenli.predictions import Predictions
from evenli.stats.proportion import wilson


@dataclass(frozen=True)
class PredictionSummary:
    """How often each label was predicted, and how often that was right; 95 % intervals take pairs as independent."""

    counts: dict[str, Any]  # see Predictions.summary

    @property
    def shares(self) -> dict[str, tuple[float, float, float]]:
        """Share of every label with the ends of its interval."""
        n = self.counts["pairs"]
        return {name: (count / n, *wilson(count / n, n)) for name, count in self.counts["predicted"].items()}

    @property
    def accuracy_interval(self) -> tuple[float, float] | None:
        """Ends of the interval of the accuracy; None without gold labels."""
        gold, accuracy = self.counts["gold"], self.counts["accuracy"]
        return wilson(accuracy, gold) if gold else None

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        shares = {name: dict(zip(("value", "low", "high"), share, strict=True)) for name, share in self.shares.items()}
        return dict(to_plain({**self.counts, "shares": shares, "accuracy_interval": self.accuracy_interval}))

    def lines(self) -> list[str]:
        """The same for people."""
        predicted = self.counts["predicted"]
        shown = [f"{name} {predicted[name]} ({_share(share)})" for name, share in self.shares.items()]
        if "abstained" in self.counts:
            shown.append(f"abstained {self.counts['abstained']}")
        lines = [f"{self.counts['pairs']} pairs: {', '.join(shown)}"]
        if (ends := self.accuracy_interval) is not None:
            value = _share((self.counts["accuracy"], *ends))
            lines.append(f"accuracy {value} on {self.counts['gold']} pairs with a gold label")
        return [*lines, "95% intervals, for pairs that are independent of each other"]


def summarise(predictions: Predictions) -> PredictionSummary:
    """Count the answers of a table."""
    return PredictionSummary(predictions.summary())


def _share(share: tuple[float, float, float]) -> str:
    return f"{number(share[0])} {interval(*share[1:])}"
