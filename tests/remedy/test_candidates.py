"""Candidates and their order follow from the failure, the recipe and the compiler's
options.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.remedy.flag_compiler import FLAGS, a_case, a_toolchain, failed
from triage.compilers.base import KernelSpec
from triage.compilers.registry import family_of
from triage.mlir import Module, parse_module, print_module
from triage.model.case import Case
from triage.model.outcome import Failure
from triage.remedy.candidates import CaseChange, Situation, first_tier, second_tier
from triage.remedy.rewrites import add_barriers

IGEMM = "--iree-codegen-llvmgpu-use-igemm=false"


def situation(case: Case, *failures: Failure, **more: object) -> Situation:
    hints = family_of(case).remedies
    return Situation(
        case, failures or (failed().failure,), a_toolchain(), hints, **more
    )  # type: ignore[arg-type]


def texts(changes: tuple[CaseChange, ...]) -> list[str]:
    return [change.text for change in changes]


def test_known_remedies_come_first_if_the_version_has_them() -> None:
    tried = texts(first_tier(situation(a_case())))
    assert tried[:2] == [
        IGEMM,
        "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=true",
    ]
    assert {text.lstrip("-").partition("=")[0] for text in tried} <= FLAGS
    assert len(tried) == len(set(tried))


def test_another_backend_s_flags_are_never_tried() -> None:
    on_cpu = situation(a_case(backend="llvm-cpu"))
    assert not [
        text
        for text in texts((*first_tier(on_cpu), *second_tier(on_cpu)))
        if "llvmgpu" in text
    ]
    assert "--iree-llvmcpu-disable-distribution=true" in texts(second_tier(on_cpu))
    assert not [
        text for text in texts(second_tier(situation(a_case()))) if "llvmcpu" in text
    ]


def test_switches_near_the_failure_come_first_with_both_values() -> None:
    tried = texts(second_tier(situation(a_case())))
    assert not [text for text in tried if "dump" in text or "stream" in text]
    names = (
        "opt-level=O3",
        "opt-data-tiling=false",
        "codegen-llvmgpu-use-igemm=true",
        "codegen-new-thing=false",
    )
    order = [
        tried.index(f"--iree-{name}")
        for name in (*names, "dispatch-creation-fuse-multi-use=false")
    ]
    assert order == sorted(order)
    assert "--iree-codegen-llvmgpu-test-tile-and-fuse-vectorize=false" not in tried


def test_kernel_options_are_input_changes() -> None:
    kernel = KernelSpec(None, {}, {}, {}, {"num_warps": 8, "num_stages": 3})
    case = replace(a_case(spec=kernel), compiler="triton")
    changes = first_tier(situation(case, failed("assertion").failure))
    tried = [change.input_change for change in changes if change.input_change]
    assert "num_warps=4" in tried
    assert "num_warps=8" not in tried
    applied = next(
        change for change in changes if change.input_change == "num_warps=4"
    ).applied(case)
    assert isinstance(applied.spec, KernelSpec)
    assert applied.spec.options == {"num_warps": 4, "num_stages": 3}
    assert case.spec is kernel
    assert not [
        change
        for change in first_tier(situation(a_case(), failed("assertion").failure))
        if change.input_change
    ]


BARRIER = ("util.optimization_barrier", {"flow.tensor.transfer"})
HERE, THERE = "#hal.device.promise<@__device_0>", "#hal.device.promise<@__device_1>"
PROGRAM = """"builtin.module"() ({
  "func.func"() <{arg_attrs = [{iree.abi.affinity = HERE}, {}, {name = "n"}], function_type = (tensor<4xf32>, tensor<?x4xf32>, index) -> tensor<4xf32>, sym_name = "f"}> ({
  ^bb0(%arg0: tensor<4xf32>, %arg1: tensor<?x4xf32>, %arg2: index):
    %0 = "flow.tensor.transfer"(%arg0) <{target = THERE}> : (tensor<4xf32>) -> tensor<4xf32>
    %1 = "flow.tensor.transfer"(%arg1, %arg2) <{target = THERE}> : (tensor<?x4xf32>, index) -> tensor<?x4xf32>
    "func.return"(%0) : (tensor<4xf32>) -> ()
  }) : () -> ()
}) : () -> ()
""".replace("HERE", HERE).replace("THERE", THERE)  # fmt: skip


@pytest.fixture
def program() -> Module:
    return parse_module(PROGRAM)


def test_each_transfer_gets_one_barrier(program: Module) -> None:
    assert add_barriers(program, *BARRIER)
    names = [one.name for one in program.functions()[0].regions[0].blocks[0].operations]
    assert names == ["util.optimization_barrier", "flow.tensor.transfer"] * 2 + [
        "func.return"
    ]
    text = print_module(program)
    assert (
        '%0 = "util.optimization_barrier"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>'
        in text
    )
    assert '"flow.tensor.transfer"(%2, %arg2)' in text
    assert not add_barriers(program, *BARRIER)
    assert print_module(program) == text
