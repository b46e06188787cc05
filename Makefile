# Two commands do everything on a fresh machine with Python 3.11: `make run` and `make test`.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
OLDEST := .venv-oldest

.PHONY: run test test-long test-oldest mutation-test fuzz crash-test check check-fast lint unit types style docs docs-pictures docs-results dist lock clean

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

# The main job: a first result after some seconds; then the longest first, two at a time, since compiling keeps one core only busy.
FIRST := figure2/tabular
OTHERS := appendix/task-diameter figure2/continuous figure4 figure2/linear figure3/tabular appendix/prediction-evolution appendix/true-values

run: $(READY)  ## every experiment that is part of the main job, at full scale, then a report to look at
	$(BIN)/remanence run $(FIRST)
	$(MAKE) --no-print-directory --jobs 2 --output-sync=target $(OTHERS:%=experiment/%)
	$(BIN)/remanence report

experiment/%: $(READY)
	$(BIN)/remanence run $*

# A file stays with one worker, which makes its fixtures once; the short files of tests/unit come last, so both workers end together.
PYTEST := $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder --durations 12

test: $(READY)  ## every test but the long ones
	$(PYTEST) -m "not long"

test-long: $(READY)  ## the long ones: kills, full disks, clusters, homes of other users
	$(PYTEST) -m long

$(OLDEST)/.ready: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv --clear $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --upgrade pip
	$(OLDEST)/bin/python -m pip install --quiet --constraint constraints-oldest.txt --editable '.[pandas,plot]' pytest hypothesis
	touch $@

test-oldest: $(OLDEST)/.ready  ## the unit tests with the oldest supported version of every dependency, on Python 3.11
	$(OLDEST)/bin/python -m pytest tests/unit

mutation-test: $(READY)  ## changes single operators of updates, agents and results; counts the changes that no unit test notices
	$(BIN)/python tools/mutants.py

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

dist: $(READY)  ## wheel and sdist, checked; the wheel is tried in an empty environment away from the checkout
	rm -rf dist build
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m build --quiet --outdir dist .
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist
	set -e; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; $(PYTHON) -m venv "$$place/env"; \
	"$$place/env/bin/python" -m pip install --quiet dist/*.whl; \
	mkdir "$$place/elsewhere"; cp tools/try_wheel.py "$$place/elsewhere/"; cd "$$place/elsewhere"; env -u PYTHONPATH "$$place/env/bin/python" try_wheel.py; \
	echo "size of the environment: $$(du -sm "$$place/env" | cut -f1) MB"

lock: $(READY) $(DOCS_READY)  ## pins the newest versions that fit together, those of the documentation among them
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf $(VENV) $(OLDEST) runs report site dist build
