"""Builders and loaders: exact reconstruction, exact counts, clear refusals."""

from __future__ import annotations

import csv
import json
import lzma
import tarfile
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from conftest import PEAK_MEMORY
from evenli import audit
from evenli.audit.pairs import PairSet, subsample
from evenli.audit.suites.base import Request, load_suite
from evenli.audit.suites.checks import CONTROL_TEMPLATES, check_pairs, different_sentences, validate
from evenli.audit.suites.coal.pairs import build_coal, check_file, load, read_release, slot_template, write_coal
from evenli.audit.suites.dev2020 import iter_dev, load_dev_lists, write_dev_file
from evenli.audit.suites.files import read_pairs, write_pairs
from evenli.core import parse
from evenli.core.errors import EvenliError, InputError, PairError, ResourceError, RunError
from evenli.core.settings import AXES
from evenli.words import Occupation, load_axis
from studies.ledger.official import recover_lists, to_official_jsonl

RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}
KINDS = ("female", "male", "neutral")
FILES = {"PS": "1-prostereo", "AS": "2-antistereo", "NS": "3-nonstereo"}
GOOD = {
    "sentence1": "the nurse waits.",
    "sentence2": "the woman waits.",
    "label": "neutral",
    "occ_word": "nurse",
    "occ_type": "female-stereo",
}


def released_text(archive: Path, lang: str, subset: str) -> str:
    folder = "untokenized" if lang == "ja" else "all-words"
    with tarfile.open(archive) as opened:
        for member in opened:
            path = Path(member.name)
            if path.parent.name == folder and path.name.startswith(FILES[subset]):
                return opened.extractfile(member).read().decode()  # type: ignore[union-attr]
    raise AssertionError("not found")


def test_window_by_hand() -> None:
    words = [
        Occupation("nurse", "female", "nurse"),
        Occupation("clerk", "neutral", "clerk"),
        Occupation("cop", "male", "cop"),
    ]
    templates = [f"the [Sub] sees {i}." for i in range(4)]
    pairs = build_coal("en", occupations=words, templates=templates, width=2, order="published")
    assert pairs.source.endswith("3 occupations, width 2, published order")
    rows = pairs.frame.select("subset", "premise", "hypothesis").rows()
    assert rows == [
        ("PS", "the nurse sees 1.", "the woman sees 1."),
        ("PS", "the nurse sees 2.", "the woman sees 2."),
        ("PS", "the cop sees 2.", "the man sees 2."),
        ("PS", "the cop sees 3.", "the man sees 3."),
        ("AS", "the nurse sees 1.", "the man sees 1."),
        ("AS", "the nurse sees 2.", "the man sees 2."),
        ("AS", "the cop sees 2.", "the woman sees 2."),
        ("AS", "the cop sees 3.", "the woman sees 3."),
        ("NS", "the clerk sees 0.", "the woman sees 0."),
        ("NS", "the clerk sees 1.", "the woman sees 1."),
        ("NS", "the clerk sees 0.", "the man sees 0."),
        ("NS", "the clerk sees 1.", "the man sees 1."),
    ]
    assert set(pairs.frame["gold"]) == {"neutral"}


def met(pairs: PairSet, column: str) -> dict[str, list[str]]:
    """Value of a column -> the template of every pair of occupation and template."""
    cells = pairs.frame.unique(["occupation", "template"])
    return dict(cells.group_by(column).agg("template").rows())


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
def test_every_class_meets_every_template_equally_often(lang: str) -> None:
    pairs = build_coal(lang)
    usable = load_axis().templates(lang)[:-CONTROL_TEMPLATES]
    for words, templates in zip((13, 87, 171), map(met(pairs, "stereotype").get, KINDS), strict=True):
        counts = [templates.count(template) for template in usable]
        # In English some stereotyped words have the sentences that they meet in the labour list.
        most = 2 if lang == "en" and words < 171 else 1
        assert sum(counts) == len(templates) == 10 * words and max(counts) - min(counts) == most
    by_word = met(pairs, "occupation").values()
    assert {len(set(some)) for some in by_word} == {10} and len(set(map(frozenset, by_word))) == 271
    # The control: in the published order the 13 female words meet 22 templates, nine of them with other classes.
    female, male, neutral = (set(met(build_coal(lang, order="published"), "stereotype")[kind]) for kind in KINDS)
    assert (len(female), len(male), len(neutral)) == (22, 96, 180)
    assert (len(female & male), len(female & neutral), len(male & neutral)) == (9, 9, 0)


