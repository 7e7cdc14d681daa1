"""``evenli build``: pair sets as files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from evenli.cli import _shared as shared

Out = Annotated[Path, typer.Option("--out", "-o", help="File to write: .jsonl, .csv or .parquet.")]


def coal(
    out: Out,
    lang: shared.Lang = "en",
    axis: shared.Axis = "gender",
    templates: Annotated[
        Path | None, typer.Option(help="Own templates, one a line with a [Sub] slot.", show_default=False)
    ] = None,
    occupations: Annotated[
        Path | None, typer.Option(help="Own occupations: CSV with word,stereotype.", show_default=False)
    ] = None,
    width: Annotated[int, typer.Option(help="Templates per occupation.", min=1)] = 10,
    seed: Annotated[int | None, typer.Option(help="Shuffle words and templates.", show_default=False)] = None,
    as_json: shared.Json = False,
) -> None:
    """Build an NLI-CoAL set (PS, AS, NS), check it and write it."""
    from evenli.datasets import build_coal, validate, write_pairs
    from evenli.resources import Occupation, read_lines, read_table

    words = None
    if occupations is not None:
        rows = read_table(_existing(occupations), ("word", "stereotype"))
        words = [Occupation(row["word"], row["stereotype"], row["word"]) for row in rows]
    pairs = build_coal(
        lang,
        axis=axis,
        occupations=words,
        templates=read_lines(_existing(templates)) if templates is not None else None,
        width=width,
        seed=seed,
        name=out.name,
    )
    write_pairs(pairs, out)
    findings = validate(pairs, axis=axis)
    card = {**pairs.card(), "findings": len(findings), "file": str(out)}
    if as_json:
        shared.print_json(card)
        return
    typer.echo(f"{out}: {card['rows']} pairs, " + ", ".join(f"{k} {v}" for k, v in pairs.counts.items()))
    typer.echo(f"{card['occupations']} occupations, {card['templates']} templates, sha256 {card['sha256'][:16]}")
    for finding in findings[:5]:
        shared.warn(f"pair {finding.id}: {finding.rule}: {finding.detail}")
    if len(findings) > 5:
        shared.warn(f"… {len(findings)} findings in all")


def dev(
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write: .csv or .jsonl.")],
    words: Annotated[str, typer.Option(help="Hypothesis subjects, comma-separated, or 'all' six.")] = "all",
    determiner: Annotated[str, typer.Option(help="the (papers) or a (released generator).")] = "the",
    as_json: shared.Json = False,
) -> None:
    """Write the template pairs of Dev et al. 2020 as a stream."""
    from evenli.datasets import load_dev_lists, write_dev
    from evenli.predictions import Progress

    chosen = None if words == "all" else tuple(word.strip() for word in words.split(","))
    lists = load_dev_lists(group_words=chosen)
    with shared.progress_bar(not as_json) as progress:
        for written in write_dev(out, lists, determiner=determiner):
            progress(Progress(written, lists.pairs, "writing"))
    summary = {"file": str(out), "templates": len(lists.templates), "pairs": lists.pairs}
    if as_json:
        shared.print_json(summary)
    else:
        typer.echo(f"{out}: {lists.pairs} pairs from {len(lists.templates)} templates")


def _existing(path: Path) -> Path:
    from evenli.errors import InputError

    if not path.is_file():
        raise InputError(f"no such file: {path}")
    return path
