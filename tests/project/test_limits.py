"""What strangers wrote is read under limits: one line that names the file and the line."""

from __future__ import annotations

import bz2
import json
import os
import tarfile
import zipfile
from io import BytesIO
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from evenli.audit.audit import load_run
from evenli.audit.models.loading import check_folder, read_fields
from evenli.audit.models.onnx import data_files, open_session
from evenli.core import parse
from evenli.core.binary import read_array, read_arrays, read_parquet, read_tensors
from evenli.core.errors import EvenliError, InputError, ModelError, PairError, RunError
from evenli.core.io import archive_texts, iter_lines, read_json, read_rows, read_text, write_atomic
from evenli.core.parse import parse_json, parse_toml
from evenli.corpus.source import read_records
from evenli.encoders.eraser import load_eraser
from evenli.encoders.seat import read_test
from evenli.words.tables import read_toml

DEEP = "[" * 900 + "]" * 900
VERY_DEEP = "[" * 20_000 + "]" * 20_000
LONG = "9" * 5000
HALF = '"\\ud800"'
BAD = {"deep": DEEP, "very deep": VERY_DEEP, "digits": LONG, "many digits": "1" + "0" * 60, "half": HALF}


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_a_row_beyond_the_limits_names_its_line(value: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.jsonl"
    rows.write_text(f'{{"premise": "a"}}\n{{"premise": "a", "more": {value}}}\n', encoding="utf-8")
    with pytest.raises(PairError, match=r"rows\.jsonl, line 2"):
        read_rows(rows)


@pytest.mark.parametrize("value", BAD.values(), ids=BAD)
def test_stored_json_beyond_the_limits_is_one_line(value: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(f'{{"schema": 3, "status": {value}}}', encoding="utf-8")
    for read, kind in ((read_json, InputError), (read_test, InputError), (read_fields, ModelError)):
        with pytest.raises(kind, match=r"run\.json"):
            read(file)
    with pytest.raises(RunError, match=r"run\.json"):
        load_run(tmp_path)


def test_what_is_within_the_limits_is_read() -> None:
    nested = json.loads("[" * 99 + "]" * 99)
    assert parse_json(json.dumps(nested), "here") == nested
    assert parse_json("1" * 38, "here") == int("1" * 38) and parse_json("-" + "1" * 38, "here") < 0
    assert parse_json('"\\ud83d\\ude00 \\u00e4"', "here") == "😀 ä"
    assert parse_json('{"a": "[[[[' + "[" * 200 + '"}', "here")["a"].startswith("[[")
    assert parse_json(b"[1, 2.5, null]", "here") == [1, 2.5, None]
    assert parse_json(HALF, "here", halves=True) == "\ud800"


@pytest.mark.parametrize("text", ["a = " + DEEP, "a = " + LONG, "a = 1" + "0" * 60, "a = ["], ids=len)
def test_toml_is_under_the_same_limits(text: str, tmp_path: Path) -> None:
    with pytest.raises(PairError, match="here"):
        parse_toml(text, "here")
    (tmp_path / "axis.toml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=r"axis\.toml"):
        read_toml(tmp_path / "axis.toml")


def test_a_long_line_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.txt"
    file.write_bytes(b"short\n" + b"a" * (parse.LINE_BYTES + 1))
    with pytest.raises(InputError, match="line 2"):
        list(iter_lines(file))


def test_what_unpacks_without_proportion_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse, "RATIO_FREE", 1 << 20)
    lines = tmp_path / "lines.jsonl.bz2"
    lines.write_bytes(bz2.compress(b"{}\n" * 3_000_000))
    for read in (read_text, lambda file: list(iter_lines(file)), read_rows):
        with pytest.raises(InputError, match="lines"):
            read(lines)
    ordinary = tmp_path / "ordinary.txt.bz2"
    ordinary.write_bytes(bz2.compress(np.random.default_rng(0).bytes(2 << 20).hex().encode()))
    assert len(read_text(ordinary)) == 4 << 20
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        buffer = BytesIO()
        np.save(buffer, np.zeros(1 << 20))
        archive.writestr("vector.npy", buffer.getvalue())
    for reader in (read_arrays, load_eraser):
        with pytest.raises(InputError, match="bomb"):
            reader(tmp_path / "bomb.npz")
    pl.DataFrame({"row": pl.repeat(1, 10_000_000, eager=True)}).write_parquet(tmp_path / "bomb.parquet")
    for read in (read_parquet, read_rows, lambda file: list(read_records(file))):
        with pytest.raises(InputError, match="bomb"):
            read(tmp_path / "bomb.parquet")


def test_an_archive_of_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenli.core.io.MEMBERS", 10)
    with tarfile.open(tmp_path / "many.tar", "w") as archive:
        for number in range(11):
            archive.addfile(tarfile.TarInfo(f"{number}.txt"), BytesIO())
    with pytest.raises(InputError, match="many"):
        archive_texts(tmp_path / "many.tar", lambda name: True)


@pytest.mark.parametrize("read", [read_array, read_arrays, read_parquet, read_tensors])
@pytest.mark.parametrize("seed", range(8))
def test_damaged_binary_files_are_one_line(read: object, seed: int, tmp_path: Path) -> None:
    generator = np.random.default_rng(seed)
    file = tmp_path / "stored.bin"
    if read is read_array:
        with file.open("wb") as stream:
            np.save(stream, np.arange(100.0))
    elif read is read_arrays:
        with file.open("wb") as stream:
            np.savez(stream, a=np.arange(100.0))
    elif read is read_parquet:
        pl.DataFrame({"a": range(100), "b": ["x"] * 100}).write_parquet(file)
    else:
        pytest.importorskip("safetensors")
        file.write_bytes(generator.bytes(100))
    content = bytearray(file.read_bytes())
    content[int(generator.integers(len(content)))] ^= int(generator.integers(1, 256))
    file.write_bytes(content[: int(generator.integers(len(content)))] if seed % 2 else content)
    try:
        read(file)  # type: ignore[operator]
    except EvenliError as error:
        assert "stored.bin" in str(error)


def test_an_array_larger_than_its_file_takes_no_memory(tmp_path: Path) -> None:
    with (tmp_path / "huge.npy").open("wb") as stream:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 50,)}
        np.lib.format.write_array_header_1_0(stream, header)
    with pytest.raises(InputError, match="huge"):
        read_array(tmp_path / "huge.npy")


