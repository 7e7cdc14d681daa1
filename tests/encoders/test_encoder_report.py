"""Encoders beside their base: figures by hand, nothing computed twice, and what people see."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from evenli.core.drawing import save_chart
from evenli.core.errors import InputError, RunError
from evenli.core.record import Estimate
from evenli.encoders import commands as command
from evenli.encoders import comparison
from evenli.encoders.comparison import EncoderReport, ReportSettings, TaskScores, _labels, encoder_report
from evenli.encoders.comparison.chart import encoder_chart
from evenli.encoders.comparison.tables import report_blocks
from evenli.encoders.mitigation import MitigationSettings, mitigate_encoder
from evenli.encoders.seat import (
    AVERAGED,
    AssociationTest,
    SeatSettings,
    TextSet,
    average_estimate,
    seat_from_vectors,
    seat_tests,
    texts_of,
)
from evenli.encoders.seat.tables import print_block
from evenli.encoders.senteval import SentEvalResult, SentEvalSettings, TaskResult

pytest.importorskip("sklearn")
pytestmark = pytest.mark.usefixtures("two_draws")
QUICK = ReportSettings(SeatSettings(permutations=200, resamples=200))
RESAMPLED = SeatSettings(seed=1, resamples=500)
CODE = """
import hashlib
import numpy as np

from evenli.encoders.gendered import gendered_set

calls = []
parts = gendered_set()
LEAN = {w.lower(): s for p in (*parts.fit, *parts.probe, *parts.test) for w, s in zip(p.words, (1, -1))}


def vector(word):
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
    row = np.random.default_rng(seed).normal(size=16)
    row[0] += 4 * LEAN.get(word, 0)
    return row


cache = {}


def encode(texts):
    calls.append(len(texts))
    made = []
    for text in texts:
        words = text.lower().rstrip(".").split()
        made.append(np.mean([cache.setdefault(w, vector(w)) for w in words], axis=0))
    return made


def other(texts):
    return np.asarray(encode(texts))[:, ::-1] ** 3
