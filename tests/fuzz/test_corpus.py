"""Inputs that failed once never fail again, and each target accepts its valid examples."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.harness import CORPUS, failure_of
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import TARGETS, seeds_of


@pytest.mark.parametrize("name", TARGETS)
def test_nothing_of_the_corpus_fails(name: str) -> None:
    for path in sorted((CORPUS / name).glob("*")):
        assert failure_of(name, path.read_bytes()) is None, path


@pytest.mark.parametrize("name", TARGETS)
def test_some_mutations_fail_nowhere(name: str) -> None:
    randomly = random.Random(name)
    for data in (
        *TARGETS[name].seeds()[:3],
        *(mutated(seeds_of(name), randomly) for _ in range(10)),
    ):
        assert failure_of(name, data) is None


@pytest.mark.parametrize("name", ["projects", "rules", "logs", "mlir", "evidence"])
def test_the_examples_are_valid(name: str, tmp_path: Path) -> None:
    TARGETS[name].check(TARGETS[name].seeds()[0], tmp_path)
