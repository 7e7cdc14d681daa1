"""Meta-evaluation: train models whose bias is known, and see which measures rank them.

Three stages share one folder and can run on three machines: ``prepare`` writes the pairs and their labels, ``train``
trains one model per seed and level and stores its logits, ``score`` computes every measure from those.
"""