"""


BASE = "py:toy_report_encoder:encode"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A folder with an encoder in Python, and two mitigated ones."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "toy_report_encoder.py").write_text(CODE, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(folder))
        for method in ("leace", "sent-debias"):
            mitigate_encoder(BASE, folder / method, MitigationSettings(method))
        yield folder


@pytest.fixture(scope="module")
def report(place: Path) -> EncoderReport:
    specs = [BASE, *(f"mitigated:{place / method},{BASE}" for method in ("leace", "sent-debias"))]
    return encoder_report(specs, out=place / "out", settings=QUICK)


def calls() -> list[int]:
    import toy_report_encoder  # type: ignore[import-not-found]

    return list(toy_report_encoder.calls)


def test_mean_of_sizes_by_hand_and_its_interval() -> None:
    generator = np.random.default_rng(0)
    tests = [test for test in seat_tests() if test.name in AVERAGED]
    vectors = {text: generator.normal(size=8) for text in texts_of(tests)}
    by_hand = seat_from_vectors(tests, vectors, SeatSettings(permutations=100, resamples=0)).mean.absolute
    found = average_estimate(tests, vectors, RESAMPLED)
    assert found.value == pytest.approx(by_hand, rel=1e-9)
    assert 0 <= found.low <= found.value <= found.high <= 2.1
    again = average_estimate(tests, vectors, RESAMPLED)
    assert again == found


def test_interval_of_one_test_is_that_of_the_test() -> None:
    generator = np.random.default_rng(2)
    parts = [TextSet(n, tuple(f"{n}{i}" for i in range(12)), tuple(f"{n}{i}" for i in range(12))) for n in "XYAB"]
    test = AssociationTest("own", "word", *parts)
    vectors = {text: generator.normal(size=3) + 2 * (text[0] in "XA") for text in texts_of([test])}
    settings = SeatSettings(permutations=100, resamples=4000)
    (result,) = seat_from_vectors([test], vectors, settings).tests
    found = average_estimate([test], vectors, settings)
    assert found.value == pytest.approx(result.effect.value)
    assert found.low == pytest.approx(result.effect.low, abs=0.05) and found.high == pytest.approx(
        result.effect.high, abs=0.05
    )


def test_change_is_the_difference_and_asks_both_encoders_with_the_same_words() -> None:
    generator = np.random.default_rng(3)
    tests = [test for test in seat_tests() if test.name in AVERAGED]
    before = {text: generator.normal(size=8) for text in texts_of(tests)}
    after = {text: row + 0.02 * generator.normal(size=8) for text, row in before.items()}
    first, second = (average_estimate(tests, vectors_of, RESAMPLED) for vectors_of in (before, after))
    change = average_estimate(tests, after, RESAMPLED, before)
    assert change.value == pytest.approx(second.value - first.value)
    assert change.low <= change.value <= change.high
    assert change.high - change.low < 0.2 * (first.high - first.low)  # the words drop out
    back = average_estimate(tests, before, RESAMPLED, after)
    assert (back.value, back.low, back.high) == pytest.approx((-change.value, -change.high, -change.low))
    none = average_estimate(tests, before, RESAMPLED, before)
    assert (none.value, none.low, none.high) == (0, 0, 0)


def test_change_of_embeddings_without_direction_is_undefined() -> None:
    tests = [test for test in seat_tests() if test.name in AVERAGED]
    texts = texts_of(tests)
    good = {text: np.random.default_rng(i).normal(size=4) for i, text in enumerate(texts)}
    found = average_estimate(tests, good, before={**good, texts[5]: np.zeros(4)})
    assert np.isnan(found.value) and "zero" in found.note


def test_report_holds_all_figures_and_their_differences(report: EncoderReport) -> None:
    base, leace, debias = report.encoders
    assert [encoder.label for encoder in report.encoders] == ["toy_report_encoder:encode", "leace", "sent-debias"]
    assert [encoder.method for encoder in report.encoders] == ["", "LEACE", "SentenceDebias"]
    assert [test.name for test in base.seat.tests] == ["C1", "C2", "C6", "C6b", "C7", "C7b", "C8", "C8b"]
    sizes = [abs(test.effect.value) for test in base.seat.tests[2:]]
    assert base.seat.mean.value == pytest.approx(np.mean(sizes), abs=1e-5)
    assert base.leakage.linear.low > 0.6  # the control: there is something to erase
    assert leace.leakage.linear.value < base.leakage.linear.low
    for encoder in (leace, debias):
        for name in ("linear", "mlp", "clustering", "correlation"):
            change = getattr(encoder.leakage, name).value - getattr(base.leakage, name).value
            assert encoder.difference[name] == pytest.approx(change, abs=1e-5)
        assert encoder.difference["senteval"] is None
        change = encoder.seat.change
        assert change.value == pytest.approx(encoder.difference["seat"], abs=1e-5)
        assert change.low < change.value < change.high
    assert base.seat.change is None
    assert set(base.difference.values()) == {0.0, None}
    assert repr(report).startswith("EncoderReport(mean SEAT effect: toy_report_encoder:encode ")


def test_leakage_is_that_of_the_mitigation(report: EncoderReport, place: Path) -> None:
    stored = json.loads((place / "leace" / "mitigated.json").read_text(encoding="utf-8"))["leakage"]
    base, leace, _ = report.to_dict()["encoders"]
    for figures, expected in ((base, stored["before"]), (leace, stored["after"])):
        assert figures["leakage"]["linear"] == expected["linear"]
        assert figures["leakage"]["clustering"] == expected["clustering"]


def test_what_is_kept_is_not_computed_again(report: EncoderReport, place: Path) -> None:
    specs = [encoder.spec for encoder in report.encoders]
    steps: list[tuple[str, str]] = []
    again = encoder_report(specs, out=place / "out", settings=QUICK, on_step=lambda *step: steps.append(step))
    assert steps == [] and again == report
    stored = json.loads((place / "out" / "report.json").read_text(encoding="utf-8"))
    assert stored == {**stored, **report.to_dict()} and stored["kind"] == "encoder report"
    # A new setting is computed for the figure it touches; a new encoder alone.
    before = len(calls())
    more = ReportSettings(SeatSettings(permutations=300, resamples=200))
    encoder_report(specs[:1], out=place / "out", settings=more, on_step=lambda *step: steps.append(step))
    assert steps == [("toy_report_encoder:encode", "seat")] and len(calls()) == before + 1
    steps.clear()
    encoder_report(
        [specs[0], "py:toy_report_encoder:other"],
        out=place / "out",
        settings=QUICK,
        on_step=lambda *step: steps.append(step),
    )
    assert steps == [("toy_report_encoder:other", name) for name in ("seat", "seat change", "leakage")]


def test_a_stopped_report_goes_on(place: Path, tmp_path: Path) -> None:
    specs = [BASE, f"mitigated:{place / 'leace'},{BASE}"]

    def stop(encoder: str, figure: str) -> None:
        if (encoder, figure) == ("leace", "leakage"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encoder_report(specs, out=tmp_path, settings=QUICK, on_step=stop)
    assert not (tmp_path / "report.json").exists()
    steps: list[tuple[str, str]] = []
    encoder_report(specs, out=tmp_path, settings=QUICK, on_step=lambda *step: steps.append(step))
    assert steps == [("leace", "leakage")]


def test_bad_input_is_named(place: Path, tmp_path: Path) -> None:
    spec = "py:toy_report_encoder:encode"
    with pytest.raises(InputError, match="encoder"):
        encoder_report([])
    with pytest.raises(InputError, match="same"):
        encoder_report([spec, spec], out=tmp_path, settings=QUICK)
    with pytest.raises(InputError, match="--data"):
        encoder_report([spec], ReportSettings(senteval=SentEvalSettings(("MR",))))
    (file,) = (tmp_path / "encoders").glob("*.json")
    file.write_text("[]", encoding="utf-8")
    with pytest.raises(RunError, match="report"):
        encoder_report([spec], out=tmp_path, settings=QUICK)


def scored(report: EncoderReport) -> EncoderReport:
    """The report as it were with two SentEval tasks, one of which an encoder lacks."""
    encoders = []
    for at, encoder in enumerate(report.encoders):
        scores = {"MR": 80.0 - at, "CR": 70.0}
        tasks = {name: TaskResult(name, score, {}, float("nan"), 1) for name, score in scores.items()}
        senteval = TaskScores(tasks, {}, 75.0 - at / 2)
        if at == 2:
            senteval = TaskScores({"MR": tasks["MR"]}, {"CR": "no file custrev.pos"}, 75.0 - at / 2)
        difference = {**encoder.difference, "senteval": -at / 2}
        encoders.append(msgspec.structs.replace(encoder, senteval=senteval, difference=difference))
    return msgspec.structs.replace(report, encoders=tuple(encoders), tasks=("MR",))


def without_mean(report: EncoderReport, at: int, note: str = "") -> EncoderReport:
    encoder = report.encoders[at]
    seat = msgspec.structs.replace(encoder.seat, mean=Estimate.undefined(note))
    encoders = [*report.encoders[:at], msgspec.structs.replace(encoder, seat=seat), *report.encoders[at + 1 :]]
    return msgspec.structs.replace(report, encoders=tuple(encoders))


def shown(report: EncoderReport) -> str:
    console = Console(width=200, file=io.StringIO())
    for block in report_blocks(report):
        print_block(block, console)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_table_shows_figures_and_differences(report: EncoderReport) -> None:
    text = shown(report)
    base, leace, _ = report.encoders
    assert f"{base.seat.mean.value:.2f} [" in text
    assert f"{leace.leakage.linear.value:.2f} ({leace.difference['linear']:+.2f})" in text
    change = leace.seat.change
    assert f"{change.value:+.2f} [{change.low:+.2f}, {change.high:+.2f}]" in text
    assert "SentEval" not in text
    text = shown(scored(report))
    assert "74.5 (-0.5)" in text and "79.0 (-1.0)" in text and "CR: no file custrev.pos" in text
    assert "no effect for C6" in shown(without_mean(report, 1, "undefined: no effect for C6"))


def test_a_mitigation_of_another_encoder_is_told(report: EncoderReport, place: Path) -> None:
    assert [encoder.note for encoder in report.encoders] == ["", "", ""]
    specs = ["py:toy_report_encoder:other", f"mitigated:{place / 'leace'},{BASE}"]
    made = encoder_report(specs, out=place / "out", settings=QUICK)
    base, leace = made.encoders
    assert base.note == "" and "mitigates another" in leace.note
    assert "mitigates another" in shown(made)


def test_an_encoder_that_takes_no_pooling_says_so_and_stays(report: EncoderReport, place: Path) -> None:
    specs = [BASE, f"mitigated:{place / 'leace'},{BASE}"]
    made = encoder_report(specs, out=place / "out", settings=replace(QUICK, pooling="cls"))
    assert all("--pooling cls" in encoder.note for encoder in made.encoders)
    assert [encoder.figure("seat") for encoder in made.encoders] == [
        encoder.figure("seat") for encoder in report.encoders[:2]
    ]


def test_labels_are_those_of_the_encoder_not_of_its_vectors() -> None:
    specs = ["infersent:runs/bilstm,data/glove.npz", "vectors:a,b.txt", "runs/other", "st:me/mini"]
    assert _labels(specs) == ["bilstm", "a,b.txt", "other", "mini"]


def test_a_report_of_somebody_else_is_not_replaced(report: EncoderReport, tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text('{"mine": 1}', encoding="utf-8")
    with pytest.raises(RunError, match="report.json"):
        encoder_report([report.encoders[0].spec], out=tmp_path, settings=QUICK)
    assert (tmp_path / "report.json").read_text(encoding="utf-8") == '{"mine": 1}'


def test_an_undefined_task_is_told_and_left_out(
    report: EncoderReport, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(encoder: Any, data: Path, settings: Any) -> Any:
        (name,) = settings.tasks
        score, note = (80.0, "") if name == "MR" else (float("nan"), "the predictions do not vary")
        return SentEvalResult({name: TaskResult(name, score, {"pearson": score}, float("nan"), 5, note)})

    monkeypatch.setattr(comparison, "senteval", run)
    settings = replace(QUICK, senteval=SentEvalSettings(("MR", "STS14")))
    made = encoder_report([report.encoders[0].spec], settings, data=tmp_path, out=place / "out")
    (encoder,) = made.encoders
    assert made.tasks == ("MR",) and encoder.figure("senteval") == 80
    assert (
        encoder.score("STS14") is None and made.to_dict()["encoders"][0]["senteval"]["tasks"]["STS14"]["score"] is None
    )
    assert json.loads((place / "out" / "report.json").read_text(encoding="utf-8"))["tasks"] == ["MR"]
    text = shown(made)
    assert "STS14: " in text and "n/a" in text


def test_chart_says_what_its_axes_are(report: EncoderReport, tmp_path: Path) -> None:
    pytest.importorskip("altair")
    pytest.importorskip("vl_convert")
    without, with_scores = (encoder_chart(shown_report).to_json() for shown_report in (report, scored(report)))
    assert "linear probe" in without and "SentEval" not in without
    assert "SentEval, mean of 1 task(s)" in with_scores and "linear probe" not in with_scores
    svg, png = save_chart(encoder_chart(report), "encoders", tmp_path)
    assert all(label in svg.read_text(encoding="utf-8") for label in ("leace", "sent-debias", "mean |d|"))
    assert png.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="draw"):
        encoder_chart(without_mean(msgspec.structs.replace(report, encoders=report.encoders[:1]), 0))


def test_command_prints_writes_and_repeats(report: EncoderReport, place: Path) -> None:
    app = typer.Typer()
    app.command()(command.encoder_report)
    specs = [encoder.spec for encoder in report.encoders]
    arguments = [*specs, "-o", str(place / "out"), "--permutations", "200"]
    done = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "LEACE" in done.stdout and "report.json" in done.stdout
    assert {"report.json", "encoders.svg", "encoders.png", "encoders"} <= {f.name for f in (place / "out").iterdir()}
    page = (place / "out" / "report.html").read_text(encoding="utf-8")
    assert "Before and after" in page and "The mean effect of" in page and "leace" in page
    before = len(calls())
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    kept = json.loads(done.stdout)
    assert kept["encoders"][1]["leakage"] == report.to_dict()["encoders"][1]["leakage"]
    # Both erasers are compared with their base when they are loaded, and once more behind the cache they share.
    assert len(calls()) - before == 3


def test_senteval_task_of_the_real_data(report: EncoderReport, place: Path, shared_data: Path) -> None:
    pytest.importorskip("torch")
    data = shared_data / "senteval"
    if not data.is_dir():
        pytest.skip(f"no SentEval data at {data}")
    settings = replace(QUICK, senteval=SentEvalSettings(("STS14",)))
    specs = [encoder.spec for encoder in report.encoders[:2]]
    made = encoder_report(specs, settings, data=data, out=place / "out")
    scores = [encoder.score("STS14") for encoder in made.encoders]
    assert made.tasks == ("STS14",) and 0 < scores[0] < 100
    assert made.encoders[1].difference["senteval"] == pytest.approx(scores[1] - scores[0], abs=1e-5)
    steps: list[Any] = []
    encoder_report(specs, settings, data=data, out=place / "out", on_step=lambda *s: steps.append(s))
    assert steps == []
    with pytest.raises(InputError, match="Nothing"):
        encoder_report(specs, ReportSettings(senteval=SentEvalSettings(("Nothing",))), data=data)
    with pytest.raises(InputError, match="absent"):
        encoder_report(specs, QUICK, data=data / "absent")


def test_names_on_the_chart_do_not_overlap() -> None:
    from evenli.encoders.comparison.chart import _free_side, _spread_names

    points: list[dict[str, Any]] = [{"label": "name", "x": x, "y": y} for x, y in ((0.0, 1.0), (1.0, 1.01), (9.0, 1.0))]
    assert _free_side(points[0], points, "left", (0.5, 0.1)) == "right"  # its name would run into the second point
    assert _free_side(points[1], points, "right", (0.5, 0.1)) == "left"
    assert _free_side(points[2], points, "right", (0.5, 0.1)) == "right"
    _spread_names(points, 0.1)
    heights = sorted(point["name_y"] for point in points)
    assert np.diff(heights) == pytest.approx([0.1, 0.1]) and heights[0] == 1.0
