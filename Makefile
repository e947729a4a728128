# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
TESTS ?= tests src
PINNED := PIP_CONSTRAINT=constraints.txt PIP_BUILD_CONSTRAINT=constraints.txt  # the second is newer pips' for hatchling
unexport PYTHONDONTWRITEBYTECODE  # the tests' processes share compiled sources

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak bench lint constraints

help:  ## Show this list
	@echo "crossgrad: make one of"
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "crossgrad needs Python 3.11 or newer; make PYTHON=/path/to/python3.11 names one."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV) (a few minutes the first time) ..."
	@$(PINNED) $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(STAMP)  ## Make the environment in .venv

demo: $(STAMP)  ## Compare the algorithms on digits: a table, a picture, what it means
	@$(BIN)/crossgrad demo

test: $(STAMP)  ## Run all tests
	$(BIN)/python -m pytest -q -n 3 --dist worksteal -m "not slow" --doctest-modules $(TESTS)

soak: $(STAMP)  ## Run the tests that take long, and the proofs of reliability (hours)
	$(BIN)/python -m pytest -q -m slow tests
	$(BIN)/python proofs/kills.py --out docs/reliability/kills.json
	$(BIN)/python proofs/restarts.py --out docs/reliability/restarts.json
	$(BIN)/python proofs/writers.py --out docs/reliability/writers.json
	$(BIN)/python proofs/sweeps.py --out docs/reliability/sweeps.json
	$(BIN)/python proofs/launches.py --out docs/reliability/launches.json
	$(BIN)/python proofs/hostile_peers.py --out docs/reliability/hostile_peers.json
	$(BIN)/python proofs/clock.py --out docs/reliability/clock.json
	$(BIN)/python proofs/memory.py --out docs/reliability/memory.json
	$(BIN)/python proofs/permissions.py --out docs/reliability/permissions.json
	$(BIN)/python proofs/fuzz.py --out docs/reliability/fuzz.json
	$(BIN)/python proofs/federation_kills.py --out docs/reliability/federation_kills.json
	$(BIN)/python proofs/federation_bits.py --out docs/reliability/federation_bits.json
	$(BIN)/python proofs/federation_intruders.py --out docs/reliability/federation_intruders.json
	$(BIN)/python proofs/federation_faults.py --out docs/reliability/federation_faults.json
	$(BIN)/python proofs/federation_joins.py --out docs/reliability/federation_joins.json
	$(BIN)/python proofs/inversion.py --out docs/privacy
	$(BIN)/python proofs/table.py

bench: $(STAMP)  ## Measure speed and memory against the targets (under ten minutes; nothing else should be running)
	$(BIN)/python benchmarks/gradients.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/distributed.py
	$(BIN)/python benchmarks/lazy.py
	$(BIN)/python benchmarks/compression.py
	$(BIN)/python benchmarks/profiles.py
	$(BIN)/python benchmarks/wire.py
	$(BIN)/python benchmarks/table.py

lint: $(STAMP)  ## Check style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

constraints:  ## Pin the newest version of every package in constraints.txt; the pin of torch stays
	@folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && \
	sed '/^# Written by/q' constraints.txt > "$$folder/constraints.txt" && \
	$(PYTHON) -m venv "$$folder/venv" && \
	"$$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint "$$folder/constraints.txt" '.[dev]' hatchling editables && \
	"$$folder/venv/bin/python" -m pip freeze --all | grep -E '^[^ ]+==' | grep -v -E '^(crossgrad|pip|torch|triton)==|^(nvidia|cuda)-' >> "$$folder/constraints.txt" && \
	cp "$$folder/constraints.txt" constraints.txt
