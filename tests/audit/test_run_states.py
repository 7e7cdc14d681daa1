"""A run folder under everything that happens to one: no number is shown that its table and its model do not give.

Random sequences of audits, kills, copies, edits, forgeries and other writers. After every step each door that reads
runs either refuses the folder in one line, or shows the results of the model that it names. More sequences:

    EVENLI_SEQUENCES=5000 pytest tests/audit/test_run_states.py --hypothesis-seed=41
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

import evenli
from evenli.audit import audit as audits
from evenli.audit import verify as verification
from evenli.audit.assess import Audit, assess, check_stored
from evenli.audit.audit import load_run, measure_run
from evenli.audit.models import fake_model
from evenli.audit.pairs import PairSet, subsample
from evenli.audit.predictions import Predictions
from evenli.audit.suites.coal.pairs import build_coal
from evenli.audit.verify import verify_run
from evenli.core import store
from evenli.core.errors import EvenliError, RunLockedError
from evenli.core.io import hash_files
from evenli.core.record import Scoring
from evenli.core.store import with_hash

SEQUENCES = int(os.environ.get("EVENLI_SEQUENCES", "30"))
MODELS = ("even", "biased", "wrong")
TABLE, RESULTS, MANIFEST = "predictions.parquet", "results.json", "run.json"
FILES = (TABLE, RESULTS, MANIFEST)
Result = dict[str, Any]


class Known:
    """What is made once: the pairs, a clean run of every model, and what each of them gives."""

    def __init__(self, root: Path) -> None:
        self.pairs: PairSet = subsample(build_coal("en"), 12)
        self.runs = {name: root / name for name in MODELS}
        self.truth: dict[tuple[str, bool], Result] = {}
        self.logits: dict[str, np.ndarray] = {}
        for name, folder in self.runs.items():
            self.audit(name, folder)
            for published in (True, False):
                found = measure_run(folder, Scoring(published=published))
                self.truth[f"fake {name}", published] = said(found)
            self.logits[f"fake {name}"] = found.predictions.logits
        # Killed runs, each with the shards of its model.
        self.halves = {name: root / f"half-{name}" for name in MODELS}
        for name, folder in self.halves.items():
            with contextlib.suppress(KeyboardInterrupt), at_write(7, kill):
                self.audit(name, folder)
            assert list((folder / "shards").iterdir())

    def audit(self, name: str, folder: Path, *, overwrite: bool = False) -> Audit:
        model = fake_model(name)
        model.token_budget = 40 * model.bucket
        return evenli.audit(model, data=self.pairs, suites=("coal",), limit=20, out=folder, overwrite=overwrite)


def said(run: Audit) -> Result:
    """Everything that a run says, but for how long it took."""
    return {key: value for key, value in run.result.to_dict().items() if key != "timings"}


def kill() -> None:
    raise KeyboardInterrupt


@contextlib.contextmanager
def at_write(number: int, action: Callable[[], object], *, after: bool = False, every: bool = False) -> Iterator[None]:
    """Do something before or after so many files of a run were written."""
    write, calls = store.write_content, [0]

    def counted(*arguments: Any, **options: Any) -> None:
        calls[0] += 1
        now = every or calls[0] == number
        if now and not after:
            action()
        write(*arguments, **options)
        if now and after:
            action()

    store.write_content = counted
    try:
        yield
    finally:
        store.write_content = write


def leaves(content: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    parts = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    yield place
    for key, part in parts:
        yield from leaves(part, (*place, key))


def change(content: Any, rng: random.Random) -> None:
    """Change, delete or add a value anywhere in a JSON object."""
    *above, last = rng.choice([place for place in leaves(content) if place])
    part = content
    for key in above:
        part = part[key]
    values = [None, 0, 1, 0.5, -1.0, "", "even", "fake even", [], {}, True, 1e300, rng.random()]
    if rng.random() < 0.2:
        del part[last]
    else:
        part[last] = rng.choice(values)


class Runs(RuleBasedStateMachine):
    """Folders of runs, and what happens to them."""

    known: Known
    folders = Bundle("folders")
    numbers = st.integers(0, 2**32 - 1)
    names = st.sampled_from(MODELS)

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=self.known.runs["even"].parent))
        self.forged: dict[Path, bool] = {}  # whether results were changed and every hash made right
        self.count, self.looks, self.touched = 0, 0, self.root

    def teardown(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def new(self, source: Path | None = None) -> Path:
        self.count += 1
        folder = self.root / str(self.count)
        if source is not None:
            shutil.copytree(source, folder)
        self.forged[folder] = self.forged.get(source, False) if source else False
        self.touched = folder
        return folder

    def tried(self, folder: Path, action: Callable[[], object]) -> bool:
        """Do what a command does; whatever is refused is one line."""
        self.touched = folder
        try:
            action()
        except EvenliError as error:
            assert str(error) and "\n" not in str(error)
            return False
        except KeyboardInterrupt:
            return False
        self.forged[folder] = False  # every result was computed anew
        return True

    @initialize(target=folders, name=names, whole=st.booleans())
    def begin(self, name: str, whole: bool) -> Path:
        return self.new((self.known.runs if whole else self.known.halves)[name])

    @rule(folder=folders, name=names, overwrite=st.booleans())
    def audit(self, folder: Path, name: str, overwrite: bool) -> None:
        self.tried(folder, lambda: self.known.audit(name, folder, overwrite=overwrite))

    @rule(folder=folders, published=st.booleans())
    def measure(self, folder: Path, published: bool) -> None:
        self.tried(folder, lambda: measure_run(folder, Scoring(published=published)))

    @rule(folder=folders, name=names, overwrite=st.booleans(), at=st.integers(1, 12), after=st.booleans())
    def kill_an_audit(self, folder: Path, name: str, overwrite: bool, at: int, after: bool) -> None:
        with at_write(at, kill, after=after):
            self.tried(folder, lambda: self.known.audit(name, folder, overwrite=overwrite))

    @rule(folder=folders, published=st.booleans(), at=st.integers(1, 2), after=st.booleans())
    def kill_a_measure(self, folder: Path, published: bool, at: int, after: bool) -> None:
        with at_write(at, kill, after=after):
            self.tried(folder, lambda: measure_run(folder, Scoring(published=published)))

    @rule(target=folders, folder=folders)
    def copy(self, folder: Path) -> Path:
        return self.new(folder if folder.exists() else None)

    @rule(folder=folders, name=st.sampled_from(FILES), number=numbers)
    def edit_bytes(self, folder: Path, name: str, number: int) -> None:
        self.touched = folder
        rng = random.Random(number)
        files = [folder / name, *sorted((folder / "shards").glob("*"))]
        file = rng.choice(files[: 1 + (len(files) > 1)]) if rng.random() < 0.7 else rng.choice(files)
        if not file.is_file():
            return
        content = bytearray(file.read_bytes())
        if rng.random() < 0.1:
            file.unlink()
            return
        if rng.random() < 0.2:
            content = content[: rng.randrange(len(content) + 1)]
        for _ in range(rng.choice((1, 1, 5)) if content else 0):
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        file.write_bytes(content)

    @rule(folder=folders, name=st.sampled_from((RESULTS, MANIFEST)), number=numbers)
    def edit_json(self, folder: Path, name: str, number: int) -> None:
        self.touched = folder
        with contextlib.suppress(OSError, ValueError, TypeError, IndexError):
            content = json.loads((folder / name).read_text(encoding="utf-8"))
            change(content, random.Random(number))
            (folder / name).write_text(json.dumps(content), encoding="utf-8")

    @rule(folder=folders, number=numbers, times=st.integers(1, 3))
    def forge(self, folder: Path, number: int, times: int) -> None:
        """Change results and make all hashes right."""
        self.touched = folder
        rng = random.Random(number)
        with contextlib.suppress(OSError, ValueError, TypeError, IndexError, KeyError, AttributeError):
            content = json.loads((folder / RESULTS).read_text(encoding="utf-8"))
            header = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            if hash_files([folder / TABLE]) != header["files"][TABLE] or with_hash(header) != header:
                return  # who forges a table as well can make up a run
            for _ in range(times):
                change(content, rng)
            (folder / RESULTS).write_text(json.dumps(content), encoding="utf-8")
            header["files"][RESULTS] = hash_files([folder / RESULTS])
            (folder / MANIFEST).write_text(json.dumps(with_hash(header)), encoding="utf-8")
            self.forged[folder] = True

    @rule(folder=folders, schema=st.integers(0, 2), hashed=st.booleans(), name=names)
    def downgrade(self, folder: Path, schema: int, hashed: bool, name: str) -> None:
        """An older schema without hashes, and the table of another run."""
        self.touched = folder
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
            header = json.loads((folder / MANIFEST).read_text(encoding="utf-8")) | {"schema": schema}
            header = {key: value for key, value in header.items() if key not in {"files", "manifest_sha256"}}
            (folder / MANIFEST).write_text(json.dumps(with_hash(header) if hashed else header), encoding="utf-8")
            shutil.copy(self.known.runs[name] / TABLE, folder)

    @rule(folder=folders, name=names, files=st.sets(st.sampled_from((*FILES, "shards")), min_size=1))
    def swap(self, folder: Path, name: str, files: set[str]) -> None:
        """Files of another run."""
        self.touched = folder
        self.invade(folder, name, files)

    def invade(self, folder: Path, name: str, files: set[str]) -> None:
        if not folder.exists():
            return
        for file in sorted(files - {"shards"}):
            shutil.copy(self.known.runs[name] / file, folder)
        if "shards" in files:
            shutil.copytree(self.known.halves[name] / "shards", folder / "shards", dirs_exist_ok=True)

    @rule(folder=folders, name=names, other=names, at=st.integers(1, 10), after=st.booleans(), measured=st.booleans())
    def audit_while_another_copies(
        self, folder: Path, name: str, other: str, at: int, after: bool, measured: bool
    ) -> None:
        """Another process puts a whole run into the folder while this one works there, without asking for the lock."""
        with at_write(min(at, 2) if measured else at, lambda: self.invade(folder, other, set(FILES)), after=after):
            if measured:
                self.tried(folder, lambda: measure_run(folder, Scoring()))
            else:
                self.tried(folder, lambda: self.known.audit(name, folder, overwrite=True))

    @rule(folder=folders, name=names, other=names, at=st.integers(1, 10))
    def two_writers(self, folder: Path, name: str, other: str, at: int) -> None:
        def second() -> None:
            with pytest.raises(RunLockedError):
                self.known.audit(other, folder, overwrite=True)
            with contextlib.suppress(RunLockedError, EvenliError):
                measure_run(folder)

        with at_write(at, second):
            self.tried(folder, lambda: self.known.audit(name, folder))

    @rule(folder=folders, name=names, overwrite=st.booleans())
    def audit_while_others_read(self, folder: Path, name: str, overwrite: bool) -> None:
        with at_write(0, lambda: self.look(folder), after=True, every=True):
            self.tried(folder, lambda: self.known.audit(name, folder, overwrite=overwrite))

    @invariant()
    def every_number_follows_from_table_and_model(self) -> None:
        self.look(self.touched)

    def look(self, folder: Path) -> None:
        """A door refuses the folder or shows what its model gives; each door has its turn."""
        self.looks += 1
        shown: Audit | None = None
        with refused():
            shown = load_run(folder)
            if not self.forged[folder]:
                self.check(shown)
        if self.looks % 3 == 0:
            with refused():
                verify_run(folder)
                self.check(load_run(folder))
        elif self.looks % 3 == 1:
            with refused():
                self.check_gate(folder)
        elif shown is not None and not self.forged[folder]:
            self.check_comparison(shown)

    def check_gate(self, folder: Path) -> None:
        decided = evenli.gate(folder, ["coal.value > 0.5", "evidence.changed > 0.5"])
        published = load_run(folder).result.scoring.published
        assert decided.checks[1].values["coal.value"] == self.value(decided.model, published)

    def check_comparison(self, shown: Audit) -> None:
        compared = evenli.compare(self.known.runs["even"], shown, suite="coal").suites["coal"][0]
        assert compared.measures["coal"].second == pytest.approx(self.value(compared.model, False), abs=1e-6)
        assert compared.verdict == self.known.truth[compared.model, shown.result.scoring.published]["verdict"]["code"]

    def value(self, model: str, published: bool) -> float:
        return float(self.known.truth[model, published]["coal"]["measures"]["coal"]["value"])

    def check(self, run: Audit) -> None:
        """The run is what its model gives."""
        assert said(run) == self.known.truth[run.name, run.result.scoring.published]
        np.testing.assert_array_equal(run.predictions.logits, self.known.logits[run.name])


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """A folder may be refused, in one line."""
    try:
        yield
    except EvenliError as error:
        assert str(error) and "\n" not in str(error)


def test_no_number_without_its_table_and_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[Any, ...], Any] = {}

    def assess_once(predictions: Predictions, scoring: Scoring | None = None, measures: Any = ()) -> Any:
        stated = [predictions.header.get(key) for key in ("model", "data", "timings", "repeat", "settings")]
        rows = int(predictions.frame.hash_rows(seed=1).sum())
        key = (rows, predictions.logits.tobytes(), json.dumps(stated, sort_keys=True, default=str), scoring)
        if key not in known:
            known[key] = assess(predictions, scoring, measures)
        return known[key]

    checked = set[int]()

    def check_once(predictions: Predictions, file: Path) -> None:
        rows = int(predictions.frame.hash_rows(seed=1).sum())
        if rows not in checked:
            check_stored(predictions, file)
            checked.add(rows)

    # Functions of a table and its header, and pairs that do not change: each is computed once.
    for module in (audits, verification):
        monkeypatch.setattr(module, "check_stored", check_once)
    for name in ("gold_pairs", "control_pairs"):
        monkeypatch.setattr(audits, name, cache(getattr(audits, name)))
    monkeypatch.setattr(audits, "assess", assess_once)
    monkeypatch.setattr(verification, "assess", assess_once)
    Runs.known = Known(tmp_path)
    run_state_machine_as_test(
        Runs,
        settings=settings(
            max_examples=SEQUENCES,
            stateful_step_count=8,
            deadline=None,
            database=None,
            derandomize="EVENLI_SEQUENCES" not in os.environ,
            suppress_health_check=list(HealthCheck),
        ),
    )
