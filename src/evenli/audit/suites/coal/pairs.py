"""The pairs of NLI-CoAL: read from files and official releases, or built from an axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import polars as pl

from evenli.audit.pairs import PAIR_COLUMNS, PairSet, frame_of_rows
from evenli.audit.settings import DEALT, CoalSettings
from evenli.audit.suites.base import AS, NS, PS, SPLITS, SUBSETS, Request, filled_row
from evenli.audit.suites.checks import CheckedPairs, check_pairs, note_design, usable_templates, validate
from evenli.audit.suites.files import read_pairs, refuse_rows, write_pairs
from evenli.core.errors import InputError, PairError, ResourceError
from evenli.core.io import archive_texts, file_kind
from evenli.core.labels import NEUTRAL
from evenli.core.parse import parse_json_object
from evenli.core.settings import settings_of
from evenli.words import Axis, Occupation, load_axis, read_lines
from evenli.words.axes import NO_STEREOTYPE
from evenli.words.occupations import LABOUR, PUBLISHED, load_occupations
from evenli.words.templates import SLOT, deal, fill, looks_like

_PAIR_FILES = {".jsonl", ".json", ".csv", ".tsv", ".parquet"}


def load(request: Request) -> PairSet:
    """The pairs that a request asks for; pairs of another language are refused."""
    data, lang, axis = request.data, request.lang, load_axis(request.axis)
    axis.language(lang)
    origin = Path(data) if isinstance(data, str | Path) else "the table"
    if isinstance(origin, Path) and not (origin.is_file() and file_kind(origin) in _PAIR_FILES):
        pairs = read_release(origin, lang, split=request.split, tokenised=request.tokenised, axis=axis)
    else:
        # Options that would change nothing but the name of the run.
        what = "the built-in pairs have" if data is None else f"{origin} is a pair file and has"
        if request.split != "full":
            raise InputError(f"split '{request.split}' is for official releases; {what} no splits; leave it out")
        if request.tokenised:
            raise InputError(f"tokenised files are of official releases; {what} none; leave the option out")
        if data is None:
            return build_coal(lang, axis=axis, occupations=request.occupations or PUBLISHED)
        pairs = _complete(read_pairs(data, lang), axis)
    pairs = check_pairs(pairs, axis=axis) if request.checked else note_design(pairs, axis=axis)
    foreign = pairs.frame["premise"].map_elements(lambda text: not looks_like(text, lang), return_dtype=pl.Boolean)
    if foreign.sum():
        example = pairs.frame["premise"].filter(foreign)[0]
        raise InputError(
            f"{foreign.sum()} of {len(pairs)} premises in {origin} do not look like language '{lang}', "
            f"first: '{example}'; set the language (--lang) or split the file"
        )
    return pairs


def load_labour(request: Request) -> PairSet:
    """The built-in pairs on the words of labour statistics."""
    if request.data is not None:
        raise InputError("suite labour has its own pairs; ask data of your own with suite coal (--suite coal)")
    return replace(load(replace(request, occupations=LABOUR)), suite=LABOUR)


def check_file(data: Any, lang: str = "en", **options: Any) -> CheckedPairs:
    """Check a pair file, a table or a release as an audit would, and list everything; ``evenli data --check``.

    ``options`` are ``split`` and ``tokenised`` for releases, and ``axis``.
    """
    pairs = load(Request(lang, data, **options, checked=False))
    return CheckedPairs(pairs, tuple(validate(pairs, axis=options.get("axis", "gender"))))


def check(pairs: PairSet, request: Request) -> PairSet:
    """Apply the same rules to pairs that were made in Python; a language without word lists has none to break."""
    axis = load_axis(request.axis)
    if pairs.lang not in axis.languages:
        return pairs
    return check_pairs(_complete(pairs, axis), axis=axis)


def _complete(pairs: PairSet, axis: Axis) -> PairSet:
    """Fill in group, template and subset where a file leaves them out, or say what cannot be known."""
    words, column = axis.language(pairs.lang).group_words, pl.col
    types = {occupation.word: occupation.stereotype for occupation in axis.occupations(pairs.lang)}
    typed = column("occupation").replace_strict(types, default=None, return_dtype=pl.String)
    pairs = replace(pairs, frame=pairs.frame.with_columns(column("stereotype").fill_null(typed)))
    kinds, groups = ", ".join(axis.group_names), ", ".join(words)
    is_kind = column("stereotype").is_in([NO_STEREOTYPE, *axis.group_names])
    rules = {
        "no occupation; NLI-CoAL needs the column occupation (or occ_word)": column("occupation").fill_null("") == "",
        f"stereotype '{{stereotype}}' is not neutral or one of {kinds}": ~is_kind.fill_null(value=False),
        f"group '{{group}}' is not one of {groups}": ~column("group").is_in(list(words)),
        "gold label '{gold}'; in NLI-CoAL all are neutral": column("gold") != NEUTRAL,
        "subset '{subset}' is not one of PS, AS, NS": ~column("subset").is_in(SUBSETS),
    }
    refuse_rows(pairs, rules, pairs.name)

    def place(row: dict[str, Any]) -> dict[str, Any]:
        """Group and template from the sentences."""
        if row["group"] and row["template"]:
            return row
        asked = {row["group"]: words[row["group"]]} if row["group"] else words
        matched = _match(row["premise"], row["hypothesis"], row["occupation"], asked)
        if matched is None:
            problem = f"premise and hypothesis must differ only in '{row['occupation']}' and one of"
            raise InputError(f"{pairs.name}, pair '{row['id']}': {problem} {', '.join(words.values())}")
        return {"group": matched[1], "template": row["template"] or matched[0]}

    frame = pairs.frame
    # A stored table has everything, and a second copy of a large one would double its memory.
    if frame.select(pl.any_horizontal(column("group", "template").is_null().any())).item():
        schema = dict.fromkeys(("group", "template"), pl.String)
        frame = frame.with_columns(frame_of_rows(map(place, frame.iter_rows(named=True)), schema))
    subset = pl.when(column("group") == column("stereotype")).then(pl.lit(PS)).otherwise(pl.lit(AS))
    subset = pl.when(column("stereotype") == NO_STEREOTYPE).then(pl.lit(NS)).otherwise(subset)
    return replace(pairs, frame=frame.with_columns(column("subset").fill_null(subset), gold=pl.lit(NEUTRAL)))


_FILES = {PS: "1-prostereo", AS: "2-antistereo", NS: "3-nonstereo"}
_FIELDS = ("id", "sentence1", "sentence2", "label", "occ_word", "occ_type")
_FOLDERS = {
    ("full", False): ("all-words", "untokenized"),
    ("full", True): ("tokenized",),
    ("down", False): ("downsamp",),
    ("down", True): ("downsamp-tokenized",),
}


def read_release(
    path: str | Path, lang: str, *, split: str = "full", tokenised: bool = False, axis: Axis | str = "gender"
) -> PairSet:
    """Read PS, AS and NS of an official release, a folder or its ``.tar.xz``.

    The set a row belongs to is the file it stands in. Where ``occ_type`` contradicts the file (16 Japanese NS rows do),
    occupation and type are repaired from the sentence and a note counts them. ``split`` is ``full`` or ``down``;
    ``tokenised`` means the pre-segmented Japanese files.
    """
    axis = load_axis(axis)
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
        raw = _parse_json_lines(text, origin)
        # The longest word first: "police officer" holds "officer".
        known = sorted({str(row["occ_word"]) for row in raw}, key=len, reverse=True)
        for number, row in enumerate(raw, 1):
            fixed, mistagged = _row(row, subset, known, words, f"{origin}, line {number}")
            repaired += mistagged
            # The template is a cluster key: the same for the segmented and the plain sentence.
            if tokenised:
                fixed["template"] = fixed["template"].replace(" ", "")
            rows.append(fixed)
    notes = (f"{repaired} rows carried an occupation tag of another set and were repaired",) if repaired else ()
    version = re.findall(r"v\d+\.\d+", files[PS][0])[:1]
    kind = ("downsampled" if split == "down" else "full", *["tokenised"] * tokenised)
    name, source = " ".join(("official", *version, *kind)), "NLI-CoAL release, Anantaprayoon et al. 2024 (MIT)"
    return PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source, notes=notes)


def slot_template(premise: str, hypothesis: str, occupation: str, group_word: str) -> str | None:
    """The template both sentences come from, or None.

    >>> slot_template("the nurse and the man.", "the man and the man.", "nurse", "man")
    'the [Sub] and the man.'
    """
    matches = re.finditer(re.escape(group_word), hypothesis)
    candidates = [hypothesis[: match.start()] + SLOT + hypothesis[match.end() :] for match in matches]
    candidates.insert(0, hypothesis.replace(group_word, SLOT))
    return next((t for t in candidates if SLOT in t and fill(t, occupation) == premise), None)


def _row(
    row: Mapping[str, object], subset: str, known: Sequence[str], words: Mapping[str, str], where: str
) -> tuple[dict[str, str], bool]:
    """A row in our columns, and whether its tag was of another set."""
    premise, hypothesis, occupation = str(row["sentence1"]), str(row["sentence2"]), str(row["occ_word"])
    tag = str(row["occ_type"]).removesuffix("-stereo")
    mistagged = (tag == NO_STEREOTYPE) != (subset == NS)

    def matched(word: str) -> tuple[str, str] | None:
        # The pre-segmented files have spaces inside words.
        inside = " " if word in premise else ""
        return _match(premise.replace(" ", inside), hypothesis.replace(" ", inside), word, words)

    # The tag names the occupation unless it is of another set.
    candidates = known if mistagged else (occupation, *known)
    found = ((word, matched(word)) for word in candidates)
    occupation, place = next((pair for pair in found if pair[1]), (occupation, None))
    if place is None:
        raise InputError(
            f"{where}: premise and hypothesis are not one template filled with '{occupation}' and one of "
            f"{', '.join(words.values())}; wrong language (--lang)?"
        )
    stereotype = NO_STEREOTYPE if subset == NS else tag
    cells = (str(row["id"]), subset, premise, hypothesis, str(row["label"]), occupation, stereotype, *place)
    return dict(zip(PAIR_COLUMNS, cells, strict=True)), mistagged


def _match(premise: str, hypothesis: str, occupation: str, words: Mapping[str, str]) -> tuple[str, str] | None:
    """Template and group of two sentences; None if they are not made from one."""
    templates = ((slot_template(premise, hypothesis, occupation, word), group) for group, word in words.items())
    return next(((template, group) for template, group in templates if template), None)


def _members(path: Path, folders: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Subset -> (file name, text) of the three evaluation files; empty if one is missing."""
    # The directory given may itself be one of the folders, so its name counts as the parent of the files in it.
    root = path.absolute().name

    def subset_in(name: str) -> str:
        file = PurePosixPath(root, name)
        belongs = file.parent.name in folders and file.suffix == ".json"
        return next((subset for subset, stem in _FILES.items() if belongs and file.name.startswith(stem)), "")

    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    texts = archive_texts(path, lambda name: bool(subset_in(name)))
    members = {subset_in(name): ("/".join(PurePosixPath(root, name).parts[-2:]), text) for name, text in texts.items()}
    return members if len(members) == len(_FILES) else {}


