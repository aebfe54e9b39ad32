# daskkcl. `make help` lists what there is.
#
#   make demo                      a first look: everything is set up in .venv
#   make test                      what continuous integration runs
#   make test PYTHON=python3.12    another Python (for a new .venv)
#   make test PYTEST_ARGS="-n 4"   other arguments for pytest (two processes by default)
#   make bench DATA=folder         with the real data sets of a folder (mnist.npz, covtype.npz)
#   make papers DATA=folder        the papers' experiments; docs/papers.md says where the sets can be had

PYTHON      ?= python3
VENV        ?= .venv
PYTEST_ARGS ?= -n 2
PAPERS      ?= papers-results

PY  := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -qq

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test lint format docs links slow bench papers papers-quick clean distclean

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r name what; do \
	    printf '  make %-12s %s\n' "$$name" "$$what"; done

demo: $(VENV)/.installed-plots  ## run examples/demo.py
	@$(PY) examples/demo.py

test: lint  ## lint, then run the tests (all but the slow ones)
	@$(PY) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-tests  ## ruff and mypy
	@$(PY) -m ruff check --quiet .
	@$(PY) -m mypy

format: $(VENV)/.installed-tests  ## sort imports, apply safe fixes, format
	@$(PY) -m ruff check --quiet --fix . || true
	@$(PY) -m ruff format .

docs: $(VENV)/.installed-docs  ## build the documentation into docs/_build/html; a warning is an error
	@$(PY) -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

links: $(VENV)/.installed-docs  ## follow every link of the documentation (needs a network)
	@$(PY) -m sphinx -q -b linkcheck docs docs/_build/linkcheck && echo "all links lead somewhere"

slow: $(VENV)/.installed-tests  ## run the slow tests
	@$(PY) -m pytest -m slow $(PYTEST_ARGS)

bench: $(VENV)/.installed-benchmarks  ## measure against peers and the machine's limits (20 minutes; DATA=folder)
	@$(PY) -m benchmarks all $(if $(DATA),--data '$(DATA)') $(BENCH_ARGS)

papers: $(VENV)/.installed-benchmarks  ## the papers' experiments: hours, goes on where it was stopped (DATA=folder)
	@$(PY) -m benchmarks.papers run $(if $(DATA),--data '$(DATA)') --store '$(PAPERS)/results.jsonl' $(PAPERS_ARGS)
	@$(PY) -m benchmarks.papers page --store '$(PAPERS)/results.jsonl' --out '$(PAPERS)'
	@echo "$(PAPERS)/papers.md"

papers-quick: PAPERS_ARGS += --quick
papers-quick: PAPERS := $(PAPERS)/quick
papers-quick: papers  ## a part of them: ten minutes

clean:  ## remove caches, builds and demo output
	@rm -rf build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage htmlcov docs/_build
	@rm -rf demo-output examples/output dask-scratch-space dask-worker-space
	@find . -path './$(VENV)' -prune -o -type d -name __pycache__ -prune -exec rm -rf {} +

distclean: clean  ## and the environment
	@rm -rf '$(VENV)'

# The environment. A stamp stands for a finished installation, and is made anew when pyproject.toml changes.

$(VENV)/.installed-%: pyproject.toml $(VENV)/.ready
	@echo "Installing daskkcl[$*] into $(VENV) (the first time takes a few minutes) ..."
	@$(PIP) install -e '.[$*]'
	@touch $@

# Some systems ship Python without ensurepip (Debian: package python3-venv); a pip outside can then fill the environment.
# A pip that cannot be upgraded will do: any since 21.3 can install this package.
$(VENV)/.ready:
	@command -v '$(PYTHON)' >/dev/null 2>&1 || [ -x '$(PY)' ] || { \
	    echo "make: no '$(PYTHON)' here. Install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@python='$(PYTHON)'; if [ -x '$(PY)' ]; then python='$(PY)'; fi; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "make: daskkcl needs Python 3.11 or newer, and $$python is $$("$$python" --version 2>&1)." >&2; \
	    echo "      Remove '$(VENV)' if it is there, and name a newer one: make PYTHON=/path/to/python3.12" >&2; exit 1; }
	@if [ ! -x '$(PY)' ] || ! '$(PY)' -m pip --version >/dev/null 2>&1; then \
	    echo "Creating $(VENV) ..."; \
	    if '$(PYTHON)' -c 'import ensurepip' >/dev/null 2>&1; then '$(PYTHON)' -m venv '$(VENV)'; \
	    elif '$(PYTHON)' -m pip --version >/dev/null 2>&1; then \
	        '$(PYTHON)' -m venv --without-pip '$(VENV)' && \
	        '$(PYTHON)' -m pip --python '$(PY)' -qq install pip; \
	    else \
	        echo "make: '$(PYTHON)' cannot make environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	    fi; \
	fi
	@$(PIP) install --upgrade pip || echo "make: pip could not be upgraded; going on with $$('$(PY)' -m pip --version)" >&2
	@touch $@
