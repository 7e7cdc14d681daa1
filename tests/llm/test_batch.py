"""Batches of requests: the same numbers as over HTTP, and nothing lost where answers are missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("httpx")

import httpx

import evenli
from chat_server import ChatServer, serving
from evenli.audit.predictions import ABSTAINED, MASS
from evenli.core.errors import EvenliError, InputError, ModelError, RunError
from evenli.core.labels import LABELS
from evenli.llm.batch import AGAIN, URL

ASKED = ("--suite", "labour", "--limit", "12")


def rows_of(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def write_rows(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return file


def replay(server: ChatServer, requests: Path, out: Path) -> Path:
    """What 'vllm run-batch' does: send every body to its URL, and note the answer in another order."""
    base, rows = server.url.partition("#")[0], []
    with httpx.Client() as client:
        for row in rows_of(requests):
            assert row["method"] == "POST" and row["url"] == URL
            answer = client.post(f"{base}{row['url']}", json=row["body"])
            response = {"status_code": answer.status_code, "request_id": "1", "body": answer.json()}
            rows.append({"id": "1", "custom_id": row["custom_id"], "response": response, "error": None})
    return write_rows(out, rows[::-1])


def numbers(audit: Any) -> np.ndarray:
    return audit.predictions.frame.select([*LABELS, ABSTAINED, MASS]).to_numpy()


def asked(model: str, **more: Any) -> Any:
    return evenli.audit(model, suites=("labour",), limit=12, **more)


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, run_cli: Any) -> Path:
    """Requests, and what a server that has a lean answers."""
    folder = tmp_path_factory.mktemp("batch")
    done = run_cli("batch", "write", "tiny", *ASKED, "-o", folder / "requests.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["requests"] == len(rows_of(folder / "requests.jsonl")) and said["tokens"] > 1_000
    with serving("biased") as server:
        server.spread = 0.1
        replay(server, folder / "requests.jsonl", folder / "responses.jsonl")
    return folder


def test_the_numbers_are_those_over_http(batch: Path, tmp_path: Path, run_cli: Any) -> None:
    done = run_cli("batch", "read", batch / "responses.jsonl", *ASKED, "-o", tmp_path / "run", "--json")
    assert done.returncode == 0, done.stderr
    with serving("biased") as server:
        server.spread = 0.1
        direct = asked(f"chat:{server.url}")
    read = evenli.load_run(tmp_path / "run")
    np.testing.assert_allclose(numbers(read), numbers(direct), rtol=1e-6)
    assert json.loads(done.stdout)["labour"] == direct.to_dict()["labour"]
    ours, theirs = read.header, direct.header
    assert ours["prompting"]["columns"] == theirs["prompting"]["columns"] and ours["repeat"] == theirs["repeat"]
    assert ours["prompting"]["server"]["answering"] == theirs["prompting"]["server"]["answering"]
    assert ours["model"]["name"] == theirs["model"]["name"] == "tiny" and ours["model"]["backend"] == "batch"
    # The spec that is stored asks the same again.
    again = asked(ours["model"]["spec"])
    np.testing.assert_allclose(numbers(again), numbers(direct), rtol=1e-6)


def test_a_request_is_what_the_format_says(batch: Path) -> None:
    rows = rows_of(batch / "requests.jsonl")
    assert all(set(row) == {"custom_id", "method", "url", "body"} for row in rows)
    assert len({row["custom_id"] for row in rows}) == len(rows)
    assert {row["body"]["model"] for row in rows} == {"tiny"} and all(row["body"]["logprobs"] for row in rows)
    assert any(AGAIN in row["custom_id"] for row in rows)


def test_a_model_that_does_not_repeat_itself_is_noticed(batch: Path, tmp_path: Path) -> None:
    rows = rows_of(batch / "responses.jsonl")
    for row in rows:
        if AGAIN in row["custom_id"]:
            for token in row["response"]["body"]["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
                token["logprob"] = -1.0
    audit = asked(f"batch:{write_rows(tmp_path / 'responses.jsonl', rows)}")
    assert audit.result.repeat is not None and audit.result.repeat.largest > 0.1
    assert asked(f"batch:{batch / 'responses.jsonl'}").result.repeat.stable  # the control


def failed(row: dict[str, Any]) -> None:
    row["response"] = {"status_code": 400, "body": {"error": {"message": "maximum context length is 512 tokens"}}}


def refused(row: dict[str, Any]) -> None:
    row.update(response=None, error={"code": "batch_expired", "message": "the maximum context time"})


@pytest.mark.parametrize(
    ("damage", "says"), [(failed, "status 400.*context"), (refused, "batch_expired"), (dict.clear, "lacks 2 of")]
)
def test_failed_and_missing_answers_are_told_and_asked_again(
    batch: Path, tmp_path: Path, damage: Callable[[dict[str, Any]], None], says: str, run_cli: Any
) -> None:
    rows = rows_of(batch / "responses.jsonl")
    lost = [row for row in rows if AGAIN not in row["custom_id"]][:2]
    names = {row["custom_id"] for row in lost}
    for row in lost:
        damage(row)
    file = write_rows(tmp_path / "responses.jsonl", [row for row in rows if row])
    before = file.read_bytes()
    with pytest.raises(ModelError, match=says) as caught:
        asked(f"batch:{file}", out=tmp_path / "run")
    assert "\n" not in str(caught.value) and "lacks 2 of" in str(caught.value) and file.read_bytes() == before
    done = run_cli("batch", "read", file, *ASKED, "-o", tmp_path / "run")
    assert done.returncode == 2 and done.stderr.count("lacks 2 of") == 1
    done = run_cli("batch", "write", "tiny", *ASKED, "--answered", file, "-o", tmp_path / "more.jsonl")
    assert done.returncode == 0 and {row["custom_id"] for row in rows_of(tmp_path / "more.jsonl")} == names
    with serving("biased") as server:
        server.spread = 0.1
        more = replay(server, tmp_path / "more.jsonl", tmp_path / "more-responses.jsonl")
    file.write_bytes(before + more.read_bytes())
    whole = asked(f"batch:{file}", out=tmp_path / "run")
    np.testing.assert_allclose(numbers(whole), numbers(asked(f"batch:{batch / 'responses.jsonl'}")), rtol=1e-6)
    done = run_cli("batch", "write", "tiny", *ASKED, "--answered", file, "-o", tmp_path / "none.jsonl")
    assert done.returncode == 2 and not (tmp_path / "none.jsonl").exists()


def of_another_model(rows: list[dict[str, Any]]) -> None:
    rows[5]["response"]["body"]["model"] = "other"


def twice(rows: list[dict[str, Any]]) -> None:
    rows.append(rows[0])


def nameless(rows: list[dict[str, Any]]) -> None:
    del rows[3]["custom_id"]


def without_logprobs(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        row["response"]["body"]["choices"][0].pop("logprobs")


def nothing(rows: list[dict[str, Any]]) -> None:
    rows.clear()


def all_failed(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        failed(row)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (of_another_model, "'other'"),
        (twice, "second time"),
        (nameless, "custom_id"),
        (without_logprobs, "0 top log-probabilities"),
        (nothing, "no answers"),
        (all_failed, "no answers.*failed.*400"),
    ],
)
def test_files_that_are_no_answers(batch: Path, tmp_path: Path, damage: Any, says: str) -> None:
    rows = rows_of(batch / "responses.jsonl")
    damage(rows)
    with pytest.raises(EvenliError, match=says) as caught:
        asked(f"batch:{write_rows(tmp_path / 'responses.jsonl', rows)}")
    assert "\n" not in str(caught.value)


def test_other_answers_are_another_run(batch: Path, tmp_path: Path) -> None:
    asked(f"batch:{batch / 'responses.jsonl'}", out=tmp_path / "run")
    rows = rows_of(batch / "responses.jsonl")
    rows[0]["response"]["body"]["usage"]["completion_tokens"] += 1
    with pytest.raises(RunError, match="another"):
        asked(f"batch:{write_rows(tmp_path / 'responses.jsonl', rows)}", out=tmp_path / "run")


def test_answers_to_other_questions_are_told(batch: Path) -> None:
    notes: list[str] = []
    with pytest.raises(ModelError, match="lacks"):  # another sample of the pairs
        asked(f"batch:{batch / 'responses.jsonl'}", seed=1)
    evenli.audit(f"batch:{batch / 'responses.jsonl'}", suites=("labour",), limit=12, prompts=1, on_warning=notes.append)
    assert not any("not ask" in note for note in notes)  # the control


def test_generated_answers_are_counted(tmp_path: Path, run_cli: Any) -> None:
    words = ("batch", "write", "tiny", *ASKED, "--generated", "--samples", "2", "-o", tmp_path / "requests.jsonl")
    assert run_cli(*words).returncode == 0
    rows = rows_of(tmp_path / "requests.jsonl")
    assert all("logprobs" not in row["body"] and row["body"]["temperature"] == 1 for row in rows)
    with serving("biased", top=0) as server:
        file = replay(server, tmp_path / "requests.jsonl", tmp_path / "responses.jsonl")
        direct = asked(f"chat:{server.url}", samples=2)
    read = asked(f"batch:{file}", samples=2)
    np.testing.assert_allclose(numbers(read), numbers(direct), rtol=1e-6)
    assert read.header["prompting"]["samples"] == 2
    with pytest.raises(ModelError, match="lacks"):
        asked(f"batch:{file}", samples=3)


def test_long_texts_and_no_model_are_one_line(tmp_path: Path, run_cli: Any) -> None:
    done = run_cli("batch", "write", " ", *ASKED, "-o", tmp_path / "requests.jsonl")
    assert done.returncode == 2 and "which model" in done.stderr
    long = tmp_path / "responses.jsonl"
    long.write_text(json.dumps({"custom_id": "x" * (17 << 20)}), encoding="utf-8")
    with pytest.raises(InputError, match="16 MB"):
        asked(f"batch:{long}")
    with pytest.raises(InputError, match="no such file"):
        asked(f"batch:{tmp_path / 'none.jsonl'}")


def test_a_cost_above_the_limit_writes_nothing(tmp_path: Path, run_cli: Any) -> None:
    words = ("batch", "write", "tiny", *ASKED, "--price", "1,1", "-o", tmp_path / "requests.jsonl")
    done = run_cli(*words, "--max-cost", "0.001")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and not (tmp_path / "requests.jsonl").exists()
    done = run_cli(*words, "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["cost"] > 0.001
