"""Mitigation: corpora, vectors and encoders in, fairer ones out."""
