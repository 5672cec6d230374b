"""Recipes that `triage recipe new` writes for kernels compile unchanged on a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT, Asked, Triage

pytestmark = pytest.mark.real


def test_generated_recipes_of_kernels_compile(
    triage: Triage, asked: Asked, tmp_path: Path
) -> None:
    for kernel in sorted((ROOT / "recipes" / "kernels").glob("*.py")):
        path = tmp_path / "new" / f"{kernel.stem.replace('_', '-')}.yaml"
        done = triage("recipe", "new", path, "--input", kernel)
        assert done.returncode == 0, done.stderr
    results = asked("run", tmp_path / "new", "-t", "triton:3.2.0")
    assert [row["status"] for row in results["results"]] == ["passed"] * 7
