# Anchorpoint. `make run` and `make test` need only Python 3.11+ and make: they create .venv and install into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONPATH := $(CURDIR)
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: run test check one bench demo clean

run: $(VENV)/.installed
	$(BIN)/streamlit run app.py

# Everything, with the engine's branch coverage over both halves of the tests. A child process counts too.
test: COVERAGE := --cov=engine --cov-report=
test: check
	$(BIN)/python tests/browser/install.py
	$(BIN)/python -m pytest -m "slow or browser" -n 2 --dist worksteal $(COVERAGE) --cov-append
	$(BIN)/coverage report --fail-under=95

check: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow and not browser" -n 2 --dist worksteal $(COVERAGE)

# `make one T=tests/rules/test_label_free.py`, or T="tests/rules -k cot": only these, slow ones included.
one: $(VENV)/.tested
	$(BIN)/python -m pytest $(T)

bench: $(VENV)/.tested
	$(BIN)/python -m tests.benchmarks

demo: $(VENV)/.installed
	$(BIN)/python -m sample_models.demo

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(VENV)/.installed: requirements.txt
	$(PYTHON) -c "import sys; sys.exit(0 if sys.version_info >= (3, 11) else 'Anchorpoint needs Python 3.11 or newer; this is ' + sys.version.split()[0] + '. Run: make PYTHON=/path/to/python3.11')"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	touch $@

$(VENV)/.tested: $(VENV)/.installed tests/requirements.txt
	$(BIN)/python -m pip install --quiet -r tests/requirements.txt
	touch $@
