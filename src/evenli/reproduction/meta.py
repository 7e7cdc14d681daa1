"""The meta-evaluation: does a measure follow a bias that was trained in on purpose? Our models beside the paper's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evenli.reproduction.ledger import Published, Row, Value, chapter
from evenli.reproduction.samples import sample_of_shares
from evenli.resources import read_table
from evenli.stats.measure import get_measure
from evenli.stats.sweep import NO_CORRELATION, Curve, associate

_SIZES = (200, 200, 200)
_BASE = "other base model (a small one), regenerated training templates"


@chapter
def controlled_models(data: Path | None) -> Iterator[Row]:
    """Pearson of NLI-CoAL and of FN with the bias rate, over 11 rates and all seeds trained."""
    table = Published("NLI-CoAL 2024, Table 2", 0.005, _BASE)
    noise = f"{_BASE}; FN is near 2/3 at every rate, what is left is noise"
    for row in read_table("published_meta.csv"):
        if row["statistic"] != "pearson":
            continue
        for measure, column, differs in (("coal", "coal_corr", ""), ("fn_bias", "fn_corr", noise)):
            published: Value = row[column] if row[column] == NO_CORRELATION else float(row[column])
            what = f"{row['lang']} Pearson of {get_measure(measure).title} with the bias rate"
            yield table.row(what, published, _pearson(row["lang"], measure), differs=differs)


@chapter
def separation_from_error(data: Path | None) -> Iterator[Row]:
    """What the closed form says of models that are merely wrong: half of NLI-CoAL is error, the order condition not."""
    closed_form = Published("closed form", 0.05, "models trained on wrong answers that ignore the group")
    for measure, expected in (("coal", 1 / 3), ("order_entailment", 0.0)):
        scores = _scores("en", "noise", measure)
        rise = float(scores[:, -1].mean() - scores[:, 0].mean())
        yield closed_form.row(f"en rise of {get_measure(measure).title} from no to full plain error", expected, rise)


def _pearson(lang: str, measure: str) -> Value:
    scores = _scores(lang, "bias", measure)
    levels = np.linspace(0, 1, scores.shape[1])
    curve = Curve(measure, "bias", tuple(range(len(scores))), levels, scores)
    value = associate(curve, "pearson", generator=np.random.default_rng(0), permutations=99).value
    return NO_CORRELATION if value is None else value


def _scores(lang: str, axis: str, measure: str) -> np.ndarray:
    """[seeds, levels] of the seeds with a model at every level."""
    by_seed: dict[str, list[float]] = {}
    for row in read_table("sweeps.csv"):
        if row["lang"] == lang and row["axis"] == axis:
            score = float(get_measure(measure)(sample_of_shares(row, _SIZES)))
            by_seed.setdefault(row["seed"], []).append(score)
    # A seed whose sweep was not finished would shift the mean of its levels.
    most = max(map(len, by_seed.values()))
    return np.array([scores for scores in by_seed.values() if len(scores) == most])
