"""Every mitigation in one call, and the gender swap of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from evenli.counterfactual.swapper import Lang, Mode, Swapper
from evenli.errors import InputError
from evenli.mitigate.augment import SwapSettings, swap_corpus
from evenli.mitigate.corpora import fairer_corpus
from evenli.mitigate.encoder import HardDebiasSettings, MitigationSettings, hard_debias_file, mitigate_encoder
from evenli.mitigate.plan import CorpusSettings, Method
from evenli.registry import MITIGATIONS


def mitigate(method: str, source: str | Path, out: str | Path, *, overwrite: bool = False, **options: Any) -> Any:
    """Make an encoder, word vectors or a training corpus fairer, as ``evenli mitigate METHOD`` does.

    Args:
        method: ``inlp``, ``leace``, ``sent-debias`` or one of another package (an encoder); ``hard-debias`` (word
            vectors); ``subtract``, ``augment`` or ``combined`` (a scored corpus); ``swap`` (a training file).
        source: The encoder's spec, or the file or directory.
        out: Where the result is written.
        overwrite: Replace an earlier result.
        options: Fields of the method's settings.
    """
    if method in MITIGATIONS:
        placed = {name: options.pop(name) for name in ("pooling", "device") if name in options}
        settings = MitigationSettings(method, **options)
        return mitigate_encoder(str(source), out, settings, overwrite=overwrite, **placed)
    if method == "hard-debias":
        return hard_debias_file(source, out, HardDebiasSettings(**options), overwrite=overwrite)
    if method in get_args(Method):
        return fairer_corpus(method, source, out, CorpusSettings(**options), overwrite=overwrite)  # type: ignore[arg-type]
    if method == "swap":
        return swap_corpus(source, out, SwapSettings(**options), overwrite=overwrite)
    known = ", ".join([*MITIGATIONS, "hard-debias", *get_args(Method), "swap"])
    raise InputError(f"no mitigation '{method}'; there are {known}")


def swap(text: str, *, mode: Mode = "default", names: bool | None = None, lang: Lang = "en") -> str:
    """The text with its genders exchanged; first names stay unless ``names`` asks for them.

    >>> swap("She called her father.")
    'He called his mother.'
    >>> swap("彼女は母に電話した。", lang="ja")
    '彼は父に電話した。'
    """
    return Swapper(mode, names, lang=lang)(text)
