"""Write a program's picture: an HTML page with a drawing for each function and each part, or one SVG image of all functions."""

from __future__ import annotations

import colorsys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

from triage.compilers.picture import Picture, PictureEdge, PictureNode, ProgramPicture
from triage.model.errors import BadInput
from triage.report.elements import plural
from triage.report.markdown import html_templates
from triage.toolchains.home import disk_errors, write_whole

_FORMATS = (".html", ".svg")
_WIDTH, _HEIGHT, _ACROSS, _DOWN, _EDGE = 168, 46, 190, 92, 24  # of a node, between nodes, around a drawing, pixels
_SHOWN = 25  # characters of a title


def check_graph(path: Path, cases: int) -> None:
    """Check that a picture can be written.

    Raises:
        BadInput: It cannot: the file has another format, there are several programs, or the layout library is missing.
    """
    if path.suffix not in _FORMATS:
        raise BadInput(f"--graph {path}: name a file that ends with {' or '.join(_FORMATS)}")
    if cases != 1:
        raise BadInput(f"--graph draws one program, not {cases}: name one program, or choose a case with --case")
    if find_spec("fast_sugiyama") is None:
        raise BadInput("--graph needs a layout library: pip install 'iree-triage[graph]'")


def write_graph(path: Path, picture: ProgramPicture, title: str) -> None:
    """Write the picture in the format that the file's name asks for."""
    drawings = list(_drawings(picture))
    environment = html_templates()
    template = environment.get_template(f"picture/picture{path.suffix}.j2")
    hues = {device: round(360 * index / len(picture.devices) + 210) % 360 for index, device in enumerate(picture.devices)}
    tops = [drawing for drawing in drawings if drawing.parent is None]
    text = template.render(
        title=title,
        drawings=drawings,
        tops=tops,
        offsets=[sum(top.height + 30 for top in tops[:index]) for index in range(len(tops))],
        height=sum(drawing.height + 30 for drawing in tops),
        width=max((drawing.width for drawing in tops), default=100),
        devices=picture.devices,
        hues=hues,
        fills={device: _fill(hue) for device, hue in hues.items()},
        remarks=picture.remarks,
        plural=plural,
    )
    with disk_errors(f"write {path}"):
        write_whole(path, text.encode("utf-8", "replace"))


def _fill(hue: int) -> str:
    red, green, blue = colorsys.hls_to_rgb(hue / 360, 0.88, 0.6)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


@dataclass(frozen=True, slots=True)
class _Box:
    """A node with its place. inside: number of the drawing of its region."""

    node: PictureNode
    x: float
    y: float
    inside: int | None

    @property
    def title(self) -> str:
        return self.node.title if len(self.node.title) <= _SHOWN else f"{self.node.title[: _SHOWN - 1]}…"

    @property
    def second_line(self) -> str:
        return f"@{self.node.device}" if self.node.device else "no device known"

    @property
    def text(self) -> str:
        node = self.node
        marks = [mark.value for mark in sorted(node.marks)]
        return "\n".join([f"{node.title} on {self.second_line}" if node.device else node.title, *marks, *node.details])

    @property
    def classes(self) -> str:
        marks = " ".join(mark.name.lower().replace("_", "-") for mark in sorted(self.node.marks))
        return f"node {self.node.kind} {marks}".strip()


@dataclass(frozen=True, slots=True)
class _Line:
    """An edge as the path of an SVG. x, y: where its label stands."""

    edge: PictureEdge
    path: str
    x: float
    y: float

    @property
    def label(self) -> str:
        return plural(self.edge.transfers, "transfer") if self.edge.transfers else ""

    @property
    def classes(self) -> str:
        return "edge" + " transfer" * bool(self.edge.transfers) + " chain" * self.edge.chained


