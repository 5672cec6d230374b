"""An ONNX model as what a reduction changes, and cuts of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, ValueInfoProto, checker, defs, helper, shape_inference

from triage.model.case import InputKind
from triage.reduce.draft import Draft, Program
from triage.reduce.fixpoint import PassProgress
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices, plainer_chip
from triage.reduce.search import InterestingnessTest, minimise


class OnnxDocument:
    """A model, never changed in place."""

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
        """What is known of each value's type, inferred where the model does not say."""
        graph = shape_inference.infer_shapes(self.model).graph
        return {one.name: one for one in (*graph.input, *graph.output, *graph.value_info) if one.type.WhichOneof("value")}


def needs(node: NodeProto) -> list[str]:
    """The values a node takes, those that its subgraphs take from outside included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            inside = {name for inner in graph.node for name in inner.output}
            inside |= {one.name for one in graph.input} | {one.name for one in graph.initializer}
            names += [name for inner in graph.node for name in needs(inner) if name not in inside]
    return list(dict.fromkeys(names))


def cut(document: OnnxDocument, kept: Collection[int], returned: Sequence[str] | None = None) -> OnnxDocument | None:
    """The model with the nodes at those places alone: what they need of the others becomes an input, what the others, or
    the caller, needed of them an output. None where a type is not known or nothing is given back.
    """
    graph = document.model.graph
    nodes = [graph.node[at] for at in sorted(set(kept))]
    made = {name for node in nodes for name in node.output if name}
    needed = list(dict.fromkeys(name for node in nodes for name in needs(node) if name not in made))
    if returned is None:
        chosen = {id(node) for node in nodes}
        outside = {name for node in graph.node if id(node) not in chosen for name in needs(node)}
        outside |= {one.name for one in graph.output}
        inside = {name for node in nodes for name in needs(node)}
        ordered = [name for node in nodes for name in node.output if name]
        returned = [name for name in ordered if name in outside] or [name for name in ordered if name not in inside]
    constants = {one.name: one for one in graph.initializer}
    inputs = [name for name in needed if name not in constants]
    types = document.types
    if not returned or any(name not in types for name in (*inputs, *returned)):
        return None
    small = helper.make_graph(
        nodes,
        graph.name or "graph",
        [types[name] for name in inputs],
        [types[name] for name in returned],
        [constants[name] for name in needed if name in constants],
    )
    return OnnxDocument(_model(document.model, small))


def freed(document: OnnxDocument, names: Collection[str]) -> OnnxDocument | None:
    """The model with some initializers as inputs; None where it has none of them."""
    graph = document.model.graph
    chosen = [one for one in graph.initializer if one.name in set(names)]
    if not chosen:
        return None
    given = {one.name for one in graph.input}
    inputs = [helper.make_tensor_value_info(one.name, one.data_type, list(one.dims)) for one in chosen if one.name not in given]
    small = helper.make_graph(
        list(graph.node),
        graph.name,
        [*graph.input, *inputs],
        list(graph.output),
        [one for one in graph.initializer if one.name not in set(names)],
    )
    return OnnxDocument(_model(document.model, small))


def _model(model: ModelProto, graph: onnx.GraphProto) -> ModelProto:
    made = helper.make_model(graph, opset_imports=list(model.opset_import), functions=list(model.functions))
    made.ir_version = model.ir_version
    return made


class OnnxFormat:
    """Nodes and initializers."""

    @property
    def steps(self) -> Sequence[PassProgress]:
        return (
            PassProgress("nodes", drop_nodes),
            PassProgress("outputs", drop_outputs),
            PassProgress("initializers", free_initializers),
        )

    @property
    def finishing(self) -> Sequence[PassProgress]:
        return (PassProgress("devices", fewer_devices), PassProgress("chip", plainer_chip), PassProgress("flags", drop_flags))

    def open(self, path: Path) -> Sequence[Program]:
        try:
            return [OnnxDocument(onnx.load(path))]
        except DecodeError:
            return []

    def approach(self, line: int | None) -> PassProgress:  # noqa: ARG002 - a compiler points into the imported program
        return PassProgress("windows", narrow)

    def valid(self, document: Program) -> bytes | None:
        assert isinstance(document, OnnxDocument)
        try:
            checker.check_model(document.model)
        except (checker.ValidationError, defs.SchemaError):
            return None
        return document.content

    def written(self, document: Program) -> Sequence[bytes]:
        return [document.content]

    def close(self) -> None:
        pass


def narrow(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Halves of the nodes, until neither half fails alone; then what lies between them."""
    while True:
        document = _model_format(draft)
        found = hunt.first(Draft(one, draft.case) for one in _windows(document))
        if found is None:
            return draft
        draft = found


def _windows(document: OnnxDocument) -> Iterator[OnnxDocument]:
    count = len(document.model.graph.node)
    half, quarter = count // 2, count // 4
    for first, end in ((0, half), (half, count), (quarter, quarter + half)) if count > 1 else ():
        if (made := cut(document, range(first, end))) is not None:
            yield made


def drop_nodes(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Drop nodes, halves before single ones; what they made becomes an input."""
    document = _model_format(draft)

    def build(kept: Sequence[int]) -> Draft | None:
        made = cut(document, kept) if kept else None
        return Draft(made, draft.case) if made else None

    _, found = minimise(range(len(document.model.graph.node)), build, hunt, whole=False)
    return found or draft


def drop_outputs(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Give back fewer values, and drop the nodes that then nobody needs."""
    document = _model_format(draft)
    names = [one.name for one in document.model.graph.output]

    def build(returned: Sequence[str]) -> Draft | None:
        made = cut(document, _towards(document, returned), list(returned)) if returned else None
        return Draft(made, draft.case) if made else None

    _, found = minimise(names, build, hunt, whole=False)
    return found or draft


def _towards(document: OnnxDocument, names: Sequence[str]) -> list[int]:
    """The places of the nodes that the values need."""
    needed, chosen = set(names), []
    for at, node in reversed(list(enumerate(document.model.graph.node))):
        if needed & set(node.output):
            chosen.append(at)
            needed.update(needs(node))
    return chosen


def free_initializers(draft: Draft, hunt: InterestingnessTest) -> Draft:
    """Make inputs of initializers, so that the model holds no numbers."""
    document = _model_format(draft)
    names = [one.name for one in document.model.graph.initializer]

    def build(kept: Sequence[str]) -> Draft | None:
        made = freed(document, set(names) - set(kept))
        return Draft(made, draft.case) if made else None

    _, found = minimise(names, build, hunt)
    return found or draft


def _model_format(draft: Draft) -> OnnxDocument:
    assert isinstance(draft.document, OnnxDocument)
    return draft.document
