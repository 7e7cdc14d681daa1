"""Sentence encoders: what is there (``load_encoder``), and a BiLSTM-max of our own with its training on NLI.

The latter needs torch, which is loaded when one of its names is used.
"""

from __future__ import annotations

from typing import Any

from evenli.encoders.base import Encoder, VectorMean, encode_checked, load_encoder

_TRAINED = {
    "BiLSTMMax": "bilstm",
    "EncoderOutcome": "nli",
    "EncoderRecipe": "nli",
    "EpochResult": "nli",
    "nli_accuracy": "nli",
    "train_encoder": "nli",
}

__all__ = ["Encoder", "VectorMean", "encode_checked", "load_encoder", *_TRAINED]


def __getattr__(name: str) -> Any:
    if name not in _TRAINED:
        raise AttributeError(f"module 'evenli.encoders' has no attribute '{name}'")
    from importlib import import_module

    from evenli._extras import need

    need("torch", extra="hf", purpose="a BiLSTM encoder")
    return getattr(import_module(f"evenli.encoders.{_TRAINED[name]}"), name)
