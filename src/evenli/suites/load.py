"""One door to every pair set that an audit asks: built-in, a release or a file of the user's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl

from evenli.errors import InputError
from evenli.labels import NEUTRAL
from evenli.pairs import PairSet
from evenli.resources import Axis, load_axis
from evenli.resources.axes import NO_STEREOTYPE
from evenli.suites.coal.build import AS, NS, PS, SLOT, build_coal
from evenli.suites.coal.official import SPLITS, read_release, slot_template
from evenli.suites.dev2020.build import DevLists, iter_dev, load_dev_lists
from evenli.suites.files import read_pairs
from evenli.suites.probe.build import build_probe, read_probe
from evenli.suites.validate import looks_like

SUITES = ("coal", "probe", "dev")
"""What an audit can ask: NLI-CoAL, the entailment-probability probe, the templates of Dev et al. 2020."""
DEV_TEMPLATES = 6
"""Templates per occupation in the sample of Dev's pairs that an audit asks."""

Source = str | Path | None
"""Where pairs come from: None for the built-in set, a release (folder or archive), or a file."""

_PAIR_FILES = {".jsonl", ".json", ".csv", ".tsv", ".parquet"}


def check_suites(suites: Sequence[str]) -> tuple[str, ...]:
    """The suites without repetition, in the order of SUITES; an unknown one is refused.

    >>> check_suites(["probe", "coal"])
    ('coal', 'probe')
    """
    unknown = [name for name in suites if name not in SUITES]
    if unknown or not suites:
        raise InputError(f"no suite '{', '.join(unknown)}'; choose one or more of {', '.join(SUITES)}")
    return tuple(name for name in SUITES if name in suites)


def data_by_suite(suites: Sequence[str], given: Sequence[str]) -> dict[str, str]:
    """Which data belongs to which suite: ``SUITE=FILE``, or a plain path where one suite is asked.

    >>> data_by_suite(["coal", "probe"], ["probe=sheet.tsv"])
    {'probe': 'sheet.tsv'}
    """
    found: dict[str, str] = {}
    for text in given:
        suite, equals, path = text.partition("=")
        if not equals or suite not in SUITES:
            if len(suites) > 1:
                raise InputError(
                    f"--data {text} does not say which suite it is for; write "
                    f"{' or '.join(f'--data {name}={text}' for name in suites)}"
                )
            suite, path = suites[0], text
        if suite not in suites:
            raise InputError(f"--data {text} is for suite {suite}, which is not asked; pass --suite {suite}")
        if suite in found:
            raise InputError(f"--data is given twice for suite {suite}: {found[suite]} and {path}; give one")
        found[suite] = path
    return found


def load_suite(
    suite: str,
    lang: str = "en",
    data: Source = None,
    *,
    split: str = "full",
    tokenised: bool = False,
    axis: Axis | str = "gender",
) -> PairSet:
    """Load the pairs of one suite.

    Args:
        suite: One of SUITES; ``probe`` and ``dev`` are English and about gender.
        lang: Language.
        data: None for the built-in set, else what ``load_coal`` or ``read_probe`` reads, or for ``dev`` a pair file.
        split: ``full`` or ``down``, for releases of NLI-CoAL.
        tokenised: The pre-segmented Japanese files of a release.
        axis: Social axis.
    """
    check_suites([suite])
    if suite == "coal":
        return load_coal(lang, data, split=split, tokenised=tokenised, axis=axis)
    if split not in SPLITS:
        raise InputError(f"split '{split}' is unknown; choose {' or '.join(SPLITS)}")
    if lang != "en":
        raise InputError(f"suite {suite} is English only, the language is '{lang}'; leave it out or pass --lang en")
    if (axis if isinstance(axis, str) else axis.id) != load_axis().id:
        raise InputError(f"suite {suite} is about gender only, the axis is '{axis}'; leave it out")
    if suite == "probe":
        return build_probe().pairs if data is None else read_probe(data)
    return dev_sample() if data is None else _read_dev(data)


def load_coal(
    lang: str = "en", data: Source = None, *, split: str = "full", tokenised: bool = False, axis: Axis | str = "gender"
) -> PairSet:
    """Load PS, AS and NS pairs.

    Args:
        lang: Language.
        data: None for the built-in set; a release folder or archive; or a pair file.
        split: ``full`` or ``down``, for releases.
        tokenised: The pre-segmented Japanese files of a release.
        axis: Social axis.
    """
    axis = load_axis(axis) if isinstance(axis, str) else axis
    axis.language(lang)
    if data is None:
        _refuse_release_options(split, tokenised, "the built-in pairs have")
        return build_coal(lang, axis=axis)
    path = Path(data)
    if path.is_file() and _is_pair_file(path):
        _refuse_release_options(split, tokenised, f"{path} is a pair file and has")
        pairs = _complete(read_pairs(path, lang), axis)
    else:
        pairs = read_release(path, lang, split=split, tokenised=tokenised, axis=axis)
    foreign = pairs.frame["premise"].map_elements(lambda text: not looks_like(text, lang), return_dtype=pl.Boolean)
    if foreign.sum():
        example = pairs.frame["premise"].filter(foreign)[0]
        raise InputError(
            f"{foreign.sum()} of {len(pairs)} premises in {path} do not look like language '{lang}', "
            f"first: '{example}'; set --lang or split the file by language"
        )
    return pairs


