"""Draw a program: operations grouped by device and by the transfers before them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from triage.compilers.iree.lint.placement import chains_of, devices_of
from triage.compilers.iree.lint.program import LintProgram, is_control_flow, is_tensor
from triage.compilers.picture import NodeKind, NodeMark, Picture, PictureEdge, PictureNode, ProgramPicture
from triage.mlir import Block, Operation, Value
from triage.mlir.tree import arguments_of, array_elements

_MOST_NODES = 60  # of one picture; more are drawn as parts
_MOST_VALUES = 16  # arguments or results that are drawn one by one
_MOST_DETAILS = 12
_SHORTEST_CHAIN = 4  # that is worth marking


Place = tuple[int, int]  # line and column of an operation


def chosen_devices(analysed: LintProgram) -> dict[Place, tuple[str, ...]]:
    """The devices that the solver chose for the results of each operation; several where it keeps several."""
    chosen: dict[Place, tuple[str, ...]] = {}
    for operation in analysed.module.walk():
        parts = array_elements((operation.attribute("stream.affinities.results") or "").strip())
        devices = max((tuple(dict.fromkeys(analysed.devices_in(part))) for part in parts), key=len, default=())
        if devices and operation.position:
            chosen.setdefault((operation.position.line, operation.position.column), devices)
    return chosen


def draw(program: LintProgram, chosen: Mapping[Place, tuple[str, ...]]) -> ProgramPicture:
    """The pictures of all functions. chosen: the devices that the affinity solver chose."""
    chains = {function: chain for function, chain in chains_of(program) if len(chain) >= _SHORTEST_CHAIN}
    functions = [
        _Drawing(program, frozenset(chains.get(function, ())), chosen).function(function) for function in program.functions
    ]
    remarks = [
        f"@{function.symbol}: {len(chain)} in-place operations in a row, lines {chain[0].line} to {chain[-1].line}"
        for function, chain in chains.items()
    ]
    if chosen:
        remarks.append("An operation whose device the program does not show is on the device that the solver chose.")
    return ProgramPicture(functions, [device.name for device in devices_of(program)], remarks)


@dataclass(eq=False, slots=True)
class _Group:
    """Operations that are drawn as one node."""

    level: int
    device: str | None
    operations: list[Operation] = field(default_factory=list)
    node: PictureNode | None = None  # of arguments, results and regions


@dataclass(eq=False, slots=True)
class _Flow:
    """What passes along one edge."""

    values: int = 0
    transfers: int = 0
    chained: bool = False


@dataclass(eq=False)
class _Drawing:
    program: LintProgram
    chain: frozenset[Operation]
    chosen: Mapping[Place, tuple[str, ...]]

    @cached_property
    def _chained_values(self) -> frozenset[Value]:
        return frozenset(value for operation in self.chain for value in operation.results)

    def function(self, function: Operation) -> Picture:
        """The picture of a function's first block; further blocks follow it without edges."""
        groups: dict[object, _Group] = {}
        homes: dict[Value, tuple[_Group, int]] = {}
        affinities = self.program.affinities(function, "arg_attrs")
        placed = any(affinities) or any(self.program.affinities(function, "res_attrs"))
        arguments = [value for value in arguments_of(function) if is_tensor(value)]
        positions = {value: index for index, value in enumerate(arguments_of(function))}
        shared = len(arguments) > _MOST_VALUES
        for value in arguments:
            node = _end_node(NodeKind.ARGUMENT, positions[value], value, affinities, placed=placed)
            homes[value] = (_add(groups, ("argument", node.device if shared else positions[value]), node, -1), 0)
        flows: dict[tuple[_Group, _Group], _Flow] = {}
        for block in function.regions[0].blocks:
            self._block(block, groups, homes, flows)
        self._results(function, groups, homes, flows, placed=placed)
        return self._picture(f"@{function.symbol}", list(groups.values()), flows)

    def _results(
        self,
        function: Operation,
        groups: dict[object, _Group],
        homes: Mapping[Value, tuple[_Group, int]],
        flows: dict[tuple[_Group, _Group], _Flow],
        *,
        placed: bool,
    ) -> None:
        end = function.regions[0].blocks[-1].operations[-1]
        affinities = self.program.affinities(function, "res_attrs")
        last = max((group.level for group in groups.values()), default=0) + 1
        tensors = [(index, value) for index, value in enumerate(end.operands) if is_tensor(value)]
        for index, value in tensors:
            node = _end_node(NodeKind.RESULT, index, value, affinities, placed=placed)
            key = ("result", node.device if len(tensors) > _MOST_VALUES else index)
            self._join(homes, flows, [value], _add(groups, key, node, last), chained=False)

    def _block(
        self,
        block: Block,
        groups: dict[object, _Group],
        homes: dict[Value, tuple[_Group, int]],
        flows: dict[tuple[_Group, _Group], _Flow],
    ) -> None:
        """Add a block's operations. homes: value -> where it comes from, and how many transfers moved it since."""
        words = self.program.words
        for operation in block.operations:
            used = [value for value in self.program.uses(operation) if value in homes]
            tensors = [value for value in operation.results if is_tensor(value)]
            if operation.name in words.transfers and operation.operands and operation.operands[0] in homes:
                group, moves = homes[operation.operands[0]]
                homes |= dict.fromkeys(operation.results, (group, moves + 1))
                continue
            if not tensors and not used:
                continue
            if not tensors and operation is block.operations[-1]:
                continue  # what a function or a region returns
            device = next((self.program.placed[value] for value in (*tensors, *used) if value in self.program.placed), None)
            device = device or next(iter(self._chosen(operation)), None)
            sources = [homes[value] for value in used]
            is_region = is_control_flow(operation) and bool(operation.regions)
            level = max((self._level(source, device, is_region) for source in sources), default=0)
            group = groups.setdefault(operation if is_region else (level, device), _Group(level, device))
            group.operations.append(operation)
            if is_region:
                group.node = self._region(operation, device)
            self._join(homes, flows, used, group, chained=operation in self.chain)
            homes |= dict.fromkeys(tensors, (group, 0))

    @staticmethod
    def _level(source: tuple[_Group, int], device: str | None, is_region: bool) -> int:
        group, moves = source
        apart = moves > 0 or is_region or group.device != device or group.node is not None
        return max(0, group.level + apart)

    def _join(
        self,
        homes: Mapping[Value, tuple[_Group, int]],
        flows: dict[tuple[_Group, _Group], _Flow],
        values: Sequence[Value],
        target: _Group,
        *,
        chained: bool,
    ) -> None:
        for value in values:
            if value in homes and homes[value][0] is not target:
                source, moves = homes[value]
                flow = flows.setdefault((source, target), _Flow())
                flow.values += 1
                flow.transfers += moves > 0
                flow.chained |= chained and value in self._chained_values

    def _region(self, operation: Operation, device: str | None) -> PictureNode:
        groups: dict[object, _Group] = {}
        flows: dict[tuple[_Group, _Group], _Flow] = {}
        for region in operation.regions:
            for block in region.blocks:
                homes: dict[Value, tuple[_Group, int]] = {}
                node = PictureNode("carried values", NodeKind.ARGUMENT)
                for value in block.arguments:
                    if is_tensor(value):
                        homes[value] = (_add(groups, ("carried", block), node, -1), 0)
                self._block(block, groups, homes, flows)
        inside = self._picture(_titled(operation), list(groups.values()), flows)
        count = sum(node.count for node in inside.nodes if node.kind is not NodeKind.ARGUMENT)
        marks = self._marks([operation, *(inner for inner in operation.walk())])
        details = (f"line {operation.line}",) if operation.line else ()
        return PictureNode(_titled(operation), NodeKind.REGION, device, count, details, marks, inside if inside.nodes else None)

    def _marks(self, operations: Sequence[Operation]) -> frozenset[NodeMark]:
        chained = any(operation in self.chain for operation in operations)
        choices = [self._choice(operation) for operation in operations]
        undecided, overruled = (
            any(mark is each for mark, _ in filter(None, choices)) for each in (NodeMark.UNDECIDED, NodeMark.OVERRULED)
        )
        return frozenset([NodeMark.CHAIN] * chained + [NodeMark.UNDECIDED] * undecided + [NodeMark.OVERRULED] * overruled)

    def _chosen(self, operation: Operation) -> tuple[str, ...]:
        position = operation.position
        return self.chosen.get((position.line, position.column), ()) if position else ()

    def _choice(self, operation: Operation) -> tuple[NodeMark, str] | None:
        """How the solver's choice differs from what the program shows."""
        devices = self._chosen(operation)
        shown = next((self.program.placed[value] for value in operation.results if value in self.program.placed), None)
        if len(devices) > 1:
            return NodeMark.UNDECIDED, f"line {operation.line}: the solver keeps {' and '.join(f'@{name}' for name in devices)}"
        if devices and shown not in (None, devices[0]):
            return NodeMark.OVERRULED, f"line {operation.line}: the solver chooses @{devices[0]}, the program shows @{shown}"
        return None

    def _picture(self, title: str, groups: Sequence[_Group], flows: Mapping[tuple[_Group, _Group], _Flow]) -> Picture:
        ordered = sorted(groups, key=lambda group: group.level)
        index = {group: number for number, group in enumerate(ordered)}
        edges = [
            PictureEdge(index[source], index[target], flow.values, flow.transfers, flow.chained)
            for (source, target), flow in flows.items()
            if index[source] < index[target]
        ]
        return _bounded(Picture(title, [group.node or self._node(group) for group in ordered], edges))

    def _node(self, group: _Group) -> PictureNode:
        names = Counter(operation.name for operation in group.operations)
        count = len(group.operations)
        lines = [operation.line for operation in group.operations if operation.line]
        details = [f"lines {min(lines)} to {max(lines)}" if len(lines) > 1 else f"line {lines[0]}"] if lines else []
        details += [f"{number} x {name}" for name, number in names.most_common(_MOST_DETAILS)]
        details += [text for _, text in filter(None, map(self._choice, group.operations))][:_MOST_DETAILS]
        title = f"{count} operations" if count > 1 else group.operations[0].name
        return PictureNode(title, NodeKind.OPERATIONS, group.device, count, tuple(details), self._marks(group.operations))


