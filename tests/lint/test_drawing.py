"""A program as a picture: what is drawn, where it lies, and the files that are written."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import Triage
from tests.lint.conftest import Read
from tests.lint.programs import hip, sharded
from triage.compilers.iree.lint.drawing import draw
from triage.compilers.picture import NodeKind, NodeMark, Picture, PictureEdge, PictureNode, ProgramPicture
from triage.model.errors import BadInput
from triage.report.picture import check_graph, layout, write_graph

HOSTILE = "</title><script>alert(1)</script>"


def nodes_of(picture: Picture) -> Iterator[PictureNode]:
    for node in picture.nodes:
        yield node
        if node.inside:
            yield from nodes_of(node.inside)


def pictures_of(picture: Picture) -> Iterator[Picture]:
    yield picture
    for node in picture.nodes:
        if node.inside:
            yield from pictures_of(node.inside)


def test_devices_arguments_results_and_transfers_are_drawn(read: Read) -> None:
    [picture] = draw(read(sharded(2, "--layers", "2"), hip(2)), {}).functions
    by_kind = {kind: [node for node in picture.nodes if node.kind is kind] for kind in NodeKind}
    assert {node.device for node in by_kind[NodeKind.OPERATIONS]} - {None} == {"__device_0", "__device_1"}
    assert any(NodeMark.NO_AFFINITY in node.marks for node in by_kind[NodeKind.ARGUMENT])
    assert {node.device for node in by_kind[NodeKind.ARGUMENT] if not node.marks} == {"__device_0", "__device_1"}
    assert len(by_kind[NodeKind.RESULT]) == 1
    moved = [edge for edge in picture.edges if edge.transfers]
    ends = {(picture.nodes[edge.source].device, picture.nodes[edge.target].device) for edge in moved}
    assert {("__device_0", "__device_1"), ("__device_1", "__device_0")} <= ends


def test_the_longest_chain_is_marked_through_its_loops(read: Read) -> None:
    drawn = draw(read(sharded(2, "--layers", "0", "--chain", "for", "--length", "6"), hip(2)), {})
    [picture] = drawn.functions
    loops = [node for node in picture.nodes if node.kind is NodeKind.REGION]
    assert len(loops) == 6
    assert all(NodeMark.CHAIN in loop.marks and loop.inside for loop in loops)
    assert sum(edge.chained for edge in picture.edges) == 5
    assert "12 in-place operations in a row" in drawn.remarks[0]


def test_operations_where_the_solver_keeps_several_devices_are_marked(read: Read) -> None:
    program = read(sharded(2, "--layers", "1"), hip(2))
    operation = next(each for each in program.functions[0].walk() if each.name == "linalg.matmul" and each.position)
    assert operation.position
    place = (operation.position.line, operation.position.column)
    shown = program.placed[operation.results[0]]
    for devices, mark in (
        (("__device_0", "__device_1"), NodeMark.UNDECIDED),
        (("elsewhere",), NodeMark.OVERRULED),
        ((shown,), None),
    ):
        [picture] = draw(program, {place: devices}).functions
        marks = [each for node in picture.nodes for each in node.marks if each in (NodeMark.UNDECIDED, NodeMark.OVERRULED)]
        assert marks == ([mark] if mark else [])


def test_a_large_program_is_drawn_in_parts(read: Read) -> None:
    program = read(sharded(8, "--layers", "12"), hip(8))
    [picture] = draw(program, {}).functions
    assert len(list(pictures_of(picture))) > 2
    for each in pictures_of(picture):
        assert len(each.nodes) <= 60
        assert all(edge.source < edge.target < len(each.nodes) for edge in each.edges)
    drawn = sum(node.count for node in nodes_of(picture) if node.kind is NodeKind.OPERATIONS)
    words = program.words
    tensors = [
        operation
        for operation in program.functions[0].regions[0].blocks[0].operations[:-1]
        if program.uses(operation) or any(value.type.startswith("tensor<") for value in operation.results)
    ]
    assert drawn == sum(operation.name not in words.transfers for operation in tensors)


@given(count=st.integers(1, 30), seed=st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60))
def test_a_layout_places_each_node_once_and_routes_each_edge(count: int, seed: list[tuple[int, int]]) -> None:
    edges = sorted({(a, b) for a, b in seed if a < b < count})
    places, routes = layout(count, edges)
    assert sorted(places) == list(range(count))
    assert len(set(places.values())) == count
    assert sorted(routes) == edges
    for (source, target), route in routes.items():
        assert (route[0], route[-1]) == (places[source], places[target])
        assert places[source][1] < places[target][1]


def test_hostile_names_are_text_in_both_formats(tmp_path: Path) -> None:
    inner = Picture("inner", [PictureNode(HOSTILE, NodeKind.OPERATIONS, HOSTILE)], [])
    nodes = [PictureNode(HOSTILE, NodeKind.ARGUMENT, details=(HOSTILE,)), PictureNode("loop", NodeKind.REGION, inside=inner)]
    picture = ProgramPicture([Picture(HOSTILE, nodes, [PictureEdge(0, 1, 2, 1)])], [HOSTILE], [HOSTILE])
    for name in ("p.html", "p.svg"):
        write_graph(tmp_path / name, picture, HOSTILE)
        assert "<script>alert" not in (tmp_path / name).read_text()
    root = ET.parse(tmp_path / "p.svg").getroot()
    assert sum(element.get("class", "").startswith("node") for element in root.iter()) == 2
    page = (tmp_path / "p.html").read_text()
    assert 'href="#d2"' in page
    assert 'id="d2"' in page
    assert not re.search(r"(?:src|href)=\"(?!#)", page)


def test_the_command_draws_one_program(home: Path, triage: Triage, tmp_path: Path) -> None:
    (tmp_path / "work" / "first.mlir").write_text(sharded(2, "--layers", "1"))
    done = triage("lint", "first.mlir", "--graph", "a.svg")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "work" / "a.svg").exists()


@pytest.mark.parametrize(("name", "cases"), [("a.png", 1), ("a.html", 2)])
def test_a_picture_that_cannot_be_written_is_refused(name: str, cases: int) -> None:
    with pytest.raises(BadInput):
        check_graph(Path(name), cases)
