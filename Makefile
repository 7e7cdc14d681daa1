# Two commands matter: `make audit` and `make test`. Both set everything up first.
# Both install by hash where the lock is for this Python and platform, and say so where it is not.
# LOCKED=1: hashes or nothing. LOCKED=0: versions only.
LOCKED ?= auto
PYTHON ?= python3
VENV ?= .venv
# Processes of `make test`.
WORKERS ?= 2
BIN := $(VENV)/bin
# Japanese and Chinese weights, which are not for commercial use and therefore no part of evenli's own wheel.
MODELS := ./packages/evenli-models-nc
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: audit test fast lint bench reproduce leaderboard docs docs-outputs lock release clean

audit: $(VENV)/.base
	$(BIN)/evenli audit --report

# Two processes with one thread each: torch in both would wait for each other's threads.
test: $(VENV)/.dev lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

fast: $(VENV)/.dev
	$(BIN)/python -m pytest -x -q

lint: $(VENV)/.dev
	$(BIN)/ruff check src tests tools studies benchmarks
	$(BIN)/ruff format --check --quiet src tests tools studies benchmarks
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(PIP) --editable '.[bench]'
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/large_tables.py
	$(BIN)/python benchmarks/predict.py

reproduce: $(VENV)/.base
	$(BIN)/python -m studies.ledger

# From the stored answers; to train the models again on a GPU, in pieces: studies/leaderboard/grid.py train.
leaderboard: $(VENV)/.base
	$(BIN)/python -m studies.leaderboard.grid page studies/leaderboard/leaderboard.tar.xz docs/leaderboard

docs: $(VENV)/.dev
	$(BIN)/python tools/make_cli_docs.py
	$(BIN)/python tools/make_licences.py
	$(BIN)/python tools/make_data_cards.py
	$(BIN)/python tools/study_figures.py
	$(BIN)/python -m zensical build --strict

# What the pages show as output, and what they quote of the embedded models, produced again.
docs-outputs: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python tools/embedded_numbers.py
	OMP_NUM_THREADS=1 $(BIN)/python tools/docs_blocks.py --write

# What a release consists of: the same wheels from the same sources, and a bill of materials beside them.
# Checked: metadata, and an audit in a clean environment without the repository.
release: $(VENV)/.dev
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m hatchling build -d dist
	cd $(MODELS) && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(abspath $(BIN))/python -m hatchling build -d $(CURDIR)/dist
	$(BIN)/python tools/make_sbom.py --extra report -o dist/sbom.json
	$(PIP) twine
	$(BIN)/python tools/check_release.py dist

clean:
	rm -rf $(VENV) site .cache .pytest_cache .mypy_cache .ruff_cache

# After a change of the dependencies in pyproject.toml.
lock: $(BIN)/python
	$(BIN)/python tools/make_lock.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

INSTALLED := pyproject.toml constraints.txt tools/install.py $(MODELS)/pyproject.toml

$(VENV)/.base: $(INSTALLED) requirements.lock | $(BIN)/python
	$(BIN)/python tools/install.py base --lock $(LOCKED)
	touch $@

$(VENV)/.dev: $(VENV)/.base requirements-dev.lock
	$(BIN)/python tools/install.py dev --lock $(LOCKED)
	touch $@
