# Everything runs from a virtual environment of its own. A newcomer needs two commands: `make triage` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
MKDOCS := NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true $(BIN)/mkdocs
OUT    ?= out
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
TRITONS ?= 2.1.0 2.2.0 2.3.0 2.3.1 3.0.0 3.1.0 3.2.0 3.3.0 3.3.1 3.4.0 3.5.0 3.5.1 3.6.0 3.7.0 3.7.1 3.8.0 3.9.0

.PHONY: help setup triage reproducers test test-offline test-slow check docs package recordings \
  fuzz torture bench bench-classify bench-reduce bench-remedies bench-attribution bench-culprits bench-changes bench-commits bench-histories \
  bench-pace bench-site bench-cluster test-browser clean

help:
	@echo "make triage         compare IREE $(NEW) with $(OLD) on a few recipes, bisect and reduce regressions; reports in $(OUT)/"
	@echo "                    Triton $(TRITON_NEW) with $(TRITON_OLD); reports in $(OUT)/triton/"
	@echo "                    and results and run times of IREE $(RUN_NEW) with $(RUN_OLD); reports in $(OUT)/runs/, all in $(OUT)/site/"
	@echo "make test           run the tests; the first run downloads released compilers and says how many"
	@echo "make test-offline   run the tests that need no download"
	@echo "make test-browser   run the tests of the site in Chromium; installs Debian's when it is missing"
	@echo "make test-slow      run the tests that take minutes: all recipes on all releases"
	@echo "make torture        kill -9 (KILLS=200) and other attacks on real processes (SECONDS=... bounds it, SEED=... repeats it)"
	@echo "make check          run ruff, mypy --strict, import-linter, the documentation build and the documentation tests"
	@echo "make docs           build the documentation into site/"
	@echo "make package        build the sdist and the wheel into dist/ and check them"
	@echo "make recordings     record the terminal sessions in docs/assets/ again"
	@echo "make reproducers    reduce the cases in reproducers/orders.txt on all releases"
	@echo "make bench          measure overhead, classification speed and a small commit bisect, beside other tools"
	@echo "make bench-classify                     classes and signatures of failures from public threads, and false alarms (seconds)"
	@echo "make bench-reduce SUITE=DIR CONFIG=FILE reduce a hundred failing programs of iree-test-suites' onnx_ops"
	@echo "make bench-reduce WORDS=...             triage reduce beside C-Vise, Shrink Ray and picire (hours; WORDS='--lines 1000' for less)"
	@echo "make bench-remedies                     lint on planted faults, remedies for failures with a known flag"
	@echo "make bench-attribution                  triage attribute on random pairs of releases, checked independently"
	@echo "make bench-culprits CASES=... COMMITS=...  the commit search beside git bisect and git-bayesect"
	@echo "make bench-changes REPO=...             known changes of IREE: does their IR lead to the commit, and what does finding it cost?"
	@echo "make bench-commits REPO=...             a commit bisect on a clone of IREE beside git bisect run"
	@echo "make bench-histories                    20,000 simulated histories: wrong answers that are called confirmed"
	@echo "make bench-suite SUITE=DIR CONFIG=FILE  iree-test-suites' onnx_ops with its own harness, triage and the native binaries"
	@echo "make bench-pace                         equal compilers over 200 programs: false verdicts on run time (about an hour)"
	@echo "make bench-site                         the site of 10,000 cases and 365 nights: time and size (minutes)"
	@echo "make bench-cluster                      simulated clusters, a million cached results, overhead of Dask workers (minutes)"
	@echo "make fuzz SECONDS=60                    feed damaged inputs to every parser; what fails is saved in tests/fuzz/corpus/"
	@echo "make clean          remove $(VENV), $(OUT), site, dist and caches; toolchains stay (triage toolchains prune)"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable . --group dev
	@touch $@

# Exit code 1 means that regressions were found, which is the right answer for these pairs of releases.
triage: setup
	$(BIN)/triage nightly $(RECIPES) --toolchain $(NEW) --baseline $(OLD) --bisect --reduce --out $(OUT) || [ $$? -eq 1 ]
	$(BIN)/triage nightly $(TRITON_RECIPES) --toolchain triton:$(TRITON_NEW) --baseline triton:$(TRITON_OLD) --bisect --reduce --out $(OUT)/triton || [ $$? -eq 1 ]
	$(BIN)/triage nightly $(RUN_RECIPES) --toolchain $(RUN_NEW) --baseline $(RUN_OLD) --bench --bench-time 10s --out $(OUT)/runs || [ $$? -eq 1 ]
	$(BIN)/triage site --out $(OUT)/site

