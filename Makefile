# Everything runs from a virtual environment of its own. A newcomer needs two commands: `make triage` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MKDOCS := NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs
OUT    ?= out
REF    ?= main
# The tests start the program about a thousand times; compiling its modules each time would take longer than all else.
unexport PYTHONDONTWRITEBYTECODE

# What `make triage` compares: a few recipes of each situation in the README. RECIPES=recipes/ compares all, in about ten minutes.
SITUATIONS := sharded-updates-short sharded-kv-cache sharded-llama-undeclared-device globals-chain \
  llama-attention-aggressive-fusion dynamic-matmul static-matmul paged-gather
RECIPES ?= $(SITUATIONS:%=recipes/%.yaml)
TRITON_RECIPES ?= recipes/triton-delta-rule.yaml recipes/triton-softmax.yaml
RUN_RECIPES ?= recipes/masked-mean.yaml recipes/determinant.yaml recipes/row-sum.yaml
NEW    ?= 3.3.0
OLD    ?= 3.2.0
RUN_NEW ?= 3.13.0
RUN_OLD ?= 3.10.0
TRITON_NEW ?= 3.2.0
TRITON_OLD ?= 3.1.0
KILLS ?= 200
TRITONS ?= 3.0.0 3.1.0 3.2.0 3.3.0 3.3.1 3.4.0 3.5.0 3.5.1 3.6.0 3.7.0 3.7.1 3.8.0 3.9.0

.PHONY: help setup triage reproducers test test-real test-all check check-code check-docs docs package recordings \
  fuzz torture bench size test-browser clean

help:
	@echo "make triage         compare IREE $(NEW) with $(OLD) on a few recipes, bisect and reduce regressions; reports in $(OUT)/"
	@echo "                    Triton $(TRITON_NEW) with $(TRITON_OLD); reports in $(OUT)/triton/"
	@echo "                    and results and run times of IREE $(RUN_NEW) with $(RUN_OLD); reports in $(OUT)/runs/, all in $(OUT)/site/"
	@echo "make test           run the tests that take seconds each, with two releases of IREE and one of Triton"
	@echo "make test-real      run the tests on many releases; the first run downloads them and says how many"
	@echo "make test-all       run all tests: also slow ones, attacks, damaged inputs and the site in a browser (an hour and more)"
	@echo "make test-browser   run the tests of the site in Chromium; installs Debian's when it is missing"
	@echo "make torture        kill -9 (KILLS=200) and other attacks on real processes (SECONDS=... bounds it, SEED=... repeats it)"
	@echo "make check          run ruff, mypy --strict, import-linter, the documentation build and the documentation tests"
	@echo "make docs           build the documentation into site/"
	@echo "make package        build the sdist and the wheel into dist/ and check them"
	@echo "make recordings     record the terminal sessions in docs/assets/ again, and take pictures of SITE=DIR"
	@echo "make reproducers    reduce the cases in reproducers/orders.txt on all releases"
	@echo "make bench          print what triage costs next to xargs, grep, git bisect, other reducers and a local pool"
	@echo "make size           print tokens, options and functions next to their budgets"
	@echo "make fuzz SECONDS=60                    feed damaged inputs to every parser; what fails is saved in tests/fuzz/corpus/"
	@echo "make clean          remove $(VENV), $(OUT), site, dist and caches; toolchains stay (triage toolchains prune)"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable . --group dev
	@touch $@ $(VENV)/.program

# The program without what only its development needs.
$(VENV)/.program: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable .
	@touch $@

