"""From the stored answers of many models to the rows of a board: the seeds of one recipe are one row."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec import structs

from evenli.audit.results import Competence
from evenli.core.record import Estimate
from evenli.stats.measure import measures
from evenli.words import read_table
from studies.leaderboard.answers import Answers, score_answers, suite_of
from studies.leaderboard.board import MAIN, BoardRow
from studies.leaderboard.seeds import pool_seeds

Key = tuple[str, str, str]
"""Base, data, recipe."""
Scored = tuple[dict[str, Estimate], dict[str, float], Competence]


def group_seeds(models: Sequence[dict[str, Any]]) -> dict[Key, list[int]]:
    """Numbers of the models of each base, data and recipe, by seed."""
    members: dict[Key, list[int]] = defaultdict(list)
    for number in sorted(range(len(models)), key=lambda index: int(models[index]["seed"])):
        members[models[number]["base"], models[number]["data"], models[number]["recipe"]].append(number)
    return dict(members)


def score_all(answers: Answers) -> list[Scored]:
    """Measures, accuracy and competence of every model."""
    return [score_answers(answers.table(number)) for number in range(len(answers.models))]


def board_rows(answers: Answers, scored: Sequence[Scored]) -> list[BoardRow]:
    """A row for each base, data and recipe; it is ranked if every one of its seeds passes the gold pairs."""
    return [_row(answers, key, [scored[n] for n in numbers]) for key, numbers in group_seeds(answers.models).items()]


def _row(answers: Answers, key: Key, seeds: Sequence[Scored]) -> BoardRow:
    base, data, recipe = key
    about = next(model for model in answers.models if model["base"] == base)
    bounds = {
        name: (entry.low, entry.high)
        for name in seeds[0][0]
        for entry in measures(suite_of(name.partition(".")[0]) or "")
        if entry.name == name.partition(".")[2]
    }
    by_measure = {name: [scores[name] for scores, _, _ in seeds] for name in seeds[0][0]}
    return BoardRow(
        name=f"{base}, {data}, {recipe}",
        lang=answers.lang,
        source="ours",
        base=base,
        data=data,
        recipe=recipe,
        parameters=float(about.get("parameters", float("nan"))),
        seeds=len(seeds),
        accuracy={name: float(np.mean([one[name] for _, one, _ in seeds])) for name in seeds[0][1]},
        measures={name: pool_seeds(one, bounds[name]) for name, one in by_measure.items()},
        seed_sd={
            name: float(np.std([one.value for one in several], ddof=1)) if len(several) > 1 else float("nan")
            for name, several in by_measure.items()
        },
        problem=_problem([gate for _, _, gate in seeds]),
    )


def _problem(gates: Sequence[Competence]) -> str:
    failed = [gate.problem for gate in gates if gate.problem]
    if not failed:
        return ""
    return failed[0] if len(gates) == 1 else f"{len(failed)} of {len(gates)} seeds fail; one of them: {failed[0]}"


def published_rows() -> list[BoardRow]:
    """NLI-CoAL 2024, Table 3: fine-tuned models of the paper, as printed."""
    rows, undefined = [], Estimate.undefined("as printed; no interval was published")
    for row in read_table("published_coal.csv"):
        printed = {MAIN: float(row["coal_pub"]), "official.fn_bias": float(row["fn_pub"])}
        rows.append(
            BoardRow(
                name=row["model"],
                lang=row["lang"],
                source="published",
                base=row["hf_id"],
                measures={name: structs.replace(undefined, value=value) for name, value in printed.items()},
                reference="Anantaprayoon et al. 2024, Table 3",
            )
        )
    return rows
