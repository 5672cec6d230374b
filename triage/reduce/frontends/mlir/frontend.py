"""Reads, checks and writes MLIR modules with a toolchain's own tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.mlir.tree import arguments_of
from triage.reduce.engine import Frontend, Pass
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices
from triage.reduce.frontends.mlir.dimensions import shrink_dimensions
from triage.reduce.frontends.mlir.document import MlirDocument, reads_unset_values
from triage.reduce.frontends.mlir.operations import (
    bypass_operations,
    drop_operations,
    drop_results,
    inline_calls,
    jump,
    narrow,
    thin_bodies,
    unroll_regions,
)
from triage.reduce.frontends.mlir.rewriting import (
    ToolPasses,
    drop_attributes,
    parse_or_none,
    shorten_constants,
    widen_elements,
    with_one_value,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate, Document, Entry

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants


class MlirFrontend(Frontend):
    """MLIR as text or bytecode."""

    final_passes = (shrink_dimensions, widen_elements, drop_attributes, fewer_devices, drop_flags)

    def __init__(self, reader: Reader, *others: Reader) -> None:
        """others: tools of further toolchains. A program is valid only when these accept it, too."""
        self._reader, self._others = reader, others
        self._reads_unset = False  # whether the original does
        tools = ToolPasses(reader)
        self.passes = (
            inline_calls,
            bypass_operations,
            drop_operations,
            drop_results,
            unroll_regions,
            thin_bodies,
            tools.fold,
            shorten_constants,
            tools.make_static,
        )

    def open(self, path: Path) -> Iterator[Document]:
        for elide in (True, False) if path.stat().st_size > _LARGE else (False,):
            text = self._reader.generic(path, elide=elide)
            module = parse_or_none(text) if text is not None else None
            if module is not None:
                if elide:
                    for operation in module.walk():
                        for named in (operation.properties, operation.attributes):
                            named.update({name: with_one_value(text) for name, text in named.items()})
                    module.trailer = ""
                document = MlirDocument(module)
                document.name_arguments()
                self._reads_unset = reads_unset_values(module)
                if _ELIDED not in document.text:
                    yield document

    def approach(self, line: int | None) -> Pass:
        def jump_or_narrow(candidate: Candidate, test: InterestingnessTest) -> Candidate:
            return (line and jump(candidate, test, line)) or narrow(candidate, test)

        return jump_or_narrow

    def valid(self, document: Document) -> bytes | None:
        assert isinstance(document, MlirDocument)
        if document.canonical is None:
            text = document.text
            valid = self._reader.valid(text)
            document.canonical = valid if valid and all(other.valid(text) for other in self._others) else ""
        return document.canonical.encode() or None

    def operation_at(self, document: Document, line: int) -> str | None:
        assert isinstance(document, MlirDocument)
        return document.operation_at(line)

    def entry(self, document: Document, name: str | None) -> Entry | None:
        assert isinstance(document, MlirDocument)
        function = document.entry(name)
        if function is None or (reads_unset_values(document.module) and not self._reads_unset):
            return None
        alone = len(document.module.functions()) == 1
        arguments = tuple((value.origin, value.type) for value in arguments_of(function))
        return Entry(None if alone else function.symbol, arguments)

    def written(self, document: Document) -> Sequence[bytes]:
        assert isinstance(document, MlirDocument)
        pretty = self._reader.pretty(document.text)
        return [f"{text.rstrip()}\n".encode() for text in (pretty, document.text) if text]

    def close(self) -> None:
        for reader in (self._reader, *self._others):
            reader.close()