def _parse_json_lines(text: str, origin: str) -> list[dict[str, Any]]:
    """The rows of a release; a broken line or a missing field is named with its number."""
    rows = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        row = parse_json_object(line, f"{origin}, line {number}")
        if missing := [name for name in _FIELDS if name not in row]:
            raise PairError(f"{origin}, line {number}: missing field(s) {', '.join(missing)}")
        rows.append(row)
    return rows


def build_coal(lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> PairSet:
    """Build the PS, AS and NS pairs of NLI-CoAL (Anantaprayoon, Kaneko, Okazaki 2024, section 3).

    PS pairs name the group an occupation is stereotyped as, AS pairs every other group, NS pairs give an unstereotyped
    occupation every group in turn. The gold label is always neutral; ids count from 0 through PS, AS and NS.

    The order ``dealt`` gives every class of occupations the same templates (``words.design.deal``). In that of the
    official releases, ``published``, neutral words come first and occupation ``k`` meets templates ``k .. k + width -
    1``: there each class meets templates of its own.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    settings = settings_of(CoalSettings, settings, options, "build_coal")
    axis, width = load_axis(settings.axis), settings.width
    words = load_occupations(settings.occupations, lang, axis)
    own, given, dealt = "" if words.name == PUBLISHED else words.name, words.occupations, settings.order == DEALT
    templates = settings.templates
    if isinstance(templates, str | Path):
        templates = read_lines(Path(templates))
    if templates is None:
        templates = usable_templates(axis, lang, width) if dealt else axis.templates(lang)
    _check(given, templates, axis)
    blocks = _blocks(given, axis)
    placed = [occupation for block in blocks for occupation in block]
    if dealt:
        met: dict[str, tuple[str, ...]] = {}
        # An audit asks both lists: a word of both meets the same sentences in both, and is asked once.
        if settings.occupations == PUBLISHED and LABOUR in axis.language(lang).lists:
            met = _deal(_blocks(load_occupations(LABOUR, lang, axis).occupations, axis), templates, settings)
        met = _deal(blocks, templates, settings, met)
    else:
        met = _window([o.word for o in placed], templates, settings)
    nouns = axis.language(lang).group_words
    typed = [o for o in placed if o.stereotype != NO_STEREOTYPE]
    asked = [(PS, o, o.stereotype) for o in typed]
    asked += [(AS, o, group) for o in typed for group in nouns if group != o.stereotype]
    asked += [(NS, o, group) for group in settings.neutral_group_order or axis.group_names for o in blocks[0]]
    rows = (
        filled_row(template, o.word, nouns[group], subset=subset, stereotype=o.stereotype, group=group)
        for subset, o, group in asked
        for template in met[o.word]
    )
    listed = f"{len(given)} occupations{f' of list {own}' if own else ''}"
    order = f"seed {settings.seed}" if dealt else "published order"
    source = f"built by evenli: axis {axis.id}, {listed}, width {width}, {order}"
    name = f"built-in, {own} occupations" if own else "built-in"
    kept: dict[str, Any] = {"notes": words.notes, "occupation_list": own, "scores": words.scores}
    return PairSet.from_rows(rows, name=name, suite="coal", lang=lang, source=source, **kept)


def write_coal(out: str | Path, lang: str = "en", settings: CoalSettings | None = None, **options: Any) -> CheckedPairs:
    """Build an NLI-CoAL set, write it as .jsonl, .csv or .parquet, and check every row; ``evenli build coal``.

    ``options`` are fields of ``CoalSettings``, in place of ``settings``.
    """
    path, settings = Path(out), settings_of(CoalSettings, settings, options, "write_coal")
    pairs = replace(build_coal(lang, settings), name=path.name)  # so that a run tells which file it asked
    write_pairs(pairs, path)
    return CheckedPairs(pairs, tuple(validate(pairs, axis=settings.axis)), path)


def _blocks(occupations: Sequence[Occupation], axis: Axis) -> list[list[Occupation]]:
    """The words of each class, those without a stereotype first."""
    return [[o for o in occupations if o.stereotype == block] for block in (NO_STEREOTYPE, *axis.group_names)]


def _deal(
    blocks: Sequence[Sequence[Occupation]],
    templates: Sequence[str],
    settings: CoalSettings,
    given: Mapping[str, Sequence[str]] = {},
) -> dict[str, tuple[str, ...]]:
    """Word -> its templates, in the order ``dealt``."""
    return deal([[o.word for o in block] for block in blocks], templates, settings.width, settings.seed, given)


def _window(words: Sequence[str], templates: Sequence[str], settings: CoalSettings) -> dict[str, tuple[str, ...]]:
    """Word -> its templates in the published order."""
    width = settings.width
    if settings.seed:
        raise InputError(f"the published order has no seed, seed is {settings.seed}; leave one of them out")
    if len(templates) < (needed := len(words) + width - 1):
        raise InputError(
            f"{len(words)} occupations at width {width} need {needed} templates in the published order, "
            f"{len(templates)} were given"
        )
    return {word: tuple(templates[k : k + width]) for k, word in enumerate(words)}


def _check(occupations: Sequence[Occupation], templates: Sequence[str], axis: Axis) -> None:
    for number, template in enumerate(templates, 1):
        if SLOT not in template:
            raise ResourceError(f"template {number} has no {SLOT} slot: '{template}'")
    known = {NO_STEREOTYPE, *axis.group_names}
    for occupation in occupations:
        if occupation.stereotype not in known:
            raise ResourceError(
                f"occupation '{occupation.word}' is typed '{occupation.stereotype}'; "
                f"axis '{axis.id}' knows {', '.join(sorted(known))}; a word of several groups is for suite groups"
            )
    if not occupations:
        raise InputError("the builder needs at least one occupation")
