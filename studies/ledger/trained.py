"""Models that we trained beside those of the papers: the meta-evaluation, and encoders of a fairer corpus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import numpy as np

from evenli.encoders.seat import average_effect
from evenli.encoders.senteval.data import TASKS
from evenli.stats.measure import get_measure
from evenli.training.meta.sweep import NO_CORRELATION, Statistic, correlations
from evenli.words import read_table
from studies.ledger.ledger import Published, Row, Value, chapter, sample_of_shares

_BASE = "other base model (a small one), regenerated training templates"
_LARGE_SWEEP = "another base of 12 layers, regenerated training templates"
_SMALL_SWEEP = "a small base: there is no Japanese one of 12 layers at hand; regenerated training templates"
_PAPER = "Dolci et al. 2023"
_PRINTED = {"STSB": "STSB_p", "STS14": "STS14_p", "MRPC": "MRPC_acc"}
_SHARES = {"SICKR", "STS14"}
_OURS = {"GloVe-HD": "HD"}
_AGREE = {"Aug95"}  # models whose change of the mean SEAT effect is about the published one
_LARGE = "ours: another base of 12 layers, less data, three seeds"
_OUTSIDE = {("en", "mnli", "probe_dp"), ("en", "mnli", "probe_b")}  # published numbers outside of our interval
_PART = "ours: 120k pairs of SNLI, three seeds each"
_TEN = "ours: 120k pairs of SNLI and 20k of MNLI, ten seeds on three draws"


@chapter
def controlled_models(data: Path | None) -> Iterator[Row]:
    """Correlation of NLI-CoAL and of FN with the bias rate, over 11 rates and all seeds trained."""
    # A score that rises at every rate has rank correlation 1, so 0.820 is of a score that falls in places.
    falls = f"{_BASE}; ours rises at every rate, and the paper of 2024 prints Pearson 1.000 for the same model"
    for row in read_table("published_meta.csv"):
        first = row["statistic"] == "pearson"
        table = Published(f"NLI-CoAL {2024 if first else 2023}, Table 2", 0.005, _BASE, "models")
        yield from _correlations(table, row, "sweeps.csv", differs="" if first else falls)


@chapter
def controlled_models_of_the_paper(data: Path | None) -> Iterator[Row]:
    """The same at full size: the paper's recipe, pairs and order of words, three seeds."""
    for row in read_table("published_meta.csv"):
        if row["statistic"] == "pearson":
            base = _SMALL_SWEEP if row["lang"] == "ja" else _LARGE_SWEEP
            table = Published("NLI-CoAL 2024, Table 2", 0.005, base, "models")
            yield from _correlations(table, row, "sweeps_base.csv", recipe=", paper's recipe")


def _correlations(
    table: Published, row: Mapping[str, str], sweeps: str, *, differs: str = "", recipe: str = ""
) -> Iterator[Row]:
    """A printed row beside our sweeps; ``differs`` is about NLI-CoAL."""
    statistic = cast(Statistic, row["statistic"])
    noise = f"{table.reason}; FN is near 2/3 at every rate, what is left is noise"
    for measure, column, known in (("coal", "coal_corr", differs), ("fn_bias", "fn_corr", noise)):
        published: Value = row[column] if row[column] == NO_CORRELATION else float(row[column])
        scores = _scores(sweeps, row["lang"], "bias", measure)
        value = float(correlations(np.linspace(0, 1, scores.shape[1]), scores.mean(axis=0)[None], statistic)[0])
        what = f"{row['lang']} {statistic.capitalize()} of {get_measure(measure).title} with the bias rate{recipe}"
        yield table.row(what, published, NO_CORRELATION if np.isnan(value) else value, differs=known)


