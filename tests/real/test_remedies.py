"""Remedies and variants on released compilers, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Triage
from tests.real.answers import json_answer

pytestmark = pytest.mark.real
RECIPES = ROOT / "recipes"
CUDA = RECIPES / "cuda-matmul-f32.yaml"
TILE = "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true"


def test_a_remedy_for_shared_memory_and_its_cost(
    shared_home: Path, triage: Triage
) -> None:
    report = json_answer(triage, "remedy", CUDA, "-t", "3.3.0", "--good", "3.0.0")
    [remedy] = [remedy for remedy in report["remedies"] if remedy["flags"] == [TILE]]
    assert (remedy["input_change"], remedy["breaks"]) == (None, [])
    assert {"3.3.0", "3.0.0"} <= {
        revision["name"] for revision in remedy["verified_on"]
    }
    assert remedy["cost"]["cpu_seconds"] > 0
    assert remedy["cost"]["dispatches"] == 1
    assert report["failure"]["class"] == "shared-memory-overflow"
    assert 0 < report["tried"] <= 100
