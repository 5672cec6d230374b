from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bisect.letters import failure
from triage.bisect.prior import FLOOR, group_by_change, suspicions
from triage.model.revision import Commit
from triage.toolchains.project import find_project

CODEGEN = "compiler/src/iree/compiler/Codegen"
GPU = f"{CODEGEN}/LLVMGPU/KernelConfig.cpp"

IREE = find_project("iree")
PROJECTS = (None, IREE, find_project("triton"))


def commit(subject: str, *files: str) -> Commit:
    return Commit(
        blake2b(subject.encode(), digest_size=20).hexdigest(),
        None,
        "2025-01-01T00:00:00+00:00",
        subject,
        files,
    )


def test_the_file_of_the_failing_pass_is_most_suspicious() -> None:
    collapse = "compiler/src/iree/compiler/DispatchCreation/CollapseDimensions.cpp"
    commits = [commit("Collapse dynamic dims", collapse), commit("Tune it", GPU)]
    named = replace(failure("F"), failing_pass="CollapseDimensionsPass")
    first, other = suspicions(commits, [named], IREE)
    assert first.chance > 2 * other.chance
    assert "changes the pass that the failure names" in first.reasons


def test_reverts_and_relands_are_one_change_with_what_they_concern() -> None:
    subjects = [
        "[Codegen] Fold barriers (#10)",
        "Integrate LLVM at abc (#11)",
        'Revert "[Codegen] Fold barriers" (#12)',
        "Integrate LLVM at abc (#13)",
        'Reland "[Codegen] Fold barriers (#10)" 2nd attempt (#14)',
        'Revert "Reland "[Codegen] Fold barriers (#10)" 2nd attempt (#14)" (#15)',
        'Revert "Something from before this range (#3)" (#16)',
        "Part one",
        "Merge pull request #20 from them/branch",
        "Fold more (#20)",
    ]
    assert group_by_change(subjects) == [[0, 2, 4, 5], [1], [3], [6], [7], [8, 9]]


@given(st.lists(st.text(max_size=30), min_size=1, max_size=6), st.text(max_size=60))
def test_any_history_gets_a_prior_with_its_floor(texts: list[str], clue: str) -> None:
    commits = [commit(text, text) for text in texts]
    failed = replace(failure("F"), headline=clue, failing_pass=clue)
    for project in PROJECTS:
        prior = [one.chance for one in suspicions(commits, [failed], project)]
        assert sum(prior) == pytest.approx(1)
        assert min(prior) >= FLOOR / len(commits) - 1e-12
