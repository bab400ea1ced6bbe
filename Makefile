# Makes the environment, then calls the real command: what is done here can be done by hand (docs/installing.md).

SHELL := bash
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

N ?= $(shell nproc)
ARGS ?=
VENV ?= .venv
# the first Python that starts and is new enough; PYTHON=… names another
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for name in python3.14 python3.13 python3.12 python3.11 python3; do \
  $$name -c '$(NEW_ENOUGH)' 2>/dev/null && { command -v $$name; break; }; done)
# packages for a GPU only if there is one, and PyCUDA only if its toolkit is there to build it
ifeq ($(origin EXTRAS),undefined)
EXTRAS := cpu$(shell nvidia-smi --list-gpus >/dev/null 2>&1 && printf ,cuda && command -v nvcc >/dev/null \
  && printf ,pycuda)
endif

# yes: the packages in locks/, verified by hash; no: the newest that pyproject.toml allows
LOCKED ?= yes
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check
comma := ,
# files that mark an installed environment, its extras, and whether it came from locks/; if absent, it is installed
stamps = $(1:%=$(VENV)/installed-%-$(EXTRAS)-$(LOCKED))

RUN := PATH="$(CURDIR)/$(VENV)/bin:$$PATH"
PYTEST = $(RUN) pytest -n $(N) --dist loadfile --no-loadscope-reorder
FAST := not slow and not wording and not medium and not gpu and not exhaustive

.PHONY: help all demo test test-fast test-all test-exhaustive nvrtc coverage lint messages docs census times minutes dist \
  environment lock clean

help:  ## Print this.
	@echo "make TARGET [N=cores] [ARGS='further arguments of the command'] [EXTRAS=cpu,mesh] [LOCKED=no]"
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  \1\t\2/p' Makefile | expand -t 16

all: $(call stamps,run)  ## Run the campaign of config/config.yaml: snakemake --cores N all.
	$(RUN) snakemake --cores $(N) all $(ARGS)

demo: $(call stamps,run)  ## Run one study on one small problem: a first look in a minute.
	$(RUN) snakemake --cores $(N) all --configfile config/demo.yaml $(ARGS)

test: $(call stamps,dev)  ## Run all tests except slow ones and those of messages' wording.
	$(PYTEST) -m "not slow and not wording and not exhaustive" $(ARGS)

test-fast: $(call stamps,dev)  ## Run only the fastest of these tests, after each edit.
	$(PYTEST) -m "$(FAST)" $(ARGS)

# The fast ones first, so that their failures are known within minutes.
test-all: $(call stamps,dev)  ## Run all tests except exhaustive ones; all of them have to pass.
	$(PYTEST) -m "$(FAST)" $(ARGS)
	$(PYTEST) -m "not ($(FAST)) and not exhaustive" $(ARGS)

# These tests compile for the CPU with optimisation, as users do; in the others, it would take most of the time.
test-exhaustive: $(call stamps,dev)  ## Run the tests that vary others over many more cases, before a release.
	REPRO_OPTIMISED=yes $(PYTEST) -m exhaustive $(ARGS)

nvrtc: $(call stamps,dev)  ## Compile the CUDA dialect of all templates, without a GPU and without nvcc.
	$(PYTEST) tests/codegen/test_nvrtc.py $(ARGS)

# Coverage doubles the time of a test. So it is measured for fast tests only, and for the first three cases of each test
# function, since further cases add little.
coverage: $(call stamps,dev)  ## Measure the code coverage of the fast tests; pyproject.toml states the minimum.
	$(PYTEST) -m "$(FAST)" --cov --cov-report=term $(ARGS)

