"""Bias-controlled sets of NLI-CoAL: training data that makes a model biased to a known rate.

Thirty words slide over a chain of templates. A rate decides, word by word, whether the labels follow the stereotype
or defy it; neutral words are always labelled neutral. A model that fits the data at rate ``r`` has CoAL ``2 r / 3``, so
a measure can be compared with a known truth. Anantaprayoon, Kaneko, Okazaki 2024.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from evenli.errors import InputError, RunError
from evenli.io import hash_text
from evenli.labels import LABELS
from evenli.meta.captions import templates_from_captions
from evenli.meta.controlled_pairs import ControlledPairs, ControlledWords, Labels, build_controlled, controlled_words
from evenli.meta.design import Design
from evenli.resources import load_axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.store import RunDir, replacing
from evenli.suites.scenes import compose_templates, template_key

DEV_WIDTH = 50
"""Templates per word in dev and test."""
TEST_OFFSET = 30
"""Where test begins on the chain of 109 templates it shares with dev; 49 of them occur in both."""


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


def write_controlled(
    folder: str | Path, design: Design, chains: tuple[Sequence[str], Sequence[str]] | None = None
) -> dict[str, Any]:
    """Write train and dev at every rate, test at rates 1 and 0, and ``card.json`` that says what they are.

    The templates of train, of dev and test, and those the axis evaluates on must be disjoint; dev and test share
    their chain, as released. A directory that holds the same set is left as it is.

    Args:
        folder: New directory.
        design: Language, rates, balance, width and axis; the number of a file is ten times the rate.
        chains: Own templates of train (words plus width minus one: 529) and of dev and test (109).

    Returns:
        The card.
    """
    exclude = load_axis(design.axis).templates(design.lang)
    splits = _splits(design, *(chains or template_chains(design, exclude=exclude)))
    texts = {
        f"{split}/{split}_r-{round(10 * rate, 6):g}.jsonl": (splits[split], rate)
        for split in ("train", "dev")
        for rate in design.rates
    }
    texts |= {"test/test_bias.jsonl": (splits["test"], 1.0), "test/test_nonbias.jsonl": (splits["test"], 0.0)}
    files = {
        name: to_controlled_jsonl(pairs, pairs.labels(rate, balanced=design.balanced))
        for name, (pairs, rate) in texts.items()
    }
    card = _card(design, splits) | {"files": {name: hash_text(text) for name, text in files.items()}}
    run = RunDir(folder, kind="bias-controlled set", manifest="card.json")
    # The same call again changes nothing; a set with other settings is never mixed with this one.
    if run.is_ours():
        stored = run.read_manifest() or {}
        if any(stored.get(key) != value for key, value in card.items()):
            raise RunError(f"{folder} holds a bias-controlled set with other settings; choose another --out")
        return stored
    # All files or none: a trainer that reads train/* must not see half a set.
    with replacing(run, overwrite=False) as temporary:
        new = RunDir(temporary, kind=run.kind, manifest="card.json")
        for name, text in files.items():
            new.write(name, text)
        new.write_manifest(card)
    return run.read_manifest() or {}


def _splits(design: Design, chain_train: Sequence[str], chain_dev: Sequence[str]) -> dict[str, ControlledPairs]:
    lang, axis = design.lang, design.axis
    return {
        "train": build_controlled(lang, chain_train, width=design.width, axis=axis),
        "dev": build_controlled(lang, chain_dev, width=DEV_WIDTH, axis=axis),
        "test": build_controlled(lang, chain_dev, width=DEV_WIDTH, offset=TEST_OFFSET, axis=axis),
    }


def _card(design: Design, splits: Mapping[str, ControlledPairs]) -> dict[str, Any]:
    """What the sets are, without their files; templates that occur in two of them are refused."""
    axis = load_axis(design.axis)
    templates = {split: list(dict.fromkeys(pairs.templates)) for split, pairs in splits.items()}
    chains = {"train": templates["train"], "dev and test": list(dict.fromkeys(templates["dev"] + templates["test"]))}
    _check_disjoint({**chains, "evaluation": axis.templates(design.lang)})
    words = splits["train"].lists
    # Whoever trains on the files can check from the card alone which words carry the bias.
    return {
        "name": "bias-controlled",
        "lang": design.lang,
        "axis": axis.id,
        "source": "built by evenli: construction and words of NLI-CoAL, Anantaprayoon et al. 2024",
        "balanced": design.balanced,
        "rates": list(design.rates),
        "width": {"train": design.width, "dev": DEV_WIDTH, "test": DEV_WIDTH},
        "rows": {split: len(pairs) for split, pairs in splits.items()},
        "labels": {split: _counts(pairs.labels(1.0)) for split, pairs in splits.items()},
        "words": {role: list(listed) for role, listed in {**words.groups, NO_STEREOTYPE: words.neutral}.items()},
        "biased_words": {f"{rate:g}": _biased(words, rate, design.balanced) for rate in design.rates},
        "templates": {
            name: {"distinct": len(chain), "sha256": hash_text("\n".join(chain))} for name, chain in chains.items()
        },
        "templates_in_dev_and_test": len(set(templates["dev"]) & set(templates["test"])),
    }


def _check_disjoint(chains: Mapping[str, Sequence[str]]) -> None:
    """Refuse templates that occur in two chains, compared by ``template_key``."""
    for (name, chain), (other, templates) in combinations(chains.items(), 2):
        known = {template_key(template) for template in templates}
        shared = [template for template in chain if template_key(template) in known]
        if shared:
            raise InputError(
                f"{len(shared)} template(s) of {name} also occur in {other}, for example '{shared[0]}'; "
                "the model would be tested on sentences it has seen: choose others"
            )


def _counts(labels: Labels) -> dict[str, int]:
    return {label: int((labels == index).sum()) for index, label in enumerate(LABELS)}


def _biased(words: ControlledWords, rate: float, balanced: bool) -> dict[str, int]:
    biased = set(words.first(rate, balanced=balanced))
    return {group: len(biased & set(listed)) for group, listed in words.groups.items()}
