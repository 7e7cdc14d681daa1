"""What NLI-CoAL and Dev et al. 2020 publish and what can be checked without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path, PurePosixPath

import numpy as np
import polars as pl
from scipy.stats import pearsonr

from evenli.audit.models import fake_model
from evenli.audit.pairs import PairSet
from evenli.audit.predict import predict
from evenli.audit.suites.coal.pairs import build_coal, read_release
from evenli.audit.suites.dev2020 import load_dev_lists
from evenli.core.io import archive_texts
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from evenli.words import load_axis, read_table
from evenli.words.axes import NO_STEREOTYPE
from studies.ledger.ledger import SUBSETS, Published, Row, chapter, public_file, sample_of_shares
from studies.ledger.official import recover_lists, to_official_jsonl

_SIZES = {"en": (1000, 1000, 3420), "ja": (1000, 1000, 3420), "zh": (1000, 1000, 3320)}
_RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}
_EDGES = dict.fromkeys(("lawyer", "ballerina", "chef"), NO_STEREOTYPE) | {
    "archaeologist": "male",
    "librarian": "female",
}
"""Words at the edges of the thresholds."""
_CONFOUNDED = "sentences that female and male words meet, and those that both meet"
_WINDOW = "n words in a row meet n + 9 sentences: what differs between classes may be due to the sentences"


@chapter
def table3(data: Path | None) -> Iterator[Row]:
    """All 14 models: FN and NLI-CoAL from the printed label shares, through our measures."""
    paper = Published("NLI-CoAL 2024, Table 3", 0.0015, "from the printed shares, three decimals", "arithmetic")
    impossible = (
        "0.633 lies between the printed shares (0.656 in PS, 0.588 in AS, 0.582 in NS), but PS would have to be about "
        "two thirds of all pairs; with the stated sizes (1,000, 1,000 and 3,420) it is 0.597"
    )
    for row in read_table("published_coal.csv"):
        sample = sample_of_shares(row, _SIZES[row["lang"]])
        for name, column in (("coal", "coal_pub"), ("fn_bias", "fn_pub")):
            measure = get_measure(name)
            what = f"{row['lang']} {row['model']} {measure.title}"
            wrong = name == "fn_bias" and row["model"].startswith("Laboro")
            yield paper.row(what, float(row[column]), float(measure(sample)), differs=impossible if wrong else "")


@chapter
def order_condition(data: Path | None) -> Iterator[Row]:
    """The Japanese paper's argument: all five models satisfy e_p > e_a and c_a > c_p."""
    rows = [row for row in read_table("published_coal.csv") if row["lang"] == "ja"]
    satisfied = sum(float(row["ps_e"]) > float(row["as_e"]) and float(row["as_c"]) > float(row["ps_c"]) for row in rows)
    table = Published("NLI-CoAL 2023, Table 3", kind="arithmetic")
    yield table.row("Japanese models that satisfy the order condition", 5, satisfied)
    scores = {row["model"]: float(row["coal_pub"]) for row in rows}
    most = max(scores, key=lambda model: scores[model])
    swapped = "the prose swaps most and least biased against its own Table 4"
    prose = Published("NLI-CoAL 2023, prose", kind="arithmetic")
    yield prose.row("most biased Japanese model", "Bandai-DistilBERT-base", most, differs=swapped)


@chapter
def occupation_split(data: Path | None) -> Iterator[Row]:
    """13 / 87 / 171 from the threshold rule, and single words at the edges of the thresholds."""
    types = dict(load_axis().typed_words)
    counts = Counter(types.values())
    for stereotype, count in (("female", 13), ("male", 87), (NO_STEREOTYPE, 171)):
        yield Row(f"{stereotype} occupations", "NLI-CoAL 2024, section 3", count, counts[stereotype])
    for word, published in _EDGES.items():
        yield Row(f"type of '{word}'", "NLI-CoAL release", published, types[word])


