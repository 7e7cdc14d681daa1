"""Training speed: evenli, a plain PyTorch loop and ``transformers.Trainer``, plain and compiled, on the same data.

    PYTHONPATH=src python benchmarks/train.py --data snli_train.jsonl.xz --tokenizer FOLDER

BERT-base by default (random weights: speed does not depend on them), batch 32, the real lengths of the data. Prints
pairs per second, ratios and the share of the measured bf16 matrix-multiply peak, then checks that the captured loop and
the plain ones give the same losses with dropout off. Needs torch, transformers and numpy, nothing else of evenli's, so
that it runs on a machine that is lent for the measurement; the two rows of ``transformers.Trainer`` need accelerate.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
import transformers


class Unused:
    """Any name of a package that is not installed: a base class, a decorator, a function, all without effect."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __init_subclass__(cls, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Itself, as a decorator would be."""
        return self

    def __getattr__(self, name: str) -> Any:
        return self


class UnusedPackage(ModuleType):
    """Stands for a package that is not installed."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unused


class UnusedPackages(MetaPathFinder, Loader):
    """Finds packages that evenli imports and training steps do not use; asked only where they are not installed."""

    names = ("msgspec", "polars", "rich", "scipy", "typer")

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Only these packages, and all modules of them."""
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.names else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """A module that has every name."""
        return UnusedPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """There is no code to run."""


@contextlib.contextmanager
def unused_packages() -> Iterator[None]:
    """Stand-ins for absent packages inside the block; afterwards other libraries see again what is installed."""
    sys.meta_path.append(finder := UnusedPackages())
    yield
    sys.meta_path.remove(finder)
    for name, module in list(sys.modules.items()):
        if isinstance(module, UnusedPackage):
            del sys.modules[name]


with unused_packages():
    from evenli.training.data import EpochPlan, FlatTokens, read_examples, tokenise
    from evenli.training.fast import flat
    from evenli.training.loop import Trainer
    from evenli.training.recipe import Recipe

SIZES = {"tiny": (128, 2), "mini": (256, 4), "small": (512, 4), "base": (768, 12), "large": (1024, 24)}
TOLERANCE = 0.03


def main() -> None:
    """Measure and print."""
    arguments = parse()
    device = arguments.device
    flat.STABLE = not arguments.timed_choices
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.tokenizer)
    tokens = tokenise(read_examples([arguments.data]), tokenizer, 128)
    tokens = subset(tokens, np.arange(min(arguments.pairs, len(tokens))))
    say(f"{len(tokens):,} pairs, {tokens.lengths.mean():.1f} tokens each; {where(device)}")

    def model(dropout: float = 0.1) -> Any:
        return random_model(arguments.size, len(tokenizer), dropout)

    recipe = Recipe(epochs=1, batch_size=arguments.batch_size)
    trainer, compiling = prepared(model(), tokens, recipe, device)
    plan, compute = trainer.plan(0), flops(trainer.model, trainer.plan(0)) / len(tokens)
    rows = {"evenli": run_evenli(trainer, arguments.steps) | {"start_s": compiling}}
    describe(trainer, plan, kernels=arguments.profile)
    del trainer
    rows["plain loop"] = run_plain(model(), tokens, recipe, plan, device, arguments.slow_steps)
    trainers = {"transformers.Trainer": False, "Trainer reduce-overhead": True}
    if importlib.util.find_spec("accelerate") is None:
        trainers = {}
        say("no rows of transformers.Trainer: accelerate is not installed")
    for name, compiled in trainers.items():
        rows[name] = run_hf(model(), tokenizer, tokens, recipe, device, arguments.slow_steps, compiled=compiled)
    peak = matmul_peak(device)
    print_rows(rows, compute, peak)
    agreement = compare_losses(model, tokens, recipe, device, arguments.compared)
    agreement |= compare_weights(model, tokens, recipe, device, arguments.compared)
    if arguments.json:
        figures = {"device": where(device), "peak": peak, "rows": rows, "agreement": agreement}
        Path(arguments.json).write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if agreement["max_difference"] > TOLERANCE:
        raise SystemExit(f"the losses differ by more than {TOLERANCE}")
    if not agreement["repeated"] or not agreement["resumed"]:
        raise SystemExit("the same seed gave other weights")


def prepared(model: Any, tokens: FlatTokens, recipe: Recipe, device: str) -> tuple[Trainer, float]:
    """A trainer that has compiled and captured all it needs, and how long that took."""
    began = time.perf_counter()
    trainer = Trainer(model, tokens, recipe, device=device)
    trainer.prepare(trainer.plan(0))
    sync(device)
    return trainer, time.perf_counter() - began


