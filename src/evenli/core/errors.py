"""Everything evenli raises on purpose.

EvenliError                 one clear line; the command line exits with 2
├── InputError              a data file, a setting or a resource is not usable
│   ├── ResourceError       a word list, axis or template list shipped or given is broken
│   └── PairError           a row of a pair file is broken (names file and line)
├── ModelError              the model cannot be loaded or gave unusable output
│   ├── LabelError          labels missing, unnamed or not three
│   └── LabelOrderError     the gold pairs show that the labels are in another order
├── RunError                the run folder cannot be used
│   └── RunLockedError      another process works in it
└── MissingExtraError       an optional dependency is not installed
"""

from __future__ import annotations


class EvenliError(Exception):
    """Base of all expected failures; the message is one line that says what to do next."""


class InputError(EvenliError):
    """A data file, a setting or a resource is not usable."""


class ResourceError(InputError):
    """A word list, axis definition or template list is broken."""


class PairError(InputError):
    """A row of a pair file is broken."""


class ModelError(EvenliError):
    """The model cannot be loaded or gave unusable output."""


class LabelError(ModelError):
    """The model's labels are missing, unnamed or not three."""


class LabelOrderError(ModelError):
    """The gold pairs show that the model's labels are in another order than declared."""


class RunError(EvenliError):
    """The run folder cannot be used."""


class RunLockedError(RunError):
    """Another process works in the run folder."""


class MissingExtraError(EvenliError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'evenli[{extra}]'")
        self.package, self.extra = package, extra
