"""Pairs whose answer is beyond doubt: gold pairs for the label check, control pairs for competence."""

from __future__ import annotations

from evenli.errors import ResourceError
from evenli.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, load_axis
from evenli.suites.coal.build import fill

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