# run all checks, even if an earlier one fails
lint: $(call stamps,dev)  ## Check style, spelling, types, layers and the workflow.
	@run() { echo "$$*"; $(RUN) "$$@" || failed+=("$$*"); }; \
	run ruff check; \
	run ruff format --check; \
	run codespell; \
	run mypy --strict; \
	run lint-imports --no-cache --no-logo; \
	run snakefmt --check Snakefile workflow; \
	run snakemake --lint; \
	run check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml .github/workflows/release.yml .github/workflows/weekly.yml; \
	run check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml; \
	run zizmor --offline --quiet .github; \
	for check in "$${failed[@]}"; do echo "failed: $$check" >&2; done; \
	exit $${#failed[@]}

COMMITS ?= origin/main..HEAD
messages: $(call stamps,run)  ## Check subjects and bodies of COMMITS, as the hooks of pre-commit do.
	$(RUN) python tools/commit_body.py $(COMMITS)

docs: $(call stamps,docs)  ## Fill in the pages' numbers, generate the reference, and write the site to build/site.
	$(RUN) python docs/make_pages.py
	$(RUN) python docs/make_reference.py
	$(RUN) mkdocs build --strict

census: $(call stamps,run)  ## Count modules, functions, docstrings and imports, and compare with targets.
	$(RUN) python tools/census.py $(ARGS)

times: $(call stamps,run)  ## Compare the times of campaigns with the estimates of repro plan; needs an idle machine.
	$(RUN) python tools/campaign_times.py $(ARGS)

minutes: $(call stamps,run)  ## Time README's commands in a fresh clone; needs an idle machine.
	$(RUN) python tools/command_minutes.py $(ARGS)

dist: $(call stamps,release)  ## Build and check the wheel and source archive of a release in dist/.
	$(RUN) validate-pyproject pyproject.toml
	$(RUN) python -m build --no-isolation
	$(RUN) twine check --strict dist/*
	$(RUN) check-wheel-contents dist/*.whl

environment: $(call stamps,run)  ## Make the environment in .venv.

clean:  ## Delete environment, caches, logs and compiled modules; results, figures and downloads stay.
	rm -rf $(VENV) modules logs .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage*

lock: $(VENV)/bin/python  ## Rewrite locks/ with the newest version of each package.
	$(PIP) uv
	$(VENV)/bin/python locks/lock.py

# $(1): the extras beside `campaign`, which all targets need
define install
	$(if $(filter no,$(LOCKED)),\
	  $(PIP) --upgrade --upgrade-strategy eager --editable '.[campaign$(if $(1),$(comma)$(1))]',\
	  $(PIP) --no-deps --require-hashes $(patsubst %,--requirement locks/%.txt,run campaign $(subst $(comma), ,$(1))))
	$(if $(filter no,$(LOCKED)),,$(PIP) --no-deps --no-build-isolation --editable .)
	rm -f $(VENV)/installed-*-$(if $(filter no,$(LOCKED)),yes,no)
endef

$(call stamps,dev): pyproject.toml $(wildcard locks/*.txt) | $(VENV)/bin/python
	$(call install,$(EXTRAS)$(comma)dev)
	touch $@ $(call stamps,run)

$(call stamps,release): pyproject.toml $(wildcard locks/*.txt) | $(VENV)/bin/python
	$(call install,$(EXTRAS)$(comma)release)
	touch $@ $(call stamps,run)

$(call stamps,docs): pyproject.toml $(wildcard locks/*.txt) | $(VENV)/bin/python
	$(call install,$(EXTRAS)$(comma)docs)
	touch $@ $(call stamps,run)

$(call stamps,run): pyproject.toml $(wildcard locks/*.txt) | $(VENV)/bin/python
	$(call install,$(EXTRAS))
	touch $@

$(VENV)/bin/python:
	@python='$(PYTHON)'; "$${python:-false}" -c '$(NEW_ENOUGH)' 2>/dev/null || { \
	  echo "Python 3.11 or newer is needed, found $${python:-none}; name one: make $(MAKECMDGOALS) PYTHON=/path/to/it" >&2; \
	  exit 1; }
	@echo "making the environment $(VENV): one to two minutes"
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "no virtual environment could be made; on Debian: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }
