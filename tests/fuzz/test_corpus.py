"""Inputs that failed once never fail again, and each target accepts its valid examples."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.fuzzing import CORPUS, failure_of, mutated, seeds_of
from tests.fuzz.targets import TARGETS


@pytest.mark.parametrize("name", TARGETS)
def test_neither_the_corpus_nor_some_mutations_fail(name: str) -> None:
    randomly, seeds = random.Random(name), seeds_of(name)
    inputs = TARGETS[name].seeds()[:3]
    inputs = [*inputs, *(path.read_bytes() for path in (CORPUS / name).glob("*"))]
    for data in (*inputs, *(mutated(seeds, randomly) for _ in range(10))):
        assert failure_of(name, data) is None, data


@pytest.mark.parametrize("name", ["projects", "rules", "logs", "mlir", "evidence"])
def test_the_examples_are_valid(name: str, tmp_path: Path) -> None:
    TARGETS[name].check(TARGETS[name].seeds()[0], tmp_path)
