"""Passes over ONNX models return valid models that are not larger."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.reduce.made import CASE, lucky, needs, reduced
from triage.reduce.onnx import (
    OnnxProgram,
    drop_nodes,
    free_initializers,
)

STEPS = (drop_nodes, free_initializers)


def chain(length: int) -> OnnxProgram:
    """A chain of nodes that each add a constant, with an output after every third."""
    numbers = range(length)
    kinds = [
        helper.make_tensor_value_info(f"v{number}", TensorProto.FLOAT, [4])
        for number in range(length + 1)
    ]
    nodes = [
        helper.make_node("Add", [f"v{number}", f"c{number}"], [f"v{number + 1}"])
        for number in numbers
    ]
    constants = [
        numpy_helper.from_array(np.full(4, number, np.float32), f"c{number}")
        for number in numbers
    ]
    graph = helper.make_graph(nodes, "chain", kinds[:1], kinds[:0:-3], constants)
    opset = helper.make_opsetid("", 18)
    return OnnxProgram(
        CASE, helper.make_model(graph, opset_imports=[opset], ir_version=8)
    )


@settings(max_examples=20, deadline=None)
@given(length=st.integers(1, 12), luck=st.integers(0, 255))
def test_every_pass_returns_a_valid_model_that_is_not_larger(
    length: int, luck: int
) -> None:
    reduced(chain(length), lucky(luck, 110), STEPS)


def test_one_node_is_left_without_constants() -> None:
    small = reduced(chain(9), needs(b"v4"), STEPS)
    assert isinstance(small, OnnxProgram)
    graph = small.model.graph
    assert (len(graph.node), len(graph.initializer), len(graph.output)) == (1, 0, 1)
