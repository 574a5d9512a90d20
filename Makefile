# Every target makes what it needs first: on a fresh clone, any of them may be the first command.
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
PYTHON_IN_VENV := .venv/bin/python

ARGS ?=
N ?= 100

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-zA-Z%-]+:.*## / { sub("%", "NAME", $$1); printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo '  ARGS="..." is handed on to demo, test, test-fast, bench and bench-NAME.'

.PHONY: demo
demo: venv component-java ## Tell the story of examples/shop with local Spark and local disk
	@$(PYTHON_IN_VENV) examples/shop/demo.py $(ARGS)

.PHONY: test
test: components ## Run every test, with the real components; ends with the table of what was used
	@$(PYTHON_IN_VENV) -m pytest $(ARGS)

.PHONY: test-fast
test-fast: venv ## Run the tests that need no service, Spark or cluster (about a minute)
	@$(PYTHON_IN_VENV) -m pytest -m "not slow" -n 2 $(ARGS)

.PHONY: lint
lint: venv ## Check style (ruff), types (mypy --strict) and layers (import-linter)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

.PHONY: format
format: venv ## Format the code and apply the safe fixes
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

.PHONY: bench
bench: venv component-java ## Run the short form of every benchmark (ARGS="--json FILE" for machines)
	@$(PYTHON_IN_VENV) -m benchmarks.run $(ARGS)

bench-%: venv component-java ## Run one benchmark
	@$(PYTHON_IN_VENV) -m benchmarks.run $* $(ARGS)

.PHONY: soak
soak: components ## Run the kill tests with N kills (N=100)
	SEAMARK_KILLS=$(N) $(PYTHON_IN_VENV) -m pytest tests/story -m slow -k killed --timeout 0 $(ARGS)

.PHONY: transcript
transcript: components ## Tell the story on Kubernetes and write what kubectl showed to docs/transcript.md
	SEAMARK_TRANSCRIPT=1 $(PYTHON_IN_VENV) -m pytest tests/story/test_shop.py -k kubernetes

.PHONY: images
images: venv ## Build the images `operator` and `spark`, with buildah or docker
	@$(PYTHON_IN_VENV) -m tests.components.images $(ARGS)

.PHONY: components
components: venv ## Get every component the tests run against (built ones are kept in SEAMARK_CACHE)
	@echo 'components:' >&2; $(PYTHON_IN_VENV) -m tests.components ensure

component-%: venv
	@$(PYTHON_IN_VENV) -m tests.components ensure $*

.PHONY: venv
venv: ## Make .venv what requirements.lock says
	@tools/venv.sh

.PHONY: lock
lock: ## Pin the dependencies of pyproject.toml anew, with hashes (ARGS="--upgrade" for the newest)
	@tools/venv.sh
	.venv/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
		--no-emit-index-url --custom-compile-command 'make lock' --quiet -o requirements.lock $(ARGS)

.PHONY: clean
clean: ## Remove what the tools left behind (keeps .venv, and the components in SEAMARK_CACHE)
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist *.egg-info \
		spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
