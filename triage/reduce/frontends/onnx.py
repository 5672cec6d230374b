"""Reduces ONNX models by nodes, outputs and initializers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, ValueInfoProto, checker, defs, helper, shape_inference

from triage.model.case import InputKind
from triage.reduce.engine import Frontend, Pass, greedily, minimise
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices, oldest_chip
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate, Document, Entry


class OnnxDocument:
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
        return {
            value.name: value for value in (*graph.input, *graph.output, *graph.value_info) if value.type.WhichOneof("value")
        }


def needs(node: NodeProto) -> list[str]:
    """Return the values that a node and its subgraphs read from outside."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {name for inner in graph.node for name in inner.output}
            inside |= {value.name for value in graph.input} | {value.name for value in graph.initializer}
            names += [name for inner in graph.node for name in needs(inner) if name not in inside]
    return list(dict.fromkeys(names))


def cut(document: OnnxDocument, kept: Collection[int], returned: Sequence[str] | None = None) -> OnnxDocument | None:
    """Return the model with only the nodes index these indices; None when a type is unknown or nothing is returned.

    Values that they need from other nodes become inputs, values that other nodes or the caller need become outputs.
    """
    graph = document.model.graph
    nodes = [graph.node[index] for index in sorted(set(kept))]
    results = {name for node in nodes for name in node.output if name}
    needed = list(dict.fromkeys(name for node in nodes for name in needs(node) if name not in results))
    if returned is None:
        chosen = {id(node) for node in nodes}
        outside = {name for node in graph.node if id(node) not in chosen for name in needs(node)}
        outside |= {value.name for value in graph.output}
        inside = {name for node in nodes for name in needs(node)}
        ordered = [name for node in nodes for name in node.output if name]
        returned = [name for name in ordered if name in outside] or [name for name in ordered if name not in inside]
    constants = {value.name: value for value in graph.initializer}
    inputs = [name for name in needed if name not in constants]
    types = document.types
    if not returned or any(name not in types for name in (*inputs, *returned)):
        return None
    small = helper.make_graph(
        nodes,
        _name(graph),
        [types[name] for name in inputs],
        [types[name] for name in returned],
        [constants[name] for name in needed if name in constants],
    )
    return OnnxDocument(_model(document.model, small))


def _name(graph: onnx.GraphProto) -> str:
    """Return the graph's name, or another one when it has none or is not text."""
    return graph.name if isinstance(graph.name, str) and graph.name else "graph"


def freed(document: OnnxDocument, names: Collection[str]) -> OnnxDocument | None:
    """Return the model with some initializers as inputs; None when it has none of them."""
    graph = document.model.graph
    chosen = [value for value in graph.initializer if value.name in set(names)]
    if not chosen:
        return None
    existing = {value.name for value in graph.input}
    added = [value for value in chosen if value.name not in existing]
    inputs = [helper.make_tensor_value_info(value.name, value.data_type, list(value.dims)) for value in added]
    small = helper.make_graph(
        list(graph.node),
        _name(graph),
        [*graph.input, *inputs],
        list(graph.output),
        [value for value in graph.initializer if value.name not in set(names)],
    )
    return OnnxDocument(_model(document.model, small))


def _model(model: ModelProto, graph: onnx.GraphProto) -> ModelProto:
    built = helper.make_model(graph, opset_imports=list(model.opset_import), functions=list(model.functions))
    built.ir_version = model.ir_version
    return built


class OnnxFrontend(Frontend):
    """ONNX models."""

    def __init__(self) -> None:
        self.passes = (drop_nodes, drop_outputs, free_initializers)
        self.final_passes = (fewer_devices, oldest_chip, drop_flags)

    def open(self, path: Path) -> Sequence[Document]:
        try:
            return [OnnxDocument(onnx.load(path))]
        except DecodeError:
            return []

    def approach(self, line: int | None) -> Pass:  # noqa: ARG002 - diagnostics point into the imported program
        return narrow

    def entry(self, document: Document, name: str | None) -> Entry | None:  # noqa: ARG002 - a model is one function
        assert isinstance(document, OnnxDocument)
        graph = document.model.graph
        held = {value.name for value in graph.initializer}
        inputs = [value for value in graph.input if value.name not in held]
        return Entry(None, tuple((value.name, _tensor_type(value)) for value in inputs))

    def valid(self, document: Document) -> bytes | None:
        assert isinstance(document, OnnxDocument)
        try:
            checker.check_model(document.model)
        except (checker.ValidationError, defs.SchemaError, UnicodeDecodeError):  # a name may be any bytes
            return None
        return document.content


def _tensor_type(value: ValueInfoProto) -> str:
    """The type in MLIR's notation; a value that is no tensor has the type `none`."""
    tensor = value.type.tensor_type
    if not tensor.elem_type:
        return "none"
    kind = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    letter = {"b": "i", "i": "i", "u": "ui", "f": "f"}.get(kind.kind, "none")
    sizes = [str(size.dim_value) if size.HasField("dim_value") else "?" for size in tensor.shape.dim]
    bits = 1 if kind.kind == "b" else 8 * kind.itemsize
    return f"tensor<{'x'.join([*sizes, f'{letter}{bits}'])}>"


@greedily
def narrow(candidate: Candidate) -> Iterator[Candidate]:
    """Keep one half of the nodes, or the middle, as long as that fails."""
    document = _model_of_candidate(candidate)
    count = len(document.model.graph.node)
    half, quarter = count // 2, count // 4
    for first, end in ((0, half), (half, count), (quarter, quarter + half)) if count > 1 else ():
        if (cut_out := cut(document, range(first, end))) is not None:
            yield Candidate(cut_out, candidate.case)


def drop_nodes(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Drop nodes, halves before single ones. Their outputs become inputs of the model."""
    document = _model_of_candidate(candidate)

    def build(kept: Sequence[int]) -> Candidate | None:
        model_cut = cut(document, kept) if kept else None
        return Candidate(model_cut, candidate.case) if model_cut else None

    return minimise(candidate, range(len(document.model.graph.node)), build, test, whole=False)


def drop_outputs(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Return fewer values, and drop the nodes that are then unused."""
    document = _model_of_candidate(candidate)
    names = [value.name for value in document.model.graph.output]

    def build(returned: Sequence[str]) -> Candidate | None:
        model_cut = cut(document, _towards(document, returned), list(returned)) if returned else None
        return Candidate(model_cut, candidate.case) if model_cut else None

    return minimise(candidate, names, build, test, whole=False)


def _towards(document: OnnxDocument, names: Sequence[str]) -> list[int]:
    """The indices of the nodes that the values depend on."""
    needed, chosen = set(names), []
    for index, node in reversed(list(enumerate(document.model.graph.node))):
        if needed & set(node.output):
            chosen.append(index)
            needed.update(needs(node))
    return chosen


def free_initializers(candidate: Candidate, test: InterestingnessTest) -> Candidate:
    """Turn initializers into inputs, so that the model holds no numbers."""
    document = _model_of_candidate(candidate)
    names = [value.name for value in document.model.graph.initializer]

    def build(kept: Sequence[str]) -> Candidate | None:
        smaller = freed(document, set(names) - set(kept))
        return Candidate(smaller, candidate.case) if smaller else None

    return minimise(candidate, names, build, test)


def _model_of_candidate(candidate: Candidate) -> OnnxDocument:
    assert isinstance(candidate.document, OnnxDocument)
    return candidate.document
