"""A whole sweep of bias-controlled models at BERT-base size: 11 rates, one seed, 990,000 pairs, 11 evaluations.

    evenli meta -o sweep --lang en --stage prepare
    python benchmarks/meta.py sweep --tokenizer tokenizer.json        # on a GPU

The weights are random: the time does not depend on them. Reading and tokenising, compiling, training and evaluating are
all inside the clock.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import torch

from evenli.training.meta.folder import MetaFolder
from evenli.training.meta.training import train_sweep
from evenli.training.recipe import make_recipe
from predict import EMBEDDED, make_checkpoint


def main() -> None:
    """Run the sweep once and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sweep", type=Path, help="prepared folder")
    parser.add_argument("--size", default="base", choices=("mini", "base"))
    parser.add_argument("--tokenizer", type=Path, default=EMBEDDED / "tokenizer.json")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        checkpoint = make_checkpoint(Path(scratch) / "model", arguments.size, arguments.tokenizer, spread=0.02)
        folder = MetaFolder(shutil.copytree(arguments.sweep, Path(scratch) / "sweep"))
        began = time.perf_counter()
        models = train_sweep(folder, str(checkpoint))
        seconds = time.perf_counter() - began
        spent = {cell: facts["seconds"] for cell, facts in folder.models().items()}
    training = sum(spent.values())
    rates = seconds - sum(took for cell, took in spent.items() if cell.axis != "bias")
    pairs = models * folder_pairs(arguments.sweep) * make_recipe("control").epochs
    where = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print(f"{where}: {models} models of size {arguments.size}, {pairs:,} training pairs: {seconds:.1f} s in all,")
    print(f"of them {seconds - training:.1f} s before the first step; {pairs / training:,.0f} pairs/s after that;")
    print(f"without a noise axis it would have been {rates:.1f} s")


def folder_pairs(path: Path) -> int:
    """Training pairs of a prepared folder."""
    return int(MetaFolder(path).header["pairs"]["train"])


if __name__ == "__main__":
    main()
