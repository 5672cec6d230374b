"""Python programs as syntax trees; kernels together with their specialisation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from triage.compilers.registry import family_of
from triage.model.case import Case
from triage.reduce.draft import Document, Frontend, ReductionPass
from triage.reduce.frontends.case_settings import drop_flags, drop_options, oldest_chip
from triage.reduce.frontends.python import kernel, names, syntax
from triage.reduce.frontends.python.source_tree import PythonDocument, parse_program, undefined_reads

_PROGRAM_PASSES = (
    ReductionPass("statements", syntax.drop_statements),
    ReductionPass("unread values", syntax.drop_unread),
    ReductionPass("calls", names.inline_calls),
    ReductionPass("loops and branches", syntax.open_blocks),
    ReductionPass("names", names.merge_names),
    ReductionPass("values of names", names.inline_names),
    ReductionPass("keywords", syntax.drop_keywords),
    ReductionPass("expressions", syntax.take_parts),
    ReductionPass("folding", syntax.fold),
)
_PLAIN_PASSES = (
    *_PROGRAM_PASSES,
    ReductionPass("numbers", kernel.shrink_numbers, once=True),
    ReductionPass("flags", drop_flags, once=True),
)
_KERNEL_PASSES = (
    ReductionPass("sizes", kernel.shrink_all_constexprs),  # first, because small sizes compile faster
    *_PROGRAM_PASSES,
    ReductionPass("parameters merged", kernel.merge_parameters),
    ReductionPass("parameters", kernel.drop_parameters),
    ReductionPass("options", drop_options),
    ReductionPass("hints", kernel.drop_hints),
    ReductionPass("single sizes", kernel.shrink_constexprs, once=True),  # not before: names of equal sizes can be merged
    ReductionPass("constexprs", kernel.inline_constexprs, once=True),
    ReductionPass("folding of constexprs", syntax.fold, once=True),
    ReductionPass("numbers", kernel.shrink_numbers, once=True),
    ReductionPass("element types", kernel.simpler_types, once=True),
    ReductionPass("chip", oldest_chip, once=True),
    ReductionPass("conversions", syntax.take_parts, once=True),  # with one element type they are not needed
)


class PythonFrontend(Frontend):
    """A program that Python can parse."""

    def __init__(self, case: Case) -> None:
        self.passes = _PLAIN_PASSES if family_of(case).kernel(case) is None else _KERNEL_PASSES
        self._check_names = False  # whether the original defines every name that it reads

    def open(self, path: Path) -> Sequence[Document]:
        tree = parse_program(path.read_bytes())
        if tree is None:
            return ()
        self._check_names = not undefined_reads(tree)
        return (PythonDocument(tree),)

    def approach(self, line: int | None) -> ReductionPass:  # noqa: ARG002 - a kernel's failures rarely point into it
        return _PROGRAM_PASSES[0]

    def valid(self, document: Document) -> bytes | None:
        """Accept what Python compiles, unless it reads undefined names. Starts no process."""
        assert isinstance(document, PythonDocument)
        tree = parse_program(document.content)
        return None if tree is None or (self._check_names and undefined_reads(tree)) else document.content
