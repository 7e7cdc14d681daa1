"""Templates of captions: whatever tells the group is lost."""

from __future__ import annotations

import gzip
import lzma
import re
from collections import Counter
from pathlib import Path

import pytest

from evenli.audit.suites.coal.pairs import read_release
from evenli.core.errors import InputError
from evenli.training.meta.captions import templates_from_captions
from evenli.words import load_axis
from evenli.words.scenes import compose_templates, template_key
from evenli.words.templates import SLOT, leaking_words
from studies.ledger.official import recover_lists

NEEDED = 529 + 109
"""Train chain (30 words, width 500) and dev/test chain (two windows of 30 words, width 50)."""


def write(folder: Path, text: str, name: str = "captions.txt") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


EN_CASES = {
    "A man in a blue shirt is reading a newspaper .": "the [Sub] in a blue shirt is reading a newspaper.",
    "an old  Woman walks, slowly , along the empty beach": "an old [Sub] walks, slowly, along the empty beach.",
    "Man on a bench watching the small boats!": "[Sub] on a bench watching the small boats.",
    "A dog licks the man 's hand near a fence.": "a dog licks the [Sub]'s hand near a fence.",
    "An elevator opens while a woman waits with two bags.": "an elevator opens while the [Sub] waits with two bags.",
    "Five people look at a statue in the park.": "no group word",
    "A businessman and a snowman stand in the park.": "no group word",
    "A man-made lake lies between two green hills.": "no group word",
    "A man and a woman cross the street together.": "several group words",
    "A man looks at another man across the street.": "several group words",
    "A man sits on a step. It is very late.": "several sentences",
    "男性 a man walks past a big red sign.": "language",
    "A man waits here all alone.": "length",  # 6 words
    f"A man walks {'very ' * 20}fast.": "length",  # 24 words
    "Two man are walking down a busy street.": "plural",
    "A group of young woman dance on a stage.": "plural",
    "A delivery man leaves a box at the door.": "longer phrase",
    "A man holds his hat in the strong wind.": "revealing word",
    "A bearded man sits on the steps and reads.": "revealing word",
    "A man dressed as a surgeon waves from a car.": "occupation",
    "the MAN in a blue shirt is reading a newspaper": "duplicate",
    "A long line of cars waits for the woman to cross the street.": "excluded",  # evaluation template
    "A woman rides a green bicycle through the tunnel.": "excluded",
}
JA_CASES = {
    "公園のベンチで女性が新聞を読んでいます": "公園のベンチで[Sub]が新聞を読んでいます。",
    "犬を連れた男性と子供が 川沿いを歩いている。": "犬を連れた[Sub]と子供が川沿いを歩いている。",
    "一人の男性が広い海を静かに眺めています！": "一人の[Sub]が広い海を静かに眺めています。",
    "公園のベンチに人が座って新聞を読んでいます。": "no group word",
    "男性と女性が川沿いの道を並んで歩いています。": "several group words",
    "女性が座っています。犬が川沿いの道を歩いています。": "several sentences",
    "女性が座っています。": "length",
    "二人の男性が川沿いの道を並んで歩いています。": "plural",
    "女性たちが川沿いの道を並んで歩いています。": "plural",
    "女性が１２人、川沿いの道を並んで歩いています。": "plural",
    "男性の選手が川沿いの道を走っています。": "longer phrase",
    "女性用のトイレの前に自転車が止めてあります。": "longer phrase",
    "男性客が川沿いの店でお茶を飲んでいます。": "longer phrase",
    "髭を生やした男性が川沿いの道を歩いています。": "revealing word",
    "男性が息子を連れて川沿いの道を歩いています。": "revealing word",
    "公園のベンチで看護師と男性が新聞を読んでいます。": "occupation",
    "公園のベンチで、男性が新聞を読んでいます。": "duplicate",
    "女性がエスカレーターの手すりにつかまっています。": "excluded",
    "女性が自転車でトンネルの中を走っています。": "excluded",
}
ZH_CASES = {
    "一个穿蓝色衬衫的男人在看报纸": "一个穿蓝色衬衫的[Sub]在看报纸。",
    "草地 上，一个 女人 正在放风筝 。": "草地上，一个[Sub]正在放风筝。",
    "一个男人在弹吉他": "一个[Sub]在弹吉他。",
    "一个人在公园里看报纸。": "no group word",
    "一个男人和一个女人在公园里散步。": "several group words",
    "一个男人在散步。天很蓝。": "several sentences",
    "カメラを持つ男人。": "language",
    "男人笑了。": "length",  # 3 characters beside the slot
    "两个男人在公园里散步。": "plural",
    "女人们在公园里散步。": "plural",
    "一群戴帽子的男人在散步。": "plural",
    "一个很有女人味的人在拍照。": "longer phrase",
    "一个男人抱着女儿在公园里散步。": "revealing word",
    "一个穿婚纱的女人在拍照。": "revealing word",
    "一个女人和护士在公园里散步。": "occupation",
    "一个穿蓝色衬衫的女人在看报纸。": "duplicate",
    "镜子里映出男人疲惫的脸。": "excluded",
    "一个女人骑着自行车穿过隧道。": "excluded",
}
EXCLUDED = {
    "en": "the [Sub] rides a green bicycle through the tunnel.",
    "ja": "[Sub]が自転車でトンネルの中を走っています。",
    "zh": "一个[Sub]骑着自行车穿过隧道。",
}


