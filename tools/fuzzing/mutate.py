"""Damage to files: by structure where the kind is known, by bytes everywhere, and to whole files and archives."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import random
import shutil
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomllib

FORGED = "FORGED-LINE"
"""Stands behind a line end in some texts: no line of the output may begin with it."""
SURROGATE = "\ud800"
TEXTS = (
    "",
    " ",
    "\x00",
    "\x1b[2J\x1b]0;title\x07",
    f"good\n{FORGED} passed",
    f"good\r{FORGED}",
    f"a\x85{FORGED}",
    "\x9b31m",
    SURROGATE,
    "\ufeff",
    "\u202e\u2066",
    "é" * 3,
    "x" * 70_000,
    "../../../etc/passwd",
    "/dev/zero",
    "py:os:system",
    "=1+1",
    "nan",
    "-1",
    "[Sub]",
    "{a}",
    "<script>alert(1)</script>",
    "[bold]x[/bold]",
    "[/x]",
    "NaN",
    "1e999",
    "a,b",
    "%s%n",
    "日本語",
    "\u2028",
)
NUMBERS = (0, -1, 1, 2, 3, 0.5, 1e308, -1e308, 2**31, 2**63, 2**64, 10**30, float("nan"), float("inf"), -0.0, 1e-320)
_DEEP = 3_000


class Raw(str):
    """Text that stands in JSON as it is."""


def scalar(rng: random.Random) -> Any:
    """A value that hardly any reader expects."""
    kind = rng.randrange(8)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind < 5:
        return rng.choice(NUMBERS)
    if kind == 5:
        return rng.choice((None, True, False, [], {}, [[]], {"": None}, [None], [1, "a"], {"value": {}}))
    if kind == 6:
        return Raw(rng.choice(("9" * 5_000, "[" * _DEEP + "]" * _DEEP, '{"a":' * _DEEP + "1" + "}" * _DEEP, "1e999")))
    return rng.choice(("en", "gender", "complete", "running", "coal", "fake:even", 1, 2, 99))


def dump(value: Any) -> str:
    """JSON with raw parts, lone surrogates and numbers that are none."""
    raws: list[Raw] = []

    def plain(item: Any) -> Any:
        if isinstance(item, Raw):
            raws.append(item)
            return f"@raw{len(raws) - 1}@"
        if isinstance(item, dict):
            return {str(key): plain(part) for key, part in item.items()}
        return [plain(part) for part in item] if isinstance(item, list | tuple) else item

    text = json.dumps(plain(value), ensure_ascii=False, default=str)
    for number, raw in enumerate(raws):
        text = text.replace(f'"@raw{number}@"', raw)
    # A lone surrogate has no UTF-8 form; JSON spells it.
    return "".join(f"\\u{ord(c):04x}" if "\ud800" <= c <= "\udfff" else c for c in text)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with each of its keys or positions."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(places) < 5_000:
        item = waiting.pop()
        if isinstance(item, dict):
            places += [(item, key) for key in item]
            waiting += list(item.values())
        elif isinstance(item, list):
            places += [(item, at) for at in range(len(item))]
            waiting += item
    return places


def tree(rng: random.Random, value: Any) -> Any:
    """Damage one to three places of a JSON value."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        places = _places(value)
        if not places or rng.random() < 0.03:
            return scalar(rng)
        holder, key = rng.choice(places)
        step = rng.randrange(8)
        if step == 0:
            del holder[key]
        elif step == 1 and isinstance(holder, dict):
            holder[rng.choice((f"{key}x", str(key).upper(), rng.choice(TEXTS)))] = holder.pop(key)
        elif step == 2:
            other, at = rng.choice(places)
            with_other = other[at] if (isinstance(other, dict) and at in other) else None
            holder[key] = with_other if with_other is None or not isinstance(with_other, dict | list) else scalar(rng)
        elif step == 3 and isinstance(holder, list):
            holder.insert(key, holder[key])
        elif step == 4 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = rng.choice((holder[key] + 1, -holder[key], holder[key] * 1.5, str(holder[key])))
        elif step == 5 and isinstance(holder[key], str):
            text, at = holder[key], rng.randrange(len(holder[key]) + 1)
            holder[key] = text[:at] + rng.choice(TEXTS) + text[at:]
        else:
            holder[key] = scalar(rng)
    return value


