"""Files of a corpus that lie elsewhere: ``s3://``, ``gs://``, ``https://`` and whatever else fsspec reads.

Nothing is asked of the network unless such an address is given. Credentials and endpoints are those that the storage's
own tools use (for S3: ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL`` and so on).
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from evenli._extras import need
from evenli.errors import EvenliError, InputError, MissingExtraError

_BUFFER = 1 << 20
_BLOCK = 8 << 20
"""Bytes asked of a storage at a time."""
_TAGS = ("ETag", "etag", "Content-MD5", "md5Hash", "mtime", "LastModified", "last_modified", "Last-Modified", "created")
"""What tells two contents of one name apart, the best first; each storage has some of them."""


def is_remote(source: object) -> bool:
    """Whether a source is an address such as ``s3://bucket/folder``."""
    return isinstance(source, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+://", source) is not None


class RemoteFile:
    """One file behind an address, at ``path`` of an fsspec file system; it is used like a ``Path`` that is read."""

    def __init__(self, url: str, system: Any, path: str) -> None:
        self.url, self._system, self._path = url, system, path
        pure = PurePosixPath(urlsplit(url).path if _is_web(url) else url)  # a web address may have a query
        self.name, self.suffix, self.suffixes = pure.name, pure.suffix, pure.suffixes
        self._copy: Path | None = None

    def __str__(self) -> str:
        return self.url

    @cached_property
    def info(self) -> tuple[int, str]:
        """Size in bytes, 0 if the storage does not tell, and what changes with the content."""
        with remote_errors(self.url):
            about = self._system.info(self._path)
        tag = next((f"{name}={about[name]}" for name in _TAGS if about.get(name)), "")
        return int(about.get("size") or 0), tag

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """A stream of the bytes, read a block at a time."""
        # A web server need not answer to a part of a file, so of it the whole is read in one go.
        block = 0 if _is_web(self.url) else _BLOCK
        with remote_errors(self.url):
            return io.BufferedReader(self._system.open(self._path, mode, block_size=block), _BUFFER)

    @contextlib.contextmanager
    def local(self) -> Iterator[Path]:
        """A copy on this machine's disk, for a format that is read in leaps; gone once it was read to the end."""
        if self._copy is None:
            self._folder = tempfile.TemporaryDirectory(prefix="evenli-")
            copy = Path(self._folder.name) / self.name
            with self.open() as stream, copy.open("wb") as target:
                shutil.copyfileobj(stream, target, _BUFFER)
            self._copy = copy
        yield self._copy
        self._copy = None
        self._folder.cleanup()


def remote_files(url: str) -> list[RemoteFile]:
    """The file, the files of the directory or those that match the glob pattern behind an address."""
    system, path = _connect(url)
    web = _is_web(url)
    with remote_errors(url):
        # A question mark in a web address begins its query.
        if any(sign in url for sign in ("*[" if web else "*?[")):
            paths = system.glob(path)
        elif system.info(path)["type"] == "directory" or (web and url.endswith("/")):
            paths = [entry["name"] for entry in system.ls(path, detail=True) if entry["type"] == "file"]
        else:
            return [RemoteFile(url, system, path)]
    return [RemoteFile(str(system.unstrip_protocol(path)), system, path) for path in paths]


@contextlib.contextmanager
def remote_errors(url: str) -> Iterator[None]:
    """Turn what a storage raises into one line; each has errors of its own kind."""
    try:
        yield
    except EvenliError:
        raise
    except Exception as error:
        reason: BaseException = error
        if isinstance(error, FileNotFoundError):
            # Of a web address fsspec says so whatever went wrong; the cause tells whether a server answered.
            cause = error.__cause__ if _is_web(url) else None
            if cause is None or isinstance(cause, FileNotFoundError) or getattr(cause, "status", None) == 404:
                raise InputError(f"no such file or directory: {url}") from error
            reason = cause
        text = " ".join(str(reason).split())[:200] or type(reason).__name__
        raise InputError(f"cannot read {url}: {text}; check the address, the network and your credentials") from error


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _connect(url: str) -> tuple[Any, str]:
    fsspec = need("fsspec", extra="scale", purpose=f"reading {url}")
    options: dict[str, Any] = {}
    if _is_web(url):
        # By default a download ends after five minutes, whether or not it is getting on.
        aiohttp = need("aiohttp", extra="scale", purpose=f"reading {url}")
        options["client_kwargs"] = {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=30, sock_read=120)}
    try:
        system, path = fsspec.core.url_to_fs(url, **options)
    except ImportError as error:
        if url.lower().startswith(("s3://", "s3a://")):
            raise MissingExtraError("s3fs", "scale", f"reading {url}") from error
        raise InputError(f"reading {url} needs another package: {' '.join(str(error).split())}") from error
    except ValueError as error:
        raise InputError(f"cannot read {url}: {' '.join(str(error).split())}") from error
    return system, str(path)
