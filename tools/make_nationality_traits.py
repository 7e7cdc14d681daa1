"""Make the trait lists of the axis *nationality* from SeeGULL.

    python tools/make_nationality_traits.py ../shared/data/axes/seegull/stereotypes_global_v2.csv

A trait is stereotyped with a nationality if at least two of three raters say so: raters of the region for the one list,
raters of North America for the other. Only adjectives that can stand before *person*, none above an offensiveness of
1.5.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

DATA = Path(__file__).parents[1] / "src" / "evenli" / "resources" / "data"
GROUPS = {  # nationalities with at least six of these traits in both pools
    "United States": "american",
    "Australian": "australian",
    "British": "british",
    "Chinese": "chinese",
    "French": "french",
    "German": "german",
    "Indian": "indian",
    "Italian": "italian",
    "Japanese": "japanese",
    "Nigerian": "nigerian",
}
POOLS = {"region": "region_stereo", "north_america": "NA_stereo"}
AGREED = 2
OFFENSIVE = 1.5
TRAITS = """\
adaptable adventurous affectionate aloof ambitious analytical artistic assertive athletic attentive authoritarian
boisterous bold brave calm carefree careful casual cheerful clever competitive confident conservative considerate
courageous courteous creative curious cynical dependable diligent diplomatic disciplined dramatic easygoing eccentric
efficient elegant emotional energetic enthusiastic expressive extroverted fashionable fearless flirtatious formal
friendly frugal funny generous hardworking helpful honest hospitable humble humorous imaginative individualistic
industrious informal innovative intellectual inventive jolly kind logical loud loyal meticulous modest
musical mysterious noisy obedient optimistic orderly outgoing outspoken passionate patient patriotic philosophical
polite practical precise proud punctual quiet rational rebellious relaxed religious reserved resourceful respectful
romantic sarcastic sensible serious shy sociable sophisticated spiritual stern stoic strict studious stylish
superstitious talkative thorough thrifty tidy traditional trustworthy witty
alert dauntless depressed dizzy famous gloomy impractical mature mild neat neglectful nosy powerful secretive
sober unhealthy uninteresting unromantic unsatisfied unsystematic zealous self-conscious
"""
"""Chosen before any model was asked; those of the last two lines are stereotyped with nobody in either pool."""
SPELLED = {"disciplined": "discipline", "outgoing": "outgo", "reserved": "reserve", "self-conscious": "self conscious"}
"""SeeGULL gives some attributes as stems."""


def main() -> None:
    """Write both lists."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path, help="stereotypes_global_v2.csv of SeeGULL.")
    rows = list(csv.DictReader(parser.parse_args().source.open(encoding="utf-8")))
    for pool, column in POOLS.items():
        lines = []
        for trait in sorted(TRAITS.split()):
            rated = [row for row in rows if row["attribute"] == SPELLED.get(trait, trait) and row["identity"] in GROUPS]
            if not rated:
                print(f"{trait}: not rated, left out")
                continue
            if max(_number(row["mean offensiveness_score"]) for row in rated) > OFFENSIVE:
                print(f"{trait}: offensive, left out")
                continue
            groups = sorted(GROUPS[row["identity"]] for row in rated if int(row[column]) >= AGREED)
            lines.append((f"{trait} person", "|".join(groups)))
        file = DATA / f"traits_{pool}.csv"
        with file.open("w", encoding="utf-8", newline="") as sink:
            csv.writer(sink, lineterminator="\n").writerows([("word", "stereotype"), *lines])
        print(f"{file.name}: {len(lines)} traits, {sum(bool(groups) for _, groups in lines)} with a stereotype")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


if __name__ == "__main__":
    main()