def test_a_pipe_in_a_checkpoint_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"x")
    check_folder(tmp_path)
    os.mkfifo(tmp_path / "tokenizer.json")
    with pytest.raises(InputError, match=r"tokenizer\.json"):
        check_folder(tmp_path)


@pytest.mark.parametrize("read", [read_text, read_json, read_array, read_arrays, read_parquet, read_tensors])
def test_a_pipe_is_refused_and_not_waited_for(read: object, tmp_path: Path) -> None:
    if read is read_tensors:
        pytest.importorskip("safetensors")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError, match="pipe"):
        read(tmp_path / "pipe.json")  # type: ignore[operator]


def test_a_pipe_or_device_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.html")
    with pytest.raises(InputError, match="pipe"):
        write_atomic(tmp_path / "pipe.html", "x")
    assert (tmp_path / "pipe.html").is_fifo() and len(list(tmp_path.iterdir())) == 1


def test_a_zst_file_is_read_whole_or_not_at_all(tmp_path: Path) -> None:
    """The library's own reader ends without a word where a file was cut."""
    zstandard = pytest.importorskip("zstandard")
    lines = [f"line {number} of {number**3}" for number in range(5_000)]
    packed = zstandard.ZstdCompressor().compress("".join(f"{line}\n" for line in lines).encode())
    file = tmp_path / "lines.txt.zst"

    def read(content: bytes) -> list[str]:
        file.write_bytes(content)
        return [line.decode() for _, line in iter_lines(file)]

    assert read(packed) == lines
    assert read(packed * 2) == lines * 2  # frame behind frame, as parallel packers write
    assert read(b"") == []
    changed = bytearray(packed)
    changed[len(packed) // 2] ^= 16
    rest = (packed[:-1], packed[:5], packed[: len(packed) // 3], packed + packed[:9], packed + b"more", bytes(changed))
    for content in rest:
        with pytest.raises(InputError, match=r"lines\.txt\.zst"):
            read(content)


def test_a_zst_bomb_is_refused(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    file = tmp_path / "bomb.txt.zst"
    file.write_bytes(zstandard.ZstdCompressor(level=1).compress(b"a" * 10_000_000 + b"\n") * 20)
    with pytest.raises(InputError, match="unpacks to more than"):
        list(iter_lines(file))


def test_external_data_at_a_name_that_is_no_text_is_one_line(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    weights = [onnx.numpy_helper.from_array(np.zeros(400, dtype=np.float32), name) for name in ("a", "b")]
    graph = onnx.helper.make_graph([], "g", [], [], weights)
    file = tmp_path / "model.onnx"
    onnx.save_model(onnx.helper.make_model(graph), str(file), save_as_external_data=True, all_tensors_to_one_file=False)
    assert [one.name for one in data_files(file)] == ["a", "b"]
    content = file.read_bytes()
    at = content.index(b"location") + len("location") + 2  # behind it the number of the field and the length
    file.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(ModelError, match="xff"):
        data_files(file)


@pytest.mark.parametrize("name", ["[1]", "[", "1*", "?"])
def test_the_name_of_a_folder_is_no_pattern(name: str, tmp_path: Path) -> None:
    for number, folder in enumerate((name, "1", "12")):
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "table.parquet").open("wb") as file:
            pl.DataFrame({"number": [number]}).write_parquet(file)
    assert read_parquet(tmp_path / name / "table.parquet")["number"].to_list() == [0]


def test_a_model_whose_parts_are_no_text_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """onnxruntime cannot say what is wrong with it, and would announce that it tries again."""
    onnx = pytest.importorskip("onnx")
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.INT64, [1]) for name in "xy"]
    graph = onnx.helper.make_graph([onnx.helper.make_node("NopX", ["x"], ["y"])], "g", values[:1], values[1:])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    file = tmp_path / "model.onnx"
    file.write_bytes(model.SerializeToString().replace(b"NopX", b"Nop\xef"))
    with pytest.raises(ModelError, match=r"model\.onnx"):
        open_session(file, None)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("fields", [{"num_hidden_layers": 10**30}, {"text_config": {"n_layer": 10**9}}])
def test_a_network_without_end_is_not_built(fields: dict[str, object], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(fields), encoding="utf-8")
    with pytest.raises(ModelError, match="layer"):
        check_folder(tmp_path)
