# Two commands do everything on a fresh machine: `make demo` and `make test`.

PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; \
	done)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS_INSTALLED := $(VENV)/.docs-installed
EXTRAS := spark,connect,dagster,dagster-spark,s3,gcs,azure,zarr,cli,dev

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c

export DAGSTER_HOME := $(CURDIR)/.dagster
export DAGSTER_DISABLE_TELEMETRY := yes
export PYSPARK_PYTHON := $(CURDIR)/$(BIN)/python
export PYTHONPATH := $(CURDIR)
# Images of containers set it; each of the many processes of a run would then compile all modules.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo demo-file dev test test-all test-versions test-python run-test-python test-long test-one test-tools lint docs docs-serve bench install clean

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "delta_ops needs Python 3.11 or newer with venv; install it, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[$(EXTRAS)]'
	@touch $@

demo: $(INSTALLED)
	@java_home=$$(scripts/ensure_java.sh) && mkdir -p $(DAGSTER_HOME) && cp examples/dagster.yaml $(DAGSTER_HOME)/dagster.yaml && \
	JAVA_HOME=$$java_home FLIGHTS='$(FLIGHTS)' FIRST_DAY='$(FIRST_DAY)' LAKE='$(LAKE)' $(BIN)/python -m examples.flights.demo

# The next daily file of the generated flights, for the sensor `arrivals`.
demo-file: $(INSTALLED)
	@$(BIN)/python -m examples.flights.generate

dev: $(INSTALLED)
	@java_home=$$(scripts/ensure_java.sh) && mkdir -p $(DAGSTER_HOME) && cp examples/dagster.yaml $(DAGSTER_HOME)/dagster.yaml && \
	JAVA_HOME=$$java_home FLIGHTS='$(FLIGHTS)' FIRST_DAY='$(FIRST_DAY)' LAKE='$(LAKE)' $(BIN)/dagster dev -w workspace.yaml

PYTEST = java_home=$$(scripts/ensure_java.sh) && JAVA_HOME=$$java_home $(BIN)/pytest --no-loadscope-reorder \
	$(if $(SHARD),--shard=$(SHARD)) $(if $(SHUFFLE),--shuffle=$(SHUFFLE))

# The variable hides an advertisement of the theme.
MKDOCS = NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

# Chromium, delta-spark, Hadoop's connectors and Azurite, where they can be installed; and archives
# of Spark's classes, by which Java starts faster.
test-tools: $(INSTALLED)
	@scripts/ensure_chromium.sh >/dev/null || true
	@java_home=$$(scripts/ensure_java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m tests.support.prepare

# Every claim once. SEED=random draws other values in random tests; a failure prints the seed.
test: test-tools
	@$(PYTEST) -n 3 -m 'not full and not long'

# All combinations too. SHARD=2/4 runs the second of four parts.
test-all: test-tools
	@$(PYTEST) -n 3 -m 'not long'

# Older versions of Spark and Dagster, each in an environment of its own below .peers. It includes
# the tests marked long: the tests of the Spark engine on each version of Spark.
test-versions: test-tools
	@$(PYTEST) tests/versions

# The pure tests, the Arrow engine and one path through Spark and through Dagster on another Python:
# make test-python PYTHON=python3.14. `scripts/debian_root.sh` makes a system that has it.
test-python:
	@$(MAKE) --no-print-directory run-test-python VENV=.peers/$$($(PYTHON) -c 'import sys; print("python-%d.%d" % sys.version_info[:2])')

run-test-python: $(INSTALLED)
	@$(PYTEST) -m 'not full and not long' $(foreach folder,protocol log planning transaction storage arrow,tests/$(folder))
	@export JAVA_HOME=$$(scripts/ensure_java.sh) && \
	$(foreach program,spark dagster,$(BIN)/python -m tests.versions.$(program)_program $$(mktemp -d) &&) true

# State machines, interleavings, fuzzing, memory and soak.
test-long: test-tools
	@$(PYTEST) -n 2 -m long --ignore=tests/versions --quiet --no-header --durations=0 | tee benchmarks/long_proofs.report.txt

# Tests by file, folder or name: make test-one TEST=tests/log, TEST='tests/log/test_replay.py::test_x'
test-one: test-tools
	@$(PYTEST) $(if $(TEST),'$(TEST)',$(error Name the tests: make test-one TEST=tests/log))

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	@mkdir -p $(DAGSTER_HOME)
	$(BIN)/dagster definitions validate -w workspace.yaml
	$(BIN)/dg check defs

# The site of the documentation, in build/site. A broken link or anchor fails, and so does a page
# that is not in the navigation.
docs: $(DOCS_INSTALLED)
	@$(MKDOCS) build --strict

docs-serve: $(DOCS_INSTALLED)
	@$(MKDOCS) serve --strict --dev-addr 127.0.0.1:8000

$(DOCS_INSTALLED): $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

bench: $(INSTALLED)
	@java_home=$$(scripts/ensure_java.sh) && JAVA_HOME=$$java_home $(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) .dagster .lake .peers .servers build dist *.egg-info