# Write a small reproducer for each recipe in reproducers/orders.txt, with its status on every release.
reproducers: setup
	$(BIN)/triage toolchains install all
	$(BIN)/triage toolchains install --family triton $(TRITONS)
	grep -v '^#' reproducers/orders.txt | while read -r recipe words; do \
	  $(BIN)/triage reduce recipes/$$recipe.yaml $$words --out reproducers </dev/null || exit; done

test: setup
	@$(BIN)/python -m tests.needed_toolchains
	$(BIN)/python -m pytest -n auto -m "not slow and not browser"

test-offline: setup
	$(BIN)/python -m pytest -n auto -m "not slow and not real and not browser"

# Only Debian's Chromium is used; no browser is downloaded.
test-browser: setup
	test -x /usr/bin/chromium || { apt-get update -qq && apt-get install -y -qq chromium; }
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group browser
	$(BIN)/python -m pytest -m browser tests/nights tests/lint

test-slow: setup
	$(BIN)/python -m pytest -m slow

# Minutes for each hundred kills; the results are in docs/explanation/trust.md.
torture: setup
	$(BIN)/python -m tests.torture --kills $(KILLS) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED))

check: setup
	$(BIN)/ruff format --check triage tests benchmarks docs
	$(BIN)/ruff check triage tests benchmarks recipes docs
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(MKDOCS) build --quiet
	$(BIN)/python -m pytest tests/docs

docs: setup
	$(MKDOCS) build

package: setup
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/twine check --strict dist/*

recordings: setup
	$(BIN)/python docs/build/record.py
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group browser
	$(BIN)/python docs/build/screenshots.py

bench: setup
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python -m benchmarks.classify_speed
	$(BIN)/python -m benchmarks.small_bisect

# Failures of public threads in texts of our own; the held-out half was not used to write rules. Results are in docs/research.md.
bench-classify: setup
	$(BIN)/python -m benchmarks.classify_corpus --held-out

# A hundred failing programs of a suite that SUITE and CONFIG name; without them, large models with one failing part each.
# WORDS are options of benchmarks.reduce_suite or benchmarks.reduce.
bench-reduce: setup
ifdef SUITE
	$(BIN)/python -m benchmarks.reduce_suite $(SUITE) $(if $(CONFIG),--suite-config $(CONFIG)) $(WORDS)
else
	$(BIN)/python -m benchmarks.reduce --large $(WORDS)
endif

# Programs that the rules and recipes were not written with; results are in docs/research.md.
bench-remedies: setup
	$(BIN)/python -m benchmarks.held_out_lint
	$(BIN)/python -m benchmarks.held_out_remedies

# Random pairs of releases, checked by compiling the output of one compiler with the other; results are in docs/explanation/attribution.md.
bench-attribution: setup
	$(BIN)/python -m benchmarks.held_out_attribution

# Real regressions with known culprits, which are not part of the project: CASES and COMMITS name the two files.
bench-culprits: setup
	$(BIN)/python benchmarks/culprit_search.py $(CASES) $(COMMITS)

# REPO names a clone of iree-org/iree; results are in docs/research.md.
bench-changes: setup
	$(BIN)/python benchmarks/known_changes.py --repo $(REPO)
	$(BIN)/python benchmarks/real_history.py --repo $(REPO)

# REPO names a clone of iree-org/iree.
bench-commits: setup
	$(BIN)/python benchmarks/commit_bisect.py --repo $(REPO)

# About 10 minutes on two cores. Exit code 1 means that a cell has too many wrong answers.
bench-histories: setup
	$(BIN)/python -m benchmarks.histories

# Bounded by a time for each case; WORDS='--cases 20 --time 10' for less. Exit code 1 means that a verdict is false.
bench-pace: setup
	$(BIN)/python -m benchmarks.pace $(WORDS)

# Exit code 1 means that a limit is exceeded. WORDS='--cases 1000 --nights 100' for less. Figures are in docs/research.md.
bench-site: setup
	$(BIN)/python -m benchmarks.site $(WORDS)

# Exit code 1 means that a simulated cluster of 1,000 workers is not busy enough. Figures are in docs/scaling.md.
bench-cluster: setup
	$(BIN)/python -m benchmarks.cluster simulate $(WORDS)
	$(BIN)/python -m benchmarks.cluster rows
	$(BIN)/triage toolchains install latest
	$(BIN)/python -m benchmarks.cluster overhead

# Both cores for a quarter of an hour with all 1,156 tests. WORDS are options of benchmarks.suite; results are in docs/research.md.
bench-suite: setup
	$(BIN)/python -m benchmarks.suite $(SUITE) --suite-config $(CONFIG) $(WORDS)

fuzz: setup
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60)

clean:
	rm -rf $(VENV) $(OUT) site dist .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
