"""Inputs that failed once never fail again, and each target accepts its valid examples."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz.fuzzing import failure_of, mutated
from tests.fuzz.targets import TARGETS, examples_of, files_of


@pytest.mark.parametrize("name", TARGETS)
def test_neither_the_corpus_nor_some_mutations_fail(name: str) -> None:
    randomly, corpus, examples = (
        random.Random(name),
        files_of(name, "corpus"),
        examples_of(name),
    )
    mutations = [mutated(examples + corpus, randomly) for _ in range(10)]
    for data in (*examples[:3], *corpus, *mutations):
        assert failure_of(name, data) is None, data


@pytest.mark.parametrize("name", TARGETS)
def test_the_examples_are_valid(name: str, tmp_path: Path) -> None:
    assert TARGETS[name](examples_of(name)[0], tmp_path)
