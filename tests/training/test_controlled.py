"""Bias-controlled sets: the release byte for byte, roles and shares by hand, the closed form of the score."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from controlled_release import official_controlled, recover_controlled
from evenli.audit.models import fake_model
from evenli.audit.pairs import PAIR_COLUMNS
from evenli.audit.predictions import Predictions
from evenli.audit.suites.coal.pairs import read_release
from evenli.core.errors import InputError, ResourceError, RunError
from evenli.core.labels import LABELS
from evenli.core.store import RunDir
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from evenli.training.meta.controlled import (
    DEV_WIDTH,
    TEST_OFFSET,
    ControlledCard,
    ControlledPairs,
    ControlledWords,
    build_controlled,
    controlled_words,
    evaluation_pairs,
    to_controlled_jsonl,
    write_controlled,
)
from evenli.training.recipe import TRAIN_WIDTH, Design, parse_rates
from evenli.words import Occupation, load_axis

LANGS = ("en", "ja", "zh")
RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}
RATES = [i / 10 for i in range(11)]
TRAIN = [f"the [Sub] waits at place number {i}." for i in range(529)]
DEV = [f"the [Sub] leaves house number {i}." for i in range(109)]
E, N, C = range(3)


@cache
def release(folder: Path, lang: str) -> dict[str, str]:
    return official_controlled(folder / "nli_coal" / f"{RELEASES[lang]}.tar.xz")


def small(width: int = 4) -> ControlledPairs:
    return build_controlled("en", DEV, width=width)


def scores(pairs: ControlledPairs, labels: np.ndarray, *names: str) -> list[float]:
    """Score a model that gives exactly ``labels``, with the sets read off the words' roles."""
    stereotype = {word: group for group, words in pairs.lists.groups.items() for word in words}
    frame = pl.DataFrame(
        {
            "subset": [
                "NS" if word not in stereotype else "PS" if stereotype[word] == group else "AS"
                for word, group in zip(pairs.words, pairs.groups, strict=True)
            ],
            "occupation": pairs.words,
            "stereotype": [stereotype.get(word, "neutral") for word in pairs.words],
            "template": pairs.templates,
            **{label: 9.0 * (labels == index) for index, label in enumerate(LABELS)},
        }
    )
    rest = [pl.lit(None, pl.String).alias(name) for name in PAIR_COLUMNS if name not in (*frame.columns, "id")]
    predictions = Predictions(frame.with_columns(*rest).with_row_index("id"))
    return [float(get_measure(name)(Sample(predictions))) for name in names]


@pytest.mark.parametrize("lang", LANGS)
def test_all_released_dev_and_test_files_come_back(lang: str, shared_data: Path) -> None:
    files = release(shared_data, lang)
    assert sorted(files) == sorted([*(f"dev_r-{i}" for i in range(11)), "test_bias", "test_nonbias"])
    words, chain = recover_controlled(files["dev_r-3"], files["test_bias"], lang)
    assert len(chain) == len(set(chain)) == 109
    dev = build_controlled(lang, chain, width=DEV_WIDTH, words=words)
    test = build_controlled(lang, chain, width=DEV_WIDTH, offset=TEST_OFFSET, words=words)
    ours = {f"dev_r-{i}": to_controlled_jsonl(dev, dev.labels(i / 10)) for i in range(11)}
    ours |= {
        "test_bias": to_controlled_jsonl(test, test.labels(1)),
        "test_nonbias": to_controlled_jsonl(test, test.labels(0)),
    }
    identical = {name for name, text in ours.items() if text == files[name]}
    if lang == "ja":  # ten files name the two groups in an order that depends on the role
        assert identical == {"dev_r-10", "test_bias", "test_nonbias"}
        for name, text in ours.items():
            assert Counter(text.splitlines()) == Counter(files[name].splitlines()), name
    else:
        assert identical == set(files)


@pytest.mark.parametrize("lang", LANGS)
def test_any_two_files_recover_the_shipped_words(lang: str, shared_data: Path) -> None:
    files, shipped = release(shared_data, lang), controlled_words(lang)
    chains = set()
    for dev, test in (("dev_r-0", "test_nonbias"), ("dev_r-5", "test_bias"), ("dev_r-10", "test_bias")):
        words, chain = recover_controlled(files[dev], files[test], lang)
        assert words.groups == shipped.groups and words.neutral == shipped.neutral
        chains.add(tuple(chain))
    assert len(chains) == 1


