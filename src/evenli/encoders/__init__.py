"""Sentence encoders of our own: a BiLSTM with max pooling over word vectors, and its training on NLI.

Needs the extra ``hf``, of which only torch and safetensors are used.
"""

from evenli._extras import need

need("torch", extra="hf", purpose="a sentence encoder")

from evenli.encoders.bilstm import BiLSTMMax  # noqa: E402 - torch must be there first
from evenli.encoders.nli import EncoderOutcome, EncoderRecipe, EpochResult, nli_accuracy, train_encoder  # noqa: E402

__all__ = ["BiLSTMMax", "EncoderOutcome", "EncoderRecipe", "EpochResult", "nli_accuracy", "train_encoder"]