@pytest.mark.parametrize(("lang", "cases"), [("en", EN_CASES), ("ja", JA_CASES), ("zh", ZH_CASES)])
def test_each_rule(lang: str, cases: dict[str, str], tmp_path: Path) -> None:
    found = templates_from_captions(write(tmp_path, "\n".join(cases)), lang, exclude=[EXCLUDED[lang]])
    assert found.read == len(cases)
    assert sorted(found.templates) == sorted(result for result in cases.values() if SLOT in result)
    assert found.dropped == Counter(result for result in cases.values() if SLOT not in result)


@pytest.mark.parametrize(("lang", "cases"), [("en", EN_CASES), ("ja", JA_CASES), ("zh", ZH_CASES)])
def test_each_caption_falls_for_its_own_reason(lang: str, cases: dict[str, str], tmp_path: Path) -> None:
    good = next(iter(cases))
    for caption, reason in cases.items():
        if SLOT not in reason:
            path = write(tmp_path, f"{good}\n{caption}\n")
            assert templates_from_captions(path, lang, exclude=[EXCLUDED[lang]]).dropped == {reason: 1}, caption


def test_captions_end_at_line_ends_alone(tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_bytes("A man rides\u2028a horse\x0calong the\x85shore.\r\nA cat.\r\n".encode())
    found = templates_from_captions(tmp_path / "c.txt", "en")
    assert found.read == 2 and found.templates == ["the [Sub] rides a horse along the shore."]


def test_layouts_give_the_same_templates(tmp_path: Path) -> None:
    captions = ["A man rides a horse along the shore.", "Here a woman feeds duck#2 and #3 of the birds."]
    plain = templates_from_captions(write(tmp_path, "\n\n".join(captions)), "en")
    assert plain.read == 2 and "here the [Sub] feeds duck#2 and #3 of the birds." in plain.templates
    layouts = {
        "table.tsv": "image\tno\tcaption\n" + "".join(f"{i}\t1\t{c}\n" for i, c in enumerate(captions)),
        "coco.txt": "".join(f"COCO_{i}#0\t{c}\r\n" for i, c in enumerate(captions)),
        "flickr.txt": "".join(f"10{i}_ab.jpg#enc#{i} {c} \n" for i, c in enumerate(captions)),
        "bom.txt": "\ufeff" + "\n".join(captions),
    }
    for name, text in layouts.items():
        assert templates_from_captions(write(tmp_path, text, name), "en") == plain, name
    raw = "\n".join(captions).encode()
    (tmp_path / "c.txt.xz").write_bytes(lzma.compress(raw))
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(raw))
    for name in ("c.txt.xz", "c.txt.gz"):
        assert templates_from_captions(tmp_path / name, "en") == plain, name


