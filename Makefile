# Everything starts here: `make run` shows the loop, `make test` checks it. Both do the set-up first.
PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(p))))
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_RUN := $(VENV)/.ready-to-run
EXTRAS := .[test]
RUN_EXTRAS := .[batch,logs,plots]
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# uv does in seconds what takes pip minutes; where it cannot reach an index (it does not read pip's settings), pip does it.
install = { $(PIP) uv && $(BIN)/uv pip install --quiet --python $(BIN)/python -c constraints.txt $(1); } 2>/dev/null || $(PIP) $(1)

# A compiled kernel goes stale when a kernel in another file changes: the cache is keyed by the whole source.
SOURCE := $(shell find src -name '*.py' | LC_ALL=C sort | xargs cat | sha1sum | cut -c1-12)
export NUMBA_CACHE_DIR ?= $(CURDIR)/.cache/numba-$(SOURCE)
export OPENBLAS_NUM_THREADS ?= 1
unexport PYTHONDONTWRITEBYTECODE  # where it is set, every process would compile the sources of all it imports

.PHONY: help setup run test cluster-test check format bench reproduce search serve load soak docs wheel first-contact clean

help:
	@echo 'make run        play the loop on a built-in stream, with a report at the end'
	@echo 'make test       every test'
	@echo 'make cluster-test  training on three machines, made as network namespaces (as root, on Linux)'
	@echo 'make check      format, lint, types, layers'
	@echo 'make bench      speed, beside the peers in the same run'
	@echo 'make reproduce  the figures and tables of the papers'
	@echo 'make search     a search box over this documentation that learns from your clicks'
	@echo 'make serve      the HTTP service with a page to try it'
	@echo 'make load       requests per second beside the bare HTTP stack; make soak: the long fault tests'
	@echo 'make docs       the documentation site'
	@echo 'make wheel      the wheel with compiled kernels and the source distribution, in dist/'
	@echo 'make first-contact  install size, time to the first ranking, make run on a fresh clone'

$(READY): pyproject.toml constraints.txt
	@if [ -z '$(PYTHON)' ]; then echo 'rankloop needs Python 3.11 or newer on the PATH'; exit 2; fi
	@echo 'set-up: installing into $(VENV) (once, about half a minute)'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@$(call install,-e '$(EXTRAS)')
	@touch $@

# The demonstration needs a fraction of the packages, so that a newcomer waits for these only.
$(READY_TO_RUN): pyproject.toml constraints.txt
	@if [ -z '$(PYTHON)' ]; then echo 'rankloop needs Python 3.11 or newer on the PATH'; exit 2; fi
	@echo 'set-up: installing into $(VENV) (once, some 20 s)'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@[ -e $(READY) ] || $(call install,-e '$(RUN_EXTRAS)')
	@touch $@

$(NUMBA_CACHE_DIR)/.warm: $(READY)
	@echo 'set-up: compiling all kernels (once per version of the source, some 90 s of processor time)'
	@rm -rf $(filter-out $(NUMBA_CACHE_DIR),$(wildcard $(CURDIR)/.cache/numba-*))
	@mkdir -p $(NUMBA_CACHE_DIR)
	@$(BIN)/python -m rankloop.warm_up
	@touch $@

setup: $(NUMBA_CACHE_DIR)/.warm

run: $(READY_TO_RUN)
	@echo 'playing; the kernels of this demonstration are compiled first (once, some 15 s of processor time)'
	@mkdir -p $(NUMBA_CACHE_DIR)
	@$(BIN)/rankloop demo

test: setup
	@$(BIN)/python -m pytest -n auto --dist worksteal

cluster-test: setup
	@RANKLOOP_CLUSTER_TEST=1 $(BIN)/python -m pytest -rs tests/test_hosts.py tests/engine/test_cluster.py tests/engine/test_cluster_machines.py

check: $(READY)
	@$(BIN)/ruff format --check --quiet . && $(BIN)/ruff check --quiet . && $(BIN)/mypy && $(BIN)/lint-imports --no-logo

format: $(READY)
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: setup
	@$(call install,-e '.[bench]')
	@$(BIN)/python -m benchmarks $(BENCH)

reproduce: setup
	@$(BIN)/python -m research reproduce

docs: $(READY)
	@$(call install,-e '.[docs]')
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'the site is in site/index.html'

wheel: $(READY)
	@$(call install,build wheel)
	@$(BIN)/python tools/wheel.py $(PYTHONS)

first-contact: $(READY)
	@$(call install,build wheel)
	@$(BIN)/python tools/first_contact.py $(if $(PYTHONS),--python $(PYTHONS))

search: setup
	@$(BIN)/rankloop search docs --data .cache/search

serve: setup
	@$(BIN)/rankloop serve --demo

load: setup
	@$(BIN)/python -m benchmarks.load

soak: setup
	@$(BIN)/python -m benchmarks.soak

clean:
	rm -rf .cache site results build dist