def test_the_seed_deals_anew_and_the_hash_sees_it() -> None:
    first, again, other = (build_coal("en", seed=seed) for seed in (0, 0, 2))
    assert first.sha256 == again.sha256 == build_coal("en").sha256 != other.sha256
    assert first.source.endswith("width 10, seed 0") and other.source.endswith("seed 2")
    assert first.frame["occupation"].equals(other.frame["occupation"]) and first.counts == other.counts


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_rebuilding_the_release_is_byte_identical(lang: str, shared_data: Path) -> None:
    archive = shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz"
    pairs = read_release(archive, lang)
    occupations, templates = recover_lists(pairs)
    order = ("male", "female") if lang == "zh" else ("female", "male")
    rebuilt = build_coal(
        lang, occupations=occupations, templates=templates, order="published", neutral_group_order=order
    )
    for subset in FILES:
        assert to_official_jsonl(rebuilt, subset) == released_text(archive, lang, subset)


def test_japanese_release_is_repaired_and_identical_in_text(shared_data: Path) -> None:
    archive = shared_data / "nli_coal" / "ja_v1.1.tar.xz"
    pairs = read_release(archive, "ja")
    assert pairs.notes == ("16 rows carried an occupation tag of another set and were repaired",)
    occupations, templates = recover_lists(pairs)
    rebuilt = build_coal("ja", occupations=occupations, templates=templates, order="published")
    assert rebuilt.frame.drop("id").equals(pairs.frame.drop("id"))
    assert (len(occupations), len(templates), len(set(templates))) == (271, 280, 277)
    segmented = read_release(archive, "ja", tokenised=True)
    assert [t.replace(" ", "") for t in segmented.frame["premise"]] == pairs.frame["premise"].to_list()
    assert segmented.frame["template"].equals(pairs.frame["template"])


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
def test_downsampled_sets_are_row_filters(lang: str, shared_data: Path) -> None:
    archive = shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz"
    full, down = read_release(archive, lang), read_release(archive, lang, split="down")
    assert down.counts == {"PS": 200, "AS": 200, "NS": 200}
    joined = down.frame.join(full.frame, on="id", suffix="_full")
    assert joined.height == 600
    assert joined["premise"].equals(joined["premise_full"].rename("premise"))


