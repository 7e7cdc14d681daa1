"""SentEval: how good embeddings are as features, on twelve tasks (Conneau and Kiela 2018)."""
