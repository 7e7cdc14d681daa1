"""First stage: pairs and labels of a sweep."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from evenli._version import __version__
from evenli.errors import InputError
from evenli.io import hash_text
from evenli.meta.captions import templates_from_captions
from evenli.meta.controlled import (
    DEV_WIDTH,
    TRAIN_WIDTH,
    ControlledPairs,
    build_controlled,
    controlled_words,
    evaluation_pairs,
)
from evenli.meta.folder import MetaFolder
from evenli.pairs import PairSet
from evenli.resources import load_axis
from evenli.suites.coal.official import read_release
from evenli.suites.scenes import compose_templates


@dataclass(frozen=True)
class Design:
    """What a sweep is made of.

    Attributes:
        lang: Language.
        rates: Bias rates, 0 to 1.
        noise: Levels of the noise axis; empty for none.
        balanced: Give roles to female and male words in turn instead of to female words first.
        ns_words: ``train``, the unstereotyped words of training as the paper says, or ``released``, as in its files.
        data: Official release to evaluate on; None for our own templates.
        captions: Captions to make training templates of; None for our composed ones.
        width: Templates per word in training.
        seed: Of the order of templates and of the noise.
        axis: Social axis.
    """

    lang: str = "en"
    rates: tuple[float, ...] = tuple(i / 10 for i in range(11))
    noise: tuple[float, ...] = ()
    balanced: bool = False
    ns_words: str = "train"
    data: str | None = None
    captions: str | None = None
    width: int = TRAIN_WIDTH
    seed: int = 0
    axis: str = "gender"

    def __post_init__(self) -> None:
        """Refuse what cannot be correlated."""
        for name, levels in (("bias rates", self.rates), ("noise levels", self.noise)):
            outside = [level for level in levels if not 0 <= level <= 1]
            if outside:
                raise InputError(f"{name} lie between 0 and 1, not at {outside[0]:g}")
            if levels and len(set(levels)) < 3:
                raise InputError(f"a correlation needs at least three {name}, {len(set(levels))} given")
        if not self.rates:
            raise InputError("a correlation needs at least three bias rates, none given")
        if self.ns_words not in {"train", "released"}:
            raise InputError(f"--ns-words {self.ns_words} is unknown; choose train or released")
        if self.seed < 0:
            raise InputError(f"the seed is {self.seed}; give 0 or more")


def prepare(folder: MetaFolder, design: Design) -> dict[str, Any]:
    """Write the pairs and labels of a sweep; a folder prepared with the same design is left as it is.

    Returns:
        The header of the folder.
    """
    folder.check_free()  # before the lock, which is a file in it
    with folder.locked():
        wanted = {**asdict(design), "rates": list(design.rates), "noise": list(design.noise)}
        if folder.exists:
            before = folder.header["design"]
            changed = [name for name in wanted if before.get(name) != wanted[name]]
            if changed:
                raise InputError(
                    f"{folder.path} was prepared with other settings ({', '.join(changed)}); choose another -o"
                )
            return folder.header
        evaluation = _evaluation(design)
        own = load_axis(design.axis).templates(design.lang)
        train_chain, dev_chain = template_chains(design, exclude={*own, *evaluation.frame["template"]})
        train = build_controlled(design.lang, train_chain, width=design.width, axis=design.axis)
        dev = build_controlled(design.lang, dev_chain, width=min(DEV_WIDTH, design.width), axis=design.axis)
        labels = {}
        for rate in design.rates:
            labels[f"bias-{rate:g}"] = tuple(pairs.labels(rate, balanced=design.balanced) for pairs in (train, dev))
        for level in design.noise:
            labels[f"noise-{level:g}"] = tuple(
                pairs.noise_labels(level, balanced=design.balanced, seed=design.seed) for pairs in (train, dev)
            )
        header = {
            "evenli": __version__,
            "lang": design.lang,
            "design": wanted,
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
        folder.create(
            header,
            train=_rows(train),
            dev=_rows(dev),
            evaluation=evaluation.frame.rows(named=True),
            labels=labels,  # type: ignore[arg-type]  # tuples of two, made just above
        )
        return folder.header


def template_chains(design: Design, *, exclude: Collection[str]) -> tuple[list[str], list[str]]:
    """Templates for training and for held-out pairs: disjoint, and none of them in ``exclude``."""
    words = sum(map(len, controlled_words(design.lang, axis=design.axis).groups.values()))
    words += len(controlled_words(design.lang, axis=design.axis).neutral)
    train = words + design.width - 1
    # One chain serves dev and, starting where dev's last word starts, test.
    dev = 2 * words + DEV_WIDTH - 1
    if design.captions:
        found = templates_from_captions(
            design.captions, design.lang, count=None, seed=design.seed, exclude=exclude, axis=design.axis
        ).templates
        if len(found) < train + dev:
            raise InputError(
                f"{design.captions} gives {len(found)} usable templates; width {design.width} needs {train} for "
                f"training and {dev} held out"
            )
        chain = found[: train + dev]
    else:
        chain = compose_templates(
            design.lang, train + dev, seed=design.seed, exclude=exclude, axis=load_axis(design.axis)
        )
    shared = set(chain) & set(exclude)
    if shared or len(set(chain)) < len(chain):
        raise InputError(f"training and evaluation templates overlap, e.g. '{next(iter(shared or chain))}'")
    return chain[:train], chain[train:]


def _evaluation(design: Design) -> PairSet:
    """The downsampled PS, AS and NS pairs."""
    if design.data is None:
        return evaluation_pairs(design.lang, ns_words=design.ns_words, axis=design.axis)
    if not Path(design.data).exists():
        raise InputError(f"no such release: {design.data}")
    down = read_release(design.data, design.lang, split="down", axis=design.axis)
    if design.ns_words == "released":
        return down
    full = read_release(design.data, design.lang, split="full", axis=design.axis)
    neutral = controlled_words(design.lang, axis=design.axis).neutral
    frame = pl.concat(
        [
            down.frame.filter(pl.col("subset") != "NS"),
            full.frame.filter((pl.col("subset") == "NS") & pl.col("occupation").is_in(list(neutral))),
        ]
    )
    return PairSet(
        name=f"{down.name}, NS words of training", suite="coal", lang=design.lang, frame=frame, source=down.source
    )


def _rows(pairs: ControlledPairs) -> list[dict[str, str]]:
    return [{"premise": p, "hypothesis": h} for p, h in zip(pairs.premises, pairs.hypotheses, strict=True)]
