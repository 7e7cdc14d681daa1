"""The tables of docs/studies/leaderboard.md, from the stored answers alone: no GPU, no torch.

    python -m studies.leaderboard.tables studies/leaderboard/leaderboard.tar.xz [--json tables.json]

Intervals of values and differences are over words, templates and seeds (``studies/leaderboard/seeds.py``); those
of rank correlations are over configurations and seeds, by bootstrap. A configuration is a base, its data and its
recipe; it counts if every one of its seeds passes the gold pairs. Differences pair the i-th seeds; of five and three
seeds the first three are used. Nothing is corrected for the number of comparisons.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from evenli.core.record import Estimate
from evenli.stats.measure import get_measure
from studies.leaderboard.answers import Answers, read_answers, sample_of
from studies.leaderboard.board import BoardRow
from studies.leaderboard.rows import Key, board_rows, group_seeds, published_rows, score_all
from studies.leaderboard.seeds import contrast, seed_variance

CAUSES = ("coal", "stereotype", "default_gender", "total_error", "contradictory")
TITLES = {
    "coal": "NLI-CoAL",
    "stereotype": "stereotype",
    "default_gender": "default gender",
    "total_error": "total error",
    "contradictory": "contradictory",
}
SIZES = (("mini", "minilm"), ("minilm", "gte"), ("gte", "mpnet"), ("mini", "mpnet"))
RANKED = (
    "official.coal",
    "coal.coal",
    "official.fn_bias",
    "official.stereotype",
    "official.default_gender",
    "official.total_error",
    "official.contradictory",
    "released_snli.probe_s",
    "released_snli.probe_dp",
    "released_snli.probe_b",
    "dev2020.nn",
)
HIGH_IS_FAIR = ("released_snli.probe_s", "dev2020.nn")
"""Turned, so that a larger value of every measure means more bias."""
DRAWS = 2000


class Study:
    """The answers of one language, scored."""

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        self.scored = score_all(answers)
        self.rows = board_rows(answers, self.scored)
        self.groups = group_seeds(answers.models)
        self._samples: dict[int, Any] = {}

    def row(self, key: Key) -> BoardRow | None:
        """The row of a configuration, if it is ranked."""
        return next((r for r in self.rows if (r.base, r.data, r.recipe) == key and not r.problem), None)

    def ranked(self) -> list[Key]:
        """Configurations that count."""
        return [key for key in self.groups if self.row(key)]

    def sample(self, number: int) -> Any:
        """The official pairs with the answers of one model."""
        if number not in self._samples:
            self._samples[number] = sample_of(self.answers.table(number), "official")
        return self._samples[number]

    def difference(self, measure: str, first: Key, second: Key) -> Estimate | None:
        """``second - first`` on the official pairs; None unless both count."""
        if not (self.row(first) and self.row(second)):
            return None
        samples = [[self.sample(number) for number in self.groups[key]] for key in (first, second)]
        return contrast(get_measure(measure), *samples)

    def values(self, key: Key, measure: str) -> list[float]:
        """A measure of every seed, turned so that more is worse."""
        sign = -1 if measure in HIGH_IS_FAIR else 1
        return [sign * self.scored[number][0][measure].value for number in self.groups[key]]


def cell(one: Estimate | None) -> str:
    """A difference with its interval, bold where it does not hold 0."""
    if one is None:
        return "–"
    text = f"{one.value:+.2f} [{one.low:+.2f}, {one.high:+.2f}]".replace("-", "−")
    return f"**{text}**" if one.low > 0 or one.high < 0 else text


def contrasts(study: Study, pairs: Sequence[tuple[str, Key, Key]]) -> list[dict[str, Any]]:
    """Differences of the five main measures for named pairs of configurations, and a printed table."""
    rows = []
    print(f"| difference | {' | '.join(TITLES[name] for name in CAUSES)} |\n|{' --- |' * (len(CAUSES) + 1)}")
    for title, first, second in pairs:
        all_of = {name: study.difference(name, first, second) for name in CAUSES}
        if all_of["coal"] is None:
            continue
        print(f"| {title} | {' | '.join(cell(one) for one in all_of.values())} |")
        rows.append({"what": title, **{name: one.to_dict() for name, one in all_of.items() if one}})
    return rows


def size_pairs() -> Iterator[tuple[str, Key, Key]]:
    """Neighbours in size, and the two ends."""
    for data in ("snli", "both"):
        for recipe in ("paper", "tuned"):
            for small, large in SIZES:
                yield f"{small} → {large}, {data}, {recipe}", (small, data, recipe), (large, data, recipe)


def data_pairs(study: Study) -> Iterator[tuple[str, Key, Key]]:
    """SNLI against MNLI and against both."""
    for base in dict.fromkeys(key[0] for key in study.groups):
        for recipe in ("paper", "tuned"):
            for data in ("mnli", "both"):
                yield f"{base}, {recipe}: snli → {data}", (base, "snli", recipe), (base, data, recipe)


def recipe_pairs(study: Study) -> Iterator[tuple[str, Key, Key]]:
    """The paper's recipe against the tuned one."""
    for base, data, recipe in study.groups:
        if recipe == "paper":
            yield f"{base}, {data}: paper → tuned", (base, data, "paper"), (base, data, "tuned")


