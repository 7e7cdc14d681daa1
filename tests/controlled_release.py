"""The released bias-controlled sets: their texts, and the words and templates they are built from."""

from __future__ import annotations

import json
import re
from itertools import permutations
from pathlib import Path, PurePosixPath

from evenli.audit.suites.coal.pairs import slot_template
from evenli.core.io import archive_texts
from evenli.training.meta.controlled import DEV_WIDTH, TEST_OFFSET, ControlledWords
from evenli.words import load_axis
from evenli.words.templates import SLOT, fill

_FILE = re.compile(r"(?:dev_r-\d+|test_(?:non)?bias)\.json")  # the segmented Japanese copies are called dev-tok_…


def official_controlled(path: Path) -> dict[str, str]:
    """Texts of the released dev and test files by name (``dev_r-0``, ``test_bias`` …)."""
    texts = archive_texts(path, lambda name: bool(_FILE.fullmatch(PurePosixPath(name).name)))
    return {PurePosixPath(name).stem: text for name, text in sorted(texts.items())}


def recover_controlled(dev_text: str, test_text: str, lang: str) -> tuple[ControlledWords, list[str]]:
    """The words and the chain of 109 templates behind one dev and one test file.

    Neutral words are known by their labels, the groups of the others by their place.
    """
    neutral, others, chain = _read_blocks(dev_text, lang)
    test_neutral, test_others, test_chain = _read_blocks(test_text, lang)
    assert (neutral, others) == (test_neutral, test_others)
    assert chain[TEST_OFFSET:] == test_chain[: len(chain) - TEST_OFFSET]
    names = load_axis().group_names
    size = len(others) // len(names)
    groups = {name: tuple(others[size * k : size * (k + 1)]) for k, name in enumerate(names)}
    return ControlledWords(groups, tuple(neutral)), chain[:TEST_OFFSET] + test_chain


def _read_blocks(text: str, lang: str) -> tuple[list[str], list[str], list[str]]:
    """Neutral words, other words and template chain; a block is one word over DEV_WIDTH templates."""
    rows = [json.loads(line) for line in text.splitlines()]
    group_words = tuple(load_axis().language(lang).group_words.values())
    neutral, others, chain = [], [], []
    for start in range(0, len(rows), 2 * DEV_WIDTH):
        block = rows[start : start + 2 * DEV_WIDTH]
        found = [_word_and_template(*pair, group_words) for pair in zip(block[::2], block[1::2], strict=True)]
        ((word,), templates) = {word for word, _ in found}, [template for _, template in found]
        (neutral if block[0]["label"] == "neutral" else others).append(word)
        # Every block shares all but one template with the block before it.
        assert not chain or chain[1 - DEV_WIDTH :] == templates[:-1]
        chain += templates[-1:] if chain else templates
    return neutral, others, chain


def _word_and_template(first: dict[str, str], second: dict[str, str], group_words: tuple[str, ...]) -> tuple[str, str]:
    premise = first["sentence1"]
    for one, other in permutations(group_words, 2):  # Japanese files name either group first
        template = slot_template(first["sentence2"], second["sentence2"], one, other)
        if template:
            length = (len(premise) - len(template.replace(SLOT, ""))) // template.count(SLOT)
            word = premise[template.index(SLOT) :][:length]
            assert word and fill(template, word) == premise == second["sentence1"]
            return word, template
    raise AssertionError(f"not one template: {first} {second}")
