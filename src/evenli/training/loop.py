"""The training loop: epochs, batches, reports, and the state that a later process continues from.

What happens in a step, and why it is fast, is in ``evenli.training.fast.stepper``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from evenli.audit.models.loading import position_limit
from evenli.core.errors import ModelError
from evenli.training.data import NOBODY, EpochPlan, FlatTokens, padded_lengths, plan_epoch
from evenli.training.fast.stepper import Stepper, World, score
from evenli.training.progress import Report, clock
from evenli.training.recipe import Recipe


class Trainer:
    """Trains one model on one set of tokens; can be set back and used again with other labels or another seed.

    The model is a three-label ``transformers`` classifier in fp32. ``graph`` uses CUDA graphs and the compiler, on CUDA
    only. ``fresh`` names parameters the base did not have; they are drawn anew from the seed.
    """

    def __init__(
        self,
        model: Any,
        data: FlatTokens,
        recipe: Recipe,
        *,
        device: str = "cpu",
        graph: bool = True,
        fresh: tuple[str, ...] = (),
        world: World | None = None,
    ) -> None:
        self.model, self.data, self.recipe = model.to(device), data, recipe
        self.device, self._fresh, self.world = torch.device(device), fresh, world or World()
        if recipe.dropout is not None:
            for module in model.modules():
                if isinstance(module, torch.nn.Dropout):
                    module.p = recipe.dropout
        self.padded = padded_lengths(recipe.max_length, position_limit(model.config))
        self.steps_per_epoch = -(-len(data) // recipe.batch_size)
        self.steps = self.steps_per_epoch * recipe.epochs
        self.stepper = Stepper(model, data, recipe, self._rate, graph=graph, world=self.world)
        # Kept on the host: every seed and every sweep of labels starts from these weights again.
        self._initial = self.stepper.flat.master.cpu().clone()
        self.step = 0
        self.reset()

    def reset(self, seed: int | None = None) -> None:
        """Back to the base's weights, in place; a new classifier and the dropout follow the seed."""
        if seed is not None:
            self.recipe = replace(self.recipe, seed=seed)
        values = self._initial.clone()
        generator = torch.Generator().manual_seed(self.recipe.seed)
        spread = getattr(self.model.config, "initializer_range", 0.02)
        # As transformers starts new layers: matrices at random, biases at 0, norms at 1.
        for name, tensor in self.stepper.flat.named(values).items():
            if name in self._fresh:
                if tensor.ndim > 1:
                    tensor.normal_(0.0, spread, generator=generator)
                else:
                    tensor.fill_(0.0 if name.endswith("bias") else 1.0)
        moments = {"mean": torch.zeros(()), "square": torch.zeros(())}
        self.stepper.load_state({"weights": values, **moments}, 0)
        self.step = 0
        torch.manual_seed(self.recipe.seed + 1_000_003 * self.world.rank)
        self._random = self._generator_state()

    def set_labels(self, labels: NDArray[Any]) -> None:
        """Train on other labels for the same pairs, of the kind it began with: numbers, or three probabilities each."""
        self.stepper.tokens.labels.copy_(torch.from_numpy(labels))

    def run(self, *, every: int = 50) -> Iterator[Report]:
        """Train to the end of the recipe from wherever this trainer is."""
        while self.step < self.steps:
            yield from self.run_epoch(every=every)

    def run_epoch(self, *, every: int = 50) -> Iterator[Report]:
        """Finish the current epoch; a report every so many steps and at its end."""
        epoch, first = divmod(self.step, self.steps_per_epoch)
        plan = self.plan(epoch)
        self.stepper.load_epoch(plan, first)
        self.prepare(plan)
        began = time.perf_counter()
        for at in range(first - first % every, len(plan), every):
            start, until = max(at, first), min(at + every, len(plan))
            # The generator is everybody's: what others draw between two reports must not change this run.
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(self._random, self.device)
            else:
                torch.set_rng_state(self._random)
            for length in plan.lengths[start:until]:
                self.stepper.advance(length)
            self._random = self._generator_state()
            losses, correct = self.stepper.read(start, until)
            if len(broken := np.flatnonzero(~np.isfinite(losses))):
                first = int(broken[0])
                names = ", ".join(self.data.names[row] for row in plan.rows[start + first] if row != NOBODY)
                raise ModelError(
                    f"the loss is {losses[first]} at step {self.step + first + 1}; "
                    f"lower the learning rate (--lr), or look at the pairs of this batch: {names}"
                )
            self.step += until - start
            counts = (plan.rows[start:until] != NOBODY).sum(axis=1)
            pairs, lr = int(counts.sum()), float(self._rate(torch.tensor([self.step - 1])))
            loss, accuracy = float((losses * counts).sum()) / pairs, float(correct.sum()) / pairs
            yield Report(self.step, epoch, loss, accuracy, lr, pairs, time.perf_counter() - began)
            began = time.perf_counter()

    def prepare(self, plan: EpochPlan) -> None:
        """Compile and capture what the steps of an epoch need, where that is done at all."""
        self.model.train()
        self.stepper.prepare(plan.lengths)

    def plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch."""
        return plan_epoch(self.data.lengths, self.recipe.batch_size, self.padded, seed=self.recipe.seed, epoch=epoch)

    def logits(self, tokens: FlatTokens) -> NDArray[np.float32]:
        """Logits of the current model, in LABELS order, without dropout."""
        self.model.eval()
        return score(self.stepper.forward, tokens, self.device, self.padded[-1])

    def weights(self) -> dict[str, torch.Tensor]:
        """The trained weights by their names in ``transformers``, fp32, on the CPU."""
        flat = self.stepper.flat
        return {name: tensor.clone() for name, tensor in flat.named(flat.master.cpu()).items()}

    def state(self) -> dict[str, torch.Tensor]:
        """Everything a later process needs to continue as if nothing had happened, on the CPU."""
        return {**self.stepper.state(), "random": self.world.gather(self._random)}

    def load_state(self, state: dict[str, torch.Tensor], step: int) -> None:
        """Continue from ``state``, taken after ``step`` steps."""
        self.stepper.load_state(state, step)
        self.step = step
        self._random = state["random"][self.world.rank].clone()

    def warm_up(self, runs: int, note: Callable[[str], None]) -> None:
        """Compile and capture on a GPU; say how long so many runs will take on a CPU. The run is not changed."""
        plan, began = self.plan(0), time.perf_counter()
        if self.stepper.graphed:
            self.prepare(plan)
            note(f"compiled and captured in {clock(time.perf_counter() - began)}")
        elif self.device.type == "cpu":
            self.stepper.load_epoch(plan, 0)
            self.model.train()
            length = sorted(plan.lengths)[len(plan) // 2]
            with self.stepper.undisturbed():
                self.stepper.take_step(length)  # the first one sets up memory, and is no measure
                began = time.perf_counter()
                self.stepper.take_step(length)
            seconds = (time.perf_counter() - began) * self.steps * runs
            note(f"no GPU: this will take about {clock(seconds)} on the CPU")

    def _rate(self, step: Any) -> Any:
        """Learning rate after ``step`` steps: up over the warm-up, then down to zero in a straight line."""
        warm = round(self.recipe.warmup * self.steps)
        done = step.float()
        rise, fall = done / max(1, warm), (self.steps - done) / max(1, self.steps - warm)
        return self.recipe.lr * torch.where(done < warm, rise, fall).clamp(min=0.0)

    def _generator_state(self) -> Any:
        return torch.cuda.get_rng_state(self.device) if self.device.type == "cuda" else torch.get_rng_state()
