"""Training a BiLSTM-max encoder on NLI pairs (Conneau et al. 2017)."""
