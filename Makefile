# Everything is installed into .venv; nothing outside this folder is changed.
# Another Python or build of torch:
#   make install PYTHON=python3.12
#   make install TORCH="torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu"
PYTHON ?= python3
TORCH ?= torch==2.13.0
SEED ?= 1
PORT ?= 7878
WALKS ?= 12
DEMO_ARGS ?=
PYTEST_ARGS ?= -n 2
PYTEST_ARGS_TRAINER ?=

SOURCES := gligabao training datasets trainer_image benchmarks tests
RUN := .venv/bin/python
# Modules are compiled when they are first imported: most of torch never is.
PIP := $(RUN) -m pip install --disable-pip-version-check --quiet --no-compile

.PHONY: install demo up test lint messages bench faults clean
.DEFAULT_GOAL := help
.SILENT:

help:
	echo "make demo     install, train the sample on this machine, compare base and tuned"
	echo "make up       install, then run web, worker and beat until Ctrl-C"
	echo "make install  everything into .venv (TORCH=... chooses a build of torch)"
	echo "make test     all tests;  make lint: style, checks, missing migrations"
	echo "make messages texts of the pages into the catalogues, and these compiled"
	echo "make bench    measurements, printed as tables"
	echo "make faults   kills, walks of random faults (WALKS=12 SEED=1), guards taken away"

install: .venv/installed .venv/installed-dev

demo: .venv/installed
	$(RUN) manage.py demo --seed $(SEED) --port $(PORT) $(DEMO_ARGS)

up: .venv/installed
	$(RUN) manage.py up --port $(PORT)

# The trainer's tests have a process of their own: here `datasets` is our app, there a library.
test: install
	$(RUN) -m pytest $(PYTEST_ARGS)
	cd trainer_image && ../$(RUN) -P -m pytest $(PYTEST_ARGS_TRAINER)

# Commands make their data folder when they load the settings; lint leaves ./data alone.
lint: export GLIGABAO_DATA_DIR := .venv/lint-data
lint: install
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) manage.py check
	$(RUN) manage.py makemigrations --check --dry-run
	find $(SOURCES) -name '*.py' | xargs wc -l | awk '$$1 > 400 && $$2 != "total" \
	  { print "Long, look for a second subject: " $$2 ", " $$1 " lines" }'

messages: export GLIGABAO_DATA_DIR := .venv/lint-data
messages: install
	$(RUN) manage.py makemessages --all --no-location --no-obsolete \
	  --ignore tests --ignore benchmarks --ignore trainer_image
	$(RUN) manage.py compilemessages --ignore .venv

bench: install
	for script in benchmarks/[a-z]*.py; do echo "== $$script"; $(RUN) $$script || exit 1; done

faults: install
	$(RUN) -m tests.faults.run
	$(RUN) -m tests.faults.walk --walks $(WALKS) --seed $(SEED)
	$(RUN) -m tests.faults.guards

clean:
	rm -rf .venv .pytest_cache .ruff_cache

# The project itself is never installed as a package: our app `datasets` has the name of a
# library that the trainer needs. Only what pyproject.toml lists is.
define REQUIREMENTS
import sys, tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extra = project["optional-dependencies"]["dev"] if sys.argv[1] == "dev" else []
print(*(extra or project["dependencies"]), sep="\n")
endef
export REQUIREMENTS

.venv/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "gligabao needs Python 3.11 or later; $(PYTHON) is older. Set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv .venv \
	  || { rm -rf .venv; echo "A virtual environment cannot be made (Debian: apt install python3-venv)."; exit 1; }

.venv/installed: pyproject.toml trainer_image/requirements.txt | .venv/bin/python
	echo "Installing into .venv (once; torch is the large part) ..."
	$(RUN) -c "$$REQUIREMENTS" main > .venv/requirements.txt
	$(PIP) --requirement .venv/requirements.txt $(TORCH) --requirement trainer_image/requirements.txt
	touch $@

.venv/installed-dev: pyproject.toml .venv/installed
	$(RUN) -c "$$REQUIREMENTS" dev > .venv/requirements-dev.txt
	$(PIP) --requirement .venv/requirements-dev.txt
	touch $@
