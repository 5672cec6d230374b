"""A program as a picture: groups of operations on devices, what moves between them, and what lies inside of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class NodeKind(StrEnum):
    """What a node stands for."""

    ARGUMENT = "argument"
    RESULT = "result"
    OPERATIONS = "operations"
    REGION = "region"  # control flow, or a part of a program that is too large to be drawn at once


class NodeMark(StrEnum):
    """What is remarkable about a node."""

    NO_AFFINITY = "no affinity"
    CHAIN = "longest in-place chain"
    UNDECIDED = "solver keeps several devices"
    OVERRULED = "solver chooses another device"


@dataclass(frozen=True, slots=True)
class PictureNode:
    """A node. device: None when it is not known; count: operations in it; inside: the picture of its region."""

    title: str
    kind: NodeKind
    device: str | None = None
    count: int = 1
    details: tuple[str, ...] = ()
    marks: frozenset[NodeMark] = frozenset()
    inside: Picture | None = None


@dataclass(frozen=True, slots=True)
class PictureEdge:
    """Values that pass from one node to another, by their index in the picture. transfers: how many move to another device;
    chained: whether the longest in-place chain runs along it.
    """

    source: int
    target: int
    values: int
    transfers: int = 0
    chained: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Nodes in an order in which edges point forward."""

    title: str
    nodes: Sequence[PictureNode]
    edges: Sequence[PictureEdge]


@dataclass(frozen=True, slots=True)
class ProgramPicture:
    """The pictures of a program's functions. devices: all of them, in their order; remarks: sentences about all of it."""

    functions: Sequence[Picture]
    devices: Sequence[str]
    remarks: Sequence[str] = ()
