"""Reduces ONNX models of families that read them, by nodes and initializers. IREE
imports a model, and the MLIR is reduced.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, ValueInfoProto, checker, defs, helper, shape_inference
from onnx.utils import Extractor

from triage.mlir.tree import Value
from triage.model.case import Case
from triage.reduce.problem import (
    Entry,
    Form,
    Program,
    ReductionProblem,
    UnreadableError,
    drop_settings,
)


@dataclass(frozen=True, eq=False)
class OnnxProgram(Program):
    """A model. Passes build new ones and never change one in place."""

    model: ModelProto
    suffix = "onnx"
    unit = "node"

    @cached_property
    def content(self) -> bytes:
        return bytes(self.model.SerializeToString(deterministic=True))

    @property
    def size(self) -> int:
        return len(self.model.graph.node) + len(self.model.graph.initializer)

    @property
    def inputs(self) -> dict[str, ValueInfoProto]:
        """The inputs that hold no constant, by name."""
        # older models list constants among their inputs, too
        held = {value.name for value in self.model.graph.initializer}
        inputs = self.model.graph.input
        return {value.name: value for value in inputs if value.name not in held}

    def entry(self, function: str | None) -> Entry | None:  # noqa: ARG002 - a model has none
        inputs = self.inputs.items()
        return Entry(None, [Value(_tensor_type(value), name) for name, value in inputs])

    @cached_property
    def typed(self) -> ModelProto:
        """The model with the types of all values that are known."""
        model = shape_inference.infer_shapes(self.model)
        model.graph.value_info.extend(
            helper.make_tensor_value_info(value.name, value.data_type, list(value.dims))
            for value in model.graph.initializer
        )
        return model

    @property
    def canonical(self) -> bytes | None:
        try:
            checker.check_model(self.model)
        # a name may be any bytes
        except (checker.ValidationError, defs.SchemaError, UnicodeDecodeError):
            return None
        return self.content


def onnx_form(case: Case, source: Path) -> Form:
    """Return the form of a model."""
    passes = (drop_nodes, free_initializers)
    return Form(_read_model(case, source), passes, (drop_settings,))


def _read_model(case: Case, source: Path) -> Iterator[OnnxProgram]:
    try:
        yield OnnxProgram(case, onnx.load(source))
    except DecodeError as error:
        raise UnreadableError("it is not an ONNX model") from error


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
    bits = 1 if kind.kind == "b" else 8 * kind.itemsize
    return f"tensor<{'x'.join([*sizes, f'{letter}{bits}'])}>"


def drop_nodes(problem: ReductionProblem) -> None:
    """Drop nodes, halves before single ones. Values that the others need from them
    become inputs of the model, and values that no other node reads its outputs.
    """
    start = OnnxProgram.of(problem)
    graph = start.model.graph
    held = {value.name for value in graph.initializer}

    def without(dropped: Sequence[int]) -> OnnxProgram | None:
        nodes = [node for index, node in enumerate(graph.node) if index not in dropped]
        computed = [name for node in nodes for name in node.output if name]
        read = {name for node in nodes for name in node.input if name}
        unread = [name for name in computed if name not in read]
        return _extracted(start, sorted(read.difference(computed, held)), unread)

    problem.delete(range(len(graph.node)), without)


def free_initializers(problem: ReductionProblem) -> None:
    """Turn initializers into inputs, so that the model holds no numbers."""
    start = OnnxProgram.of(problem)
    graph = start.model.graph
    held = [value.name for value in graph.initializer]
    outputs = [value.name for value in graph.output]
    problem.delete(
        held, lambda freed: _extracted(start, [*start.inputs, *freed], outputs)
    )


def _extracted(
    program: OnnxProgram, inputs: Sequence[str], outputs: Sequence[str]
) -> OnnxProgram | None:
    """Return the part of the model between some values; None if the type of one is not
    known, or if it returns nothing.
    """
    try:
        extractor = Extractor(program.typed)
        small = extractor.extract_model(list(inputs), list(outputs))
    except ValueError:
        return None
    constants = small.graph.initializer
    for value in list(constants):
        if value.name in inputs:
            constants.remove(value)
    if outputs:
        return replace(program, model=small)
    return None