def describe(trainer: Trainer, plan: EpochPlan, *, kernels: bool) -> None:
    """Print how many steps have which length, and what a step of each takes."""
    lengths = {length: plan.lengths.count(length) for length in sorted(set(plan.lengths))}
    say("steps by padded length: " + ", ".join(f"{length}: {count}" for length, count in lengths.items()))
    if trainer.stepper.graphed:
        say("ms a step by padded length: " + ", ".join(f"{k}: {v:.2f}" for k, v in per_length(trainer, plan).items()))
        if kernels:
            profile(trainer, plan)


def print_rows(rows: dict[str, dict[str, float]], compute: float, peak: float) -> None:
    """Print the speeds side by side; ``compute`` is the arithmetic of a pair, ``peak`` that of a second at most."""
    if peak:
        say(f"matrix-multiply peak (bf16, 8192^3): {peak / 1e12:,.0f} TFLOP/s")
    say(f"\n{'':24}{'pairs/s':>10}{'ms/step':>10}{'evenli is':>12}{'of peak':>10}")
    ours = rows["evenli"]
    for name, row in rows.items():
        row["share_of_peak"] = row["pairs_per_second"] * compute / peak if peak else float("nan")
        row["ratio"] = ours["pairs_per_second"] / row["pairs_per_second"]
        say(
            f"{name:24}{row['pairs_per_second']:10,.0f}{row['ms_per_step']:10.2f}{row['ratio']:11.1f}x"
            f"{row['share_of_peak']:10.1%}"
        )
    minutes = 5 * 549_367 / ours["pairs_per_second"] / 60
    say(f"compiling and capturing {ours['start_s']:.0f} s, once; all of SNLI x 5 epochs then takes {minutes:.1f} min")


def parse() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="NLI file")
    parser.add_argument("--tokenizer", required=True, help="folder with a tokenizer")
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--pairs", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=3_000, help="steps of evenli to time")
    parser.add_argument("--slow-steps", type=int, default=100, help="steps of each of the others")
    parser.add_argument("--compared", type=int, default=60, help="steps whose losses are compared")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--profile", action="store_true", help="list the kernels of a step")
    parser.add_argument("--timed-choices", action="store_true", help="let the compiler choose by timing")
    parser.add_argument("--json", help="also write the figures here")
    return parser.parse_args()


def run_evenli(trainer: Trainer, steps: int) -> dict[str, float]:
    """The trainer as users run it, reports included."""
    pairs = seconds = 0.0
    for report in trainer.run():
        if report.step <= 50 and trainer.steps > 100:
            continue
        pairs, seconds = pairs + report.pairs, seconds + report.seconds
        if report.step >= steps:
            break
    return {"pairs_per_second": pairs / seconds, "ms_per_step": 1e3 * seconds * trainer.recipe.batch_size / pairs}


