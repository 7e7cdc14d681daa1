"""Counterfactual texts: the same text with the genders exchanged, in English, Japanese and Chinese."""
