"""ONNX models, read and checked by the onnx package."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import checker, defs

from triage.reduce.draft import Document, Draft
from triage.reduce.loop import Step
from triage.reduce.onnx.document import OnnxDocument, cut, freed, needs
from triage.reduce.search import Hunt, minimise
from triage.reduce.settings import drop_flags, fewer_devices, plainer_chip


class OnnxFormat:
    """Nodes and initializers."""

    @property
    def steps(self) -> Sequence[Step]:
        return (
            Step("nodes", drop_nodes),
            Step("outputs", drop_outputs),
            Step("initializers", free_initializers),
        )

    @property
    def finishing(self) -> Sequence[Step]:
        return (Step("devices", fewer_devices), Step("chip", plainer_chip), Step("flags", drop_flags))

    def open(self, path: Path) -> Sequence[Document]:
        try:
            return [OnnxDocument(onnx.load(path))]
        except DecodeError:
            return []

    def approach(self, line: int | None) -> Step:  # noqa: ARG002 - a compiler points into the imported program
        return Step("windows", narrow)

    def valid(self, document: Document) -> bytes | None:
        assert isinstance(document, OnnxDocument)
        try:
            checker.check_model(document.model)
        except (checker.ValidationError, defs.SchemaError):
            return None
        return document.content

    def written(self, document: Document) -> Sequence[bytes]:
        return [document.content]

    def close(self) -> None:
        pass


def narrow(draft: Draft, hunt: Hunt) -> Draft:
    """Halves of the nodes, until neither half fails alone; then what lies between them."""
    while True:
        document = _model(draft)
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


def drop_nodes(draft: Draft, hunt: Hunt) -> Draft:
    """Drop nodes, halves before single ones; what they made becomes an input."""
    document = _model(draft)

    def build(kept: Sequence[int]) -> Draft | None:
        made = cut(document, kept) if kept else None
        return Draft(made, draft.case) if made else None

    _, found = minimise(range(len(document.model.graph.node)), build, hunt, whole=False)
    return found or draft


def drop_outputs(draft: Draft, hunt: Hunt) -> Draft:
    """Give back fewer values, and drop the nodes that then nobody needs."""
    document = _model(draft)
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


def free_initializers(draft: Draft, hunt: Hunt) -> Draft:
    """Make inputs of initializers, so that the model holds no numbers."""
    document = _model(draft)
    names = [one.name for one in document.model.graph.initializer]

    def build(kept: Sequence[str]) -> Draft | None:
        made = freed(document, set(names) - set(kept))
        return Draft(made, draft.case) if made else None

    _, found = minimise(names, build, hunt)
    return found or draft


def _model(draft: Draft) -> OnnxDocument:
    assert isinstance(draft.document, OnnxDocument)
    return draft.document
