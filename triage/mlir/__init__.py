"""MLIR in its generic form as a tree, independent of dialects and versions."""

from triage.mlir.generic_form import UnparsableError, parse_module, print_module
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
