# trimtab: `make demo` shows it, `make test` checks it. Both install what they need into .venv.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=

.PHONY: pair-kills story-c bundle dashboards deb image wheels-lock help demo test test-long cluster lint bench score docs screenshots clean cluster-demo

help: ## This list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: $(VENV)/.demo ## A simulated cluster, its agents, the daemon and the page; ARGS="--for 60 --auto-approve"
	@$(BIN)/trimtab demo $(ARGS)

test: $(VENV)/.test $(VENV)/.grafana lint cluster ## Lint, types, import contracts, and all tests; ARGS="-k spool" for some
	@echo "== tests (servers that are found are started; what is skipped is named at the end)"
	@$(BIN)/python -m tests.side_by_side $(ARGS)

test-long: $(VENV)/.test $(VENV)/.grafana cluster ## What takes too long for every change: long outages, every kill, more steps; ARGS as for test
	@echo "== the tests of real clusters, contracts and explorers, at full length"
	@TRIMTAB_LONG=1 $(BIN)/pytest tests/issue tests/explore tests/contract tests/cluster $(ARGS)
	@echo "== what is long elsewhere: storms, kills in delivery, faults played to Prometheus"
	@TRIMTAB_LONG=1 $(BIN)/pytest -m "long and not cluster" --ignore tests/issue --ignore tests/explore --ignore tests/contract $(ARGS)

cluster: $(VENV)/.test ## The control plane that the tests run on: about 15 min cold, kept in ~/.cache; needs Go and root
	@$(BIN)/python -m tests.cluster.build

lint: $(VENV)/.test ## ruff, mypy --strict, import contracts, promtool
	@echo "== ruff"; $(BIN)/ruff check . && $(BIN)/ruff format --check -q .
	@echo "== mypy --strict"; $(BIN)/mypy
	@echo "== import contracts"; $(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports
	@if command -v promtool >/dev/null; then echo "== promtool"; promtool check rules alerts/*.rules.yml; \
	else echo "== promtool is missing, rules unchecked: apt-get install prometheus"; fi

bench: $(VENV)/.bench ## What the performance claims rest on; prints ratios against a peer
	@for file in bench/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

deb: $(VENV)/.test ## trimtab-agent and trimtab-daemon as Debian packages, into build/deb; ARGS="--python 3.13" for another release
	@$(BIN)/python -m packages.deb $(ARGS)

bundle: $(VENV)/.test ## One archive for pip without a network, every supported Python, into build/bundle; ARGS="--machine aarch64"
	@$(BIN)/python -m packages.bundle $(ARGS)

image: $(VENV)/.test ## The OCI image of agent and daemon, into build/image; needs root, mmdebstrap and umoci
	@$(BIN)/python -m packages.image $(ARGS)

wheels-lock: $(VENV)/.test ## Choose the packages' wheels anew, after pyproject.toml asks for something else
	@$(BIN)/python -m packages.wheels

cluster-demo: $(VENV)/.test ## Stories a to d on a real control plane, narrated; ARGS="a c" for some (needs Go and root)
	@$(BIN)/python -m tests.cluster.demo $(ARGS)

pair-kills: $(VENV)/.test ## Two daemons on PostgreSQL, the active one killed 50 times: how long the other takes, and that they are never two
	@TRIMTAB_LONG=1 $(BIN)/pytest -s -q tests/pair/test_fifty_kills.py $(ARGS)

story-c: $(VENV)/.test ## Story c 20 times in each form on the real control plane: the share of seats, with its interval
	@TRIMTAB_LONG=1 TRIMTAB_STORY_C_RUNS=$${RUNS:-20} $(BIN)/pytest -s -q tests/cluster/test_kueue.py -k "story_c and not flat" $(ARGS)

score: $(VENV)/.test ## Field cases read rightly, by folder and verdict
	@$(BIN)/python -m tests.score

docs: $(VENV)/.test ## Rewrite the generated reference pages
	@$(BIN)/python -m tests.generate_docs

dashboards: $(VENV)/.test ## Build the dashboards' JSON anew, and the pictures of their data (needs prometheus, postgresql)
	@$(BIN)/python -m dashboards.build
	@$(BIN)/python -m tests.dashboards.pictures

screenshots: $(VENV)/.test ## The page in headless Chromium, into docs/pictures
	@$(BIN)/python -m tests.screenshots

clean: ## Remove the virtual environment and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@echo "== creating $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { echo "python3-venv is missing: apt-get install python3-venv"; exit 1; }

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "== installing trimtab with what the daemon needs (about 15 s)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[daemon]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	@echo "== installing trimtab with what its tests need (about 40 s)"
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test]'
	@touch $@ $(VENV)/.demo

# grafana-client replaces urllib3 under requests wherever it is: it never comes into the daemon's environment.
$(VENV)/.grafana: pyproject.toml | $(BIN)/python
	@echo "== an environment of its own for trimtab[grafana]"
	@$(PYTHON) -m venv $(VENV)/grafana
	@URLLIB3_NO_OVERRIDE=1 $(VENV)/grafana/bin/pip install --quiet --disable-pip-version-check \
	  --no-binary urllib3-future 'grafana-client>=5.1,<6' urllib3
	@touch $@

$(VENV)/.bench: $(VENV)/.test
	@$(BIN)/pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@
