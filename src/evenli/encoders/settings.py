"""Settings of sentence encoders: how one is loaded, tested, compared and mitigated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from evenli.core.errors import InputError
from evenli.core.mitigation import Method
from evenli.core.registry import MITIGATIONS
from evenli.core.settings import SEEDS, Settings, device_setting, group, internal, online_setting, setting, split_names

Level = Literal["word", "sentence"]
Sides = Literal["one", "two"]
POOLINGS = ("mean", "cls", "max")
BUILT_IN = "built-in"
"""The sentences that ship with evenli."""
TASKS = ("MR", "CR", "SUBJ", "MPQA", "TREC", "SST2", "SST5", "STSB", "SICKR", "SICKE", "STS14", "MRPC")
"""The tasks of the published tables, in their order; the mean is over these."""
EVERY = (*TASKS, "STS12", "STS13", "STS15", "STS16")
"""With further tasks that are run when they are named."""


@dataclass(frozen=True, kw_only=True)
class LoadSettings(Settings):
    """How an encoder is loaded."""

    pooling: str | None = setting(None, "How hf and onnx encoders pool; default: as their files say.", choices=POOLINGS)
    device: str | None = device_setting()
    online: bool = online_setting()


@dataclass(frozen=True)
class SeatSettings(Settings):
    """What association tests depend on besides encoder and texts."""

    level: Level = setting("sentence", "SEAT or WEAT; a file of yours has its own.", choices=("sentence", "word"))
    seed: int = setting(0, "Seed of permutations and bootstrap.", **SEEDS)
    permutations: int = setting(100_000, "Permutations; fewer if all can be tried.", minimum=100)
    resamples: int = internal(
        2_000,
        "Resamples of the bootstrap; 0 for no intervals.",
        rule=(lambda count: count == 0 or count >= 100, "0, or 100 or more"),
    )
    coverage: float = internal(
        0.95, "Coverage of the intervals.", rule=(lambda share: 0 < share < 1, "a number between 0 and 1, such as 0.95")
    )
    sides: Sides = internal("one", "One (X goes with A) or two (either way).", choices=("one", "two"))
    ddof: int = internal(1, "1 for the sample standard deviation, 0 for that of the population.", minimum=0, maximum=1)


@dataclass(frozen=True)
class SentEvalSettings(Settings):
    """How the tasks are run."""

    tasks: tuple[str, ...] | None = setting(
        None, "Tasks; default: the first twelve.", choices=EVERY, names="TASK", parse=split_names
    )
    seed: int = setting(1111, "Seed of folds, shuffles and initial weights.", **SEEDS)
    kfold: int = setting(10, "Folds of cross-validated tasks, outer and inner.", minimum=2)
    classifier: str = setting("torch", "torch is a softmax layer with Adam.", choices=("torch", "sklearn"))
    hidden: int = setting(0, "Units of a sigmoid layer before the softmax; 0: none.", minimum=0)
    batch_size: int | None = setting(None, "Texts the encoder takes at a time.", minimum=1)
    device: str | None = internal(None, "Where classifiers are trained; default: the fastest there is.")

    def __post_init__(self) -> None:
        """Refuse unknown tasks, and units for a classifier that has none."""
        super().__post_init__()
        if self.tasks is not None:
            unknown = [name for name in self.tasks if name not in EVERY]
            if unknown or isinstance(self.tasks, str) or not self.tasks:
                raise InputError(f"no SentEval task '{', '.join(unknown)}'; choose from {', '.join(EVERY)}")
        if self.hidden and self.classifier == "sklearn":
            raise InputError(f"hidden {self.hidden} with classifier {self.classifier}; give 0, or units for torch")

    @property
    def names(self) -> list[str]:
        """The tasks to run, in the order of the published tables."""
        return list(TASKS) if self.tasks is None else [name for name in EVERY if name in self.tasks]


@dataclass(frozen=True)
class ReportSettings(LoadSettings):
    """What a report depends on besides the encoders; probes for leakage take the seed of SEAT."""

    seat: SeatSettings = group(SeatSettings)
    senteval: SentEvalSettings = group(SentEvalSettings)
    probe: str | None = setting(None, "English text to look for gender in; default: sentences of ours.", metavar="FILE")


@dataclass(frozen=True)
class MitigationSettings(LoadSettings):
    """How an eraser is fitted."""

    method: str = internal("inlp", "Name of a method: inlp, leace, sent-debias or one of another package.")
    fit: str = setting(
        BUILT_IN,
        "Sentences to fit on: ours, or an English corpus (.txt with a sentence a line, or .jsonl, .csv, .tsv, .parquet "
        "with a column text, sentence, premise or hypothesis); built-in+FILE for both.",
        metavar="built-in|FILE|built-in+FILE",
    )
    probe: str = setting(
        BUILT_IN,
        "Text to look for gender in afterwards: ours, or a file as for --fit, which should be another one.",
        metavar="built-in|FILE",
    )
    seed: int = setting(0, "Seed of the fit and of the probes.", **SEEDS)
    options: Settings | Mapping[str, Any] = internal(Settings(), "Settings of the method, or some of them by name.")

    def __post_init__(self) -> None:
        """Find the method, and refuse what it does not take."""
        super().__post_init__()
        method: Method = MITIGATIONS.get(self.method)
        if method.kind != "encoder":
            raise InputError(f"the method '{self.method}' is for {method.kind}, not for encoders")
        if not isinstance(self.options, type(method.settings)):
            given = self.options.to_dict() if isinstance(self.options, Settings) else self.options
            object.__setattr__(self, "options", method.make_settings(given))


@dataclass(frozen=True)
class HardDebiasSettings(Settings):
    """How word vectors are hard-debiased."""

    pairs: str = setting("ten", "Pairs of the direction, or a file.", choices=("ten", "long"), closed=False)
    control: bool = setting(False, "Only bring the vectors to length 1, as a control.")
    seed: int = setting(0, "Seed of the probes that look for what is left.", **SEEDS)


@dataclass(frozen=True)
class InlpSettings(Settings):
    """How classifiers are projected out one after the other."""

    iterations: int = setting(35, "Rounds at most; it ends early once a round finds nothing.", minimum=1)


@dataclass(frozen=True)
class LeaceSettings(Settings):
    """What least-squares concept erasure removes."""

    concepts: str = setting(
        "pairs", "What is erased: every pair of gender words, or gender alone, as published.", choices=("pairs", "one")
    )


@dataclass(frozen=True)
class SentDebiasSettings(Settings):
    """How many directions are removed."""

    components: int = setting(1, "Directions to remove.", minimum=1)
