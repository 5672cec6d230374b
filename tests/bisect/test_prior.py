from __future__ import annotations

import math
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.bisect.prior import DOUBT, FLOOR, Clues, commit_prior, explain, same_changes
from triage.bisect.project_tables import letters, same_name, topics
from triage.model.revision import ChangedFile, Commit

CODEGEN = "compiler/src/iree/compiler/Codegen"
GPU = ChangedFile(f"{CODEGEN}/LLVMGPU/KernelConfig.cpp", 30, 8)
CPU = ChangedFile(f"{CODEGEN}/LLVMCPU/KernelDispatch.cpp", 30, 8)
COMMON = ChangedFile(f"{CODEGEN}/Common/GPU/GPUPadOperands.cpp", 30, 8)
HAL = ChangedFile("compiler/src/iree/compiler/Dialect/HAL/IR/HALOps.cpp", 10, 2)
RUNTIME = ChangedFile("runtime/src/iree/hal/drivers/hip/hip_device.c", 10, 2)
DOCS = ChangedFile("docs/website/docs/index.md", 10, 2)
TEST = ChangedFile(f"{CODEGEN}/LLVMGPU/test/config.mlir", 10, 9)
LLVM = ChangedFile("third_party/llvm-project", 1, 1)

NOTHING = Clues()


def commit(subject: str, *files: ChangedFile) -> Commit:
    return Commit(blake2b(subject.encode(), digest_size=20).hexdigest(), None, "2025-01-01T00:00:00+00:00", subject, files)


def odds(subjects: list[Commit], clues: Clues = NOTHING, project: str | None = "iree") -> list[float]:
    """Each beside the first."""
    prior = commit_prior(subjects, clues, project)
    return [float(one / prior[0]) for one in prior]


def named(commits: list[Commit], clues: Clues, index: int, project: str | None = "iree") -> set[str]:
    return {reason.feature for reason in explain(commits, clues, project)[index]}


def test_unlikely_culprits_are_demoted_and_never_excluded() -> None:
    plain, docs, tests, runtime, nfc = odds(
        [
            commit("Change it", GPU),
            commit("Say it", DOCS),
            commit("Check it", TEST),
            commit("Run it", RUNTIME),
            commit("Change it (NFC)", GPU),
        ],
        Clues("shared-memory-overflow", "rocm"),
    )
    assert plain == 1
    assert all(0 < one < 0.4 for one in (docs, tests, runtime, nfc))


def test_the_failing_backend_counts() -> None:
    commits = [commit("Change it", GPU), commit("Change that", CPU), commit("[CPU] Change both", GPU, CPU)]
    gpu, cpu = odds(commits, Clues(backend="rocm")), odds(commits, Clues(backend="llvm-cpu"))
    assert gpu[1] < 0.5 < 2 < cpu[1]
    assert named(commits, Clues(backend="rocm"), 1) >= {"other-backend"}
    assert named(commits, Clues(backend="rocm"), 0) >= {"own-backend"}
    assert "other-named" in named(commits, Clues(backend="rocm"), 2)
    assert not {"own-backend", "other-backend", "other-named"} & named(commits, Clues(), 1)


def test_words_shared_with_the_diagnostics_count_by_their_rarity() -> None:
    commits = [commit(f"Change matter {n}", GPU) for n in range(20)]
    commits[7] = commit("Use IGEMM for grouped things", GPU)
    relative = odds(commits, Clues(text="error: function main$async_dispatch_3_conv_2d uses 81920 bytes"))
    assert relative[7] > 2 * relative[8]


def test_a_pass_that_the_evidence_names_is_found_by_its_file() -> None:
    commits = [commit("Change it", GPU), commit("Change that", COMMON)]
    for clues in (
        Clues(failing_pass="GPUPadOperandsPass"),
        Clues(failing_pass="iree-codegen-gpu-pad-operands"),
        Clues(passes=("GPUPadOperands",)),
        Clues(files=(COMMON.path,)),
    ):
        assert odds(commits, clues)[1] > 1.5 * odds(commits)[1]
        assert explain(commits, clues)[1][0].feature == "named-pass"