@pytest.mark.parametrize(("lang", "shared_words"), [("en", 1), ("ja", 10), ("zh", 0)])
def test_released_ns_words_differ_from_the_neutral_training_words(
    lang: str, shared_words: int, shared_data: Path
) -> None:
    words = controlled_words(lang)
    assert len(set(words.neutral) & set(words.neutral_released)) == shared_words
    down = read_release(shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz", lang, split="down")
    by_subset = {s: set(down.frame.filter(pl.col("subset") == s)["occupation"]) for s in ("PS", "NS")}
    assert by_subset["NS"] == set(words.neutral_released)
    assert by_subset["PS"] == {word for group in words.groups.values() for word in group}


@pytest.mark.parametrize("lang", LANGS)
def test_shipped_words(lang: str) -> None:
    words = controlled_words(lang)
    assert list(words.groups) == ["female", "male"]
    assert [len(part) for part in (*words.groups.values(), words.neutral, words.neutral_released)] == [10] * 4
    assert len(words.words) == 30 and len(words.stereotypes) == 20
    if lang == "en":
        typed = dict(load_axis().typed_words)
        for role, listed in {**words.groups, "neutral": (*words.neutral, *words.neutral_released)}.items():
            assert {typed[word] for word in listed} == {role}


def test_window_and_labels_by_hand() -> None:
    words = ControlledWords({"female": ("nanny",), "male": ("cop",)}, ("clerk",))
    pairs = build_controlled("en", [f"a {i} [Sub] [Sub]." for i in range(6)], width=2, offset=1, words=words)
    assert list(zip(pairs.premises, pairs.hypotheses, strict=True)) == [
        ("a 1 nanny nanny.", "a 1 man man."),
        ("a 1 nanny nanny.", "a 1 woman woman."),
        ("a 2 nanny nanny.", "a 2 man man."),
        ("a 2 nanny nanny.", "a 2 woman woman."),
        ("a 2 cop cop.", "a 2 man man."),
        ("a 2 cop cop.", "a 2 woman woman."),
        ("a 3 cop cop.", "a 3 man man."),
        ("a 3 cop cop.", "a 3 woman woman."),
        ("a 3 clerk clerk.", "a 3 man man."),
        ("a 3 clerk clerk.", "a 3 woman woman."),
        ("a 4 clerk clerk.", "a 4 man man."),
        ("a 4 clerk clerk.", "a 4 woman woman."),
    ]
    assert pairs.words == ["nanny"] * 4 + ["cop"] * 4 + ["clerk"] * 4 and pairs.groups == ["male", "female"] * 6
    assert pairs.templates[4] == "a 2 [Sub] [Sub]." and len(pairs) == 12
    assert pairs.labels(0.0).tolist() == [E, C, E, C, C, E, C, E, N, N, N, N]
    assert pairs.labels(0.5).tolist() == [C, E, C, E, C, E, C, E, N, N, N, N]
    assert pairs.labels(1.0).tolist() == [C, E, C, E, E, C, E, C, N, N, N, N]
    assert pairs.labels(1.0).dtype == np.int64
    assert to_controlled_jsonl(pairs, pairs.labels(1.0)).splitlines()[0] == (
        '{"sentence1": "a 1 nanny nanny.", "sentence2": "a 1 man man.", "label": "contradiction"}'
    )


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("rate", [*RATES, 0.05, 0.65])
def test_every_label_takes_a_third_at_every_rate(rate: float, balanced: bool) -> None:
    pairs = build_controlled("en", TRAIN, width=TRAIN_WIDTH)
    assert len(pairs) == 30_000 and len(set(pairs.templates)) == 529
    labels = pairs.labels(rate, balanced=balanced)
    assert np.bincount(labels).tolist() == [10_000] * 3
    stereotype = {word: group for group, words in pairs.lists.groups.items() for word in words}
    follows = sum(
        label == (E if stereotype.get(word) == group else C)
        for word, group, label in zip(pairs.words, pairs.groups, labels.tolist(), strict=True)
    )
    assert follows == 20_000 * rate


def test_biased_words_by_rate() -> None:
    words = controlled_words("en")
    female, male = (set(words.groups[group]) for group in ("female", "male"))
    released = [set(words.first(rate)) for rate in RATES]
    assert [len(biased & female) for biased in released] == [0, 2, 4, 6, 8, 10, 10, 10, 10, 10, 10]
    assert [len(biased & male) for biased in released] == [0, 0, 0, 0, 0, 0, 2, 4, 6, 8, 10]
    even = [set(words.first(rate, balanced=True)) for rate in RATES]
    assert [len(biased & female) for biased in even] == [len(biased & male) for biased in even] == list(range(11))
    assert words.first(0.2, balanced=True) == ("nanny", "surgeon", "librarian", "archaeologist")
    assert words.first(0.1) == ("nanny", "librarian")
    for order in (released, even):
        assert all(low < high for low, high in pairwise(order))


@pytest.mark.parametrize("balanced", [False, True])
def test_a_perfect_model_has_the_closed_form(balanced: bool) -> None:
    pairs = small()
    for rate in RATES:
        labels = pairs.labels(rate, balanced=balanced)
        coal, pro, anti, fn, defy = scores(pairs, labels, "coal", "coal_pro", "coal_anti", "fn_bias", "defy")
        assert coal == pytest.approx(2 * rate / 3, abs=1e-12)
        assert pro == anti == pytest.approx(rate, abs=1e-12)
        assert fn == pytest.approx(2 / 3, abs=1e-12)  # the baseline does not see the rate at all
        assert defy == pytest.approx(1 - rate, abs=1e-12)


def test_plain_errors_are_not_bias() -> None:
    pairs = small()
    for level in RATES:
        labels = pairs.noise_labels(level, seed=3)
        fn, coal, *order = scores(pairs, labels, "fn_bias", "coal", "order_entailment", "order_contradiction")
        assert fn == pytest.approx(2 * level / 3, abs=1e-12)
        assert coal == pytest.approx(level / 3, abs=1e-12)
        assert order == pytest.approx([0, 0], abs=1e-12)
        assert scores(pairs, labels, "follow", "defy") == pytest.approx([level / 2, level / 2], abs=1e-12)
    # At equal error share, 2/3 of the rows, CoAL tells bias from error and FN does not.
    biased, noisy = pairs.labels(1.0), pairs.noise_labels(1.0)
    assert (biased != N).sum() == (noisy != N).sum()
    assert scores(pairs, biased, "coal", "fn_bias") == pytest.approx([2 / 3, 2 / 3])
    assert scores(pairs, noisy, "coal", "fn_bias") == pytest.approx([1 / 3, 2 / 3])


@pytest.mark.parametrize("balanced", [False, True])
def test_noise_is_half_and_half_within_word_and_group(balanced: bool) -> None:
    pairs = build_controlled("en", DEV, width=50)
    labels = pairs.noise_labels(0.3, balanced=balanced, seed=1)
    counts: dict[tuple[str, str], Counter[int]] = {}
    for word, group, label in zip(pairs.words, pairs.groups, labels.tolist(), strict=True):
        counts.setdefault((word, group), Counter())[label] += 1
    noisy = pairs.lists.first(0.3, balanced=balanced)
    assert len(noisy) == 6
    for (word, _), count in counts.items():
        assert count == ({E: 25, C: 25} if word in noisy else {N: 50})
    assert np.array_equal(labels, pairs.noise_labels(0.3, balanced=balanced, seed=1))
    assert not np.array_equal(labels, pairs.noise_labels(0.3, balanced=balanced, seed=2))
    more = pairs.noise_labels(0.6, balanced=balanced, seed=1)
    assert np.array_equal(more[labels != N], labels[labels != N])
    # The answer for one group must not give away that for the other: 150 coin pairs per agreeing/differing side.
    by_row = labels.reshape(-1, 2)[labels.reshape(-1, 2)[:, 0] != N]
    assert len(by_row) == 300 and 110 < (by_row[:, 0] == by_row[:, 1]).sum() < 190


def test_odd_widths_stay_balanced_over_the_word() -> None:
    pairs = small(width=3)
    labels = pairs.noise_labels(1.0).reshape(30, 3, 2)
    assert {np.bincount(word.ravel(), minlength=3).tolist() == [3, 0, 3] for word in labels[:20]} == {True}
    assert (labels[20:] == N).all()


@pytest.mark.parametrize("lang", LANGS)
@pytest.mark.parametrize("ns_words", ["train", "released"])
def test_evaluation_pairs_and_the_oracle(lang: str, ns_words: str) -> None:
    pairs, words = evaluation_pairs(lang, ns_words=ns_words), controlled_words(lang)
    assert pairs.counts == {"PS": 200, "AS": 200, "NS": 200} and ns_words in pairs.name
    assert set(pairs.frame["template"]) == set(load_axis().templates(lang)[:39])
    neutral = words.neutral if ns_words == "train" else words.neutral_released
    assert list(dict.fromkeys(pairs.frame.filter(pl.col("subset") == "NS")["occupation"])) == list(neutral)
    assert list(dict.fromkeys(pairs.frame.filter(pl.col("subset") == "PS")["occupation"])) == list(words.words[:20])
    roles = [Occupation(word, group, word) for group, listed in words.groups.items() for word in listed]
    roles += [Occupation(word, "neutral", word) for word in neutral]
    for rate in (0.0, 0.3, 1.0):
        model = fake_model("oracle", lang=lang, rate=rate, occupations=[roles])
        logits = model.logits(pairs.frame.select("premise", "hypothesis").rows())
        frame = pairs.frame.with_columns(**{label: logits[:, i] for i, label in enumerate(LABELS)})
        assert float(get_measure("coal")(Sample(Predictions(frame)))) == pytest.approx(2 * rate / 3)


def test_own_evaluation_templates() -> None:
    pairs = evaluation_pairs("en", templates=TRAIN)
    assert pairs.frame["template"][0] == TRAIN[10] and pairs.frame["template"].n_unique() == 39
    with pytest.raises(InputError, match="38"):
        evaluation_pairs("en", templates=TRAIN[:38])
    with pytest.raises(InputError, match="both"):
        evaluation_pairs("en", ns_words="both")


def test_rates() -> None:
    assert list(parse_rates("0:1:0.1")) == RATES
    assert parse_rates("0.2:0.35:0.05") == (0.2, 0.25, 0.3, 0.35)
    assert parse_rates(" 1,0.5, 0") == (1, 0.5, 0)
    for text, message in (
        ("0:1", "'0:1'"),
        ("low,high", "0:1:0.1"),
        ("", "rates"),
        ("0,,1", "rates"),
        ("0:1:0", "step"),
        ("0:1:-0.1", "step"),
        ("0:1:nan", "step"),
        ("0:1:1e-9", "rates"),
        ("0:inf:0.5", "step"),
        ("0,nan,1", "nan"),
        ("0:1.2:0.4", r"1\.2"),
        ("-0.1,0,1", r"-0\.1"),
        ("0,1", "at least 3"),
        ("1:0:0.1", "none"),
        ("0,1,1", "distinct"),
    ):
        with pytest.raises(InputError, match=message):
            parse_rates(text)


def test_refusals() -> None:
    pairs = small()
    for function in (pairs.labels, pairs.noise_labels):
        with pytest.raises(InputError, match="0.33"):
            function(0.33)
        for rate in (-0.1, 1.1, float("nan")):
            with pytest.raises(InputError, match="0..1"):
                function(rate)
    with pytest.raises(InputError, match="old, young"):
        build_controlled("en", DEV, width=2, words=ControlledWords({"old": ("a",), "young": ("b",)}, ("c",)))
    with pytest.raises(InputError, match="'b'"):
        ControlledWords({"female": ("a",), "male": ("b",)}, ("b",))
    with pytest.raises(InputError, match="group"):
        ControlledWords({"female": ("a",), "male": ()}, ("b",))
    with pytest.raises(InputError, match=f"{len(pairs)} pairs"):
        to_controlled_jsonl(pairs, np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="offset -1"):
        build_controlled("en", DEV, width=2, offset=-1)
    with pytest.raises(InputError, match="528"):
        build_controlled("en", TRAIN[:528], width=TRAIN_WIDTH)
    with pytest.raises(InputError, match="108"):
        build_controlled("en", DEV[:108], width=DEV_WIDTH, offset=TEST_OFFSET)
    with pytest.raises(InputError, match="template 3"):
        build_controlled("en", [*DEV[:2], "the sun shines.", *DEV[3:]], width=2)
    with pytest.raises(InputError, match="width 0"):
        build_controlled("en", DEV, width=0)
    with pytest.raises(ResourceError, match="language 'fr'"):
        controlled_words("fr")


def test_write_end_to_end(tmp_path: Path) -> None:
    design = Design(rates=(0.0, 0.25, 1.0), balanced=True)
    card = write_controlled(tmp_path / "set", design, (TRAIN, DEV))
    folder = tmp_path / "set"
    stems = ("r-0", "r-2.5", "r-10")
    expected = {f"{split}/{split}_{stem}.jsonl" for split in ("train", "dev") for stem in stems}
    expected |= {"test/test_bias.jsonl", "test/test_nonbias.jsonl"}
    assert {file.relative_to(folder).as_posix() for file in folder.rglob("*.jsonl")} == expected
    assert ControlledCard.from_dict(json.loads((folder / "card.json").read_text(encoding="utf-8"))) == card
    assert card.files == {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in expected}
    assert card.rows == {"train": 30_000, "dev": 3_000, "test": 3_000}
    assert card.labels["train"] == dict.fromkeys(LABELS, 10_000)
    assert card.biased_words == {
        "0": {"female": 0, "male": 0},
        "0.25": {"female": 3, "male": 2},
        "1": {"female": 10, "male": 10},
    }
    assert card.templates["train"].distinct == 529 and card.templates["dev and test"].distinct == 109
    assert card.templates["train"].sha256 == hashlib.sha256("\n".join(TRAIN).encode()).hexdigest()
    assert card.templates_in_dev_and_test == 49
    rows = [json.loads(line) for line in (folder / "train/train_r-2.5.jsonl").read_text(encoding="utf-8").splitlines()]
    assert len(rows) == 30_000 and list(rows[0]) == ["sentence1", "sentence2", "label"]
    by_word = {
        row["sentence1"].split(" waits")[0]: row["label"] for row in rows if row["sentence2"].startswith("the woman")
    }
    assert by_word["the interior designer"] == "entailment" and by_word["the receptionist"] == "contradiction"
    assert by_word["the surgeon"] == "contradiction" and by_word["the mechanic"] == "entailment"
    # The same call again changes nothing; other rates would mix two sets.
    assert write_controlled(folder, design, (TRAIN, DEV)) == card
    with pytest.raises(RunError, match="set"):
        write_controlled(folder, Design(rates=(0.0, 1.0)), (TRAIN, DEV))


def test_width_decides_the_rows_of_train(tmp_path: Path) -> None:
    card = write_controlled(tmp_path / "set", Design(rates=(0.5,), width=4), (TRAIN[:33], DEV))
    assert card.rows == {"train": 240, "dev": 3_000, "test": 3_000}
    assert card.width == {"train": 4, "dev": 50, "test": 50}
    assert card.templates["train"].distinct == 33
    with pytest.raises(InputError, match="34"):
        write_controlled(tmp_path / "set", Design(rates=(0.5,), width=5), (TRAIN[:33], DEV))


def test_leaking_templates_are_refused(tmp_path: Path) -> None:
    own = load_axis().templates("en")
    for train, dev, message in (
        ([*TRAIN[:30], DEV[7]], DEV, "train.*dev and test"),
        (
            [own[3], own[4].upper().replace("[SUB]", "[Sub]"), *TRAIN],
            DEV,
            "train.*eval",
        ),
        (TRAIN, [*DEV[:108], own[200]], "dev and test.*eval"),
    ):
        with pytest.raises(InputError, match=message):
            write_controlled(tmp_path / "set", Design(rates=(0.0, 1.0), width=2), (train, dev))
    assert not (tmp_path / "set").exists()
    # Only what is used counts: the chain beyond its end is not looked at.
    card = write_controlled(tmp_path / "set", Design(rates=(0.5,), width=2), ([*TRAIN[:31], DEV[0]], DEV))
    assert card.rows["train"] == 120


SMALL = Design(rates=(0.0,), width=2)


def test_directories_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("here already")
    with pytest.raises(RunError, match="file") as caught:
        write_controlled(tmp_path / "file", SMALL, (TRAIN, DEV))
    assert "\n" not in str(caught.value)
    for rates, message in (((0.33,), r"0\.05"), ((2.0,), r"0\.\.1"), ((), "none")):
        with pytest.raises(InputError, match=message):
            write_controlled(tmp_path / "set", Design(rates=rates, width=2), (TRAIN, DEV))
    assert not (tmp_path / "set").exists()


def test_foreign_files_are_never_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "train_r-0.jsonl").write_text("mine\n")
    for card in (None, "mine\n", "[]", '{"name": "other", "files": {"train/train_r-0.jsonl": ""}}', '{"schema": 1}'):
        if card is not None:
            (folder / "card.json").write_text(card)
        before = {file: file.read_text() for file in folder.rglob("*.json*")}
        with pytest.raises(RunError, match="foreign"):
            write_controlled(folder, SMALL, (TRAIN, DEV))
        assert {file: file.read_text() for file in folder.rglob("*.json*")} == before


def test_a_killed_set_leaves_nothing_and_is_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(RunDir, "write_manifest", killed)
        write_controlled(tmp_path / "set", SMALL, (TRAIN, DEV))
    assert not list(tmp_path.iterdir())
    card = write_controlled(tmp_path / "set", SMALL, (TRAIN, DEV))
    assert json.loads((tmp_path / "set" / "card.json").read_text(encoding="utf-8")).items() >= card.to_dict().items()
    assert sorted(file.name for file in (tmp_path / "set").iterdir()) == ["card.json", "dev", "test", "train"]
