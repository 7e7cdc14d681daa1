"""Questions to a file and answers from one, in OpenAI's batch format, which ``vllm run-batch`` also takes.

A request is named by a hash of its question, so answers may come in any order and from several files put together, and
an answer to a question that is not asked cannot be taken for another. The sample that an audit asks twice has names of
its own: whether a model repeats itself is asked here as everywhere.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenli.audit.audit import asking, questions
from evenli.audit.models.base import ModelRequest, Prepared
from evenli.audit.predict import predict
from evenli.audit.settings import AuditSettings, ModelOptions
from evenli.core.errors import InputError, ModelError
from evenli.core.format import printable
from evenli.core.io import hash_text, iter_lines, write_atomic
from evenli.core.parse import parse_json_object
from evenli.llm import prompts
from evenli.llm.abilities import TOP, Abilities, body
from evenli.llm.chat import ChatModel
from evenli.llm.transport import WHO, Address, Handler, Message, top_logprobs

URL = "/v1/chat/completions"
AGAIN = "-again"


@dataclass(frozen=True)
class Written:
    """What a file of requests holds; tokens are estimated, and the cost where there is a price."""

    requests: int
    tokens: int
    cost: float | None


class Offline:
    """In place of a server: nothing is sent."""

    requests = retries = 0  # of a file of answers: how many it holds

    def __init__(self, host: str, model: str) -> None:
        self.address = Address("", host, model, is_local=True, is_encrypted=True)
        self.answering: dict[str, str] = {}
        self.again = False  # whether the sample that is asked twice is asked

    def work(
        self, jobs: Sequence[Any], do: Callable[[Any, Handler], Awaitable[Any]], concurrency: int
    ) -> Iterator[Any]:
        """Do jobs one after the other."""
        for job in jobs:
            yield _finished(do(job, self._send))

    async def _send(self, request: Message) -> dict[str, Any]:
        assert not isinstance(request, str)
        return self.answer(name_of(request, again=self.again), request)

    def answer(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request."""
        raise NotImplementedError


