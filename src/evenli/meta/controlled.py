"""Bias-controlled sets of NLI-CoAL: training data that makes a model biased to a known rate.

Thirty words slide over a chain of templates. A rate decides, word by word, whether the labels follow the stereotype
or defy it; neutral words are always labelled neutral. A model that fits the data at rate ``r`` has CoAL ``2 r / 3``, so
a measure can be held against a known truth. Anantaprayoon, Kaneko, Okazaki 2024.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from evenli.errors import InputError
from evenli.io import hash_text
from evenli.labels import LABELS
from evenli.meta.controlled_pairs import (
    ControlledPairs,
    ControlledWords,
    Labels,
    build_controlled,
    controlled_words,
    evaluation_pairs,
)
from evenli.meta.controlled_release import DEV_WIDTH, TEST_OFFSET, official_controlled, recover_controlled
from evenli.resources import Axis, load_axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.scenes import template_key

__all__ = [
    "DEV_WIDTH",
    "TEST_OFFSET",
    "TRAIN_WIDTH",
    "ControlledPairs",
    "ControlledWords",
    "Labels",
    "build_controlled",
    "controlled_words",
    "evaluation_pairs",
    "official_controlled",
    "parse_rates",
    "recover_controlled",
    "to_controlled_jsonl",
    "write_controlled",
]

TRAIN_WIDTH = 500
"""Templates per word in train: 529 templates give 30,000 rows."""

_MOST_RATES = 1000

_NAME, _CARD, _DRAFT = "bias-controlled", "card.json", ".card.json.partial"


def parse_rates(text: str) -> list[float]:
    """Read bias rates: ``start:stop:step`` with both ends, or a list.

    >>> parse_rates("0:1:0.25"), parse_rates("0, 0.5, 1")
    ([0.0, 0.25, 0.5, 0.75, 1.0], [0.0, 0.5, 1.0])
    """
    try:
        if ":" in text:
            start, stop, step = (float(part) for part in text.split(":"))
            if not (step > 0 and (stop - start) / step < _MOST_RATES):
                raise InputError(f"'{text}': the step of start:stop:step must be above 0 and give few rates")
            count = math.floor((stop - start) / step + 1e-9) + 1
            # Multiples of the step carry binary dust; a rate is also a file name.
            rates = [round(start + number * step, 10) for number in range(count)]
        else:
            rates = [float(part) for part in text.split(",")]
    except (ValueError, OverflowError):
        raise InputError(f"cannot read the rates '{text}'; write 0:1:0.1 (start:stop:step) or 0,0.5,1") from None
    _check_rates(rates)
    if len(rates) < 3:
        raise InputError(f"'{text}' gives {len(rates)} rate(s); at least three are needed to see a trend")
    return rates


def to_controlled_jsonl(pairs: ControlledPairs, labels: Labels) -> str:
    """Write pairs and labels in the exact format of the release."""
    if len(labels) != len(pairs):
        raise InputError(f"{len(labels)} labels were given for {len(pairs)} pairs")
    return "".join(
        json.dumps({"sentence1": premise, "sentence2": hypothesis, "label": LABELS[label]}, ensure_ascii=False) + "\n"
        for premise, hypothesis, label in zip(pairs.premises, pairs.hypotheses, labels.tolist(), strict=True)
    )


def write_controlled(
    folder: str | Path,
    lang: str,
    rates: Sequence[float],
    chain_train: Sequence[str],
    chain_dev: Sequence[str],
    *,
    balanced: bool = False,
    width: int = TRAIN_WIDTH,
    axis: Axis | str = "gender",
) -> dict[str, Any]:
    """Write train and dev at every rate, test at rates 1 and 0, and ``card.json`` that says what they are.

    The templates of train, of dev and test, and those the axis evaluates on must be disjoint; dev and test share
    their chain, as released.

    Args:
        folder: Where to write; files of others and of other rates that are there already are refused.
        lang: Language.
        rates: Bias rates; the file number is ten times the rate.
        chain_train: Templates of train, one fewer than words and ``width`` together: 529.
        chain_dev: Templates of dev and test, 109.
        balanced: Alternate the groups in the order of roles.
        width: Templates per word in train.
        axis: Axis or its name.

    Returns:
        The card.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    _check_rates(rates)
    splits = {
        "train": build_controlled(lang, chain_train, width=width, axis=axis),
        "dev": build_controlled(lang, chain_dev, width=DEV_WIDTH, axis=axis),
        "test": build_controlled(lang, chain_dev, width=DEV_WIDTH, offset=TEST_OFFSET, axis=axis),
    }
    card = _card(lang, axis, rates, balanced, width, splits)
    contents = {
        f"{split}/{split}_r-{round(10 * rate, 6):g}.jsonl": (splits[split], rate)
        for split in ("train", "dev")
        for rate in rates
    }
    contents |= {"test/test_bias.jsonl": (splits["test"], 1.0), "test/test_nonbias.jsonl": (splits["test"], 0.0)}
    folder = Path(folder)
    try:
        _refuse_theirs(folder, contents)
        _refuse_leftovers(folder, contents)
        for split in splits:
            (folder / split).mkdir(parents=True, exist_ok=True)
        # A card means that the folder is complete, so it comes last; by its draft a killed call knows its files.
        _write_json(folder / _DRAFT, {**card, "files": dict.fromkeys(contents)})
        (folder / _CARD).unlink(missing_ok=True)
        for name, (pairs, rate) in contents.items():
            text = to_controlled_jsonl(pairs, pairs.labels(rate, balanced=balanced))
            (folder / name).write_bytes(text.encode())
            card["files"][name] = hash_text(text)
        _write_json(folder / _DRAFT, card)
        (folder / _DRAFT).replace(folder / _CARD)
    except OSError as error:
        raise InputError(f"cannot write {error.filename or folder}: {error.strerror or error}") from error
    return card