def run_plain(
    model: Any, tokens: FlatTokens, recipe: Recipe, plan: EpochPlan, device: str, steps: int
) -> dict[str, float]:
    """A loop as tutorials write it: autocast, AdamW, clipping, a scheduler, batches padded to their longest pair."""
    warm = min(10, steps // 2)
    step = plain_step(model, tokens, recipe, plan, device)
    began = 0.0
    steps = min(steps, len(plan))
    for at in range(steps):
        if at == warm:
            sync(device)
            began = time.perf_counter()
        step(at)
    sync(device)
    seconds = (time.perf_counter() - began) / (steps - warm)
    return {"pairs_per_second": recipe.batch_size / seconds, "ms_per_step": 1e3 * seconds}


def plain_step(model: Any, tokens: FlatTokens, recipe: Recipe, plan: EpochPlan, device: str) -> Callable[[int], Any]:
    """The plain loop's step; returns the loss."""
    model = model.to(device).train()
    groups = [
        {"params": [p for p in model.parameters() if p.ndim >= 2], "weight_decay": recipe.weight_decay},
        {"params": [p for p in model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=recipe.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: max(0.0, 1 - step / len(plan)))

    def step(at: int) -> Any:
        batch = {name: tensor.to(device) for name, tensor in padded(tokens, plan.rows[at]).items()}
        with torch.autocast(torch.device(device).type, dtype=torch.bfloat16, enabled=device != "cpu"):
            loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
        optimiser.step()
        scheduler.step()
        optimiser.zero_grad()
        return loss.detach()

    return step


def run_hf(
    model: Any, tokenizer: Any, tokens: FlatTokens, recipe: Recipe, device: str, steps: int, *, compiled: bool
) -> dict[str, float]:
    """``transformers.Trainer`` with its defaults, bf16 and a padding collator.

    ``compiled`` adds ``torch_compile_mode="reduce-overhead"``, which records CUDA graphs of the model, not of the
    optimiser. Batches are then padded to few lengths, and the first half of the steps is for compiling.
    """
    warm = steps // 2 if compiled else min(20, steps // 2)
    times: list[float] = []

    class Clock(transformers.TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            if state.global_step in (warm, steps):
                sync(device)
                times.append(time.perf_counter())

    class Pairs(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return len(tokens)

        def __getitem__(self, row: int) -> dict[str, Any]:
            part = slice(tokens.starts[row], tokens.starts[row] + tokens.lengths[row])
            return {
                "input_ids": tokens.ids[part].tolist(),
                "token_type_ids": tokens.types[part].tolist(),
                "labels": int(tokens.labels[row]),
            }

    with tempfile.TemporaryDirectory() as folder:
        settings = transformers.TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=recipe.batch_size,
            learning_rate=recipe.lr,
            weight_decay=recipe.weight_decay,
            bf16=device != "cpu",
            use_cpu=device == "cpu",
            report_to="none",
            save_strategy="no",
            logging_strategy="no",
            disable_tqdm=True,
            torch_compile=compiled,
            torch_compile_mode="reduce-overhead" if compiled else None,
        )
        transformers.Trainer(
            model=model,
            args=settings,
            train_dataset=Pairs(),
            data_collator=transformers.DataCollatorWithPadding(tokenizer, pad_to_multiple_of=16 if compiled else None),
            callbacks=[Clock()],
        ).train()
    seconds = (times[1] - times[0]) / (steps - warm)
    return {"pairs_per_second": recipe.batch_size / seconds, "ms_per_step": 1e3 * seconds}


def compare_losses(
    model: Callable[[float], Any], tokens: FlatTokens, recipe: Recipe, device: str, steps: int
) -> dict[str, Any]:
    """Losses of the same batches without dropout: captured, not captured, and the plain loop."""
    some = short_pairs(tokens, steps * recipe.batch_size)
    recipe = replace(recipe, dropout=0.0)
    curves = {}
    for name, graph in (("captured", True), ("eager", False)):
        trainer = Trainer(model(0.0), some, recipe, device=device, graph=graph)
        plan = trainer.plan(0)
        curves[name] = np.array([report.loss for report in trainer.run(every=1)])
    step = plain_step(model(0.0), some, recipe, plan, device)
    curves["plain loop"] = np.array([float(step(at)) for at in range(len(plan))])
    for name in ("eager", "plain loop"):
        off = np.abs(curves["captured"] - curves[name])
        say(f"loss, captured against {name}, {len(off)} steps: mean |d| {off.mean():.2e}, max |d| {off.max():.2e}")
    worst = max(float(np.abs(curves["captured"] - curves[name]).max()) for name in ("eager", "plain loop"))
    return {"steps": len(curves["captured"]), "max_difference": worst, "last_loss": float(curves["captured"][-1])}


def compare_weights(
    model: Callable[[float], Any], tokens: FlatTokens, recipe: Recipe, device: str, steps: int
) -> dict[str, bool]:
    """Bitwise, with dropout: the same run twice, and a run that another trainer continues half-way."""
    some = short_pairs(tokens, steps * recipe.batch_size)

    def trained(half: bool) -> Any:
        trainer = Trainer(model(0.1), some, recipe, device=device)
        for report in trainer.run(every=10):
            if half and report.step == 10 * (trainer.steps // 20):
                state, step = trainer.state(), trainer.step
                trainer = Trainer(model(0.1), some, recipe, device=device)
                trainer.load_state(state, step)
                list(trainer.run(every=10))
                break
        return trainer.stepper.flat.master.cpu()

    first = trained(half=False)
    same = {"repeated": torch.equal(first, trained(half=False)), "resumed": torch.equal(first, trained(half=True))}
    say("weights, bitwise: " + ", ".join(f"{name} {'equal' if equal else 'NOT EQUAL'}" for name, equal in same.items()))
    return same


def short_pairs(tokens: FlatTokens, count: int) -> FlatTokens:
    """Pairs of one padded length, so that a comparison compiles once."""
    return subset(tokens, np.flatnonzero((tokens.lengths > 16) & (tokens.lengths <= 24))[:count])


def per_length(trainer: Trainer, plan: EpochPlan) -> dict[int, float]:
    """Milliseconds of a captured step for each padded length."""
    times = {}
    for length in sorted(set(plan.lengths)):
        trainer.stepper.load_epoch(plan, 0)
        repeats = min(50, len(plan) - 1)
        trainer.stepper.advance(length)
        torch.cuda.synchronize()
        began = time.perf_counter()
        for _ in range(repeats):
            trainer.stepper.advance(length)
        torch.cuda.synchronize()
        times[length] = 1e3 * (time.perf_counter() - began) / repeats
    return times


def profile(trainer: Trainer, plan: EpochPlan, length: int = 32, steps: int = 10) -> None:
    """Print the kernels of a captured step, slowest first."""
    trainer.stepper.load_epoch(plan, 0)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
        for _ in range(steps):
            trainer.stepper.advance(length)
        torch.cuda.synchronize()
    kernels = sorted(trace.key_averages(), key=lambda event: -event.device_time_total)
    total = sum(event.device_time_total for event in kernels) / steps
    count = sum(event.count for event in kernels) / steps
    say(f"a step of length {length}: {count:.0f} kernels, {total / 1e3:.2f} ms of kernel time")
    for event in kernels[:40]:
        each = event.device_time_total / steps
        say(f"  {each:8.1f} us  {event.count / steps:6.1f} x  {event.key[:110]}")


def flops(model: Any, plan: EpochPlan) -> float:
    """Floating-point operations of an epoch as run: 6 per encoder weight and token, plus the attention products."""
    config = model.config
    width, layers = config.hidden_size, config.num_hidden_layers
    weights = layers * (4 * width**2 + 2 * width * config.intermediate_size)
    batch = plan.rows.shape[1]
    return float(sum(batch * length * (6 * weights + 12 * layers * width * length) for length in plan.lengths))


def matmul_peak(device: str) -> float:
    """Operations per second of a large bf16 product on random data."""
    if device == "cpu":
        return 0.0
    a, b = (torch.randn(8192, 8192, device=device, dtype=torch.bfloat16) for _ in range(2))
    for _ in range(3):
        a @ b
    sync(device)
    began = time.perf_counter()
    for _ in range(10):
        a @ b
    sync(device)
    return float(10 * 2 * 8192**3 / (time.perf_counter() - began))


def random_model(size: str, vocabulary: int, dropout: float) -> Any:
    """A BERT classifier of a common size, always with the same random weights."""
    width, layers = SIZES[size]
    torch.manual_seed(0)
    return transformers.BertForSequenceClassification(
        transformers.BertConfig(
            vocab_size=vocabulary,
            hidden_size=width,
            num_hidden_layers=layers,
            num_attention_heads=width // 64,
            intermediate_size=4 * width,
            hidden_dropout_prob=dropout,
            attention_probs_dropout_prob=dropout,
            num_labels=3,
        )
    )


def padded(tokens: FlatTokens, rows: Any) -> dict[str, Any]:
    """A batch as a collator makes it."""
    rows = rows[rows >= 0]
    longest = int(tokens.lengths[rows].max())
    ids = np.full((len(rows), longest), tokens.ids[-1], dtype=np.int64)
    types, mask = np.zeros_like(ids), np.zeros_like(ids)
    for at, row in enumerate(rows):
        length = tokens.lengths[row]
        part = slice(tokens.starts[row], tokens.starts[row] + length)
        ids[at, :length], types[at, :length], mask[at, :length] = tokens.ids[part], tokens.types[part], 1
    named = {"input_ids": ids, "token_type_ids": types, "attention_mask": mask, "labels": tokens.labels[rows]}
    return {name: torch.from_numpy(array) for name, array in named.items()}


def subset(tokens: FlatTokens, rows: Any) -> FlatTokens:
    """Some of the pairs; the flat arrays are shared."""
    return replace(
        tokens,
        starts=tokens.starts[rows],
        lengths=tokens.lengths[rows],
        labels=tokens.labels[rows],
        names=[tokens.names[row] for row in rows],
    )


def where(device: str) -> str:
    """The machine in words."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    return f"{name}, torch {torch.__version__}, transformers {transformers.__version__}"


def sync(device: str) -> None:
    """Wait for the device."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()


def say(text: str) -> None:
    """Print at once."""
    print(text, flush=True)
    sys.stdout.flush()


if __name__ == "__main__":
    main()
