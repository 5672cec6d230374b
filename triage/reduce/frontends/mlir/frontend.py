"""Reads, checks and writes MLIR modules with a toolchain's own tools."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from triage.execution.mlir_tools import Reader
from triage.mlir.rewrite import dimensions
from triage.mlir.tree import arguments_of
from triage.reduce.engine import Frontend, Pass
from triage.reduce.frontends.case_settings import drop_flags, fewer_devices, oldest_chip
from triage.reduce.frontends.mlir.dimensions import shrink_dimensions
from triage.reduce.frontends.mlir.document import MlirDocument, body_of, cut, needed_for, pieces, reads_unset_values
from triage.reduce.frontends.mlir.operations import (
    bypass_operations,
    drop_arguments,
    drop_operations,
    drop_results,
    inline_calls,
    jump,
    narrow,
    plain_functions,
)
from triage.reduce.frontends.mlir.rewriting import (
    ToolPasses,
    drop_attributes,
    parse_or_none,
    shorten_constants,
    thin_bodies,
    unroll_regions,
    widen_elements,
    with_one_value,
)
from triage.reduce.interestingness import InterestingnessTest
from triage.reduce.program import Candidate, Document, Entry, Origin

_ELIDED = "dense_resource<__elided__>"  # parses, but is not a program
_TENSOR = re.compile(r"tensor<|!torch\.vtensor<")
_MOST_RETURNED = 1 << 22  # elements of all values together
_LARGE = 4 << 20  # bytes of a file from which it is first read without its constants


class MlirFrontend(Frontend):
    """MLIR as text or bytecode."""

    def __init__(self, reader: Reader, *others: Reader) -> None:
        """others: tools of further toolchains. A program is valid only when these accept it, too."""
        self._reader, self._others = reader, others
        tools = ToolPasses(reader)
        self.passes = (
            inline_calls,
            bypass_operations,
            drop_operations,
            drop_results,
            unroll_regions,
            thin_bodies,
            drop_arguments,
            tools.fold,
            shorten_constants,
            tools.make_static,
        )
        self.final_passes = (
            shrink_dimensions,
            tools.fewer_ranks,
            widen_elements,
            plain_functions,
            drop_attributes,
            fewer_devices,
            oldest_chip,
            drop_flags,
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
                document.name_values()
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
        if function is None:
            return None
        alone = len(document.module.functions()) == 1
        origins = [(value.origin, value.type) for value in arguments_of(function)]
        arguments = tuple((origin if isinstance(origin, Origin) else None, type_) for origin, type_ in origins)
        return Entry(None if alone else function.symbol, arguments)

    def is_defined(self, document: Document) -> bool:
        assert isinstance(document, MlirDocument)
        return not reads_unset_values(document.module)

    def returning(self, wanted: Sequence[Origin], *, more: bool) -> tuple[Document, Sequence[Origin]] | None:
        document, keys = wanted[0].document, {origin.key for origin in wanted}
        assert isinstance(document, MlirDocument)
        functions = (function for function in document.module.functions() if body_of(function))
        for function in functions:
            able = [value for operation in pieces(function) for value in operation.results if _TENSOR.match(value.type)]
            if keys.isdisjoint(able):
                continue
            values = able if more else [value for value in able if value in keys]
            sizes = (math.prod(dimensions(value.type) or ()) for value in values)
            if sum(map(abs, sizes)) > _MOST_RETURNED:
                return None
            program = cut(document.module, function, needed_for(function, values), values)
            return (MlirDocument(program), [Origin(document, value) for value in values]) if program else None
        return None

    def written(self, document: Document) -> Sequence[bytes]:
        assert isinstance(document, MlirDocument)
        pretty = self._reader.pretty(document.text)
        return [f"{text.rstrip()}\n".encode() for text in (pretty, document.text) if text]

    def close(self) -> None:
        for reader in (self._reader, *self._others):
            reader.close()
