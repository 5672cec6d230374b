"""A module as what a reduction changes."""

from __future__ import annotations

from functools import cached_property

from triage.mlir import Module, print_module
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
