"""Candidates and their order follow from the failure, the recipe and the compiler's
options.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.remedy.flag_compiler import FlagEngine, a_case, a_place, failed
from triage.compilers.kernel import KernelSpec
from triage.model.case import Case
from triage.model.outcome import Failed
from triage.remedy.candidates import (
    RemedyRequest,
    Situation,
    known_remedies,
    own_options,
)


def situation(case: Case, failure: Failed | None = None) -> Situation:
    engine: Any = FlagEngine(lambda flags, name: failed())
    reason = (failure or failed()).failure
    return Situation(engine, RemedyRequest(case, a_place()), reason)


def own_texts(backend: str) -> list[str]:
    options = own_options(situation(a_case(backend=backend)))
    return [candidate.change.text for candidate in options]


def test_another_backend_s_flags_are_never_tried() -> None:
    known = known_remedies(situation(a_case(backend="llvm-cpu")))
    on_cpu = own_texts("llvm-cpu")
    tried = [*on_cpu, *(candidate.change.text for candidate in known)]
    assert not [text for text in tried if "llvmgpu" in text]
    assert "--iree-llvmcpu-disable-distribution=true" in on_cpu
    assert not [text for text in own_texts("rocm") if "llvmcpu" in text]


def test_switches_near_the_failure_come_first_with_both_values() -> None:
    tried = own_texts("rocm")
    assert not [text for text in tried if "dump" in text or "stream" in text]
    names = (
        "opt-level=O3",
        "opt-data-tiling=false",
        "codegen-llvmgpu-use-igemm=true",
        "codegen-new-thing=false",
        "dispatch-creation-fuse-multi-use=false",
    )
    order = [tried.index(f"--iree-{name}") for name in names]
    assert order == sorted(order)
    assert "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=false" not in tried


def test_kernel_options_are_input_changes() -> None:
    kernel = KernelSpec(None, {}, {}, {}, {"num_warps": 8, "num_stages": 3})
    case = replace(a_case(spec=kernel), compiler="triton")
    candidates = known_remedies(situation(case, failed("assertion")))
    tried = {one.change.input_change: one.case for one in candidates}
    assert "num_warps=4" in tried
    assert "num_warps=8" not in tried
    launched = tried["num_warps=4"].spec
    assert isinstance(launched, KernelSpec)
    assert launched.options == {"num_warps": 4, "num_stages": 3}
