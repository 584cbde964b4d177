# make demo   the verdict and the report of a bundled run
# make test   all tests, two more at a time than there are cores; lint, format and types are among them
# make lab    JupyterLab on the first notebook, under root too (a container); prints its address
# make docs   the documentation as a site in out/site, outputs and pictures made anew; needs no network
# make bench  all ratios of docs/performance.md in one run, with the limits of the machine; out/bench.json for `kit bench`
# make lint   mends what ruff can mend, then checks style, format and types
# make lock   requirements.lock anew (UPGRADE=1: newest releases)
# make clean  removes what make made
#
# Each sets up .venv itself. PYTHON=python3.12 chooses the interpreter, ARGS="-k store" goes to pytest,
# ARGS="--no-browser --port 9000" to JupyterLab.

BIN := .venv/bin
DEMO := data/sg01-capture-hang
export PYTHON

.PHONY: demo test lab docs lint lock clean setup

demo: .venv/.ready
	$(BIN)/kit verdict $(DEMO)
	$(BIN)/kit report $(DEMO) -o out/report.html
	@echo 'kit is .venv/bin/kit; to have it in any folder of this shell: export PATH="$(CURDIR)/$(BIN):$$PATH"'

test: .venv/.ready
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal $(ARGS)

lab: .venv/.ready
	$(BIN)/jupyter lab --allow-root --ServerApp.ip=127.0.0.1 --KernelManager.transport_encryption=auto $(ARGS) notebooks/00_start_here.ipynb

docs: .venv/.ready
	$(BIN)/mkdocs build -q
	@echo "open out/site/index.html"

bench: .venv/.ready
	$(BIN)/python benchmarks/run.py -o out/bench.json $(ARGS)

lint: .venv/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/mypy

lock: .venv/.ready
	tools/lock.sh

setup: .venv/.ready

.venv/.ready: requirements.lock pyproject.toml tools/setup.sh
	@tools/setup.sh

clean:
	rm -rf .venv out build dist .pytest_cache .ruff_cache .mypy_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	find . -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +
