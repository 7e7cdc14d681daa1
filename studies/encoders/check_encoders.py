"""Do encoders give what sentence-transformers gives? Every folder is loaded as ``hf:`` and as ``st:``, and compared.

    python -m studies.encoders.check_encoders all-MiniLM-L6-v2=FOLDER gte-small=FOLDER …

A folder without modules.json is a plain checkpoint, which sentence-transformers pools by the mean. The texts are the
119 built-in sentences in two versions and some hard ones: empty, very long, without a letter, in other scripts. The
exit code is 1 if an embedding is further away than 1e-5. How many texts are computed at once changes the rounding, so
the library is asked with as many as evenli: 64 as ``hf:``, 32, its own number, as ``st:``. By how much the library
differs from itself between the two is printed, too.
"""

from __future__ import annotations

import sys

import numpy as np

from evenli.encoders.base import load_encoder
from evenli.words import read_table

LIMIT = 1e-5
SIZES = {"hf": 64, "st": 32}
"""Texts that are computed at once."""
HARD = (
    "",
    " ",
    ".",
    "?!",
    "I",
    "naïve café",
    "彼女は看護師です。",
    "她是一名护士。",
    "a\tb\nc",
    "word " * 700,
    "x" * 400,
)


def main() -> None:
    """Compare all folders."""
    import sentence_transformers

    rows = read_table("gender_text.csv", ("female", "male"))
    texts = [*(row[side] for row in rows for side in ("female", "male")), *HARD]
    far = False
    for name, folder in (one.split("=", 1) for one in sys.argv[1:]):
        model = sentence_transformers.SentenceTransformer(
            folder, device="cpu", local_files_only=True, model_kwargs={"use_safetensors": True}
        ).float()
        expected = {form: model.encode(texts, show_progress_bar=False, batch_size=size) for form, size in SIZES.items()}
        itself = float(np.abs(expected["hf"] - expected["st"]).max())
        distances = {}
        for form, theirs in expected.items():
            embeddings = load_encoder(f"{form}:{folder}", device="cpu").encode(texts)
            distances[form] = float(np.abs(embeddings - theirs).max())
            far |= not distances[form] <= LIMIT
        scale = float(np.abs(expected["hf"]).max())
        shown = ", ".join(f"{form}: {distance:.1e}" for form, distance in distances.items())
        print(
            f"{name}: {len(texts)} texts, largest difference {shown}; the library against itself: "
            f"{itself:.1e} (largest number {scale:.2g})",
            flush=True,
        )
    raise SystemExit(1 if far else 0)


if __name__ == "__main__":
    main()
