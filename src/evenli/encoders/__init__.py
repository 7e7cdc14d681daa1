"""Sentence encoders: anything that turns texts into rows of numbers."""

from evenli.encoders.base import Encoder, EncoderRequest, encode_checked, load_encoder
from evenli.encoders.vectors import VectorMean

__all__ = ["Encoder", "EncoderRequest", "VectorMean", "encode_checked", "load_encoder"]
