from __future__ import annotations

from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.bisect.prior import FLOOR, Clues, commit_prior
from triage.bisect.suspects import same_changes
from triage.model.revision import ChangedFile, Commit

CODEGEN = "compiler/src/iree/compiler/Codegen"
GPU = ChangedFile(f"{CODEGEN}/LLVMGPU/KernelConfig.cpp", 30, 8)
COMMON = ChangedFile(f"{CODEGEN}/Common/GPU/GPUPadOperands.cpp", 30, 8)
DOCS = ChangedFile("docs/website/docs/index.md", 10, 2)
TEST = ChangedFile(f"{CODEGEN}/LLVMGPU/test/config.mlir", 10, 9)

NOTHING = Clues()


def commit(subject: str, *files: ChangedFile) -> Commit:
    return Commit(blake2b(subject.encode(), digest_size=20).hexdigest(), None, "2025-01-01T00:00:00+00:00", subject, files)


def odds(subjects: list[Commit], clues: Clues = NOTHING, project: str | None = "iree") -> list[float]:
    """Each in relation to the first."""
    prior = commit_prior(subjects, clues, project)
    return [float(one / prior[0]) for one in prior]


def test_unlikely_culprits_are_demoted_and_never_excluded() -> None:
    plain, docs, tests, nfc = odds(
        [
            commit("Change it", GPU),
            commit("Say it", DOCS),
            commit("Check it", TEST),
            commit("Change it (NFC)", GPU),
        ],
        Clues("shared memory"),
    )
    assert plain == 1
    assert all(0 < one < 0.4 for one in (docs, tests, nfc))


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
    assert same_changes(subjects) == [[0, 2, 4, 5], [1], [3], [6], [7], [8, 9]]


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=6), st.text(max_size=60))
def test_any_history_gets_a_prior_with_its_floor(subjects: list[tuple[str, str]], text: str) -> None:
    commits = [commit(subject, ChangedFile(path, 3, 1)) for subject, path in subjects]
    for project in (None, "iree", "triton", "llvm", "no such project"):
        prior = commit_prior(commits, Clues(text, "rocm", text, (text,), noticed=True), project)
        assert prior.sum() == pytest.approx(1)
        assert (prior >= FLOOR / len(commits) - 1e-12).all()
