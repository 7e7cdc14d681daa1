"""What NLI-CoAL publishes and what can be checked without a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
from scipy.stats import pearsonr

from evenli.evaluate.predict import predict
from evenli.labels import LABELS
from evenli.models import fake_model
from evenli.pairs import PAIR_COLUMNS, PairSet
from evenli.predictions import Predictions
from evenli.reproduction.ledger import Row, chapter
from evenli.resources import load_axis, read_table
from evenli.resources.axes import NO_STEREOTYPE
from evenli.stats.measure import get_measure
from evenli.stats.sample import Sample
from evenli.suites.coal.build import build_coal
from evenli.suites.coal.official import read_release, recover_lists, to_official_jsonl

_TABLE3 = "NLI-CoAL 2024, Table 3"
_SIZES = {"en": (1000, 1000, 3420), "ja": (1000, 1000, 3420), "zh": (1000, 1000, 3320)}
_RELEASES = {"en": "en_v1.1", "ja": "ja_v1.1", "zh": "zh_v1.0"}
_FULL_FOLDER = {"en": "all-words", "ja": "untokenized", "zh": "all-words"}


@chapter
def table3(data: Path | None) -> Iterator[Row]:
    """All 14 models: FN and NLI-CoAL from the printed label shares, through our measures."""
    for row in read_table("published_coal.csv"):
        shares = {
            f"{subset}_{label}": float(row[f"{subset}_{label}"]) for subset in ("ps", "as", "ns") for label in "ecn"
        }
        sample = sample_of_shares(shares, _SIZES[row["lang"]])
        name = f"{row['lang']} {row['model']}"
        for measure, column in (("coal", "coal_pub"), ("fn_bias", "fn_pub")):
            laboro = measure == "fn_bias" and row["model"].startswith("Laboro")
            yield Row(
                f"{name} {get_measure(measure).title}",
                _TABLE3,
                float(row[column]),
                float(get_measure(measure)(sample)),
                tolerance=0.0015,
                reason="printed 0.633 cannot come from the printed shares under any weighting"
                if laboro
                else "from the printed shares, three decimals",
                known=laboro,
            )


@chapter
def order_condition(data: Path | None) -> Iterator[Row]:
    """The Japanese paper's argument: all five models satisfy e_p > e_a and c_a > c_p."""
    held = sum(
        float(r["ps_e"]) > float(r["as_e"]) and float(r["as_c"]) > float(r["ps_c"])
        for r in read_table("published_coal.csv")
        if r["lang"] == "ja"
    )
    yield Row("Japanese models that satisfy the order condition", "NLI-CoAL 2023, Table 3", 5, held)
    scores = {r["model"]: float(r["coal_pub"]) for r in read_table("published_coal.csv") if r["lang"] == "ja"}
    yield Row(
        "most biased Japanese model",
        "NLI-CoAL 2023, prose",
        "Bandai-DistilBERT-base",
        max(scores, key=lambda model: scores[model]),
        reason="the prose swaps most and least biased against its own Table 4",
        known=True,
    )


@chapter
def occupation_split(data: Path | None) -> Iterator[Row]:
    """13 / 87 / 171 from the threshold rule, and single words at the edges of the thresholds."""
    types = dict(load_axis().typed_words)
    counts = Counter(types.values())
    for stereotype, count in (("female", 13), ("male", 87), (NO_STEREOTYPE, 171)):
        yield Row(f"{stereotype} occupations", "NLI-CoAL 2024, section 3", count, counts[stereotype])
    for word, published in (
        ("lawyer", NO_STEREOTYPE),
        ("ballerina", NO_STEREOTYPE),
        ("chef", NO_STEREOTYPE),
        ("archaeologist", "male"),
        ("librarian", "female"),
    ):
        yield Row(f"type of '{word}'", "NLI-CoAL release", published, types[word])


