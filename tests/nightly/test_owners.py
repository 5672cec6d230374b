"""Who looks after each failure of a night, by the rules of `triage.yaml`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, Triage
from tests.nights.documents import FAILURES
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.investigate.result import ClusterKey, FailureCluster
from triage.model.execution import PassName
from triage.model.revision import Revision
from triage.nightly.compare import (
    owner_of,
    owner_rules,
)

RULES = """\
name: iree
compiler: iree
owners:
  - {owner: "@suites", suites: onnx*}
  - {owner: "@rocm", backends: rocm}
  - {owner: "@passes", passes: "*Vectorize*"}
  - {owner: "@old", files: [compiler/src/Codegen]}
  - {owner: "@codegen", files: [compiler/src/Codegen, llvm]}
"""
KEY = ClusterKey("iree", "cuda", "legalize:x")


def cluster(backend: str = "cuda", *, file: str = "", **values: Any) -> FailureCluster:
    """file: one that the culprit changes."""
    known = replace(KEY, backend=backend).cluster(["a"], FAILURES["F"])
    return replace(known, culprit=culprit(file) if file else None, **values)


def culprit(file: str, answer: Answer = Answer.CULPRIT) -> Bisection:
    suspect = Suspect("abc", files=(file,))
    return Bisection("a", BisectKind.REGRESSION, answer, suspects=(suspect,))


VECTORIZES = Attribution(
    "a",
    Revision("3.1.0"),
    Revision("3.2.0"),
    ComparisonResult.FAILING,
    failing=PassName("GenericVectorizePass"),
)
TILE = "compiler/src/Codegen/GPU/Tile.cpp"
SUSPECTED = culprit("llvm/a.cpp", Answer.SUSPECTS)


@pytest.mark.parametrize(
    ("failure", "suite", "owner"),
    [
        (cluster(), "models", None),
        (cluster(), "onnx_ops", "@suites"),
        (cluster("rocm"), "onnx_ops", "@rocm"),
        (cluster("rocm", attribution=VECTORIZES), "onnx_ops", "@passes"),
        (cluster("rocm", attribution=VECTORIZES, file=TILE), "onnx_ops", "@codegen"),
        (replace(cluster("rocm"), culprit=SUSPECTED), "models", "@rocm"),
    ],
)
def test_the_last_rule_that_fits_names_the_owner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: FailureCluster,
    suite: str,
    owner: str | None,
) -> None:
    (tmp_path / "triage.yaml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    assert owner_of(failure, {suite}, owner_rules("iree")) == owner
    assert owner_rules("triton") == ()


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("- {owner: '@a', backend: rocm}", ":4:19: "),
        ("- {backends: rocm}", ":4:"),
        ("- {owner: '', backends: rocm}", ":4:13: "),
    ],
)
def test_a_bad_rule_is_reported_with_its_place(
    workplace: Path, triage: Triage, rule: str, place: str
) -> None:
    text = f"name: iree\ncompiler: iree\nowners:\n  {rule}\n"
    (workplace / "triage.yaml").write_text(text)
    done = triage("nightly", ROOT / "recipes" / "dynamic-matmul.yaml", "--dry-run")
    assert done.returncode == 2
    assert f"triage.yaml{place}" in done.stderr
