"""The large models of the benchmarks fail on one release, as described, and compile on the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.reduce.large_models import PATTERNS, model, recipe

pytestmark = pytest.mark.real


@pytest.mark.parametrize("name", ["undeclared-device", "segfault"])
def test_a_model_fails_on_one_release_and_compiles_on_the_other(
    name: str, tmp_path: Path, triage: Triage, shared_home: Path
) -> None:
    pattern = PATTERNS[name]
    (tmp_path / "model.mlir").write_text(model(name, 300))
    (tmp_path / "model.yaml").write_text(recipe(name, "model.mlir"))
    versions = [version for version in (pattern.bad, pattern.good) if version]
    done = triage("run", tmp_path / "model.yaml", *(word for version in versions for word in ("-t", version)), "-f", "json")
    results = {one["toolchain"]["name"]: one for one in json.loads(done.stdout)["results"]}
    assert results[pattern.bad]["failure"]["class"] == pattern.failure
    assert bool(results[pattern.bad]["failure"]["location"]) == pattern.located
    assert [results[version]["status"] for version in versions[1:]] == ["passed"] * len(versions[1:])
