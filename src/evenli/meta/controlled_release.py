"""The released bias-controlled sets: read their files, and recover the words and templates they are made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path, PurePosixPath
from typing import Any

from evenli.errors import InputError
from evenli.io import archive_texts, parse_json_lines
from evenli.labels import NEUTRAL
from evenli.meta.controlled import DEV_WIDTH, TEST_OFFSET
from evenli.meta.controlled_pairs import ControlledWords
from evenli.resources import Axis, load_axis
from evenli.suites.coal.build import SLOT, fill
from evenli.suites.coal.official import slot_template

_FILE = re.compile(r"(?:dev_r-\d+|test_(?:non)?bias)\.json")  # the segmented Japanese copies are called dev-tok_…


def official_controlled(path: str | Path, lang: str, *, axis: Axis | str = "gender") -> dict[str, str]:
    """Texts of the released dev and test files by name (``dev_r-0``, ``test_bias`` …).

    Args:
        path: Release folder or an archive of it; of Japanese the untokenised copies are read.
        lang: Language the release must be in.
        axis: Axis whose group words the release uses.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    path = Path(path)
    if not path.exists():
        raise InputError(f"no such file or directory: {path}")
    texts: dict[str, str] = {}
    for name, text in sorted(archive_texts(path, lambda name: bool(_FILE.fullmatch(PurePosixPath(name).name))).items()):
        stem = PurePosixPath(name).stem
        if stem in texts:
            raise InputError(f"{path} holds {stem}.json twice; give the directory of one release")
        texts[stem] = text
    if not texts:
        raise InputError(f"{path} holds no bias-controlled set (dev/dev_r-0.json …); is it the release?")
    words = axis.language(lang).group_words.values()
    for name, text in texts.items():
        if not any(word in text.partition("\n")[0] for word in words):
            raise InputError(f"{path}: {name} names none of {', '.join(words)}; is it a release in '{lang}'?")
    return dict(sorted(texts.items()))


def recover_controlled(
    dev_text: str, test_text: str, lang: str, *, axis: Axis | str = "gender"
) -> tuple[ControlledWords, list[str]]:
    """Recover the words and the chain of 109 templates from one dev and one test file of the release.

    ``build_controlled`` on the result gives the files again. Neutral words are known by their labels, the groups
    of the others by their place.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    group_words = tuple(axis.language(lang).group_words.values())
    neutral, others, chain = _read_blocks(dev_text, "dev", group_words)
    test_neutral, test_others, test_chain = _read_blocks(test_text, "test", group_words)
    overlap = len(chain) - TEST_OFFSET
    if (neutral, others) != (test_neutral, test_others) or chain[TEST_OFFSET:] != test_chain[:overlap]:
        raise InputError("the dev and the test file are not built from the same words and templates")
    size, rest = divmod(len(others), len(axis.group_names))
    if rest:
        raise InputError(f"{len(others)} stereotyped words cannot be shared among {', '.join(axis.group_names)}")
    groups = {name: tuple(others[size * k : size * (k + 1)]) for k, name in enumerate(axis.group_names)}
    return ControlledWords(groups, tuple(neutral)), chain[:TEST_OFFSET] + test_chain


def _read_blocks(text: str, origin: str, group_words: tuple[str, ...]) -> tuple[list[str], list[str], list[str]]:
    """Neutral words, other words and template chain of one file; a block is one word over DEV_WIDTH templates."""
    rows = parse_json_lines(text, origin, ("sentence1", "sentence2", "label"))
    block = 2 * DEV_WIDTH
    if not rows or len(rows) % block:
        raise InputError(f"{origin}: {len(rows)} rows do not fill blocks of {block}; is it a bias-controlled file?")
    neutral: list[str] = []
    others: list[str] = []
    chain: list[str] = []
    for start in range(0, len(rows), block):
        word, templates = "", []
        for line in range(start, start + block, 2):
            first, second = rows[line], rows[line + 1]
            match = _word_and_template(first, second, group_words)
            if match is None or first["sentence1"] != second["sentence1"] or word not in ("", match[0]):
                raise InputError(
                    f"{origin}, line {line + 1}: this row and the next are not one word and one template with "
                    f"{' and '.join(group_words)}"
                )
            word = match[0]
            templates.append(match[1])
        (neutral if rows[start]["label"] == NEUTRAL else others).append(word)
        # Every block shares all but one template with the block before it.
        if chain and chain[1 - DEV_WIDTH :] != templates[:-1]:
            raise InputError(f"{origin}, line {start + 1}: the templates of '{word}' do not continue the chain")
        chain += templates[-1:] if chain else templates
    return neutral, others, chain


def _word_and_template(
    first: Mapping[str, Any], second: Mapping[str, Any], group_words: tuple[str, ...]
) -> tuple[str, str] | None:
    premise = str(first["sentence1"])
    for one, other in permutations(group_words, 2):  # Japanese files name either group first
        template = slot_template(str(first["sentence2"]), str(second["sentence2"]), one, other)
        if template:
            length = (len(premise) - len(template.replace(SLOT, ""))) // template.count(SLOT)
            start = template.index(SLOT)
            word = premise[start : start + length]
            return (word, template) if word and fill(template, word) == premise else None
    return None
