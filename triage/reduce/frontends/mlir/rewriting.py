"""The toolchain's own passes as steps of a reduction: folding what is left over, static shapes for dynamic ones, fewer
dimensions.
"""

from __future__ import annotations

from triage.execution.mlir_tools import Reader
from triage.mlir import Module, Operation, UnparsableError, Value, parse_module
from triage.reduce.draft import Draft
from triage.reduce.frontends.mlir.cut import body_of, cut, function_type, pieces
from triage.reduce.frontends.mlir.dimensions import DYNAMIC, dimensions, reshaped
from triage.reduce.frontends.mlir.document import MlirDocument, copy_module, module_of, with_module
from triage.reduce.search import InterestingnessTest

_FOLD = ("--canonicalize", "--cse", "--mlir-print-op-generic")
_UNIT = ("--linalg-fold-unit-extent-dims", *_FOLD)
_STATIC = 64  # in the place of a dimension that is not known; later passes make it smaller


class Rewriting:
    """Passes that a toolchain's `opt` program runs."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def fold(self, draft: Draft, hunt: InterestingnessTest) -> Draft:
        """The program as the compiler's own folding leaves it, where that is smaller."""
        made = self._folded(draft, module_of(draft))
        return (made and made.document.size < draft.document.size and hunt.first([made])) or draft

    def make_static(self, draft: Draft, hunt: InterestingnessTest) -> Draft:
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

    def fewer_ranks(self, draft: Draft, hunt: InterestingnessTest) -> Draft:
        """Values without their dimensions of size 1, where the compiler can do without them and nothing is added for it."""
        folded = self._run(module_of(draft), _UNIT)
        module = _without_edges(folded) if folded else None
        made = with_module(draft, module) if module else None
        fewer = made and _ranks(made) < _ranks(draft) and made.document.size <= draft.document.size
        return (made and fewer and hunt.first([made])) or draft

    def _folded(self, draft: Draft, module: Module) -> Draft | None:
        made = self._run(module, _FOLD)
        return with_module(draft, made) if made else None

    def _run(self, module: Module, passes: tuple[str, ...]) -> Module | None:
        text = self._reader.transformed(MlirDocument(module).text, passes)
        if text is None:
            return None
        try:
            return parse_module(text)
        except UnparsableError:
            return None


def _without_edges(module: Module) -> Module | None:
    """The module's only function without the reshapes of its arguments and results, which take what these make of them
    and give what these are made of; None where there are several functions.
    """
    functions = [(one, block) for one in module.functions() if (block := body_of(one))]
    if len(functions) != 1:
        return None
    [(function, block)] = functions
    maker = {value: one for one in block.operations for value in one.results}
    last = [maker.get(value) for value in block.operations[-1].operands]
    returned = [
        one.operands[0] if one and one.name == "tensor.expand_shape" else value
        for value, one in zip(block.operations[-1].operands, last, strict=True)
    ]
    edges = {one for one in last if one and one.name == "tensor.expand_shape"}
    edges |= {one for one in block.operations if one.name == "tensor.collapse_shape" and one.operands[0] in block.arguments}
    return cut(module, function, [one for one in pieces(function) if one not in edges], returned)


def _ranks(draft: Draft) -> int:
    """All dimensions of all values together."""
    module = module_of(draft)
    blocks = [block for function in module.functions() if (block := body_of(function))]
    values = [value for block in blocks for value in block.arguments] + [
        value for one in module.walk() for value in one.results
    ]
    return sum(len(dimensions(value.type) or []) for value in values)


def _open(draft: Draft) -> int:
    """How many dimensions are not known."""
    return sum((dimensions(value.type) or []).count(DYNAMIC) for one in module_of(draft).walk() for value in one.results)
