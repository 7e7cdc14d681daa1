"""A sentence transformer and how SBERT tunes it (Reimers and Gurevych 2019); needs torch, transformers and numpy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

LABELS = ("entailment", "neutral", "contradiction")
RATE, BATCH, WARM_UP, DECAY, LONGEST = 2e-5, 16, 0.1, 0.01, 128
"""Of SBERT: learning rate, pairs of a step, share of the steps with a rising rate; weight decay, word-pieces."""


class SentenceEncoder:
    """A transformer with pooling over its real tokens, and how it is tuned on pairs of sentences."""

    def __init__(self, folder: str, pooling: str, device: str | None, seed: int) -> None:
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        torch.manual_seed(seed)
        torch.set_float32_matmul_precision("high")
        self.torch, self.pooling, self.seed = torch, pooling, seed
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder, use_safetensors=True).float().to(self.device)
        self.width = int(self.model.config.hidden_size)

    def encode(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """[n, d], not scaled."""
        self.model.eval()
        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        rows = np.empty((len(texts), self.width), dtype=np.float32)
        with self.torch.inference_mode():
            for start in range(0, len(order), 256):
                some = order[start : start + 256]
                rows[some] = self.pooled([texts[row] for row in some]).cpu().numpy()
        return rows

    def pooled(self, texts: Sequence[str]) -> Any:
        """Pooled outputs, with their gradients in training."""
        batch = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=LONGEST,
            pad_to_multiple_of=8,
            return_attention_mask=True,
            return_tensors="pt",
        ).to(self.device)
        hidden = self.model(**batch).last_hidden_state
        keep = batch["attention_mask"].bool()[..., None]
        if self.pooling == "max":
            return hidden.masked_fill(~keep, -math.inf).amax(dim=1)
        return (hidden * keep).sum(dim=1) / keep.sum(dim=1)

    def tune(self, rows: Sequence[dict[str, Any]], task: str, epochs: int) -> float:
        """Train on the pairs; the mean loss of the last epoch."""
        torch = self.torch
        head = torch.nn.Linear(3 * self.width, len(LABELS)).to(self.device) if task == "mnli" else None
        named = [*self.model.named_parameters(), *(head.named_parameters() if head else ())]
        # As usual, weight decay spares biases and the weights of normalising layers, which are vectors.
        groups = [
            {"params": [one for _, one in named if one.ndim > 1], "weight_decay": DECAY},
            {"params": [one for _, one in named if one.ndim < 2], "weight_decay": 0.0},
        ]
        steps = epochs * math.ceil(len(rows) / BATCH)
        rising = max(1, round(WARM_UP * steps))
        optimizer = torch.optim.AdamW(groups, lr=RATE, fused=self.device.startswith("cuda"))
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimizer, lambda step: min((step + 1) / rising, (steps - step) / max(1, steps - rising))
        )
        generator = np.random.default_rng(self.seed)
        self.model.train()
        total = torch.zeros((), device=self.device)
        for _ in range(epochs):
            total.zero_()
            order = generator.permutation(len(rows))
            for start in range(0, len(rows), BATCH):
                batch = [rows[at] for at in order[start : start + BATCH]]
                loss = self.loss(batch, head)
                loss.backward()
                torch.nn.utils.clip_grad_norm_([one for _, one in named], 1.0)
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
                schedule.step()
                total += loss.detach() * len(batch)
        return float(total) / len(rows)

    def loss(self, batch: Sequence[dict[str, Any]], head: Any) -> Any:
        """Both sides of the pairs go through the encoder at once, which halves the calls."""
        torch, sides = self.torch, [row[side] for side in ("sentence1", "sentence2") for row in batch]
        first, second = self.pooled(sides).chunk(2)
        if head is None:
            wanted = torch.tensor([row["similarity"] for row in batch], device=self.device, dtype=torch.float32)
            return torch.nn.functional.mse_loss(torch.nn.functional.cosine_similarity(first, second), wanted)
        labels = torch.tensor([LABELS.index(row["label"]) for row in batch], device=self.device)
        return torch.nn.functional.cross_entropy(head(torch.cat([first, second, (first - second).abs()], 1)), labels)
