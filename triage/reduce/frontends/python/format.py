"""Python programs as syntax trees; of a kernel how it is specialised as well."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from pathlib import Path

from triage.compilers.registry import family_of
from triage.model.case import Case
from triage.reduce.draft import Program
from triage.reduce.fixpoint import PassProgress
from triage.reduce.frontends.case_settings import drop_flags, drop_options, plainer_chip
from triage.reduce.frontends.python import calls, expressions, kernel, names, numbers, statements
from triage.reduce.frontends.python.document import PythonDocument
from triage.reduce.frontends.python.source_tree import strangers


class PythonFormat:
    """A program that Python can parse."""

    def __init__(self, case: Case) -> None:
        self._is_kernel = family_of(case).kernel(case) is not None
        self._names_known = False  # whether the program begins with every name bound, so that it is to stay so

    @property
    def steps(self) -> Sequence[PassProgress]:
        specialised = (
            PassProgress("parameters merged", kernel.merge_parameters),
            PassProgress("parameters", kernel.drop_parameters),
            PassProgress("options", drop_options),
            PassProgress("hints", kernel.drop_hints),
        )
        return (
            *(
                (PassProgress("sizes", numbers.shrink_all_constexprs),) if self._is_kernel else ()
            ),  # small ones are soon compiled
            PassProgress("statements", statements.drop_statements),
            PassProgress("unread values", statements.drop_unread),
            PassProgress("calls", calls.inline_calls),
            PassProgress("loops and branches", statements.open_blocks),
            PassProgress("names", names.merge_names),
            PassProgress("values of names", names.inline_names),
            PassProgress("keywords", expressions.drop_words),
            PassProgress("expressions", expressions.take_parts),
            PassProgress("folding", expressions.fold),
            *(specialised if self._is_kernel else ()),
        )

    @property
    def finishing(self) -> Sequence[PassProgress]:
        if not self._is_kernel:
            return (PassProgress("numbers", numbers.shrink_numbers), PassProgress("flags", drop_flags))
        return (
            PassProgress("sizes", numbers.shrink_constexprs),  # one by one only now: names of different sizes are never merged
            PassProgress("constexprs", kernel.put_values_in),
            PassProgress("folding", expressions.fold),
            PassProgress("numbers", numbers.shrink_numbers),
            PassProgress("element types", kernel.plain_types),
            PassProgress("chip", plainer_chip),
            PassProgress("expressions", expressions.take_parts),  # of one type all over, conversions have become needless
        )

    def open(self, path: Path) -> Sequence[Program]:
        tree = parsed(path.read_bytes())
        if tree is None:
            return ()
        self._names_known = not strangers(tree)
        return (PythonDocument(tree),)

    def approach(self, line: int | None) -> PassProgress:  # noqa: ARG002 - a kernel's failures seldom point into it
        return PassProgress("statements", statements.drop_statements)

    def valid(self, document: Program) -> bytes | None:
        """Python compiles it, and no statement reads what nothing gives it. That costs no process."""
        assert isinstance(document, PythonDocument)
        content = document.content
        tree = parsed(content)
        return content if tree is not None and not (self._names_known and strangers(tree)) else None

    def written(self, document: Program) -> Sequence[bytes]:
        return (document.content,)

    def close(self) -> None:
        pass


def parsed(content: bytes) -> ast.Module | None:
    """The tree of a program; None where Python would not compile it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is odd is the program's business
        try:
            tree = ast.parse(content)
            compile(tree, "input.py", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
    return tree
