"""Reduces ONNX models of families that read them, by nodes, outputs and initializers.
IREE imports a model, and the MLIR is reduced.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import (
    ModelProto,
    NodeProto,
    ValueInfoProto,
    checker,
    defs,
    helper,
    shape_inference,
)

from triage.model.case import InputKind
from triage.reduce.problem import Form, ReductionProblem
from triage.reduce.program import Entry, ReducedCase, Reducible, UnreadableError
from triage.reduce.settings import drop_settings


class OnnxProgram(Reducible):
    """A model. Passes build new ones and never change one in place."""

    kind = InputKind.ONNX
    suffix = "onnx"
    unit = "node"

    def __init__(self, model: ModelProto) -> None:
        self.model = model

    @cached_property
    def content(self) -> bytes:
        return bytes(self.model.SerializeToString(deterministic=True))

    @property
    def size(self) -> int:
        return len(self.model.graph.node) + len(self.model.graph.initializer)

    @cached_property
    def types(self) -> dict[str, ValueInfoProto]:
        """The known type of each value, inferred where the model does not state it."""
        graph = shape_inference.infer_shapes(self.model).graph
        held = [
            helper.make_tensor_value_info(value.name, value.data_type, list(value.dims))
            for value in graph.initializer
        ]
        values = (*held, *graph.input, *graph.output, *graph.value_info)
        return {value.name: value for value in values if value.type.WhichOneof("value")}

    def entry(self, name: str | None) -> Entry | None:  # noqa: ARG002 - a model is one function
        graph = self.model.graph
        held = {value.name for value in graph.initializer}
        inputs = [value for value in graph.input if value.name not in held]
        return Entry(None, tuple((value.name, _tensor_type(value)) for value in inputs))

    @property
    def canonical(self) -> bytes | None:
        try:
            checker.check_model(self.model)
        # a name may be any bytes
        except (checker.ValidationError, defs.SchemaError, UnicodeDecodeError):
            return None
        return self.content


def onnx_form(source: Path) -> Form:
    """Return the form of a model."""

    def read() -> Sequence[OnnxProgram]:
        try:
            return [OnnxProgram(onnx.load(source))]
        except DecodeError as error:
            raise UnreadableError("it is not an ONNX model") from error

    passes = (drop_nodes, drop_outputs, free_initializers)
    return Form(read, passes, (drop_settings,))


def _tensor_type(value: ValueInfoProto) -> str:
    """Return the type in MLIR's notation, and `none` for a value that is not a
    tensor.
    """
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return "none"
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    letter = {"b": "i", "i": "i", "u": "ui", "f": "f"}.get(kind.kind, "none")
    sizes = [
        str(size.dim_value) if size.HasField("dim_value") else "?"
        for size in tensor.shape.dim
    ]
    if kind.kind == "b":
        bits = 1
    else:
        bits = 8 * kind.itemsize
    return f"tensor<{'x'.join([*sizes, f'{letter}{bits}'])}>"


def cut_model(
    candidate: ReducedCase,
    kept: Collection[int],
    returned: Sequence[str] | None = None,
    freed: Collection[str] = (),
) -> ReducedCase | None:
    """Return the model with only the nodes at these indices, or None when a type is
    unknown or nothing is returned.

    Values that they need from other nodes become inputs, as do the initializers in
    `freed`. Values that other nodes or the caller need become outputs, unless
    `returned` names them.
    """
    program = onnx_program_of(candidate)
    model, types = program.model, program.types
    graph = model.graph
    nodes = [graph.node[index] for index in sorted(set(kept))]
    results = [name for node in nodes for name in node.output if name]
    read = [name for node in nodes for name in values_read(node)]
    if returned is None:
        chosen = {id(node) for node in nodes}
        outside = {
            name
            for node in graph.node
            if id(node) not in chosen
            for name in values_read(node)
        }
        outside |= {value.name for value in graph.output}
        returned = [name for name in results if name in outside] or [
            name for name in results if name not in set(read)
        ]
    needed = list(dict.fromkeys(name for name in read if name not in set(results)))
    constants = {
        value.name: value for value in graph.initializer if value.name not in freed
    }
    inputs = [name for name in needed if name not in constants]
    if not returned or any(name not in types for name in (*inputs, *returned)):
        return None
    small = helper.make_graph(
        nodes,
        # a name may be any bytes
        graph.name if isinstance(graph.name, str) and graph.name else "graph",
        [types[name] for name in inputs],
        [types[name] for name in returned],
        [constants[name] for name in needed if name in constants],
    )
    built = helper.make_model(
        small, opset_imports=list(model.opset_import), functions=list(model.functions)
    )
    built.ir_version = model.ir_version
    return ReducedCase(OnnxProgram(built), candidate.case)


def values_read(node: NodeProto) -> list[str]:
    """Return the values that a node and its subgraphs read from outside."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {name for inner in graph.node for name in inner.output}
            inside |= {value.name for value in graph.input} | {
                value.name for value in graph.initializer
            }
            names += [
                name
                for inner in graph.node
                for name in values_read(inner)
                if name not in inside
            ]
    return list(dict.fromkeys(names))


def drop_nodes(problem: ReductionProblem) -> None:
    """Drop nodes, halves before single ones. Their outputs become inputs of the
    model.
    """
    start = problem.current
    nodes = range(len(onnx_program_of(start).model.graph.node))
    problem.delete(
        nodes, lambda dropped: cut_model(start, {*nodes}.difference(dropped))
    )


def drop_outputs(problem: ReductionProblem) -> None:
    """Return fewer values, and drop the nodes that are then unused."""
    start = problem.current
    graph = onnx_program_of(start).model.graph
    outputs = [value.name for value in graph.output]

    def without(dropped: Sequence[str]) -> ReducedCase | None:
        returned = [name for name in outputs if name not in dropped]
        needed, chosen = set(returned), list[int]()
        for index, node in reversed(list(enumerate(graph.node))):
            if needed & set(node.output):
                chosen.append(index)
                needed.update(values_read(node))
        return cut_model(start, chosen, returned)

    problem.delete(outputs, without)


def free_initializers(problem: ReductionProblem) -> None:
    """Turn initializers into inputs, so that the model holds no numbers."""
    start = problem.current
    graph = onnx_program_of(start).model.graph
    returned = [value.name for value in graph.output]
    problem.delete(
        [value.name for value in graph.initializer],
        lambda freed: cut_model(start, range(len(graph.node)), returned, freed),
    )


def onnx_program_of(candidate: ReducedCase) -> OnnxProgram:
    """Return the program of a candidate that is an ONNX model."""
    assert isinstance(candidate.program, OnnxProgram)
    return candidate.program