def dev_sample(per_occupation: int = DEV_TEMPLATES) -> PairSet:
    """A systematic sample of Dev's pairs, small enough for an audit and the same every time.

    Every occupation meets all six hypothesis subjects in ``per_occupation`` of the 1,968 templates. Templates are
    dealt out at equal distances through the list, which is sorted by kind of verb, starting one step later for each
    occupation, so that occupations share as few templates as possible: with six, none at all. 5,904 of 1,936,512 pairs.
    """
    lists = load_dev_lists()
    total = len(lists.templates)
    if not 1 <= per_occupation <= total:
        raise InputError(f"per_occupation {per_occupation} is not between 1 and {total}, the number of templates")
    stride = total / per_occupation
    step = max(1, int(stride / len(lists.occupations)))
    frames = []
    for number, occupation in enumerate(lists.occupations):
        chosen = sorted((number * step + int(k * stride)) % total for k in range(per_occupation))
        part = DevLists((occupation,), lists.groups, tuple(lists.templates[i] for i in chosen))
        # The ids of the full set, so that a row can be found there.
        first = number * len(lists.groups) * total
        ids = [str(first + group * total + i) for group in range(len(lists.groups)) for i in chosen]
        frames += [frame.with_columns(id=pl.Series(ids)) for frame in iter_dev(part)]
    return PairSet(
        name="Dev et al. sample",
        suite="dev",
        lang="en",
        frame=pl.concat(frames),
        source=f"built by evenli: generator of Dev et al. 2020, own noun lists, {per_occupation} of {total} templates "
        "per occupation",
    )


def _is_pair_file(path: Path) -> bool:
    """Whether a file is read as a table of pairs; what ``.xz`` packs is told by the ending before it."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes[-1:] == [".xz"]:
        suffixes.pop()
    return bool(suffixes) and suffixes[-1] in _PAIR_FILES


def _refuse_release_options(split: str, tokenised: bool, what: str) -> None:
    """Refuse options that would change nothing but the name of the run."""
    if split != "full":
        raise InputError(f"split '{split}' is for official releases; {what} no splits; leave it out")
    if tokenised:
        raise InputError(f"tokenised files are of official releases; {what} none; leave the option out")


def _read_dev(path: str | Path) -> PairSet:
    pairs = read_pairs(path, "en", suite="dev")
    # Both suites share their columns; the subset and the open slot of a template tell them apart.
    for column, foreign in (
        ("subset", pl.col("subset") != "dev"),
        ("template", pl.col("template").str.contains(SLOT, literal=True)),
    ):
        other = pairs.frame.filter(foreign)
        if other.height:
            raise InputError(
                f"{path}, pair '{other['id'][0]}': {column} '{other[column][0]}' is not of suite dev; for NLI-CoAL "
                "pairs pass --suite coal"
            )
    for column in ("occupation", "template"):
        empty = pairs.frame["id"].filter(pairs.frame[column].is_null())
        if empty.len():
            raise InputError(
                f"{path}, pair '{empty[0]}': no {column}; suite dev needs the columns occupation and template, as "
                "'evenli build dev' writes them"
            )
    wrong = pairs.frame.filter(pl.col("gold") != NEUTRAL)
    if wrong.height:
        raise InputError(
            f"{path}, pair '{wrong['id'][0]}': gold label '{wrong['gold'][0]}'; in suite dev all are neutral"
        )
    return replace(pairs, frame=pairs.frame.with_columns(subset=pl.lit("dev"), gold=pl.lit(NEUTRAL)))


def _complete(pairs: PairSet, axis: Axis) -> PairSet:
    """Fill in group, template and subset where a file leaves them out, or say what cannot be known."""
    words = axis.language(pairs.lang).group_words
    types = {occupation.word: occupation.stereotype for occupation in axis.occupations(pairs.lang)}
    rows = []
    for row in pairs.frame.iter_rows(named=True):
        where = f"{pairs.name}, pair '{row['id']}'"
        occupation = row["occupation"]
        if not occupation:
            raise InputError(f"{where}: no occupation; NLI-CoAL needs the column occupation (or occ_word)")
        row["stereotype"] = row["stereotype"] or types.get(occupation)
        if row["stereotype"] not in {NO_STEREOTYPE, *axis.group_names}:
            raise InputError(
                f"{where}: stereotype '{row['stereotype']}' is not neutral or one of {', '.join(axis.group_names)}"
            )
        if row["group"] and row["group"] not in words:
            raise InputError(f"{where}: group '{row['group']}' is not one of {', '.join(words)}")
        if row["gold"] not in {None, NEUTRAL}:
            raise InputError(f"{where}: gold label '{row['gold']}'; in NLI-CoAL all are neutral")
        for group, word in words.items():
            template = slot_template(row["premise"], row["hypothesis"], occupation, word)
            if template and row["group"] in {None, group}:
                row["group"], row["template"] = group, row["template"] or template
        if not row["group"] or not row["template"]:
            raise InputError(
                f"{where}: premise and hypothesis must differ only in '{occupation}' and one of "
                f"{', '.join(words.values())}"
            )
        row["gold"] = row["gold"] or NEUTRAL
        if not row["subset"]:
            stereotype = row["stereotype"]
            row["subset"] = NS if stereotype == NO_STEREOTYPE else PS if stereotype == row["group"] else AS
        elif row["subset"] not in {PS, AS, NS}:
            raise InputError(f"{where}: subset '{row['subset']}' is not one of PS, AS, NS")
        rows.append(row)
    complete = PairSet.from_rows(rows, name=pairs.name, suite=pairs.suite, lang=pairs.lang, source=pairs.source)
    return replace(complete, notes=pairs.notes)
