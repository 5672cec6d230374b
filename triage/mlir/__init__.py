"""MLIR in its generic form as a tree: what every dialect and every version prints alike, read without knowing any of them."""

from triage.mlir.parse import UnparsableError, parse_module
from triage.mlir.printing import print_module
from triage.mlir.tree import Block, Module, Operation, Region, SourcePosition, Value

__all__ = [
    "Block",
    "Module",
    "Operation",
    "Region",
    "SourcePosition",
    "UnparsableError",
    "Value",
    "parse_module",
    "print_module",
]