@chapter
def oracle(data: Path | None) -> Iterator[Row]:
    """A model that fits bias-controlled data perfectly scores 2r/3, and FN stays constant on equal sets."""

    def score(measure: str, rate: float, pairs: PairSet) -> float:
        return float(get_measure(measure)(Sample(predict(fake_model("oracle", rate=rate), [pairs]))))

    rates = np.round(np.arange(0, 1.01, 0.1), 1)
    pairs = build_coal("en")
    scores = [score("coal", float(rate), pairs) for rate in rates]
    error = float(np.abs(np.array(scores) - 2 * rates / 3).max())
    yield Row("oracle: largest |NLI-CoAL - 2r/3| over r = 0..1", "NLI-CoAL 2024, section 4", 0.0, error, 1e-6)
    r = float(pearsonr(rates, scores).statistic)
    yield Row("oracle: Pearson(r, NLI-CoAL)", "NLI-CoAL 2024, Table 2", 1.0, r, 1e-6)
    # FN is constant only where the three sets are of the same size.
    equal = pl.concat([pairs.frame.filter(pl.col("subset") == subset).head(1000) for subset in SUBSETS])
    balanced = PairSet("balanced", "coal", "en", equal)
    constant = [score("fn_bias", rate, balanced) for rate in (0.0, 0.5, 1.0)]
    table = Published("NLI-CoAL 2024, Table 2 (ja: no corr.)", 1e-6)
    yield table.row("oracle: FN at r = 0, .5, 1 on equal sets (mean)", 2 / 3, float(np.mean(constant)))
    yield table.row("oracle: range of FN over r", 0.0, float(np.ptp(constant)))


@chapter
def release(data: Path | None) -> Iterator[Row]:
    """Set sizes and exact reconstruction of the released files."""
    for lang, version in _RELEASES.items():
        source = Published(f"NLI-CoAL release {version}")
        sizes = "/".join(map(str, _SIZES[lang]))
        archive = public_file(data, "nli_coal", f"{version}.tar.xz")
        if archive is None:
            yield source.row(f"{lang} set sizes", sizes, None, reason="release not at hand")
            continue
        pairs = read_release(archive, lang)
        yield source.row(f"{lang} set sizes", sizes, "/".join(map(str, pairs.counts.values())))
        down = read_release(archive, lang, split="down").counts
        yield source.row(f"{lang} downsampled sizes", "200/200/200", "/".join(map(str, down.values())))
        yield source.row(f"{lang} {_CONFOUNDED}", "22/96, 9", _sentences(pairs), reason=_WINDOW)
        occupations, templates = recover_lists(pairs)
        order = pairs.frame.filter(pl.col("subset") == "NS")["group"].unique(maintain_order=True).to_list()
        lists = {"occupations": occupations, "templates": templates, "order": "published"}
        rebuilt = build_coal(lang, neutral_group_order=order, **lists)
        tags = "16 released rows carry a wrong occupation tag; their sentences are identical" if lang == "ja" else ""
        lines = _differing_lines(archive, lang, rebuilt)
        what = f"{lang} lines that differ when rebuilt from recovered lists"
        yield source.row(what, 0, lines, reason="byte for byte", differs=tags)
        texts = ["premise", "hypothesis"]
        same = rebuilt.frame.select(texts).equals(pairs.frame.select(texts))
        yield source.row(f"{lang} sentences identical when rebuilt", "yes", "yes" if same else "no")


def _sentences(pairs: PairSet) -> str:
    """How many sentences the words of either stereotype meet, and how many of them are the same."""
    kinds = (pairs.frame.filter(pl.col("stereotype") == kind) for kind in ("female", "male"))
    female, male = (set(of_kind["template"]) for of_kind in kinds)
    return f"{len(female)}/{len(male)}, {len(female & male)}"


def _differing_lines(archive: Path, lang: str, rebuilt: PairSet) -> int:
    """Lines of the three full files that are not those of the rebuilt set."""
    stems = {"1-prostereo": "PS", "2-antistereo": "AS", "3-nonstereo": "NS"}
    folder = "untokenized" if lang == "ja" else "all-words"
    texts = archive_texts(archive, lambda name: PurePosixPath(name).parent.name == folder)
    differing = 0
    for (name, released), (stem, subset) in product(texts.items(), stems.items()):
        if PurePosixPath(name).name.startswith(stem):
            ours = to_official_jsonl(rebuilt, subset)
            lines = zip(released.splitlines(), ours.splitlines(), strict=False)
            # Files of different lengths differ even if all lines they share are equal.
            differing += 0 if released == ours else max(1, sum(a != b for a, b in lines))
    return differing


@chapter
def dev_counts(data: Path | None) -> Iterator[Row]:
    """Templates and pairs of the generator of Dev et al., from lists of the published sizes."""
    lists, two = load_dev_lists(), load_dev_lists(group_words=("man", "woman"))
    own = "own nouns in lists of the published sizes; the original lists carry no licence"
    generator = Published("Dev et al. 2020, released generator", reason=own)
    yield generator.row("templates", 1968, len(lists.templates))
    yield generator.row("occupations", 164, len(lists.occupations))
    yield generator.row("pairs, six gendered words", 1_936_512, lists.pairs)
    yield generator.row("pairs, man and woman", 645_504, two.pairs)
