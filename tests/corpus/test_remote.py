"""Corpora behind an address: the same bytes as from the disk, one line where nothing answers."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest
from test_corpus import Lengths, digest

from evenli.core.errors import InputError, MissingExtraError, RunError
from evenli.corpus import run as corpus
from evenli.corpus.run import corpus_texts, score_corpus
from evenli.corpus.scored import CorpusScores
from evenli.corpus.source import (
    RemoteFile,
    SourceRecord,
    fingerprint,
    is_remote,
    read_records,
    remote_files,
    source_files,
)

fsspec = pytest.importorskip("fsspec")
ROWS = [{"premise": f"a man {n}", "hypothesis": "é word " * (n % 5), "label": "neutral"} for n in range(60)]


@pytest.fixture
def memory() -> Iterator[object]:
    system = fsspec.filesystem("memory")
    system.store.clear()
    system.pseudo_dirs[:] = [""]
    yield system
    system.store.clear()


def content(name: str) -> bytes:
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in ROWS).encode()
    match name.partition(".")[2]:
        case "jsonl":
            return lines
        case "jsonl.gz":
            return gzip.compress(lines)
        case "txt":
            return "".join(f"{row['premise']}\n" for row in ROWS).encode()
        case "csv":
            return ("premise,hypothesis\n" + "".join(f"{r['premise']},{r['hypothesis']}\n" for r in ROWS)).encode()
    raise AssertionError(name)


def shards(path: Path) -> list[str]:
    return [value for name, value in digest(path).items() if name != "scores.json"]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.jsonl.gz", "lines.txt", "pairs.csv", "pairs.parquet"])
def test_the_same_bytes_as_from_the_disk(tmp_path: Path, memory, monkeypatch, name: str) -> None:
    monkeypatch.setattr(corpus, "SHARD_ROWS", 25)
    if name.endswith("parquet"):
        pl.DataFrame(ROWS).write_parquet(tmp_path / name)
    else:
        (tmp_path / name).write_bytes(content(name))
    memory.pipe(f"/bucket/{name}", (tmp_path / name).read_bytes())
    score_corpus(tmp_path / name, tmp_path / "disk", Lengths())
    scores = score_corpus(f"memory://bucket/{name}", tmp_path / "memory", Lengths())
    assert len(scores.shards) == 3 and shards(tmp_path / "memory") == shards(tmp_path / "disk")
    source = scores.header["source"]
    assert (source["files"], source["bytes"]) == ([name], (tmp_path / name).stat().st_size)
    assert source["method"] == "address, size and tag"
    assert list(corpus_texts(f"memory://bucket/{name}"))[:1] == ["a man 0"]


def test_folder_and_glob(tmp_path: Path, memory) -> None:
    for name, word in (("b.jsonl", "second"), ("a.jsonl", "first"), (".hidden.jsonl", "never"), ("notes.md", "no")):
        memory.pipe(f"/bucket/{name}", json.dumps({"text": word}).encode())
    memory.pipe("/bucket/deeper/c.jsonl", b'{"text": "deeper"}')
    assert list(corpus_texts("memory://bucket")) == ["first", "second"]
    assert list(corpus_texts("memory://bucket/b*.jsonl")) == ["second"]
    assert list(corpus_texts("memory://bucket/**/*.jsonl")) == ["first", "second", "deeper"]
    with pytest.raises(InputError, match=r"memory://bucket/\*.csv"):
        source_files("memory://bucket/*.csv")
    with pytest.raises(InputError, match="notes.md"):
        source_files("memory://bucket/notes.md")


def test_a_run_goes_on_unless_the_source_changed(tmp_path: Path, memory, monkeypatch) -> None:
    monkeypatch.setattr(corpus, "SHARD_ROWS", 25)
    url = "memory://bucket/lines.txt"
    memory.pipe("/bucket/lines.txt", content("lines.txt"))
    with pytest.raises(KeyboardInterrupt):
        score_corpus(url, tmp_path / "out", Lengths(fail_after=30))
    scorer = Lengths()
    score_corpus(url, tmp_path / "out", scorer)
    assert len(scorer.seen) == 35 and CorpusScores.read(tmp_path / "out").rows == 60
    memory.pipe("/bucket/lines.txt", content("lines.txt").upper())  # of the same size
    with pytest.raises(RunError, match="source"):
        score_corpus(url, tmp_path / "out", Lengths())


def test_files_are_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "large.jsonl").write_text('{"text": "a man"}\n' * 600_000, encoding="utf-8")
    file = remote_files(f"file://{tmp_path}/large.jsonl")[0]
    streams = []
    monkeypatch.setattr(file, "open", lambda mode="rb", really=file.open: streams.append(really(mode)) or streams[-1])
    records = read_records(file)
    assert next(records) == SourceRecord(b'{"text": "a man"}', "large.jsonl", 1)
    assert streams[0].raw.tell() <= 1 << 20 < (tmp_path / "large.jsonl").stat().st_size
    records.close()
    assert streams[0].closed


def test_a_copy_of_parquet_does_not_stay(tmp_path: Path, memory) -> None:
    pl.DataFrame(ROWS).write_parquet(tmp_path / "pairs.parquet")
    memory.pipe("/bucket/pairs.parquet", (tmp_path / "pairs.parquet").read_bytes())
    (file,) = remote_files("memory://bucket/pairs.parquet")
    with file.local() as copy:
        assert pl.read_parquet(copy).height == 60
    assert not copy.exists()


@pytest.mark.parametrize(
    ("info", "tag"),
    [
        ({"size": 3, "ETag": '"a"', "LastModified": "x"}, 'ETag="a"'),
        ({"size": 3, "mtime": 5, "created": 4}, "mtime=5"),
        ({"size": None, "Last-Modified": "Mon"}, "Last-Modified=Mon"),
        ({"size": 3}, ""),
    ],
)
def test_what_tells_contents_apart(info: dict[str, object], tag: str) -> None:
    class System:
        def info(self, path: str) -> dict[str, object]:
            return info

    file = RemoteFile("s3://bucket/a.txt", System(), "bucket/a.txt")
    assert file.info == (info["size"] or 0, tag)
    other = RemoteFile("s3://bucket/b.txt", System(), "bucket/b.txt")
    assert fingerprint([file])["hash"] != fingerprint([other])["hash"]


def test_names() -> None:
    for source, expected in (("s3://b/c", True), ("https://h/a.csv", True), ("C://x", False), ("a sentence", False)):
        assert is_remote(source) is expected
    web = RemoteFile("https://host/data/a.jsonl.gz?version=1.2", None, "")
    assert (web.name, web.suffixes, str(web)) == ("a.jsonl.gz", [".jsonl", ".gz"], web.url)


def test_what_cannot_be_read_is_one_line(memory, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="none.txt"):
        source_files("memory://bucket/none.txt")
    with pytest.raises(InputError, match="nonsense"):
        source_files("nonsense://x")
    memory.pipe("/bucket/a.jsonl.gz", b"no gzip")
    with pytest.raises(InputError, match="a.jsonl.gz") as caught:
        list(corpus_texts("memory://bucket/a.jsonl.gz"))
    assert "\n" not in str(caught.value)
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match="s3fs"):
        source_files("s3://b/x.txt")
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(MissingExtraError, match="aiohttp"):
        source_files("https://b/x.txt")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingExtraError, match="fsspec"):
        source_files("memory://b/x.txt")


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_web_server(tmp_path: Path, run_cli) -> None:
    """A server that cannot send parts of a file."""
    pytest.importorskip("aiohttp")
    (tmp_path / "web").mkdir()
    (tmp_path / "web/pairs.jsonl.gz").write_bytes(content("pairs.jsonl.gz"))
    score_corpus(tmp_path / "web/pairs.jsonl.gz", tmp_path / "disk", Lengths())
    with serving(tmp_path / "web") as url:
        score_corpus(f"{url}/pairs.jsonl.gz", tmp_path / "out", Lengths())
        assert shards(tmp_path / "out") == shards(tmp_path / "disk")
        assert list(corpus_texts(f"{url}/"))[:1] == ["a man 0"]
        with pytest.raises(InputError, match="none.txt"):
            source_files(f"{url}/none.txt")
    (tmp_path / "vectors.txt").write_text("she 1 0\nhe -1 0\nwoman 1 0.1\nman -1 0.1\n", encoding="utf-8")
    done = run_cli("score", f"{url}/pairs.jsonl.gz", "--vectors", tmp_path / "vectors.txt", "-o", tmp_path / "cli")
    assert done.returncode == 2 and f"cannot read {url}/pairs.jsonl.gz" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real S3 endpoint on this machine: file, folder and glob; a bucket that is not there; nobody who answers."""
    s3fs = pytest.importorskip("s3fs")
    server_module = pytest.importorskip("moto.server")
    server = server_module.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    keys = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**keys, "AWS_ENDPOINT_URL": f"http://{host}:{port}"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(corpus, "SHARD_ROWS", 25)
    s3fs.S3FileSystem.clear_instance_cache()
    try:
        system = s3fs.S3FileSystem()
        system.mkdir("bucket")
        for name in ("pairs.jsonl", "pairs.jsonl.gz"):
            (tmp_path / name).write_bytes(content(name))
            system.pipe(f"bucket/folder/{name}", content(name))
        score_corpus(tmp_path / "pairs.jsonl", tmp_path / "disk", Lengths())
        scores = score_corpus("s3://bucket/folder/pairs.jsonl", tmp_path / "one", Lengths())
        assert shards(tmp_path / "one") == shards(tmp_path / "disk")
        assert scores.header["source"]["bytes"] == len(content("pairs.jsonl"))
        assert remote_files("s3://bucket/folder/pairs.jsonl")[0].info[1].startswith("ETag=")
        assert score_corpus("s3://bucket/folder", tmp_path / "all", Lengths()).rows == 120
        assert score_corpus("s3://bucket/folder/*.gz", tmp_path / "packed", Lengths()).rows == 60
        with pytest.raises(InputError, match="here.txt"):
            source_files("s3://nothing/here.txt")
    finally:
        server.stop()
    s3fs.S3FileSystem.clear_instance_cache()
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(InputError, match="s3://bucket/folder") as caught:
        source_files("s3://bucket/folder")
    assert "\n" not in str(caught.value)
    assert os.environ["AWS_ENDPOINT_URL"] in str(caught.value)
