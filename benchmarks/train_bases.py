"""Training speed of every base of the leaderboard, by its shape; the weights are random, which changes no time.

    PYTHONPATH=src python benchmarks/train_bases.py --data snli_train.jsonl.xz --tokenizer FOLDER

Batch 32, the real lengths of the data, bfloat16 on a GPU. All steps are compiled and captured first; with ``--after
FILE`` the clock starts only when that file is there, so that other work on the device can end. Needs torch,
transformers and a CUDA device.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from evenli.training.data import read_examples, tokenise
from evenli.training.recipe import Recipe
from train import prepared, run_evenli, say, subset, where

SHAPES = {
    "tiny": ("bert", 128, 2, 2),
    "mini": ("bert", 256, 4, 4),
    "m3e-small": ("bert", 512, 4, 8),
    "MiniLM-L6": ("bert", 384, 6, 12),
    "gte-small, e5-small": ("bert", 384, 12, 12),
    "Chinese BERT-base": ("bert", 768, 12, 12),
    "all-mpnet-base-v2": ("mpnet", 768, 12, 12),
}
"""Kind, width, layers, attention heads."""


def main() -> None:
    """Measure and print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="NLI file")
    parser.add_argument("--tokenizer", required=True, help="folder with a tokenizer")
    parser.add_argument("--bases", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=2_000, help="steps to time")
    parser.add_argument("--after", type=Path, help="begin to measure when this file is there")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.tokenizer)
    tokens = tokenise(read_examples([given.data]), tokenizer, 128)
    tokens = subset(tokens, np.arange(min(given.pairs, len(tokens))))
    say(f"{len(tokens):,} pairs, {tokens.lengths.mean():.1f} tokens each; {where(given.device)}")
    trainers = {}
    for name in given.bases:
        recipe = Recipe(epochs=1, batch_size=32)
        trainers[name], seconds = prepared(random_base(name, len(tokenizer)), tokens, recipe, given.device)
        say(f"{name}: compiled and captured in {seconds:.0f} s")
    while given.after and not given.after.exists():
        time.sleep(0.5)
    print("| base | layers × width | pairs/s | ms a step |\n| --- | --- | --- | --- |", flush=True)
    for name, trainer in trainers.items():
        _, width, layers, _ = SHAPES[name]
        speed = run_evenli(trainer, given.steps)
        cells = f"{speed['pairs_per_second']:,.0f} | {speed['ms_per_step']:.2f}"
        print(f"| {name} | {layers} × {width} | {cells} |", flush=True)


def random_base(name: str, vocabulary: int) -> Any:
    """A classifier of this shape, always with the same random weights."""
    kind, width, layers, heads = SHAPES[name]
    shape = {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads}
    shape |= {"intermediate_size": 4 * width, "vocab_size": vocabulary, "num_labels": 3}
    torch.manual_seed(0)
    if kind == "mpnet":
        return transformers.MPNetForSequenceClassification(transformers.MPNetConfig(**shape))
    return transformers.BertForSequenceClassification(transformers.BertConfig(**shape))


if __name__ == "__main__":
    main()
