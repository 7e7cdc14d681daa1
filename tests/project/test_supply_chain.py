"""What is installed is named and hashed, and the same sources make the same wheel."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
requirements = pytest.importorskip("packaging.requirements")


def needed(extra: str = "") -> list[object]:
    found = map(requirements.Requirement, metadata.distribution("evenli").requires or ())
    return [one for one in found if one.marker is None or one.marker.evaluate({"extra": extra})]


def pins(name: str) -> dict[str, str]:
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()[1:]
    pinned = {}
    for line in lines:
        match = re.fullmatch(r"([a-z0-9][a-z0-9.-]*)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)", line)
        assert match, line
        pinned[match[1]] = line
    assert len(pinned) == len(lines)
    return pinned


def wanted(extra: str) -> list[Any]:
    """What an extra needs, with the extras of evenli that it names."""
    found = []
    for one in needed(extra):
        found += [part for name in one.extras for part in wanted(name)] if one.name == "evenli" else [one]
    return found


def test_the_locks_pin_and_hash_what_both_commands_need() -> None:
    """After a change of the dependencies: ``make lock``."""
    base, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert base.items() <= dev.items() and "torch" not in base
    for pinned, extra in ((base, "report"), (dev, "dev")):
        for one in [*wanted(""), *wanted(extra)]:
            version = pinned[one.name.lower()].split()[0].partition("==")[2]
            assert one.specifier.contains(version, prereleases=True), one
    (torch,) = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[-1:]
    assert dev["torch"].startswith(torch)


def install(tmp_path: Path, lock: str, mode: str, answer: str = "") -> subprocess.CompletedProcess[str]:
    """tools/install.py with a pip that notes what it is asked for, and fails with an answer where hashes are wanted."""
    (tmp_path / "pip").mkdir(exist_ok=True)
    failing = f"if '--require-hashes' in sys.argv and {answer!r}:\n    sys.exit({answer!r})\n"
    asked = f"import sys\nopen({str(tmp_path / 'asked')!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
    (tmp_path / "pip" / "__main__.py").write_text(asked + failing)
    (tmp_path / "pip" / "__init__.py").write_text("")
    (tmp_path / "asked").write_text("")
    (tmp_path / "own.lock").write_text(lock)
    command = [sys.executable, str(ROOT / "tools" / "install.py"), "dev", "--lock", mode]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    words = [*command, "--file", str(tmp_path / "own.lock")]
    return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)


def test_hashes_are_checked_where_the_lock_is_for_here_and_told_where_not(tmp_path: Path) -> None:
    words = [sys.executable, "-c", "from install import here; print(here())"]
    here = subprocess.check_output(words, text=True, cwd=ROOT / "tools").strip()
    assert platform.machine() in here
    lock = f"# for {here}; x\nnumpy==1.0 --hash=sha256:{'0' * 64}\n"
    missing, other = "ERROR: No matching distribution found for numpy==1.0", "DO NOT MATCH THE HASHES"

    def asked() -> str:
        return (tmp_path / "asked").read_text()

    done = install(tmp_path, lock, "auto")
    assert (done.returncode, done.stderr) == (0, "") and "--require-hashes" in asked() and "--no-index" in asked()
    done = install(tmp_path, lock.replace("Python 3", "Python 2"), "auto")
    assert done.returncode == 0 and "hashes are not checked" in done.stderr and "--require-hashes" not in asked()
    done = install(tmp_path, lock, "auto", missing)
    assert done.returncode == 0 and "hashes are not checked" in done.stderr and "constraints.txt" in asked()
    for mode, answer in (("auto", other), ("1", other), ("1", missing)):
        done = install(tmp_path, lock, mode, answer)
        assert done.returncode == 2 and "constraints.txt" not in asked(), (mode, answer)
    done = install(tmp_path, lock.replace("numpy==1.0", "torch==1.0"), "auto", other)
    assert done.returncode == 0 and "torch is not the file of the lock" in done.stderr
    assert "--require-hashes" not in install(tmp_path, lock, "0").args and "--require-hashes" not in asked()


def bill(*arguments: str) -> dict[str, object]:
    command = [sys.executable, str(ROOT / "tools" / "make_sbom.py"), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_the_bill_of_materials_is_whole_and_the_same_every_time() -> None:
    base = bill()
    names = {part["name"]: part["version"] for part in base["components"]}
    assert {one.name.lower() for one in needed()} <= set(names)  # type: ignore[attr-defined]
    assert names["numpy"] == metadata.version("numpy") and "evenli" not in names
    references = {part["bom-ref"] for part in base["components"]} | {base["metadata"]["component"]["bom-ref"]}
    assert {edge["ref"] for edge in base["dependencies"]} == references
    assert {one for edge in base["dependencies"] for one in edge["dependsOn"]} <= references
    assert bill() == base
    if shutil.which("altair") or "altair" in {d.metadata["Name"] for d in metadata.distributions()}:
        assert len(bill("--extra", "report")["components"]) > len(names)


def test_the_same_sources_make_the_same_wheel(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    wheels = []
    for number, place in enumerate(("one", "two/deeper")):
        sources = tmp_path / place
        sources.mkdir(parents=True)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, sources)
        # The models make up nearly all of the wheel; they are files like the others.
        shutil.copytree(ROOT / "src", sources / "src", ignore=shutil.ignore_patterns("*.onnx", "__pycache__"))
        for file in sources.rglob("*"):
            os.utime(file, (10**9 * number + 1, 10**9 * number + 1))
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / f"out-{number}")]
        epoch = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
        subprocess.run(command, cwd=sources, env=epoch, capture_output=True, check=True)
        (wheel,) = (tmp_path / f"out-{number}").iterdir()
        wheels.append(wheel.read_bytes())
    assert wheels[0] == wheels[1]


def test_the_package_holds_nothing_that_forbids_commercial_use() -> None:
    """Weights are nearly all of the wheel, and hardly get smaller when packed."""
    shipped = [
        file for file in (ROOT / "src" / "evenli").rglob("*") if file.is_file() and "__pycache__" not in file.parts
    ]
    assert [file.parent.name for file in shipped if file.suffix == ".onnx"] == ["en-small"]
    assert sum(file.stat().st_size for file in shipped) < 35_000_000
    cards = [tomllib.loads(file.read_text()) for file in shipped if file.suffix == ".toml"]
    licences = [card["licence"].lower() for card in cards if "licence" in card]
    assert licences and not [text for text in licences if "non-commercial" in text or "nc" in text.split("-")]


def test_metadata_state_licences_and_addresses() -> None:
    def project(folder: Path) -> dict[str, Any]:
        return tomllib.loads((folder / "pyproject.toml").read_text())

    main, models = project(ROOT), project(ROOT / "packages" / "evenli-models-nc")
    licensing = pytest.importorskip("packaging.licenses")
    for one in (main, models):
        expression = one["project"]["license"]
        assert licensing.canonicalize_license_expression(expression) == expression
        assert one["project"]["license-files"] == ["LICENSE"] and "Homepage" in one["project"]["urls"]
    assert "NC" in models["project"]["license"] and "NC" not in main["project"]["license"]
    assert "/packages" in main["tool"]["hatch"]["build"]["targets"]["sdist"]["exclude"], "an sdist holds all of a clone"


def test_the_wheel_of_the_other_models(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    sources = tmp_path / "sources"
    ignore = shutil.ignore_patterns("*.onnx", "tokenizer.json", "__pycache__")
    shutil.copytree(ROOT / "packages" / "evenli-models-nc", sources, ignore=ignore)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
    subprocess.run(command, cwd=sources, capture_output=True, check=True)
    with zipfile.ZipFile(next((tmp_path / "out").iterdir())) as wheel:
        names = wheel.namelist()
        entry = next(name for name in names if name.endswith("entry_points.txt"))
        assert "[evenli.embedded]\nnc = evenli_models_nc:MODELS" in wheel.read(entry).decode()
        licence = wheel.read(next(name for name in names if name.endswith("licenses/LICENSE"))).decode()
    assert "not for commercial use" in licence and "OCNLI" in licence
    assert {f"evenli_models_nc/models/{name}/card.toml" for name in ("ja-small", "zh-small")} <= set(names)


@pytest.mark.parametrize("lang", ["ja", "zh"])
def test_without_that_package_one_line_says_how_to_get_it(lang: str, monkeypatch) -> None:
    from evenli.audit.models import embedded_models, load_model
    from evenli.core import registry
    from evenli.core.errors import ModelError

    monkeypatch.setattr(registry, "EMBEDDED", registry.Registry("none", "no-such-group"))
    assert [model.lang for model in embedded_models()] == ["en"]
    with pytest.raises(ModelError, match="pip install evenli-models-nc") as caught:
        load_model(lang=lang)
    assert "\n" not in str(caught.value)
    with pytest.raises(ModelError, match="shipped: en-small"):
        load_model("evenli:no-such")


def test_the_page_of_licences_names_everything() -> None:
    from evenli.audit.models import embedded_models
    from evenli.words import cards

    page = (ROOT / "docs" / "reference" / "licences.md").read_text(encoding="utf-8")
    names = [*(model.name for model in embedded_models()), *(card.name for card in cards())]
    names += [one.name.lower() for one in [*needed(), *needed("report")]]  # type: ignore[attr-defined]
    assert not [name for name in names if f"| {name} |" not in page]
    assert all(f"{model.card['licence']} |" in page for model in embedded_models())


def test_the_conda_recipe_asks_for_what_the_wheel_asks_for() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [requirements.Requirement(one) for one in project["dependencies"]]
    plain = {f"{one.name.replace('-', '_')} {one.specifier}" for one in wanted} | {
        f"python {project['requires-python']}"
    }
    assert set(recipe["requirements"]["run"]) == plain
    version = (ROOT / "src/evenli/_version.py").read_text(encoding="utf-8")
    assert f'"{recipe["context"]["version"]}"' in version
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == recipe["context"]["version"]


def test_the_hook_of_pre_commit_is_a_command(tmp_path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    program, *arguments = hook["entry"].split()
    assert program == "evenli"
    done = subprocess.run(
        [sys.executable, "-m", "evenli", *arguments, str(tmp_path / "none")], capture_output=True, text=True
    )
    assert done.returncode == 2 and "none" in done.stderr
