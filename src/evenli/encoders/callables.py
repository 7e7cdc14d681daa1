"""``py:module:function`` or ``py:module:object``: any function on a list of texts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from evenli.encoders.base import Embeddings, EncoderRequest, check_rows
from evenli.errors import EvenliError, ModelError
from evenli.io import hash_files, hash_text


class CallableEncoder:
    """Any function on a list of texts.

    Args:
        function: The function.
        spec: What it is called; by default the function's module and name.
        files: What its outputs depend on, such as the file of its code.
    """

    def __init__(self, function: Callable[[list[str]], Any], spec: str = "", files: Iterable[Path] = ()) -> None:
        self._function = function
        self.spec = spec or f"{function.__module__}:{getattr(function, '__qualname__', type(function).__name__)}"
        self._files = tuple(files)

    @cached_property
    def identity(self) -> str:
        """Hash of spec, files and the identity of an object behind it; code that the file imports is not in it."""
        own = getattr(getattr(self._function, "__self__", None), "identity", None)
        content = f"{self.spec}|{hash_files(self._files)}" + (f"|{own}" if own else "")
        return f"callable:{hash_text(content)[:32]}"

    def encode(self, texts: Sequence[str]) -> Embeddings:
        """[n, d]; whatever the function does wrong is a ModelError."""
        if not texts:
            return np.empty((0, 0), dtype=np.float32)
        try:
            output = self._function(list(texts))
        except EvenliError:
            raise
        except Exception as error:
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelError(f"{self.spec} raised {reason}") from error
        return check_rows(output, texts, self.spec)


def load(target: str, request: EncoderRequest) -> CallableEncoder:
    """The encoder of ``module:attribute``; modules are also looked for in the working directory."""
    name, _, attribute = target.partition(":")
    # A command that is installed as a script does not have the working directory on its path.
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        named = getattr(importlib.import_module(name), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ModelError(f"py:{target}: {error}; expected py:module:function") from error
    except Exception as error:  # the module's own code
        raise ModelError(f"py:{target}: importing {name} raised {type(error).__name__}: {error}") from error
    # An object that is callable too, such as a model of sentence-transformers, takes texts by encode.
    encode = None if isinstance(named, str) else getattr(named, "encode", None)
    if encode is not None and isinstance(named, type):
        raise ModelError(f"py:{target} is a class; make an object of it in {name} and name that")
    function = encode if callable(encode) else named
    if not callable(function):
        raise ModelError(f"py:{target} is neither a function nor an object with encode(texts)")
    code = getattr(sys.modules[name], "__file__", None)
    return CallableEncoder(function, f"py:{target}", [Path(code)] if code else [])
