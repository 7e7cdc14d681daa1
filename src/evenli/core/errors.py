"""Everything evenli raises on purpose.

EvenliError                 one clear line; the command line exits with 2
├── InputError              a data file, a setting or a resource is not usable
│   ├── ResourceError       a word list, axis or template list shipped or given is broken
│   └── PairError           a row of a pair file is broken (names file and line)
├── ModelError              the model cannot be loaded or gave unusable output
│   ├── LabelError          labels missing, unnamed or not three
│   ├── LabelOrderError     the gold pairs show that the labels are in another order
│   └── OutOfMemory         a batch does not fit; the loop over batches halves it
├── RunError                the run folder cannot be used
│   └── RunLockedError      another process works in it
└── MissingExtraError       an optional dependency is not installed

What other libraries raise becomes one line in ``translated``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

_LONGEST = 300


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


class OutOfMemory(ModelError):  # noqa: N818 - a signal to the loop over batches
    """The batch did not fit; the caller halves it and tries again."""


class RunError(EvenliError):
    """The run folder cannot be used."""


class RunLockedError(RunError):
    """Another process works in the run folder."""


class MissingExtraError(EvenliError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs {package}: pip install 'evenli[{extra}]'")


def message_of(error: BaseException) -> str:
    """What an error says, in one line that is not too long; the name of its class where it says nothing."""
    text = str(error) if isinstance(error, EvenliError) else " ".join(str(error).split())[:_LONGEST]
    return text or type(error).__name__


def reason_of(error: BaseException) -> str:
    """The reason of the operating system where there is one, without number and file; else the message."""
    return getattr(error, "strerror", None) or message_of(error)


def named_reason(error: BaseException) -> str:
    """The class of an error and its message: the error of a user's own code is found by it."""
    name, text = type(error).__name__, message_of(error)
    return name if text == name else f"{name}: {text}"


@contextlib.contextmanager
def translated(
    before: str,
    after: str = "",
    *,
    into: type[EvenliError] = InputError,
    kinds: tuple[type[BaseException], ...] = (Exception,),  # with it comes a panic of a library in Rust, which is none
    reason: Callable[[BaseException], str | None] = message_of,  # None lets the error pass; may raise a better line
    missing: str = "",  # the line where a file is not there
) -> Iterator[None]:
    """Turn an error of another library into one line: ``before``, the reason, ``after``.

    Our own errors pass, unless ``kinds`` names their class.
    """
    try:
        yield
    except BaseException as error:
        ours = tuple(kind for kind in kinds if issubclass(kind, EvenliError))
        panic = Exception in kinds and type(error).__name__ == "PanicException"
        if (isinstance(error, EvenliError) and not isinstance(error, ours)) or not (isinstance(error, kinds) or panic):
            raise
        if missing and isinstance(error, FileNotFoundError):
            raise into(missing) from error
        text = reason(error)
        if text is None:
            raise
        raise into(f"{before}{text}{after}") from error


system_failure = functools.partial(translated, into=RunError, kinds=(OSError,), reason=reason_of)
"""``translated`` for what the operating system refuses."""


foreign_code = functools.partial(translated, into=ModelError, kinds=(Exception, SystemExit), reason=named_reason)
"""``translated`` for code of others, which may also ask to exit."""