def test_caption_shuffle_is_seeded_and_cut(tmp_path: Path) -> None:
    path = write(tmp_path, "\n".join(f"A man waits at gate number {i} today." for i in range(50)))
    whole = templates_from_captions(path, "en", seed=1)
    assert len(whole.templates) == 50 and whole == templates_from_captions(path, "en", seed=1)
    assert templates_from_captions(path, "en", seed=1, count=20).templates == whole.templates[:20]
    assert whole.templates != templates_from_captions(path, "en", seed=2).templates
    assert sorted(whole.templates) == sorted(f"the [Sub] waits at gate number {i} today." for i in range(50))


def test_unusable_caption_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none.txt"):
        templates_from_captions(tmp_path / "none.txt", "en")
    for text in ("", "\n \n", "image\tcaption\n"):
        with pytest.raises(InputError, match="captions"):
            templates_from_captions(write(tmp_path, text), "en")
    (tmp_path / "latin.txt").write_bytes("a man in a café".encode("latin-1"))
    with pytest.raises(InputError, match="UTF-8"):
        templates_from_captions(tmp_path / "latin.txt", "en")
    whole = gzip.compress(b"a man " * 100)
    for name, content in {"a.xz": b"a man", "b.gz": b"a man", "c.gz": whole[:-9], "d.gz": whole[:20] + whole}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=name):
            templates_from_captions(tmp_path / name, "en")
    few = write(tmp_path, "A man rides a horse along the shore.\nA dog runs.\n")
    with pytest.raises(InputError, match="638"):
        templates_from_captions(few, "en", count=638)
    with pytest.raises(InputError, match="language 'zh'"):
        templates_from_captions(few, "zh")


@pytest.mark.parametrize(
    ("lang", "name", "read", "usable"),
    [
        ("en", "captions_en/flickr30k_multi30k_train.tsv.xz", 145_000, 26_545),
        ("ja", "captions_ja/yjcaptions_sentences_from_jglue.txt.xz", 28_023, 2_944),
        ("zh", "captions_zh/flickr8kzhc.caption.txt.xz", 40_455, 3_520),
    ],
)
def test_public_captions_are_enough(lang: str, name: str, read: int, usable: int, shared_data: Path) -> None:
    found = templates_from_captions(shared_data / name, lang, exclude=compose_templates(lang, NEEDED))
    assert (found.read, len(found.templates)) == (read, usable)
    assert usable >= NEEDED and found.read - sum(found.dropped.values()) == usable
    revealing = load_axis().revealing_words(lang)
    for template in found.templates[:2000]:
        assert template.count(SLOT) == 1 and not leaking_words(template, revealing, lang), template
        if lang == "en":
            assert template == template.lower().replace("[sub]", SLOT) and not re.search(r"\ban? \[Sub\]", template)
            assert 7 <= len(template.split()) <= 23


def test_released_templates_come_from_these_captions_and_are_kept_out(shared_data: Path) -> None:
    path = shared_data / "captions_zh/flickr8kzhmtest.captions.txt.xz"
    _, released = recover_lists(read_release(shared_data / "nli_coal" / "zh_v1.0.tar.xz", "zh"))
    everyone, others = templates_from_captions(path, "zh"), templates_from_captions(path, "zh", exclude=released)
    keys = {template_key(template) for template in released}
    shared = [template for template in everyone.templates if template_key(template) in keys]
    assert len(shared) >= 100  # control: without exclude the release would leak into training
    assert others.dropped["excluded"] == len(shared) == len(everyone.templates) - len(others.templates)
    assert not keys & {template_key(template) for template in others.templates}