def kendall(study: Study, rng: np.random.Generator) -> list[dict[str, Any]]:
    """How alike two measures rank configurations: tau-b of the means, bootstrap over configurations and seeds."""
    keys = study.ranked()
    values = {name: [np.array(study.values(key, name)) for key in keys] for name in RANKED}
    means = {name: np.array([one.mean() for one in several]) for name, several in values.items()}
    draws: dict[tuple[str, str], list[float]] = {pair: [] for pair in combinations(RANKED, 2)}
    for _ in range(DRAWS):
        chosen = rng.integers(len(keys), size=len(keys))
        seeds = [rng.integers(len(values[RANKED[0]][n]), size=len(values[RANKED[0]][n])) for n in chosen]
        drawn = {
            name: np.array([values[name][n][some].mean() for n, some in zip(chosen, seeds, strict=True)])
            for name in RANKED
        }
        # A configuration that was drawn twice ties with itself; such pairs say nothing.
        for pair in draws:
            draws[pair].append(_tau(drawn[pair[0]], drawn[pair[1]], chosen))
    rows = []
    print(f"\n{len(keys)} configurations count.\n")
    for pair, several in draws.items():
        tau = float(kendalltau(means[pair[0]], means[pair[1]]).statistic)
        low, high = np.quantile(several, [0.025, 0.975])
        rows.append({"first": pair[0], "second": pair[1], "tau": tau, "low": float(low), "high": float(high)})
    print("| | tau with NLI-CoAL | tau with stereotype |\n| --- | --- | --- |")
    for name in RANKED:
        cells = []
        for other in ("official.coal", "official.stereotype"):
            one = next((o for o in rows if {o["first"], o["second"]} == {name, other}), None)
            cells.append(f"{one['tau']:+.2f} [{one['low']:+.2f}, {one['high']:+.2f}]".replace("-", "−") if one else "1")
        print(f"| {name} | {' | '.join(cells)} |")
    return rows


def _tau(first: np.ndarray, second: np.ndarray, chosen: np.ndarray) -> float:
    upper = np.triu_indices(len(first), 1)
    apart = chosen[upper[0]] != chosen[upper[1]]
    signs = [np.sign(one[upper[0]] - one[upper[1]])[apart] for one in (first, second)]
    return float((signs[0] * signs[1]).mean())


def noise(study: Study) -> dict[str, Any]:
    """The part of seeds, words and templates, and configurations in the variance of single models."""
    keys = study.ranked()
    parts_of: dict[str, Any] = {}
    print("\n| measure | sd of seeds | share of seeds | of words and templates | of configurations |\n|" + " --- |" * 5)
    for name in (*RANKED, "probe.probe_dp"):
        groups = [study.values(key, name) for key in keys]
        sd, low, high = seed_variance(groups)
        items = float(np.mean([study.scored[n][0][name].se ** 2 for key in keys for n in study.groups[key]]))
        means = [float(np.mean(one)) for one in groups]
        # What the means of configurations vary by, less what their seeds put into it. The same words are asked of all,
        # so the items' part is not in it.
        between = max(0.0, float(np.var(means, ddof=1)) - float(np.mean([sd**2 / len(one) for one in groups])))
        parts = np.array([sd**2, items, between])
        shares = parts / parts.sum()
        parts_of[name] = {"sd": sd, "low": low, "high": high, "shares": shares.tolist()}
        print(f"| {name} | {sd:.3f} [{low:.3f}, {high:.3f}] | " + " | ".join(f"{share:.0%}" for share in shares) + " |")
    return parts_of


def published(sd: float) -> list[dict[str, Any]]:
    """How many differences between printed models are within what two seeds of one recipe differ by."""
    reach = 1.959964 * math.sqrt(2) * sd
    print(f"\nTwo seeds differ by up to {reach:.3f} in 95 of 100 cases (sd {sd:.3f}).\n")
    rows = []
    for lang in ("en", "ja", "zh"):
        printed = {row.name: row.value("official.coal") for row in published_rows() if row.lang == lang}
        pairs = [(abs(printed[a] - printed[b]), a, b) for a, b in combinations(printed, 2)]
        within = [f"{a} – {b} ({gap:.3f})" for gap, a, b in sorted(pairs) if gap <= reach]
        rows.append({"lang": lang, "pairs": len(pairs), "within": within})
        print(f"{lang}: {len(within)} of {len(pairs)} differences: {'; '.join(within)}")
    return rows


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--json", type=Path, help="write all numbers here, too")
    arguments = parser.parse_args()
    study = Study(next(one for one in read_answers(arguments.file) if one.lang == "en"))
    result: dict[str, Any] = {"rows": [row.to_dict() for row in study.rows]}
    for title, pairs in (
        ("size", list(size_pairs())),
        ("data", list(data_pairs(study))),
        ("recipe", list(recipe_pairs(study))),
    ):
        print(f"\n## {title}\n")
        result[title] = contrasts(study, pairs)
    print("\n## do measures rank alike?")
    result["kendall"] = kendall(study, np.random.default_rng(0))
    print("\n## seeds")
    result["noise"] = noise(study)
    result["published"] = published(result["noise"]["official.coal"]["sd"])
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=1, allow_nan=True) + "\n")


if __name__ == "__main__":
    main()