def json_file(rng: random.Random, content: bytes) -> bytes:
    """Structural damage to a JSON file."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return bits(rng, content)
    text = dump(tree(rng, value))
    if rng.random() < 0.05 and text.startswith("{") and isinstance(value, dict) and value:
        # The same key twice: the last one counts for most readers, the first for some.
        text = "{" + json.dumps(str(rng.choice(list(value)))) + ": 1, " + text[1:]
    return text.encode("utf-8", "surrogatepass")


def json_lines(rng: random.Random, content: bytes) -> bytes:
    """Damage to rows of JSON Lines."""
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    if rng.random() < 0.7 and lines[at].strip():
        lines[at] = json_file(rng, lines[at])
        if rng.random() < 0.2:  # the same everywhere
            lines = [json_file(random.Random(at), line) if line.strip() else line for line in lines]
    else:
        lines = _lines(rng, lines)
    return b"\n".join(lines)


def _lines(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    at, step = rng.randrange(len(lines)), rng.randrange(6)
    if step == 0:
        del lines[at]
    elif step == 1:
        lines.insert(at, lines[at])
    elif step == 2:
        rng.shuffle(lines)
    elif step == 3:
        lines = lines[:at]
    elif step == 4:
        lines.insert(at, rng.choice((b"", b"null", b"[]", b"\x00", b"\xff\xfe", b"1", b'"', b",,,", b"\t\t")))
    else:
        lines[at] = rng.choice(TEXTS).encode("utf-8", "surrogatepass")
    return lines


def table(rng: random.Random, content: bytes, delimiter: str) -> bytes:
    """Damage to the cells, rows and header of a table."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode("utf-8"), newline=""), delimiter=delimiter))
    except (UnicodeDecodeError, csv.Error):
        return bits(rng, content)
    if not rows or not rows[0]:
        return bits(rng, content)
    for _ in range(rng.choice((1, 1, 2))):
        at = 0 if rng.random() < 0.2 else rng.randrange(len(rows))
        row = rows[at]
        column = rng.randrange(len(row)) if row else 0
        step = rng.randrange(6)
        if step == 0 and row:
            del row[column]
        elif step == 1:
            row.insert(column, rng.choice(TEXTS))
        elif step == 2 and row:
            rows = [one[:column] + one[column + 1 :] for one in rows]
        elif step == 3 and row:
            row[column] = str(rng.choice(NUMBERS))
        elif step == 4:
            rows.insert(at, list(rng.choice(rows)))
        elif row:
            row[column] = rng.choice(TEXTS)
    out = io.StringIO(newline="")
    try:
        csv.writer(out, delimiter=delimiter, escapechar="\\", lineterminator="\n").writerows(rows)
    except csv.Error:
        return bits(rng, content)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _toml(value: Any) -> str:
    """A value inline; what TOML cannot say becomes text."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))} = {_toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Raw):
        return str(value) if value[0] in "[9" else '"raw"'
    if isinstance(value, int | float):
        return str(value)
    return json.dumps("" if value is None else str(value), ensure_ascii=False)


def toml_file(rng: random.Random, content: bytes) -> bytes:
    """Structural damage to a TOML file."""
    try:
        value = tree(rng, tomllib.loads(content.decode("utf-8")))
    except (ValueError, RecursionError):
        return bits(rng, content)
    if not isinstance(value, dict):
        return _toml(value).encode("utf-8", "surrogatepass")
    lines = (f"{json.dumps(str(key))} = {_toml(item)}\n" for key, item in value.items())
    return "".join(lines).encode("utf-8", "surrogatepass")


def bits(rng: random.Random, content: bytes) -> bytes:
    """Damage to bytes: flips, cuts, insertions, blocks."""
    data = bytearray(content)
    step = rng.randrange(8)
    at = rng.randrange(len(data) + 1)
    if step <= 1 and data:
        for _ in range(rng.choice((1, 1, 4))):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif step == 2:
        del data[at:]
    elif step == 3:
        data[at:at] = rng.randbytes(rng.choice((1, 8, 300)))
    elif step == 4:
        del data[at : at + rng.choice((1, 4, 64))]
    elif step == 5:
        size = min(64, len(data) - at)
        data[at : at + size] = bytes(size)
    elif step == 6:
        data += data[: rng.choice((1, 100))]
    else:
        data = bytearray(rng.choice((b"", b"\x00", b"PAR1", b"\x1f\x8b", b"PK\x03\x04", rng.randbytes(200))))
    return bytes(data)


def encoding(rng: random.Random, content: bytes) -> bytes:
    """The same text in another encoding, with other line ends, a mark, or control characters."""
    text = content.decode("utf-8", "replace")
    at = rng.randrange(len(text) + 1)
    change: Callable[[], bytes] = rng.choice(
        (
            lambda: b"\xef\xbb\xbf" + content,
            lambda: content.replace(b"\n", b"\r\n"),
            lambda: content.replace(b"\n", b"\r"),
            lambda: text.encode("utf-16"),
            lambda: text.encode("utf-32"),
            lambda: text.encode("latin-1", "replace") + b"\xe9",
            lambda: (text[:at] + rng.choice(TEXTS) + text[at:]).encode("utf-8", "surrogatepass"),
            lambda: content + content,
            lambda: b"\n" * 50 + content,
        )
    )
    return change()


def safetensors(rng: random.Random, content: bytes) -> bytes:
    """Damage to the header or the numbers of a safetensors file."""
    if len(content) < 8 or rng.random() < 0.3:
        return bits(rng, content)
    (size,) = struct.unpack("<Q", content[:8])
    if rng.random() < 0.1:
        return struct.pack("<Q", rng.choice((0, 1, size + 1, 2**40, 2**63))) + content[8:]
    if rng.random() < 0.3:
        data = bytearray(content)
        at = rng.randrange(8 + size, max(9 + size, len(data) - 4))
        data[at : at + 4] = struct.pack("<f", rng.choice((float("nan"), float("inf"), 1e30)))
        return bytes(data)
    header = json_file(rng, content[8 : 8 + size])
    return struct.pack("<Q", len(header)) + header + content[8 + size :]


def array(rng: random.Random, content: bytes) -> bytes:
    """Damage to a .npy or .npz file, by arrays."""
    import numpy as np

    if rng.random() < 0.3:
        return bits(rng, content)
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        arrays = dict(loaded) if hasattr(loaded, "files") else {"": loaded}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile):
        return bits(rng, content)
    name = rng.choice(list(arrays))
    one = arrays[name]
    step = rng.randrange(7)
    if step == 0 and one.dtype.kind == "f" and one.size:
        one = one.copy()
        one.flat[rng.randrange(one.size)] = rng.choice((np.nan, np.inf, 1e30))
    elif step == 1:
        one = one[:-1] if one.ndim and len(one) else np.array(3)
    elif step == 2:
        one = (
            one.astype(rng.choice(("U5", "float16", "int8", "complex64")))
            if one.dtype.kind in "fi"
            else one.reshape(-1)[:0]
        )
    elif step == 3:
        one = one[None]
    elif step == 4:
        one = one[:0] if one.ndim else np.zeros((0, 3))
    elif step == 5:
        one = np.array(rng.choice(TEXTS).replace(SURROGATE, "?"))
    else:
        one = one.reshape(-1)
    arrays[name] = one
    if len(arrays) > 1 and rng.random() < 0.15:
        del arrays[rng.choice(list(arrays))]
    buffer = io.BytesIO()
    if list(arrays) == [""]:
        np.save(buffer, arrays[""])
    else:
        np.savez(buffer, **arrays)
    return buffer.getvalue()


def parquet(rng: random.Random, content: bytes) -> bytes:
    """Damage to a Parquet file, by columns and rows."""
    import polars as pl

    if rng.random() < 0.4:
        return bits(rng, content)
    try:
        frame = pl.read_parquet(io.BytesIO(content))
    except Exception:  # already damaged
        return bits(rng, content)
    column = rng.choice(frame.columns or ["x"])
    step = rng.randrange(9)
    try:
        if step == 0:
            frame = frame.drop(column)
        elif step == 1:
            frame = frame.rename({column: rng.choice(("id", "x", "premise", "suite", "\x1b[2J"))})
        elif step == 2:
            frame = frame.with_columns(pl.lit(None).alias(column))
        elif step == 3:
            frame = frame.with_columns(pl.lit(scalar(rng), allow_object=False).alias(column))
        elif step == 4:
            frame = frame.with_columns(pl.col(column).cast(rng.choice((pl.String, pl.Binary, pl.Int8)), strict=False))
        elif step == 5:
            frame = frame.sample(fraction=1, shuffle=True, seed=rng.randrange(99))
        elif step == 6:
            frame = frame.head(rng.randrange(frame.height + 1))
        elif step == 7:
            frame = pl.concat([frame, frame.head(1)])
        else:
            frame = frame.with_columns(pl.col(column).shuffle(seed=rng.randrange(99)))
        buffer = io.BytesIO()
        frame.write_parquet(buffer)
    except Exception:  # a value that Parquet cannot hold
        return bits(rng, content)
    return buffer.getvalue()


_UNPACK = {".gz": gzip.decompress, ".xz": lzma.decompress, ".bz2": bz2.decompress}
_PACK = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress}


def packed(rng: random.Random, name: str, content: bytes) -> bytes:
    """Damage inside or outside of a packing; a tar archive also by members."""
    path = Path(name)
    if rng.random() < 0.4:
        return bits(rng, content)
    if path.suffix == ".zst":
        try:
            import zstandard
        except ImportError:
            return bits(rng, content)
        inner = zstandard.ZstdDecompressor().decompressobj().decompress(content)
        return bytes(zstandard.ZstdCompressor().compress(file(rng, path.stem, inner)))
    try:
        inner = _UNPACK[path.suffix](content)
    except (OSError, EOFError, lzma.LZMAError, zlib.error):
        return bits(rng, content)
    if path.stem.endswith(".tar"):
        return _PACK[path.suffix](tar(rng, inner))
    if rng.random() < 0.05:  # many members behind each other, or rubbish behind the end
        return content + rng.choice((content, b"\x00" * 20, b"rubbish"))
    return _PACK[path.suffix](file(rng, path.stem, inner))


def tar(rng: random.Random, content: bytes) -> bytes:
    """Damage to a tar archive: members, names, links, sizes."""
    if rng.random() < 0.2:
        return bits(rng, content)
    try:
        return _tar(rng, content)
    except (tarfile.TarError, ValueError):  # already damaged
        return bits(rng, content)


def _tar(rng: random.Random, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as source, tarfile.open(fileobj=buffer, mode="w") as out:
        members = source.getmembers()
        chosen, step = rng.randrange(len(members)), rng.randrange(7)
        for number, member in enumerate(members):
            stream = source.extractfile(member) if member.isfile() else None
            data = stream.read() if stream else b""
            if number == chosen and step == 0:
                continue
            if number == chosen and step == 1:
                member.name = rng.choice(("../../evil.json", "/tmp/evil.json", "a" * 300, "x\n" + FORGED, ""))
            if number == chosen and step == 2:
                member.type, member.linkname = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE)), "/etc/passwd"
                member.size, data = 0, b""
            if number == chosen and step == 3:
                member.type = rng.choice((tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE))
                member.size, data = 0, b""
            if number == chosen and step >= 4 and member.isfile():
                data = file(rng, member.name, data)
                member.size = len(data)
            out.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def file(rng: random.Random, name: str, content: bytes) -> bytes:
    """Damage to the content of a file, as its name says what it is."""
    suffix = Path(name).suffix.lower()
    if suffix in (*_UNPACK, ".zst"):
        return packed(rng, name, content)
    kind = rng.random()
    if suffix in {".parquet"}:
        return parquet(rng, content)
    if suffix in {".npy", ".npz"}:
        return array(rng, content)
    if suffix == ".safetensors":
        return safetensors(rng, content)
    if suffix == ".tar":
        return tar(rng, content)
    if suffix in {".onnx", ".bin"} or kind < 0.12:
        return bits(rng, content)
    if kind < 0.25:
        return encoding(rng, content)
    if suffix == ".jsonl" or (suffix == ".json" and content.count(b"\n{") and content[:1] == b"{"):
        return json_lines(rng, content)
    if suffix in {".json"}:
        return json_file(rng, content)
    if suffix in {".csv", ".tsv"}:
        return table(rng, content, "," if suffix == ".csv" else "\t")
    if suffix == ".toml":
        return toml_file(rng, content)
    return b"\n".join(_lines(rng, content.split(b"\n"))) if kind < 0.7 else encoding(rng, content)


def damage(rng: random.Random, path: Path, others: list[Path]) -> str:
    """Damage one file in place; returns in a word what was done. ``others`` are files it may change places with."""
    if rng.random() < 0.08:
        return _whole(rng, path, others)
    before = path.read_bytes()
    try:
        after = file(rng, path.name, before)
    except Exception:  # it was damaged before, so that its structure is gone
        after = bits(rng, before)
    path.write_bytes(after)
    return "content" if after != before else "nothing"


def _whole(rng: random.Random, path: Path, others: list[Path]) -> str:
    step = rng.randrange(6)
    if step == 0:
        path.unlink()
        return "deleted"
    if step == 1:
        path.unlink()
        path.mkdir()
        return "a directory"
    if step == 2:
        path.unlink()
        os.mkfifo(path)
        return "a pipe"
    if step == 3:
        path.unlink()
        path.symlink_to(rng.choice(("/dev/null", "nowhere", path.name, "/dev/full")))
        return "a link"
    if step == 4 and others:
        other = rng.choice(others)
        shutil.copyfile(other, path)
        return f"replaced by {other.name}"
    path.chmod(0o000)
    return "unreadable"
