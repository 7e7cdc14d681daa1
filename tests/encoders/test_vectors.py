"""Vector files give the same vectors in every format, and the gender direction is the one of the definition."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import pickle
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evenli.core.errors import InputError, RunError
from evenli.encoders.direction import (
    agreement,
    bias_of,
    direction_from_sentences,
    gender_direction,
    nearest,
    read_pairs,
    save_direction,
    stability,
)
from evenli.encoders.vector_formats import parse_numbers
from evenli.encoders.vectors import CACHE, WordVectors, load_vectors

WORDS = ["the", "she", "5", "naïve", "New", "日本", "\u0085", "a\u00a0b"]
MATRIX = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32)


def as_text(words=WORDS, matrix=MATRIX, *, header=False, end="\n", sep=" ") -> bytes:
    lines = [f"{len(words)} {matrix.shape[1]}"] if header else []
    lines += [sep.join([word, *(repr(float(x)) for x in row)]) for word, row in zip(words, matrix, strict=True)]
    return "".join(line + end for line in lines).encode()


def as_binary(*, newline: bool) -> bytes:
    rows = (word.encode() + b" " + row.tobytes() + b"\n" * newline for word, row in zip(WORDS, MATRIX, strict=True))
    return f"{len(WORDS)} {MATRIX.shape[1]}\n".encode() + b"".join(rows)


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def same(vectors: WordVectors) -> bool:
    return list(vectors.words) == WORDS and np.array_equal(vectors.matrix, MATRIX) and not vectors.notes


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", as_text()),
        ("no_final_newline.txt", as_text()[:-1]),
        ("windows.txt", as_text(end="\r\n")),
        ("tabs.tsv", as_text(sep="\t")),
        ("blank_line.txt", as_text() + b"\n"),
        ("double_spaces.txt", as_text(sep="  ")),
        ("word2vec.txt", as_text(header=True)),
        ("text_named.bin", as_text(header=True)),
        ("fasttext.vec", as_text(header=True, end=" \n")),
        ("glove.txt.gz", gzip.compress(as_text())),
        ("glove.txt.xz", lzma.compress(as_text())),
        ("original_tool.bin", as_binary(newline=True)),
        ("gensim.bin", as_binary(newline=False)),
        ("packed.bin.gz", gzip.compress(as_binary(newline=True))),
        ("binary_without_suffix", as_binary(newline=True)),
    ],
)
def test_every_format_gives_the_same_vectors(tmp_path, name, content) -> None:
    vectors = load_vectors(write(tmp_path, name, content))
    assert same(vectors)
    assert isinstance(vectors.matrix, np.memmap) and vectors.name == name
    assert vectors.identity == WordVectors.of(WORDS, MATRIX).identity


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_arrays(tmp_path, dtype) -> None:
    np.savez(tmp_path / "a.npz", words=np.array(WORDS), vectors=MATRIX.astype(dtype))
    as_bytes = [word.encode() for word in WORDS]
    np.savez(tmp_path / "c.npz", words=np.array(as_bytes), vectors=MATRIX.astype(dtype))
    lines = np.frombuffer(b"\n".join(as_bytes), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", words=lines, vectors=MATRIX.astype(dtype))
    np.save(tmp_path / "b.npy", np.asfortranarray(MATRIX.astype(dtype)))
    (tmp_path / "b.vocab").write_bytes("\n".join(WORDS).encode())
    expected = MATRIX.astype(dtype).astype(np.float32)
    for name in ("a.npz", "b.npy", "c.npz", "d.npz"):
        vectors = load_vectors(tmp_path / name)
        assert list(vectors.words) == WORDS and np.array_equal(vectors.matrix, expected)


def test_identity_tells_vectors_apart() -> None:
    changed = MATRIX.copy()
    changed[3, 2] += 1
    ids = {WordVectors.of(WORDS, m).identity for m in (MATRIX, changed, MATRIX[:, :3])}
    assert len(ids | {WordVectors.of([*WORDS[:-1], "other"], MATRIX).identity}) == 4


def test_many_rows_cross_the_blocks(tmp_path) -> None:
    n = 30_000
    matrix = np.random.default_rng(1).normal(size=(n, 4)).astype(np.float32)
    words = [f"w{i}" for i in range(n)]
    text = load_vectors(write(tmp_path, "v.txt", as_text(words, matrix)))
    packed = f"{n} 4\n".encode() + b"".join(w.encode() + b" " + r.tobytes() for w, r in zip(words, matrix, strict=True))
    binary = load_vectors(write(tmp_path, "v.bin", packed))
    assert np.array_equal(text.matrix, matrix) and text.words == tuple(words)
    assert text.identity == binary.identity
    assert len(load_vectors(tmp_path / "v.txt", limit=3000)) == 3000
    assert len(load_vectors(tmp_path / "v.bin", limit=2 * n)) == n


@pytest.mark.parametrize("with_polars", [True, False])
def test_decimals_are_rounded_as_float_rounds_them(with_polars: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not with_polars:
        monkeypatch.setitem(sys.modules, "polars", None)
    rng = np.random.default_rng(2)
    formats = ("{:.5g}", "{:.6f}", "{!r}", "{:.15g}", "{:.14g}", "{:e}", "{:.0f}", "{:.12f}", "{:.25f}")
    texts = [f.format(float(x)) for f in formats for s in (1e-6, 1e-3, 1, 1e3, 1e7) for x in s * rng.normal(size=100)]
    texts += ["0", "-0", "0.", "-.5", ".5", "+1", "999999999999999", "9999999999999999", "-99999999999.9999", "1E-3"]
    texts += ["0.0000000000001", "12345678901234567890", "0.000000000000000000001", "nan", "-inf"]
    rng.shuffle(texts)
    parsed = parse_numbers(" ".join(texts).encode(), len(texts))
    assert np.array_equal(parsed, [float(t) for t in texts], equal_nan=True)
    for broken in (b"1 x", b"1 -", b"1 .", b"1  2", b"1 1-2", b"1 0.1.2", b"--1 1", b"1 ", b"1 1,5", b'"1" 2', b"1"):
        assert parse_numbers(broken, 2) is None


def test_words_with_spaces_are_split_from_the_right(tmp_path) -> None:
    text = b"the 0.5 1 2\n. . . 1 2 3\nat name@domain.com -1 0 1e-3\n2 4 5 6\n"
    vectors = load_vectors(write(tmp_path, "v.txt", text))
    assert vectors.words == ("the", ". . .", "at name@domain.com", "2")
    assert vectors.matrix.tolist() == [[0.5, 1, 2], [1, 2, 3], [-1, 0, np.float32(1e-3)], [4, 5, 6]]


def test_duplicates_invalid_text_and_zeros_are_counted(tmp_path) -> None:
    text = b"a 1 2\nb 3 4\na 5 6\n\xff\xfe 7 8\nzero 0 0\na 9 9\n"
    vectors = load_vectors(write(tmp_path, "v.txt", text))
    assert vectors.words == ("a", "b", "\ufffd\ufffd", "zero")
    assert vectors.matrix[0].tolist() == [1, 2]
    assert [note.split()[0] for note in vectors.notes] == ["2", "1", "1"]
    assert load_vectors(tmp_path / "v.txt").notes == vectors.notes
    assert np.isnan(vectors.unit([3])).all() and np.linalg.norm(vectors.unit([0])) == pytest.approx(1)


FASTTEXT = (793712314).to_bytes(4, "little") + b"\x0c\x00\x00\x00" * 9


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("v.txt", b"", "empty"),
        ("v.txt", b"\n\n", "empty"),
        ("v.txt.gz", gzip.compress(b"", mtime=0), "empty"),
        ("v.txt", b"a 1 2 3\nb 1 2\n", "line 2.*'b'"),
        ("v.txt", b"a 1 2\nb 1 2\nc 1 2 3\n", "line 3.*'c'"),
        ("v.txt", b"a 1 2\nb 1 x\n", "line 2.*'x'"),
        ("v.txt", b"a 1 2\nb 1 0.1.2\n", r"line 2.*0\.1\.2"),
        ("v.txt", b"a 1 2\nb 1 0.1-2\n", r"line 2.*0\.1-2"),
        ("v.txt", b"a 1 2\nb nan 1\n", "line 2.*nan"),
        ("v.txt", b"a 1 2\nb 1e60 1\n", "line 2.*1e60"),
        ("v.txt", b"a 1 2\n 1 2\n", "line 2.*word"),
        ("v.txt", b"<html> not vectors\n", "line 1.*word"),
        ("v.txt", b"x" * (1 << 18) + b"y", "line"),
        ("v.txt", b"3 2\na 1 2\nb 1 2\n", "3 rows"),
        ("v.txt", b"1 2\na 1 2\nb 1 2\n", "1 rows"),
        ("v.vec", b"2 3\na 1 2\nb 1 2\n", "line 2.*'a'"),
        ("v.bin", b"2 999999999\na \x00\x01", "999999999"),
        ("v.bin", as_binary(newline=True)[:-10], "7 of 8"),
        ("v.bin", as_binary(newline=True) + b"more", "more bytes"),
        ("v.bin", b"1 1\na " + np.float32(np.inf).tobytes(), "row 1.*finite"),
        ("model.bin", FASTTEXT, "fastText"),
        ("v.kv", b"anything", "pickle"),
        ("vectors", pickle.dumps({"a": 1}), "pickle"),
        ("v.zip", b"PK", "unpack"),
        ("v.txt.gz", gzip.compress(as_text())[:-20], "cannot"),
        ("v.txt.xz", b"not xz", "cannot"),
        ("v.npz", b"not a zip", r"v\.npz"),
        ("v.npy", b"junk", r"v\.vocab"),
    ],
)
def test_broken_files_are_named_in_one_line(tmp_path, name, content, says) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=says) as caught:
        load_vectors(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)
    assert not [p for p in tmp_path.rglob("*") if ".part-" in p.name], "no half-written copy stays behind"


class Trap:
    def __reduce__(self):
        return os.mkdir, ("trapped",)


def test_nothing_is_unpickled(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "v.kv", pickle.dumps(Trap()))
    words = np.empty(1, dtype=object)
    words[0] = Trap()
    np.savez(tmp_path / "v.npz", words=words, vectors=np.ones((1, 2)), allow_pickle=True)
    for name in ("v.kv", "v.npz"):
        with pytest.raises(InputError):
            load_vectors(tmp_path / name)
    assert not (tmp_path / "trapped").exists()


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"vectors": MATRIX}, "words and vectors"),
        ({"words": np.array(["a"]), "vectors": MATRIX}, "8 rows"),
        ({"words": np.arange(8), "vectors": MATRIX}, "list"),
        ({"words": np.arange(8, dtype=np.uint8), "vectors": MATRIX}, "8 rows"),
        ({"words": np.full(8, 255, dtype=np.uint8), "vectors": MATRIX}, "0xff"),
        ({"words": np.full(7, 10, dtype=np.uint8), "vectors": MATRIX}, "row 1"),
        ({"words": np.array(WORDS), "vectors": MATRIX[0]}, "table"),
        ({"words": np.array(["", *WORDS[1:]]), "vectors": MATRIX}, "row 1"),
        ({"words": np.array(WORDS, dtype=object), "vectors": MATRIX}, "str"),
    ],
)
def test_broken_archives(tmp_path, arrays, says) -> None:
    np.savez(tmp_path / "v.npz", **arrays)
    with pytest.raises(InputError, match=says):
        load_vectors(tmp_path / "v.npz")


def test_bad_arguments(tmp_path) -> None:
    with pytest.raises(InputError, match="absent.txt"):
        load_vectors(tmp_path / "absent.txt")
    path = write(tmp_path, "v.txt", as_text())
    with pytest.raises(InputError, match="limit"):
        load_vectors(path, limit=0)
    with pytest.raises(RunError, match="cache"):
        load_vectors(path, cache=path / "below")
    with pytest.raises(InputError, match="'a'"):
        WordVectors.of(["a", "b", "a"], np.ones((3, 2)))
    with pytest.raises(InputError, match=r"\(3, 2\)"):
        WordVectors.of(["a"], np.ones((3, 2)))


def test_the_copy_is_used_until_the_file_changes(tmp_path, monkeypatch) -> None:
    path = write(tmp_path, "v.txt", as_text())
    first = load_vectors(path)
    assert [p.name for p in tmp_path.iterdir() if p.is_dir()] == [CACHE]
    with monkeypatch.context() as patch:
        patch.setattr("evenli.encoders.vectors.blocks", lambda *_: pytest.fail("the text was read again"))
        again = load_vectors(path)
    assert same(again) and again.identity == first.identity

    (entry,) = (tmp_path / CACHE).iterdir()
    with (entry / "matrix.npy").open("r+b") as stream:
        stream.truncate(150)
    assert same(load_vectors(path)), "a damaged copy is made again"

    path.write_bytes(b"one 1 2\ntwo 3 4\n")
    assert load_vectors(path).words == ("one", "two")
    assert len(list((tmp_path / CACHE).iterdir())) == 1, "the old copy is gone"

    elsewhere = load_vectors(path, cache=tmp_path / "given")
    assert elsewhere.words == ("one", "two") and (tmp_path / "given").is_dir()


def test_two_files_of_one_name_share_a_cache(tmp_path) -> None:
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, "v.txt", f"{folder} 1 2\n".encode())
    loaded = [load_vectors(tmp_path / f / "v.txt", cache=tmp_path / "c").words for f in ("x", "y", "x")]
    assert loaded == [("x",), ("y",), ("x",)]


def test_lookup_is_exact_then_lower_case() -> None:
    vectors = WordVectors.of(["us", "US", "mary", "Paris"], np.eye(4))
    assert vectors.rows(["us", "US", "Us", "Mary", "MARY", "paris", "Paris", "x"]).tolist() == [
        0,
        1,
        0,
        2,
        2,
        -1,
        3,
        -1,
    ]
    assert vectors.matrix[vectors.find("Mary")].tolist() == [0, 0, 1, 0]
    with pytest.raises(InputError, match="row -1"):
        vectors.unit([0, -1])


# The direction.


def synthetic(pairs=10, dimension=50, noise=0.35, seed=0) -> tuple[WordVectors, list[tuple[str, str]], np.ndarray]:
    """Pairs that share a base and differ along one axis, plus noise; a few hundred other words."""
    rng = np.random.default_rng(seed)
    g = rng.normal(size=dimension)
    g /= np.linalg.norm(g)
    base = rng.normal(size=(pairs, dimension))
    base -= np.outer(base @ g, g)
    sides = [base + sign * 2.0 * g + noise * rng.normal(size=base.shape) for sign in (1, -1)]
    names = [(f"f{i}", f"m{i}") for i in range(pairs)]
    others = rng.normal(size=(300, dimension))
    words = [f for f, _ in names] + [m for _, m in names] + [f"w{i}" for i in range(300)]
    return WordVectors.of(words, np.vstack([*sides, others])), names, g


def test_pair_centring_recovers_the_direction_and_centred_differences_do_not() -> None:
    right, wrong = [], []
    for seed in range(5):
        vectors, names, g = synthetic(seed=seed)
        direction = gender_direction(vectors, names)
        right.append(direction.vector @ g)
        u = vectors.unit([vectors.rows(pair) for pair in names])
        differences = u[:, 0] - u[:, 1]
        wrong.append(abs(np.linalg.svd(differences - differences.mean(axis=0))[2][0] @ g))
        # By the definition: 2k rows around the midpoints, whose mean is zero.
        rows = (u - u.mean(axis=1, keepdims=True)).reshape(-1, u.shape[-1])
        assert np.abs(rows.mean(axis=0)).max() < 1e-12
        values, axes = np.linalg.eigh(rows.T @ rows)
        assert abs(axes[:, -1] @ direction.vector) == pytest.approx(1, abs=1e-12)
        assert direction.spectrum[0] == pytest.approx(values[-1] / values.sum(), abs=1e-12)
    assert min(right) > 0.95 and max(wrong) < 0.6


def test_hand_computed_shares_and_sign() -> None:
    # Unit vectors: differences (2a, 0, 0) and (0, 2b, 0) have squared lengths 4a^2 and 4b^2.
    words = ["f1", "m1", "f2", "m2"]
    vectors = WordVectors.of(words, [[3, 0, 4], [-3, 0, 4], [0, 10, 0], [0, -10, 0]])
    direction = gender_direction(vectors, [("f1", "m1"), ("f2", "m2")])
    assert direction.explained_unit == pytest.approx(1 / (1 + 0.36))
    assert direction.explained_raw == pytest.approx(100 / 109)
    assert direction.spectrum == pytest.approx((1 / 1.36, 0.36 / 1.36))
    assert direction.vector == pytest.approx([0, 1, 0])
    assert bias_of(vectors, [0, 1, 2, 3], direction) == pytest.approx([0, 0, 1, -1])
    assert "only 2 pairs" in direction.notes[0]

    vectors = WordVectors.of(words, [[5, 0, 0], [-5, 0, 0], [0, 1, 0], [0, -1, 0]])
    pairs = [("f1", "m1"), ("f2", "m2")]
    raw = gender_direction(vectors, pairs, unit=False)
    assert raw.spectrum[0] == raw.explained_raw == pytest.approx(25 / 26)
    assert raw.explained_unit == pytest.approx(1 / 2)
    assert raw.vector == pytest.approx([1, 0, 0])


def test_order_of_pairs_columns_and_scale_do_not_matter() -> None:
    vectors, names, g = synthetic()
    direction = gender_direction(vectors, names)
    shuffled = gender_direction(vectors, names[::-1])
    swapped = gender_direction(vectors, [(m, f) for f, m in names])
    one_swapped = gender_direction(vectors, [names[0][::-1], *names[1:]])
    scaled = gender_direction(WordVectors.of(vectors.words, vectors.matrix * 8), names)
    assert shuffled.vector == pytest.approx(direction.vector, abs=1e-12)
    assert swapped.vector == pytest.approx(-direction.vector, abs=1e-12), "what is called female is positive"
    assert one_swapped.vector == pytest.approx(direction.vector, abs=1e-12), "as wives-husbands in the long list"
    assert scaled.vector == pytest.approx(direction.vector, abs=1e-6)
    assert agreement(direction, swapped) == pytest.approx(1) and direction.vector @ g > 0
    female, male = (bias_of(vectors, vectors.rows(side), direction).mean() for side in zip(*names, strict=True))
    assert female > 0 > male


def test_leave_one_out() -> None:
    vectors, names, _ = synthetic()
    result = stability(vectors, names)
    whole = gender_direction(vectors, names).vector
    assert list(result) == names
    for i in (0, 7):
        rest = gender_direction(vectors, names[:i] + names[i + 1 :]).vector
        assert list(result.values())[i] == pytest.approx(whole @ rest, abs=1e-12)
    assert 0.97 < min(result.values()) <= 1
    odd = WordVectors.of(
        [*vectors.words, "x", "y"], np.vstack([vectors.matrix, *np.random.default_rng(9).normal(size=(2, 1, 50))])
    )
    worst = min(stability(odd, [*names, ("x", "y")]).items(), key=lambda item: item[1])
    assert worst[0] == ("x", "y"), "the pair that does not fit turns the direction most"
    with pytest.raises(InputError, match="3 or more"):
        stability(vectors, names[:2])


def test_nearest_words() -> None:
    words = ["she", "he", "woman", "man", "She", "nurse", "smith", "table", "rare", "nothing"]
    rows = [
        [1, 0, 1],
        [-1, 0, 1],
        [1, 1, 0],
        [-1, 1, 0],
        [1, 0, 1],
        [2, 1, 0],
        [-1, 2, 0],
        [0, 1, 0],
        [9, 0, 0.1],
        [0, 0, 0],
    ]
    vectors = WordVectors.of(words, rows)
    direction = gender_direction(vectors, [("she", "he"), ("woman", "man")])
    found = nearest(vectors, direction, 2)
    assert [w for w, _ in found.female] == ["rare", "nurse"] and [w for w, _ in found.male] == ["smith", "table"]
    assert found.male[0][1] == pytest.approx(-1 / np.sqrt(5)) and found.female[1][1] == pytest.approx(2 / np.sqrt(5))
    assert nearest(vectors, direction, 1, among=8).female == (("nurse", found.female[1][1]),)
    assert len(nearest(vectors, direction, 99).male) == 4, "neither the words of the pairs nor a zero vector"
    with pytest.raises(InputError, match="1 or more"):
        nearest(vectors, direction, 0)


def test_bias_keeps_the_shape_and_crosses_chunks() -> None:
    vectors, names, _ = synthetic()
    direction = gender_direction(vectors, names)
    rows = np.random.default_rng(0).integers(0, len(vectors), size=(3, 4000))
    expected = vectors.unit(np.arange(len(vectors))) @ direction.vector
    assert bias_of(vectors, rows, direction) == pytest.approx(expected[rows], abs=1e-12)
    assert bias_of(vectors, [], direction).shape == (0,)
    with pytest.raises(InputError, match="direction"):
        bias_of(WordVectors.of(["a"], [[1, 2]]), [0], direction)
    with pytest.raises(InputError, match="spaces"):
        agreement(direction, gender_direction(WordVectors.of("abcd", np.eye(4)), [("a", "b"), ("c", "d")]))


def test_missing_and_repeated_pairs() -> None:
    vectors = WordVectors.of(["she", "he", "woman", "man", "zero", "one"], [*np.eye(5)[:4], [0] * 5, [1] * 5])
    pairs = [("she", "he"), ("She", "He"), ("woman", "man"), ("queen", "king"), ("zero", "one")]
    direction = gender_direction(vectors, pairs)
    assert direction.pairs == (("she", "he"), ("woman", "man")) and direction.count == 2
    assert direction.missing == (("queen", "king"), ("zero", "one"))
    assert direction.notes[1:] == (
        "2 pair(s) without vectors: queen-king, zero-one",
        "1 pair(s) with the vectors of another: She-He",
    )
    with pytest.raises(InputError, match="queen-king"):
        gender_direction(vectors, [("she", "he"), ("queen", "king")])
    with pytest.raises(InputError, match="she"):
        gender_direction(vectors, [("she", "SHE"), ("woman", "man")])


def test_pair_lists(tmp_path) -> None:
    assert read_pairs("ten")[0] == ("woman", "man") and read_pairs("ten")[-1] == ("Mary", "John")
    assert len(read_pairs("ten")) == 10 and len(read_pairs("long")) == len(set(read_pairs("long"))) == 48
    assert ("wives", "husbands") in read_pairs("long") and not any("_" in f + m for f, m in read_pairs("long"))
    expected = [("she", "he"), ("queen", "king")]
    for name, text in (
        ("p.csv", "male,female\nhe,she\nking,queen\n"),
        ("p.tsv", "female\tmale\nshe\the\nqueen\tking\n"),
        ("p.txt", "# female male\nshe he\nqueen\tking\n"),
    ):
        (tmp_path / name).write_text(text)
        assert read_pairs(tmp_path / name) == read_pairs(str(tmp_path / name)) == expected
    for name, text, says in (
        ("bad.csv", "she,he\nqueen,king\n", "female and male"),
        ("bad.txt", "she he they\n", "she he they"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(InputError, match=says):
            read_pairs(tmp_path / name)
    with pytest.raises(InputError, match="ten or long"):
        read_pairs("eleven")
    with pytest.raises(InputError, match="'a', 'b', 'c'"):
        read_pairs([("a", "b", "c")])
    with pytest.raises(InputError, match="'ab'"):
        read_pairs(["ab"])


def test_the_long_list_is_the_published_one(shared_data) -> None:
    import json

    lists = shared_data / "bias_lists" / "debiaswe"
    ten = json.loads((lists / "definitional_pairs.json").read_text())
    long = json.loads((lists / "equalize_pairs.json").read_text())
    assert read_pairs("ten") == [tuple(pair) for pair in ten]
    assert {frozenset(pair) for pair in read_pairs("long")} == {frozenset(p) for p in long if "_" not in p[0] + p[1]}
    assert len(long) - 48 == 4


def test_direction_from_sentences() -> None:
    rng = np.random.default_rng(3)
    g = rng.normal(size=40)
    g /= np.linalg.norm(g)
    base = rng.normal(size=(60, 40))
    female, male = (base + sign * g + 0.2 * rng.normal(size=base.shape) for sign in (1, -1))
    direction = direction_from_sentences(female, male)
    assert direction.vector @ g > 0.95 and direction.count == 60 and not direction.unit
    d = female - male
    sigma = np.linalg.svd(np.vstack([d / 2, -d / 2]), compute_uv=False)
    assert direction.spectrum[0] == direction.explained_raw == pytest.approx(sigma[0] ** 2 / (sigma**2).sum())
    assert direction.explained_unit == pytest.approx(direction_from_sentences(female, male, unit=True).spectrum[0])
    assert direction_from_sentences(male, female).vector == pytest.approx(-direction.vector)
    half = direction_from_sentences(female[:30], male[:30]), direction_from_sentences(female[30:], male[30:])
    assert agreement(*half) > 0.95


@pytest.mark.parametrize(
    ("female", "male", "says"),
    [
        (np.ones((3, 2)), np.ones((2, 2)), "shape"),
        (np.ones((1, 2)), np.zeros((1, 2)), "rows"),
        (np.ones((3, 2)), np.ones((3, 2)), "equal"),
        (np.ones((3, 2)), np.full((3, 2), np.nan), "finite"),
        (np.ones((3, 2)), np.zeros((3, 2)), "zero"),
    ],
)
def test_unusable_sentences(female, male, says) -> None:
    with pytest.raises(InputError, match=says):
        direction_from_sentences(female, male)


def test_a_stored_direction_is_the_same(tmp_path) -> None:
    vectors, names, _ = synthetic()
    direction = gender_direction(vectors, [*names, ("not", "there")])
    with np.load(save_direction(direction, tmp_path / "g.npz")) as stored:
        np.testing.assert_array_equal(stored["vector"], direction.vector)
        about = json.loads(str(stored["about"]))
    assert about["count"] == direction.count and about["missing"] == [["not", "there"]]
    with pytest.raises(InputError, match=r"\.npz"):
        save_direction(direction, tmp_path / "g.npy")


def test_identity_rests_on_the_inputs() -> None:
    vectors, names, _ = synthetic()
    direction = gender_direction(vectors, names)
    # Another processor gives other last digits.
    assert replace(direction, vector=direction.vector * (1 + 1e-15)).identity == direction.identity
    others = [gender_direction(vectors, names, unit=False), gender_direction(vectors, names[1:])]
    assert len({direction.identity, *(other.identity for other in others)}) == 3
    sentences = [direction_from_sentences(sign * np.eye(3), -sign * np.eye(3)) for sign in (1, -1)]
    assert sentences[0].identity != sentences[1].identity


def test_chart(tmp_path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    from evenli.corpus.pages import write_direction

    vectors, names, _ = synthetic()
    direction = gender_direction(vectors, names)
    npz, svg, png = write_direction(direction, vectors, tmp_path)
    with np.load(npz) as stored:
        assert json.loads(str(stored["about"]))["pairs"] == [list(pair) for pair in names]
    text = svg.read_text(encoding="utf-8")
    assert "explained variance" in text and "cosine with the direction" in text and "f3–m3" in text
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not Path(os.environ.get("EVENLI_VECTORS", "")).is_file(), reason="set EVENLI_VECTORS to a file")
def test_real_vectors(tmp_path) -> None:
    vectors = load_vectors(os.environ["EVENLI_VECTORS"])
    ten, long = gender_direction(vectors), gender_direction(vectors, "long")
    assert 0.45 < ten.spectrum[0] < 0.65 and 0.35 < long.spectrum[0] < 0.5
    assert agreement(ten, long) > 0.9 and min(stability(vectors).values()) > 0.8
    pink, dress, football = bias_of(vectors, vectors.rows(["pink", "dress", "football"]), ten)
    assert pink > 0.1 and dress > 0.1 and football < 0
