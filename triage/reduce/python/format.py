"""Python programs as syntax trees; of a kernel how it is specialised as well."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence
from pathlib import Path

from triage.model.case import Case, Kernel
from triage.reduce.draft import Document
from triage.reduce.loop import Step
from triage.reduce.python import calls, expressions, kernel, merging, numbers, statements
from triage.reduce.python.document import PythonDocument
from triage.reduce.python.scope import strangers
from triage.reduce.settings import drop_flags, drop_options, plainer_chip


class PythonFormat:
    """A program that Python can parse."""

    def __init__(self, case: Case) -> None:
        self._is_kernel = isinstance(case.how, Kernel)
        self._names_known = False  # whether the program begins with every name bound, so that it is to stay so

    @property
    def steps(self) -> Sequence[Step]:
        specialised = (
            Step("parameters merged", kernel.merge_parameters),
            Step("parameters", kernel.drop_parameters),
            Step("options", drop_options),
            Step("hints", kernel.drop_hints),
        )
        return (
            *((Step("sizes", numbers.shrink_all_constexprs),) if self._is_kernel else ()),  # small ones are soon compiled
            Step("statements", statements.drop_statements),
            Step("unread values", statements.drop_unread),
            Step("calls", calls.inline_calls),
            Step("loops and branches", statements.open_blocks),
            Step("names", merging.merge_names),
            Step("values of names", merging.inline_names),
            Step("keywords", expressions.drop_words),
            Step("expressions", expressions.take_parts),
            Step("folding", expressions.fold),
            *(specialised if self._is_kernel else ()),
        )

    @property
    def finishing(self) -> Sequence[Step]:
        if not self._is_kernel:
            return (Step("numbers", numbers.shrink_numbers), Step("flags", drop_flags))
        return (
            Step("sizes", numbers.shrink_constexprs),  # one by one only now: names of different sizes are never merged
            Step("constexprs", kernel.put_values_in),
            Step("folding", expressions.fold),
            Step("numbers", numbers.shrink_numbers),
            Step("element types", kernel.plain_types),
            Step("chip", plainer_chip),
            Step("expressions", expressions.take_parts),  # of one type all over, conversions have become needless
        )

    def open(self, path: Path) -> Sequence[Document]:
        tree = parsed(path.read_bytes())
        if tree is None:
            return ()
        self._names_known = not strangers(tree)
        return (PythonDocument(tree),)

    def approach(self, line: int | None) -> Step:  # noqa: ARG002 - a kernel's failures seldom point into it
        return Step("statements", statements.drop_statements)

    def valid(self, document: Document) -> bytes | None:
        """Python compiles it, and no statement reads what nothing gives it. That costs no process."""
        assert isinstance(document, PythonDocument)
        content = document.content
        tree = parsed(content)
        return content if tree is not None and not (self._names_known and strangers(tree)) else None

    def written(self, document: Document) -> Sequence[bytes]:
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
