"""A Python program as what a reduction changes."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import cached_property

from triage.compilers.registry import family_of
from triage.model.case import Case, InputKind, KernelSpec
from triage.reduce.draft import Draft
from triage.reduce.frontends.python.source_tree import Edits, edited, functions, statements


class PythonDocument:
    """A syntax tree, shared and never changed: passes build new ones. Comments are no part of it, nor is formatting."""

    kind = InputKind.OTHER
    suffix = "py"
    unit = "statement"

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree

    @cached_property
    def content(self) -> bytes:
        """The program as Python itself writes it, two empty lines around each function."""
        parts, before = [], None
        for one in self.tree.body:
            text = ast.unparse(one).strip("\n")
            wide = isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
            if before is not None:
                parts.append("\n\n" if wide or before else "")
            parts.append(f"{text}\n")
            before = wide
        return "".join(parts).encode("utf-8", "surrogateescape")

    @cached_property
    def size(self) -> int:
        return sum(1 for _ in statements(self.tree))


def tree_of(draft: Draft) -> ast.Module:
    """The tree of a draft whose document is Python."""
    assert isinstance(draft.document, PythonDocument)
    return draft.document.tree


def with_edits(draft: Draft, edits: Edits, case: Case | None = None) -> Draft:
    """The draft with edits made, and another case where one is given."""
    return Draft(PythonDocument(edited(tree_of(draft), edits)), case or draft.case)


def kernel_of(draft: Draft) -> KernelSpec | None:
    """How the draft's kernel is specialised; None for a program that is not a kernel."""
    return family_of(draft.case).kernel(draft.case)


def with_kernel(case: Case, kernel: KernelSpec) -> Case:
    """The case with another specialisation of its kernel."""
    return replace(case, spec=kernel)


def kernel_function(draft: Draft) -> ast.FunctionDef | None:
    """The function that is compiled: the one that is named, or the only one with the arguments that the case names."""
    how = kernel_of(draft)
    if how is None:
        return None
    arguments = {*how.signature, *how.constexprs}
    found = [one for one in functions(tree_of(draft)) if isinstance(one, ast.FunctionDef)]
    fitting = [one for one in found if (one.name == how.name if how.name else set(parameters(one)) == arguments)]
    return fitting[0] if len(fitting) == 1 else None


def parameters(function: ast.FunctionDef) -> list[str]:
    """The names of a function's parameters."""
    given = function.args
    return [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