def _check_rates(rates: Sequence[float]) -> None:
    for rate in rates:
        if not 0 <= rate <= 1:
            raise InputError(f"the rate {rate:g} lies outside 0..1")
    if len(set(rates)) < len(rates) or not rates:
        shown = ", ".join(f"{rate:g}" for rate in rates)
        raise InputError(f"rates must be distinct, at least one; given: {shown or 'none'}")


def _card(
    lang: str, axis: Axis, rates: Sequence[float], balanced: bool, width: int, splits: Mapping[str, ControlledPairs]
) -> dict[str, Any]:
    """What the sets are, still without their files; templates that stand in two of them are refused."""
    train, dev, test = splits["train"], splits["dev"], splits["test"]
    chains = {"train": _distinct(train), "dev and test": list(dict.fromkeys(_distinct(dev) + _distinct(test)))}
    _check_disjoint({**chains, "evaluation": axis.templates(lang)})
    return {
        "name": _NAME,
        "lang": lang,
        "axis": axis.id,
        "source": "built by evenli: construction and words of NLI-CoAL, Anantaprayoon et al. 2024",
        "balanced": balanced,
        "rates": list(rates),
        "width": {"train": width, "dev": DEV_WIDTH, "test": DEV_WIDTH},
        "rows": {split: len(pairs) for split, pairs in splits.items()},
        "labels": {split: _counts(pairs.labels(1.0)) for split, pairs in splits.items()},
        "words": {
            role: list(words) for role, words in {**train.lists.groups, NO_STEREOTYPE: train.lists.neutral}.items()
        },
        "biased_words": {f"{rate:g}": _biased(train.lists, rate, balanced) for rate in rates},
        "templates": {
            name: {"distinct": len(chain), "sha256": hash_text("\n".join(chain))} for name, chain in chains.items()
        },
        "templates_in_dev_and_test": len(set(dev.templates) & set(test.templates)),
        "files": {},
    }


def _distinct(pairs: ControlledPairs) -> list[str]:
    return list(dict.fromkeys(pairs.templates))


def _check_disjoint(chains: Mapping[str, Sequence[str]]) -> None:
    """Refuse templates that stand in two chains, compared by ``template_key``."""
    for (name, chain), (other, templates) in combinations(chains.items(), 2):
        known = {template_key(template) for template in templates}
        shared = [template for template in chain if template_key(template) in known]
        if shared:
            raise InputError(
                f"{len(shared)} template(s) of {name} also stand in {other}, for example '{shared[0]}'; "
                "the model would be tested on sentences it has seen: take others"
            )


def _write_json(file: Path, content: Mapping[str, Any]) -> None:
    file.write_bytes((json.dumps(content, ensure_ascii=False, indent=2) + "\n").encode())


def _refuse_theirs(folder: Path, contents: Mapping[str, object]) -> None:
    """Replace nothing but what a card of ours, or the draft of one, names."""
    if not folder.is_dir():
        return
    ours = {name for file in (_CARD, _DRAFT) for name in _files_of(folder / file)}
    if ours:
        theirs = [name for name in contents if (folder / name).exists() and name not in ours]
    else:
        theirs = sorted(entry.name for entry in folder.iterdir())
    if theirs:
        more = ", …" if len(theirs) > 1 else ""
        raise InputError(
            f"{folder} is not empty and not a {_NAME} set of evenli ({theirs[0]}{more}); choose another folder"
        )


def _files_of(card: Path) -> list[str]:
    """Files that a card names; none if it is not there or of something else."""
    try:
        told = json.loads(card.read_bytes())
    except (FileNotFoundError, ValueError):
        return []
    if not isinstance(told, dict) or told.get("name") != _NAME:
        return []
    return [_CARD, _DRAFT, *told.get("files", [])]


def _refuse_leftovers(folder: Path, contents: Mapping[str, object]) -> None:
    """Someone who trains on ``train/*`` must not meet the files of an earlier call."""
    for file in sorted(folder.glob("*/*_r-*.jsonl")):
        name = file.relative_to(folder).as_posix()
        if name not in contents:
            raise InputError(f"{folder} holds {name} of other rates; choose another folder or remove it")


def _counts(labels: Labels) -> dict[str, int]:
    return {label: int((labels == index).sum()) for index, label in enumerate(LABELS)}


def _biased(lists: ControlledWords, rate: float, balanced: bool) -> dict[str, int]:
    biased = set(lists.first(rate, balanced=balanced))
    return {group: len(biased & set(words)) for group, words in lists.groups.items()}
