# Everything runs from a virtual environment of its own; the two commands a newcomer needs are `make triage` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
OUT    ?= out
NEW    ?= 3.3.0
OLD    ?= 3.2.0
TRITON_NEW ?= 3.2.0
TRITON_OLD ?= 3.1.0
TRITONS ?= 2.1.0 2.2.0 2.3.0 2.3.1 3.0.0 3.1.0 3.2.0 3.3.0 3.3.1 3.4.0 3.5.0 3.5.1 3.6.0 3.7.0 3.7.1 3.8.0 3.9.0

.PHONY: help setup triage reproducers test test-slow check bench bench-reduce bench-remedies bench-attribution bench-culprits bench-commits clean

help:
	@echo "make triage     nightly over recipes/ with $(NEW) against $(OLD), each regression bisected and reduced, reports in $(OUT)/"
	@echo "                and over its kernels with Triton $(TRITON_NEW) against $(TRITON_OLD), likewise, reports in $(OUT)/triton/"
	@echo "make reproducers  reduce what reproducers/orders.txt names, on all releases"
	@echo "make test       the tests (installs released compilers on first use)"
	@echo "make test-slow  the tests that take minutes: all recipes on all releases"
	@echo "make check      ruff, mypy --strict, import-linter, README against --help"
	@echo "make bench      overhead, classification speed and a small commit bisect beside other tools"
	@echo "make bench-reduce WORDS=...  triage reduce beside C-Vise, Shrink Ray and picire; hours, less with WORDS='--lines 1000 --time-limit 60'"
	@echo "make bench-remedies  lint on faults planted in programs of its own, and remedies for failures that a flag is known to mend"
	@echo "make bench-attribution  triage attribute on pairs of releases drawn by chance, the right pass found by feeding one compiler what the other made"
	@echo "make bench-culprits CASES=... COMMITS=...  the commit search beside git bisect and git-bayesect"
	@echo "make bench-commits REPO=...  a commit bisect on a clone of IREE beside git bisect run"
	@echo "make clean      remove $(VENV), $(OUT) and caches; toolchains stay (triage toolchains prune)"

setup: $(VENV)/.ready

$(VENV)/.ready: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable . --group dev
	@touch $@

# Exit 1 says that regressions were found: for these pairs of releases that is the right answer.
triage: setup
	$(BIN)/triage nightly recipes/ --toolchain $(NEW) --baseline $(OLD) --bisect --reduce --out $(OUT) || [ $$? -eq 1 ]
	$(BIN)/triage nightly recipes/ --toolchain triton:$(TRITON_NEW) --baseline triton:$(TRITON_OLD) --bisect --reduce --out $(OUT)/triton || [ $$? -eq 1 ]

# Small programs that fail as the recipes named in reproducers/orders.txt do, with what every release makes of them.
reproducers: setup
	$(BIN)/triage toolchains install all
	$(BIN)/triage toolchains install --family triton $(TRITONS)
	grep -v '^#' reproducers/orders.txt | while read -r recipe words; do \
	  $(BIN)/triage reduce recipes/$$recipe.yaml $$words --out reproducers </dev/null || exit; done

test: setup
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: setup
	$(BIN)/python -m pytest -m slow

check: setup
	$(BIN)/ruff format --check triage tests benchmarks
	$(BIN)/ruff check triage tests benchmarks recipes
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest tests/docs

bench: setup
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/classify_speed.py
	$(BIN)/python -m benchmarks.small_bisect

# Large models with one failing part each. WORDS are options of benchmarks/reduce.py.
bench-reduce: setup
	$(BIN)/python -m benchmarks.reduce --large $(WORDS)

# Programs that neither the rules nor the recipes were written with; what stands in docs/linting.md and docs/remedies.md.
bench-remedies: setup
	$(BIN)/python -m benchmarks.held_out_lint
	$(BIN)/python -m benchmarks.held_out_remedies

# What stands in docs/attribution.md: pairs of releases drawn by chance, judged by feeding one compiler what the other made.
bench-attribution: setup
	$(BIN)/python -m benchmarks.held_out_attribution

# Real regressions with known culprits, which do not come with the project: CASES and COMMITS name the two files.
bench-culprits: setup
	$(BIN)/python benchmarks/culprit_search.py $(CASES) $(COMMITS)

# A commit bisect on a clone of iree-org/iree, which REPO names, beside git bisect run.
bench-commits: setup
	$(BIN)/python benchmarks/commit_bisect.py --repo $(REPO)

clean:
	rm -rf $(VENV) $(OUT) .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
