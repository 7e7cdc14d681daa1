"""``evenli mitigate``: fairer training data and word vectors, and a command for every method for encoders."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.main import get_command

from evenli._extras import check_extra
from evenli.cli import _shared as shared
from evenli.cli._groups import FullHelp, grouped, signed
from evenli.cli._shared import SEEDS, argument, choice, option, output
from evenli.errors import EvenliError
from evenli.registry import MITIGATIONS

if TYPE_CHECKING:
    from evenli.mitigate.corpora import FairerCorpus
    from evenli.mitigate.methods import Method

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
    from evenli.mitigate.augment import SwapSettings
    from evenli.mitigate.swap_file import swap_corpus

    own = tuple(shared.split_names(occupations) or ()) if occupations is not None else None
    settings = SwapSettings(cast(Any, select), cast(Any, mode), names, only_swapped, cast(Any, conflicts), lang, own)
    with shared.heartbeat(as_json, f"swapping {corpus.name}"):
        counts = swap_corpus(corpus, out, settings, review=review, overwrite=overwrite)
    if as_json:
        chosen = {"select": select, "mode": mode, "names": mode == "paper" if names is None else names}
        shared.print_json({"file": str(out), **chosen, "conflicts_are": conflicts, "lang": lang, **counts.to_dict()})
        return
    what = "swapped copies alone" if only_swapped else f"{counts.rows_given:,} given"
    shared.say(f"{out}: {counts.written:,} rows ({what}, {counts.added:,} swapped copies added)")
    matched = "" if counts.matched is None else f"{counts.matched:,} name an occupation, "
    shared.say(
        f"{matched}{counts.considered:,} considered, {counts.without_gender:,} without a word to swap, "
        f"{counts.conflicts:,} without a copy because it would say something else, "
        f"{counts.duplicates:,} duplicates dropped"
    )
    if counts.other_language:
        shared.warn(f"{counts.other_language:,} rows are in another language; they have no copy")
    if counts.unlabelled:
        shared.warn(f"{counts.unlabelled:,} rows have no gold label, nor have their copies")


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
        from evenli.mitigate.corpora import fairer_corpus
        from evenli.mitigate.plan import CorpusSettings

        settings = CorpusSettings(percentile, **swapping, split=self.split, seed=self.seed, random=self.random)
        with shared.heartbeat(self.as_json, doing):
            result = fairer_corpus(method, scored, out, settings, scorer=self.vectors, overwrite=self.overwrite)
        if self.as_json:
            shared.print_json({"folder": str(result.path), **result.card.to_dict()})
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
    from evenli.report.score_text import balance_text

    counts, threshold = result.card.counts, result.card.threshold
    splits = ", ".join(f"{name} {count:,}" for name, count in counts.splits.items())
    # Rows above the threshold that have neither a copy nor a reason why not.
    unchanged = counts.above_threshold - counts.added - counts.skipped if counts.added else 0
    shared.say(f"{result.path}: {counts.result:,} rows ({splits}) from {counts.rows:,}")
    if result.card.settings["method"] == "random_control":
        shared.say("RANDOM CONTROL: chance picked as many rows, whatever their score")
    shared.say(
        f"{counts.above_threshold:,} score above {threshold.value:.4f} (percentile {threshold.percentile:g}): "
        f"{counts.removed:,} removed, {counts.added:,} swapped copies added"
        + (f", {counts.skipped:,} without one (skipped.csv says why)" if counts.skipped else "")
        + (f"; {unchanged:,} hold nothing to swap" if unchanged > 0 else "")
    )
    for when in ("before", "after", *(["removed"] if counts.removed else [])):
        shared.say(f"{when}: {balance_text(getattr(result.card.balance, when))}")
    # One shift moves several shares: what one side loses the other gains.
    if result.card.warnings:
        shared.warn(f"the cleaning shifts the corpus: {'; '.join(result.card.warnings)}")
    if result.card.driving_words != "shown":
        shared.warn(f"driving words {result.card.driving_words}")
    shared.say("look through removed.csv or added.csv before training on it; card.json says what was done")


class MitigateGroup(FullHelp):
    """The commands of ``evenli mitigate``, with one for every method; methods are loaded when they are asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of the help."""
        return list(dict.fromkeys([*super().list_commands(ctx), *MITIGATIONS]))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by name; that of a method comes from the registry."""
        command = super().get_command(ctx, cmd_name)
        return method_command(cmd_name) if command is None and cmd_name in MITIGATIONS else command


