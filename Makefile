# Two commands do everything on a fresh machine with Python 3.11: `make run` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready

.PHONY: run test fuzz crash-test check check-fast lint unit types style docs docs-pictures docs-results lock clean

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
	$(BIN)/python -m pytest --numprocesses 2 --durations 12

fuzz: $(READY)  ## about 1300 mutated commands, calls and files, with a fixed seed: some minutes
	PYTHONPATH=tests $(BIN)/python -m fuzz

crash-test: $(READY)  ## a small run killed at each of its file-system events, a deep one a hundred times: some minutes
	$(BIN)/python tests/crash_events.py
	$(BIN)/python tests/crash.py torment --kills 100

style: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

unit: $(READY)
	$(BIN)/python -m pytest tests/unit --numprocesses 2 --dist loadfile --durations 10

lint: style types

check-fast: $(READY)  ## lint, types and unit tests, at the same time
	$(MAKE) --jobs 3 --output-sync=target style types unit

check: lint test  ## what a change must pass

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

docs: $(DOCS_READY)  ## the documentation, as pages to open in site/index.html; a broken link or reference stops it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/docs_links.py site

docs-pictures: $(READY)  ## draws the worlds and the idea of the documentation again
	$(BIN)/python tools/docs_pictures.py
	$(BIN)/python tools/docs_idea.py

docs-results: $(READY)  ## writes figures, tables and verdicts of the archived runs into the documentation
	$(BIN)/python tools/docs_results.py

lock: $(READY) $(DOCS_READY)  ## pins the newest versions that fit together, those of the documentation among them
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) runs report site
