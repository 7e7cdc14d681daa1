"""Suites: the sets of pairs a model is asked, one package each, with their measures."""
