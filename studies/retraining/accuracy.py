"""How well an encoder and its classifier, as ``evenli train encoder`` writes them, answer NLI pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from evenli.core.binary import read_tensors
from evenli.core.errors import InputError, ModelError
from evenli.encoders.bilstm import load_trained
from evenli.encoders.vectors import WordVectors
from evenli.training.bilstm import HEAD
from evenli.training.bilstm_epoch import features, make_head
from evenli.training.data import Examples


def nli_accuracy(
    folder: str | Path, pairs: Examples, *, vectors: WordVectors | None = None, device: str | None = None
) -> float:
    """Accuracy, from 0 to 1, of the encoder and classifier that ``train_encoder`` wrote.

    ``vectors`` are those it was trained on. None looks for their file; where that is gone, words that were neither in
    the training nor in the dev pairs are dropped.
    """
    encoder = load_trained(str(folder), device=device, at_hand=vectors)
    try:
        weights, _ = read_tensors(Path(folder) / HEAD)
        head = make_head(encoder.dimension, len(weights["1.bias"]), 0)
        head.load_state_dict(weights)
    except (InputError, KeyError, RuntimeError) as error:
        raise ModelError(f"{folder} has no usable {HEAD}: was the encoder trained with train_encoder?") from error
    u, v = (torch.from_numpy(encoder.encode(side)) for side in (pairs.premises, pairs.hypotheses))
    with torch.inference_mode():
        guesses = torch.cat([head(features(*some)).argmax(1) for some in zip(u.split(256), v.split(256), strict=True)])
    return float((guesses.numpy() == np.asarray(pairs.labels)).mean())
