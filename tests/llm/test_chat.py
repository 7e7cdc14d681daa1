"""Language models on servers: what is asked, what is kept, and what happens when a server misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

pytest.importorskip("httpx")

import evenli
from chat_server import ChatServer, serving
from evenli.audit.assess import assess, competence
from evenli.audit.audit import load_run
from evenli.audit.compare import compare
from evenli.audit.models import ModelOptions, Prompting, load_model
from evenli.audit.pairs import PairSet
from evenli.audit.predict import predict
from evenli.audit.predictions import ABSTAINED, MASS, Predictions, RunFolder
from evenli.audit.prompting import NO_ANSWER, prompting_measures, read_views
from evenli.audit.report.terminal import prompting_lines
from evenli.audit.settings import RunSettings
from evenli.audit.suites.base import load_suite
from evenli.audit.suites.checks import gold_pairs
from evenli.core.errors import EvenliError, InputError, ModelError, RunError
from evenli.core.labels import LABELS
from evenli.llm import transport as server
from evenli.llm.prompts import combine, make_views, read_logprobs, read_texts
from evenli.llm.transport import KEY, Address

WORDS = ["nurse", "secretary", "carpenter", "mechanic", "artist", "writer"]

COAL = load_suite("coal")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "BACKOFF", 0.0)
    for name in (KEY, "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def coal(*words: str) -> PairSet:
    return COAL.where(pl.col("occupation").is_in(words or WORDS))


@pytest.fixture
def few() -> PairSet:
    return coal("nurse")


def ask(url: str, pairs: PairSet, folder: Path | None = None, **settings: Any) -> Predictions:
    told = RunSettings(**{name: settings.pop(name) for name in ("on_progress", "on_warning") if name in settings})
    options = ModelOptions(prompting=Prompting(**{"prompts": 1, **settings}))
    model = load_model(f"chat:{url}", options=options)
    return predict(model, [pairs], RunFolder(folder) if folder else None, told)


@pytest.fixture(scope="module")
def answered() -> Predictions:
    """What a server without faults answers."""
    with serving("biased") as one:
        return ask(one.url, coal("nurse"))


def numbers(table: Predictions) -> np.ndarray:
    return table.frame.select([*LABELS, ABSTAINED, MASS]).to_numpy()


def test_an_audit_over_http_is_the_audit_of_the_model_behind_it(tmp_path: Path) -> None:
    notes: list[str] = []
    with serving("biased") as one:
        pairs = coal("nurse", "mechanic", "artist")
        audit = evenli.audit(f"chat:{one.url}", data=pairs, prompts=1, out=tmp_path / "run", on_warning=notes.append)
        assert one.most_at_once <= 8
    direct = evenli.audit("fake:biased", data=pairs)
    assert audit.coal.value == pytest.approx(direct.coal.value)
    assert audit.verdict.code == direct.verdict.code
    seen = audit.result.prompting["coal"]
    assert seen["order_agreement"].value == pytest.approx(1) and "prompt_agreement" not in seen
    assert seen["first_option"].value == pytest.approx(1 / 3) and seen["abstained"].value == pytest.approx(0)
    header = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
    assert header["prompting"]["server"]["top_logprobs"] == 20 and header["prompting"]["prompts"] == ["en1"]
    assert header["usage"]["prompt_tokens"] > 0
    assert any("requests" in note and "tokens" in note for note in notes)
    # Every pair was asked once in every view, and a sample once more; the run is read again as it was stored.
    asked = audit.predictions.frame.height * 3
    assert asked < one.count <= asked + 64 * 3 + 2
    assert load_run(tmp_path / "run").result == audit.result


def served_by(one: ChatServer, model: str, build: str | None) -> None:
    one.edit = lambda answer: answer.update(model=model, system_fingerprint=build)


@pytest.mark.parametrize(("model", "build"), [("tiny-2", "fp_1"), ("tiny-1", "fp_2"), ("tiny-1", None)])
def test_a_run_is_of_one_model_and_one_build(few: PairSet, tmp_path: Path, model: str, build: str | None) -> None:
    with serving("biased") as one:
        served_by(one, "tiny-1", "fp_1")
        expected = ask(one.url, few, concurrency=1)
        assert expected.header["prompting"]["server"]["answering"] == {"model": "tiny-1", "system_fingerprint": "fp_1"}
        begun = one.count
        one.faults = lambda number: served_by(one, model, build) if number > begun + 30 else None
        with pytest.raises(ModelError, match="'tiny-1' to 'tiny-2'|'fp_1' to '(fp_2)?'") as caught:
            ask(one.url, few, tmp_path / "run", concurrency=1)
        assert "\n" not in str(caught.value)
        # What the other would answer joins no run of the first; where the first is back, its run ends as it should.
        with pytest.raises(RunError, match="another"):
            ask(one.url, few, tmp_path / "run", concurrency=1)
        one.faults = None
        served_by(one, "tiny-1", "fp_1")
        np.testing.assert_allclose(numbers(ask(one.url, few, tmp_path / "run")), numbers(expected), rtol=1e-6)
        served_by(one, model, build)
        with pytest.raises(RunError, match="another"):  # nor is a finished run reused
            ask(one.url, few, tmp_path / "run")


def test_mass_is_stored_and_low_mass_is_no_answer(few: PairSet) -> None:
    with serving("even") as one:
        one.mass = 0.3
        table = ask(one.url, few)
    assert table.abstained.all() and table.frame[MASS].to_numpy() == pytest.approx(0.3, abs=1e-3)
    assert table.answered().frame.height == 0 and set(table.answers) == {""}
    with pytest.raises(RunError, match="20 of 20"):
        assess(table)


class Reluctant(ChatServer):
    """Has no answer for women who are nurses or artists."""

    def probabilities(self, premise: str, hypothesis: str) -> dict[str, float]:
        self.mass = 0.2 if "woman" in hypothesis and ("nurse" in premise or "artist" in premise) else 0.9
        return super().probabilities(premise, hypothesis)


def test_abstentions_are_counted_by_group_and_never_neutral(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chat_server.ChatServer", Reluctant)
    with serving("even") as one:
        table = ask(one.url, coal(), concurrency=1)
    seen = prompting_measures(table)
    assert seen["abstained_female"].value == pytest.approx(1 / 3) and seen["abstained_male"].value == pytest.approx(0)
    gap = seen["abstention_gap"]
    assert gap.value == pytest.approx(1 / 3) and gap.low < 1 / 3 < gap.high
    result = assess(table)
    # What is left is measured; all of it is right.
    assert sum(result.coal.rows.values()) == 100
    assert result.coal.value == pytest.approx(0)
    # A comparison leaves out what either did not answer.
    (compared,) = compare(table, Predictions(table.frame.with_columns(pl.lit(0.0).alias(ABSTAINED)), table.header))
    assert compared.n == 100
    # Where ids name pairs, a pair without one of its answers is left out as a whole.
    paired = table.frame.with_columns(id=pl.col("template") + pl.col("occupation") + "-" + pl.col("group"))
    assert Predictions(paired).answered().frame.height == 80


def test_an_abstention_on_a_gold_pair_is_not_right() -> None:
    with serving("even") as one:
        right = ask(one.url, gold_pairs("en"))
    assert competence(right).gold.value == pytest.approx(1)
    half = right.frame.with_columns((pl.int_range(pl.len()) % 2 == 0).cast(pl.Float32).alias(ABSTAINED))
    found = competence(Predictions(half, right.header))
    assert found.gold.value == pytest.approx(0.5, abs=0.01) and found.problem
    silent = right.frame.with_columns(pl.lit(1.0).alias(ABSTAINED))
    assert "abstains on 100%" in competence(Predictions(silent, right.header)).problem


def test_without_log_probabilities_answers_are_generated_and_parsed(few: PairSet) -> None:
    notes: list[str] = []
    with serving("biased", top=0) as one:
        table = ask(one.url, few, samples=3, on_warning=notes.append)
        right = [LABELS[i] for i in table.logits.argmax(axis=1)]
        assert set(right) == {"entailment", "contradiction"} and not table.abstained.any()
        one.says = "I cannot judge people by their job."
        refused = ask(one.url, few, samples=3)
    assert table.header["prompting"]["server"]["repeats_within"] is None  # there is nothing to compare
    assert refused.abstained.all()
    # 3 of 3 answers, half an answer added to each label.
    assert np.exp(table.logits.max(axis=1)) == pytest.approx(3.5 / 4.5, abs=1e-4)


def every(number: int, fault: Callable[[], Any]) -> Callable[[int], Any]:
    return lambda count: fault() if count % number == 0 else None


def _drop() -> None:
    raise ConnectionError


def _late() -> None:
    time.sleep(0.6)


FAULTS = {
    "drops": every(5, _drop),
    "429": every(5, lambda: (429, {"error": "slow down"}, {"Retry-After": "0.01"})),
    "503": every(7, lambda: (503, b"<html>busy</html>")),
    "wrong JSON": every(11, lambda: (200, b'{"choices": [')),
    "no object": every(6, lambda: (200, b"[1, 2]")),
    "slow": every(40, _late),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_passes_is_tried_again(
    name: str, few: PairSet, answered: Predictions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "TIMEOUT", 0.3)
    with serving("biased", faults=FAULTS[name]) as faulty:
        table = ask(faulty.url, few)
    assert numbers(table) == pytest.approx(numbers(answered))
    assert table.header["usage"]["retries"] > 0


def test_a_server_that_asks_to_wait_is_heard() -> None:
    assert server._seconds("7") == pytest.approx(7)
    assert server._seconds("Wed, 21 Oct 2065 07:28:00 GMT") > 1e6
    assert server._seconds("soon") == pytest.approx(0)
    long = every(1, lambda: (429, {}, {"Retry-After": "4000"}))
    with serving(faults=long) as one, pytest.raises(ModelError, match="4000 seconds"):
        ask(one.url, coal("nurse"))


def test_a_dead_server_leaves_what_was_answered_and_another_goes_on(few: PairSet, tmp_path: Path) -> None:
    with serving("biased") as one:
        expected = ask(one.url, few, tmp_path / "whole")
    with serving("biased", faults=lambda n: (500, {}) if n > 40 else None) as dying:
        with pytest.raises(ModelError, match="no answer .*kept"):
            ask(dying.url, few, tmp_path / "run", concurrency=2)
        first = dying.asked[2:]
    notes: list[str] = []
    with serving("biased") as healthy:
        table = ask(healthy.url, few, tmp_path / "run", on_warning=notes.append)
        second = healthy.asked[2:]
    assert any("continuing" in note for note in notes)
    whole = {pair for pair in first if sum(one[1:] == pair[1:] for one in first) == 3}
    assert len(whole) >= 9 and not whole & set(second[: -2 * 3])  # the last are the sample that is asked twice
    assert numbers(table) == pytest.approx(numbers(expected))


def test_interrupts_lose_nothing(few: PairSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenli.llm.chat._GROUP", 4)

    def interrupt(progress: Any) -> None:
        if progress.stage.startswith("scoring") and progress.done < progress.total:
            raise KeyboardInterrupt

    with serving("biased") as one:
        expected = ask(one.url, few)
        for _ in range(3):
            with pytest.raises(KeyboardInterrupt):
                ask(one.url, few, tmp_path / "run", on_progress=interrupt)
        done = sum(pl.read_parquet(file).height for file in (tmp_path / "run" / "shards").glob("*.parquet"))
        table = ask(one.url, few, tmp_path / "run")
    assert 12 <= done <= len(few)
    assert numbers(table) == pytest.approx(numbers(expected))


@pytest.mark.slow
def test_twenty_kills_end_with_the_same_table(tmp_path: Path) -> None:
    pairs = coal("nurse", "mechanic", "artist")
    code = (
        "import sys; from test_chat import *\n"
        "pairs = coal('nurse', 'mechanic', 'artist')\n"
        "ask(sys.argv[1], pairs, Path(sys.argv[2]), prompts=3, concurrency=2)\n"
    )
    with serving("biased", faults=lambda _: time.sleep(0.02)) as one:
        for _ in range(20):
            process = subprocess.Popen(
                [sys.executable, "-c", code, one.url, tmp_path / "run"],
                cwd=Path(__file__).parent,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )
            before = one.count
            while process.poll() is None and one.count < before + 25:
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        one.faults = None
        table = ask(one.url, pairs, tmp_path / "run", prompts=3)
        expected = ask(one.url, pairs, prompts=3)
    assert numbers(table) == pytest.approx(numbers(expected))


def test_a_calibrated_model_is_asked_about_nothing_first(few: PairSet) -> None:
    with serving("biased") as one:
        plain = load_model(f"chat:{one.url}", options=ModelOptions(prompting=Prompting(prompts=1)))
        before = one.count
        model = load_model(f"chat:{one.url}", options=ModelOptions(prompting=Prompting(prompts=1, calibrate=True)))
        assert one.count == before + 2 + 3 * 3  # what it can do, then three sentences in three views
        first, second = (predict(asked, [few]).frame for asked in (plain, model))
    prior = model.prompting["calibration"]["prior"]  # type: ignore[attr-defined]
    assert all(sum(shares.values()) == pytest.approx(1, abs=1e-3) for shares in prior.values())
    label = max(prior["en1-ENC"], key=prior["en1-ENC"].__getitem__)
    # It prefers that label where nothing is said, and so the label gets less everywhere.
    assert (second[label] < first[label]).all()
    assert first["en1-ENC:entailment"].to_list() == second["en1-ENC:entailment"].to_list()


def test_answers_that_change_are_noticed(few: PairSet) -> None:
    notes: list[str] = []
    with serving("biased") as one:

        def change(answer: dict[str, Any]) -> None:
            top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            # Another answer at once, and another one long after: no two are alike by chance.
            top[0]["logprob"] -= one.count * 0.618 % 1 + one.count // 50 * 0.3

        one.edit = change
        table = ask(one.url, few, on_warning=notes.append)
    assert table.header["prompting"]["server"]["repeats_within"] > 0.05
    assert any("does not repeat itself" in note for note in notes)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda entries: entries[0].update(logprob=float("nan")), "nan .*log-probability"),
        (lambda entries: entries.__delitem__(slice(3, None)), "3 .* where 20"),
        (lambda entries: entries[0].update(logprob="-1"), "gave '-1' as"),
    ],
)
def test_broken_log_probabilities_are_one_line(
    edit: Callable[[Any], None], message: str, few: PairSet, tmp_path: Path
) -> None:
    with serving("biased") as one:

        def spoil(answer: dict[str, Any]) -> None:
            if one.count > 41:
                edit(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"])

        one.edit = spoil
        with pytest.raises(ModelError, match=message):
            ask(one.url, few, tmp_path / "run", concurrency=1)
    kept = sum(pl.read_parquet(file).height for file in (tmp_path / "run" / "shards").glob("*.parquet"))
    assert kept == (41 - 2) // 3


def test_models_are_named() -> None:
    with serving() as one:
        with pytest.raises(ModelError, match="'other'.* tiny"):
            load_model(f"chat:{one.url.partition('#')[0]}#other")
        assert load_model(f"chat:{one.url.partition('#')[0]}").info.name == "tiny"
        one.models = ["a", "b"]
        with pytest.raises(ModelError, match="offers a, b"):
            load_model(f"chat:{one.url.partition('#')[0]}")
        one.listed = 5  # a server that lists no models is asked for the one that is named
        assert load_model(f"chat:{one.url}").info.name == "tiny"
        with pytest.raises(ModelError, match=r"offers \?"):
            load_model(f"chat:{one.url.partition('#')[0]}")
    with pytest.raises(ModelError, match="no answer from http://127.0.0.1"):
        load_model(f"chat:{one.url}")


def test_a_key_goes_to_its_host_and_nowhere_else(
    few: PairSet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "sk-abcdef0123456789"
    with serving("biased") as one:
        one.key = secret
        with pytest.raises(ModelError, match=f"without a key.*{KEY}"):
            load_model(f"chat:{one.url}")
        monkeypatch.setenv("OPENAI_API_KEY", secret)  # made for another host
        with pytest.raises(ModelError, match="without a key"):
            load_model(f"chat:{one.url}")
        monkeypatch.setenv(KEY, secret + "x")
        with pytest.raises(ModelError, match=f"the key in {KEY}") as caught:  # the server repeats it
            load_model(f"chat:{one.url}")
        assert secret not in str(caught.value)
        monkeypatch.setenv(KEY, secret)
        notes: list[str] = []
        ask(one.url, few, tmp_path / "run", on_warning=notes.append)
    written = b"".join(file.read_bytes() for file in (tmp_path / "run").rglob("*") if file.is_file())
    assert written and secret.encode() not in written
    output = capsys.readouterr()
    assert secret not in " ".join(notes) + output.out + output.err


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("http://user:secret@localhost:1#m", "a key "),
        ("http://localhost:1/v1?key=secret#m", "a key "),
        ("ftp://localhost#m", "is no address"),
        ("localhost:8080", "is no address"),
        ("http://localhost:99999999#m", "is no address"),
        ("http://[::1", "is no address"),
    ],
)
def test_addresses_that_are_refused(target: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as caught:
        load_model(f"chat:{target}")
    assert "secret" not in str(caught.value) or "no address" in message


def test_a_key_is_not_sent_unencrypted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "sk-1")
    with pytest.raises(ModelError, match="unencrypted"):
        load_model("chat:http://models.example#m")
    assert Address.parse("https://models.example/api/v1/#m").base == "https://models.example/api/v1"
    assert Address.parse("https://models.example#a:b").key() == ("sk-1", KEY)
    assert Address.parse("http://localhost:8080/v1/chat/completions#m").base == "http://localhost:8080/v1"


def test_redirects_are_not_followed(few: PairSet) -> None:
    with serving() as other, serving() as one:
        one.faults = lambda _: (307, {}, {"Location": other.url.partition("#")[0]})
        with pytest.raises(ModelError, match="redirects to 127.0.0.1"):
            ask(one.url, few)
        assert other.count == 0


def test_costs_are_estimated_and_limited(few: PairSet, tmp_path: Path) -> None:
    notes: list[str] = []
    with serving("biased") as one:
        table = ask(one.url, few, price=(10.0, 10.0), on_warning=notes.append)
        cost = table.header["usage"]["cost"]
        assert cost > 0 and any("cost about" in note for note in notes)
        before = one.count
        with pytest.raises(ModelError, match="more than.*--max-cost"):
            ask(one.url, few, price=(10.0, 10.0), max_cost=cost / 10)
        assert one.count == before + 2  # the two questions that find out what the server can do
        # The estimate is too low where tokens turn out dearer; the limit holds all the same, also over two runs.
        one.edit = lambda answer: answer["usage"].update(prompt_tokens=400) if one.count > before + 4 else None
        limit = 22 * 3 * 110 * 10 / 1e6 * 1.5
        for _ in range(2):
            with pytest.raises(ModelError, match="--max-cost"):
                ask(one.url, few, tmp_path / "run", price=(10.0, 10.0), max_cost=limit, concurrency=2)
    spent = sum(
        pl.read_parquet(file)["prompt_tokens"].sum() for file in (tmp_path / "run" / "shards").glob("*.parquet")
    )
    assert 0 < spent * 10 / 1e6 <= limit
    with pytest.raises(InputError, match="--max-cost.*--price"):
        Prompting(max_cost=1.0)


def test_concurrency_is_bounded_and_used(few: PairSet) -> None:
    with serving("biased", faults=lambda _: time.sleep(0.02)) as one:
        ask(one.url, few, concurrency=3)
        assert one.most_at_once == 3


def test_it_works_inside_a_running_event_loop(few: PairSet) -> None:
    async def notebook() -> Predictions:
        return ask(one.url, few)

    with serving("biased") as one:
        assert len(asyncio.run(notebook()).frame) == len(few)


def test_another_wording_is_another_run(few: PairSet, tmp_path: Path) -> None:
    with serving("biased") as one:
        ask(one.url, few, tmp_path / "run")
        with pytest.raises(RunError, match="holds another run"):
            ask(one.url, few, tmp_path / "run", orders=6)


@pytest.mark.parametrize(("given", "wordings"), [({}, 1), ({"prompts": 2}, 2)])
def test_a_first_look_asks_one_wording_unless_told_otherwise(given: dict[str, int], wordings: int) -> None:
    with serving("biased") as one:
        found = evenli.audit(f"chat:{one.url}", data=coal(), limit=24, **given)
        views = {view for view, *_ in one.asked}
    assert len(views) == 3 * wordings
    assert found.header["prompting"]["prompts"] == ["en1", "en2"][:wordings]
    # 24 pairs, and 20 of each of three gold labels and four kinds of control pairs.
    assert found.header["timings"]["pairs"] == 24 + 20 * 7
    # The first screen says that others were not asked, and how they are.
    (line,) = prompting_lines(found.result, found.header)
    assert ("--prompts 3" in line) == (wordings == 1)


@pytest.mark.parametrize(("limit", "count"), [(None, 9), (24, 3), (5_000, 3)])
def test_all_wordings_are_asked_where_there_is_no_limit(limit: int | None, count: int) -> None:
    # Refused for its cost, a run has asked only what finds out what the server can do.
    with serving("biased") as one:
        one.slots, one.spread = 4, 0.2
        with pytest.raises(ModelError, match="--max-cost"):
            evenli.audit(f"chat:{one.url}", data=coal(), limit=limit, price=(10.0, 10.0), max_cost=1e-6)
        # The first question twice, and three in every view for the prompt cache.
        assert one.count == 2 + 3 * count


@pytest.mark.parametrize(("settings", "message"), [({"prompts": 9}, "1 to 3"), ({"orders": 4}, "3 .* or 6")])
def test_settings_are_checked_before_the_server_is_asked(settings: dict[str, int], message: str) -> None:
    with pytest.raises(EvenliError, match=message):
        ask("http://127.0.0.1:9#m", coal("nurse"), **settings)
    with pytest.raises(InputError, match="language 'de'"):
        make_views("de", 1, 3)


LETTERS, WORDED = make_views("en", 2, 3)[0], make_views("en", 2, 3)[4]


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("A", "entailment"),
        (" b. ", "neutral"),
        ("C) It must be false.", "contradiction"),
        ("<think>hm</think>\nB", "neutral"),
        ("A and B", None),
        ("As an AI I cannot say", None),
        ("Answer: A", None),
        ("", None),
    ],
)
def test_the_parser_is_strict(text: str, label: str | None) -> None:
    assert LETTERS.parse(text) == label


def test_words_are_read_from_their_first_token() -> None:
    assert WORDED.order[0] == "neutral"
    assert [WORDED.label_of(token) for token in (" Yes", "no", "may", "Not", "", "n")] == [
        "entailment",
        "contradiction",
        "neutral",
        None,
        None,
        "contradiction",
    ]
    assert WORDED.parse("No.") == "contradiction" and WORDED.parse("Nothing") is None
    scores, mass = read_logprobs([("yes", np.log(0.5)), (" Yes", np.log(0.25)), ("the", np.log(0.1))], WORDED)
    assert np.exp(scores) == pytest.approx([0.75, 0.1, 0.1]) and mass == pytest.approx(0.75)
    assert read_texts(["maybe", "what?"], WORDED)[1] == pytest.approx(0.5)


def test_every_wording_is_complete_in_every_language() -> None:
    for lang in ("en", "ja", "zh"):
        views = make_views(lang, 3, 6)
        assert len({view.name for view in views}) == 18
        for view in views:
            text = view.text("PREMISE", "HYPOTHESIS")
            assert text.startswith(view.beginning) and text.index("PREMISE") < text.index("HYPOTHESIS")
            assert [view.label_of(view.answers[label]) for label in LABELS] == list(LABELS)
            assert [view.parse(view.answers[label]) for label in LABELS] == list(LABELS)
            listed = [text.index(view.prompt[label]) for label in view.order]
            assert listed == sorted(listed)


def test_views_become_one_row() -> None:
    p = np.array([[[0.6, 0.2, 0.1], [0.3, 0.3, 0.3], [0.1, 0.02, 0.03]]])
    views = make_views("en", 1, 3)
    row = combine(np.log(p), p.sum(axis=2), views)[0]
    parts = p[0] / p[0].sum(axis=1, keepdims=True)
    # The third order has too little mass, but the wording is answered in most.
    assert np.exp(row[:3]) == pytest.approx(parts.mean(axis=0), abs=1e-5)
    assert row[3] == 0 and row[4] == pytest.approx((0.9 + 0.9 + 0.15) / 3)
    assert combine(np.log(p[:, :1] / 10), p[:, :1].sum(axis=2) / 10, views[:1])[0][3] == 1


def test_a_wording_counts_with_all_its_orders_or_not_at_all() -> None:
    """A model that always takes the first option, and is silent in one order, still leans to no label."""
    place = np.full((3, 3), 0.05) + 0.8 * np.eye(3)
    silent = place.copy()
    silent[2] /= 10
    unsaid = np.full((3, 3), 0.01) + np.array([0.1, 0.0, 0.0])
    p = np.concatenate([silent, unsaid])[None]
    row = combine(np.log(p), p.sum(axis=2), make_views("en", 2, 3))[0]
    assert np.exp(row[:3]) == pytest.approx(np.full(3, 1 / 3), abs=1e-5)
    assert row[3] == 1  # two of six views are answers


def test_a_model_that_always_says_a_has_a_place_and_no_agreement(few: PairSet) -> None:
    with serving("biased") as one:

        def always_first(answer: dict[str, Any]) -> None:
            for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
                entry["logprob"] = {"A": -0.1, "B": -4.0, "C": -5.0}.get(entry["token"], -9.0)

        one.edit = always_first
        seen = prompting_measures(ask(one.url, few))
    assert seen["first_option"].value == pytest.approx(1) and seen["order_agreement"].value == pytest.approx(0)


def test_silence_is_no_agreement(few: PairSet) -> None:
    with serving("biased") as one:

        def never(answer: dict[str, Any]) -> None:
            for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
                entry["logprob"] = -9.0

        one.edit = never
        seen = prompting_measures(ask(one.url, few))
    assert seen["abstained"].value == pytest.approx(1)
    assert np.isnan(seen["order_agreement"].value) and np.isnan(seen["first_option"].value)


def test_wordings_that_disagree_are_seen(few: PairSet) -> None:
    with serving("biased") as one:
        alike = prompting_measures(ask(one.url, few, prompts=2))

        def only_yes(answer: dict[str, Any]) -> None:
            top = answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
            if any(entry["token"] == "yes" for entry in top):
                for entry in top:
                    entry["logprob"] = {"yes": -0.1, "no": -4.0, "maybe": -5.0}.get(entry["token"], -9.0)

        one.edit = only_yes
        apart = prompting_measures(ask(one.url, few, prompts=2))
    # Half of the pairs about a nurse say woman, which the biased model entails; the others say man.
    assert alike["prompt_agreement"].value == pytest.approx(1)
    assert apart["prompt_agreement"].value == pytest.approx(0.5)


def test_agreement_is_that_of_a_count_one_by_one(few: PairSet) -> None:
    """Two wordings in three orders, answers and silences at random: every measure is counted again row by row."""
    generator = np.random.default_rng(8)
    frame, views = few.frame, [(prompt, order) for prompt in ("p1", "p2") for order in ("ENC", "NCE", "CEN")]
    height = frame.height
    scores = {view: generator.normal(size=(height, 3)) for view in views}
    # The second answer of most rows is the first one again.
    for view in views[1:]:
        same = generator.random(height) < 0.7
        scores[view][same] = scores[views[0]][same]
    masses = {view: generator.choice([0.2, 0.5, 0.9], height, p=[0.3, 0.2, 0.5]) for view in views}
    columns = {f"{p}-{o}:{label}": scores[p, o][:, at] for p, o in views for at, label in enumerate(LABELS)}
    columns |= {f"{p}-{o}:mass": masses[p, o] for p, o in views}
    abstained, mass = generator.random(height) < 0.4, generator.random(height)
    columns |= {ABSTAINED: abstained.astype(np.int64), MASS: mass, **dict.fromkeys(LABELS, np.zeros(height))}
    seen = prompting_measures(Predictions(frame.with_columns(**{k: pl.Series(v) for k, v in columns.items()})))
    order, first, wording = [], [], []
    for row in range(height):
        answers = {v: int(scores[v][row].argmax()) if masses[v][row] >= 0.5 else None for v in views}
        alike = []
        for prompt in ("p1", "p2"):
            own = [answers[prompt, o] for o in ("ENC", "NCE", "CEN")]
            if any(one is not None for one in own):
                alike.append(None not in own and len(set(own)) == 1)
        if alike:
            order.append(np.mean(alike))
        given = [(o, one) for (_, o), one in answers.items() if one is not None]
        if given:
            first.append(np.mean([LABELS[one][0].upper() == o[0] for o, one in given]))
        whole = []
        for prompt in ("p1", "p2"):
            own = [v for v in views if v[0] == prompt]
            p = sum(np.exp(scores[v][row]) / np.exp(scores[v][row]).sum() for v in own)
            answered = sum(masses[v][row] >= 0.5 for v in own)
            whole.append(int(np.argmax(p)) if answered > len(own) / 2 else None)
        if any(one is not None for one in whole):
            wording.append(None not in whole and whole[0] == whole[1])
    assert 0 < np.mean(order) < 1 and 0 < np.mean(wording) < 1
    assert seen["order_agreement"].value == pytest.approx(np.mean(order)) and seen["order_agreement"].n == len(order)
    assert seen["first_option"].value == pytest.approx(np.mean(first)) and seen["first_option"].n == len(first)
    assert seen["prompt_agreement"].value == pytest.approx(np.mean(wording))
    assert seen["prompt_agreement"].n == len(wording)
    assert seen["label_mass"].value == pytest.approx(mass.mean(), abs=1e-6)
    groups = frame["group"].to_numpy()
    of = {name: abstained[groups == name].mean() for name in ("female", "male")}
    assert seen["abstained"].value == pytest.approx(abstained.mean())
    assert [seen[f"abstained_{name}"].value for name in of] == pytest.approx(list(of.values()))
    assert seen["abstention_gap"].value == pytest.approx(of["female"] - of["male"])
    ideals = {name: one.ideal for name, one in seen.items()}
    assert ideals == {
        **dict.fromkeys(("abstained", "abstained_female", "abstained_male", "abstention_gap", "vote_differs"), 0),
        **dict.fromkeys(("order_agreement", "prompt_agreement", "label_mass"), 1),
        "first_option": pytest.approx(1 / 3),
    }
    assert {one.range for name, one in seen.items() if name != "abstention_gap"} == {(0, 1)}
    assert seen["abstention_gap"].range == (-1, 1)
    # Four orders, two of them answered: no majority.
    four = {f"p1-{o}:{label}": np.zeros(height) for o in ("ENC", "NCE", "CEN", "ECN") for label in LABELS}
    four |= {
        f"p1-{o}:mass": np.full(height, m) for o, m in zip(("ENC", "NCE", "CEN", "ECN"), (1, 1, 0, 0), strict=True)
    }
    read = read_views(pl.DataFrame(four), {})
    assert read is not None and (read.by_wording == NO_ANSWER).all()


def test_a_table_without_its_views_is_still_read(few: PairSet) -> None:
    with serving("biased") as one:
        table = ask(one.url, few)
    for part in ("en1-ENC:entailment", "en1-ENC:mass"):
        seen = prompting_measures(Predictions(table.frame.drop(part), table.header))
        assert "abstained" in seen and "order_agreement" not in (seen if part.endswith("entailment") else {})
    assert assess(Predictions(table.frame.drop(MASS), table.header)).prompting == {}


def test_only_the_named_host_is_asked(few: PairSet) -> None:
    seen: list[Any] = []
    watching = [True]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching[0] and event in {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname"}:
            seen.append(arguments[1][0] if event == "socket.connect" else arguments[0])

    sys.addaudithook(watch)  # hooks cannot be taken away again, so this one is switched off
    with serving("biased") as one:
        ask(one.url, few)
    watching[0] = False
    assert seen and set(seen) <= {"127.0.0.1"}


def test_a_single_label_position_is_averaged_out(few: PairSet) -> None:
    with serving("biased") as one:
        six = ask(one.url, few, orders=6)
        three = ask(one.url, few, orders=3)
    assert len(six.header["prompting"]["orders"]) == 6
    assert six.logits == pytest.approx(three.logits, abs=1e-4)


def test_prices_on_the_command_line() -> None:
    from evenli.audit.settings import parse_prices

    assert parse_prices("0.15,0.60") == pytest.approx((0.15, 0.60))
    for text in ("1", "a,b", "1,2,3"):
        with pytest.raises(InputError, match="PROMPT,ANSWER"):
            parse_prices(text)
    for settings in ({"price": (-1.0, 0.0)}, {"price": (float("nan"), 0.0)}, {"concurrency": 0}, {"samples": 0}):
        with pytest.raises(InputError):
            Prompting(**settings)