@chapter
def separation_from_error(data: Path | None) -> Iterator[Row]:
    """What the closed form says of models that are merely wrong: half of NLI-CoAL is error, the order condition not."""
    closed_form = Published("closed form", 0.05, "models trained on wrong answers that ignore the group", "models")
    for measure, expected in (("coal", 1 / 3), ("order_entailment", 0.0)):
        scores = _scores("sweeps.csv", "en", "noise", measure)
        rise = float(scores[:, -1].mean() - scores[:, 0].mean())
        yield closed_form.row(f"en rise of {get_measure(measure).title} from no to full plain error", expected, rise)


def _scores(table: str, lang: str, axis: str, measure: str) -> np.ndarray:
    """[seeds, levels] of the seeds with a model at every level, in the released order of the words."""
    by_seed: dict[str, list[float]] = {}
    for row in read_table(table):
        if (row["lang"], row["order"], row["axis"]) == (lang, "released", axis):
            score = float(get_measure(measure)(sample_of_shares(row, (200, 200, 200))))
            by_seed.setdefault(row["seed"], []).append(score)
    # A seed whose sweep was not finished would shift the mean of its levels.
    most = max(map(len, by_seed.values()))
    return np.array([scores for scores in by_seed.values() if len(scores) == most])


@chapter
def twelve_layers(data: Path | None) -> Iterator[Row]:
    """Fine-tuned models of 12 layers beside the BERT-base of the papers; agreement means: inside of our interval."""
    ours = {(row["lang"], row["data"], row["measure"]): row for row in read_table("leaderboard_base.csv")}

    def row(table: Published, name: str, key: tuple[str, str, str], published: float, scale: int = 1) -> Row:
        value, low, high = (scale * float(ours[key][column]) for column in ("value", "low", "high"))
        tolerance = round((high - low) / 2, 3)
        differs = f"{_LARGE}; outside of our 95 % interval" if key in _OUTSIDE else ""
        return table.row(name, published, round(value, 3), tolerance=tolerance, differs=differs)

    table3 = Published("NLI-CoAL 2024, Table 3", kind="models", reason=_LARGE)
    for printed in read_table("published_coal.csv"):
        corpus = {"BERT-base": "snli", "BERT-base-chinese": "ocnli"}.get(printed["model"])
        if corpus:
            for measure, column in (("coal", "coal_pub"), ("fn_bias", "fn_pub")):
                name = f"{printed['model']} {get_measure(measure).title}"
                yield row(table3, name, (printed["lang"], corpus, measure), float(printed[column]))
    table5 = Published("Sharma et al. 2021, Table 5", kind="models", reason=_LARGE)
    for printed in read_table("published_sharma.csv"):
        if (printed["table"], printed["model"]) == ("5", "BERT"):
            for measure, column in (("probe_s", "S_I"), ("probe_dp", "dP_I"), ("probe_b", "B_I")):
                key = ("en", printed["train_set"].lower(), measure)
                yield row(table5, f"BERT on {printed['train_set']}, {column[:-2]}", key, float(printed[column]), 100)


@chapter
def scored_corpus(data: Path | None) -> Iterator[Row]:
    """What the score says of SNLI, with the importance of an encoder trained on it."""
    corpora = {row["corpus"]: row for row in read_table("retraining_corpora.csv")}
    scores = read_table("retraining_scores.csv")
    prose = Published(f"{_PAPER}, prose", 0.005, "ours: 120k pairs of SNLI and an encoder trained on them", "models")
    yield prose.row("95th percentile of the pair scores of SNLI", 0.0756, float(corpora["Sub95"]["threshold"]))
    table3 = Published(f"{_PAPER}, Table 3", kind="models")
    highest = max(abs(float(row["ours"])) for row in scores)
    part = "ours: a fifth of SNLI; the paper's encoder gives single words more weight"
    yield table3.row("highest Abs of SNLI", 0.1498, highest, tolerance=0.005, differs=part)
    swappable = int(corpora["Aug90"]["added"]) / int(corpora["Aug90"]["above_threshold"])
    about = Published(f"{_PAPER}, about 60 %", 0.05, kind="models")
    yield about.row("share of the pairs above the 90th percentile with a word to swap", 0.6, swappable)
    printed = [row for row in scores if not row["sentence"].startswith("(")]
    what = "sentences of Table 3 in our part of SNLI that are among its most biased percent"
    beyond = sum(float(row["beyond"]) < 0.01 for row in printed)
    yield table3.row(what, len(printed), beyond, reason="the other seven are not in the part")