# Exit code 1 means that regressions were found, which is the right answer for these pairs of releases. What is compared is installed
# first, side by side, and nothing else is. The site shows only nights of this target, which has a store of its own.
triage: export TRIAGE_NIGHTS = $(OUT)/nights
triage: $(VENV)/.program
	$(BIN)/triage toolchains install $(OLD) $(NEW) $(RUN_OLD) $(RUN_NEW) triton:$(TRITON_OLD) triton:$(TRITON_NEW)
	$(BIN)/triage nightly $(RECIPES) --toolchain $(NEW) --baseline $(OLD) --bisect --reduce --out $(OUT) || [ $$? -eq 1 ]
	$(BIN)/triage nightly $(TRITON_RECIPES) --toolchain triton:$(TRITON_NEW) --baseline triton:$(TRITON_OLD) --bisect --reduce --out $(OUT)/triton || [ $$? -eq 1 ]
	$(BIN)/triage nightly $(RUN_RECIPES) --toolchain $(RUN_NEW) --baseline $(RUN_OLD) --bench 10s --out $(OUT)/runs || [ $$? -eq 1 ]
	$(BIN)/triage site --out $(OUT)/site

# Write a small reproducer for each recipe in reproducers/orders.txt, with its status on every release.
reproducers: setup
	$(BIN)/triage toolchains install all
	$(BIN)/triage toolchains install $(TRITONS:%=triton:%)
	grep -v '^#' reproducers/orders.txt | while read -r recipe words; do \
	  $(BIN)/triage reduce recipes/$$recipe.yaml $$words --out reproducers </dev/null || exit; done

# Two releases of IREE and one of Triton are downloaded on first use. Tests wait half of their time for the processes that they start.
test: setup
	$(BIN)/python -m pytest -n $$(($$(getconf _NPROCESSORS_ONLN) * 2)) --dist worksteal -m "not slow and not browser and (core or not real)"

test-real: setup
	$(BIN)/python -m pytest -n auto --dist worksteal -rs -m "real and not core and not slow and not browser"

# An hour and more: all recipes on all releases, attacks, damaged inputs, the site in a browser.
test-all: test test-real test-browser
	$(BIN)/python -m pytest -m "slow and not browser"
	$(MAKE) torture KILLS=50
	$(MAKE) fuzz

# Only Debian's Chromium is used; no browser is downloaded.
test-browser: setup
	test -x /usr/bin/chromium || { apt-get update -qq && apt-get install -y -qq chromium; }
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group browser
	$(BIN)/python -m pytest -m browser

# Minutes for each hundred kills; the results are in docs/explanation/trust.md.
torture: setup
	$(BIN)/python -m tests.torture --kills $(KILLS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

# The two halves take about as long as each other. Tests of the documentation that use releases are part of `make test-real`.
check: setup
	$(BIN)/ruff format --check triage tests benchmarks docs
	$(BIN)/ruff check triage tests benchmarks recipes docs
	$(MAKE) --no-print-directory -j2 --output-sync=target check-code check-docs

check-code: setup
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m benchmarks.size

check-docs: setup
	$(MKDOCS) build --quiet
	$(BIN)/python -m pytest -q tests/docs -m "not real"

docs: setup
	$(MKDOCS) build

# ADDRESS=https://github.com/OWNER/NAME makes the links and pictures of the README absolute, for the page of a package index.
package: setup
	rm -rf dist
	mkdir -p dist/source
	git archive HEAD | tar -x -C dist/source
	test -z "$(ADDRESS)" || sed -i -E 's#(!\[[^]]*\]\()([^):]+\))#\1$(ADDRESS)/raw/$(REF)/\2#; s#(\]\()([^):]+\))#\1$(ADDRESS)/blob/$(REF)/\2#g' dist/source/README.md
	$(BIN)/python -m build --quiet --outdir dist dist/source
	rm -rf dist/source
	$(BIN)/twine check --strict dist/*

recordings: setup
	$(BIN)/python docs/build/record.py
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group browser
	$(BIN)/python docs/build/screenshots.py $(SITE)

# On small inputs; the modules in benchmarks/ take arguments for more.
bench: setup
	$(BIN)/python -m benchmarks

# Each figure next to its budget in benchmarks/budgets.toml; a figure above it is an error.
size: setup
	@$(BIN)/python -m benchmarks.size

fuzz: setup
	$(BIN)/python -m tests.fuzz.fuzzing --seconds $(or $(SECONDS),60)

clean:
	rm -rf $(VENV) $(OUT) site dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