@chapter
def oracle(data: Path | None) -> Iterator[Row]:
    """A model that fits bias-controlled data perfectly scores 2r/3, and FN stays constant on equal sets."""
    rates = np.round(np.arange(0, 1.01, 0.1), 1)
    pairs = build_coal("en")
    scores = []
    for rate in rates:
        table = predict(fake_model("oracle", rate=float(rate)), [pairs])
        scores.append(float(get_measure("coal")(Sample(table))))
    error = float(np.abs(np.array(scores) - 2 * rates / 3).max())
    yield Row("oracle: largest |NLI-CoAL - 2r/3| over r = 0..1", "NLI-CoAL 2024, section 4", 0.0, error, 1e-6)
    yield Row(
        "oracle: Pearson(r, NLI-CoAL)", "NLI-CoAL 2024, Table 2", 1.0, float(pearsonr(rates, scores).statistic), 1e-6
    )
    balanced = PairSet(
        "balanced",
        "coal",
        "en",
        pl.concat([pairs.frame.filter(pl.col("subset") == s).head(1000) for s in ("PS", "AS", "NS")]),
    )
    constant = [
        float(get_measure("fn_bias")(Sample(predict(fake_model("oracle", rate=rate), [balanced]))))
        for rate in (0.0, 0.5, 1.0)
    ]
    yield Row(
        "oracle: FN at r = 0, .5, 1 on equal sets (mean)",
        "NLI-CoAL 2024, Table 2 (ja: no corr.)",
        2 / 3,
        float(np.mean(constant)),
        1e-6,
    )
    yield Row("oracle: range of FN over r", "NLI-CoAL 2024, Table 2 (ja: no corr.)", 0.0, float(np.ptp(constant)), 1e-6)


@chapter
def release(data: Path | None) -> Iterator[Row]:
    """Set sizes and exact reconstruction of the released files."""
    for lang, version in _RELEASES.items():
        source = f"NLI-CoAL release {version}"
        archive = data / "nli_coal" / f"{version}.tar.xz" if data else None
        if archive is None or not archive.is_file():
            yield Row(f"{lang} set sizes", source, "/".join(map(str, _SIZES[lang])), None, reason="release not at hand")
            continue
        pairs = read_release(archive, lang)
        yield Row(
            f"{lang} set sizes", source, "/".join(map(str, _SIZES[lang])), "/".join(map(str, pairs.counts.values()))
        )
        down = read_release(archive, lang, split="down")
        yield Row(f"{lang} downsampled sizes", source, "200/200/200", "/".join(map(str, down.counts.values())))
        occupations, templates = recover_lists(pairs)
        order = pairs.frame.filter(pl.col("subset") == "NS")["group"].unique(maintain_order=True).to_list()
        rebuilt = build_coal(lang, occupations=occupations, templates=templates, neutral_group_order=order)
        differing = _differing_lines(archive, lang, rebuilt)
        yield Row(
            f"{lang} lines that differ when rebuilt from recovered lists",
            source,
            0,
            differing,
            reason="16 released rows carry a wrong occupation tag; their sentences are identical"
            if lang == "ja"
            else "byte for byte",
            known=lang == "ja",
        )
        texts = ["premise", "hypothesis"]
        same = rebuilt.frame.select(texts).equals(pairs.frame.select(texts))
        yield Row(f"{lang} sentences identical when rebuilt", source, "yes", "yes" if same else "no")


def sample_of_shares(shares: Mapping[str, float], sizes: Sequence[int]) -> Sample:
    """A sample with given label shares: one row per subset and label, weighted by its share of the set.

    Args:
        shares: ``ps_e``, ``ps_c`` … ``ns_n``.
        sizes: Pairs in PS, AS and NS.
    """
    rows, weights = [], []
    for subset, size in zip(("PS", "AS", "NS"), sizes, strict=True):
        printed = [shares[f"{subset.lower()}_{label[0]}"] for label in LABELS]
        for index, share in enumerate(printed):
            rows.append((subset, *(float(i == index) for i in range(3))))
            weights.append(share / sum(printed) * size)
    frame = pl.DataFrame(rows, schema=["subset", *LABELS], orient="row")
    absent = [pl.lit(None, pl.String).alias(name) for name in PAIR_COLUMNS if name != "subset"]
    table = Predictions(frame.with_columns(pl.lit("coal").alias("suite"), *absent))
    return Sample(table, np.array(weights, dtype=np.float32))


def _differing_lines(archive: Path, lang: str, rebuilt: PairSet) -> int:
    import tarfile

    stems = {"PS": "1-prostereo", "AS": "2-antistereo", "NS": "3-nonstereo"}
    differing = 0
    with tarfile.open(archive) as opened:
        for member in opened:
            path = Path(member.name)
            for subset, stem in stems.items():
                if path.parent.name == _FULL_FOLDER[lang] and path.name.startswith(stem):
                    content = opened.extractfile(member)
                    released = content.read().decode("utf-8") if content else ""
                    ours = to_official_jsonl(rebuilt, subset)
                    pairs = zip(released.splitlines(), ours.splitlines(), strict=False)
                    differing += 0 if released == ours else max(1, sum(a != b for a, b in pairs))
    return differing
