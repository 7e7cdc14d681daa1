"""Every mitigation in one call, and the gender swap of a text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenli._callable import path_of
from evenli.counterfactual.swapper import Lang, Mode, Swapper
from evenli.errors import InputError
from evenli.mitigate.encoder import MitigationSettings, mitigate_encoder
from evenli.mitigate.methods import Method
from evenli.registry import MITIGATIONS


def mitigate(method: str, source: str | Path, out: str | Path, *, overwrite: bool = False, **options: Any) -> Any:
    """Make an encoder, word vectors or a training corpus fairer, as ``evenli mitigate METHOD`` does.

    Args:
        method: ``inlp``, ``leace`` or ``sent-debias`` (an encoder); ``hard-debias`` (word vectors); ``subtract``,
            ``augment`` or ``combined`` (a scored corpus); ``swap`` (a training file); or one of another package.
        source: The encoder's spec, or the file or directory.
        out: Where the result is written.
        overwrite: Replace an earlier result.
        options: The options of the command, by name: ``iterations=10``, ``percentile=90``, ``review="list.csv"``.

    Returns:
        What the method reports of its work; for an encoder also what is left of gender, before and after.
    """
    if method == "combined":
        method, options = "augment", {**options, "replace": True}
    chosen: Method = MITIGATIONS.get(method)
    if source is None:
        raise InputError(f"what should {method} mitigate? Give an encoder, a file or a directory")
    path_of(out, "the result")
    if chosen.apply is not None:
        return chosen.apply(source, out, options if chosen.checks_settings else chosen.settings(options), overwrite)
    names = ("fit", "seed", "probe", "pooling", "device", "online")
    common = {name: options.pop(name) for name in names if name in options}
    settings = MitigationSettings(method, options={**options.pop("options", {}), **options}, **common)
    return mitigate_encoder(str(source), out, settings, overwrite=overwrite)


def swap(text: str, *, mode: Mode = "default", names: bool | None = None, lang: Lang = "en") -> str:
    """The text with its genders exchanged; first names stay unless ``names`` asks for them.

    >>> swap("She called her father.")
    'He called his mother.'
    >>> swap("彼女は母に電話した。", lang="ja")
    '彼は父に電話した。'
    """
    if not isinstance(text, str):
        raise InputError(f"swap takes a text, not {type(text).__name__}")
    return Swapper(mode, names, lang=lang)(text)