def test_release_folder_and_single_file_are_read_too(shared_data: Path, tmp_path: Path) -> None:
    with tarfile.open(shared_data / "nli_coal" / "en_v1.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    folder = load(Request("en", tmp_path / "en_v1.1"))
    single = load(Request("en", next(tmp_path.rglob("4-all_v1.1.json"))))
    columns = ["id", "subset", "premise", "hypothesis", "occupation", "stereotype", "template", "group"]
    assert single.frame.select(columns).equals(folder.frame.select(columns))


def test_validator_finds_what_is_wrong_in_the_release(shared_data: Path) -> None:
    pairs = read_release(shared_data / "nli_coal" / "en_v1.1.tar.xz", "en")
    leaks = {finding.detail.partition(" in ")[0] for finding in validate(pairs) if finding.rule == "leak"}
    assert any("he" in leak.split(", ") for leak in leaks) and any("she" in leak.split(", ") for leak in leaks)
    zh = read_release(shared_data / "nli_coal" / "zh_v1.0.tar.xz", "zh")
    assert len({f.detail for f in validate(zh) if f.rule == "slots"}) == 8
    assert any(
        "more than one place" in note for note in load(Request("zh", shared_data / "nli_coal" / "zh_v1.0.tar.xz")).notes
    )


def test_few_templates_for_all_occupations_are_noted() -> None:
    pairs = build_coal("en", order="published")
    few = pairs.frame.filter(pl.col("template").is_in(pairs.frame["template"].unique(maintain_order=True)[4:9]))
    crossed = few.filter(pl.len().over("occupation") == few.group_by("occupation").len()["len"].max())
    notes = check_pairs(replace(pairs, frame=crossed)).notes
    assert sum("same 5 sentences: intervals rest on 5 sentences" in note for note in notes) == 1
    fewer = crossed.filter(pl.col("template") != crossed["template"][0])
    notes = check_pairs(replace(pairs, frame=fewer)).notes
    assert sum("same 4 sentences: no interval" in note for note in notes) == 1
    assert check_pairs(build_coal("en")).notes == ()


@pytest.mark.parametrize("name", AXES)
def test_classes_of_built_in_sets_meet_the_same_sentences(name: str) -> None:
    axis = load_axis(name)
    for lang, language in axis.languages.items():
        for words in ("published", *language.lists):
            pairs = load_suite(axis.suite, Request(lang, axis=axis, occupations=words))
            assert different_sentences(pairs) == "", (lang, words)
            assert not any("different sentences" in note for note in pairs.notes)


@pytest.mark.parametrize("lang", ["en", "ja", "zh"])
def test_different_sentences_are_noted(lang: str, shared_data: Path, tmp_path: Path) -> None:
    said = (
        "jobs stereotyped female and male meet different sentences (22 and 96, 9 in common): a difference between "
        "them may come from the sentences"
    )
    archive = shared_data / "nli_coal" / f"{RELEASES[lang]}.tar.xz"
    assert load(Request(lang, archive)).notes.count(said) == 1
    assert load_suite("coal", Request(lang, load(Request(lang, archive)))).notes.count(said) == 1
    assert check_file(archive, lang).lines()[1:].count(f"note: {said}") == 1
    # The same for a file, and nothing for one that is dealt.
    for order, expected in (("published", [said]), ("dealt", [])):
        written = write_coal(tmp_path / f"{order}.csv", lang, order=order)
        found = audit("fake:neutral", lang, written.path)
        assert found.result.data_of("coal").notes == expected == list(check_file(written.path, lang).pairs.notes)


def test_overlap_is_that_of_the_class_that_shares_more() -> None:
    def pairs(*cells: tuple[str, str, str]) -> PairSet:
        rows = [
            {"occupation": word, "group": group, "subset": "PS" if group else "NS", "template": template}
            for word, group, template in cells
        ]
        return PairSet.from_rows(rows, name="x", suite="groups", lang="en")

    half = [("a", "f", "1"), ("a", "f", "2"), *(("b", "m", template) for template in "23456")]
    assert different_sentences(pairs(*half)) == ""  # a half of the rows of f, a fifth of those of m
    assert "stereotyped f and m meet different sentences (3 and 5, 1 in common)" in different_sentences(
        pairs(("a", "f", "0"), *half)
    )
    same = [("a", "f", "1"), ("b", "m", "1"), ("c", "n", "7"), ("c", "n", "8")]
    assert "words stereotyped n and otherwise meet different sentences (2 and 1, 0" in different_sentences(pairs(*same))
    alone = [("a", "f", "1"), ("a", "f", "2"), ("b", "", "3")]
    assert "words with and without a stereotype meet" in different_sentences(pairs(*alone))
    assert different_sentences(pairs(("b", "", "1"))) == different_sentences(pairs(("b", "f", "1"))) == ""


@pytest.mark.parametrize("words", ["published", "labour"])
def test_a_part_keeps_classes_on_the_same_sentences(words: str) -> None:
    kinds = met(subsample(build_coal("en", occupations=words), 500), "stereotype")
    female, male = (set(kinds[kind]) for kind in ("female", "male"))
    assert len(female & male) > 0.8 * min(len(female), len(male))


def test_slot_template_with_repeated_words() -> None:
    assert slot_template("the man and the man.", "the man and the man.", "nurse", "man") is None
    assert slot_template("[a nurse] nurse", "[a man] man", "nurse", "man") == "[a [Sub]] [Sub]"


def test_dev_generator_counts_and_grammar() -> None:
    lists = load_dev_lists()
    assert (len(lists.templates), len(lists.occupations), lists.pairs) == (1968, 164, 1_936_512)
    assert load_dev_lists(group_words=("man", "woman")).pairs == 645_504
    first = next(iter_dev(lists))
    assert first.height == 6 * 1968
    assert first["premise"][0] == f"The {lists.occupations[0]} bought an apple."
    released = next(iter_dev(lists, determiner="a"))
    assert released["hypothesis"][0] == "A woman bought an apple ."


def test_dev_streams_to_disk(tmp_path: Path) -> None:
    lists = load_dev_lists(group_words=("man", "woman"))
    small = type(lists)(lists.occupations[:3], lists.groups, lists.templates)
    seen: list[int] = []
    for suffix in (".csv", ".jsonl"):
        path = tmp_path / f"dev{suffix}"
        assert write_dev_file(path, small, on_progress=lambda done, total: seen.append(done)) == small
        assert seen[-1] == small.pairs == 3 * 2 * 1968
        assert read_pairs(path, "en").frame.height == small.pairs

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_dev_file(tmp_path / "stopped.csv", small, on_progress=stop)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["dev.csv", "dev.jsonl"]


@pytest.mark.slow
def test_dev_stream_needs_little_memory(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = (
        f"{PEAK_MEMORY}\n"
        "from evenli.audit.suites.dev2020 import write_dev_file\n"
        f"n = write_dev_file({str(tmp_path / 'dev.csv')!r}).pairs\n"
        "print(n, peak_memory())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(out[0]) == 1_936_512
    assert float(out[1]) < 600  # megabytes


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_pair_files_round_trip(tmp_path: Path, suffix: str) -> None:
    pairs = build_coal("ja")
    write_pairs(pairs, tmp_path / f"x{suffix}")
    assert load(Request("ja", tmp_path / f"x{suffix}")).sha256 == pairs.sha256


@pytest.mark.parametrize("name", ["x.jsonl.xz", "x.JSONL", "x.v2.csv.xz"])
def test_pair_files_are_told_from_archives(tmp_path: Path, name: str) -> None:
    pairs = build_coal("en")
    kind = ".csv" if ".csv" in name else ".jsonl"
    write_pairs(pairs, tmp_path / f"plain{kind}")
    content = (tmp_path / f"plain{kind}").read_bytes()
    (tmp_path / name).write_bytes(lzma.compress(content, preset=0) if name.endswith(".xz") else content)
    assert load(Request("en", tmp_path / name)).sha256 == pairs.sha256


def test_only_releases_have_splits(pair_file) -> None:
    with pytest.raises(InputError, match="split 'down'"):
        load(Request("en", split="down"))
    with pytest.raises(InputError, match="split 'nope'"):
        load(Request("en", pair_file([GOOD]), split="nope"))
    with pytest.raises(InputError, match="tokenised"):
        load(Request("ja", tokenised=True))
    with pytest.raises(InputError, match="split 'nope'"):
        load_suite("dev2020", Request(split="nope"))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"text": "a"}], "column.*premise"),
        ([GOOD | {"label": "maybe"}], "line 1.*maybe"),
        ([GOOD | {"sentence1": ""}], "line 1.*premise"),
        ([], "pairs"),
        ([GOOD | {"id": 7}, GOOD | {"id": 7}], "duplicate.*'7'"),
        (
            [GOOD, GOOD | {"sentence1": "看護師が待つ。", "sentence2": "女性が待つ。", "occ_word": "看護師"}],
            "differ",
        ),
        ([GOOD | {"sentence2": "the woman runs."}], "differ.*'nurse'"),
        ([GOOD | {"occ_type": "robot-stereo"}], "robot"),
        ([GOOD | {"subset": "XX"}], "XX"),
        ([GOOD | {"id": 1}, GOOD | {"id": 2, "label": "entailment"}], "'2'.*entailment"),
        (
            [GOOD | {"id": 3, "group": "martian", "template": "the [Sub] waits."}],
            "'3'.*martian",
        ),
        ([{k: v for k, v in GOOD.items() if k != "occ_word"}], "occupation"),
    ],
)
def test_bad_pair_files(pair_file, rows: list[dict[str, object]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load(Request("en", pair_file(rows)))


def test_mixed_languages_are_refused(pair_file) -> None:
    japanese = {
        "sentence1": "看護師が待つ。",
        "sentence2": "女性が待つ。",
        "occ_word": "看護師",
        "occ_type": "female-stereo",
    }
    path = pair_file([japanese])
    with pytest.raises(InputError, match="'zh'|differ"):
        load(Request("zh", path))
    english = [GOOD | {"sentence1": f"the nurse waits {c}.", "sentence2": f"the woman waits {c}."} for c in "a愛"]
    with pytest.raises(InputError, match="language 'en'"):
        load(Request("en", pair_file(english)))


def test_tables_from_a_spreadsheet(tmp_path: Path) -> None:
    long = "word " * 40_000
    path = tmp_path / "sheet.csv"
    path.write_text(f"premise,hypothesis,label\nA,B,neutral\n{long},B,neutral\n", encoding="utf-8-sig")
    pairs = read_pairs(path, "en").frame
    assert pairs["premise"].to_list() == ["A", long] and pairs["id"].to_list() == ["0", "1"]
    path.write_text('premise,hypothesis,label\n"A\nA",B,neutral\nC,D,maybe\n', encoding="utf-8")
    with pytest.raises(PairError, match="maybe"):
        read_pairs(path, "en")


def test_a_cell_beyond_all_bounds_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "LINE_BYTES", 20)
    path = tmp_path / "sheet.csv"
    path.write_text('premise,hypothesis\nA,B\n"A very long\ncell of lines",B\n', encoding="utf-8")
    limit = csv.field_size_limit()
    try:
        with pytest.raises(PairError, match="line 4"):
            read_pairs(path, "en")
    finally:
        csv.field_size_limit(limit)


ROWS: list[dict[str, object]] = [
    {"sentence1": "a nurse waits.", "sentence2": "a woman waits.", "gold_label": "neutral", "occ_word": "nurse"},
    {"sentence1": "a cook waits.", "sentence2": "a man waits.", "gold_label": None, "occ_word": None},
]


def assert_same_pairs(table: object) -> None:
    expected = PairSet.from_rows(
        [
            {"premise": "a nurse waits.", "hypothesis": "a woman waits.", "gold": "neutral", "occupation": "nurse"},
            {"premise": "a cook waits.", "hypothesis": "a man waits."},
        ],
        name="table",
        suite="user",
        lang="en",
    )
    pairs = read_pairs(table, "en", suite="user")
    assert (pairs.name, pairs.suite, pairs.lang, pairs.sha256) == ("table", "user", "en", expected.sha256)


def test_pairs_from_tables_without_other_libraries() -> None:
    assert_same_pairs(pl.DataFrame(ROWS))
    assert_same_pairs(pl.LazyFrame(ROWS))
    assert_same_pairs(ROWS)
    assert len(read_pairs((row for row in ROWS), "en")) == 2


def test_pairs_from_arrow() -> None:
    pytest.importorskip("pyarrow")
    assert_same_pairs(pl.DataFrame(ROWS).to_arrow())


def test_pairs_from_pandas() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(ROWS)
    assert frame["gold_label"].isna().sum() == 1
    assert_same_pairs(frame)
    assert_same_pairs(frame.convert_dtypes())  # pandas.NA for missing cells
    assert_same_pairs(frame.set_index(pd.Index(["x", "y"])))


def test_pairs_from_datasets() -> None:
    datasets = pytest.importorskip("datasets")
    assert_same_pairs(datasets.Dataset.from_list(ROWS))
    # Labels by number, as SNLI is stored on the hub: -1 has no majority.
    numbered = [row | {"gold_label": label} for row, label in zip(ROWS, (1, -1), strict=True)]
    names = datasets.ClassLabel(names=["entailment", "neutral", "contradiction"])
    assert_same_pairs(datasets.Dataset.from_list(numbered).cast_column("gold_label", names))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([], "no pairs"),
        (5, "int"),
        ([("a", "b")], "row 1.*tuple"),
        (pl.DataFrame({"text": ["x"]}), "premise and hypothesis"),
        ([*ROWS, {"sentence1": "", "sentence2": "x"}], "row 3.*premise"),
        ([ROWS[0] | {"gold_label": "maybe"}], "row 1.*maybe"),
    ],
)
def test_bad_tables(table: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_pairs(table, "en")


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_a_failure_leaves_the_old_pair_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    path = tmp_path / f"pairs{suffix}"
    pairs = build_coal("en")
    write_pairs(pairs, path)
    before = path.read_bytes()

    def full(self: object, file: Path, *_: object, **__: object) -> None:
        target = self if suffix == ".jsonl" else file
        with open(str(target), "w") as sink:  # noqa: PTH123 - Path.write_bytes is the one replaced
            sink.write("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    monkeypatch.setattr(pl.DataFrame, "write_csv", full)
    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with pytest.raises(RunError, match="space"):
        write_pairs(pairs, path)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_bad_json_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(GOOD) + "\n{broken\n")
    with pytest.raises(PairError, match="x.jsonl, line 2"):
        load(Request("en", path))


def test_other_unreadable_input(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes(b"premise,hypothesis\n\xff\xfe,b\n")
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    (tmp_path / "x.tar.xz").write_bytes(b"not an archive")
    (tmp_path / "x.docx").write_bytes(b"")
    for name, message in [
        ("x.csv", "UTF-8"),
        ("x.parquet", r"x\.parquet"),
        ("x.tar.xz", r"x\.tar\.xz"),
        ("missing.jsonl", r"missing\.jsonl"),
    ]:
        with pytest.raises(InputError, match=message):
            load(Request("en", tmp_path / name))
    with pytest.raises(InputError, match="docx"):
        read_pairs(tmp_path / "x.docx", "en")
    with pytest.raises(InputError, match="NLI-CoAL"):
        load(Request("en", tmp_path))


def test_builder_refusals() -> None:
    with pytest.raises(ResourceError, match="template 2"):
        build_coal("en", templates=["the [Sub] waits.", "no slot here."])
    with pytest.raises(InputError, match="10 templates per word.* 1 were given"):
        build_coal("en", templates=["the [Sub] waits."])
    with pytest.raises(InputError, match="271 occupations at width 10 need 280 templates.* 1 were given"):
        build_coal("en", templates=["the [Sub] waits."], order="published")
    with pytest.raises(InputError, match="no seed, seed is 3"):
        build_coal("en", order="published", seed=3)
    with pytest.raises(InputError, match="choose dealt or published"):
        build_coal("en", order="sorted")
    with pytest.raises(ResourceError, match="robot"):
        build_coal("en", occupations=[Occupation("x", "robot", "x")])
    with pytest.raises(InputError, match="empty"):
        PairSet("none", "coal", "en", build_coal("en").frame.head(0))


def test_card_counts() -> None:
    card = build_coal("en").card()
    assert (card.rows, card.occupations, card.templates, card.distinct_pairs) == (5420, 271, 280, 5420)
    assert card.subsets == {"PS": 1000, "AS": 1000, "NS": 3420}
    assert issubclass(PairError, EvenliError)


def test_hash_depends_on_every_column() -> None:
    pairs = build_coal("en")
    for column in ("id", "premise", "gold", "group"):
        changed = pairs.frame.with_columns(
            pl.when(pl.int_range(pl.len()) == 5).then(pl.lit("changed")).otherwise(pl.col(column)).alias(column)
        )
        assert PairSet("x", "coal", "en", changed).sha256 != pairs.sha256
