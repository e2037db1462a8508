# Each target does all of its set-up on a fresh clone (virtual environment, install), and nothing twice.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests side by side: two processes take little more than half of one's time on two cores.
SPREAD := -n 2 --dist worksteal

.PHONY: demo test test-slow lint format install clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[local,dev]'
	touch $(STAMP)

demo: $(STAMP)
	$(BIN)/python -m hopsmith.demo

test: $(STAMP)
	$(BIN)/python -m pytest -m "not slow" -q $(SPREAD)

test-slow: $(STAMP)
	$(BIN)/python -m pytest -m "slow and not alone" -q $(SPREAD)
	$(BIN)/python -m pytest -m alone -q

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf demo runs build dist .pytest_cache .mypy_cache .ruff_cache
