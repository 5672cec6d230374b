"""A module as what a reduction changes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from triage.mlir import Block, Module, Operation, Region, Value, print_module
from triage.model.case import InputKind
from triage.reduce.draft import Draft


class MlirDocument:
    """A module in its generic form. `module` is shared and never changed: passes build new ones."""

    kind = InputKind.MLIR
    suffix = "mlir"
    unit = "operation"

    def __init__(self, module: Module) -> None:
        self.module = module
        self.canonical: str | None = None  # as the toolchain prints it, once it was asked; empty when it is not valid

    @cached_property
    def text(self) -> str:
        """The generic form, numbered anew, without locations."""
        return print_module(self.module)

    @property
    def content(self) -> bytes:
        return self.text.encode()

    @cached_property
    def size(self) -> int:
        return sum(1 for _ in self.module.walk())


def module_of(draft: Draft) -> Module:
    """The module of a draft whose document is MLIR."""
    assert isinstance(draft.document, MlirDocument)
    return draft.document.module


def with_module(draft: Draft, module: Module) -> Draft:
    """The draft with another module."""
    return Draft(MlirDocument(module), draft.case)


Values = dict[Value, Value]


def copy_operation(operation: Operation, values: Values, blocks: dict[Block, Block] | None = None) -> Operation:
    """A copy whose operands are looked up in `values`, to which its results and inner values are added. A value that is
    not there stays as it is.
    """
    made = Operation(
        operation.name,
        [values.get(value, value) for value in operation.operands],
        properties=dict(operation.properties),
        attributes=dict(operation.attributes),
        successors=[(blocks or {}).get(block, block) for block in operation.successors],
        place=operation.place,
    )
    made.regions = [copy_region(region, values) for region in operation.regions]
    made.results = [_copy_value(value, values) for value in operation.results]
    return made


def copy_region(region: Region, values: Values) -> Region:
    """A copy of a region, its blocks known to each other before their operations are copied."""
    blocks = {block: Block([_copy_value(value, values) for value in block.arguments]) for block in region.blocks}
    if len(blocks) > 1:  # a value may be used in a block that stands before its own
        for block in blocks:
            for operation in block.operations:
                for value in operation.results:
                    _copy_value(value, values)
    for block, made in blocks.items():
        made.operations = [copy_operation(operation, values, blocks) for operation in block.operations]
    return Region(list(blocks.values()))


def copy_module(module: Module) -> tuple[Module, Mapping[Value, Value]]:
    """A copy to be changed, and where each value went."""
    values: Values = {}
    return Module(copy_operation(module.root, values), module.aliases, module.trailer), values


def with_body(module: Module, operations: list[Operation]) -> Module:
    """A module with other operations at its top level."""
    root = module.root
    body = Block(list(module.body.arguments), operations)
    made = Operation(root.name, [], [], dict(root.properties), dict(root.attributes), [Region([body])], [], root.place)
    return Module(made, module.aliases, module.trailer)


def _copy_value(value: Value, values: Values) -> Value:
    if value not in values:
        values[value] = Value(value.type)
    return values[value]