def test_wrong_evidence_of_a_place_leaves_most_of_the_probability() -> None:
    commits = [commit(f"Change {number}", GPU) for number in range(50)]
    commits[7] = commit("Change that", COMMON)
    wrong = Clues(files=(COMMON.path,), passes=("GPUPadOperands",), pipeline=frozenset({commits[7].sha}))
    before, after = commit_prior(commits, NOTHING), commit_prior(commits, wrong)
    assert after[7] > 5 * before[7]
    assert min(after / before) > DOUBT


def test_the_phase_that_fails_counts() -> None:
    commits = [commit("Change it", GPU), commit("Change that", HAL)]
    assert odds(commits, Clues(phase="vm"))[1] == pytest.approx(odds(commits)[1])
    fusion = commit("Change fusion", ChangedFile("compiler/src/iree/compiler/DispatchCreation/Fuse.cpp", 5, 5))
    assert odds([*commits, fusion], Clues(phase="flow"))[2] > 1.5 * odds([*commits, fusion])[2]


def test_integrates_reapplies_and_what_was_reverted() -> None:
    commits = [
        commit("Integrate llvm-project@681b2413 (#10)", LLVM, GPU),
        commit('Reapply "Fuse it all" (#300)', GPU),
        commit("Distribute loops of everything (#301)", GPU),
        commit('Revert "Distribute loops of everything" (#302)', GPU),
        commit("Bump torch-mlir (#303)", ChangedFile("third_party/torch-mlir", 1, 1)),
    ]
    reasons = [{reason.feature for reason in one} for one in explain(commits, Clues())]
    assert "integrate" in reasons[0]
    assert "reapply" in reasons[1]
    assert "reverted-later" in reasons[2]
    assert "revert" in reasons[3]
    assert "reverted-later" not in reasons[1] | reasons[3]
    assert "other-dependency" in reasons[4]


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
        prior = commit_prior(commits, Clues("legalization", "cuda", text=text, failing_pass=text, noticed=True), project)
        assert prior.sum() == pytest.approx(1)
        assert (prior >= FLOOR / len(commits) - 1e-12).all()


def test_reasons_add_up_to_the_prior() -> None:
    commits = [commit("Enable fusion by default", GPU, TEST), commit("Fix a test (NFC)", TEST), commit("Change it", HAL)]
    clues = Clues("shared-memory-overflow", "rocm", text="fusion of matmul")
    prior = commit_prior(commits, clues)
    pure = (prior - FLOOR / 3) / (1 - FLOOR)
    bits = [sum(reason.bits for reason in one) for one in explain(commits, clues)]
    assert [math.log2(one / pure[0]) for one in pure] == pytest.approx([one - bits[0] for one in bits], abs=0.1)
    assert all(reason.text and reason.bits for one in explain(commits, clues) for reason in one)


def test_names_meet_whatever_their_spelling() -> None:
    assert letters("GPUPadOperandsPass") == letters("a/b/gpu_pad_operands.mlir") == letters("gpu-pad-operands")
    assert same_name(letters("iree-codegen-gpu-pad-operands"), letters("GPUPadOperands.cpp"))
    assert not same_name(letters("CSEPass"), letters("LICM.cpp"))
    assert topics("TileDispatchUsingForall", {}) == topics("tile_dispatch_using_forall", {})
    assert topics("failed to distribute", {}) & topics("Rework the distribution", {})


def test_what_all_commits_have_is_no_reason() -> None:
    others = [commit(f"Change {index}", GPU) for index in range(9)]
    commits = [*others, commit("Enable the new pass by default", GPU)]
    reasons = explain(commits, Clues(backend="rocm"))
    assert all(not found for found in reasons[:9])
    assert reasons[9]
    assert len(commit_prior(commits, Clues(backend="rocm"))) == 10
