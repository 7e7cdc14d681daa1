"""The entailment-probability probe (Sharma et al. 2021)."""
