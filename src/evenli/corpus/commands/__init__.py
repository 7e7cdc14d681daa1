"""Commands of the corpus room."""

from evenli.core.rooms import Command
from evenli.corpus.commands import mitigate, score

COMMANDS = (
    *(Command(run, "mitigate") for run in (mitigate.swap, mitigate.subtract, mitigate.augment)),
    *(Command(run, "Mitigate") for run in (score.score, score.direction)),
)
