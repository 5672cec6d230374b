"""The toolchain's own passes as steps of a reduction: folding what is left over, static shapes for dynamic ones."""

from __future__ import annotations

from triage.mlir import Module, Operation, UnparsableError, Value, parse_module
from triage.probe.reading import Reader
from triage.reduce.draft import Draft
from triage.reduce.mlir.copying import copy_module
from triage.reduce.mlir.cut import body_of, function_type
from triage.reduce.mlir.dimensions import DYNAMIC, dimensions, reshaped
from triage.reduce.mlir.document import MlirDocument, module_of, with_module
from triage.reduce.search import Hunt

_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_STATIC = 64  # in the place of a dimension that is not known; later passes make it smaller


class Rewriting:
    """Passes that a toolchain's `opt` program runs."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def fold(self, draft: Draft, hunt: Hunt) -> Draft:
        """The program as the compiler's own folding leaves it, where that is smaller."""
        made = self._folded(draft, module_of(draft))
        return (made and made.document.size < draft.document.size and hunt.first([made])) or draft

    def make_static(self, draft: Draft, hunt: Hunt) -> Draft:
        """A number for each dimension that the arguments leave open, carried on by the compiler's own folding."""
        module, _ = copy_module(module_of(draft))
        changed = False
        for function in module.functions():
            block = body_of(function)
            if block is None:
                continue
            casts = []
            for index, value in enumerate(block.arguments):
                numbers = dimensions(value.type)
                if numbers and DYNAMIC in numbers and value.type.startswith("tensor<"):
                    given = Value(reshaped(value.type, [_STATIC if number == DYNAMIC else number for number in numbers]))
                    casts.append(Operation("tensor.cast", [given], [value]))
                    block.arguments[index] = given
            if casts:
                changed = True
                block.operations[:0] = casts
                named = function.properties if "function_type" in function.properties else function.attributes
                named["function_type"] = function_type(block.arguments, block.operations[-1].operands)
        made = self._folded(draft, module) if changed else None
        return (made and _open(made) < _open(draft) and hunt.first([made])) or draft

    def _folded(self, draft: Draft, module: Module) -> Draft | None:
        text = self._reader.transformed(MlirDocument(module).text, _FOLD)
        if text is None:
            return None
        try:
            return with_module(draft, parse_module(text))
        except UnparsableError:
            return None


def _open(draft: Draft) -> int:
    """How many dimensions are not known."""
    return sum((dimensions(value.type) or []).count(DYNAMIC) for one in module_of(draft).walk() for value in one.results)
