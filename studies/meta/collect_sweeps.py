"""Label shares of every model of some sweeps, as the resource behind the ledger's meta-evaluation rows.

python -m studies.meta.collect_sweeps sweep-en sweep-ja sweep-zh > src/evenli/words/data/sweeps.csv
python -m studies.meta.collect_sweeps table2/sweeps/* > src/evenli/words/data/sweeps_base.csv      # of table2.py
python tools/seal_resources.py
"""

from __future__ import annotations

import csv
import sys

import numpy as np

from evenli.core.labels import CONTRADICTION, ENTAILMENT, LABELS, NEUTRAL
from evenli.training.meta.folder import MetaFolder

SHOWN = (ENTAILMENT, CONTRADICTION, NEUTRAL)  # the column order of the paper's Table 3


def main() -> None:
    """Print one line per trained model."""
    names = [f"{subset}_{label[0]}" for subset in ("ps", "as", "ns") for label in SHOWN]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["lang", "order", "seed", "axis", "level", *names, "held_out_accuracy"])
    for folder in map(MetaFolder, sys.argv[1:]):
        lang, order = folder.header["lang"], "balanced" if folder.design.balanced else "released"
        subsets = np.array([row["subset"] for row in folder.pairs("evaluation")])
        whole = set(folder.cells(folder.seeds()))
        for cell, facts in sorted(
            folder.models().items(), key=lambda item: (item[0].seed, item[0].axis, item[0].level)
        ):
            if cell not in whole or isinstance(cell.level, tuple):
                continue
            answers = folder.logits(cell).argmax(axis=1)
            shares = [
                (answers[subsets == subset] == LABELS.index(label)).mean()
                for subset in ("PS", "AS", "NS")
                for label in SHOWN
            ]
            values = [f"{share:.4f}" for share in [*shares, facts["dev_accuracy"]]]
            writer.writerow([lang, order, cell.seed, cell.axis, f"{cell.level:g}", *values])


if __name__ == "__main__":
    main()
