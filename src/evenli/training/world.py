"""Which of the processes of a distributed run this one is. One process: everything here does nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from evenli._extras import need


@dataclass(frozen=True)
class World:
    """This process among all of a run.

    Attributes:
        rank: Number of this process.
        size: Number of processes.
        device: Its device, where the launcher chose one.
    """

    rank: int = 0
    size: int = 1
    device: str | None = None

    @property
    def leads(self) -> bool:
        """Whether this process writes and prints."""
        return self.rank == 0

    def add_up(self, tensor: Any) -> None:
        """Sum a tensor over all processes, in place."""
        if self.size > 1:
            torch.distributed.all_reduce(tensor)

    def gather(self, tensor: Any) -> Any:
        """One row per process."""
        if self.size == 1:
            return tensor[None]
        rows: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(rows, tensor)
        return torch.stack(rows)

    def agree(self, wanted: bool) -> bool:
        """What the leading process wants, told to all: clocks differ, and what all do together all must begin."""
        if self.size == 1:
            return wanted
        flag = torch.tensor([float(wanted and self.leads)], device=self.device)
        self.add_up(flag)
        return bool(flag.item())

    def wait(self) -> None:
        """Until all are here."""
        if self.size > 1:
            torch.distributed.barrier()


def join_world(device: str | None = None) -> World:
    """Join the processes that ``accelerate launch`` or ``torchrun`` started; alone without either.

    Args:
        device: ``cpu`` keeps the run off the GPUs.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return World()
    accelerate = need("accelerate", extra="train", purpose="training on several devices")
    state = accelerate.PartialState(cpu=device == "cpu" or not torch.cuda.is_available())
    return World(state.process_index, state.num_processes, str(state.device))
