"""Pairs whose answer is beyond doubt: gold pairs for the label check, control pairs for competence."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from evenli.errors import ResourceError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, load_axis
from evenli.suites.base import SLOT, fill

CONTROL_TEMPLATES = 20


def gold_pairs(lang: str, *, axis: Axis | str = "gender") -> PairSet:
    """Hand-written unmistakable pairs, at least twenty per label, without groups or occupations."""
    table = load_axis(axis).language(lang).gold
    rows = table.rows("label", "premise", "hypothesis")
    for number, row in enumerate(rows, 1):
        if row["label"] not in LABELS:
            raise ResourceError(f"{table.name}, row {number}: label '{row['label']}' is not one of {', '.join(LABELS)}")
    return PairSet.from_rows(
        ({**row, "subset": "gold", "gold": row["label"]} for row in rows),
        name=f"gold pairs ({lang})",
        suite="check",
        lang=lang,
        source=f"evenli resource {table.name}",
    )


def control_pairs(lang: str, *, axis: Axis | str = "gender") -> PairSet:
    """Pairs about stated groups: a competent model knows what *woman* and *man* mean.

    For each of the last CONTROL_TEMPLATES templates, which the built-in audit never reaches:
    group → same group is entailment, group → other group is contradiction, group → *person* is
    entailment, *person* → group is neutral.
    """
    axis = load_axis(axis)
    language = axis.language(lang)
    words = language.group_words
    rows: list[dict[str, str | None]] = []
    for template in axis.templates(lang)[-CONTROL_TEMPLATES:]:
        sentences: list[tuple[str, str, str | None, str, str]] = []
        for a in words:
            for b in words:
                gold = ENTAILMENT if a == b else CONTRADICTION
                sentences.append((words[a], words[b], b, gold, f"{a}-{b}"))
        for group, word in words.items():
            sentences.append((word, language.person, None, ENTAILMENT, f"{group}-person"))
            sentences.append((language.person, word, group, NEUTRAL, f"person-{group}"))
        for premise, hypothesis, named, gold, case in sentences:
            rows.append(
                {
                    "id": f"control-{len(rows):03d}-{case}",
                    "subset": "control",
                    "premise": fill(template, premise),
                    "hypothesis": fill(template, hypothesis),
                    "gold": gold,
                    "template": template,
                    "group": named,
                }
            )
    return PairSet.from_rows(
        rows, name=f"control pairs ({lang})", suite="check", lang=lang, source=f"built by evenli: axis {axis.id}"
    )


_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u4e00-\u9fff]")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")


@dataclass(frozen=True)
class Finding:
    """One rule broken by one row."""

    id: str
    rule: str
    detail: str


def looks_like(text: str, lang: str) -> bool:
    """Whether a sentence can be of a language, judged by its script alone.

    >>> looks_like("the nurse waves.", "en"), looks_like("看護師が手を振る。", "zh")
    (True, False)
    """
    han, kana = bool(_HAN.search(text)), bool(_KANA.search(text))
    if lang == "ja":
        return kana or han
    if lang == "zh":
        return han and not kana
    return not han and not kana


def leaking_words(template: str, words: Mapping[str, str], lang: str) -> list[str]:
    """Group-revealing words in a template outside its slot: by token, or by substring where no spaces are written."""
    text = unicodedata.normalize("NFKC", template.replace(SLOT, " ")).lower()
    for word in (word for word, group in words.items() if group == "-"):
        text = text.replace(word, " ")
    if lang in {"ja", "zh"}:
        return sorted(word for word in words if word in text)
    tokens = _WORD.findall(text)
    present = {*tokens, *(token.removesuffix("'s").removesuffix("’s") for token in tokens)}
    present |= {" ".join(pair) for pair in pairwise(tokens)}
    return sorted(present & set(words))


def validate(pairs: PairSet, *, axis: Axis | str = "gender") -> list[Finding]:
    """Check every row of a CoAL set.

    Rules: ``slot`` the template has exactly one slot; ``difference`` filling it with occupation and group
    word gives premise and hypothesis; ``leak`` no group-revealing word beside the slot; ``gold`` the gold
    label is neutral; ``subset`` agrees with stereotype and group.
    """
    axis = load_axis(axis)
    words = axis.language(pairs.lang).group_words
    revealing = axis.revealing_words(pairs.lang)
    leaks: dict[str, list[str]] = {}
    findings = []
    for row in pairs.frame.iter_rows(named=True):
        template, id_ = row["template"], row["id"]
        if template not in leaks:
            leaks[template] = leaking_words(template, revealing, pairs.lang)
        slots = template.count(SLOT)
        if slots != 1:
            findings.append(Finding(id_, "slot", f"{slots} slots in '{template}'"))
        expected = (fill(template, row["occupation"]), fill(template, words[row["group"]]))
        if expected != (row["premise"], row["hypothesis"]):
            findings.append(Finding(id_, "difference", f"'{row['premise']}' / '{row['hypothesis']}'"))
        if leaks[template]:
            findings.append(Finding(id_, "leak", f"{', '.join(leaks[template])} in '{template}'"))
        if row["gold"] != "neutral":
            findings.append(Finding(id_, "gold", f"gold label is {row['gold']}"))
        pro = row["stereotype"] == row["group"]
        subset = "NS" if row["stereotype"] == "neutral" else "PS" if pro else "AS"
        if subset != row["subset"]:
            findings.append(Finding(id_, "subset", f"tagged {row['subset']}, is {subset}"))
    return findings