def method_command(name: str) -> Any:
    """The command of a method. One of a broken package says so when it is run, and does not disturb the others."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    try:
        run = _runner(MITIGATIONS.get(name))
    except EvenliError as error:
        failure = error

        def run() -> None:
            raise failure

        run.__doc__ = str(error)
    app.command(name)(run)
    return get_command(app)


def _runner(method: Method) -> Any:
    """A function with the common options and those of the method, from which typer makes the command."""
    # Typer reads a signature, so one is put together: the options of the method stand before the one that is named.
    work, before = (_mitigate, "seed") if method.kind == "encoder" else (_apply, "overwrite")
    _, _, *common = inspect.signature(work, eval_str=True).parameters.values()  # all but method and options
    own = [
        inspect.Parameter(
            given.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=given.default,
            annotation=Annotated[
                type(given.default),
                choice(given.help, given.choices) if given.choices else option(given.help, min=given.minimum),
            ],
        )
        for given in method.options
    ]
    place = [parameter.name for parameter in common].index(before)

    def run(**given: Any) -> None:
        options = {one.name: given.pop(one.name) for one in method.options}
        work(method, options, **given)

    run.__doc__ = f"{method.title}.\n\n{method.reference}."
    return signed(run, [*common[:place], *own, *common[place:]])


_FIT = (
    "Sentences to fit on: ours, or an English corpus (.txt with a sentence a line, or .jsonl, .csv, .tsv, .parquet "
    "with a column text, sentence, premise or hypothesis); built-in+FILE for both."
)
_PROBE = "Text to look for gender in afterwards: ours, or a file as for --fit, which should be another one."


def _mitigate(
    method: Any,
    options: Any,
    encoder: shared.Encoder,
    out: Annotated[Path, output("Folder to write; mitigated:FOLDER is the encoder then.")],
    fit: Annotated[str, option(_FIT, metavar="built-in|FILE|built-in+FILE")] = "built-in",
    probe: Annotated[str, option(_PROBE, metavar="built-in|FILE")] = "built-in",
    seed: Annotated[int, option("Seed of the fit and of the probes.", **SEEDS)] = 0,
    pooling: shared.Pooling = None,
    device: shared.Device = None,
    online: shared.Online = False,
    overwrite: Annotated[bool, option("Replace a mitigated encoder in the folder.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    from evenli.mitigate.encoder import MitigationSettings, mitigate_encoder

    check_extra("encoders", "a mitigated encoder and its probes", "sklearn")
    settings = MitigationSettings(method.name, fit, seed, options, probe, pooling, device, online)
    with shared.heartbeat(as_json) as step:
        result = mitigate_encoder(encoder, out, settings, overwrite=overwrite, on_step=step)
    if result.note:
        shared.warn(result.note)
    if as_json:
        shared.print_json({"folder": str(out), **result.to_dict()})
        return
    from evenli.report.encoder import print_leakage

    used, eraser, left = result.fit, result.eraser, result.leakage
    shared.say(
        f"{out}: {result.method} on {used.pairs:,} sentence pairs ({used.source}), {eraser.rank} of "
        f"{eraser.dimension} dimensions removed; use it as mitigated:{out}"
    )
    left_out = ", ".join(f"{count:,} with {reason}" for reason, count in used.skipped.items() if count)
    if left_out:
        shared.say(f"left out of the fit: {left_out.replace('with without', 'without')}")
    print_leakage(left.before, left.after, shared.console())


def _apply(
    method: Any,
    options: Any,
    source: Annotated[str, argument("What to make fairer: a file or a directory.")],
    out: Annotated[Path, output("File or directory to write.")],
    overwrite: Annotated[bool, option("Replace what is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    about = method.apply(source, out, method.settings(options), overwrite)
    about = about.to_dict() if hasattr(about, "to_dict") else about
    details = (f"{name}: {value}" for name, value in (about or {}).items())
    shared.answer(as_json, about, f"{out}: written by {method.name}", *details)


def hard_debias(
    vectors: Annotated[str, argument("Word vectors: FILE or vectors:FILE; GloVe, word2vec or fastText.")],
    out: Annotated[Path, output("A folder (use it as mitigated:FOLDER), or a file of vectors (.npz).")],
    pairs: Annotated[str, choice("Pairs of the direction, or a file.", ("ten", "long"), closed=False)] = "ten",
    control: Annotated[bool, option("Only bring the vectors to length 1, as a control.", "--control")] = False,
    seed: Annotated[int, option("Seed of the probes that look for what is left.", **SEEDS)] = 0,
    overwrite: Annotated[bool, option("Replace what is there.", "--overwrite")] = False,
    as_json: shared.Json = False,
) -> None:
    """Hard-debias word vectors (Bolukbasi et al. 2016).

    Neutralise, equalise, bring to length 1.
    """
    from evenli.mitigate.encoder import HardDebiasSettings, hard_debias_file

    with shared.heartbeat(as_json, "debiasing the vectors"):
        result = hard_debias_file(vectors, out, HardDebiasSettings(pairs, control, seed), overwrite=overwrite)
    if as_json:
        shared.print_json(result.to_dict())
        return
    shared.say(f"{out}: {result.words:,} words" + "".join(f"; {note}" for note in result.notes))
    shared.say(f"use it as {result.spec}")
    if result.leakage is None:
        shared.say(f"what is left was not measured: {result.not_measured}")
        return
    from evenli.report.encoder import print_leakage

    print_leakage(result.leakage.before, result.leakage.after, shared.console(), words=True)
