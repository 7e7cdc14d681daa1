"""The questions of an audit in other evaluation libraries: their answers become the audit that evenli would make."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evenli.audit.models.callables import FakeModel
from evenli.core.errors import InputError
from evenli.core.labels import LABELS
from evenli.llm.lm_eval_tasks import tasks
from evenli.llm.questions import parse, questions, score

ROOT = Path(__file__).parents[2]


def answered(kind: str, asked: list[dict[str, object]]) -> list[tuple[str, tuple[float, ...], float]]:
    """What a fake model says, as log-probabilities."""
    fake = FakeModel(kind)
    answers = []
    for one in asked:
        premise, hypothesis = str(one["text"]).split("\n")[-3:-1]
        (label,) = fake([premise.partition(": ")[2]], [hypothesis.partition(": ")[2]])
        values = tuple(math.log(0.8 if name == label else 0.05) for name in LABELS)
        answers.append((str(one["key"]), values, 0.9))
    return answers


@pytest.fixture(scope="module")
def asked() -> list[dict[str, object]]:
    return questions("en", 1, 3)


def test_answers_become_an_audit(asked: list[dict[str, object]]) -> None:
    audit = score(answered("biased", asked))
    assert audit.coal.value == pytest.approx(1) and audit.verdict.code == "bias"
    assert audit.competence is not None and audit.competence.gold.value == pytest.approx(1)
    assert audit.prompting["coal"]["order_agreement"].value == pytest.approx(1)


def test_pairs_that_were_not_asked_in_every_view_are_left_out(asked: list[dict[str, object]]) -> None:
    some = answered("even", asked)
    first = next(at for at, one in enumerate(asked) if str(one["key"]).startswith("265/"))
    kept = some[: first + 3 * 40 + 1]
    assert sum(score(kept).coal.rows.values()) == 40
    with pytest.raises(InputError, match="coal .* 3 views"):
        score(some[: first + 1])


def test_the_lm_eval_task_scores_log_likelihoods(asked: list[dict[str, object]]) -> None:
    settings = '{"lang": "en", "count": 1, "orders": 3}'
    said = {key: values for key, values, _ in answered("biased", asked)}
    items = [
        tasks.process({"settings": settings, "key": one["key"]}, [(value, False) for value in said[str(one["key"])]])
        for one in asked
    ]
    assert tasks.coal([one["coal"] for one in items]) == pytest.approx(1)
    assert tasks.gold_accuracy([one["gold_accuracy"] for one in items]) == pytest.approx(1)
    assert tasks.abstained([one["abstained"] for one in items]) == pytest.approx(0)
    assert tasks.order_agreement([one["order_agreement"] for one in items]) == pytest.approx(1)
    unsure = [(settings, str(one["key"]), (-5.0, -5.0, -5.0)) for one in asked]
    assert math.isnan(tasks.coal(unsure)) and tasks.abstained(unsure) == pytest.approx(1)


def test_generated_answers_are_parsed_by_view() -> None:
    assert parse("en", "en1-NCE", "B") == "contradiction" and parse("en", "en1-NCE", "Sorry, no.") is None


def test_the_folder_of_the_lm_eval_task_is_printed() -> None:
    words = [sys.executable, "-m", "evenli.llm.lm_eval_tasks"]
    out = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert (Path(out) / "evenli_coal.yaml").is_file()


@pytest.mark.slow
def test_lm_eval_runs_the_task(tmp_path: Path) -> None:
    pytest.importorskip("lm_eval", reason="pip install 'evenli[lm-eval]'")
    from test_causal import make_model

    folder = make_model(tmp_path / "model", template=False)
    code = (
        "import lm_eval, json, sys\n"
        "from lm_eval.tasks import TaskManager\n"
        "from evenli.encoders.interop import lm_eval_tasks\n"
        "manager = TaskManager(include_path=lm_eval_tasks.__path__[0], include_defaults=False)\n"
        f"model = 'pretrained={folder},device=cpu'\n"
        "found = lm_eval.simple_evaluate(model='hf', model_args=model, tasks=['evenli_coal'], task_manager=manager,\n"
        "                                limit=900, batch_size=64, bootstrap_iters=0)\n"
        "print(json.dumps(found['results']['evenli_coal'], default=str))\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "gold_accuracy,none" in done.stdout and "abstained,none" in done.stdout


@pytest.mark.slow
def test_inspect_runs_the_task(tmp_path: Path) -> None:
    pytest.importorskip("inspect_ai", reason="pip install 'evenli[inspect]'")
    pytest.importorskip("openai", reason="pip install openai; inspect asks servers of that kind through it")
    code = (
        "import json, sys; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path\n"
        "from inspect_ai import eval\n"
        "from inspect_ai.model import get_model\n"
        "from chat_server import serving\n"
        "from evenli.llm.inspect_task import evenli_coal\n"
        "task = evenli_coal(prompts=1)\n"
        "task.dataset = task.dataset[:1200]\n"
        "with serving('biased', top=0) as one:\n"
        "    address = one.url.partition('#')[0] + '/v1'\n"
        "    model = get_model('openai-api/local/tiny', base_url=address, api_key='none')\n"
        "    (log,) = eval(task, model=model, log_dir=sys.argv[3], display='none')\n"
        "found = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}\n"
        "Path(sys.argv[3], 'found.json').write_text(json.dumps(found))\n"
    )
    words = [sys.executable, "-c", code, str(ROOT / "src"), str(ROOT / "tests"), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    # A biased model behind a server that gives text only: every answer is read, and the gold pairs are right.
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))  # inspect_ai keeps what is printed
    assert found["abstained"] == pytest.approx(0) and found["gold_accuracy"] == pytest.approx(1)
