"""What a target of the fuzzer is."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

Words = tuple[str, ...]
SEAT = ("--tests", "own.json", "--permutations", "100")
CPU = ("--device", "cpu")


@dataclass(frozen=True)
class Target:
    """One command on one kind of input.

    Attributes:
        name: Its name for ``--only``.
        words: The command line; file names are relative to the folder of the case.
        seeds: Valid inputs that are copied there.
        files: Patterns of the files that may be damaged; empty if the words themselves are.
        change: Makes the words of a case, where words are damaged.
        evidence: Whether what the command says must not change: damage is refused or changes nothing.
        output: A file that is part of what it says.
        weight: How often it is chosen.
        torch: Whether it needs torch, which the quick mode leaves out.
        refused: Whether undamaged input is refused as well; of all others it has to be accepted.
    """

    name: str
    words: Words
    seeds: Words = ()
    files: Words = ()
    change: Callable[[random.Random, Words], Words] | None = None
    evidence: bool = False
    output: str = ""
    weight: float = 1
    torch: bool = False
    refused: bool = False
