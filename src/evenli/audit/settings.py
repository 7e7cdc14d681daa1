"""Settings of the audit: which pairs, how a model is loaded and asked, how pair sets are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenli.core.errors import InputError
from evenli.core.labels import label_columns
from evenli.core.record import Scoring
from evenli.core.settings import (
    SEEDS,
    Settings,
    axis_setting,
    device_setting,
    group,
    internal,
    online_setting,
    setting,
    split_names,
)
from evenli.core.terminal import Progress
from evenli.words.occupations import LABOUR, PUBLISHED

if TYPE_CHECKING:
    from evenli.audit.assess import OwnMeasure
    from evenli.audit.predictions import Predictions
    from evenli.words import Axis

SPLITS = ("full", "down")
"""Splits of an official release."""
ORDERS = DEALT, _ = ("dealt", "published")
"""How words meet templates."""
_LABELS = "LABEL,LABEL,LABEL"


def parse_prices(text: str) -> tuple[float, float]:
    """Two numbers with a comma between them."""
    try:
        prompt, answer = map(float, text.split(","))
    except ValueError as error:
        raise InputError(
            f"price (--price) is '{text}'; write PROMPT,ANSWER per million tokens, e.g. 0.15,0.60"
        ) from error
    return prompt, answer


def own_measures(specs: Sequence[str]) -> tuple[Any, ...]:
    """Functions named on the command line; only what the user types is ever imported, never what a file says."""
    from evenli.core.extras import import_object
    from evenli.stats.measure import as_measure

    return tuple(as_measure(import_object(spec, "--measure"), name=spec.partition(":")[2]) for spec in specs)


def _is_amount(amount: float) -> bool:
    return 0 <= amount < math.inf


def _occupations(default: str | None, otherwise: str = "") -> Any:
    text = f"Occupations; labour is by US labour statistics (en); or a .csv or .tsv file of your own{otherwise}."
    return setting(default, text, choices=(PUBLISHED, LABOUR), closed=False)


def _dominance(help: str) -> float | None:
    rule = (lambda percent: 50 < percent <= 100, "above 50 and at most 100 percent")
    return setting(None, help, rule=rule)


@dataclass(frozen=True)
class Prompting(Settings):
    """How a language model is asked."""

    prompts: int | None = setting(
        None, "Wordings in which a language model is asked; default: all three, with --limit the first.", minimum=1
    )
    orders: int = setting(3, "Orders of the options for a language model: 3 (cyclic) or 6 (all).")
    concurrency: int = setting(8, "Requests to a chat server at a time.", minimum=1)
    samples: int = setting(5, "Answers per question, where a chat server gives no log-probabilities.", minimum=1)
    price: tuple[float, float] | None = setting(
        None,
        "What a million tokens cost: for the estimate and --max-cost.",
        metavar="PROMPT,ANSWER",
        parse=parse_prices,
        rule=(lambda price: all(map(_is_amount, price)), "numbers of 0 or more"),
    )
    max_cost: float | None = setting(
        None, "Ask nothing beyond this cost; needs --price.", minimum=0, rule=(_is_amount, "a number of 0 or more")
    )
    calibrate: bool = setting(False, "Divide a language model's answers by those to sentences that say nothing.")

    def __post_init__(self) -> None:
        """Refuse a limit that cannot be kept."""
        super().__post_init__()
        if self.max_cost is not None and self.price is None:
            raise InputError(
                "a largest cost (--max-cost) needs a price (--price PROMPT,ANSWER): what a million tokens of each cost"
            )


@dataclass(frozen=True)
class ModelOptions(Settings):
    """How a model is loaded and asked."""

    labels: tuple[str, ...] | None = setting(
        None, "Order of the model's outputs, e.g. entailment,neutral,contradiction.", metavar=_LABELS, parse=split_names
    )
    device: str | None = device_setting()
    dtype: str | None = setting(
        None,
        "Numbers to compute in; default: bfloat16 on CUDA, else float32.",
        choices=("float32", "bfloat16", "float16"),
    )
    max_length: int = setting(128, "Longest input in tokens; longer pairs are truncated and counted.", minimum=8)
    token_budget: int | None = setting(None, "Tokens per batch; default by device.", minimum=1)
    threads: int | None = internal(None, "Threads of ONNX Runtime on the CPU; default: all.", minimum=1)
    online: bool = online_setting()
    allow_pickle: bool = setting(False, "Accept pickle checkpoints; they can run code when loaded.")
    prompting: Prompting = group(Prompting)

    def label_order(self, stored: Callable[[], tuple[str, ...]], name: str) -> tuple[tuple[str, ...], list[int]]:
        """The labels in output order (``stored`` gives the model's own) and the columns in the order of LABELS."""
        labels = tuple(self.labels or stored())
        return labels, list(
            label_columns(labels, origin="the list of labels (--labels)" if self.labels else f"the model {name}")
        )


@dataclass(frozen=True, kw_only=True)
class RunSettings(Settings):
    """How a run asks a model and is stored."""

    options: ModelOptions | None = group(ModelOptions, optional=True)
    overwrite: bool = setting(False, "Replace another run in the folder.")
    kept: dict[str, Predictions] | None = internal(None, "Tables by plan, reused where there is no folder.")
    on_progress: Callable[[Progress], None] = internal(lambda _: None, "Told how far the run is.")
    on_warning: Callable[[str], None] = internal(lambda _: None, "Told what a user should know.")


@dataclass(frozen=True, kw_only=True)
class PairSettings(Settings):
    """Which pairs an audit asks, and which words count."""

    limit: int | None = setting(
        None, "Use at most so many pairs per suite (balanced sample) and fewer checks; wider intervals.", minimum=1
    )
    seed: int | None = setting(None, "Which pairs --limit takes; default 0.", **SEEDS)
    split: str = setting("full", "Part of an official release; down is downsampled.", choices=SPLITS)
    tokenised: bool = setting(False, "Use the pre-segmented Japanese files of a release.")
    axis: Axis | str = axis_setting()
    occupations: str | Path | None = _occupations(None, "; default: published, in English both")
    dominance: float | None = _dominance(
        "Probe: label by US labour share, occupations with at least this percentage of a gender."
    )
    full: bool = setting(False, "Ask all wordings of suite robust, not a sample of them.")


@dataclass(frozen=True, kw_only=True)
class AuditSettings(RunSettings, PairSettings):
    """How an audit is made."""

    scoring: Scoring = group(Scoring)
    measures: Sequence[OwnMeasure] = setting(
        (), "Own measure; may be repeated.", "--measure", metavar="MODULE:FUNCTION", repeated=True, parse=own_measures
    )


@dataclass(frozen=True, kw_only=True)
class FileSettings(RunSettings):
    """How a pair file is read and scored."""

    gold_labels: Sequence[str] | None = setting(
        None,
        "What the numbers 0, 1, 2 mean as gold labels; default entailment,neutral,contradiction.",
        metavar=_LABELS,
        parse=split_names,
    )


@dataclass(frozen=True)
class CoalSettings(Settings):
    """How an NLI-CoAL set is built."""

    axis: Axis | str = axis_setting()
    templates: Path | str | Sequence[str] | None = setting(None, "Own templates, one a line with a [Sub] slot.")
    # Python also takes a list of typed occupations, each with its class.
    occupations: str | Path | Any = _occupations(PUBLISHED)
    width: int = setting(10, "Templates per occupation.", minimum=1)
    order: str = setting(
        DEALT,
        "dealt: every class of words meets the same templates; published: word k meets templates k to k + width - 1, "
        "as in the official releases.",
        choices=ORDERS,
    )
    seed: int = setting(0, "Seed by which templates are dealt.", **SEEDS)
    neutral_group_order: Sequence[str] | None = internal(None, "Order of the groups of NS; default: that of the axis.")


@dataclass(frozen=True)
class ProbeSettings(Settings):
    """How a probe set is built."""

    corpus: Path | str | None = setting(None, "English NLI file or text, a sentence a line; default: ours.")
    per_occupation: int = setting(100, "Premises per occupation.", minimum=1)
    max_words: int = setting(10, "Most words in a premise.", minimum=2)
    family: str = setting("text", "Wording of the hypotheses.", choices=("text", "premise", "occupation"))
    seed: int = setting(0, "Seed of sentences and hypotheses.", **SEEDS)
    # Python also takes a function: does a sentence name a person?
    name_filter: str | Callable[[str], bool] = setting(
        "lists",
        "How sentences with names are found; lists need no model.",
        "--names",
        choices=("lists", "spacy", "nltk"),
    )
    # Python also takes a mapping from occupation to gender.
    occupations: Path | str | Mapping[str, str] | None = setting(
        None, "Your own occupations: .csv or .tsv with the columns occupation and gender (female, male)."
    )
    dominance: float | None = _dominance(
        "Label by US labour share: keep occupations with at least this percentage of one gender."
    )
    repair_articles: bool = setting(
        True, "Choose a or an anew where an occupation is put in.", "--repair-articles/--no-repair-articles"
    )
