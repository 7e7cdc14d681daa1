"""``evenli mitigate``: fairer training data and word vectors, and a command for every method for encoders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

from evenli.core import commands as shared
from evenli.core import terminal
from evenli.core.commands import SEEDS, argument, choice, option, output
from evenli.core.options import grouped

if TYPE_CHECKING:
    from evenli.corpus.mitigation.corpora import FairerCorpus

_SELECT = ("all", "occupation")
_CONFLICTS = ("skip", "swap")
_LANGS = ("auto", "en", "ja", "zh")
SwapMode = Annotated[
    str,
    choice("How to swap: ours, as Dolci et al., or as Sharma et al. released it.", ("default", "paper", "released")),
]
Names = Annotated[
    bool | None,
    option(
        "Swap first names, too, where there is evidence for one. Default: no; in mode paper yes.", "--names/--no-names"
    ),
]


def swap(
    corpus: Annotated[Path, option("NLI file (.jsonl, .csv, .tsv, .parquet), or .txt with a text a line.")],
    out: Annotated[Path, output("File to write: .jsonl, .csv or .parquet; .txt for a text.")],
    select: Annotated[str, choice("Pairs to copy: all with a gender word, or as Sharma et al.", _SELECT)] = "all",
    mode: SwapMode = "default",
    names: Names = None,
    conflicts: Annotated[
        str, choice("Pairs whose copy would say something else, as with a bearded man or Queen Victoria.", _CONFLICTS)
    ] = "skip",
    lang: Annotated[str, choice("Language of the corpus; auto finds out, and refuses others.", _LANGS)] = "auto",
    occupations: Annotated[str | None, option("With --select occupation: your own words.", metavar="WORD,WORD")] = None,
    review: Annotated[
        Path | None, option("CSV file with every copy beside its source, and why others have none.")
    ] = None,
    only_swapped: Annotated[bool, option("Write the swapped copies alone.", "--only-swapped")] = False,
    overwrite: Annotated[bool, option("Replace a file that is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Add gender-swapped copies to a training set.

    Premise and hypothesis are swapped together; labels and other columns are kept.
    """
    from evenli.corpus.mitigation.augment import SwapSettings
    from evenli.corpus.mitigation.swap_file import swap_corpus

    own = tuple(shared.split_names(occupations) or ()) if occupations is not None else None
    settings = SwapSettings(cast(Any, select), cast(Any, mode), names, only_swapped, cast(Any, conflicts), lang, own)
    with terminal.heartbeat(as_json, f"swapping {corpus.name}"):
        counts = swap_corpus(corpus, out, settings, review=review, overwrite=overwrite)
    if as_json:
        chosen = {"select": select, "mode": mode, "names": mode == "paper" if names is None else names}
        terminal.print_json({"file": str(out), **chosen, "conflicts_are": conflicts, "lang": lang, **counts.to_dict()})
        return
    what = "swapped copies alone" if only_swapped else f"{counts.rows_given:,} given"
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


Scored = Annotated[Path, argument("Folder that evenli score wrote.")]
Corpus = Annotated[Path, output("Folder to write.")]
Percentile = Annotated[float, option("Pairs that score above this percentile are changed.", min=0, max=100)]


@dataclass(frozen=True)
class CorpusFlags:
    """How a fairer corpus is chosen and written, whatever becomes of its biased pairs."""

    random: Annotated[bool, option("Let chance pick as many pairs: the control of equal size.", "--random")] = False
    split: Annotated[
        str,
        choice(
            "New split: auto is 10,000 dev, 10,000 test, rest train; or DEV,TEST as numbers, such as 100,100.",
            ("auto", "none"),
            closed=False,
        ),
    ] = "auto"
    seed: Annotated[int, option("Seed of the shuffle, and of the random control.", **SEEDS)] = 0
    vectors: Annotated[
        Path | None,
        option("Word vectors of the scores, if they are not where they were: pages mark the words that make a score."),
    ] = None
    overwrite: Annotated[bool, option("Replace a corpus in the folder.", "--overwrite")] = False
    as_json: shared.Json = False

    def write(self, method: Any, scored: Path, out: Path, percentile: float, doing: str, **swapping: Any) -> None:
        """Write the corpus and say what it is; ``swapping`` are the settings of the copies."""
        from evenli.corpus.mitigation.corpora import fairer_corpus
        from evenli.corpus.mitigation.plan import CorpusSettings

        settings = CorpusSettings(percentile, **swapping, split=self.split, seed=self.seed, random=self.random)
        with terminal.heartbeat(self.as_json, doing):
            result = fairer_corpus(method, scored, out, settings, scorer=self.vectors, overwrite=self.overwrite)
        if self.as_json:
            terminal.print_json({"folder": str(result.path), **result.card.to_dict()})
        else:
            _print_corpus(result)


_CORPUS = CorpusFlags()


@grouped
def subtract(scored: Scored, out: Corpus, percentile: Percentile = 95, flags: CorpusFlags = _CORPUS) -> None:
    """Leave out the most biased pairs of a scored corpus.

    Sub97 to Sub90 of Dolci et al. 2023.
    """
    flags.write("subtract", scored, out, percentile, "choosing the rows that stay")


@grouped
def augment(
    scored: Scored,
    out: Corpus,
    percentile: Percentile = 90,
    replace: Annotated[bool, option("Replace the pair by its swapped copy instead of adding it.", "--replace")] = False,
    mode: SwapMode = "default",
    names: Names = None,
    lang: Annotated[str, choice("Language of the corpus.", _LANGS[1:])] = "en",
    flags: CorpusFlags = _CORPUS,
) -> None:
    """Add swapped copies of the most biased pairs of a scored corpus.

    Aug97 to Aug90 of Dolci et al. 2023.
    """
    method, doing = "combined" if replace else "augment", "copying the rows with the genders exchanged"
    flags.write(method, scored, out, percentile, doing, mode=mode, names=names, lang=lang)


def _print_corpus(result: FairerCorpus) -> None:
    from evenli.corpus.texts import balance_text

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
