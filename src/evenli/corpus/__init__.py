"""The bias score of sentences and corpora (Dolci et al. 2023)."""
