"""Bias-controlled sets of NLI-CoAL: training data that makes a model biased to a known rate.

Thirty words slide over a chain of templates. A rate decides, word by word, whether the labels follow the stereotype
or defy it; neutral words are always labelled neutral. A model that fits the data at rate ``r`` has CoAL ``2 r / 3``, so
a measure can be held against a known truth. Anantaprayoon, Kaneko, Okazaki 2024.
"""

from __future__ import annotations

import json
import math
import re
import tarfile
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations, zip_longest
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli._hashing import hash_text
from evenli.datasets.coal import SLOT, build_coal, fill
from evenli.datasets.files import parse_json_lines
from evenli.datasets.official import WIDTH, slot_template
from evenli.datasets.pairs import PairSet
from evenli.errors import InputError, ResourceError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.resources import Axis, Occupation, load_axis, read_table
from evenli.resources.axes import NO_STEREOTYPE

TRAIN_WIDTH = 500
"""Templates per word in train: 529 templates give 30,000 rows."""
DEV_WIDTH = 50
"""Templates per word in dev and test."""
TEST_OFFSET = 30
"""Where test begins on the chain of 109 templates it shares with dev; 49 of them occur in both."""

_E, _N, _C = (LABELS.index(label) for label in (ENTAILMENT, NEUTRAL, CONTRADICTION))
_TABLE = "controlled_words.csv"
_FILE = re.compile(r"(?:dev_r-\d+|test_(?:non)?bias)\.json")  # the segmented Japanese copies are called dev-tok_…
_MOST_RATES = 1000
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class ControlledWords:
    """The words of a bias-controlled set.

    Attributes:
        groups: Stereotyped words by axis group; groups and words in file order, which is the order of roles.
        neutral: Neutral words of train, dev and test.
        neutral_released: Neutral words of the released downsampled evaluation files.
    """

    groups: dict[str, tuple[str, ...]]
    neutral: tuple[str, ...]
    neutral_released: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Roles are set by word, so a word may stand only once."""
        words = self.words
        if not self.neutral or not self.groups or not all(self.groups.values()):
            raise InputError("bias-controlled words need neutral words and at least one word for every group")
        repeated = sorted({word for word in words if words.count(word) > 1})
        if repeated:
            raise InputError(f"'{repeated[0]}' stands more than once in the words; a word can have only one role")

    @property
    def words(self) -> tuple[str, ...]:
        """All words in file order: the groups, then neutral."""
        return (*(word for words in self.groups.values() for word in words), *self.neutral)

    @property
    def stereotyped(self) -> int:
        """How many words have a stereotype."""
        return sum(map(len, self.groups.values()))

    def first(self, share: float, *, balanced: bool = False) -> tuple[str, ...]:
        """The first ``share`` of the stereotyped words.

        Args:
            share: In 0..1, a whole number of words.
            balanced: Alternate between the groups instead of taking one group after the other; the released
                order makes all female words biased and all male words not at one half.
        """
        total = self.stereotyped
        if not 0 <= share <= 1:
            raise InputError(f"the rate {share:g} lies outside 0..1")
        count = round(share * total)
        if abs(share * total - count) > 1e-6:
            raise InputError(
                f"the rate {share:g} would split a word: {total} stereotyped words allow steps of {1 / total:g}"
            )
        blocks = self.groups.values()
        turns = zip_longest(*blocks) if balanced else blocks
        return tuple(word for turn in turns for word in turn if word is not None)[:count]


@dataclass(frozen=True)
class ControlledPairs:
    """The sentences of a bias-controlled set as parallel lists; labels depend on the rate and come on request.

    Attributes:
        lists: The words and their order.
        premises: Templates filled with the word.
        hypotheses: Templates filled with the group word.
        words: Word of the premise.
        groups: Group named in the hypothesis.
        templates: Sentence with the slot open.
    """

    lists: ControlledWords
    premises: list[str]
    hypotheses: list[str]
    words: list[str]
    groups: list[str]
    templates: list[str]

    def __len__(self) -> int:
        """Number of pairs."""
        return len(self.premises)

    def labels(self, rate: float, *, balanced: bool = False) -> Labels:
        """Labels at a bias rate, as indices into LABELS.

        Biased words entail the group they are stereotyped as and contradict the others; the other stereotyped
        words do the reverse; neutral words are neutral. With two groups each label takes one third of the rows.
        """
        biased = set(self.lists.first(rate, balanced=balanced))
        table = np.full(self._shape, _N, dtype=np.int64)
        for number, (word, stereotype) in enumerate(self._stereotypes):
            for column, group in enumerate(self._turn):
                table[number, :, column] = _E if (group == stereotype) == (word in biased) else _C
        return table.reshape(-1)

    def noise_labels(self, level: float, *, balanced: bool = False, seed: int = 0) -> Labels:
        """Labels of a model that errs but is not biased, as indices into LABELS.

        The first ``level`` of the stereotyped words, in the order the bias rate uses, get entailment on one half of
        their templates and contradiction on the other, drawn for each group by itself; all other rows are neutral.
        A model that fits them has ``e_p = c_p = e_a = c_a = level / 2``. A higher level keeps the errors of a lower.
        """
        generator = np.random.default_rng(seed)
        rows = {word: number for number, (word, _) in enumerate(self._stereotypes)}
        table = np.full(self._shape, _N, dtype=np.int64)
        width = table.shape[1]
        for word in self.lists.first(level, balanced=balanced):
            for column in range(len(self._turn)):
                # An odd width leaves one over: give it to either label in turn, so that the word stays balanced.
                entailed = (width + column % 2) // 2
                order = generator.permutation(width)
                table[rows[word], order[:entailed], column] = _E
                table[rows[word], order[entailed:], column] = _C
        return table.reshape(-1)

    @property
    def _stereotypes(self) -> list[tuple[str, str]]:
        return [(word, group) for group, words in self.lists.groups.items() for word in words]

    @property
    def _turn(self) -> list[str]:
        return self.groups[: len(self.lists.groups)]

    @property
    def _shape(self) -> tuple[int, int, int]:
        """(words, templates per word, groups)."""
        words, groups = len(self.lists.words), len(self.lists.groups)
        return words, len(self) // (words * groups), groups


def controlled_words(lang: str, axis: Axis | str = "gender") -> ControlledWords:
    """The shipped words of a language."""
    axis = load_axis(axis) if isinstance(axis, str) else axis
    rows = read_table(_TABLE, ("lang", "role", "word"))
    langs = list(dict.fromkeys(row["lang"] for row in rows))
    if lang not in langs:
        raise ResourceError(f"no bias-controlled words for language '{lang}'; there are {', '.join(langs)}")

    def words(role: str) -> tuple[str, ...]:
        found = tuple(row["word"] for row in rows if row["lang"] == lang and row["role"] == role)
        if not found:
            raise ResourceError(f"{_TABLE} has no '{role}' words; for axis '{axis.id}' pass your own ControlledWords")
        return found

    return ControlledWords(
        {group: words(group) for group in axis.group_names}, words("neutral_train"), words("neutral_released")
    )


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

    Each template gives one row per group, the last group of the axis first (men before women, as released).

    Args:
        lang: Language of the words and of the group words.
        templates: The chain; ``offset + number of words + width - 1`` are needed, more are not looked at.
        width: Templates per word.
        offset: First template used.
        words: Words and their order; default the released ones.
        axis: Axis or its name.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    lists = words or controlled_words(lang, axis)
    group_words = axis.language(lang).group_words
    if set(lists.groups) != set(axis.group_names):
        raise InputError(
            f"the words are for the groups {', '.join(lists.groups)}; "
            f"axis '{axis.id}' has {', '.join(axis.group_names)}"
        )
    if width < 1 or offset < 0:
        raise InputError(f"width {width} and offset {offset} are not usable: at least 1 and 0 are expected")
    needed = offset + len(lists.words) + width - 1
    if len(templates) < needed:
        raise InputError(
            f"{len(lists.words)} words at width {width} and offset {offset} need {needed} templates, "
            f"{len(templates)} were given"
        )
    for number, template in enumerate(templates[:needed], 1):
        if SLOT not in template:
            raise InputError(f"template {number} has no {SLOT} slot: '{template}'")
    turn = [(group, group_words[group]) for group in reversed(axis.group_names)]
    pairs = ControlledPairs(lists, [], [], [], [], [])
    for k, word in enumerate(lists.words, offset):
        for template in templates[k : k + width]:
            premise = fill(template, word)
            for group, group_word in turn:
                pairs.premises.append(premise)
                pairs.hypotheses.append(fill(template, group_word))
                pairs.words.append(word)
                pairs.groups.append(group)
                pairs.templates.append(template)
    return pairs


def evaluation_pairs(
    lang: str, *, ns_words: str = "train", templates: Sequence[str] | None = None, axis: Axis | str = "gender"
) -> PairSet:
    """PS, AS and NS pairs (200 each) on which a bias-controlled model is scored.

    Args:
        lang: Language.
        ns_words: ``train`` takes the neutral words of training, as the paper describes; ``released`` those of the
            released files, which in English and Chinese are others.
        templates: At least 39; default the first of the axis' own.
        axis: Axis or its name.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    lists = controlled_words(lang, axis)
    neutral = {"train": lists.neutral, "released": lists.neutral_released}
    if ns_words not in neutral:
        raise InputError(f"ns_words '{ns_words}' is unknown; choose {' or '.join(neutral)}")
    blocks = {NO_STEREOTYPE: neutral[ns_words], **lists.groups}
    occupations = [Occupation(word, block, word) for block, words in blocks.items() for word in words]
    return build_coal(
        lang,
        axis=axis,
        occupations=occupations,
        templates=(templates or axis.templates(lang))[: len(occupations) + WIDTH - 1],
        width=WIDTH,
        name=f"meta-evaluation, NS words {ns_words}",
    )


