"""The official NLI-CoAL release: reading it, repairing it, and recovering its word and template lists."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from evenli.errors import InputError
from evenli.io import archive_texts, parse_json_lines
from evenli.pairs import PairSet
from evenli.resources import Axis, Occupation, load_axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.base import SPLITS
from evenli.suites.coal.build import AS, NS, PS, SLOT, SUBSETS, fill

_FILES = {PS: "1-prostereo", AS: "2-antistereo", NS: "3-nonstereo"}
_FOLDERS = {
    ("full", False): ("all-words", "untokenized"),
    ("full", True): ("tokenized",),
    ("down", False): ("downsamp",),
    ("down", True): ("downsamp-tokenized",),
}
WIDTH = 10


def read_release(
    path: str | Path, lang: str, *, split: str = "full", tokenised: bool = False, axis: Axis | str = "gender"
) -> PairSet:
    """Read PS, AS and NS of an official release, a folder or its ``.tar.xz``.

    The set a row belongs to is the file it stands in. Where ``occ_type`` contradicts the file (16
    Japanese NS rows do), occupation and type are repaired from the sentence and a note counts them.

    Args:
        path: Release folder such as ``ja_v1.1`` or an archive of it.
        lang: Language of the release; group words of the axis must occur in every hypothesis.
        split: ``full`` or ``down`` (the downsampled sets).
        tokenised: The pre-segmented Japanese files.
        axis: Axis whose group words the release uses.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    if split not in SPLITS:
        raise InputError(f"split '{split}' is unknown; choose {' or '.join(SPLITS)}")
    files = _members(Path(path), _FOLDERS[split, tokenised])
    if not files:
        wanted = " or ".join(_FOLDERS[split, tokenised])
        raise InputError(f"{path} holds no NLI-CoAL evaluation set ({wanted}/1-prostereo….json); is it the release?")
    rows, repaired = [], 0
    words = axis.language(lang).group_words
    for subset in SUBSETS:
        origin, text = files[subset]
        raw = parse_json_lines(text, origin, ("id", "sentence1", "sentence2", "label", "occ_word", "occ_type"))
        known = {str(row["occ_word"]) for row in raw}
        for number, row in enumerate(raw, 1):
            fixed = _row(row, subset, known, words, f"{origin}, line {number}")
            repaired += bool(fixed.pop("repaired"))
            # The template is a cluster key: the same for the segmented and the plain sentence.
            if tokenised:
                fixed["template"] = str(fixed["template"]).replace(" ", "")
            rows.append(fixed)
    notes = (f"{repaired} rows carried an occupation tag of another set and were repaired",) if repaired else ()
    version = re.search(r"v\d+\.\d+", files[PS][0])
    kind = ("downsampled" if split == "down" else "full", "tokenised" if tokenised else "")
    return PairSet.from_rows(
        rows,
        name=" ".join(filter(None, ("official", version.group(0) if version else "", *kind))),
        suite="coal",
        lang=lang,
        source="NLI-CoAL release, Anantaprayoon et al. 2024 (MIT)",
        notes=notes,
    )


def recover_lists(pairs: PairSet) -> tuple[list[Occupation], list[str]]:
    """Recover the ordered occupation and template lists a full release was built from.

    Block ``k`` of ten rows holds occupation ``k`` and templates ``k .. k + 9``; so each block after the first
    adds one template. ``build_coal`` on the result gives the release again.
    """
    neutral, stereotyped = (pairs.frame.filter(pl.col("subset") == subset) for subset in (NS, PS))
    first_half = neutral.filter(pl.col("group") == neutral["group"][0])
    rows = pl.concat([first_half, stereotyped]).select("occupation", "stereotype", "template").rows()
    if len(rows) % WIDTH:
        raise InputError(f"'{pairs.name}' is not a full sliding-window set: {len(rows)} rows do not fill blocks of ten")
    blocks = [rows[start : start + WIDTH] for start in range(0, len(rows), WIDTH)]
    occupations = [Occupation(block[0][0], block[0][1], block[0][0]) for block in blocks]
    templates = [row[2] for row in blocks[0]] + [block[-1][2] for block in blocks[1:]]
    return occupations, templates