@dataclass
class _LaidOut:
    """A picture with a layout. number: its place in the page; parent: number of the drawing that it is a part of."""

    picture: Picture
    number: int
    parent: int | None
    inside: Mapping[int, int] = field(default_factory=dict)

    @cached_property
    def layout(self) -> tuple[Mapping[int, tuple[float, float]], Mapping[tuple[int, int], Sequence[tuple[float, float]]]]:
        return layout(len(self.picture.nodes), [(edge.source, edge.target) for edge in self.picture.edges])

    @property
    def boxes(self) -> list[_Box]:
        places = self.layout[0]
        return [_Box(node, *places[index], self.inside.get(index)) for index, node in enumerate(self.picture.nodes)]

    @property
    def lines(self) -> list[_Line]:
        routes = self.layout[1]
        return [_line(edge, routes[edge.source, edge.target]) for edge in self.picture.edges]

    @property
    def width(self) -> float:
        return max((x for x, _ in self.layout[0].values()), default=0) + _WIDTH / 2 + _EDGE

    @property
    def height(self) -> float:
        return max((y for _, y in self.layout[0].values()), default=0) + _HEIGHT / 2 + _EDGE


def _drawings(picture: ProgramPicture) -> Iterator[_LaidOut]:
    """Each function, followed by its parts."""
    number = 0

    def drawn(inner: Picture, parent: int | None) -> Iterator[_LaidOut]:
        nonlocal number
        number += 1
        own, inside, below = number, {}, []
        for index, node in enumerate(inner.nodes):
            if node.inside is not None:
                inside[index] = number + 1
                below += list(drawn(node.inside, own))
        yield _LaidOut(inner, own, parent, inside)
        yield from below

    for function in picture.functions:
        yield from drawn(function, None)


def layout(
    count: int, edges: Sequence[tuple[int, int]]
) -> tuple[dict[int, tuple[float, float]], dict[tuple[int, int], list[tuple[float, float]]]]:
    """Place nodes in layers, and route each edge from node to node. Edges go from smaller to larger numbers."""
    from fast_sugiyama import from_edges  # an extra

    places: dict[int, tuple[float, float]] = {}
    routes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    left = float(_EDGE + _WIDTH / 2)
    # A panic of the library ends the process, and a cycle is one; edges that point forward have none.
    parts = from_edges(edges, minimum_length=1, vertex_spacing=2, dummy_vertices=True) if edges else ()
    for placed, _, _, connections in parts:  # also the width and the height
        nodes = [(int(node), place) for node, place in placed]
        links = [(int(source), int(target)) for source, target in connections or ()]
        corner = min(x for _, (x, _) in nodes)
        top = max(y for _, (_, y) in nodes)
        at = {node: (left + (x - corner) / 2 * _ACROSS, _EDGE + _HEIGHT / 2 + (top - y) * _DOWN) for node, (x, y) in nodes}
        after: dict[int, list[int]] = {}
        for source, target in links:
            after.setdefault(source, []).append(target)
        for node in [node for node, _ in nodes if node < count]:
            places[node] = at[node]
            for first in after.get(node, ()):
                route = [node, first]
                while route[-1] >= count:
                    route += after[route[-1]]
                routes[node, route[-1]] = [at[step] for step in route]
        left = max(x for x, _ in at.values()) + _ACROSS
    alone = [node for node in range(count) if node not in places]
    bottom = max((y for _, y in places.values()), default=_EDGE - _HEIGHT / 2 - (_DOWN - _HEIGHT))
    for index, node in enumerate(alone):
        row, column = divmod(index, 8)
        places[node] = (_EDGE + _WIDTH / 2 + column * _ACROSS, bottom + (row + 1) * _DOWN)
    return places, routes


def _line(edge: PictureEdge, route: Sequence[tuple[float, float]]) -> _Line:
    """A smooth line through a route, from the lower side of the first node to the upper side of the last."""
    points = [(x, y) for x, y in route]
    points[0] = (points[0][0], points[0][1] + _HEIGHT / 2)
    points[-1] = (points[-1][0], points[-1][1] - _HEIGHT / 2)
    path = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.0f},{middle:.0f} {x1:.0f},{middle:.0f} {x1:.0f},{y1:.0f}"
    (x0, y0), (x1, y1) = points[len(points) // 2 - 1], points[len(points) // 2]
    return _Line(edge, path, (x0 + x1) / 2, (y0 + y1) / 2)