@chapter
def overall_scores(data: Path | None) -> Iterator[Row]:
    """The overall SentEval score is the mean of the first numbers of the twelve tasks."""
    rounded = "from the printed scores of the tasks, STS14 to whole points only"
    table = Published(f"{_PAPER}, Table 10", 0.05, rounded, "arithmetic")
    for row in read_table("published_senteval.csv"):
        printed = {task: float(row[_PRINTED.get(task, task)]) for task in TASKS}
        mean = float(np.mean([100 * value if task in _SHARES else value for task, value in printed.items()]))
        yield table.row(f"{row['model']} overall SentEval score", float(row["overall_pub"]), mean)


@chapter
def retrained_encoders(data: Path | None) -> Iterator[Row]:
    """Change against the encoder of the corpus as it is: mean SEAT effect in percent, SentEval in points."""
    senteval = defaultdict(list)
    for row in read_table("retraining.csv"):
        senteval[row["encoder"]].append(np.mean([float(row[task]) for task in TASKS]))
    ours = _mean_effects("retraining.csv")
    effects = {row["model"]: float(row["avg_pub"]) for row in read_table("published_seat.csv")}
    scores = {row["model"]: float(row["overall_pub"]) for row in read_table("published_senteval.csv")}
    seeds = f"{_PART}; they differ by 5 % among themselves"
    opposite = f"opposite signs: the effect falls there and rises here; {seeds}"
    tables = Published(f"{_PAPER}, Tables 6 and 7", 5.0, seeds, "models")
    table10 = Published(f"{_PAPER}, Table 10", 1.0, _PART, "models")
    # Relative change for SEAT, whose scale differs between encoders; points for accuracies.
    for model in effects:
        name = _OURS.get(model, model)
        if name == "Original" or name not in ours:
            continue
        published, change = _percent_change(effects, model), _percent_change(ours, name)
        differs = "" if model in _AGREE else opposite if published < 0 < change else seeds
        yield tables.row(f"{model} change of the mean SEAT effect, percent", published, change, differs=differs)
        printed = round(scores[model] - scores["Original"], 2)
        points = round(float(np.mean(senteval[name])) - float(np.mean(senteval["Original"])), 2)
        yield table10.row(f"{model} change of the overall SentEval score, points", printed, points)


@chapter
def retrained_with_mnli(data: Path | None) -> Iterator[Row]:
    """Change of the mean SEAT effect in percent, with more pairs and seeds."""
    ours = _mean_effects("retraining_mnli.csv")
    effects = {row["model"]: float(row["avg_pub"]) for row in read_table("published_seat.csv")}
    table = Published(f"{_PAPER}, Tables 6 and 7", 5.0, _TEN, "models")
    chance = f"{_TEN}; no change beyond chance, nor with pairs picked by chance"
    for model, differs in (("Sub95", chance), ("Aug95", "")):
        what = f"{model} change of the mean SEAT effect, percent, with MNLI"
        yield table.row(what, _percent_change(effects, model), _percent_change(ours, model), differs=differs)


def _percent_change(effects: Mapping[str, float], model: str) -> float:
    return round(100 * (effects[model] / effects["Original"] - 1), 1)


def _mean_effects(table: str) -> dict[str, float]:
    """Mean SEAT effect of every kind of encoder, over its seeds."""
    seat = defaultdict(list)
    for row in read_table(table):
        effects = {name: float(value) for name, value in row.items() if name[0] == "C" and name[1:2].isdigit()}
        seat[row["encoder"]].append(average_effect(effects).signed)
    return {name: float(np.mean(values)) for name, values in seat.items()}
