"""Prediction speed: evenli beside the loops people write, same weights, same 5,420 pairs, one run.

    python benchmarks/predict.py                       # CPU: ratios only, these depend on the machine least
    python benchmarks/predict.py --device cuda --size base   # GPU: absolute times of the scoring loop

Without --checkpoint a classifier of the chosen size with random weights is made; speed does not depend on the weights.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import transformers

from evenli.audit.models import ModelOptions
from evenli.audit.models.base import ModelRequest, plan_batches
from evenli.audit.models.hf import HFModel

SIZES = {"mini": (384, 6, 12), "base": (768, 12, 12)}
LABELS = ["entailment", "neutral", "contradiction"]
EMBEDDED = Path(__file__).parents[1] / "src" / "evenli" / "models" / "embedded" / "en-small"


def load_pairs(file: str | None) -> tuple[list[str], list[str]]:
    """The built-in English set, or the pairs of a JSON Lines file where polars is not installed."""
    if file:
        rows = [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]
        return [row["premise"] for row in rows], [row["hypothesis"] for row in rows]
    from evenli.audit.suites.coal.pairs import build_coal

    frame = build_coal("en").frame
    return frame["premise"].to_list(), frame["hypothesis"].to_list()


def make_checkpoint(folder: Path, size: str, tokenizer_file: Path, *, spread: float = 0.08) -> Path:
    """A BERT classifier with random weights and a real tokenizer.

    A large spread gives answers that differ between pairs, so that comparing the arg-max means something.
    """
    hidden, layers, heads = SIZES[size]
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(tokenizer_file),
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        model_max_length=512,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        id2label=dict(enumerate(LABELS)),
        label2id={label: i for i, label in enumerate(LABELS)},
        initializer_range=spread,
    )
    transformers.BertForSequenceClassification(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def timed(function: Callable[[], np.ndarray], repeats: int, device: str) -> tuple[float, np.ndarray]:
    """Best of several runs, the device drained before the clock is read."""
    best, answer = float("inf"), np.empty(0)
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        started = time.perf_counter()
        answer = function()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - started)
    return best, answer


def main() -> None:
    """Run all contestants and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--size", choices=SIZES, default="mini")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", help="JSON Lines with premise and hypothesis")
    parser.add_argument("--tokenizer", type=Path, default=EMBEDDED / "tokenizer.json")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--against", nargs="*", default=["plain", "pipeline", "cross-encoder"], help="who else runs")
    arguments = parser.parse_args()
    device = arguments.device
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    premises, hypotheses = load_pairs(arguments.pairs)
    scratch = tempfile.TemporaryDirectory()
    folder = arguments.checkpoint or make_checkpoint(Path(scratch.name) / "model", arguments.size, arguments.tokenizer)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    classifier = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval().to(device)
    order = [{v.lower(): k for k, v in classifier.config.id2label.items()}[label] for label in LABELS]

    def evenli(model: HFModel) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            prepared = model.prepare(premises, hypotheses)
            return score(model, prepared)

        return run

    def score(model: HFModel, prepared) -> np.ndarray:  # type: ignore[no-untyped-def]
        answer = np.empty((len(premises), 3), dtype=np.float32)
        for rows in plan_batches(prepared.lengths, bucket=model.bucket, token_budget=model.token_budget):
            answer[rows] = model.logits(prepared.take(rows))
        return answer

    def plain() -> np.ndarray:
        """Tokenise each batch, pad to 128."""
        parts = []
        with torch.inference_mode():
            for i in range(0, len(premises), 32):
                batch = tokenizer(
                    premises[i : i + 32],
                    hypotheses[i : i + 32],
                    padding="max_length",
                    truncation=True,
                    max_length=128,
                    return_tensors="pt",
                ).to(device)
                parts.append(classifier(**batch).logits.float().cpu().numpy())
        return np.concatenate(parts)[:, order]

    def pipeline() -> np.ndarray:
        pipe = transformers.pipeline("text-classification", model=classifier, tokenizer=tokenizer, device=device)
        texts = [{"text": p, "text_pair": h} for p, h in zip(premises, hypotheses, strict=True)]
        rows = pipe(texts, batch_size=32, top_k=None, function_to_apply="none")
        names = [{entry["label"].lower(): entry["score"] for entry in row} for row in rows]
        return np.array([[row[label] for label in LABELS] for row in names], dtype=np.float32)

    def cross_encoder() -> np.ndarray:
        from sentence_transformers import CrossEncoder

        encoder = CrossEncoder(str(folder), device=device)
        pairs = list(zip(premises, hypotheses, strict=True))
        return np.asarray(encoder.predict(pairs, batch_size=32, activation_fn=torch.nn.Identity()))[:, order]

    options = ModelOptions(device=device, dtype="float32")
    request = ModelRequest("", options=options)
    contestants: dict[str, Callable[[], np.ndarray]] = {"evenli": evenli(HFModel(str(folder), request))}
    if device == "cuda":
        fast = HFModel(str(folder), ModelRequest("", options=ModelOptions(device=device)))
        contestants["evenli bf16"] = evenli(fast)
    others = {
        "plain": ("plain loop, padded to 128", plain),
        "pipeline": ("transformers.pipeline", pipeline),
        "cross-encoder": ("CrossEncoder.predict", cross_encoder),
    }
    contestants |= dict(others[name] for name in arguments.against)
    first = HFModel(str(folder), request)
    first.logits(first.prepare(premises[:256], hypotheses[:256]).items)  # nobody pays for the start of the libraries
    times, answers = {}, {}
    for name, function in contestants.items():
        if device == "cuda":
            function()
        times[name], answers[name] = timed(function, arguments.repeats, device)
    print(f"{len(premises)} pairs, {device}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    for name, seconds in times.items():
        difference = np.abs(answers[name] - answers["evenli"]).max()
        same = (answers[name].argmax(axis=1) == answers["evenli"].argmax(axis=1)).mean()
        ratio = seconds / times["evenli"]
        absolute = f"{seconds:8.3f} s  " if device == "cuda" else ""
        print(f"{name:28s} {absolute}{ratio:6.2f}x  same arg-max {same:.4f}  max logit difference {difference:.1e}")
    if device == "cuda":
        prepared = fast.prepare(premises, hypotheses)
        timed(lambda: score(fast, prepared), 3, device)
        seconds, _ = timed(lambda: score(fast, prepared), 10, device)
        tokenising, _ = timed(lambda: np.zeros(len(fast.prepare(premises, hypotheses).lengths)), 3, device)
        print(f"evenli bf16, scoring alone once warm: {seconds:.4f} s; tokenising alone: {tokenising:.4f} s")


if __name__ == "__main__":
    main()
