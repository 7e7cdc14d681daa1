"""What the tests share: the public data, small real checkpoints, a way to run the command line."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


class WithoutRoom:
    """``EVENLI_WITHOUT=training pytest tests/audit`` runs tests as if the folder of a room had been deleted."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == f"evenli.{os.environ['EVENLI_WITHOUT']}":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


if os.environ.get("EVENLI_WITHOUT"):
    sys.meta_path.insert(0, WithoutRoom())
SHARED = Path(os.environ.get("EVENLI_SHARED_DATA", ROOT.parent / "shared" / "data"))
WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "the",
    "a",
    "an",
    "is",
    "man",
    "woman",
    "person",
    "nurse",
    "doctor",
    "waits",
    "walks",
    "in",
    "on",
    "at",
    "with",
    "rain",
    "park",
    ".",
    ",",
    "two",
    "people",
    "child",
    "dog",
    "eats",
    "sleeps",
    "red",
    "blue",
    "small",
    "large",
    "near",
    "house",
    "street",
    "and",
    "of",
    "to",
    "not",
    "no",
]


def skip_without(*modules: str) -> None:
    """Skip a file of tests where a library is missing, without importing it: each process reads all files."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed", allow_module_level=True)


PEAK_MEMORY = """
def peak_memory():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
"""
"""Code for a fresh process: the megabytes it took at most. ``ru_maxrss`` begins with what its parent had taken, and so
hides everything below that in a process that a large test run starts."""


LONGEST = (
    *("test_goldens.py", "test_offline.py", "test_docs_blocks.py", "test_site.py", "test_fuzz.py", "test_training.py"),
    *("test_cli.py", "test_score_cli.py", "test_meta.py", "test_mitigated_encoders.py", "test_report.py"),
    *("test_report_browser.py", "test_embedded.py", "test_encoder_report.py", "test_suites.py", "test_view.py"),
    *("test_export.py", "test_predictions.py", "test_plugins_encoders.py", "test_plugins_suites.py"),
    *("test_trust.py", "test_wordings.py", "test_chat.py", "test_corpus.py", "test_senteval.py", "test_bilstm.py"),
    *("test_intervals.py", "test_plugins_models.py", "test_gate.py", "test_compare.py"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first: one of them at the end would leave the other process without work."""
    order = {name: at for at, name in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.path.name, len(order)))


@pytest.fixture(scope="session")
def shared_data() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the public data is not at {SHARED}; set EVENLI_SHARED_DATA")
    return SHARED


@pytest.fixture(scope="session", autouse=True)
def drawn_once() -> Iterator[None]:
    """The same chart is not drawn again: most tests of pages look at something else."""
    if not importlib.util.find_spec("vl_convert"):
        yield
        return
    import vl_convert

    charts: dict[str, str] = {}
    draw = vl_convert.vegalite_to_svg

    def svg(*chart: Any, **options: Any) -> str:
        key = json.dumps([chart, options], sort_keys=True, default=str)
        if key not in charts:
            charts[key] = draw(*chart, **options)
        return charts[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vl_convert, "vegalite_to_svg", svg)
        yield


@pytest.fixture(scope="module")
def two_draws() -> Iterator[None]:
    """Probes are trained twice, not five times, in files that are not about what they find, or where that is clear."""
    from evenli.encoders import leakage

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leakage, "SEEDS", 2)
        yield


@pytest.fixture(scope="session")
def run_cli() -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run ``evenli`` in a process of its own, as a user does: a fork, which saves a second of imports each time."""
    pytest.importorskip("torch")
    server = subprocess.Popen(
        [sys.executable, Path(__file__).with_name("forked_cli.py")],
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None):
        words = [str(word) for word in arguments]
        environment = os.environ | {"HF_HUB_OFFLINE": "1"} | (env or {})
        print(json.dumps([words, str(cwd or Path.cwd()), environment]), file=server.stdin, flush=True)
        return subprocess.CompletedProcess(["evenli", *words], *json.loads(server.stdout.readline()))

    with server:
        yield run
        server.stdin.close()


@pytest.fixture(scope="session")
def fuzz_seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the fuzzer's valid inputs are built, each once for all processes of this session; ``material`` locks it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "seeds"
    folder.mkdir(exist_ok=True)
    return folder


def tiny_tokenizer():
    """A real WordPiece tokenizer over a few words."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    vocab = {word: index for index, word in enumerate(WORDS)}
    for letter in "abcdefghijklmnopqrstuvwxyz0123456789'-":
        for piece in (letter, f"##{letter}"):
            vocab.setdefault(piece, len(vocab))
    tokenizer = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0",
        pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocab["[CLS]"]), ("[SEP]", vocab["[SEP]"])],
    )
    return tokenizer


def make_checkpoint(folder: Path, *, labels: list[str] | None = None, hidden: int = 32, layers: int = 2) -> Path:
    """A small BERT classifier with random weights, saved as a user would save theirs."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    labels = labels or ["entailment", "neutral", "contradiction"]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tiny_tokenizer(),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=128,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=hidden * 4,
        max_position_embeddings=160,
        num_labels=len(labels),
        initializer_range=0.5,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model = transformers.BertForSequenceClassification(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture
def pair_file(tmp_path: Path) -> Callable[..., Path]:
    """Write rows as JSON Lines."""

    def write(rows: list[dict[str, object]], name: str = "pairs.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
