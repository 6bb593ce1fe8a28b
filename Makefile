# Everything a checkout needs. `make` alone lists the targets.

PYTHON ?= python3
# How the tests spread over cores; `make test XDIST=` runs them in one process. Three for two cores,
# because many wait: for a lease to end, a server to start.
XDIST ?= -n 3 --dist worksteal
# More arguments for pytest: make test ARGS='tests/unit -k duration'
ARGS ?=

# The tests start thousands of programs: each module is compiled once, not by every one of them.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.DEFAULT_GOAL := help
.PHONY: help demo quick test check faults faults-long mutants bench bench-quick format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(READY) ## Show queuectl at work in a throw-away queue
	$(BIN)/queuectl demo

quick: $(READY) ## Run what tells most in two minutes, without servers: tests/quick.py says what
	$(BIN)/python -m pytest $(XDIST) -p tests.quick $(ARGS)

test: $(READY) ## Run the tests (ARGS='tests/unit -k name' to choose some)
	@$(BIN)/python -m tests.servers.install
	$(BIN)/python -m pytest $(XDIST) --durations=15 $(ARGS)

check: $(READY) ## Run all that CI runs: format, lint, types, layers, tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory test

# What the campaigns are told: make faults SEED=7 STORE=sqlite ONLY=kills,cuts
SEED ?=
STORE ?=
ONLY ?=
RESULTS ?= faults.jsonl
CAMPAIGNS = $(BIN)/python -m tests.faults $(if $(SEED),--seed $(SEED)) $(if $(STORE),--store $(STORE)) \
	$(if $(ONLY),--only $(ONLY)) $(ARGS)

faults: $(READY) ## Do it harm with a new seed (SEED=7 STORE=sqlite ONLY=kills)
	$(CAMPAIGNS)

faults-long: $(READY) ## The same at full size, for hours; results to RESULTS=faults.jsonl
	$(CAMPAIGNS) --long --results $(RESULTS)

mutants: $(READY) ## Break the product in many ways, and see the tests catch each
	$(BIN)/python -m tests.faults.mutants $(ARGS)

# The peers have an environment of their own, and the figures of ours come from there as well.
# A part of it, which leaves the page alone: make bench ARGS='--only drain --stores sqlite'
BENCH := .bench/venv

bench: ## Measure speed beside the limit and the peers, for about an hour; renews docs/performance.md
	@echo "Preparing $(BENCH) ..."
	@$(PYTHON) -m bench.environment $(BENCH)
	$(BENCH)/bin/python -m bench --json .bench/results.json $(or $(ARGS),--page)

bench-quick: $(READY) ## Measure speed beside the limit only, on SQLite, in two minutes
	$(BIN)/python -m bench --quick $(ARGS)

format: $(READY) ## Format the code and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove .venv, .bench, caches and build results
	rm -rf $(VENV) .bench build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp comes last, so an interrupted install is taken up again by the next make.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "queuectl needs Python 3.11 or newer, and '$(PYTHON)' isn't; try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; \
		exit 1; }
	@echo "Preparing $(VENV) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -e '.[dev]'
	@touch $@
