"""Sentence encoders: anything that turns texts into rows of numbers."""

from evenli.encoders.base import Encoder, VectorMean, encode_checked, load_encoder

__all__ = ["Encoder", "VectorMean", "encode_checked", "load_encoder"]
