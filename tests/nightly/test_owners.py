"""Who looks after a failure: the rules of `triage.yaml`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Triage
from tests.nights.documents import FAILURES, case_result
from triage.attribute.result import Attribution, ComparisonResult
from triage.bisect.result import Answer, Bisection, BisectKind, Suspect
from triage.investigate.result import ClusterKey, FailureCluster
from triage.model.pass_name import PassName
from triage.model.revision import Revision
from triage.nightly.verdict import (
    Action,
    failure_to_do,
    owner_of,
    owner_rules,
    to_dos_of,
)
from triage.toolchains.sources.project import find_project

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
OLD, NEW = Revision("3.1.0"), Revision("3.2.0")


def cluster(backend: str = "cuda", *, vectorizes: bool = False) -> FailureCluster:
    found = replace(KEY, backend=backend).cluster(["a"], FAILURES["F"])
    if not vectorizes:
        return found
    status = ComparisonResult.FAILING
    failing = PassName("GenericVectorizePass")
    attribution = Attribution("a", OLD, NEW, status, failing=failing)
    return replace(found, attribution=attribution)


def culprit(file: str, answer: Answer = Answer.CULPRIT) -> Bisection:
    suspect = Suspect("abc", files=(file,))
    return Bisection("a", BisectKind.REGRESSION, answer, suspects=(suspect,))


@pytest.mark.parametrize(
    ("failure", "suite", "owner"),
    [
        (cluster(), "models", None),
        (cluster(), "onnx_ops", "@suites"),
        (cluster("rocm"), "onnx_ops", "@rocm"),
        (cluster("rocm", vectorizes=True), "onnx_ops", "@passes"),
        (
            replace(
                cluster("rocm", vectorizes=True),
                culprit=culprit("compiler/src/Codegen/GPU/Tile.cpp"),
            ),
            "onnx_ops",
            "@codegen",
        ),
        (
            replace(cluster("rocm"), culprit=culprit("llvm/a.cpp", Answer.SUSPECTS)),
            "models",
            "@rocm",
        ),
    ],
)
def test_what_is_known_most_exactly_names_the_owner(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: FailureCluster,
    suite: str,
    owner: str | None,
) -> None:
    (tmp_path / "triage.yaml").write_text(RULES)
    monkeypatch.chdir(tmp_path)
    rules = owner_rules("iree")
    assert owner_of(failure, {suite}, rules) == owner
    assert owner_rules("triton") == ()
    # a file with owners only leaves the sources as they are
    assert find_project("iree", tmp_path).sections()


@pytest.mark.parametrize(
    ("rule", "place"),
    [
        ("- {owner: '@a', backend: rocm}", ":4:19: "),
        ("- {owner: '@a'}", ":4:"),
        ("- {backends: rocm}", ":4:"),
        ("- {owner: '', backends: rocm}", ":4:13: "),
    ],
)
def test_a_bad_rule_is_reported_with_its_place(
    workplace: Path, triage: Triage, rule: str, place: str
) -> None:
    project = workplace / "triage.yaml"
    project.write_text(f"name: iree\ncompiler: iree\nowners:\n  {rule}\n")
    recipe = Path(__file__).parents[2] / "recipes" / "dynamic-matmul.yaml"
    done = triage("nightly", str(recipe), "--dry-run")
    assert done.returncode == 2
    assert f"triage.yaml{place}" in done.stderr


def test_each_failure_and_case_has_one_thing_to_do() -> None:
    known = case_result("known", "X", issue="o/r#7")
    cases = [
        case_result("a", "F"),
        case_result("b", "G"),
        known,
        replace(known, case="too"),
    ]
    first, second = KEY, replace(KEY, signature="segfault:x")
    clusters = [
        replace(first, backend="llvm-cpu").cluster(["a"]),
        replace(second, backend="llvm-cpu").cluster(["b"]),
    ]
    to_dos = to_dos_of(cases, clusters)
    # the issue of a known failure is also that of a new one with its signature
    assert [(each.action, each.issue) for each in to_dos] == [
        (Action.WAIT, "o/r#7"),
        (Action.INVESTIGATE, None),
    ]
    assert failure_to_do(clusters[1], issue="o/r#8").issue == "o/r#8"
