"""Every mitigation in one call: ``evenli.mitigate``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from evenli.core.errors import InputError
from evenli.core.mitigation import Method
from evenli.core.parse import path_of
from evenli.core.registry import MITIGATIONS
from evenli.core.settings import known_names


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
        return chosen.apply(source, out, chosen.make_settings(options), overwrite)
    # Here, because its room may be taken out.
    from evenli.encoders.mitigation import mitigate_encoder
    from evenli.encoders.settings import MitigationSettings

    common = {name: options.pop(name) for name in known_names(MitigationSettings) if name in options}
    settings = MitigationSettings(method, **{**common, "options": {**common.get("options", {}), **options}})
    return mitigate_encoder(str(source), out, settings, overwrite=overwrite)