def to_controlled_jsonl(pairs: ControlledPairs, labels: Labels) -> str:
    """Write pairs and labels in the exact format of the release."""
    if len(labels) != len(pairs):
        raise InputError(f"{len(labels)} labels were given for {len(pairs)} pairs")
    return "".join(
        json.dumps({"sentence1": premise, "sentence2": hypothesis, "label": LABELS[label]}, ensure_ascii=False) + "\n"
        for premise, hypothesis, label in zip(pairs.premises, pairs.hypotheses, labels.tolist(), strict=True)
    )


def official_controlled(path: str | Path, lang: str, *, axis: Axis | str = "gender") -> dict[str, str]:
    """Texts of the released dev and test files by name (``dev_r-0``, ``test_bias`` …).

    Args:
        path: Release folder or an archive of it; of Japanese the untokenised copies are read.
        lang: Language the release must be in.
        axis: Axis whose group words the release uses.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    path = Path(path)
    found: dict[str, str] = {}

    def take(name: str, content: bytes) -> None:
        stem = name.removesuffix(".json")
        if stem in found:
            raise InputError(f"{path} holds {name} twice; give the folder of one release")
        found[stem] = content.decode("utf-8")

    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.json")):
                if _FILE.fullmatch(file.name):
                    take(file.name, file.read_bytes())
        elif path.is_file():
            with tarfile.open(path) as archive:
                for member in archive:
                    name = PurePosixPath(member.name).name
                    if member.isfile() and _FILE.fullmatch(name):
                        content = archive.extractfile(member)
                        take(name, content.read() if content else b"")
        else:
            raise InputError(f"no such file or folder: {path}")
    except (tarfile.TarError, OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read the release {path}: {error}") from error
    if not found:
        raise InputError(f"{path} holds no bias-controlled set (dev/dev_r-0.json …); is it the release?")
    words = axis.language(lang).group_words.values()
    for name, text in found.items():
        if not any(word in text.partition("\n")[0] for word in words):
            raise InputError(f"{path}: {name} names none of {', '.join(words)}; is it a release in '{lang}'?")
    return dict(sorted(found.items()))


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


def write_controlled(
    folder: str | Path,
    lang: str,
    rates: Sequence[float],
    chain_train: Sequence[str],
    chain_dev: Sequence[str],
    *,
    balanced: bool = False,
    axis: Axis | str = "gender",
) -> dict[str, Any]:
    """Write train and dev at every rate, test at rates 1 and 0, and ``card.json`` that says what they are.

    The templates of train, of dev and test, and those the axis evaluates on must be disjoint; dev and test share
    their chain, as released.

    Args:
        folder: Where to write; files of other rates that are there already are refused.
        lang: Language.
        rates: Bias rates; the file number is ten times the rate.
        chain_train: Templates of train, 529.
        chain_dev: Templates of dev and test, 109.
        balanced: Alternate the groups in the order of roles.
        axis: Axis or its name.

    Returns:
        The card.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    _check_rates(rates)
    train = build_controlled(lang, chain_train, width=TRAIN_WIDTH, axis=axis)
    dev = build_controlled(lang, chain_dev, width=DEV_WIDTH, axis=axis)
    test = build_controlled(lang, chain_dev, width=DEV_WIDTH, offset=TEST_OFFSET, axis=axis)
    chains = {"train": _distinct(train), "dev and test": list(dict.fromkeys(_distinct(dev) + _distinct(test)))}
    _check_disjoint({**chains, "evaluation": axis.templates(lang)})

    contents = {
        f"{split}/{split}_r-{round(10 * rate, 6):g}.jsonl": (pairs, rate)
        for split, pairs in (("train", train), ("dev", dev))
        for rate in rates
    }
    contents |= {"test/test_bias.jsonl": (test, 1.0), "test/test_nonbias.jsonl": (test, 0.0)}
    splits = {"train": train, "dev": dev, "test": test}
    card: dict[str, Any] = {
        "name": "bias-controlled",
        "lang": lang,
        "axis": axis.id,
        "source": "built by evenli: construction and words of NLI-CoAL, Anantaprayoon et al. 2024",
        "balanced": balanced,
        "rates": list(rates),
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
    folder = Path(folder)
    try:
        _refuse_leftovers(folder, contents)
        for split in splits:
            (folder / split).mkdir(parents=True, exist_ok=True)
        (folder / "card.json").unlink(missing_ok=True)  # it is written last: a card means the folder is complete
        for name, (pairs, rate) in contents.items():
            text = to_controlled_jsonl(pairs, pairs.labels(rate, balanced=balanced))
            (folder / name).write_bytes(text.encode())
            card["files"][name] = hash_text(text)
        (folder / "card.json").write_bytes((json.dumps(card, ensure_ascii=False, indent=2) + "\n").encode())
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
            found = _word_and_template(first, second, group_words)
            if found is None or first["sentence1"] != second["sentence1"] or word not in ("", found[0]):
                raise InputError(
                    f"{origin}, line {line + 1}: this row and the next are not one word and one template with "
                    f"{' and '.join(group_words)}"
                )
            word = found[0]
            templates.append(found[1])
        (neutral if rows[start]["label"] == NEUTRAL else others).append(word)
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


def _distinct(pairs: ControlledPairs) -> list[str]:
    return list(dict.fromkeys(pairs.templates))


def _check_disjoint(chains: Mapping[str, Sequence[str]]) -> None:
    """Compare without case, spaces and punctuation: a template that differs only there is the same sentence."""

    def bare(template: str) -> str:
        return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", template).lower())

    for (name, chain), (other, templates) in combinations(chains.items(), 2):
        known = {bare(template) for template in templates}
        shared = [template for template in chain if bare(template) in known]
        if shared:
            raise InputError(
                f"{len(shared)} template(s) of {name} also stand in {other}, for example '{shared[0]}'; "
                "the model would be tested on sentences it has seen: take others"
            )


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
