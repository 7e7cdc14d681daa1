"""``evenli mitigate``: fairer training data and word vectors, and a command for every method for encoders."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import argument, option, output, with_settings
from evenli.corpus.mitigation import methods
from evenli.corpus.settings import AugmentSettings, CorpusSettings, SwapSettings

Scored = Annotated[Path, argument("Folder that evenli score wrote.")]
Corpus = Annotated[Path, output("Folder to write.")]
Overwrite = Annotated[bool, option("Replace a corpus in the folder.", "--overwrite")]


@with_settings(settings=("select", "mode", "names", "conflicts", "lang", "occupations", "review", "only_swapped"))
def swap(
    corpus: Annotated[Path, option("NLI file (.jsonl, .csv, .tsv, .parquet), or .txt with a text a line.")],
    out: Annotated[Path, output("File to write: .jsonl, .csv or .parquet; .txt for a text.")],
    *,
    settings: SwapSettings,
    overwrite: Annotated[bool, option("Replace a file that is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Add gender-swapped copies to a training set.

    Premise and hypothesis are swapped together; labels and other columns are kept.
    """
    from evenli.corpus.mitigation.swap_file import swap_corpus

    with terminal.heartbeat(as_json, f"swapping {corpus.name}"):
        counts = swap_corpus(corpus, out, settings, overwrite=overwrite)
    if as_json:
        names = settings.mode == "paper" if settings.names is None else settings.names
        chosen = {"select": settings.select, "mode": settings.mode, "names": names}
        content = {"file": str(out), **chosen, "conflicts_are": settings.conflicts, "lang": settings.lang}
        terminal.print_json({**content, **counts.to_dict()})
        return
    what = "swapped copies alone" if settings.only_swapped else f"{counts.rows_given:,} given"
    terminal.say(f"{out}: {counts.written:,} rows ({what}, {counts.added:,} swapped copies added)")
    matched = "" if counts.matched is None else f"{counts.matched:,} name an occupation, "
    terminal.say(
        f"{matched}{counts.considered:,} considered, {counts.without_gender:,} without a word to swap, "
        f"{counts.conflicts:,} without a copy because it would say something else, "
        f"{counts.duplicates:,} duplicates dropped"
    )
    if counts.other_language:
        terminal.warn(f"{counts.other_language:,} rows are in another language; they have no copy")
    if counts.unlabelled:
        terminal.warn(f"{counts.unlabelled:,} rows have no gold label, nor have their copies")


@with_settings(settings=("percentile", "random", "split", "seed", "vectors"))
def subtract(
    scored: Scored, out: Corpus, *, settings: CorpusSettings, overwrite: Overwrite = False, as_json: shared.Json = False
) -> None:
    """Leave out the most biased pairs of a scored corpus.

    Sub97 to Sub90 of Dolci et al. 2023.
    """
    _make("choosing the rows that stay", scored, out, settings, overwrite, as_json)


@with_settings(
    settings=("percentile", "replace", "mode", "names", "lang", "random", "split", "seed", "vectors"),
    bases={"settings": methods.AUGMENT.settings},
)
def augment(
    scored: Scored,
    out: Corpus,
    *,
    settings: AugmentSettings,
    overwrite: Overwrite = False,
    as_json: shared.Json = False,
) -> None:
    """Add swapped copies of the most biased pairs of a scored corpus.

    Aug97 to Aug90 of Dolci et al. 2023.
    """
    _make("copying the rows with the genders exchanged", scored, out, settings, overwrite, as_json)


def _make(doing: str, scored: Path, out: Path, settings: CorpusSettings, overwrite: bool, as_json: bool) -> None:
    from evenli.corpus.texts import balance_text

    with terminal.heartbeat(as_json, doing):
        result = methods.make_fairer(scored, out, settings, overwrite)
    if as_json:
        terminal.print_json({"folder": str(result.path), **result.card.to_dict()})
        return
    counts, threshold = result.card.counts, result.card.threshold
    splits = ", ".join(f"{name} {count:,}" for name, count in counts.splits.items())
    # Rows above the threshold that have neither a copy nor a reason why not.
    unchanged = counts.above_threshold - counts.added - counts.skipped if counts.added else 0
    terminal.say(f"{result.path}: {counts.result:,} rows ({splits}) from {counts.rows:,}")
    if result.card.settings["method"] == "random_control":
        terminal.say("RANDOM CONTROL: chance picked as many rows, whatever their score")
    terminal.say(
        f"{counts.above_threshold:,} score above {threshold.value:.4f} (percentile {threshold.percentile:g}): "
        f"{counts.removed:,} removed, {counts.added:,} swapped copies added"
        + (f", {counts.skipped:,} without one (skipped.csv says why)" if counts.skipped else "")
        + (f"; {unchanged:,} hold nothing to swap" if unchanged > 0 else "")
    )
    for when in ("before", "after", *(["removed"] if counts.removed else [])):
        terminal.say(f"{when}: {balance_text(getattr(result.card.balance, when))}")
    # One shift moves several shares: what one side loses the other gains.
    if result.card.warnings:
        terminal.warn(f"the cleaning shifts the corpus: {'; '.join(result.card.warnings)}")
    if result.card.driving_words != "shown":
        terminal.warn(f"driving words {result.card.driving_words}")
    terminal.say("look through removed.csv or added.csv before training on it; card.json says what was done")
