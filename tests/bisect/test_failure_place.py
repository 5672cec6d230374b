"""Commits that a failure itself leads to: the stack of a crash, passes of dependencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.git_history.history import ENV, History
from triage.attribute.excerpt import function_files
from triage.bisect.prior import Clues, Suspect, rank
from triage.git_history import Repository, Timeline
from triage.model.outcome import Failure

ROOT = "compiler/src/iree/compiler"
HAL = f"{ROOT}/Dialect/HAL/Transforms/Verify.cpp"
SORT = f"{ROOT}/Dialect/LinalgExt/IR/Sort.cpp"
TILE = f"{ROOT}/Codegen/Common/Tile.cpp"
LLVM = "third_party/llvm-project"
SOURCES: dict[str, str | bytes] = {
    HAL: "namespace {\nstatic LogicalResult verifyDevices(Operation *op) {\n}\n}\nverifyDevices(op);\n",
    SORT: "LogicalResult SortOp::verify() {\n}\n",
    TILE: "struct TilePass final : impl::TilePassBase<TilePass> {\n  void runOnOperation() override;\n};\n",
}


@pytest.fixture
def history(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> History:
    for name, value in ENV.items():
        monkeypatch.setenv(name, value)
    history = History.begin(tmp_path / "repo")
    history.commit("Begin", SOURCES)
    for path in (HAL, SORT, TILE):
        history.commit(f"Change {Path(path).stem.lower()}", {path: f"{SOURCES[path]!s}// changed\n"})
    for path in (LLVM, "third_party/torch-mlir"):
        history.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")
        history.git("commit", "--quiet", "-m", f"Move {path}")
    return history


def suspects(history: History, failure: Failure, **clues: Any) -> dict[str, Suspect]:
    """By the first file that their commit changes."""
    timeline = Timeline(history.path)
    span = timeline.between(timeline.commits[0].sha, timeline.head)
    known = Clues.of(failure)
    ranked = rank(timeline, span, Clues(known.failure_class, **clues) if clues else known, "iree")
    return {suspect.commit.files[0].path: suspect for suspect in ranked}


def features_of(suspect: Suspect) -> set[str]:
    return {reason.feature for reason in suspect.reasons}


def failure(failure_class: str, **details: str) -> Failure:
    return Failure(failure_class, failure_class, failure_class, "it fails", details=details)


@pytest.mark.parametrize(
    ("frames", "path"),
    [
        ("verifyDevices < Unknown::run", HAL),
        ("HAL::verifyDevices", HAL),
        ("SortOp::verify", SORT),
        ("foldSomething < (anonymous namespace)::TilePass::runOnOperation", TILE),
    ],
)
def test_a_stack_points_at_the_files_that_define_its_functions(history: History, frames: str, path: str) -> None:
    ranked = suspects(history, failure("assertion", frames=frames))
    assert [file for file, suspect in ranked.items() if "named-pass" in features_of(suspect)] == [path]
    assert next(iter(ranked)) == path


def test_a_function_that_many_files_define_names_none(history: History) -> None:
    head = history.commit("Add", {f"lib/part{number}.cpp": "void build(int size) {\n}\n" for number in range(9)})
    repository = Repository(history.path)
    assert function_files("build", repository, head) == ()
    assert function_files("", repository, head) == ()
    assert function_files("SortOp::verify", repository, head) == (SORT,)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ConvertTorchOnnxToTorch", "third_party/torch-mlir"),
        ("SCFToControlFlowPass", LLVM),
        ("Canonicalizer", None),
        ("TilePass", None),
        ("iree-codegen-tile", None),
    ],
)
def test_a_pass_without_a_file_points_at_updates_of_its_dependency(history: History, name: str, path: str | None) -> None:
    ranked = suspects(history, failure("unknown"), passes=(name,))
    named = {
        file: reason.text for file, suspect in ranked.items() for reason in suspect.reasons if reason.feature == "submodule"
    }
    assert list(named) == ([path] if path else [])
    assert all(path in text for text in named.values() if path)


def test_a_pass_that_a_commit_adds_to_a_pipeline_points_at_no_dependency(history: History) -> None:
    ranked = suspects(history, failure("unknown"), passes=("SCFToControlFlowPass",), pipeline=frozenset({"1" * 40}))
    assert "submodule" not in features_of(ranked[LLVM])


def test_commits_that_share_words_with_one_sided_passes_are_suspicious(history: History) -> None:
    ranked = suspects(history, failure("unknown"), one_sided=("LowerSortOpsPass",))
    assert [file for file, suspect in ranked.items() if "pass-words" in features_of(suspect)] == [SORT]