class Recorder(Offline):
    """Keeps every request, and answers with nothing that says anything."""

    def __init__(self, model: str, views: Sequence[prompts.View]) -> None:
        super().__init__("batch", model)
        self.bodies: dict[str, Mapping[str, Any]] = {}
        said = sorted({answer for view in views for answer in view.answers.values()})
        tops = [{"token": token, "logprob": -3.0} for token in (said * TOP)[:TOP]]
        self._said = {"message": {"content": said[0]}, "logprobs": {"content": [{"top_logprobs": tops}]}}

    def answer(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the request."""
        self.bodies[name] = request
        return {"choices": [self._said]}


class Answers(Offline):
    """The answers of a file, by the names of their requests."""

    def __init__(self, file: str | Path) -> None:
        self.file, self.lines, self.failed = Path(file), dict[str, bytes](), dict[str, str]()
        digest, builds, answering = sha256(), dict[str, None](), ""
        for number, line in iter_lines(self.file):
            if not line.strip():
                continue
            digest.update(line)
            where = f"{self.file}, line {number}"
            row = parse_json_object(line, where)
            name = row.get("custom_id")
            if not isinstance(name, str):
                raise InputError(f"{where}: an answer needs the custom_id of its request")
            answer, problem = _read(row)
            if problem:
                self.failed[name] = problem
                continue
            if name in self.lines:
                raise InputError(f"{where} answers '{printable(name)[:60]}' a second time")
            self.lines[name] = line
            model, build = (printable(str(answer.get(field) or ""))[:200] for field in WHO)
            if builds and model != answering:
                raise InputError(f"{where} is of model '{model}', those before of '{answering}'; a run is of one model")
            answering = model
            builds[build] = None
        if not self.lines:
            raise InputError(f"{self.file} holds no answers{_why(self.failed)}")
        super().__init__(self.file.name, answering)
        self.answering = dict(zip(WHO, (answering, ", ".join(sorted(filter(None, builds)))), strict=True))
        self.requests, self.digest = len(self.lines), digest.hexdigest()

    def abilities(self, *_: Any) -> Abilities:
        """How these questions were asked: for log-probabilities, or for several answers, which are numbered."""
        name = next(iter(self.lines))
        drawn = re.search(r"-\d+$", name.removesuffix(AGAIN))
        top = 0 if drawn else min(TOP, len(top_logprobs(self.answer(name, {}), 1)))
        unknown = math.nan
        # Other answers of the same model are another run.
        return Abilities(self.address.model, top, "max_tokens", "batch", unknown, 0.0, 0, f"sha256:{self.digest}")

    def answer(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """What the file holds."""
        if name not in self.lines:
            raise self.lacking([name], 1)
        return _read(parse_json_object(self.lines[name], self.file.name))[0]

    def lacking(self, names: Sequence[str], asked: int) -> ModelError:
        """Some of so many questions have no answer."""
        why = _why({name: self.failed[name] for name in names if name in self.failed})
        return ModelError(
            f"{self.file} lacks {len(names):,} of {asked:,} answers{why}; write those requests with 'evenli batch "
            f"write --answered {self.file}', and put their answers into the same file"
        )


class BatchModel(ChatModel):
    """A language model that is asked through files."""

    _server: Any

    def logits(self, items: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        """What is asked apart from the run: the sample that is asked twice, and sentences that say nothing."""
        self._server.again = True
        try:
            return super().logits(items)
        finally:
            self._server.again = False

    def begin(self, prepared: Prepared, scores: NDArray[np.float32], warn: Callable[[str], None]) -> None:
        """Refuse a file that lacks answers before anything is read from it."""
        if not isinstance(self._server, Answers):
            super().begin(prepared, scores, warn)
            return
        self.count_spent(scores)
        held: Answers = self._server
        pairs: Any = prepared.items
        bodies = (
            body(self.abilities, view.text(*pair), sample)
            for pair in pairs
            for view in self.views
            for sample in range(self._samples)
        )
        asked = {name_of(request): None for request in bodies}
        missing = [name for name in asked if name not in held.lines]
        missing += [name for name in held.failed if AGAIN in name and name not in held.lines]
        if missing:
            raise held.lacking(missing, len(asked))
        if other := sum(AGAIN not in name and name not in asked for name in held.lines):
            warn(f"{held.file} has {other:,} answers to questions that this audit does not ask")
        if "," in held.answering[WHO[1]]:
            warn(f"{held.file} is of several builds of the model: {held.answering[WHO[1]]}")


def load_answers(target: str, request: ModelRequest) -> BatchModel:
    """The backend ``batch:FILE``: answers that were given before."""
    answers: Any = Answers(target)
    return BatchModel(answers, request, answers.abilities)


def write_requests(
    model: str,
    out: str | Path,
    lang: str = "en",
    data: Any = None,
    *,
    suites: Sequence[str],
    settings: AuditSettings | None = None,
    generated: bool = False,
    answered: str | Path | None = None,
) -> Written:
    """Write what an audit asks a language model.

    Args:
        model: Name of the model where it is served.
        out: The file, JSON Lines.
        lang: Language of the audit.
        data: As ``evenli.audit`` takes it.
        suites: What is asked.
        settings: Everything else. Reading needs the same.
        generated: Ask for whole answers, several times, for a service that gives no log-probabilities.
        answered: File of answers; only what it does not answer is written.
    """
    if not model.strip():
        raise InputError("which model? Its name where it is served")
    done = Answers(answered).lines if answered is not None else {}
    # What it would say of requests to come is the answer of this call.
    settings = replace(settings or AuditSettings(), on_warning=lambda _: None)
    request = ModelRequest(f"batch:{model}", lang, asking(settings) or ModelOptions())
    prompting = request.options.prompting
    recorder: Any = Recorder(model, prompts.make_views(lang, prompting.prompts, prompting.orders))
    abilities = Abilities(model, 0 if generated else TOP, "max_tokens", "batch", math.nan, 0.0, 0, "")
    asked = BatchModel(recorder, request, lambda *_: abilities)
    predict(asked, questions(suites, lang, data, settings), None, settings)
    bodies = {name: content for name, content in recorder.bodies.items() if name not in done}
    if not bodies:
        raise InputError(f"{answered} answers every question; read it with 'evenli batch read {answered}'")
    rows = ({"custom_id": name, "method": "POST", "url": URL, "body": content} for name, content in bodies.items())
    write_atomic(out, "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows))
    used, share = asked.usage(), len(bodies) / len(recorder.bodies)
    cost = None if used.cost is None else used.cost * share
    return Written(len(bodies), round(used.prompt_tokens * share), cost)


def name_of(request: Mapping[str, Any], *, again: bool = False) -> str:
    """The name of a request: a hash of its question, and the number of a generated answer."""
    number = f"-{request['seed']}" if "seed" in request else ""
    return f"{hash_text(request['messages'][0]['content'])[:32]}{number}{AGAIN * again}"


def _finished(work: Awaitable[Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    assert isinstance(work, Coroutine)
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("nothing here waits")


def _read(row: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The answer of a line, or why there is none."""
    response = row.get("response")
    response = response if isinstance(response, dict) else {}
    status, content = response.get("status_code", 200), response.get("body")
    if row.get("error") or status != 200 or not isinstance(content, dict) or "choices" not in content:
        said = row.get("error") or content or "no answer"
        text = " ".join(printable(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)).split())
        return {}, f"status {status}: {text}"[:200] if status != 200 else text[:200]
    return content, ""


def _why(failed: Mapping[str, str]) -> str:
    return f"; {len(failed):,} requests failed, the first with: {next(iter(failed.values()))}" if failed else ""
