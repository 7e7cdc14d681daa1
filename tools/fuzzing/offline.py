"""Run every command where nothing can be reached, and record every attempt to reach something.

It is meant for a network namespace of its own (``unshare -rnm``): there is no route, and the resolver is ours. Three
records are kept for each command: what Python asks of its socket module (audit events), the names that the resolver is
asked for, and the counters of the kernel for this namespace, which see libraries in C as well.

    unshare -rnm python tools/fuzzing/offline.py RESULT.json SEEDS WORK [COMMAND ...]
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[2] / "src")]

HUB: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "audit of a hub id": (("audit", "someone/some-model"), ()),
    "audit of the embedded model": (("audit", "--data", "pairs.jsonl"), ("pairs",)),
    "seat of a hub id": (("seat", "hf:someone/some-model"), ()),
    "train nli from a hub id": (
        ("train", "nli", "someone/x", "--data", "corpus.jsonl", "-o", "o"),
        ("corpus",),
    ),
}
"""Calls that name something elsewhere; without --online nothing is looked up for them either."""
_EVENTS = {"socket.getaddrinfo", "socket.gethostbyname", "socket.connect", "socket.sendto", "socket.sendmsg"}
_COUNTERS = {"Tcp": ("ActiveOpens",), "Udp": ("OutDatagrams", "NoPorts"), "Ip": ("OutNoRoutes",)}


def loopback_up() -> None:
    """A new namespace has a loopback device that is switched off; the resolver needs it."""
    up, get, put = 1, 0x8913, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        (flags,) = struct.unpack_from("H", fcntl.ioctl(handle, get, request), 16)
        fcntl.ioctl(handle, put, struct.pack("16sH14s", b"lo", flags | up, b""))


def resolver(names: list[str]) -> None:
    """Answer every question with an error, and remember the name."""
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.bind(("127.0.0.1", 53))

    def serve() -> None:
        while True:
            question, asker = server.recvfrom(4096)
            labels, at = [], 12
            while question[at]:
                labels.append(question[at + 1 : at + 1 + question[at]].decode("ascii", "replace"))
                at += question[at] + 1
            names.append(".".join(labels))
            server.sendto(question[:2] + b"\x81\x83" + question[4:12] + question[12:], asker)

    threading.Thread(target=serve, daemon=True).start()


def use_resolver() -> None:
    """Put our resolver in the place of the system's, in this mount namespace only."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
        file.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    subprocess.run(["mount", "--bind", file.name, str(Path("/etc/resolv.conf").resolve())], check=True)


def counters() -> dict[str, int]:
    """Connections, datagrams and packets without a route, of this namespace."""
    lines = [line.split() for line in Path("/proc/net/snmp").read_text(encoding="ascii").splitlines()]
    counted = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        table = dict(zip(names[1:], values[1:], strict=True))
        kind = names[0].rstrip(":")
        counted |= {f"{kind}.{name}": int(table[name]) for name in _COUNTERS.get(kind, ())}
    return counted


def main() -> None:
    """Run the commands and write what was seen."""
    result, seeds, work = (Path(word).resolve() for word in sys.argv[1:4])
    chosen = sys.argv[4:]
    asked: list[str] = []
    names: list[str] = []
    loopback_up()
    use_resolver()
    resolver(names)
    # The recorder itself must see something, or its silence would mean nothing.
    before = counters()
    control = subprocess.run(["getent", "hosts", "control.example"], capture_output=True, check=False).returncode
    seen = counters()
    record: dict[str, Any] = {"control": {"names": list(names), "counters": _grown(before, seen), "code": control}}

    from fuzzing.check import Runner
    from fuzzing.seeds import copy_seeds
    from fuzzing.targets import VALID, commands

    calls = {name: ((*name.split(), *VALID[name][0]), VALID[name][1]) for name in commands()} | HUB
    calls = {name: call for name, call in calls.items() if not chosen or name in chosen}
    folders = {name: copy_seeds(seeds, call[1], work / f"case {n}") for n, (name, call) in enumerate(calls.items())}
    sys.addaudithook(lambda event, given: asked.append(f"{event}{given}") if event in _EVENTS else None)
    run = Runner(work, limit=300)
    for name, (words, _) in calls.items():
        asked.clear(), names.clear()
        before = counters()
        os.chdir(folders[name])
        started = time.monotonic()
        outcome = run(words)
        grown = _grown(before, counters())
        about = {
            "seconds": round(time.monotonic() - started, 2),
            "code": outcome.code,
            "error": outcome.error or outcome.stderr[-500:],
        }
        record[name] = {**about, "asked": list(asked), "names": list(names), "counters": grown}
        result.write_text(json.dumps(record, indent=1), encoding="utf-8")


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: after[name] - before[name] for name in after if after[name] != before[name]}


if __name__ == "__main__":
    main()
