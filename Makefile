# Few verbs. Each one sets up what it needs: a fresh clone wants only Python 3.11, pip, venv and make.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
# `make test PYTHON=python3.13` has an environment of its own next to the usual one.
VENV := .venv$(if $(filter command line,$(origin PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: demo quick test test-oldest package check bench walks clean help docs

# What `quick` runs: one of each kind of test. Laws, machines and sweeps in full are for `test`.
QUICK := $(wildcard tests/test_*.py) tests/paper tests/formats tests/models/test_linear_state.py tests/features \
	$(patsubst %,tests/core/test_%.py,oracle grid sums leverage weights kernel_selector screen keyed_hash linear_selection) \
	tests/classes/test_finite.py tests/coresets/test_maps.py \
	$(patsubst %,tests/estimators/test_%.py,forget learning predict labels traces refusals interruptions sklearn_contract kernel) \
	tests/laws/test_ties.py tests/laws/test_forget_equals_refit.py tests/machines/test_linear_machine.py \
	tests/store/test_refusals.py tests/audit/test_keys.py tests/audit/test_receipts.py \
	$(patsubst %,tests/operations/test_%.py,learn verify inspect predict export) \
	$(patsubst %,tests/cli/test_%.py,inspect forget verify predict receipt shared)

demo: $(STAMP) ## train, forget, verify: the whole idea in one short run
	$(BIN)/python examples/demo.py

quick: $(STAMP) ## one of each kind of test, in less than a minute
	HYPOTHESIS_PROFILE=smoke $(BIN)/python -m pytest -q $(QUICK) $(ARGS)

# Files in their own order: sorted by how many tests they hold, the machines, one long test each, would come last.
test: $(STAMP) ## every test and every doctest (ARGS='-k grid -x' passes options on)
	$(BIN)/python -m pytest -q -n logical --dist loadfile --no-loadscope-reorder $(ARGS)

test-oldest: $(STAMP) ## quick tests with the lowest versions that pyproject.toml allows; each extra alone, oldest and newest
	$(BIN)/nox -s oldest extras

package: $(STAMP) ## build both distributions into dist/ and check them, with bill of materials and licences
	$(BIN)/nox -s package

check: $(STAMP) ## lint, format, types, import contracts, spelling, workflows
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell
	$(BIN)/zizmor --quiet --offline .github

docs: $(STAMP) ## build the documentation site into docs/_build/html; any warning fails
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html

bench: $(STAMP) ## measure speed and memory
	$(BIN)/python benchmarks/run.py $(ARGS)

walks: $(STAMP) ## count lines, files, and the code that fit, learn, forget and an erasure pass through
	$(BIN)/python benchmarks/walks.py $(ARGS)

clean: ## remove everything that make and the tools have made
	rm -rf .venv .venv-* .nox build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache docs/_build docs/gallery docs/reference/generated
	find src tests examples benchmarks -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# The stamp is written last, so an interrupted installation is done again.
$(STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "erasable needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,mlflow]'
	touch $@
