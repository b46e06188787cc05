# Two commands do everything on a fresh machine with Python 3.11: `make run` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: run test crash-test check lint lock clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

run: $(READY)  ## every experiment that is part of the main job, at full scale, then a report to look at
	$(BIN)/remanence run figure2/tabular
	$(BIN)/remanence run figure2/linear
	$(BIN)/remanence run figure2/continuous
	$(BIN)/remanence run figure3/tabular
	$(BIN)/remanence run figure4
	$(BIN)/remanence run appendix/true-values
	$(BIN)/remanence run appendix/prediction-evolution
	$(BIN)/remanence run appendix/task-diameter
	$(BIN)/remanence report

test: $(READY)  ## the whole test suite
	$(BIN)/python -m pytest --numprocesses 2

crash-test: $(READY)  ## a small deep run, killed a hundred times: some minutes
	$(BIN)/python tests/crash.py torment --kills 100

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

check: lint test  ## what a change must pass

lock: $(READY)  ## pins the newest versions that fit together
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) runs report
