"""Barriers that are added to a program."""

from __future__ import annotations

import pytest

from triage.mlir import Module, parse_module, print_module
from triage.remedy.rewrites import add_barriers

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
""".replace("HERE", HERE).replace("THERE", THERE)  # fmt: skip  # noqa: E501


@pytest.fixture
def program() -> Module:
    return parse_module(PROGRAM)


def test_each_transfer_gets_one_barrier(program: Module) -> None:
    assert add_barriers(program, *BARRIER)
    names = [one.name for one in program.functions()[0].regions[0].blocks[0].operations]
    assert names == ["util.optimization_barrier", "flow.tensor.transfer"] * 2 + ["func.return"]
    text = print_module(program)
    assert '%0 = "util.optimization_barrier"(%arg0) : (tensor<4xf32>) -> tensor<4xf32>' in text
    assert '"flow.tensor.transfer"(%2, %arg2)' in text
    assert not add_barriers(program, *BARRIER)
    assert print_module(program) == text
