from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bisect.letters import failure
from triage.bisect.prior import FLOOR, group_by_change, suspects_of
from triage.model.revision import Commit
from triage.toolchains.project import find_project

IREE = find_project("iree")
SUBJECTS = """
[Codegen] Fold barriers (#10)
Integrate LLVM at abc (#11)
Revert "[Codegen] Fold barriers" (#12)
Integrate LLVM at abc (#13)
Reland "[Codegen] Fold barriers (#10)" 2nd attempt (#14)
Revert "Reland "[Codegen] Fold barriers (#10)" 2nd attempt (#14)" (#15)
Revert "Something from before this range (#3)" (#16)
Part one
Merge pull request #20 from them/branch
Fold more (#20)
"""


def commit(subject: str, file: str) -> Commit:
    return Commit(subject, None, "2025-01-01", subject, (file,))


def test_the_file_of_the_failing_pass_is_most_suspicious() -> None:
    folder = "compiler/src/iree/compiler"
    collapse = f"{folder}/DispatchCreation/CollapseDimensions.cpp"
    config = f"{folder}/Codegen/LLVMGPU/KernelConfig.cpp"
    commits = [commit("Collapse dynamic dims", collapse), commit("Tune it", config)]
    named = replace(failure("F"), failing_pass="CollapseDimensionsPass")
    first, other = suspects_of(commits, [named], IREE)
    assert first.probability > 2 * other.probability
    assert "changes the pass that the failure names" in first.reasons


def test_reverts_and_relands_are_one_change_with_what_they_concern() -> None:
    assert group_by_change(SUBJECTS.strip().splitlines()) == [
        [0, 2, 4, 5],
        [1],
        [3],
        [6],
        [7],
        [8, 9],
    ]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6), st.text(max_size=60))
def test_any_history_gets_a_prior_with_its_floor(texts: list[str], clue: str) -> None:
    commits = [commit(text, text) for text in texts]
    failed = replace(failure("F"), headline=clue, failing_pass=clue)
    for project in (None, IREE, find_project("triton")):
        suspects = suspects_of(commits, [failed], project)
        prior = [suspect.probability for suspect in suspects]
        assert sum(prior) == pytest.approx(1)
        assert min(prior) >= FLOOR / len(commits) - 1e-12
