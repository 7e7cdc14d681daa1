"""Tiny packages with entry points, as an installer would leave them: what plug-in tests put on the path."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from evenli.core import registry


def write_plugin(
    folder: Path, name: str, modules: Mapping[str, str], entry_points: Mapping[str, Mapping[str, str]]
) -> Path:
    """Write an installed package and return the directory to put on the path.

    Args:
        folder: Directory of installed packages, as ``site-packages`` is; it is made.
        name: Name of the distribution.
        modules: Source by module name; ``my_package.sub`` becomes ``my_package/sub.py``.
        entry_points: ``{"evenli.suites": {"winograd": "my_package:SUITE"}}``.
    """
    for module, source in modules.items():
        file = folder.joinpath(*module.split(".")).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    lines = []
    for group, points in entry_points.items():
        lines += [f"[{group}]", *(f"{point} = {value}" for point, value in points.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def plugin_environment(folder: Path) -> dict[str, str]:
    """Environment of a subprocess that finds the package: ``run_cli(..., env=plugin_environment(folder))``."""
    # Absolute, because the subprocess may run in another directory.
    known = [str(Path(path).absolute()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {"PYTHONPATH": os.pathsep.join([str(folder.absolute()), *known])}


@contextlib.contextmanager
def installed(folder: Path, *registries: registry.Registry[object]) -> Iterator[None]:
    """Put the package on the path of this process; the given registries look for entry points anew.

    Afterwards path, registries and the modules of the package are as they were.
    """
    before = set(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        for one in registries:
            one.__dict__.pop("_installed", None)
            patch.setattr(one, "_loaded", dict(one._loaded))
        try:
            yield
        finally:
            for one in registries:
                one.__dict__.pop("_installed", None)
            for module in set(sys.modules) - before:
                origin = getattr(sys.modules[module], "__file__", None)
                if origin and Path(origin).is_relative_to(folder):
                    del sys.modules[module]
