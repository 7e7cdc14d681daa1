"""First stage: pairs and labels of a sweep."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from evenli.io import hash_text, to_plain
from evenli.meta.controlled import DEV_WIDTH, template_chains
from evenli.meta.controlled_pairs import ControlledPairs, Labels, build_controlled, controlled_words, evaluation_pairs
from evenli.meta.design import Design
from evenli.meta.folder import MetaFolder
from evenli.pairs import PairSet
from evenli.resources import load_axis
from evenli.suites.coal.load import read_release


def prepare(folder: MetaFolder | str | Path, design: Design) -> dict[str, Any]:
    """Write the pairs and labels of a sweep; a directory prepared with the same design is left as it is.

    Returns:
        The header of the directory.
    """
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
        header = {
            "lang": design.lang,
            "design": to_plain(design, digits=None),
            "levels": {"bias": list(design.rates)} | ({"noise": list(design.noise)} if design.noise else {}),
            "words": asdict(controlled_words(design.lang, axis=design.axis)),
            "templates": {
                "train": len(train_chain),
                "dev": len(dev_chain),
                "sha256": hash_text("\n".join(train_chain)),
            },
            "evaluation": evaluation.card(),
            "pairs": {"train": len(train), "dev": len(dev), "evaluation": len(evaluation)},
        }
        pairs = {"train": _rows(train), "dev": _rows(dev), "evaluation": evaluation.frame.rows(named=True)}
        folder.create(header, pairs, _labels(design, train, dev))
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
    return PairSet(
        name=f"{down.name}, NS words of training",
        suite="coal",
        lang=design.lang,
        frame=pl.concat([stereotyped, trained]),
        source=down.source,
    )


def _labels(design: Design, *splits: ControlledPairs) -> dict[str, Labels]:
    """Labels of all splits in a row, by axis and level."""
    labels = {}
    for rate in design.rates:
        parts = [pairs.labels(rate, balanced=design.balanced) for pairs in splits]
        labels[f"bias-{rate:g}"] = np.concatenate(parts)
    for level in design.noise:
        parts = [pairs.noise_labels(level, balanced=design.balanced, seed=design.seed) for pairs in splits]
        labels[f"noise-{level:g}"] = np.concatenate(parts)
    return labels


def _rows(pairs: ControlledPairs) -> list[dict[str, str]]:
    return [{"premise": p, "hypothesis": h} for p, h in zip(pairs.premises, pairs.hypotheses, strict=True)]