def _end_node(kind: NodeKind, index: int, value: Value, affinities: Sequence[str | None], *, placed: bool) -> PictureNode:
    """The node of an argument or a result. placed: some of the function's have an affinity, so that a missing one is marked."""
    device = affinities[index] if index < len(affinities) else None
    marks = frozenset({NodeMark.NO_AFFINITY}) if placed and device is None else frozenset[NodeMark]()
    return PictureNode(f"{kind} {index}", kind, device, 1, (f"{kind} {index}: {value.type}",), marks)


def _add(groups: dict[object, _Group], key: object, node: PictureNode, level: int) -> _Group:
    """The group of an argument or a result, with those before it that are drawn as the same node."""
    group = groups.get(key)
    if group is None:
        group = groups[key] = _Group(level, node.device, node=node)
    elif group.node is not None and group.node is not node:
        count = group.node.count + 1
        details = (*group.node.details, *node.details)[:_MOST_DETAILS]
        group.node = replace(group.node, title=f"{count} {node.kind}s", count=count, details=details)
    return group


def _titled(operation: Operation) -> str:
    return f"{operation.name}, line {operation.line}" if operation.line else operation.name


def _bounded(picture: Picture) -> Picture:
    """The same picture with at most `_MOST_NODES` nodes: neighbours are drawn as parts with pictures of their own."""
    size = len(picture.nodes)
    if size <= _MOST_NODES:
        return picture
    length = max(-(-size // _MOST_NODES), min(_MOST_NODES // 2, size))
    starts = range(0, size, length)
    nodes = [_part(picture, start, min(start + length, size)) for start in starts]
    flows: dict[tuple[int, int], _Flow] = {}
    for edge in picture.edges:
        source, target = edge.source // length, edge.target // length
        if source != target:
            flow = flows.setdefault((source, target), _Flow())
            flow.values, flow.transfers = flow.values + edge.values, flow.transfers + edge.transfers
            flow.chained |= edge.chained
    edges = [PictureEdge(source, target, flow.values, flow.transfers, flow.chained) for (source, target), flow in flows.items()]
    return _bounded(Picture(picture.title, nodes, edges))


def _part(picture: Picture, start: int, end: int) -> PictureNode:
    nodes = picture.nodes[start:end]
    edges = [
        replace(edge, source=edge.source - start, target=edge.target - start)
        for edge in picture.edges
        if start <= edge.source and edge.target < end
    ]
    count = sum(node.count for node in nodes)
    devices = {node.device for node in nodes}
    title = f"part {start + 1} to {end}"
    marks = frozenset(mark for node in nodes for mark in node.marks)
    details = (f"{count} operations, arguments and results", f"{len(devices - {None})} devices")
    device = devices.pop() if len(devices) == 1 else None
    return PictureNode(
        title, NodeKind.REGION, device, count, details, marks, Picture(f"{picture.title}, {title}", nodes, edges)
    )