def to_official_jsonl(pairs: PairSet, subset: str) -> str:
    """Write one subset in the exact format of the release."""
    lines = []
    for row in pairs.frame.filter(pl.col("subset") == subset).iter_rows(named=True):
        stereotype = row["stereotype"]
        fields = {
            "id": int(row["id"]),
            "sentence1": row["premise"],
            "sentence2": row["hypothesis"],
            "label": row["gold"],
            "occ_word": row["occupation"],
            "occ_type": stereotype if stereotype == NO_STEREOTYPE else f"{stereotype}-stereo",
        }
        lines.append(json.dumps(fields, ensure_ascii=False) + "\n")
    return "".join(lines)


def slot_template(premise: str, hypothesis: str, occupation: str, group_word: str) -> str | None:
    """The template both sentences come from, or None.

    >>> slot_template("the nurse and the man.", "the man and the man.", "nurse", "man")
    'the [Sub] and the man.'
    """
    candidates = [hypothesis.replace(group_word, SLOT)]
    for match in re.finditer(re.escape(group_word), hypothesis):
        candidates.append(hypothesis[: match.start()] + SLOT + hypothesis[match.end() :])
    return next((t for t in candidates if SLOT in t and fill(t, occupation) == premise), None)


def _row(
    row: Mapping[str, object], subset: str, known: set[str], words: Mapping[str, str], where: str
) -> dict[str, Any]:
    premise, hypothesis = str(row["sentence1"]), str(row["sentence2"])
    occupation = str(row["occ_word"])
    found = _match(premise, hypothesis, occupation, words)
    tag = str(row["occ_type"]).removesuffix("-stereo")
    mistagged = (tag == NO_STEREOTYPE) != (subset == NS)
    # The longest word first: "police officer" holds "officer".
    if mistagged or not found:
        candidates = ((word, _match(premise, hypothesis, word, words)) for word in sorted(known, key=len, reverse=True))
        occupation, found = next((pair for pair in candidates if pair[1]), (occupation, found))
    if not found:
        raise InputError(
            f"{where}: premise and hypothesis are not one template filled with '{occupation}' and one of "
            f"{', '.join(words.values())}; wrong --lang?"
        )
    return {
        "id": str(row["id"]),
        "subset": subset,
        "premise": premise,
        "hypothesis": hypothesis,
        "gold": str(row["label"]),
        "occupation": occupation,
        "stereotype": NO_STEREOTYPE if subset == NS else tag,
        "template": found[0],
        "group": found[1],
        "repaired": mistagged,
    }


def _match(premise: str, hypothesis: str, occupation: str, words: Mapping[str, str]) -> tuple[str, str] | None:
    # The pre-segmented files have spaces inside words.
    if occupation not in premise:
        premise, hypothesis = premise.replace(" ", ""), hypothesis.replace(" ", "")
    templates = ((slot_template(premise, hypothesis, occupation, word), group) for group, word in words.items())
    return next(((template, group) for template, group in templates if template), None)


def _members(path: Path, folders: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Subset -> (file name, text) of the three evaluation files; empty if one is missing."""
    # The directory given may itself be one of the folders, so its name counts as the parent of the files in it.
    root = path.absolute().name

    def subset_of(name: str) -> str:
        file = PurePosixPath(root, name)
        belongs = file.parent.name in folders and file.suffix == ".json"
        return next((subset for subset, stem in _FILES.items() if belongs and file.name.startswith(stem)), "")

    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    texts = archive_texts(path, lambda name: bool(subset_of(name)))
    members = {subset_of(name): ("/".join(f"{root}/{name}".split("/")[-2:]), texts[name]) for name in texts}
    return members if len(members) == len(_FILES) else {}
