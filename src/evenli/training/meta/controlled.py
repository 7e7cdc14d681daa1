"""First stage, and bias-controlled sets of NLI-CoAL: training data that makes a model biased to a known rate.

Thirty words slide over a chain of templates. A rate decides, word by word, whether the labels follow the stereotype
or defy it; neutral words are always labelled neutral. A model that fits the data at rate ``r`` has CoAL ``2 r / 3``, so
a measure can be compared with a known truth. Anantaprayoon, Kaneko, Okazaki 2024.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl

from evenli.audit.pairs import PairSet
from evenli.audit.suites.coal.pairs import build_coal, read_release
from evenli.core.errors import InputError, RunError
from evenli.core.io import hash_text, to_plain
from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.core.record import Record
from evenli.core.store import RunDir, replacing
from evenli.training.meta.captions import templates_from_captions
from evenli.training.meta.folder import MetaFolder, level_name
from evenli.training.meta.mixture import ControlledWords as ControlledWords
from evenli.training.meta.mixture import Labels, Levels, class_sizes, mixtures, word_patterns
from evenli.training.meta.mixture import controlled_words as controlled_words
from evenli.training.recipe import Design
from evenli.words import Axis, Occupation, load_axis
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.scenes import compose_templates, template_key
from evenli.words.templates import SLOT, fill

DEV_WIDTH = 50
"""Templates per word in dev and test."""
TEST_OFFSET = 30
"""Where test begins on the chain of 109 templates it shares with dev; 49 of them occur in both."""
_E, _N, _C = (LABELS.index(label) for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))


@dataclass(frozen=True)
class ControlledPairs:
    """The sentences of a bias-controlled set as parallel lists; labels depend on the rate and come on request."""

    lists: ControlledWords
    premises: list[str]
    hypotheses: list[str]
    words: list[str]
    groups: list[str]
    templates: list[str]

    def __len__(self) -> int:
        return len(self.premises)

    def labels(self, rate: float, *, balanced: bool = False) -> Labels:
        """Labels at a bias rate, as indices into LABELS.

        Biased words entail the group they are stereotyped as and contradict the others; the other stereotyped
        words do the reverse; neutral words are neutral. With two groups each label takes one third of the rows.
        """
        biased = set(self.lists.first(rate, balanced=balanced))
        table = self._neutral_table()
        for number, (word, stereotype) in enumerate(self.lists.stereotypes.items()):
            for column, group in enumerate(self.groups[: table.shape[2]]):
                table[number, :, column] = _E if (group == stereotype) == (word in biased) else _C
        return table.reshape(-1)

    def noise_labels(self, level: float, *, balanced: bool = False, seed: int = 0) -> Labels:
        """Labels of a model that errs but is not biased, as indices into LABELS.

        The first ``level`` of the stereotyped words, in the order the bias rate uses, get entailment on one half of
        their templates and contradiction on the other, drawn for each group by itself; all other rows are neutral.
        A model that fits them has ``e_p = c_p = e_a = c_a = level / 2``. A higher level keeps the errors of a lower.
        """
        generator = np.random.default_rng(seed)
        table = self._neutral_table()
        _, width, groups = table.shape
        for word in self.lists.first(level, balanced=balanced):
            number = self.lists.words.index(word)
            for column in range(groups):
                # An odd width leaves one over: give it to either label in turn, so that the word stays balanced.
                entailed = (width + column % 2) // 2
                order = generator.permutation(width)
                table[number, order[:entailed], column] = _E
                table[number, order[entailed:], column] = _C
        return table.reshape(-1)

    def mixture_labels(self, mixture: Levels, *, balanced: bool = False) -> Labels:
        """Labels that teach a mixture of the three causes (module ``mixture``), as indices into LABELS."""
        patterns, _ = word_patterns(mixture, class_sizes(asdict(self.lists)), balanced=balanced)
        return np.broadcast_to(patterns[:, None], self._neutral_table().shape).reshape(-1)

    def _neutral_table(self) -> Labels:
        """[words, templates per word, groups], all neutral; flattened it is in the order of the pairs."""
        words, groups = len(self.lists.words), len(self.lists.groups)
        return np.full((words, len(self) // (words * groups), groups), _N, dtype=np.int64)


def build_controlled(
    lang: str,
    templates: Sequence[str],
    *,
    width: int,
    offset: int = 0,
    words: ControlledWords | None = None,
    axis: Axis | str = "gender",
) -> ControlledPairs:
    """Slide the words over a chain of templates: word ``k`` meets templates ``offset + k .. offset + k + width - 1``.

    Each template gives one row per group, the last group of the axis first (men before women, as released). Templates
    beyond the last that is needed are not looked at. Words are the released ones unless given.
    """
    axis = load_axis(axis)
    lists = words or controlled_words(lang, axis)
    if set(lists.groups) != set(axis.group_names):
        given, wanted = ", ".join(lists.groups), ", ".join(axis.group_names)
        raise InputError(f"the words are for the groups {given}; axis '{axis.id}' has {wanted}")
    if width < 1 or offset < 0:
        raise InputError(f"width {width} and offset {offset} are not usable: at least 1 and 0 are expected")
    count = len(lists.words)
    if len(templates) < (needed := offset + count + width - 1):
        raise InputError(
            f"{count} words at width {width} and offset {offset} need {needed} templates, {len(templates)} were given"
        )
    for number, template in enumerate(templates[:needed], 1):
        if SLOT not in template:
            raise InputError(f"template {number} has no {SLOT} slot: '{template}'")
    group_words = axis.language(lang).group_words
    # The window moves by one template per word: neighbouring words share all but one of their sentences.
    rows = [
        (fill(template, word), fill(template, group_words[group]), word, group, template)
        for start, word in enumerate(lists.words, offset)
        for template in templates[start : start + width]
        for group in reversed(axis.group_names)
    ]
    return ControlledPairs(lists, *(list(column) for column in zip(*rows, strict=True)))


def evaluation_pairs(
    lang: str, ns_words: str = "train", axis: Axis | str = "gender", templates: Sequence[str] | None = None
) -> PairSet:
    """PS, AS and NS pairs (200 each) on which a bias-controlled model is scored.

    ``ns_words`` is ``train`` for the neutral words of training, as the paper describes, or ``released`` for those of
    the released files, which in English and Chinese are others. Of ``templates``, by default the axis' own, the first
    39 are used.
    """
    axis = load_axis(axis)
    lists = controlled_words(lang, axis)
    neutral = {"train": lists.neutral, "released": lists.neutral_released}
    if ns_words not in neutral:
        raise InputError(f"ns_words '{ns_words}' is unknown; choose {' or '.join(neutral)}")
    # The order of the released files: neutral words first.
    blocks = {NO_STEREOTYPE: neutral[ns_words], **lists.groups}
    occupations = [Occupation(word, block, word) for block, words in blocks.items() for word in words]
    pairs = build_coal(lang, axis=axis, occupations=occupations, templates=templates or None, order="published")
    return replace(pairs, name=f"meta-evaluation, NS words {ns_words}")


def to_controlled_jsonl(pairs: ControlledPairs, labels: Labels) -> str:
    """Write pairs and labels in the exact format of the release."""
    if len(labels) != len(pairs):
        raise InputError(f"{len(labels)} labels were given for {len(pairs)} pairs")
    return "".join(
        json.dumps({"sentence1": premise, "sentence2": hypothesis, "label": LABELS[label]}, ensure_ascii=False) + "\n"
        for premise, hypothesis, label in zip(pairs.premises, pairs.hypotheses, labels.tolist(), strict=True)
    )


def template_chains(design: Design, *, exclude: Collection[str]) -> tuple[list[str], list[str]]:
    """Templates for training and for held-out pairs: disjoint, and none of them in ``exclude``."""
    words = len(controlled_words(design.lang, axis=design.axis).words)
    train = words + design.width - 1
    # One chain serves dev and, starting where dev's last word starts, test.
    needed = train + 2 * words + DEV_WIDTH - 1
    if design.captions:
        chain = templates_from_captions(
            design.captions, design.lang, count=needed, seed=design.seed, exclude=exclude, axis=design.axis
        ).templates
    else:
        chain = compose_templates(design.lang, needed, seed=design.seed, exclude=exclude, axis=design.axis)
    return chain[:train], chain[train:]


class TemplateChain(Record, frozen=True):
    """How many different templates a chain has, and their hash."""

    distinct: int
    sha256: str


class ControlledCard(Record, frozen=True):
    """card.json of a bias-controlled set: whoever trains on the files can check which words carry the bias.

    Width and rows are by split, labels are those of rate 1, and ``biased_words`` counts by rate and group.
    """

    digits: ClassVar[int | None] = None

    name: str
    lang: str
    axis: str
    source: str
    balanced: bool
    rates: list[float]
    width: dict[str, int]
    rows: dict[str, int]
    labels: dict[str, dict[str, int]]
    words: dict[str, list[str]]
    biased_words: dict[str, dict[str, int]]
    templates: dict[str, TemplateChain]
    templates_in_dev_and_test: int
    files: dict[str, str]


def write_controlled(
    folder: str | Path, design: Design, chains: tuple[Sequence[str], Sequence[str]] | None = None
) -> ControlledCard:
    """Write train and dev at every rate, test at rates 1 and 0, and ``card.json`` that says what they are.

    The templates of train, of dev and test, and those the axis evaluates on must be disjoint; dev and test share
    their chain, as released. A directory that holds the same set is left as it is.

    The number of a file is ten times the rate. ``chains`` are own templates of train (words plus width minus one: 529)
    and of dev and test (109).
    """
    exclude = load_axis(design.axis).templates(design.lang)
    train, dev = chains or template_chains(design, exclude=exclude)
    splits = {
        "train": build_controlled(design.lang, train, width=design.width, axis=design.axis),
        "dev": build_controlled(design.lang, dev, width=DEV_WIDTH, axis=design.axis),
        "test": build_controlled(design.lang, dev, width=DEV_WIDTH, offset=TEST_OFFSET, axis=design.axis),
    }
    rates = {f"{s}/{s}_r-{round(10 * rate, 6):g}.jsonl": rate for s in ("train", "dev") for rate in design.rates}
    rates |= {"test/test_bias.jsonl": 1.0, "test/test_nonbias.jsonl": 0.0}
    files = {}
    for name, rate in rates.items():
        pairs = splits[name.partition("/")[0]]
        files[name] = to_controlled_jsonl(pairs, pairs.labels(rate, balanced=design.balanced))
    card = _card(design, splits, {name: hash_text(text) for name, text in files.items()})
    run = RunDir(folder, kind="bias-controlled set", manifest="card.json")
    # The same call again changes nothing; a set with other settings is never mixed with this one.
    if run.is_ours():
        stored = run.read_manifest() or {}
        if any(stored.get(key) != value for key, value in card.to_dict().items()):
            raise RunError(
                f"{folder} holds a bias-controlled set with other settings; choose another directory (--out)"
            )
        return card
    # All files or none: a trainer that reads train/* must not see half a set.
    with replacing(run, overwrite=False) as temporary:
        new = RunDir(temporary, kind=run.kind, manifest="card.json")
        for name, text in files.items():
            new.write(name, text)
        new.write_manifest(card.to_dict())
    return card


def _card(design: Design, splits: Mapping[str, ControlledPairs], files: dict[str, str]) -> ControlledCard:
    """What the sets are; templates that occur in two of them are refused."""
    axis = load_axis(design.axis)
    templates = {split: list(dict.fromkeys(pairs.templates)) for split, pairs in splits.items()}
    chains = {"train": templates["train"], "dev and test": list(dict.fromkeys(templates["dev"] + templates["test"]))}
    every = {**chains, "evaluation": axis.templates(design.lang)}
    for (name, chain), (other, compared) in combinations(every.items(), 2):
        known = set(map(template_key, compared))
        if shared := [template for template in chain if template_key(template) in known]:
            raise InputError(
                f"{len(shared)} template(s) of {name} also occur in {other}, for example '{shared[0]}'; "
                "the model would be tested on sentences it has seen: choose others"
            )
    words = splits["train"].lists
    return ControlledCard(
        name="bias-controlled",
        lang=design.lang,
        axis=axis.id,
        source="built by evenli: construction and words of NLI-CoAL, Anantaprayoon et al. 2024",
        balanced=design.balanced,
        rates=list(design.rates),
        width={"train": design.width, "dev": DEV_WIDTH, "test": DEV_WIDTH},
        rows={split: len(pairs) for split, pairs in splits.items()},
        labels={
            split: dict(zip(LABELS, np.bincount(pairs.labels(1.0), minlength=len(LABELS)).tolist(), strict=True))
            for split, pairs in splits.items()
        },
        words={role: list(listed) for role, listed in {**words.groups, NO_STEREOTYPE: words.neutral}.items()},
        biased_words={
            f"{rate:g}": {group: len(biased & set(listed)) for group, listed in words.groups.items()}
            for rate, biased in ((rate, set(words.first(rate, balanced=design.balanced))) for rate in design.rates)
        },
        templates={name: TemplateChain(len(chain), hash_text("\n".join(chain))) for name, chain in chains.items()},
        templates_in_dev_and_test=len(set(templates["dev"]) & set(templates["test"])),
        files=files,
    )


def prepare(folder: MetaFolder | str | Path, design: Design) -> dict[str, Any]:
    """Write the pairs and labels of a sweep, and return the header; the same design again changes nothing."""
    folder = folder if isinstance(folder, MetaFolder) else MetaFolder(folder)
    design.check_correlation()
    with folder.locked():
        if folder.read_header() is not None:
            folder.check_design(design)
            return folder.header
        # No sentence of the evaluation may occur in training, whether it is ours or from the release.
        evaluation = _evaluation(design)
        own = load_axis(design.axis).templates(design.lang)
        train_chain, dev_chain = template_chains(design, exclude={*own, *evaluation.frame["template"]})
        train = build_controlled(design.lang, train_chain, width=design.width, axis=design.axis)
        dev = build_controlled(design.lang, dev_chain, width=min(DEV_WIDTH, design.width), axis=design.axis)
        words, balanced = asdict(train.lists), design.balanced
        mixed = mixtures(design.causes, words, balanced=balanced)
        levels: dict[str, list[Any]] = {"bias": list(design.rates), "noise": list(design.noise), "mix": mixed}
        teach: dict[str, Any] = {
            "bias": ControlledPairs.labels,
            "noise": partial(ControlledPairs.noise_labels, seed=design.seed),
            "mix": ControlledPairs.mixture_labels,
        }
        labels = {
            level_name(axis, level): np.concatenate(
                [teach[axis](pairs, level, balanced=balanced) for pairs in (train, dev)]
            )
            for axis, own in levels.items()
            for level in own
        }
        header = {
            "lang": design.lang,
            "design": to_plain(design, digits=None),
            "levels": {axis: own for axis, own in levels.items() if own},
            "words": words,
            "templates": {"train": len(train_chain), "dev": len(dev_chain)}
            | {"sha256": hash_text("\n".join(train_chain))},
            "evaluation": evaluation.card().to_dict(),
            "pairs": {"train": len(train), "dev": len(dev), "evaluation": len(evaluation)},
        }
        pairs = {
            split: [{"premise": p, "hypothesis": h} for p, h in zip(own.premises, own.hypotheses, strict=True)]
            for split, own in (("train", train), ("dev", dev))
        } | {"evaluation": evaluation.frame.rows(named=True)}
        folder.create(header, pairs, labels)
        return folder.header


def _evaluation(design: Design) -> PairSet:
    """The downsampled PS, AS and NS pairs."""
    if design.data is None:
        return evaluation_pairs(design.lang, ns_words=design.ns_words, axis=design.axis)
    down = read_release(design.data, design.lang, split="down", axis=design.axis)
    if design.ns_words == "released":
        return down
    # The paper asks about the neutral words of training; only the full release has pairs with all of them.
    full = read_release(design.data, design.lang, split="full", axis=design.axis)
    neutral = controlled_words(design.lang, axis=design.axis).neutral
    stereotyped = down.frame.filter(pl.col("subset") != "NS")
    trained = full.frame.filter((pl.col("subset") == "NS") & pl.col("occupation").is_in(list(neutral)))
    frame = pl.concat([stereotyped, trained])
    return PairSet(f"{down.name}, NS words of training", down.suite, design.lang, frame, source=down.source)
